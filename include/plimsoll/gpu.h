/* SPDX-License-Identifier: MIT */
/*
 * GPUs as data: what the sizes of a program's memory depend on. It stands under "gpu" in a device
 * profile (plimsoll/device_profile.h):
 *
 *     {"name": "h200", "kind": "cuda", "memory_bytes": 150109880320, ...,
 *      "gpu": {"name": "NVIDIA H200", "capability": 90, "multiprocessors": 132, ...},
 *      "sources": {"gpu": "read from one H200 (driver 580)", ...}}
 *
 * Every field is needed there, and has a range. plm_device_profile_find reads the profiles that
 * travel with the library.
 */
#ifndef PLIMSOLL_GPU_H
#define PLIMSOLL_GPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PLM_GPU_NAME_TEXT = 64, PLM_GPU_SOURCE_TEXT = 256 };

/*
 * One row a number: field, least, most, unit or meaning. A capability of 8.9 is 89.
 */
#define PLM_GPU_FIELD_MAP(ROW)                                                                     \
    ROW(capability, 50, 999, "compute capability")                                                 \
    ROW(multiprocessors, 1, 4096, "how many")                                                      \
    ROW(threads_per_multiprocessor, 32, 65536, "at once")                                          \
    ROW(blocks_per_multiprocessor, 1, 1024, "at once")                                             \
    ROW(shared_bytes_per_multiprocessor, 1024, 1 << 30, "bytes")                                   \
    ROW(shared_bytes_per_block_optin, 1024, 1 << 30, "bytes")                                      \
    ROW(registers_per_multiprocessor, 1024, 1 << 30, "of 32 bits")                                 \
    ROW(l2_bytes, 1, 1 << 30, "bytes")                                                             \
    ROW(clock_khz, 1, INT32_MAX, "kHz")                                                            \
    ROW(memory_clock_khz, 1, INT32_MAX, "kHz")                                                     \
    ROW(bus_bits, 1, 65536, "bits")                                                                \
    ROW(context_bytes, 0, INT64_C(1) << 40, "bytes of a context with cuBLAS in use")               \
    ROW(context_cudnn_bytes, 0, INT64_C(1) << 40, "the same with cuDNN in use too")

typedef struct plm_gpu {
    char name[PLM_GPU_NAME_TEXT];     /* as the driver says it: "NVIDIA H200"; "": not told */
    char source[PLM_GPU_SOURCE_TEXT]; /* of these figures, perhaps cut; "": not told */
#define PLM_GPU_FIELD(field, least, most, unit) int64_t field; /* see the list */
    PLM_GPU_FIELD_MAP(PLM_GPU_FIELD)
#undef PLM_GPU_FIELD
} plm_gpu;

#ifdef __cplusplus
}
#endif
#endif
