/* SPDX-License-Identifier: MIT */
/*
 * A trace as a snapshot in PyTorch's form: the state after the last event, cut into segments and
 * blocks, and the history. A source that comes from a snapshot has the snapshot's state, streams
 * and pools; another has its trace's own numbers. Events that stand for blocks older than a
 * recording are left out, as the recording did.
 */
#include "plimsoll/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "report/extents.h"
#include "torch/pickle_write.h"

enum {
    PIECE_BYTES = 256 * 1024,
    SMALL_SEGMENT_BYTES = 2 * 1024 * 1024, /* of PyTorch's small pool */
    PLACE_MAX_BYTES = 512
};

typedef struct writer {
    const plm_export_source *source;
    const plm_event *events;
    const plm_owner *owners;
    int64_t count;
    int device;
    PLM_ARRAY(plm_export_segment) segments; /* at the end, by address */
    int64_t *live;                          /* alloc events of blocks live then, by address */
    int64_t live_count;
    uint32_t *stacks; /* by owner + 1: its frames' memo + 1, 0 when not yet written */
    plm_pickle_writer pickle;
    plm_file_writer file;
} writer;

static plm_status write_gathered(writer *w, int64_t from_bytes)
{
    PLM_TRY(plm__text_status(&w->pickle.text));
    if (w->pickle.text.count < from_bytes)
        return PLM_OK;
    PLM_TRY(plm__file_append(&w->file, w->pickle.text.items, (size_t)w->pickle.text.count));
    w->pickle.text.count = 0;
    return PLM_OK;
}

static void key_text(writer *w, const char *key, const char *value)
{
    plm__pickle_add_text(&w->pickle, key);
    plm__pickle_add_text(&w->pickle, value);
}

static void key_int(writer *w, const char *key, int64_t value)
{
    plm__pickle_add_text(&w->pickle, key);
    plm__pickle_add_int(&w->pickle, value);
}

static void key_natural(writer *w, const char *key, uint64_t value)
{
    plm__pickle_add_text(&w->pickle, key);
    plm__pickle_add_natural(&w->pickle, value);
}

static void add_frame(writer *w, const char *name, const char *file, int64_t line)
{
    plm__pickle_item(&w->pickle);
    plm__pickle_begin_dict(&w->pickle);
    key_text(w, "name", name);
    key_text(w, "filename", file);
    key_int(w, "line", line);
    plm__pickle_end_dict(&w->pickle);
}

/* An owner without a stack: "block.3 probabilities", made by "block.3 softmax". */
static void add_named_frame(writer *w, const plm_owner *owner)
{
    const plm_trace *trace = w->source->trace;
    const char *layer = plm_trace_text(trace, owner->layer);
    char place[PLACE_MAX_BYTES];
    snprintf(place, sizeof place, "%s%s%s", layer, layer[0] ? " " : "",
             plm_trace_text(trace, owner->name ? owner->name : owner->op));
    add_frame(w, place, plm_trace_text(trace, owner->made_by ? owner->made_by : owner->op), 0);
}

static void add_frames(writer *w, int32_t owner_index)
{
    uint32_t *memo = &w->stacks[owner_index + 1];
    plm__pickle_add_text(&w->pickle, "frames");
    if (*memo > 0) {
        plm__pickle_recall(&w->pickle, *memo - 1);
        return;
    }
    plm__pickle_begin_list(&w->pickle);
    const plm_owner *owner = owner_index < 0 ? NULL : &w->owners[owner_index];
    int64_t depth = owner ? plm_trace_stack_depth(w->source->trace, owner->frames) : 0;
    for (int64_t i = 0; i < depth; i++) {
        plm_frame frame = plm_trace_stack_frame(w->source->trace, owner->frames, i);
        add_frame(w, plm_trace_text(w->source->trace, frame.function),
                  plm_trace_text(w->source->trace, frame.file), frame.line);
    }
    if (owner && depth == 0 && (owner->name || owner->layer || owner->op))
        add_named_frame(w, owner);
    plm__pickle_end_list(&w->pickle);
    *memo = plm__pickle_remember(&w->pickle) + 1;
}

/* PyTorch's handle of a stream, or the trace's own number. */
static uint64_t stream_of(const writer *w, uint16_t queue)
{
    return w->source->recorded ? w->source->recorded->streams[queue] : queue;
}

/* ---- the state ---- */

static void add_block(writer *w, uint64_t address, size_t bytes, size_t asked,
                      plm_block_state state, int32_t owner)
{
    plm__pickle_item(&w->pickle);
    plm__pickle_begin_dict(&w->pickle);
    key_natural(w, "address", address);
    key_natural(w, "size", bytes);
    key_natural(w, "requested_size", asked);
    key_text(w, "state", plm_block_state_text(state));
    add_frames(w, owner);
    plm__pickle_end_dict(&w->pickle);
}

/* A segment's dictionary up to its blocks, which are to follow. */
static void begin_segment(writer *w, const plm_snapshot_segment *segment)
{
    uint64_t pool[2] = {0, segment->pool};
    if (w->source->recorded)
        memcpy(pool, w->source->recorded->pools[segment->pool], sizeof pool);
    plm__pickle_item(&w->pickle);
    plm__pickle_begin_dict(&w->pickle);
    key_int(w, "device", w->device);
    key_natural(w, "address", segment->address);
    key_natural(w, "total_size", segment->bytes);
    key_natural(w, "allocated_size", segment->allocated_bytes);
    key_natural(w, "active_size", segment->active_bytes);
    key_natural(w, "requested_size", segment->asked_bytes);
    key_natural(w, "stream", stream_of(w, segment->queue));
    key_text(w, "segment_type", segment->large ? "large" : "small");
    plm__pickle_add_text(&w->pickle, "segment_pool_id");
    plm__pickle_begin_tuple(&w->pickle);
    plm__pickle_add_natural(&w->pickle, pool[0]);
    plm__pickle_add_natural(&w->pickle, pool[1]);
    plm__pickle_end_tuple(&w->pickle);
    plm__pickle_add_text(&w->pickle, "is_expandable");
    plm__pickle_add_bool(&w->pickle, segment->expandable);
    add_frames(w, segment->owner);
    plm__pickle_add_text(&w->pickle, "blocks");
    plm__pickle_begin_list(&w->pickle);
}

static void end_segment(writer *w)
{
    plm__pickle_end_list(&w->pickle);
    plm__pickle_end_dict(&w->pickle);
}

/* The live blocks inside a segment and the free stretches between; `next` walks the live ones. */
static void add_blocks(writer *w, const plm_snapshot_segment *segment, int64_t next)
{
    uint64_t at = segment->address, end = segment->address + segment->bytes;
    for (; next < w->live_count && w->events[w->live[next]].address < end; next++) {
        const plm_event *event = &w->events[w->live[next]];
        if (event->address < at)
            continue; /* two at a place: the trace contradicts itself */
        uint64_t after = event->address + event->bytes_taken;
        if (after > end)
            after = end;
        if (event->address > at)
            add_block(w, at, event->address - at, 0, PLM_BLOCK_INACTIVE, PLM_TRACE_NO_OWNER);
        add_block(w, event->address, after - event->address, event->bytes_asked,
                  PLM_BLOCK_ALLOCATED, event->owner);
        at = after;
    }
    if (at < end)
        add_block(w, at, end - at, 0, PLM_BLOCK_INACTIVE, PLM_TRACE_NO_OWNER);
}

/* A segment whose blocks are worked out from the trace. */
static void add_segment(writer *w, const plm_export_segment *from, int64_t next)
{
    plm_snapshot_segment segment = {.address = from->address,
                                    .bytes = from->bytes,
                                    .owner = PLM_TRACE_NO_OWNER,
                                    .queue = from->queue,
                                    .pool = from->pool,
                                    .large = from->large,
                                    .expandable = from->expandable};
    for (int64_t i = next; i < w->live_count; i++) {
        const plm_event *event = &w->events[w->live[i]];
        if (event->address >= from->address + from->bytes)
            break;
        segment.allocated_bytes += event->bytes_taken;
        segment.asked_bytes += event->bytes_asked;
    }
    segment.active_bytes = segment.allocated_bytes;
    begin_segment(w, &segment);
    add_blocks(w, &segment, next);
    end_segment(w);
}

static plm_status add_segments(writer *w)
{
    int64_t next = 0;
    for (int64_t i = 0; i < w->segments.count; i++) {
        while (next < w->live_count &&
               w->events[w->live[next]].address < w->segments.items[i].address)
            next++;
        add_segment(w, &w->segments.items[i], next);
        PLM_TRY(write_gathered(w, PIECE_BYTES));
    }
    return PLM_OK;
}

/* The state as the snapshot has it. */
static plm_status add_recorded_segments(writer *w)
{
    const plm_snapshot_segment *segments = w->source->recorded->segments;
    const plm_snapshot_block *blocks = w->source->recorded->blocks;
    for (int64_t i = 0; i < w->source->recorded->segment_count; i++) {
        begin_segment(w, &segments[i]);
        for (int64_t k = 0; k < segments[i].block_count; k++) {
            const plm_snapshot_block *block = &blocks[segments[i].block + k];
            add_block(w, block->address, block->bytes, block->bytes_asked,
                      (plm_block_state)block->state, block->owner);
        }
        end_segment(w);
        PLM_TRY(write_gathered(w, PIECE_BYTES));
    }
    return PLM_OK;
}

/* ---- the history ---- */

static int64_t microseconds(const writer *w, const plm_event *event)
{
    return w->source->timed ? event->time / 1000 : event->time;
}

static void add_event(writer *w, const plm_event *event)
{
    bool failure = event->kind == PLM_EVENT_OUT_OF_MEMORY;
    const plm_owner *owner = event->owner < 0 ? NULL : &w->owners[event->owner];
    plm__pickle_item(&w->pickle);
    plm__pickle_begin_dict(&w->pickle);
    key_text(w, "action", plm_event_text((plm_event_kind)event->kind));
    key_natural(w, failure ? "device_free" : "addr", failure ? event->bytes_taken : event->address);
    key_natural(w, "size", event->bytes_asked);
    key_natural(w, "stream", stream_of(w, event->queue));
    key_int(w, "time_us", microseconds(w, event));
    key_text(w, "compile_context", "N/A");
    key_text(w, "user_metadata",
             owner && owner->frames >= 0 ? plm_trace_text(w->source->trace, owner->name) : "");
    add_frames(w, event->owner);
    plm__pickle_end_dict(&w->pickle);
}

static plm_status add_history(writer *w)
{
    plm__pickle_begin_list(&w->pickle);
    for (int64_t i = w->source->carried_in; i < w->count; i++) {
        if (w->events[i].kind == PLM_EVENT_MARK)
            continue;
        add_event(w, &w->events[i]);
        PLM_TRY(write_gathered(w, PIECE_BYTES));
    }
    plm__pickle_end_list(&w->pickle);
    return PLM_OK;
}

static void add_marks(writer *w)
{
    for (int64_t i = 0; i < w->count; i++) {
        if (w->events[i].kind != PLM_EVENT_MARK)
            continue;
        plm__pickle_item(&w->pickle);
        plm__pickle_begin_dict(&w->pickle);
        key_text(w, "stage", "START");
        key_text(w, "name", plm_trace_text(w->source->trace, w->events[i].label));
        key_int(w, "device", w->device);
        key_int(w, "time_us", microseconds(w, &w->events[i]));
        plm__pickle_end_dict(&w->pickle);
    }
}

/* ---- a source ---- */

static int by_address(const void *left, const void *right)
{
    const plm_export_segment *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

static plm_status find_segments(writer *w)
{
    for (int64_t i = 0; i < w->source->segment_count; i++)
        PLM_TRY(PLM_ARRAY_PUSH(&w->segments, w->source->segments[i]));
    if (w->source->segment_count == 0) {
        plm_extents extents = {0};
        plm_status status = plm__extents_init(w->source, &extents);
        for (int64_t i = 0; i < extents.items.count && status == PLM_OK; i++) {
            const plm_extent *it = &extents.items.items[i];
            if (it->death < 0)
                status = PLM_ARRAY_PUSH(
                    &w->segments,
                    (plm_export_segment){it->address, it->bytes, it->queue, it->pool,
                                         it->bytes > SMALL_SEGMENT_BYTES, it->expandable});
        }
        plm__extents_fini(&extents);
        PLM_TRY(status);
    }
    PLM_ARRAY_SORT(&w->segments, by_address);
    return PLM_OK;
}

typedef struct placed {
    uint64_t address;
    int64_t event;
} placed;

static int placed_by_address(const void *left, const void *right)
{
    const placed *a = left, *b = right;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    return a->event < b->event ? -1 : a->event > b->event;
}

static plm_status find_live(writer *w)
{
    if (w->count == 0)
        return PLM_OK;
    placed *list = NULL;
    PLM_TRY(plm_trace_live_at(w->source->trace, w->count - 1, &w->live, &w->live_count));
    PLM_TRY(plm__host_alloc((size_t)(w->live_count + 1) * sizeof *list, &list));
    for (int64_t i = 0; i < w->live_count; i++)
        list[i] = (placed){w->events[w->live[i]].address, w->live[i]};
    qsort(list, (size_t)w->live_count, sizeof *list, placed_by_address);
    for (int64_t i = 0; i < w->live_count; i++)
        w->live[i] = list[i].event;
    plm__host_free(list);
    return PLM_OK;
}

/* Makes `w` speak of this source. */
static plm_status turn_to(writer *w, const plm_export_source *source, int device)
{
    int64_t owner_count;
    w->source = source;
    w->device = device;
    w->events = plm_trace_events(source->trace, &w->count);
    w->owners = plm_trace_owners(source->trace, &owner_count);
    plm__host_free(w->stacks);
    w->stacks = NULL;
    return plm__host_alloc((size_t)(owner_count + 1) * sizeof *w->stacks, &w->stacks);
}

static plm_status tell_state(writer *w, const plm_export_source *source, int device)
{
    PLM_TRY(turn_to(w, source, device));
    if (source->recorded)
        return add_recorded_segments(w);
    w->segments.count = 0;
    plm_free(w->live);
    w->live = NULL;
    w->live_count = 0;
    PLM_TRY(find_segments(w));
    PLM_TRY(find_live(w));
    return add_segments(w);
}

static void add_settings(writer *w, const plm_export_source *sources, int64_t count)
{
    bool expandable = false;
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < sources[i].segment_count; k++)
            expandable |= sources[i].segments[k].expandable;
    plm__pickle_add_text(&w->pickle, "allocator_settings");
    plm__pickle_begin_dict(&w->pickle);
    key_text(w, "PYTORCH_CUDA_ALLOC_CONF",
             count > 0 && sources[0].settings ? sources[0].settings : "");
    plm__pickle_add_text(&w->pickle, "expandable_segments");
    plm__pickle_add_bool(&w->pickle, expandable);
    plm__pickle_end_dict(&w->pickle);
}

/* The source of a device; where two share one, sources are numbered in their order. */
static const plm_export_source *source_of(const plm_export_source *sources, int64_t count,
                                          bool ordered, int device)
{
    for (int64_t i = 0; i < count; i++)
        if ((ordered ? (int)i : sources[i].device) == device)
            return &sources[i];
    return NULL;
}

static plm_status write_all(writer *w, const plm_export_source *sources, int64_t count)
{
    bool ordered = false;
    int last = (int)count - 1;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < i; k++)
            ordered |= sources[i].device == sources[k].device;
        last = sources[i].device > last ? sources[i].device : last;
    }
    last = ordered ? (int)count - 1 : last;
    plm__pickle_begin_dict(&w->pickle);
    plm__pickle_add_text(&w->pickle, "segments");
    plm__pickle_begin_list(&w->pickle);
    for (int64_t i = 0; i < count; i++)
        PLM_TRY(tell_state(w, &sources[i], ordered ? (int)i : sources[i].device));
    plm__pickle_end_list(&w->pickle);
    plm__pickle_add_text(&w->pickle, "device_traces");
    plm__pickle_begin_list(&w->pickle);
    for (int device = 0; device <= last; device++) {
        const plm_export_source *source = source_of(sources, count, ordered, device);
        plm__pickle_item(&w->pickle);
        if (!source) {
            plm__pickle_begin_list(&w->pickle);
            plm__pickle_end_list(&w->pickle);
            continue;
        }
        PLM_TRY(turn_to(w, source, device));
        PLM_TRY(add_history(w));
    }
    plm__pickle_end_list(&w->pickle);
    add_settings(w, sources, count);
    plm__pickle_add_text(&w->pickle, "external_annotations");
    plm__pickle_begin_list(&w->pickle);
    for (int64_t i = 0; i < count; i++) {
        PLM_TRY(turn_to(w, &sources[i], ordered ? (int)i : sources[i].device));
        add_marks(w);
    }
    plm__pickle_end_list(&w->pickle);
    plm__pickle_end_dict(&w->pickle);
    plm__pickle_finish(&w->pickle);
    return write_gathered(w, 0);
}

plm_status plm_export_snapshot(const char *path, const plm_export_source *sources, int64_t count)
{
    writer w = {0};
    PLM_TRY(plm__pickle_writer_init(&w.pickle));
    plm_status status = plm__file_begin(path, &w.file);
    if (status != PLM_OK) {
        plm__pickle_writer_fini(&w.pickle);
        return status;
    }
    status = write_all(&w, sources, count);
    plm__pickle_writer_fini(&w.pickle);
    PLM_ARRAY_FREE(&w.segments);
    plm_free(w.live);
    plm__host_free(w.stacks);
    if (status == PLM_OK)
        return plm__file_finish(&w.file);
    plm__file_abandon(&w.file);
    return status;
}
