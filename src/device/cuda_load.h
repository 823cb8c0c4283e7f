/* SPDX-License-Identifier: MIT */
/* Opening an NVIDIA GPU through the module that is loaded for it. */
#ifndef PLM_DEVICE_CUDA_LOAD_H
#define PLM_DEVICE_CUDA_LOAD_H

#include "plimsoll/device.h"

/* As plm_device_open, for GPU number `ordinal`. */
PLM_MUST_USE plm_status plm__cuda_create(int32_t ordinal, size_t cap_bytes, plm_device **device);

#endif
