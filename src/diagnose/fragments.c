/* SPDX-License-Identifier: MIT */
/*
 * Fragments: a state, segment by segment. A plain segment can be given back when nothing lives in
 * it, an expandable one page by page; whatever else is free is pinned by the blocks that live
 * there.
 */
#include <stdlib.h>

#include "base/array.h"
#include "diagnose/views.h"

/* Adds up a state as its blocks come, by segment and address. */
typedef struct fragment_sum {
    plm_fragments *out;
    PLM_ARRAY(plm_pin) pins;
    plm_pin pin; /* of the segment that blocks come from now */
    bool is_expandable;
    size_t releasable; /* bytes of it that can be given back */
    plm_status status;
} fragment_sum;

static void end_segment(fragment_sum *sum)
{
    plm_pin *pin = &sum->pin;
    if (!sum->is_expandable && pin->live_blocks == 0)
        sum->releasable = pin->free_bytes;
    sum->out->releasable_bytes += sum->releasable;
    sum->out->pinned_bytes += pin->free_bytes - sum->releasable;
    bool pins_something = pin->live_blocks > 0 && pin->free_bytes > sum->releasable;
    pin->free_bytes -= sum->releasable;
    if (pins_something && sum->status == PLM_OK)
        sum->status = PLM_ARRAY_PUSH(&sum->pins, *pin);
}

static void begin_segment(fragment_sum *sum, uint64_t address, size_t bytes, bool is_small,
                          bool is_expandable)
{
    if (sum->pin.segment_bytes > 0)
        end_segment(sum);
    sum->pin = (plm_pin){
        .segment_address = address, .segment_bytes = bytes, .event = -1, .is_small = is_small};
    sum->is_expandable = is_expandable;
    sum->releasable = 0;
}

static void add_free(fragment_sum *sum, uint64_t address, size_t bytes)
{
    plm_pin *pin = &sum->pin;
    pin->free_bytes += bytes;
    if (bytes > pin->largest_free_bytes)
        pin->largest_free_bytes = bytes;
    if (bytes > sum->out->largest_free_bytes)
        sum->out->largest_free_bytes = bytes;
    if (!sum->is_expandable)
        return;
    size_t page = pin->is_small ? PLM_POOL_PAGE_BYTES : PLM_POOL_SEGMENT_BYTES;
    size_t start = (size_t)(address - pin->segment_address);
    size_t first = (start + page - 1) / page * page, end = (start + bytes) / page * page;
    sum->releasable += end > first ? end - first : 0;
}

static void add_used(fragment_sum *sum, size_t bytes, size_t asked, bool is_live, int64_t event)
{
    plm_pin *pin = &sum->pin;
    sum->out->active_bytes += bytes;
    sum->out->asked_bytes += asked;
    sum->out->allocated_bytes += is_live ? bytes : 0;
    bool is_first = pin->live_blocks++ == 0;
    pin->live_bytes += bytes;
    if (is_first || event < pin->event) {
        pin->event = event;
        pin->block_bytes = bytes;
    }
}

static int most_free_first(const void *left, const void *right)
{
    const plm_pin *a = left, *b = right;
    if (a->free_bytes != b->free_bytes)
        return a->free_bytes < b->free_bytes ? 1 : -1;
    return a->segment_address < b->segment_address ? -1 : a->segment_address > b->segment_address;
}

static plm_status end_sum(fragment_sum *sum)
{
    if (sum->pin.segment_bytes > 0)
        end_segment(sum);
    sum->out->cached_bytes = sum->out->releasable_bytes + sum->out->pinned_bytes;
    sum->out->reserved_bytes = sum->out->active_bytes + sum->out->cached_bytes;
    if (sum->status != PLM_OK) {
        PLM_ARRAY_FREE(&sum->pins);
        return sum->status;
    }
    PLM_ARRAY_SORT(&sum->pins, most_free_first);
    sum->out->pins = sum->pins.items;
    sum->out->pin_count = sum->pins.count;
    return PLM_OK;
}

/* ---- the final state ---- */

static plm_status sum_state(plm_findings *findings, const int64_t *births)
{
    plm_fragments found = {0};
    fragment_sum sum = {.out = &found};
    for (int64_t s = 0; s < findings->device->segment_count; s++) {
        const plm_snapshot_segment *segment = &findings->device->segments[s];
        begin_segment(&sum, segment->address, segment->bytes, !segment->large, segment->expandable);
        for (int64_t i = 0; i < segment->block_count; i++) {
            const plm_snapshot_block *block = &findings->device->blocks[segment->block + i];
            if (block->state == PLM_BLOCK_INACTIVE)
                add_free(&sum, block->address, block->bytes);
            else
                add_used(&sum, block->bytes, block->bytes_asked,
                         block->state == PLM_BLOCK_ALLOCATED,
                         block->block >= 0 ? births[block->block] - 1 : -1);
        }
    }
    PLM_TRY(end_sum(&sum));
    findings->fragments = found;
    return PLM_OK;
}

plm_status plm__find_fragments(plm_findings *findings)
{
    int64_t *births = NULL;
    PLM_TRY(plm__find_births(findings, &births));
    plm_status status = sum_state(findings, births);
    plm__host_free(births);
    return status;
}

/* ---- a pool ---- */

typedef struct placed_block {
    uint64_t address;
    int64_t number;
} placed_block;

typedef struct pool_view {
    fragment_sum sum;
    placed_block *placed; /* by address */
    int64_t placed_count;
    const int64_t *births;
    uint64_t segment; /* that blocks come from now */
} pool_view;

static int by_address(const void *left, const void *right)
{
    const placed_block *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

static int64_t birth_at(const pool_view *view, uint64_t address)
{
    placed_block key = {.address = address};
    const placed_block *found =
        view->placed_count == 0
            ? NULL
            : bsearch(&key, view->placed, (size_t)view->placed_count, sizeof key, by_address);
    return found ? view->births[found->number] - 1 : -1;
}

static void see_block(void *context, const plm_pool_block *block)
{
    pool_view *view = context;
    if (view->segment != block->segment_address)
        begin_segment(&view->sum, block->segment_address, block->segment_bytes, block->is_small,
                      block->is_expandable);
    view->segment = block->segment_address;
    if (block->state == PLM_POOL_BLOCK_FREE)
        add_free(&view->sum, block->address, block->bytes);
    else if (block->state != PLM_POOL_BLOCK_UNMAPPED)
        add_used(&view->sum, block->bytes, block->asked_bytes, block->state == PLM_POOL_BLOCK_LIVE,
                 birth_at(view, block->address));
}

plm_status plm__fragments_of_pool(const plm_replay_moment *moment, const int64_t *births,
                                  plm_fragments *fragments)
{
    plm_fragments found = {0};
    pool_view view = {.sum = {.out = &found}, .births = births};
    PLM_TRY(plm__host_alloc(((size_t)moment->block_count + 1) * sizeof *view.placed, &view.placed));
    for (int64_t i = 0; i < moment->block_count; i++)
        if (moment->addresses[i] != 0)
            view.placed[view.placed_count++] = (placed_block){moment->addresses[i], i};
    qsort(view.placed, (size_t)view.placed_count, sizeof *view.placed, by_address);
    plm_status status = plm__pool_walk(moment->pool, see_block, &view);
    if (status == PLM_OK)
        status = end_sum(&view.sum);
    else
        PLM_ARRAY_FREE(&view.sum.pins);
    plm__host_free(view.placed);
    if (status == PLM_OK)
        *fragments = found;
    return status;
}
