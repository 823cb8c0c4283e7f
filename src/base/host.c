/* SPDX-License-Identifier: MIT */
/*
 * Host memory: malloc with a 16-byte header that holds the size, counters, and a switch that lets
 * the n-th call fail. The counters are process-wide on purpose: a leak is a property of the
 * process.
 */
#include "base/host.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/trip.h"

typedef union header {
    size_t bytes;
    char align[16];
} header;

static atomic_size_t live_bytes;
static atomic_llong live_count;
static atomic_llong alloc_calls;
static plm_trip trip;

static bool fails_now(void)
{
    atomic_fetch_add(&alloc_calls, 1);
    return plm__trip_hit(&trip);
}

bool plm__host_fail_at(int64_t n, bool persistent)
{
    return plm__trip_set(&trip, n, persistent);
}

plm_host_stats plm__host_stats_get(void)
{
    return (plm_host_stats){.live_bytes = atomic_load(&live_bytes),
                            .live_count = atomic_load(&live_count),
                            .alloc_calls = atomic_load(&alloc_calls)};
}

/* Both allocating forms end here. Returns NULL on failure and leaves `block` as it was. */
static void *resize(void *block, size_t bytes)
{
    if (fails_now() || bytes > SIZE_MAX - sizeof(header))
        return NULL;
    header *old = block ? (header *)block - 1 : NULL;
    size_t old_bytes = old ? old->bytes : 0;
    header *head = realloc(old, sizeof(header) + bytes);
    if (!head)
        return NULL;
    if (bytes > old_bytes)
        memset((char *)(head + 1) + old_bytes, 0, bytes - old_bytes);
    head->bytes = bytes;
    atomic_fetch_add(&live_bytes, bytes - old_bytes); /* wraps modulo SIZE_MAX + 1, as intended */
    if (!old)
        atomic_fetch_add(&live_count, 1);
    return head + 1;
}

static plm_status refuse(size_t bytes)
{
    plm_oom_record oom = {
        .asked_bytes = bytes, .rounded_bytes = bytes, .live_bytes = atomic_load(&live_bytes)};
    plm_status status =
        plm_fail(PLM_ERROR_HOST_MEMORY, "out of host memory: wanted %zu bytes, %zu are in use",
                 bytes, oom.live_bytes);
    plm__fail_oom(&oom);
    return status;
}

void *plm__host_malloc(size_t bytes)
{
    return resize(NULL, bytes);
}

plm_status plm__host_realloc(size_t bytes, void *block)
{
    void *old;
    memcpy(&old, block, sizeof old); /* the caller's pointer has its own type */
    void *grown = resize(old, bytes);
    if (!grown)
        return refuse(bytes);
    memcpy(block, &grown, sizeof grown);
    return PLM_OK;
}

plm_status plm__host_alloc(size_t bytes, void *out)
{
    void *block = NULL;
    if (bytes > 0)
        PLM_TRY(plm__host_realloc(bytes, &block));
    memcpy(out, &block, sizeof block);
    return PLM_OK;
}

void plm__host_free(void *block)
{
    if (!block)
        return;
    header *head = (header *)block - 1;
    atomic_fetch_sub(&live_bytes, head->bytes);
    atomic_fetch_sub(&live_count, 1);
    free(head);
}

void plm_free(void *block)
{
    plm__host_free(block);
}
