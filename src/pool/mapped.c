/* SPDX-License-Identifier: MIT */
/*
 * The mapped policy. Addresses are plenty, memory is not: each shelf has a range of addresses
 * several times larger than the device, blocks are placed in it by best fit, and only the pages
 * that live blocks touch need memory. A page that nobody touches any more is idle: it keeps its
 * memory until a block elsewhere wants some, and is then unmapped there and mapped here.
 *
 * So free bytes can be stranded only in pages that a live block shares, and reserved memory follows
 * the largest live sum instead of the history of sizes. Neighbours share pages down to the byte, so
 * sizes are rounded to 512 only.
 *
 * The price: moving a page waits for all streams first. A program that repeats its sizes soon finds
 * its pages where it wants them and moves none.
 *
 * Invariant: a page has memory exactly while there is a plm__page for it; it is idle exactly while
 * it has no users.
 */
#include "pool/pool_internal.h"

enum {
    PAGES_TO_A_CHUNK = 512,
    ADDRESSES_TO_MEMORY = 4 /* range of a shelf, in device memories */
};

#define PAGE_BYTES PLM_POOL_PAGE_BYTES

typedef struct mapped_pool {
    plm_pool pool;              /* first: a mapped pool is a pool */
    plm__page *oldest, *newest; /* idle pages */
    size_t idle_count;
    plm__page *spare; /* records in no use */
    size_t spare_count;
    PLM_ARRAY(plm__page *) chunks;
} mapped_pool;

/* ---- records of pages ---- */

static void give_page(mapped_pool *mapped, plm__page *page)
{
    page->newer = mapped->spare;
    mapped->spare = page;
    mapped->spare_count++;
}

static plm__page *take_page(mapped_pool *mapped)
{
    plm__page *page = mapped->spare;
    mapped->spare = page->newer;
    mapped->spare_count--;
    return page;
}

static plm_status reserve_pages(mapped_pool *mapped, size_t count)
{
    while (mapped->spare_count < count) {
        PLM_TRY(PLM_ARRAY_RESERVE(&mapped->chunks, mapped->chunks.count + 1));
        plm__page *chunk = NULL;
        PLM_TRY(plm__host_alloc(PAGES_TO_A_CHUNK * sizeof *chunk, &chunk));
        mapped->chunks.items[mapped->chunks.count++] = chunk;
        for (int i = 0; i < PAGES_TO_A_CHUNK; i++)
            give_page(mapped, &chunk[i]);
    }
    return PLM_OK;
}

static void make_idle(mapped_pool *mapped, plm__page *page)
{
    page->older = mapped->newest;
    page->newer = NULL;
    if (page->older)
        page->older->newer = page;
    else
        mapped->oldest = page;
    mapped->newest = page;
    mapped->idle_count++;
}

static void end_idle(mapped_pool *mapped, plm__page *page)
{
    if (page->older)
        page->older->newer = page->newer;
    else
        mapped->oldest = page->newer;
    if (page->newer)
        page->newer->older = page->older;
    else
        mapped->newest = page->older;
    mapped->idle_count--;
}

/* ---- memory behind a range of pages ---- */

typedef struct page_span {
    size_t first, last; /* pages, both included */
} page_span;

static page_span pages_of(const plm__segment *segment, uint64_t address, size_t bytes)
{
    size_t start = (size_t)(address - segment->address);
    return (page_span){start / PAGE_BYTES, (start + bytes - 1) / PAGE_BYTES};
}

/* The page with memory at this index; NULL. */
static plm__page *page_at(const plm__segment *segment, size_t index)
{
    return index < (size_t)segment->pages.count ? segment->pages.items[index] : NULL;
}

static void hold(mapped_pool *mapped, plm__page *page)
{
    if (page->users++ == 0)
        end_idle(mapped, page);
}

static void drop(mapped_pool *mapped, plm__page *page)
{
    if (--page->users == 0)
        make_idle(mapped, page);
}

/* Unmaps up to `most` idle pages that lie side by side, the longest idle one first; *count pages.
 */
static plm_status unmap_idle(mapped_pool *mapped, size_t most, size_t *count)
{
    plm_pool *pool = &mapped->pool;
    plm__segment *segment = mapped->oldest->segment;
    size_t first = mapped->oldest->index, pages = 1;
    for (plm__page *page; pages < most; pages++)
        if (!(page = page_at(segment, first + pages)) || page->users > 0)
            break;
    uint64_t address = segment->address + first * PAGE_BYTES;
    PLM_TRY(plm__source_decommit(pool->source, address, pages * PAGE_BYTES));
    for (size_t i = first; i < first + pages; i++) {
        end_idle(mapped, segment->pages.items[i]);
        give_page(mapped, segment->pages.items[i]);
        segment->pages.items[i] = NULL;
    }
    plm__pool_stats_subtract(&pool->stats, PLM_POOL_RESERVED_BYTES, plm__side(segment->shelf),
                             pages * PAGE_BYTES);
    pool->stats.num_device_free++;
    plm__pool_tell(pool, PLM_EVENT_SEGMENT_UNMAP, segment->shelf, address, pages * PAGE_BYTES);
    *count = pages;
    return PLM_OK;
}

/* Unmaps idle pages elsewhere, as many as there are and at most `count`. */
static plm_status free_up(mapped_pool *mapped, size_t count, bool *fenced)
{
    while (count > 0 && mapped->oldest) {
        if (!*fenced)
            PLM_TRY(plm__source_fence(mapped->pool.source));
        *fenced = true;
        size_t pages;
        PLM_TRY(unmap_idle(mapped, count, &pages));
        count -= pages;
    }
    return PLM_OK;
}

/* Maps `count` pages from `first` on, each held once. */
static plm_status map_pages(mapped_pool *mapped, plm__segment *segment, size_t first, size_t count)
{
    plm_pool *pool = &mapped->pool;
    size_t bytes = count * PAGE_BYTES, allowed = plm__pool_allowed(pool);
    size_t reserved = plm__pool_stats_current(&pool->stats, PLM_POOL_RESERVED_BYTES);
    PLM_FAIL_IF(reserved > allowed || bytes > allowed - reserved, PLM_ERROR_DEVICE_MEMORY,
                "the memory fraction allows %zu bytes, %zu are reserved", allowed, reserved);
    uint64_t address = segment->address + first * PAGE_BYTES;
    PLM_TRY(plm__source_commit(pool->source, address, bytes));
    for (size_t i = first; i < first + count; i++) {
        plm__page *page = take_page(mapped);
        *page = (plm__page){.segment = segment, .index = i, .users = 1};
        segment->pages.items[i] = page;
    }
    plm__pool_stats_add(&pool->stats, PLM_POOL_RESERVED_BYTES, plm__side(segment->shelf), bytes);
    pool->stats.num_device_alloc++;
    plm__pool_tell(pool, PLM_EVENT_SEGMENT_MAP, segment->shelf, address, bytes);
    return PLM_OK;
}

/* Maps every run of pages of the span that has no memory. */
static plm_status map_missing(mapped_pool *mapped, plm__segment *segment, page_span span,
                              bool capturing)
{
    bool fenced = false;
    for (size_t first = span.first; first <= span.last;) {
        size_t end = first;
        while (end <= span.last && !page_at(segment, end))
            end++;
        if (end == first) {
            first++;
            continue;
        }
        if (!capturing)
            PLM_TRY(free_up(mapped, end - first, &fenced));
        PLM_TRY(map_pages(mapped, segment, first, end - first));
        first = end;
    }
    return PLM_OK;
}

/* Holds every page of the span, with memory behind it; on failure none. */
static plm_status hold_span(mapped_pool *mapped, plm__segment *segment, page_span span,
                            bool capturing)
{
    size_t missing = 0;
    for (size_t i = span.first; i <= span.last; i++)
        missing += page_at(segment, i) == NULL;
    PLM_TRY(reserve_pages(mapped, missing));
    PLM_TRY(PLM_ARRAY_RESERVE(&segment->pages, (int64_t)span.last + 1));
    if (segment->pages.count < (int64_t)span.last + 1)
        segment->pages.count = (int64_t)span.last + 1;
    for (size_t i = span.first; i <= span.last; i++)
        if (segment->pages.items[i])
            hold(mapped, segment->pages.items[i]);
    if (missing == 0)
        return PLM_OK;
    plm_status status = map_missing(mapped, segment, span, capturing);
    for (size_t i = span.first; status != PLM_OK && i <= span.last; i++)
        if (segment->pages.items[i])
            drop(mapped, segment->pages.items[i]);
    return status;
}

/* ---- the policy ---- */

static plm_status open_range(plm_pool *pool, plm__shelf *shelf)
{
    size_t pages = pool->source->total_bytes / PAGE_BYTES + 1;
    plm__segment *segment;
    PLM_TRY(plm__segment_create(pool, shelf, pages * ADDRESSES_TO_MEMORY * PAGE_BYTES, PAGE_BYTES,
                                &segment));
    plm__block *whole = plm__slab_take(&pool->slab);
    *whole = (plm__block){.address = segment->address, .bytes = segment->bytes, .segment = segment};
    segment->first = whole;
    plm__shelf_insert(shelf, whole);
    return PLM_OK;
}

/* *block = a block of these bytes, in no place, its pages held. */
static plm_status place(mapped_pool *mapped, plm__shelf *shelf, size_t bytes, bool capturing,
                        plm__block **placed)
{
    plm_pool *pool = &mapped->pool;
    plm__block *block = plm__shelf_at_least(shelf, bytes, 0);
    if (!block) {
        PLM_TRY(open_range(pool, shelf));
        block = plm__shelf_at_least(shelf, bytes, 0);
    }
    plm__segment *segment = block->segment;
    page_span span = pages_of(segment, block->address, bytes);
    PLM_TRY(hold_span(mapped, segment, span, capturing));
    plm__shelf_remove(shelf, block);
    if (block->bytes > bytes) {
        plm__block *rest = block;
        block = plm__pool_cut(pool, rest, bytes);
        plm__shelf_insert(shelf, rest);
    }
    *placed = block;
    return PLM_OK;
}

/* The largest request that would surely succeed now: idle pages and what the budget leaves. */
static size_t largest_free(const mapped_pool *mapped, size_t refused_bytes)
{
    const plm_pool *pool = &mapped->pool;
    size_t allowed = plm__pool_allowed(pool), total = pool->source->total_bytes;
    size_t budget = allowed < total ? allowed : total;
    size_t idle = mapped->idle_count * PAGE_BYTES;
    size_t used = plm__pool_stats_current(&pool->stats, PLM_POOL_RESERVED_BYTES) - idle;
    size_t room = budget > used ? (budget - used) / PAGE_BYTES * PAGE_BYTES : 0;
    return room < refused_bytes ? room : idle; /* refused all the same: others hold that room */
}

static plm_status mapped_alloc(plm_pool *pool, plm__shelf *shelf, const plm_pool_request *request,
                               size_t rounded, plm_pool_grant *grant)
{
    mapped_pool *self = (mapped_pool *)pool;
    plm__block *block;
    plm_status status = PLM_ERROR_DEVICE_MEMORY;
    bool can_fit = rounded <= pool->source->total_bytes; /* addresses are made for no more */
    if (can_fit)
        status = place(self, shelf, rounded, request->capturing, &block);
    if (can_fit && status == PLM_ERROR_DEVICE_MEMORY && pool->pending_first &&
        !request->capturing) {
        PLM_TRY(plm__pool_complete_all(pool));
        pool->stats.num_alloc_retries++;
        PLM_TRY(plm__pool_reserve_host(pool));
        status = place(self, shelf, rounded, request->capturing, &block);
    }
    if (status == PLM_ERROR_DEVICE_MEMORY)
        return plm__pool_out_of_memory(pool, shelf, request->bytes, rounded, rounded,
                                       largest_free(self, rounded));
    PLM_TRY(status);
    plm__pool_hand_out(pool, block, request->bytes, grant);
    return PLM_OK;
}

static void mapped_reclaim(plm_pool *pool, plm__block *block)
{
    mapped_pool *self = (mapped_pool *)pool;
    plm__segment *segment = block->segment;
    page_span span = pages_of(segment, block->address, block->bytes);
    for (size_t i = span.first; i <= span.last; i++)
        drop(self, segment->pages.items[i]);
    plm__block *neighbours[2] = {block->previous, block->next};
    for (int i = 0; i < 2; i++) {
        if (!neighbours[i] || neighbours[i]->state != PLM_POOL_BLOCK_FREE)
            continue;
        plm__shelf_remove(segment->shelf, neighbours[i]);
        plm__pool_join(pool, block, neighbours[i]);
    }
    plm__shelf_insert(segment->shelf, block);
}

static plm_status mapped_empty_cache(plm_pool *pool)
{
    mapped_pool *self = (mapped_pool *)pool;
    PLM_TRY(plm__pool_complete_all(pool));
    bool fenced = true;
    return free_up(self, self->idle_count, &fenced);
}

/* A source that fails now fails for nobody: the pool ends. */
static void mapped_fini(plm_pool *pool)
{
    mapped_pool *self = (mapped_pool *)pool;
    while (pool->segments) {
        plm__segment *segment = pool->segments;
        for (size_t first = 0, end; first < (size_t)segment->pages.count; first = end + 1) {
            for (end = first; page_at(segment, end);)
                end++;
            if (end > first)
                (void)!plm__source_decommit(pool->source, segment->address + first * PAGE_BYTES,
                                            (end - first) * PAGE_BYTES);
        }
        (void)!plm__segment_destroy(pool, segment);
    }
    for (int64_t i = 0; i < self->chunks.count; i++)
        plm__host_free(self->chunks.items[i]);
    PLM_ARRAY_FREE(&self->chunks);
}

/* ---- checks ---- */

/* Every page has memory exactly where it must, and as many users as blocks touch it. */
static bool pages_are_valid(const plm__segment *segment, size_t *mapped_count, size_t *idle_count)
{
    const plm__block *block = segment->first;
    for (size_t i = 0; i < segment->bytes / PAGE_BYTES; i++) {
        uint64_t start = segment->address + i * PAGE_BYTES, end = start + PAGE_BYTES;
        while (block->address + block->bytes <= start)
            block = block->next;
        int64_t users = 0;
        for (const plm__block *other = block; other && other->address < end; other = other->next)
            users += other->state != PLM_POOL_BLOCK_FREE;
        const plm__page *page = page_at(segment, i);
        PLM__REQUIRE(page || users == 0);
        if (!page)
            continue;
        PLM__REQUIRE(page->segment == segment && page->index == i);
        PLM__REQUIRE(page->users == users);
        (*mapped_count)++;
        *idle_count += users == 0;
    }
    return true;
}

static bool mapped_is_valid(const plm_pool *pool)
{
    const mapped_pool *self = (const mapped_pool *)pool;
    size_t mapped_count = 0, idle_count = 0, listed = 0, free_bytes = 0, shelved_bytes = 0;
    for (const plm__segment *segment = pool->segments; segment; segment = segment->next) {
        if (!plm__segment_is_valid(segment) ||
            !pages_are_valid(segment, &mapped_count, &idle_count))
            return false;
        for (const plm__block *block = segment->first; block; block = block->next)
            free_bytes += block->state == PLM_POOL_BLOCK_FREE ? block->bytes : 0;
    }
    for (int64_t i = 0; i < pool->shelves.count; i++) {
        size_t bytes;
        if (!plm__shelf_is_valid(pool->shelves.items[i], &bytes))
            return false;
        shelved_bytes += bytes;
    }
    PLM__REQUIRE(shelved_bytes == free_bytes);
    for (const plm__page *page = self->oldest; page; page = page->newer, listed++)
        PLM__REQUIRE(page->users == 0 && (!page->newer || page->newer->older == page));
    PLM__REQUIRE(listed == idle_count && self->idle_count == idle_count);
    PLM__REQUIRE(plm__pool_stats_current(&pool->stats, PLM_POOL_RESERVED_BYTES) ==
                 mapped_count * PAGE_BYTES);
    return plm__pool_maps_are_valid(pool);
}

const plm__pool_table plm__mapped_table = {
    .name = "mapped",
    .pool_bytes = sizeof(mapped_pool),
    .uses_settings = false,
    .alloc = mapped_alloc,
    .reclaim = mapped_reclaim,
    .empty_cache = mapped_empty_cache,
    .is_valid = mapped_is_valid,
    .fini = mapped_fini,
};
