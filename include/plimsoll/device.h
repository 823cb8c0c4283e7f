/* SPDX-License-Identifier: MIT */
/*
 * Devices: where a plan runs, and what it is planned for. A device hands out memory up to a hard
 * cap of its own and counts what it hands out; that count is what a run reports as measured. One
 * thread drives a device.
 */
#ifndef PLIMSOLL_DEVICE_H
#define PLIMSOLL_DEVICE_H

#include <stdbool.h>

#include "plimsoll/dtype.h"
#include "plimsoll/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plm_device plm_device;

/*
 * *device = the CPU with `threads` threads (0: as many as OpenMP gives) that hands out at most
 * `cap_bytes` (0: no cap). Owned by the caller. PLM_ERROR_DEVICE when the product library fails.
 */
PLM_MUST_USE plm_status plm_device_create_cpu(int32_t threads, size_t cap_bytes,
                                              plm_device **device);

/* Nothing of the device may be in use. NULL is allowed. */
void plm_device_destroy(plm_device *device);

/* The precision for training that a device is best at: bf16 where it has it, else fp16, else fp32.
 */
plm_dtype plm_device_precision(const plm_device *device);

#ifdef __cplusplus
}
#endif
#endif
