/* SPDX-License-Identifier: MIT */
/*
 * Host memory for metadata. Everything that the library allocates on the host comes from here, so
 * that tests can count it and make the n-th call fail. Tensor data never does: that is the
 * device's. Blocks are aligned to 16 bytes. Thread-safe.
 */
#ifndef PLM_BASE_HOST_H
#define PLM_BASE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* *out becomes a block of `bytes` zeroed bytes, owned by the caller; NULL for 0 bytes.
 * PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__host_alloc(size_t bytes, void *out);

/*
 * Grows or shrinks *block (NULL: allocates) to `bytes`; bytes beyond the old size are zero. On
 * failure *block is as it was. `block` is the address of the caller's pointer.
 */
PLM_MUST_USE plm_status plm__host_realloc(size_t bytes, void *block);

/* Frees a block; NULL is allowed. */
void plm__host_free(void *block);

/* The plain malloc-like form for libraries that want one (jansson). NULL on failure. */
void *plm__host_malloc(size_t bytes);

typedef struct plm_host_stats {
    size_t live_bytes;   /* asked bytes of blocks not yet freed */
    int64_t live_count;  /* blocks not yet freed */
    int64_t alloc_calls; /* allocating calls so far, failed ones included */
} plm_host_stats;

plm_host_stats plm__host_stats_get(void);

/*
 * For tests: lets the n-th allocating call from now fail (n = 1 is the next); `persistent` lets
 * every later one fail too. n = 0 switches failing off. Returns whether the last setting had fired.
 */
bool plm__host_fail_at(int64_t n, bool persistent);

#endif
