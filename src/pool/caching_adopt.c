/* SPDX-License-Identifier: MIT */
/*
 * Taking over the state of a recording: a segment is reserved where it was, memory committed behind
 * the blocks that had some, and each block put where blocks of its state are kept.
 */
#include "pool/caching_internal.h"

/* Puts a block that was linked into its segment in its place, and counts it. */
static void settle(plm__caching *caching, plm__block *block, const plm_pool_block *shown)
{
    plm_pool *pool = &caching->pool;
    plm_pool_side side = plm__side(block->segment->shelf);
    switch (shown->state) {
    case PLM_POOL_BLOCK_UNMAPPED:
        block->state = PLM_POOL_BLOCK_UNMAPPED;
        plm__unmapped_insert(block->segment->shelf, block);
        return;
    case PLM_POOL_BLOCK_FREE:
        plm__caching_shelve(caching, block);
        if (!shown->is_expandable && shown->bytes < shown->segment_bytes) {
            plm__pool_stats_add(&pool->stats, PLM_POOL_INACTIVE_SPLIT, side, 1);
            plm__pool_stats_add(&pool->stats, PLM_POOL_INACTIVE_SPLIT_BYTES, side, block->bytes);
        }
        return;
    case PLM_POOL_BLOCK_LIVE:
        plm__pool_make_live(pool, block, shown->asked_bytes);
        return;
    case PLM_POOL_BLOCK_PENDING:
        plm__pool_make_live(pool, block, shown->asked_bytes);
        block->used_by_others = true;
        plm__pool_let_go(pool, block);
        plm__pool_make_pending(pool, block);
        return;
    }
}

/* Commits the memory behind the run of blocks that begins at blocks[0]; *count = its blocks. */
static plm_status commit_run(plm__caching *caching, const plm__segment *segment,
                             const plm_pool_block *blocks, int64_t most, int64_t *count)
{
    plm_pool *pool = &caching->pool;
    bool is_unmapped = blocks[0].state == PLM_POOL_BLOCK_UNMAPPED;
    int64_t end = 0;
    size_t bytes = 0;
    while (end < most && (blocks[end].state == PLM_POOL_BLOCK_UNMAPPED) == is_unmapped)
        bytes += blocks[end++].bytes;
    *count = end;
    if (is_unmapped)
        return PLM_OK;
    PLM_TRY(plm__source_commit(pool->source, blocks[0].address, bytes));
    plm__pool_stats_add(&pool->stats, PLM_POOL_RESERVED_BYTES, plm__side(segment->shelf), bytes);
    pool->stats.num_device_alloc++;
    return PLM_OK;
}

plm_status plm__caching_adopt_segment(plm_pool *pool, plm__shelf *shelf,
                                      const plm_pool_block *blocks, int64_t count)
{
    plm__caching *caching = (plm__caching *)pool;
    plm__segment *segment;
    size_t page = blocks[0].is_expandable ? plm__caching_page_bytes(pool, shelf->is_small) : 0;
    PLM_TRY(plm__segment_create(pool, shelf, blocks[0].segment_bytes, page, &segment));
    PLM_FAIL_IF(segment->address != blocks[0].segment_address, PLM_ERROR_ARGUMENT,
                "the source gave address 0x%llx for the segment at 0x%llx",
                (unsigned long long)segment->address,
                (unsigned long long)blocks[0].segment_address);
    if (page == 0) {
        plm__pool_stats_add(&pool->stats, PLM_POOL_SEGMENT, plm__side(shelf), 1);
        if (segment->bytes >= pool->settings.max_split_bytes)
            plm__pool_stat_add(&pool->stats.oversize_segments, 1);
    }
    plm__block *last = NULL;
    for (int64_t first = 0, run; first < count; first += run) {
        PLM_TRY(commit_run(caching, segment, blocks + first, count - first, &run));
        for (int64_t i = first; i < first + run; i++) {
            plm__block *block = plm__slab_take(&pool->slab);
            *block = (plm__block){.address = blocks[i].address,
                                  .bytes = blocks[i].bytes,
                                  .previous = last,
                                  .segment = segment};
            *(last ? &last->next : &segment->first) = block;
            last = block;
            settle(caching, block, &blocks[i]);
        }
    }
    return PLM_OK;
}
