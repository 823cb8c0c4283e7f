/* SPDX-License-Identifier: MIT */
/* The abstract address space: two sorted arrays of ranges and a capacity. */
#include "pool/space.h"

#include <string.h>

#define PAGE_BYTES    ((size_t)2 << 20)
#define FIRST_ADDRESS ((uint64_t)1 << 44) /* far from addresses that drivers give */

/* The place of the first range that ends after `address`. */
static int64_t find_range(const plm_space_ranges *ranges, uint64_t address)
{
    int64_t low = 0, high = ranges->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (ranges->items[middle].address + ranges->items[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static plm_status insert_range(plm_space_ranges *ranges, int64_t at, uint64_t address, size_t bytes)
{
    PLM_TRY(PLM_ARRAY_RESERVE(ranges, ranges->count + 1));
    memmove(ranges->items + at + 1, ranges->items + at,
            (size_t)(ranges->count - at) * sizeof *ranges->items);
    ranges->items[at] = (plm_space_range){address, bytes};
    ranges->count++;
    return PLM_OK;
}

static void remove_range(plm_space_ranges *ranges, int64_t at)
{
    ranges->count--;
    memmove(ranges->items + at, ranges->items + at + 1,
            (size_t)(ranges->count - at) * sizeof *ranges->items);
}

/* Whether [address, address + bytes) meets range `at` of the array. */
static bool meets(const plm_space_ranges *ranges, int64_t at, uint64_t address, size_t bytes)
{
    return at < ranges->count && ranges->items[at].address < address + bytes;
}

/* Whether [address, address + bytes) lies inside range `at` of the array. */
static bool holds(const plm_space_ranges *ranges, int64_t at, uint64_t address, size_t bytes)
{
    return at < ranges->count && ranges->items[at].address <= address &&
           address + bytes <= ranges->items[at].address + ranges->items[at].bytes;
}

static plm_status space_reserve(plm_source *source, size_t bytes, uint64_t *address)
{
    plm_space *space = (plm_space *)source;
    space->reserve_calls++;
    uint64_t chosen = space->next_address;
    bool is_own = !space->chooser || !space->chooser(space->chooser_context, bytes, &chosen);
    if (is_own)
        chosen = space->next_address;
    PLM_FAIL_IF(bytes == 0 || chosen == 0 || bytes > UINT64_MAX / 2 - chosen, PLM_ERROR_ARGUMENT,
                "no range of %zu bytes at address 0x%llx", bytes, (unsigned long long)chosen);
    int64_t at = find_range(&space->reserved, chosen);
    PLM_FAIL_IF(meets(&space->reserved, at, chosen, bytes), PLM_ERROR_ARGUMENT,
                "address 0x%llx was chosen for %zu bytes but is in use", (unsigned long long)chosen,
                bytes);
    PLM_TRY(insert_range(&space->reserved, at, chosen, bytes));
    if (is_own) /* a page apart, so that ranges never look like one */
        space->next_address += (bytes + 2 * PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
    *address = chosen;
    return PLM_OK;
}

static plm_status refuse(const plm_space *space, size_t bytes)
{
    size_t free_bytes = space->source.total_bytes - space->committed_bytes;
    plm_status status = plm_fail(PLM_ERROR_DEVICE_MEMORY,
                                 "the address space is full: wanted %zu bytes, %zu of %zu are free",
                                 bytes, free_bytes, space->source.total_bytes);
    plm__fail_oom(&(plm_oom_record){.asked_bytes = bytes,
                                    .rounded_bytes = bytes,
                                    .live_bytes = space->committed_bytes,
                                    .reserved_bytes = space->committed_bytes,
                                    .budget_bytes = space->source.total_bytes,
                                    .largest_free_bytes = free_bytes});
    return status;
}

static plm_status space_commit(plm_source *source, uint64_t address, size_t bytes)
{
    plm_space *space = (plm_space *)source;
    space->commit_calls++;
    int64_t home = find_range(&space->reserved, address);
    PLM_BUG_IF(!holds(&space->reserved, home, address, bytes),
               "commit outside of a reserved range");
    plm_space_ranges *committed = &space->committed;
    int64_t at = find_range(committed, address);
    PLM_BUG_IF(meets(committed, at, address, bytes), "commit of what is committed");
    if (bytes > source->total_bytes - space->committed_bytes)
        return refuse(space, bytes);
    plm_space_range *before = at > 0 ? &committed->items[at - 1] : NULL;
    plm_space_range *after = at < committed->count ? &committed->items[at] : NULL;
    bool joins_before = before && before->address + before->bytes == address;
    bool joins_after = after && after->address == address + bytes;
    if (joins_before) {
        before->bytes += bytes + (joins_after ? after->bytes : 0);
        if (joins_after)
            remove_range(committed, at);
    } else if (joins_after) {
        *after = (plm_space_range){address, after->bytes + bytes};
    } else {
        PLM_TRY(insert_range(committed, at, address, bytes));
    }
    space->committed_bytes += bytes;
    if (space->committed_bytes > space->committed_peak_bytes)
        space->committed_peak_bytes = space->committed_bytes;
    return PLM_OK;
}

static plm_status space_decommit(plm_source *source, uint64_t address, size_t bytes)
{
    plm_space *space = (plm_space *)source;
    space->decommit_calls++;
    plm_space_ranges *committed = &space->committed;
    int64_t at = find_range(committed, address);
    PLM_BUG_IF(!holds(committed, at, address, bytes), "decommit of what is not committed");
    plm_space_range whole = committed->items[at];
    size_t left = (size_t)(address - whole.address), right = whole.bytes - left - bytes;
    if (left > 0 && right > 0)
        PLM_TRY(insert_range(committed, at + 1, address + bytes, right));
    if (left > 0)
        committed->items[at].bytes = left;
    else if (right > 0)
        committed->items[at] = (plm_space_range){address + bytes, right};
    else
        remove_range(committed, at);
    space->committed_bytes -= bytes;
    return PLM_OK;
}

static plm_status space_release(plm_source *source, uint64_t address, size_t bytes)
{
    plm_space *space = (plm_space *)source;
    space->release_calls++;
    int64_t at = find_range(&space->reserved, address);
    PLM_BUG_IF(at == space->reserved.count || space->reserved.items[at].address != address ||
                   space->reserved.items[at].bytes != bytes,
               "release of a range that was not reserved");
    PLM_BUG_IF(meets(&space->committed, find_range(&space->committed, address), address, bytes),
               "release of a range with memory behind it");
    remove_range(&space->reserved, at);
    return PLM_OK;
}

static plm_status space_fence(plm_source *source)
{
    ((plm_space *)source)->fence_calls++;
    return PLM_OK;
}

static const plm_source_table space_table = {
    .reserve = space_reserve,
    .commit = space_commit,
    .decommit = space_decommit,
    .release = space_release,
    .fence = space_fence,
};

void plm__space_init(plm_space *space, size_t capacity_bytes)
{
    *space = (plm_space){
        .source = {&space_table, .page_bytes = PAGE_BYTES, .total_bytes = capacity_bytes},
        .next_address = FIRST_ADDRESS,
    };
}

void plm__space_fini(plm_space *space)
{
    PLM_ARRAY_FREE(&space->reserved);
    PLM_ARRAY_FREE(&space->committed);
}
