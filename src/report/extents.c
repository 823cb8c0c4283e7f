/* SPDX-License-Identifier: MIT */
/*
 * One walk over the events, forwards or backwards. Backwards, everything is mirrored: what the
 * trace takes away is put back and dies there, what it brings is removed and was born there.
 */
#include "report/extents.h"

#include <stdlib.h>
#include <string.h>

typedef struct walk {
    plm_extents *extents;
    bool backwards;
    int64_t stamp; /* index of the event that is being told */
    size_t reserved;
} walk;

/* The first live range that ends after `address`. */
static int64_t find(const plm_extents *extents, uint64_t address)
{
    int64_t low = 0, high = extents->live.count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const plm_extent *extent = &extents->live.items[middle];
        if (extent->address + extent->bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Makes room for `more` ranges at `place`, or takes -more away. */
static plm_status shift(plm_extents *extents, int64_t place, int64_t more)
{
    int64_t from = more < 0 ? place - more : place;
    size_t moved = (size_t)(extents->live.count - from) * sizeof *extents->live.items;
    PLM_TRY(PLM_ARRAY_RESERVE(&extents->live, extents->live.count + more));
    if (moved > 0)
        memmove(extents->live.items + from + more, extents->live.items + from, moved);
    extents->live.count += more;
    return PLM_OK;
}

/* A range that the walk leaves behind is complete: its other end is this event. */
static plm_status finish(walk *w, plm_extent extent)
{
    if (w->backwards)
        extent.birth = w->stamp;
    else
        extent.death = w->stamp;
    w->reserved -= extent.bytes;
    return PLM_ARRAY_PUSH(&w->extents->items, extent);
}

/* Cuts [begin, end) out of the live ranges. */
static plm_status leave(walk *w, uint64_t begin, uint64_t end)
{
    plm_extents *extents = w->extents;
    int64_t place = find(extents, begin);
    while (place < extents->live.count && extents->live.items[place].address < end) {
        plm_extent whole = extents->live.items[place], left = whole, cut = whole, right = whole;
        uint64_t whole_end = whole.address + whole.bytes;
        cut.address = whole.address > begin ? whole.address : begin;
        uint64_t cut_end = whole_end < end ? whole_end : end;
        cut.bytes = (size_t)(cut_end - cut.address);
        left.bytes = (size_t)(cut.address - whole.address);
        right.address = cut_end;
        right.bytes = (size_t)(whole_end - cut_end);
        PLM_TRY(shift(extents, place, (left.bytes > 0) + (right.bytes > 0) - 1));
        if (left.bytes > 0)
            extents->live.items[place++] = left;
        if (right.bytes > 0)
            extents->live.items[place++] = right;
        PLM_TRY(finish(w, cut));
    }
    return PLM_OK;
}

static plm_status enter(walk *w, plm_extent extent)
{
    if (extent.bytes == 0)
        return PLM_OK;
    PLM_TRY(leave(w, extent.address, extent.address + extent.bytes)); /* never two at a place */
    int64_t place = find(w->extents, extent.address);
    PLM_TRY(shift(w->extents, place, 1));
    w->extents->live.items[place] = extent;
    w->reserved += extent.bytes;
    return PLM_OK;
}

static plm_status follow(walk *w, const plm_event *event, int64_t index)
{
    bool brings = event->kind == PLM_EVENT_SEGMENT_ALLOC || event->kind == PLM_EVENT_SEGMENT_MAP;
    bool takes = event->kind == PLM_EVENT_SEGMENT_FREE || event->kind == PLM_EVENT_SEGMENT_UNMAP;
    if (!brings && !takes)
        return PLM_OK;
    w->stamp = index;
    if (w->backwards)
        PLM_TRY(PLM_ARRAY_PUSH(&w->extents->steps, (plm_reserved_step){index, w->reserved}));
    if (brings != w->backwards) {
        PLM_TRY(enter(w, (plm_extent){event->address, event->bytes_taken, w->backwards ? -1 : index,
                                      w->backwards ? index : -1, event->queue, event->pool,
                                      event->kind == PLM_EVENT_SEGMENT_MAP ||
                                          event->kind == PLM_EVENT_SEGMENT_UNMAP}));
    } else {
        PLM_TRY(leave(w, event->address, event->address + event->bytes_taken));
    }
    if (!w->backwards)
        PLM_TRY(PLM_ARRAY_PUSH(&w->extents->steps, (plm_reserved_step){index, w->reserved}));
    return PLM_OK;
}

static plm_status walk_backwards(walk *w, const plm_export_source *source, const plm_event *events,
                                 int64_t count)
{
    for (int64_t i = 0; i < source->segment_count; i++) {
        const plm_export_segment *segment = &source->segments[i];
        PLM_TRY(enter(w, (plm_extent){segment->address, segment->bytes, -1, -1, segment->queue,
                                      segment->pool, segment->expandable}));
    }
    for (int64_t i = count - 1; i >= 0; i--)
        PLM_TRY(follow(w, &events[i], i));
    PLM_TRY(PLM_ARRAY_PUSH(&w->extents->steps, (plm_reserved_step){-1, w->reserved}));
    plm_reserved_step *steps = w->extents->steps.items;
    for (int64_t i = 0, k = w->extents->steps.count - 1; i < k; i++, k--) {
        plm_reserved_step step = steps[i];
        steps[i] = steps[k];
        steps[k] = step;
    }
    return PLM_OK;
}

static plm_status walk_forwards(walk *w, const plm_event *events, int64_t count)
{
    PLM_TRY(PLM_ARRAY_PUSH(&w->extents->steps, (plm_reserved_step){-1, 0}));
    for (int64_t i = 0; i < count; i++)
        PLM_TRY(follow(w, &events[i], i));
    return PLM_OK;
}

/* A trace that never speaks of segments lives in one arena. */
static plm_status add_arena(plm_extents *extents, const plm_event *events, int64_t count)
{
    uint64_t begin = UINT64_MAX, end = 0;
    for (int64_t i = 0; i < count; i++) {
        if (events[i].kind != PLM_EVENT_BLOCK_ALLOC)
            continue;
        if (events[i].address < begin)
            begin = events[i].address;
        if (events[i].address + events[i].bytes_taken > end)
            end = events[i].address + events[i].bytes_taken;
    }
    if (begin >= end)
        return PLM_OK;
    extents->steps.items[0].bytes = (size_t)(end - begin);
    return PLM_ARRAY_PUSH(&extents->items,
                          (plm_extent){begin, (size_t)(end - begin), -1, -1, 0, 0, false});
}

plm_status plm__extents_init(const plm_export_source *source, plm_extents *extents)
{
    int64_t count;
    const plm_event *events = plm_trace_events(source->trace, &count);
    walk w = {.extents = extents, .backwards = source->segment_count > 0};
    if (w.backwards)
        PLM_TRY(walk_backwards(&w, source, events, count));
    else
        PLM_TRY(walk_forwards(&w, events, count));
    for (int64_t i = 0; i < extents->live.count; i++)
        PLM_TRY(PLM_ARRAY_PUSH(&extents->items, extents->live.items[i]));
    PLM_ARRAY_FREE(&extents->live);
    if (extents->items.count == 0 && extents->steps.count == 1)
        PLM_TRY(add_arena(extents, events, count));
    return PLM_OK;
}

void plm__extents_fini(plm_extents *extents)
{
    PLM_ARRAY_FREE(&extents->items);
    PLM_ARRAY_FREE(&extents->steps);
    PLM_ARRAY_FREE(&extents->live);
}
