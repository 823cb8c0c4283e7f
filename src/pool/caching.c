/* SPDX-License-Identifier: MIT */
/*
 * The caching policy: PyTorch's rules for finding, splitting and merging blocks, and the ladder
 * that a request climbs when no cached block fits. What is given back to the driver, and when, is
 * in caching_release.c; segments that grow page by page are in caching_expand.c.
 */
#include "pool/caching_internal.h"

/* ---- finding a cached block ---- */

/* What a block of an expandable segment could hold: itself and the unmapped addresses behind it. */
static size_t expandable_bytes(const plm__block *block)
{
    bool can_grow = block->next && block->next->state == PLM_POOL_BLOCK_UNMAPPED;
    return block->bytes + (can_grow ? block->next->bytes : 0);
}

/* Best fit counts what a block could grow to, so that the end of a segment is used last. */
static plm__block *prefer_least_growth(const plm__shelf *shelf, plm__block *block)
{
    while (plm__block_is_expandable(block)) {
        plm__block *next = plm__shelf_next(shelf, block);
        if (!next || expandable_bytes(next) >= expandable_bytes(block))
            break;
        block = next;
    }
    return block;
}

static plm__block *skip_expandable(const plm__shelf *shelf, plm__block *block)
{
    while (block && plm__block_is_expandable(block))
        block = plm__shelf_next(shelf, block);
    return block;
}

/* The cached block for this request, taken off its shelf; NULL when none may be used. */
static plm__block *take_cached(plm__caching *caching, const plm__want *want)
{
    const plm_pool_settings *settings = &caching->pool.settings;
    plm__shelf *shelf = want->shelf;
    size_t wanted = want->rounded_bytes;
    if (plm__collects_garbage(&caching->pool) && !shelf->is_small && shelf->private_pool == 0)
        caching->clock++;
    plm__block *block = plm__shelf_at_least(shelf, wanted, 0);
    if (block && plm__block_is_expandable(block))
        block = settings->expandable_segments ? prefer_least_growth(shelf, block)
                                              : skip_expandable(shelf, block);
    if (!block)
        return NULL;
    /* An oversize block is kept for oversize requests, and for those not much smaller than it. */
    if (wanted < settings->max_split_bytes) {
        if (block->bytes >= settings->max_split_bytes)
            return NULL;
    } else if (block->bytes - wanted >= settings->max_non_split_bytes) {
        return NULL;
    }
    plm__shelf_remove(shelf, block);
    return block;
}

/* ---- the ladder ---- */

static plm_status take_segment(plm__caching *caching, const plm__want *want, plm__block **taken)
{
    plm_pool *pool = &caching->pool;
    plm__segment *segment;
    PLM_TRY(plm__segment_create(pool, want->shelf, want->segment_bytes, 0, &segment));
    plm_status status = plm__source_commit(pool->source, segment->address, segment->bytes);
    if (status != PLM_OK) {
        PLM_TRY(plm__segment_destroy(pool, segment));
        return status;
    }
    plm__block *block = plm__slab_take(&pool->slab);
    *block = (plm__block){.address = segment->address, .bytes = segment->bytes, .segment = segment};
    segment->first = block;
    plm_pool_side side = plm__side(want->shelf);
    plm__pool_stats_add(&pool->stats, PLM_POOL_SEGMENT, side, 1);
    plm__pool_stats_add(&pool->stats, PLM_POOL_RESERVED_BYTES, side, segment->bytes);
    if (segment->bytes >= pool->settings.max_split_bytes)
        plm__pool_stat_add(&pool->stats.oversize_segments, 1);
    pool->stats.num_device_alloc++;
    plm__pool_tell(pool, PLM_EVENT_SEGMENT_ALLOC, want->shelf, segment->address, segment->bytes);
    *taken = block;
    return PLM_OK;
}

/* The driver is not asked for what the memory fraction forbids. */
static plm_status take_from_driver(plm__caching *caching, const plm__want *want, plm__block **block)
{
    size_t allowed = plm__pool_allowed(&caching->pool);
    size_t reserved = plm__pool_stats_current(&caching->pool.stats, PLM_POOL_RESERVED_BYTES);
    PLM_FAIL_IF(reserved > allowed || want->segment_bytes > allowed - reserved,
                PLM_ERROR_DEVICE_MEMORY, "the memory fraction allows %zu bytes, %zu are reserved",
                allowed, reserved);
    return caching->pool.settings.expandable_segments ? plm__caching_expand(caching, want, block)
                                                      : take_segment(caching, want, block);
}

/* The largest request that would succeed now: a cached block, or what the budget leaves. */
static size_t largest_free(const plm__caching *caching, const plm__want *want)
{
    const plm__block *block = plm__shelf_before(want->shelf, PLM_POOL_LARGEST_BYTES, 0);
    size_t cached = block ? block->bytes : 0;
    size_t allowed = plm__pool_allowed(&caching->pool);
    size_t total = caching->pool.source->total_bytes;
    size_t budget = allowed < total ? allowed : total;
    size_t reserved = plm__pool_stats_current(&caching->pool.stats, PLM_POOL_RESERVED_BYTES);
    size_t room = budget > reserved ? budget - reserved : 0;
    if (room >= want->segment_bytes) /* refused all the same: others hold that room */
        room = 0;
    size_t fresh = room >= PLM_POOL_MEDIUM_BYTES ? room & ~(PLM_POOL_PAGE_BYTES - 1)
                   : room >= PLM_POOL_PAGE_BYTES ? PLM_POOL_SMALL_BYTES
                                                 : 0;
    return cached > fresh ? cached : fresh;
}

/*
 * No cached block fits: collect garbage; ask the driver; give oversize blocks back and ask again;
 * give everything back and ask again; fail. The cache is not searched again after it was given
 * back, though waiting for the streams may have freed a fitting block: PyTorch does not either.
 */
static plm_status climb_ladder(plm__caching *caching, const plm__want *want, plm__block **block)
{
    plm_pool *pool = &caching->pool;
    if (plm__collects_garbage(pool))
        PLM_TRY(plm__caching_collect(caching));
    plm_status status = take_from_driver(caching, want, block);
    if (status == PLM_ERROR_DEVICE_MEMORY && pool->settings.max_split_bytes != SIZE_MAX) {
        bool covered;
        PLM_TRY(plm__caching_release_oversize(caching, want, &covered));
        if (covered)
            status = take_from_driver(caching, want, block);
    }
    if (status == PLM_ERROR_DEVICE_MEMORY && !want->capturing) {
        PLM_TRY(plm__caching_release_all(caching));
        pool->stats.num_alloc_retries++;
        status = take_from_driver(caching, want, block);
    }
    if (status == PLM_ERROR_DEVICE_MEMORY)
        return plm__pool_out_of_memory(pool, want->shelf, want->asked_bytes, want->rounded_bytes,
                                       want->segment_bytes, largest_free(caching, want));
    return status;
}

/* ---- splitting and merging ---- */

static bool is_worth_splitting(const plm_pool *pool, const plm__want *want, size_t rest)
{
    if (want->shelf->is_small || pool->settings.expandable_segments)
        return rest >= PLM_POOL_BLOCK_BYTES;
    return want->rounded_bytes < pool->settings.max_split_bytes && rest > PLM_POOL_SMALL_BYTES;
}

/* Splits the block if that pays, and keeps the count of free parts of segments in use. */
static plm__block *fit_block(plm__caching *caching, const plm__want *want, plm__block *block)
{
    plm_pool *pool = &caching->pool;
    plm_pool_side side = plm__side(want->shelf);
    bool was_split = plm__block_is_split(block);
    bool counts = !plm__block_is_expandable(block);
    if (!is_worth_splitting(pool, want, block->bytes - want->rounded_bytes)) {
        if (was_split && counts) {
            plm__pool_stats_subtract(&pool->stats, PLM_POOL_INACTIVE_SPLIT_BYTES, side,
                                     block->bytes);
            plm__pool_stats_subtract(&pool->stats, PLM_POOL_INACTIVE_SPLIT, side, 1);
        }
        return block;
    }
    plm__block *front = plm__pool_cut(pool, block, want->rounded_bytes);
    plm__caching_shelve(caching, block);
    if (was_split && counts) {
        plm__pool_stats_subtract(&pool->stats, PLM_POOL_INACTIVE_SPLIT_BYTES, side, front->bytes);
    } else if (counts) {
        plm__pool_stats_add(&pool->stats, PLM_POOL_INACTIVE_SPLIT_BYTES, side, block->bytes);
        plm__pool_stats_add(&pool->stats, PLM_POOL_INACTIVE_SPLIT, side, 1);
    }
    return front;
}

size_t plm__caching_merge(plm__caching *caching, plm__block *block, plm__block *other)
{
    if (!other || other->state != block->state)
        return 0;
    plm__shelf *shelf = block->segment->shelf;
    size_t added = other->bytes;
    if (other->state == PLM_POOL_BLOCK_FREE)
        plm__shelf_remove(shelf, other);
    else
        plm__unmapped_remove(shelf, other);
    plm__pool_join(&caching->pool, block, other);
    return added;
}

/* ---- the policy ---- */

static plm_status caching_alloc(plm_pool *pool, plm__shelf *shelf, const plm_pool_request *request,
                                size_t rounded, plm_pool_grant *grant)
{
    plm__caching *caching = (plm__caching *)pool;
    plm__want want = {.shelf = shelf,
                      .asked_bytes = request->bytes,
                      .rounded_bytes = rounded,
                      .segment_bytes = plm__pool_segment_bytes(&pool->settings, rounded),
                      .capturing = request->capturing};
    plm__block *block = take_cached(caching, &want);
    if (!block)
        PLM_TRY(climb_ladder(caching, &want, &block));
    plm__pool_hand_out(pool, fit_block(caching, &want, block), request->bytes, grant);
    return PLM_OK;
}

static void caching_reclaim(plm_pool *pool, plm__block *block)
{
    plm__caching *caching = (plm__caching *)pool;
    plm_pool_stats *stats = &pool->stats;
    plm_pool_side side = plm__side(block->segment->shelf);
    size_t joined_bytes[2] = {plm__caching_merge(caching, block, block->previous),
                              plm__caching_merge(caching, block, block->next)};
    plm__caching_shelve(caching, block);
    if (plm__block_is_expandable(block))
        return;
    int64_t change = 0, change_bytes = 0;
    for (int i = 0; i < 2; i++) {
        change -= joined_bytes[i] > 0;
        change_bytes -= (int64_t)joined_bytes[i];
    }
    if (plm__block_is_split(block)) {
        change++;
        change_bytes += (int64_t)block->bytes;
    }
    plm__pool_stats_change(stats, PLM_POOL_INACTIVE_SPLIT, side, change);
    plm__pool_stats_change(stats, PLM_POOL_INACTIVE_SPLIT_BYTES, side, change_bytes);
}

static plm_status caching_empty_cache(plm_pool *pool)
{
    return plm__caching_release_all((plm__caching *)pool);
}

/* Takes the memory away behind each run of blocks that have some. */
static void decommit_segment(plm_pool *pool, const plm__segment *segment)
{
    const plm__block *start = NULL;
    size_t bytes = 0;
    for (const plm__block *block = segment->first; block; block = block->next) {
        if (block->state == PLM_POOL_BLOCK_UNMAPPED)
            continue;
        start = bytes == 0 ? block : start;
        bytes += block->bytes;
        if (block->next && block->next->state != PLM_POOL_BLOCK_UNMAPPED)
            continue;
        (void)!plm__source_decommit(pool->source, start->address, bytes);
        bytes = 0;
    }
}

/* Nothing is told, and a source that fails now fails for nobody: the pool ends. */
static void caching_fini(plm_pool *pool)
{
    while (pool->segments) {
        decommit_segment(pool, pool->segments);
        (void)!plm__segment_destroy(pool, pool->segments);
    }
}

const plm__pool_table plm__caching_table = {
    .name = "caching",
    .pool_bytes = sizeof(plm__caching),
    .uses_settings = true,
    .alloc = caching_alloc,
    .reclaim = caching_reclaim,
    .empty_cache = caching_empty_cache,
    .adopt_segment = plm__caching_adopt_segment,
    .page_bytes = plm__caching_page_bytes,
    .is_valid = plm__caching_is_valid,
    .fini = caching_fini,
};
