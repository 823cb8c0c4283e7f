/* SPDX-License-Identifier: MIT */
/* Walks over segments and blocks, for those who look and for the checks of both policies. */
#include "pool/pool_internal.h"

#include <stdlib.h>

static int by_address(const void *left, const void *right)
{
    const plm__segment *const *a = left, *const *b = right;
    return (*a)->address < (*b)->address ? -1 : (*a)->address > (*b)->address;
}

plm_status plm__pool_walk(const plm_pool *pool,
                          void (*visit)(void *context, const plm_pool_block *block), void *context)
{
    PLM_ARRAY(const plm__segment *) sorted = {0};
    plm_status status = PLM_OK;
    for (const plm__segment *segment = pool->segments; segment; segment = segment->next)
        PLM_TRY_DONE(PLM_ARRAY_PUSH(&sorted, segment));
    PLM_ARRAY_SORT(&sorted, by_address);
    for (int64_t i = 0; i < sorted.count; i++) {
        const plm__segment *segment = sorted.items[i];
        for (const plm__block *block = segment->first; block; block = block->next)
            visit(context, &(plm_pool_block){.segment_address = segment->address,
                                             .segment_bytes = segment->bytes,
                                             .address = block->address,
                                             .bytes = block->bytes,
                                             .asked_bytes = block->asked_bytes,
                                             .stream = segment->shelf->stream,
                                             .private_pool = segment->shelf->private_pool,
                                             .state = (plm_pool_block_state)block->state,
                                             .is_small = segment->shelf->is_small,
                                             .is_expandable = segment->page_bytes != 0});
    }
done:
    PLM_ARRAY_FREE(&sorted);
    return status;
}

bool plm__segment_is_valid(const plm__segment *segment)
{
    uint64_t address = segment->address;
    const plm__block *previous = NULL;
    for (const plm__block *block = segment->first; block; previous = block, block = block->next) {
        PLM__REQUIRE(block->segment == segment);
        PLM__REQUIRE(block->previous == previous);
        PLM__REQUIRE(block->address == address);
        PLM__REQUIRE(block->bytes > 0 && block->bytes % PLM_POOL_BLOCK_BYTES == 0);
        bool is_idle =
            block->state == PLM_POOL_BLOCK_FREE || block->state == PLM_POOL_BLOCK_UNMAPPED;
        PLM__REQUIRE(!is_idle || !previous || previous->state != block->state);
        PLM__REQUIRE(is_idle == (block->asked_bytes == 0));
        PLM__REQUIRE(block->asked_bytes <= block->bytes);
        address += block->bytes;
    }
    PLM__REQUIRE(address == segment->address + segment->bytes);
    return true;
}

static bool statistics_are_valid(const plm_pool *pool)
{
    for (int family = 0; family < PLM_POOL_STAT_COUNT; family++) {
        const plm_pool_stat *of = pool->stats.of[family];
        PLM__REQUIRE(of[PLM_POOL_ALL].current ==
                     of[PLM_POOL_LARGE].current + of[PLM_POOL_SMALL].current);
        PLM__REQUIRE(of[PLM_POOL_ALL].allocated ==
                     of[PLM_POOL_LARGE].allocated + of[PLM_POOL_SMALL].allocated);
        for (int side = 0; side < PLM_POOL_SIDE_COUNT; side++)
            PLM__REQUIRE(of[side].current >= 0 && of[side].peak >= of[side].current &&
                         of[side].allocated >= of[side].current);
    }
    return true;
}

/* Live and pending blocks are in the map, pending ones in their list, and sums agree. */
bool plm__pool_maps_are_valid(const plm_pool *pool)
{
    int64_t live = 0, pending = 0, listed = 0;
    size_t live_bytes = 0, active_bytes = 0, asked_bytes = 0;
    for (const plm__segment *segment = pool->segments; segment; segment = segment->next)
        for (const plm__block *block = segment->first; block; block = block->next) {
            if (block->asked_bytes == 0)
                continue;
            const plm__map_slot *slot = plm__map_find(&pool->map, block->address);
            PLM__REQUIRE(slot && slot->block == block);
            bool is_live = block->state == PLM_POOL_BLOCK_LIVE;
            live += is_live;
            pending += !is_live;
            live_bytes += is_live ? block->bytes : 0;
            active_bytes += block->bytes;
            asked_bytes += block->asked_bytes;
        }
    for (const plm__block *block = pool->pending_first; block; block = block->right, listed++)
        PLM__REQUIRE(block->state == PLM_POOL_BLOCK_PENDING && block->used_by_others);
    PLM__REQUIRE(listed == pending);
    PLM__REQUIRE(pool->map.count == live + pending);
    const plm_pool_stats *stats = &pool->stats;
    PLM__REQUIRE(stats->of[PLM_POOL_ALLOCATION][PLM_POOL_ALL].current == live);
    PLM__REQUIRE(stats->of[PLM_POOL_ACTIVE][PLM_POOL_ALL].current == live + pending);
    PLM__REQUIRE(plm__pool_stats_current(stats, PLM_POOL_ALLOCATED_BYTES) == live_bytes);
    PLM__REQUIRE(plm__pool_stats_current(stats, PLM_POOL_ACTIVE_BYTES) == active_bytes);
    PLM__REQUIRE(plm__pool_stats_current(stats, PLM_POOL_REQUESTED_BYTES) == asked_bytes);
    plm_pool_totals totals = plm__pool_sum(pool);
    PLM__REQUIRE(totals.live_bytes + totals.slack_bytes + totals.cached_bytes ==
                 totals.reserved_bytes);
    return statistics_are_valid(pool);
}
