/* SPDX-License-Identifier: MIT */
/*
 * What is the same in every policy: creating and ending, the way of a free from request to
 * completion, statistics, events, out of memory.
 */
#include "pool/pool_internal.h"

#include <string.h>

#include "plimsoll/size.h"

enum { BLOCKS_PER_ALLOC = 4 }; /* the most that one allocation can cut */

static const plm__pool_table *const tables[PLM_POOL_POLICY_COUNT] = {
    [PLM_POOL_CACHING] = &plm__caching_table,
    [PLM_POOL_MAPPED] = &plm__mapped_table,
};

/* ---- shelves ---- */

/*
 * PyTorch gives back the default pool first, large before small, then the private pools, small
 * before large; inside each, streams in order.
 */
static int compare_shelves(const plm__shelf *shelf, const plm_pool_request *request, bool is_small)
{
    if (shelf->private_pool != request->private_pool)
        return shelf->private_pool < request->private_pool ? -1 : 1;
    if (shelf->is_small != is_small)
        return shelf->is_small == (request->private_pool != 0) ? -1 : 1;
    return shelf->stream < request->stream ? -1 : shelf->stream > request->stream;
}

/* *shelf = the shelf of this request, made when there is none. */
static plm_status find_shelf(plm_pool *pool, const plm_pool_request *request, bool is_small,
                             plm__shelf **found)
{
    int64_t low = 0, high = pool->shelves.count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int order = compare_shelves(pool->shelves.items[middle], request, is_small);
        if (order == 0) {
            *found = pool->shelves.items[middle];
            return PLM_OK;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    PLM_FAIL_IF(pool->shelves.count >= PLM__SHELVES_MAX, PLM_ERROR_UNSUPPORTED,
                "more than %d streams and private pools in one pool", PLM__SHELVES_MAX);
    PLM_TRY(PLM_ARRAY_RESERVE(&pool->shelves, pool->shelves.count + 1));
    plm__shelf *shelf = NULL;
    PLM_TRY(plm__host_alloc(sizeof *shelf, &shelf));
    shelf->stream = request->stream;
    shelf->private_pool = request->private_pool;
    shelf->is_small = is_small;
    memmove(pool->shelves.items + low + 1, pool->shelves.items + low,
            (size_t)(pool->shelves.count - low) * sizeof *pool->shelves.items);
    pool->shelves.items[low] = shelf;
    pool->shelves.count++;
    *found = shelf;
    return PLM_OK;
}

plm_status plm__pool_shelf(plm_pool *pool, const plm_pool_request *request, bool is_small,
                           plm__shelf **shelf)
{
    plm__shelf *last = pool->last[is_small];
    if (!last || last->stream != request->stream || last->private_pool != request->private_pool)
        PLM_TRY(find_shelf(pool, request, is_small, &last));
    last->is_released = false;
    pool->last[is_small] = last;
    *shelf = last;
    return PLM_OK;
}

/* ---- segments ---- */

plm_status plm__segment_create(plm_pool *pool, plm__shelf *shelf, size_t bytes, size_t page_bytes,
                               plm__segment **created)
{
    plm__segment *segment = NULL;
    PLM_TRY(plm__host_alloc(sizeof *segment, &segment));
    plm_status status = plm__source_reserve(pool->source, bytes, &segment->address);
    if (status != PLM_OK) {
        plm__host_free(segment);
        return status;
    }
    segment->bytes = bytes;
    segment->page_bytes = page_bytes;
    segment->shelf = shelf;
    segment->next = pool->segments;
    if (segment->next)
        segment->next->previous = segment;
    pool->segments = segment;
    *created = segment;
    return PLM_OK;
}

plm_status plm__segment_destroy(plm_pool *pool, plm__segment *segment)
{
    if (segment->previous)
        segment->previous->next = segment->next;
    else
        pool->segments = segment->next;
    if (segment->next)
        segment->next->previous = segment->previous;
    plm_status status = plm__source_release(pool->source, segment->address, segment->bytes);
    PLM_ARRAY_FREE(&segment->pages);
    plm__host_free(segment);
    return status;
}

/* ---- life of a pool ---- */

plm_status plm__pool_create(plm_pool_policy policy, plm_source *source,
                            const plm_pool_settings *settings, plm_pool **created)
{
    PLM_ASSERT((unsigned)policy < PLM_POOL_POLICY_COUNT);
    plm_pool *pool = NULL;
    PLM_TRY(plm__host_alloc(tables[policy]->pool_bytes, &pool));
    pool->table = tables[policy];
    pool->source = source;
    plm_pool_settings defaults = plm__pool_settings_default();
    plm_status status = plm__pool_change_settings(pool, settings ? settings : &defaults);
    return PLM_HAND_OVER(status, pool, plm__host_free, created);
}

void plm__pool_destroy(plm_pool *pool)
{
    if (!pool)
        return;
    pool->table->fini(pool);
    for (int64_t i = 0; i < pool->shelves.count; i++)
        plm__host_free(pool->shelves.items[i]);
    PLM_ARRAY_FREE(&pool->shelves);
    plm__slab_fini(&pool->slab);
    plm__host_free(pool->map.slots);
    plm__host_free(pool);
}

plm_status plm__pool_change_settings(plm_pool *pool, const plm_pool_settings *settings)
{
    PLM_TRY(plm__pool_settings_check(settings));
    pool->settings = *settings;
    size_t limit = settings->max_split_bytes;
    pool->stats.max_split_size = limit > INT64_MAX ? -1 : (int64_t)limit;
    return PLM_OK;
}

void plm__pool_listen(plm_pool *pool, plm_pool_listener listener, void *context)
{
    pool->listener = listener;
    pool->listener_context = context;
}

plm_pool_stats *plm__pool_statistics(plm_pool *pool)
{
    return &pool->stats;
}

plm_pool_totals plm__pool_sum(const plm_pool *pool)
{
    size_t reserved = plm__pool_stats_current(&pool->stats, PLM_POOL_RESERVED_BYTES);
    size_t active = plm__pool_stats_current(&pool->stats, PLM_POOL_ACTIVE_BYTES);
    size_t asked = plm__pool_stats_current(&pool->stats, PLM_POOL_REQUESTED_BYTES);
    return (plm_pool_totals){.live_bytes = asked,
                             .slack_bytes = active - asked,
                             .cached_bytes = reserved - active,
                             .reserved_bytes = reserved};
}

size_t plm__pool_allowed(const plm_pool *pool)
{
    double fraction = pool->settings.memory_fraction;
    return fraction > 0.0 ? (size_t)(fraction * (double)pool->source->total_bytes) : SIZE_MAX;
}

/* ---- giving out ---- */

plm_status plm__pool_reserve_host(plm_pool *pool)
{
    if (pool->slab.spare_count < BLOCKS_PER_ALLOC)
        PLM_TRY(plm__slab_reserve(&pool->slab, BLOCKS_PER_ALLOC));
    return plm__map_reserve(&pool->map, 1);
}

plm_status plm__pool_alloc(plm_pool *pool, const plm_pool_request *request, plm_pool_grant *grant)
{
    if (request->bytes == 0) {
        *grant = (plm_pool_grant){0, 0};
        return PLM_OK;
    }
    PLM_FAIL_IF(request->bytes >= PLM_POOL_LARGEST_BYTES, PLM_ERROR_DEVICE_MEMORY,
                "wanted %zu bytes, more than any device has", request->bytes);
    static const plm_pool_settings plain = {.max_split_bytes = 0};
    size_t rounded = plm__pool_round_bytes(pool->table->uses_settings ? &pool->settings : &plain,
                                           request->bytes);
    PLM_TRY(plm__pool_reserve_host(pool));
    plm__shelf *shelf;
    PLM_TRY(plm__pool_shelf(pool, request, rounded <= PLM_POOL_SMALL_BYTES, &shelf));
    return pool->table->alloc(pool, shelf, request, rounded, grant);
}

plm__block *plm__pool_cut(plm_pool *pool, plm__block *block, size_t bytes)
{
    plm__block *front = plm__slab_take(&pool->slab);
    *front = (plm__block){.address = block->address,
                          .bytes = bytes,
                          .previous = block->previous,
                          .next = block,
                          .segment = block->segment};
    if (front->previous)
        front->previous->next = front;
    else
        front->segment->first = front;
    block->previous = front;
    block->address += bytes;
    block->bytes -= bytes;
    return front;
}

void plm__pool_join(plm_pool *pool, plm__block *block, plm__block *other)
{
    if (other == block->previous) {
        block->address = other->address;
        block->previous = other->previous;
        if (block->previous)
            block->previous->next = block;
        else
            block->segment->first = block;
    } else {
        block->next = other->next;
        if (block->next)
            block->next->previous = block;
    }
    block->bytes += other->bytes;
    plm__slab_give(&pool->slab, other);
}

void plm__pool_make_live(plm_pool *pool, plm__block *block, size_t asked_bytes)
{
    plm_pool_side side = plm__side(block->segment->shelf);
    block->state = PLM_POOL_BLOCK_LIVE;
    block->asked_bytes = asked_bytes;
    block->used_by_others = false;
    plm__map_insert(&pool->map, block);
    plm__pool_stats_add(&pool->stats, PLM_POOL_ALLOCATION, side, 1);
    plm__pool_stats_add(&pool->stats, PLM_POOL_ALLOCATED_BYTES, side, block->bytes);
    plm__pool_stats_add(&pool->stats, PLM_POOL_ACTIVE, side, 1);
    plm__pool_stats_add(&pool->stats, PLM_POOL_ACTIVE_BYTES, side, block->bytes);
    plm__pool_stats_add(&pool->stats, PLM_POOL_REQUESTED_BYTES, side, asked_bytes);
    if (block->bytes >= pool->settings.max_split_bytes)
        plm__pool_stat_add(&pool->stats.oversize_allocations, 1);
}

void plm__pool_hand_out(plm_pool *pool, plm__block *block, size_t asked_bytes,
                        plm_pool_grant *grant)
{
    plm__pool_make_live(pool, block, asked_bytes);
    plm__pool_tell(pool, PLM_EVENT_BLOCK_ALLOC, block->segment->shelf, block->address, asked_bytes);
    *grant = (plm_pool_grant){block->address, block->bytes};
}

plm_status plm__pool_out_of_memory(plm_pool *pool, const plm__shelf *shelf, size_t asked_bytes,
                                   size_t rounded_bytes, size_t wanted_bytes,
                                   size_t largest_free_bytes)
{
    pool->stats.num_ooms++;
    plm__pool_tell(pool, PLM_EVENT_OUT_OF_MEMORY, shelf, 0, rounded_bytes);
    plm_pool_totals totals = plm__pool_sum(pool);
    size_t allowed = plm__pool_allowed(pool), total = pool->source->total_bytes;
    size_t budget = allowed < total ? allowed : total;
    char asked[PLM_SIZE_TEXT], wanted[PLM_SIZE_TEXT], live[PLM_SIZE_TEXT], cached[PLM_SIZE_TEXT],
        limit[PLM_SIZE_TEXT];
    plm_status status =
        plm_fail(PLM_ERROR_DEVICE_MEMORY,
                 "out of device memory: asked %s, which wanted %s from the device; %s live and %s "
                 "cached of %s",
                 plm_size_format(asked_bytes, asked), plm_size_format(wanted_bytes, wanted),
                 plm_size_format(totals.live_bytes + totals.slack_bytes, live),
                 plm_size_format(totals.cached_bytes, cached), plm_size_format(budget, limit));
    plm__fail_oom(&(plm_oom_record){.asked_bytes = asked_bytes,
                                    .rounded_bytes = rounded_bytes,
                                    .live_bytes = totals.live_bytes,
                                    .cached_bytes = totals.cached_bytes,
                                    .reserved_bytes = totals.reserved_bytes,
                                    .budget_bytes = budget,
                                    .largest_free_bytes = largest_free_bytes});
    return status;
}

/* ---- taking back ---- */

/* No stream uses the block any more: it leaves the map and goes back to the policy. */
static void finish_free(plm_pool *pool, plm__map_slot *slot)
{
    plm__block *block = slot->block;
    const plm__shelf *shelf = block->segment->shelf;
    plm_pool_side side = plm__side(shelf);
    plm__pool_tell(pool, PLM_EVENT_BLOCK_FREE, shelf, block->address, block->asked_bytes);
    plm__map_remove(&pool->map, slot);
    plm__pool_stats_subtract(&pool->stats, PLM_POOL_ACTIVE, side, 1);
    plm__pool_stats_subtract(&pool->stats, PLM_POOL_ACTIVE_BYTES, side, block->bytes);
    plm__pool_stats_subtract(&pool->stats, PLM_POOL_REQUESTED_BYTES, side, block->asked_bytes);
    block->state = PLM_POOL_BLOCK_FREE;
    block->asked_bytes = 0;
    pool->table->reclaim(pool, block);
}

void plm__pool_make_pending(plm_pool *pool, plm__block *block)
{
    block->state = PLM_POOL_BLOCK_PENDING;
    block->left = pool->pending_last;
    block->right = NULL;
    if (block->left)
        block->left->right = block;
    else
        pool->pending_first = block;
    pool->pending_last = block;
}

static void remove_pending(plm_pool *pool, plm__block *block)
{
    if (block->left)
        block->left->right = block->right;
    else
        pool->pending_first = block->right;
    if (block->right)
        block->right->left = block->left;
    else
        pool->pending_last = block->left;
}

/* The slot of the block that begins at `address`, if it is in this state; NULL. */
static plm__map_slot *find_slot(const plm_pool *pool, uint64_t address, plm_pool_block_state state)
{
    plm__map_slot *slot = plm__map_find(&pool->map, address);
    return slot && slot->block->state == state ? slot : NULL;
}

void plm__pool_let_go(plm_pool *pool, const plm__block *block)
{
    const plm__shelf *shelf = block->segment->shelf;
    plm_pool_side side = plm__side(shelf);
    plm__pool_stats_subtract(&pool->stats, PLM_POOL_ALLOCATION, side, 1);
    plm__pool_stats_subtract(&pool->stats, PLM_POOL_ALLOCATED_BYTES, side, block->bytes);
    if (block->bytes >= pool->settings.max_split_bytes)
        pool->stats.oversize_allocations.current--;
    plm__pool_tell(pool, PLM_EVENT_BLOCK_FREE_REQUESTED, shelf, block->address, block->asked_bytes);
}

plm_status plm__pool_free(plm_pool *pool, uint64_t address, bool *pending)
{
    bool waits = false;
    if (address != 0) {
        plm__map_slot *slot = find_slot(pool, address, PLM_POOL_BLOCK_LIVE);
        PLM_FAIL_IF(!slot, PLM_ERROR_ARGUMENT, "free of 0x%llx, where no live block begins",
                    (unsigned long long)address);
        plm__pool_let_go(pool, slot->block);
        waits = slot->block->used_by_others;
        if (waits)
            plm__pool_make_pending(pool, slot->block);
        else
            finish_free(pool, slot);
    }
    if (pending)
        *pending = waits;
    return PLM_OK;
}

plm_status plm__pool_record_stream(plm_pool *pool, uint64_t address, uint64_t stream)
{
    if (address == 0)
        return PLM_OK;
    plm__map_slot *slot = find_slot(pool, address, PLM_POOL_BLOCK_LIVE);
    PLM_FAIL_IF(!slot, PLM_ERROR_ARGUMENT, "stream recorded on 0x%llx, where no live block begins",
                (unsigned long long)address);
    slot->block->used_by_others |= stream != slot->block->segment->shelf->stream;
    return PLM_OK;
}

plm_status plm__pool_complete(plm_pool *pool, uint64_t address)
{
    plm__map_slot *slot = find_slot(pool, address, PLM_POOL_BLOCK_PENDING);
    PLM_FAIL_IF(!slot, PLM_ERROR_ARGUMENT, "no pending block begins at 0x%llx",
                (unsigned long long)address);
    remove_pending(pool, slot->block);
    finish_free(pool, slot);
    return PLM_OK;
}

plm_status plm__pool_complete_all(plm_pool *pool)
{
    PLM_TRY(plm__source_fence(pool->source));
    pool->stats.num_sync_all_streams++;
    while (pool->pending_first) {
        plm__map_slot *slot = plm__map_find(&pool->map, pool->pending_first->address);
        remove_pending(pool, slot->block);
        finish_free(pool, slot);
    }
    return PLM_OK;
}

plm_status plm__pool_empty_cache(plm_pool *pool)
{
    return pool->table->empty_cache(pool);
}

void plm__pool_release_private(plm_pool *pool, uint32_t private_pool)
{
    for (int64_t i = 0; i < pool->shelves.count; i++)
        if (pool->shelves.items[i]->private_pool == private_pool)
            pool->shelves.items[i]->is_released = true;
}

bool plm__pool_is_valid(const plm_pool *pool)
{
    return pool->table->is_valid(pool);
}
