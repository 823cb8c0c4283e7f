/* SPDX-License-Identifier: MIT */
/*
 * Memory of the devices that are not there: where each allocation lies, what each device has used,
 * and when it is full. Every function takes the process's lock itself and returns a status of
 * cudaError_t's values.
 *
 * A device counts whole granules of 2 MiB, as the driver does. Used and context bytes never exceed
 * its memory: a request that would is refused, as on the card.
 */
#ifndef PLM_PHANTOM_MEMORY_H
#define PLM_PHANTOM_MEMORY_H

#include "phantom/ranges.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    PLM_CUDA_OK = 0,
    PLM_CUDA_INVALID_VALUE = 1,
    PLM_CUDA_OUT_OF_MEMORY = 2,
    PLM_CUDA_INVALID_DEVICE = 101,
    PLM_CUDA_NO_CODE = 209,
    PLM_CUDA_FILE_NOT_FOUND = 301,
    PLM_CUDA_INVALID_HANDLE = 400,
    PLM_CUDA_NOT_FOUND = 500,
    PLM_CUDA_ALREADY_REGISTERED = 712,
    PLM_CUDA_NOT_SUPPORTED = 801,
    PLM_CUDA_CAPTURE_UNSUPPORTED = 900,
    PLM_CUDA_CAPTURE_UNMATCHED = 903,
};

/* What a pool of cudaMallocAsync holds. */
struct plm_pool_use {
    size_t reserved_bytes, reserved_high_bytes;
    size_t used_bytes, used_high_bytes;
};

/* cudaMalloc on `device`. No bytes give NULL. */
int plm__memory_take(int device, size_t bytes, void **address);

/* cudaMallocAsync on `device`, from the device's default pool. */
int plm__memory_take_pooled(int device, size_t bytes, void **address);

/* Gives back what one of the two took. NULL is nothing. */
int plm__memory_give(void *address);

/* Gives the pool's free granules back to the device. */
void plm__memory_trim_pool(int device);

struct plm_pool_use plm__memory_pool_use(int device);

/* From here on the pool's highest reserved, or used, bytes are counted anew. */
void plm__memory_forget_pool_high(int device, bool reserved);

/* cudaHostAlloc, and cudaHostRegister for memory that is the caller's own. */
int plm__memory_take_pinned(size_t bytes, void **address);
int plm__memory_register(void *address, size_t bytes);
/* Gives back what either of the two took. */
int plm__memory_give_pinned(void *address);

/* Copies the range that holds `address` to `range`; false where none does. Of a virtual reservation
 * only what is mapped is memory, and neighbours that are mapped count as one range. */
bool plm__memory_look(const void *address, struct plm_range *range);

/* Whether the range is memory of a device, mapped or not. */
bool plm__memory_is_device(const struct plm_range *range);

size_t plm__memory_free_bytes(int device);

/* For virtual memory (vmm.c), with the lock held: counts `bytes`, whole granules, as used; false
 * where the device has less. uncount gives the bytes back. */
bool plm__memory_count(int device, size_t bytes);
void plm__memory_uncount(int device, size_t bytes);

/* All ranges but what is mapped, and what is mapped within virtual reservations. With the lock
 * held. */
extern struct plm_ranges plm__memory_ranges, plm__memory_mapped;

#endif
