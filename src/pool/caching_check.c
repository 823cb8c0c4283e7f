/* SPDX-License-Identifier: MIT */
/* Whether a caching pool is whole: every figure is recomputed from the blocks. */
#include "pool/caching_internal.h"

typedef struct pool_sums {
    size_t reserved_bytes, free_bytes, split_bytes;
    int64_t plain_segments, free_blocks, split_blocks, unmapped_blocks;
} pool_sums;

static bool blocks_are_valid(const plm__segment *segment, pool_sums *sums)
{
    bool is_plain = segment->page_bytes == 0;
    sums->plain_segments += is_plain;
    for (const plm__block *block = segment->first; block; block = block->next) {
        bool is_free = block->state == PLM_POOL_BLOCK_FREE;
        bool is_unmapped = block->state == PLM_POOL_BLOCK_UNMAPPED;
        sums->reserved_bytes += is_unmapped ? 0 : block->bytes;
        sums->free_bytes += is_free ? block->bytes : 0;
        sums->free_blocks += is_free;
        sums->unmapped_blocks += is_unmapped;
        if (is_free && is_plain && plm__block_is_split(block)) {
            sums->split_blocks++;
            sums->split_bytes += block->bytes;
        }
        if (!is_unmapped)
            continue;
        PLM__REQUIRE(!is_plain);
        PLM__REQUIRE((block->address - segment->address) % segment->page_bytes == 0);
        PLM__REQUIRE(block->bytes % segment->page_bytes == 0);
    }
    return true;
}

static bool shelves_are_valid(const plm_pool *pool, const pool_sums *sums)
{
    int64_t shelved = 0, unmapped = 0;
    size_t shelved_bytes = 0;
    for (int64_t i = 0; i < pool->shelves.count; i++) {
        const plm__shelf *shelf = pool->shelves.items[i];
        size_t bytes;
        if (!plm__shelf_is_valid(shelf, &bytes))
            return false;
        shelved += shelf->count;
        shelved_bytes += bytes;
        uint64_t last = 0;
        for (const plm__block *block = shelf->unmapped; block; block = block->right, unmapped++) {
            PLM__REQUIRE(block->state == PLM_POOL_BLOCK_UNMAPPED && block->address > last);
            last = block->address;
        }
    }
    PLM__REQUIRE(shelved == sums->free_blocks);
    PLM__REQUIRE(shelved_bytes == sums->free_bytes);
    PLM__REQUIRE(unmapped == sums->unmapped_blocks);
    return true;
}

bool plm__caching_is_valid(const plm_pool *pool)
{
    pool_sums sums = {0};
    for (const plm__segment *segment = pool->segments; segment; segment = segment->next)
        if (!plm__segment_is_valid(segment) || !blocks_are_valid(segment, &sums))
            return false;
    if (!shelves_are_valid(pool, &sums) || !plm__pool_maps_are_valid(pool))
        return false;
    const plm_pool_stats *stats = &pool->stats;
    PLM__REQUIRE(plm__pool_stats_current(stats, PLM_POOL_RESERVED_BYTES) == sums.reserved_bytes);
    PLM__REQUIRE(plm__pool_sum(pool).cached_bytes == sums.free_bytes);
    PLM__REQUIRE(stats->of[PLM_POOL_SEGMENT][PLM_POOL_ALL].current == sums.plain_segments);
    PLM__REQUIRE(stats->of[PLM_POOL_INACTIVE_SPLIT][PLM_POOL_ALL].current == sums.split_blocks);
    PLM__REQUIRE(plm__pool_stats_current(stats, PLM_POOL_INACTIVE_SPLIT_BYTES) == sums.split_bytes);
    return true;
}
