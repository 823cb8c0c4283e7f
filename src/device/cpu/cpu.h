/* SPDX-License-Identifier: MIT */
/* Opening the CPU. */
#ifndef PLM_DEVICE_CPU_CPU_H
#define PLM_DEVICE_CPU_CPU_H

#include "device/device.h"

/* As plm_device_open. */
PLM_MUST_USE plm_status plm__cpu_create(int32_t threads, size_t cap_bytes, plm_device **device);

#endif
