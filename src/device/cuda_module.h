/* SPDX-License-Identifier: MIT */
/*
 * The seam between the program and plimsoll_cuda.so, which is loaded at run time. The module shares
 * no symbol with the program: what it needs of the program it is given as functions, and it exports
 * one function itself.
 */
#ifndef PLM_DEVICE_CUDA_MODULE_H
#define PLM_DEVICE_CUDA_MODULE_H

#include <stddef.h>
#include <stdint.h>

#include "plimsoll/device.h"

/* What the program lends the module; it must stay as long as the module is loaded. */
typedef struct plm_cuda_host {
    void (*fail)(const char *file, int line, plm_status status, const char *message);
    void (*fail_oom)(const plm_oom_record *oom);
    void (*bug)(const char *file, int line, const char *message);
    plm_status (*alloc)(size_t bytes, void *out);
    plm_status (*realloc)(size_t bytes, void *block);
    void (*free)(void *block);
    const char *(*environment)(const char *variable); /* NULL where it is not set */
    /* *bytes = what this process holds on the device of that PCI bus id; PLM_ERROR_UNSUPPORTED
     * where NVML does not say. */
    plm_status (*process_bytes)(const char *bus_id, size_t *bytes);
} plm_cuda_host;

typedef struct plm_cuda_wanted {
    int32_t ordinal;  /* which GPU, from 0 */
    size_t cap_bytes; /* 0: no cap */
} plm_cuda_wanted;

/*
 * *device = the GPU, its context made, every kernel and library loaded and run once, its overhead
 * measured; no arena yet. PLM_ERROR_UNSUPPORTED without a driver, a GPU or a library, in one line
 * that says what to install; PLM_ERROR_DEVICE.
 */
typedef plm_status plm_cuda_open(const plm_cuda_host *host, const plm_cuda_wanted *wanted,
                                 plm_device **device);

#define PLM_CUDA_OPEN "plm__cuda_open"

#endif
