/* SPDX-License-Identifier: MIT */
/* What the files of the caching policy share. */
#ifndef PLM_POOL_CACHING_INTERNAL_H
#define PLM_POOL_CACHING_INTERNAL_H

#include "pool/pool_internal.h"

typedef struct plm__caching {
    plm_pool pool; /* first: a caching pool is a pool */
    int64_t clock; /* searches of the default large pool while garbage is collected: ages */
} plm__caching;

/* One request on its way through the ladder. */
typedef struct plm__want {
    plm__shelf *shelf;
    size_t asked_bytes;
    size_t rounded_bytes;
    size_t segment_bytes; /* what is asked of the driver */
    bool capturing;
} plm__want;

static inline bool plm__block_is_split(const plm__block *block)
{
    return block->previous || block->next;
}

static inline bool plm__block_is_expandable(const plm__block *block)
{
    return block->segment->page_bytes != 0;
}

static inline bool plm__collects_garbage(const plm_pool *pool)
{
    return pool->settings.garbage_threshold > 0.0 && pool->settings.memory_fraction > 0.0;
}

/* Puts a free block on its shelf, its age beginning now. */
static inline void plm__caching_shelve(plm__caching *caching, plm__block *block)
{
    block->state = PLM_POOL_BLOCK_FREE;
    block->shelved_at = caching->clock;
    plm__shelf_insert(block->segment->shelf, block);
}

/*
 * Joins `other`, a neighbour of `block` or NULL, to it when both are free, or both are unmapped,
 * and gives the bytes that this added. `other` leaves its place; `block` is in none.
 */
size_t plm__caching_merge(plm__caching *caching, plm__block *block, plm__block *other);

/* *block = a free block, in no place, taken from the driver. PLM_ERROR_DEVICE_MEMORY. */
PLM_MUST_USE plm_status plm__caching_expand(plm__caching *caching, const plm__want *want,
                                            plm__block **block);

/* Unmaps the whole pages inside a free block of an expandable segment, and ends the segment when
 * nothing of it is left. */
PLM_MUST_USE plm_status plm__caching_shrink(plm__caching *caching, plm__block *block);

/* Puts an unmapped block, and takes it, among the unmapped ones of its shelf. */
void plm__unmapped_insert(plm__shelf *shelf, plm__block *block);
void plm__unmapped_remove(plm__shelf *shelf, plm__block *block);

/* Gives the old and large unsplit blocks of the default pool back, down to the threshold. */
PLM_MUST_USE plm_status plm__caching_collect(plm__caching *caching);

/* With max_split_size: gives back oversize blocks until the request is covered. */
PLM_MUST_USE plm_status plm__caching_release_oversize(plm__caching *caching, const plm__want *want,
                                                      bool *covered);

/* Waits for all streams and gives back everything that is wholly free. */
PLM_MUST_USE plm_status plm__caching_release_all(plm__caching *caching);

/* The unit in which expandable segments of the small and the large pool are mapped. */
size_t plm__caching_page_bytes(const plm_pool *pool, bool is_small);

PLM_MUST_USE plm_status plm__caching_adopt_segment(plm_pool *pool, plm__shelf *shelf,
                                                   const plm_pool_block *blocks, int64_t count);

bool plm__caching_is_valid(const plm_pool *pool);

#endif
