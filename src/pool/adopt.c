/* SPDX-License-Identifier: MIT */
/* Checks a state that was shown, before any of it is taken over, segment by segment. */
#include "pool/pool_internal.h"

/* One past the last block of the segment that blocks[first] belongs to. */
static int64_t segment_end(const plm_pool_block *blocks, int64_t first, int64_t count)
{
    int64_t end = first + 1;
    while (end < count && blocks[end].segment_address == blocks[first].segment_address)
        end++;
    return end;
}

static bool makes_sense(const plm_pool *pool, const plm_pool_block *block,
                        const plm_pool_block *first)
{
    bool is_used = block->state == PLM_POOL_BLOCK_LIVE || block->state == PLM_POOL_BLOCK_PENDING;
    bool is_page = true;
    if (block->state == PLM_POOL_BLOCK_UNMAPPED) {
        size_t page = pool->table->page_bytes(pool, block->is_small);
        is_page = block->is_expandable && block->bytes % page == 0 &&
                  (block->address - block->segment_address) % page == 0;
    }
    return is_page && block->bytes > 0 && block->bytes % PLM_POOL_BLOCK_BYTES == 0 &&
           (block->asked_bytes > 0) == is_used && block->asked_bytes <= block->bytes &&
           block->stream == first->stream && block->private_pool == first->private_pool &&
           block->is_small == first->is_small && block->is_expandable == first->is_expandable &&
           block->segment_bytes == first->segment_bytes;
}

/* Whether these blocks are one segment, whole. */
static plm_status check_segment(const plm_pool *pool, const plm_pool_block *blocks, int64_t count)
{
    uint64_t address = blocks[0].segment_address;
    for (int64_t i = 0; i < count; i++) {
        PLM_FAIL_IF(
            blocks[i].address != address || !makes_sense(pool, &blocks[i], &blocks[0]),
            PLM_ERROR_ARGUMENT, "the block at 0x%llx of the segment at 0x%llx does not fit there",
            (unsigned long long)blocks[i].address, (unsigned long long)blocks[0].segment_address);
        address += blocks[i].bytes;
    }
    PLM_FAIL_IF(address - blocks[0].segment_address != blocks[0].segment_bytes, PLM_ERROR_ARGUMENT,
                "the blocks of the segment at 0x%llx do not fill it",
                (unsigned long long)blocks[0].segment_address);
    return PLM_OK;
}

static plm_status adopt_all(plm_pool *pool, const plm_pool_block *blocks, int64_t count)
{
    PLM_TRY(plm__slab_reserve(&pool->slab, count));
    PLM_TRY(plm__map_reserve(&pool->map, count));
    for (int64_t first = 0, end; first < count; first = end) {
        end = segment_end(blocks, first, count);
        plm_pool_request owner = {.stream = blocks[first].stream,
                                  .private_pool = blocks[first].private_pool};
        plm__shelf *shelf;
        PLM_TRY(plm__pool_shelf(pool, &owner, blocks[first].is_small, &shelf));
        PLM_TRY(pool->table->adopt_segment(pool, shelf, blocks + first, end - first));
    }
    return PLM_OK;
}

plm_status plm__pool_adopt(plm_pool *pool, const plm_pool_block *blocks, int64_t count)
{
    PLM_FAIL_IF(!pool->table->adopt_segment, PLM_ERROR_UNSUPPORTED, "a %s pool takes over no state",
                pool->table->name);
    PLM_FAIL_IF(pool->segments, PLM_ERROR_STATE, "only an empty pool can take over a state");
    for (int64_t first = 0, end; first < count; first = end) {
        end = segment_end(blocks, first, count);
        PLM_TRY(check_segment(pool, blocks + first, end - first));
    }
    plm_pool_listener listener = pool->listener;
    pool->listener = NULL; /* nothing happens: it has happened before */
    plm_status status = adopt_all(pool, blocks, count);
    pool->listener = listener;
    return status;
}
