/* SPDX-License-Identifier: MIT */
/*
 * Expandable segments: one reservation of addresses for each shelf, larger than the device, mapped
 * from its low end as needed. A segment is a chain of live, free and unmapped blocks; mapping turns
 * the front of an unmapped block into a free one, which merges with its free neighbours.
 *
 * Pages are whole while they are mapped: an unmapped block always begins and ends at a page.
 */
#include "pool/caching_internal.h"

void plm__unmapped_insert(plm__shelf *shelf, plm__block *block)
{
    plm__block *before = NULL, *after = shelf->unmapped;
    while (after && after->address < block->address) {
        before = after;
        after = after->right;
    }
    block->left = before;
    block->right = after;
    if (before)
        before->right = block;
    else
        shelf->unmapped = block;
    if (after)
        after->left = block;
}

void plm__unmapped_remove(plm__shelf *shelf, plm__block *block)
{
    if (block->left)
        block->left->right = block->right;
    else
        shelf->unmapped = block->right;
    if (block->right)
        block->right->left = block->left;
}

size_t plm__caching_page_bytes(const plm_pool *pool, bool is_small)
{
    return plm__pool_page_bytes(&pool->settings, is_small);
}

static bool is_open(const plm__block *block)
{
    return block &&
           (block->state == PLM_POOL_BLOCK_FREE || block->state == PLM_POOL_BLOCK_UNMAPPED);
}

/* Whether `bytes` lie in `block` and the open blocks that follow it. */
static bool has_room(const plm__block *block, size_t bytes)
{
    size_t room = 0;
    for (; room < bytes && is_open(block); block = block->next)
        room += block->bytes;
    return room >= bytes;
}

/* *block = an unmapped block that is the whole of a new segment. A source without a limit of its
 * own may be asked for more than a segment has addresses: that is out of memory. */
static plm_status open_segment(plm__caching *caching, plm__shelf *shelf, size_t wanted,
                               plm__block **block)
{
    plm_pool *pool = &caching->pool;
    size_t total = pool->source->total_bytes, page = plm__caching_page_bytes(pool, shelf->is_small);
    size_t reserved = plm__pool_whole_pages(total + total / 8, page);
    plm__segment *segment;
    PLM_FAIL_IF(wanted > reserved, PLM_ERROR_DEVICE_MEMORY,
                "wanted %zu bytes of an expandable segment of %zu", wanted, reserved);
    PLM_TRY(plm__segment_create(pool, shelf, reserved, page, &segment));
    plm__block *whole = plm__slab_take(&pool->slab);
    *whole = (plm__block){.address = segment->address,
                          .bytes = segment->bytes,
                          .segment = segment,
                          .state = PLM_POOL_BLOCK_UNMAPPED};
    segment->first = whole;
    plm__unmapped_insert(shelf, whole);
    *block = whole;
    return PLM_OK;
}

/*
 * *block = the first place with room: an unmapped block, or the free block right before it. Lowest
 * address first.
 */
static plm_status find_place(plm__caching *caching, const plm__want *want, plm__block **block)
{
    for (plm__block *place = want->shelf->unmapped; place; place = place->right) {
        plm__block *start = is_open(place->previous) ? place->previous : place;
        if (has_room(start, want->rounded_bytes)) {
            *block = start;
            return PLM_OK;
        }
    }
    return open_segment(caching, want->shelf, want->rounded_bytes, block);
}

/* Maps the pages that the first `bytes` of an unmapped block touch; *grown = the free block that
 * they become a part of. */
static plm_status map_front(plm__caching *caching, plm__block *unmapped, size_t bytes,
                            plm__block **grown)
{
    plm_pool *pool = &caching->pool;
    plm__segment *segment = unmapped->segment;
    plm__shelf *shelf = segment->shelf;
    size_t mapped = plm__pool_whole_pages(bytes, segment->page_bytes);
    uint64_t address = unmapped->address;
    PLM_TRY(plm__source_commit(pool->source, address, mapped));
    plm__unmapped_remove(shelf, unmapped);
    plm__block *block = unmapped;
    if (mapped < unmapped->bytes) {
        block = plm__pool_cut(pool, unmapped, mapped);
        plm__unmapped_insert(shelf, unmapped);
    }
    block->state = PLM_POOL_BLOCK_FREE;
    plm__caching_merge(caching, block, block->previous);
    plm__caching_merge(caching, block, block->next);
    plm__caching_shelve(caching, block);
    plm__pool_stats_add(&pool->stats, PLM_POOL_RESERVED_BYTES, plm__side(shelf), mapped);
    pool->stats.num_device_alloc++;
    plm__pool_tell(pool, PLM_EVENT_SEGMENT_MAP, shelf, address, mapped);
    *grown = block;
    return PLM_OK;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

plm_status plm__caching_expand(plm__caching *caching, const plm__want *want, plm__block **taken)
{
    plm__block *block;
    PLM_TRY(find_place(caching, want, &block));
    if (block->state == PLM_POOL_BLOCK_UNMAPPED)
        PLM_TRY(map_front(caching, block, least(block->bytes, want->rounded_bytes), &block));
    while (block->bytes < want->rounded_bytes) {
        size_t missing = want->rounded_bytes - block->bytes;
        PLM_TRY(map_front(caching, block->next, least(block->next->bytes, missing), &block));
    }
    plm__shelf_remove(want->shelf, block);
    *taken = block;
    return PLM_OK;
}

/* Makes whole pages of a shelved block an unmapped block, with what is before and after them left
 * free. */
static plm__block *carve_pages(plm__caching *caching, plm__block *block, size_t before,
                               size_t unmapped)
{
    plm__shelf_remove(block->segment->shelf, block);
    if (before > 0)
        plm__caching_shelve(caching, plm__pool_cut(&caching->pool, block, before));
    if (unmapped < block->bytes) {
        plm__block *rest = block;
        block = plm__pool_cut(&caching->pool, rest, unmapped);
        plm__caching_shelve(caching, rest);
    }
    block->state = PLM_POOL_BLOCK_UNMAPPED;
    plm__caching_merge(caching, block, block->previous);
    plm__caching_merge(caching, block, block->next);
    plm__unmapped_insert(block->segment->shelf, block);
    return block;
}

plm_status plm__caching_shrink(plm__caching *caching, plm__block *block)
{
    plm_pool *pool = &caching->pool;
    plm__segment *segment = block->segment;
    plm__shelf *shelf = segment->shelf;
    size_t start = (size_t)(block->address - segment->address);
    size_t first = plm__pool_whole_pages(start, segment->page_bytes);
    size_t end = (start + block->bytes) / segment->page_bytes * segment->page_bytes;
    if (first >= end)
        return PLM_OK;
    PLM_TRY(plm__pool_reserve_host(pool));
    uint64_t address = segment->address + first;
    PLM_TRY(plm__source_decommit(pool->source, address, end - first));
    block = carve_pages(caching, block, first - start, end - first);
    plm__pool_stats_subtract(&pool->stats, PLM_POOL_RESERVED_BYTES, plm__side(shelf), end - first);
    pool->stats.num_device_free++;
    plm__pool_tell(pool, PLM_EVENT_SEGMENT_UNMAP, shelf, address, end - first);
    if (plm__block_is_split(block))
        return PLM_OK;
    plm__unmapped_remove(shelf, block);
    plm__slab_give(&pool->slab, block);
    return plm__segment_destroy(pool, segment);
}
