/* SPDX-License-Identifier: MIT */
/*
 * What the caching policy gives back to the driver. Only a segment that is one free block can go;
 * expandable segments lose the whole pages inside their free blocks instead. All streams are waited
 * for first: a free block may still be in use by work on its own stream.
 */
#include "pool/caching_internal.h"

/* Gives back the segment that this shelved block is the whole of. */
static plm_status release_segment(plm__caching *caching, plm__block *block)
{
    plm_pool *pool = &caching->pool;
    plm__segment *segment = block->segment;
    plm__shelf *shelf = segment->shelf;
    PLM_TRY(plm__source_decommit(pool->source, segment->address, segment->bytes));
    plm__pool_tell(pool, PLM_EVENT_SEGMENT_FREE, shelf, segment->address, segment->bytes);
    plm__pool_stats_subtract(&pool->stats, PLM_POOL_SEGMENT, plm__side(shelf), 1);
    plm__pool_stats_subtract(&pool->stats, PLM_POOL_RESERVED_BYTES, plm__side(shelf),
                             segment->bytes);
    if (segment->bytes >= pool->settings.max_split_bytes)
        pool->stats.oversize_segments.current--;
    pool->stats.num_device_free++;
    plm__shelf_remove(shelf, block);
    plm__slab_give(&pool->slab, block);
    return plm__segment_destroy(pool, segment);
}

static bool is_whole_segment(const plm__block *block)
{
    return !plm__block_is_split(block) && !plm__block_is_expandable(block);
}

/* ---- garbage collection ---- */

typedef struct garbage_sum {
    int64_t age;   /* sum over the blocks that could go */
    int64_t count; /* of them */
    size_t reclaimed_bytes;
} garbage_sum;

static int64_t age_of(const plm__caching *caching, const plm__block *block)
{
    return caching->clock - block->shelved_at;
}

static bool is_default_large(const plm__shelf *shelf)
{
    return shelf->private_pool == 0 && !shelf->is_small;
}

static garbage_sum survey(const plm__caching *caching)
{
    garbage_sum found = {0};
    for (int64_t i = 0; i < caching->pool.shelves.count; i++) {
        const plm__shelf *shelf = caching->pool.shelves.items[i];
        if (!is_default_large(shelf))
            continue;
        for (const plm__block *block = plm__shelf_at_least(shelf, 0, 0); block;
             block = plm__shelf_next(shelf, block)) {
            if (!is_whole_segment(block))
                continue;
            found.age += age_of(caching, block);
            found.count++;
        }
    }
    return found;
}

/* One round: gives back every whole segment that is at least of the average age. */
static plm_status collect_old(plm__caching *caching, double least_age, garbage_sum *garbage)
{
    for (int64_t i = 0; i < caching->pool.shelves.count; i++) {
        plm__shelf *shelf = caching->pool.shelves.items[i];
        if (!is_default_large(shelf))
            continue;
        plm__block *next;
        for (plm__block *block = plm__shelf_at_least(shelf, 0, 0); block; block = next) {
            next = plm__shelf_next(shelf, block);
            int64_t age = age_of(caching, block);
            if (!is_whole_segment(block) || (double)age < least_age)
                continue;
            garbage->reclaimed_bytes += block->bytes;
            garbage->age -= age;
            garbage->count--;
            PLM_TRY(release_segment(caching, block));
        }
    }
    return PLM_OK;
}

plm_status plm__caching_collect(plm__caching *caching)
{
    plm_pool *pool = &caching->pool;
    size_t reserved = plm__pool_stats_current(&pool->stats, PLM_POOL_RESERVED_BYTES);
    size_t threshold = (size_t)(pool->settings.garbage_threshold * (double)plm__pool_allowed(pool));
    if (reserved <= threshold)
        return PLM_OK;
    garbage_sum garbage = survey(caching);
    if (garbage.count == 0)
        return PLM_OK;
    PLM_TRY(plm__source_fence(pool->source));
    size_t before;
    do {
        before = garbage.reclaimed_bytes;
        PLM_TRY(collect_old(caching, (double)garbage.age / (double)garbage.count, &garbage));
    } while (garbage.reclaimed_bytes < reserved - threshold && garbage.count > 0 &&
             garbage.reclaimed_bytes > before);
    return PLM_OK;
}

/* ---- giving back under max_split_size ---- */

plm_status plm__caching_release_oversize(plm__caching *caching, const plm__want *want,
                                         bool *covered)
{
    plm_pool *pool = &caching->pool;
    plm__shelf *shelf = want->shelf;
    size_t limit = pool->settings.max_split_bytes;
    size_t wanted = want->rounded_bytes < limit ? limit : want->rounded_bytes;
    *covered = false;
    plm__block *block = plm__shelf_at_least(shelf, wanted, 0);
    if (block && is_whole_segment(block)) {
        PLM_TRY(plm__source_fence(pool->source));
        PLM_TRY(release_segment(caching, block));
        *covered = true;
        return PLM_OK;
    }
    /* No single block is large enough: several, the largest first. */
    block = plm__shelf_before(shelf, wanted, 0);
    if (block && block->bytes >= limit)
        PLM_TRY(plm__source_fence(pool->source));
    size_t released = 0;
    while (block && block->bytes >= limit && released < wanted) {
        plm__block *smaller = plm__shelf_before(shelf, block->bytes, block->address);
        if (is_whole_segment(block)) {
            released += block->bytes;
            PLM_TRY(release_segment(caching, block));
        }
        block = smaller;
    }
    *covered = released >= wanted;
    return PLM_OK;
}

/* ---- giving back everything ---- */

static plm_status release_shelf(plm__caching *caching, plm__shelf *shelf)
{
    plm__block *next;
    for (plm__block *block = plm__shelf_at_least(shelf, 0, 0); block; block = next) {
        next = plm__shelf_next(shelf, block);
        if (is_whole_segment(block))
            PLM_TRY(release_segment(caching, block));
    }
    /* Shrinking shelves smaller blocks only: they lie before `next` in the order. */
    for (plm__block *block = plm__shelf_at_least(shelf, 0, 0); block; block = next) {
        next = plm__shelf_next(shelf, block);
        if (plm__block_is_expandable(block))
            PLM_TRY(plm__caching_shrink(caching, block));
    }
    return PLM_OK;
}

plm_status plm__caching_release_all(plm__caching *caching)
{
    plm_pool *pool = &caching->pool;
    PLM_TRY(plm__pool_complete_all(pool));
    for (int64_t i = 0; i < pool->shelves.count; i++) {
        plm__shelf *shelf = pool->shelves.items[i];
        if (shelf->private_pool == 0 || shelf->is_released)
            PLM_TRY(release_shelf(caching, shelf));
    }
    return plm__pool_reserve_host(pool);
}
