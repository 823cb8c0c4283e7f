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
 * *device = the one of that name, "cpu" for now, which hands out at most `cap_bytes` (0: no cap).
 * Kernels on the CPU use `threads` threads (0: as many as OpenMP gives). Owned by the caller.
 * PLM_ERROR_ARGUMENT for an unknown name or too many threads, PLM_ERROR_UNSUPPORTED for a device
 * that this build cannot drive ("cuda", "cuda:1"), PLM_ERROR_DEVICE when a library of the device
 * fails, PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_device_open(const char *name, int32_t threads, size_t cap_bytes,
                                        plm_device **device);

/*
 * *device = NVIDIA GPU number `ordinal`, from 0, that hands out at most `cap_bytes` (0: no cap), by
 * the module plimsoll_cuda.so, which is looked for beside the program, in ../lib/plimsoll, and
 * where PLIMSOLL_CUDA says. What the context and the libraries hold is measured before this
 * returns and is the device's overhead. Owned by the caller. PLM_ERROR_UNSUPPORTED without module,
 * driver, GPU or library, in one line that says what to install; PLM_ERROR_DEVICE.
 */
PLM_MUST_USE plm_status plm_device_create_cuda(int32_t ordinal, size_t cap_bytes,
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
