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
 * *device = the one of that name, which hands out at most `cap_bytes` (0: no cap): "cpu", whose
 * kernels use `threads` threads (0: as many as OpenMP gives), or "cuda" or "cuda:1", an NVIDIA GPU
 * by its number. The GPU is driven by the module plimsoll_cuda.so, looked for where PLIMSOLL_CUDA
 * says, beside the program, and in ../lib/plimsoll; what its context and libraries hold is measured
 * before this returns and is the device's overhead. Owned by the caller.
 * PLM_ERROR_ARGUMENT for an unknown name or too many threads; PLM_ERROR_UNSUPPORTED without module,
 * driver, GPU or library, in one line that says what to install; PLM_ERROR_DEVICE when a library of
 * the device fails; PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_device_open(const char *name, int32_t threads, size_t cap_bytes,
                                        plm_device **device);

/* Nothing of the device may be in use. NULL is allowed. */
void plm_device_destroy(plm_device *device);

/*
 * Whether the same run gives the same bits every time, as at first on the CPU. On a GPU the
 * attention's gradient is summed faster in whichever order its parts come; `wanted` takes the
 * slower, ordered sum. Before a session is made.
 */
void plm_device_be_deterministic(plm_device *device, bool wanted);

/* The precision for training that a device is best at: bf16 where it has it, else fp16, else fp32.
 */
plm_dtype plm_device_precision(const plm_device *device);

#ifdef __cplusplus
}
#endif
#endif
