/* SPDX-License-Identifier: MIT */
/*
 * A snapshot put together: the file is read into a document whose fold keeps the records; the
 * document then says which of them are segments and which device's history each event belongs to.
 */
#include "plimsoll/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/utf8.h"
#include "torch/fold.h"
#include "torch/history.h"
#include "torch/json_form.h"
#include "torch/owners.h"
#include "torch/pickle.h"
#include "torch/snapshot.h"
#include "torch/stream.h"
#include "trace/trace.h"

struct plm_snapshot {
    PLM_ARRAY(plm_snapshot_device) devices;
    PLM_ARRAY(plm_trace *) traces; /* of the devices, in the same order */
    PLM_ARRAY(plm_snapshot_segment) segments;
    plm_snapshot_block *blocks;
    PLM_ARRAY(plm_snapshot_annotation) annotations;
    plm_snapshot_settings settings;
    plm_intern names;     /* texts of annotations and settings */
    uint64_t *streams;    /* by plm_event.queue */
    uint64_t (*pools)[2]; /* by plm_event.pool */
};

/* What the parts of this file work on together. */
typedef struct assembly {
    const char *name; /* of the file */
    plm_document document;
    plm_fold_store store;
    plm_value root;
    plm_snapshot *snapshot;
    PLM_ARRAY(plm_value) entries; /* the list of events of each device of the snapshot */
} assembly;

static const char *const state_texts[PLM_BLOCK_STATE_COUNT] = {
#define STATE_ROW(name, text) [PLM_BLOCK_##name] = text,
    PLM_BLOCK_STATE_MAP(STATE_ROW)
#undef STATE_ROW
};

const char *plm_block_state_text(plm_block_state state)
{
    return (unsigned)state < PLM_BLOCK_STATE_COUNT ? state_texts[state] : "unknown";
}

/* Segments. */

enum { BLOCK_PLACED = -2 }; /* plm_snapshot_block.block of one that a segment has */

/* Whether a list is one run of blocks that no segment has yet. */
static bool is_fresh_run(const assembly *work, const plm_value *blocks)
{
    plm_run run;
    if (!plm__document_run(&work->document, blocks, 0, &run) ||
        run.count != plm__document_count(&work->document, blocks) ||
        run.first.kind != (uint32_t)PLM_FOLDED_BLOCK)
        return false;
    for (int64_t k = 0; k < run.count; k++)
        if (work->store.blocks.items[run.first.index + (uint64_t)k].block == BLOCK_PLACED)
            return false;
    return true;
}

/* Gives a segment its blocks, by place in the store: nearly always they stand there as one run. */
static plm_status place_blocks(assembly *work, const plm_value *blocks,
                               plm_snapshot_segment *segment)
{
    PLM_FAIL_IF(blocks->kind != PLM_VALUE_LIST && blocks->kind != PLM_VALUE_EMPTY_LIST,
                PLM_ERROR_FORMAT, "'%s' is no snapshot: 'blocks' of a segment is no list",
                work->name);
    bool fresh = is_fresh_run(work, blocks);
    plm_run run;
    segment->block_count = plm__document_count(&work->document, blocks);
    segment->block = work->store.blocks.count;
    for (int64_t i = 0; plm__document_run(&work->document, blocks, i, &run); i++) {
        PLM_FAIL_IF(run.first.kind != (uint32_t)PLM_FOLDED_BLOCK, PLM_ERROR_FORMAT,
                    "'%s' is no snapshot: a segment holds something that is no block", work->name);
        if (fresh)
            segment->block = (int64_t)run.first.index;
        for (int64_t k = 0; k < run.count && !fresh; k++)
            PLM_TRY(PLM_ARRAY_PUSH(&work->store.blocks,
                                   work->store.blocks.items[run.first.index + (uint64_t)k]));
    }
    for (int64_t k = 0; k < segment->block_count; k++)
        work->store.blocks.items[segment->block + k].block = BLOCK_PLACED;
    return PLM_OK;
}

/* Addresses and sums that old versions leave out are made from the sizes of the blocks. */
static plm_status fill_segment(plm_snapshot_segment *segment, plm_snapshot_block *blocks)
{
    size_t total = 0, allocated = 0, active = 0, asked = 0;
    for (int64_t i = 0; i < segment->block_count; i++) {
        plm_snapshot_block *block = &blocks[segment->block + i];
        if (block->address == 0)
            block->address = segment->address + total;
        PLM_TRY(plm__add_bytes(total, block->bytes, &total));
        if (block->state == PLM_BLOCK_ALLOCATED)
            allocated += block->bytes; /* no more than the total, which fits */
        if (block->state != PLM_BLOCK_INACTIVE) {
            active += block->bytes;
            PLM_TRY(plm__add_bytes(asked, block->bytes_asked, &asked));
        }
    }
    if (segment->bytes == SIZE_MAX)
        segment->bytes = total;
    if (segment->allocated_bytes == SIZE_MAX)
        segment->allocated_bytes = allocated;
    if (segment->active_bytes == SIZE_MAX)
        segment->active_bytes = active;
    if (segment->asked_bytes == SIZE_MAX)
        segment->asked_bytes = asked;
    return PLM_OK;
}

static int by_device_and_address(const void *left, const void *right)
{
    const plm_snapshot_segment *a = left, *b = right;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return a->address < b->address ? -1 : a->address > b->address;
}

static plm_status assemble_segments(assembly *work, const plm_value *list)
{
    plm_snapshot *snapshot = work->snapshot;
    plm_run run;
    for (int64_t i = 0; plm__document_run(&work->document, list, i, &run); i++) {
        PLM_FAIL_IF(run.first.kind != (uint32_t)PLM_FOLDED_SEGMENT, PLM_ERROR_FORMAT,
                    "'%s' is no snapshot: among its segments stands something that is none",
                    work->name);
        for (int64_t k = 0; k < run.count; k++) {
            plm_fold_segment found = work->store.segments.items[run.first.index + (uint64_t)k];
            PLM_TRY(place_blocks(work, &found.blocks, &found.segment));
            PLM_TRY(fill_segment(&found.segment, work->store.blocks.items));
            PLM_TRY(PLM_ARRAY_PUSH(&snapshot->segments, found.segment));
        }
    }
    PLM_ARRAY_SORT(&snapshot->segments, by_device_and_address);
    return PLM_OK;
}

/* Devices. */

/* What the state says of a device: sums over its segments and blocks. */
static plm_status sum_state(const plm_snapshot_block *blocks, plm_snapshot_device *device)
{
    for (int64_t s = 0; s < device->segment_count; s++) {
        const plm_snapshot_segment *segment = &device->segments[s];
        PLM_TRY(plm__add_bytes(device->allocated_bytes, segment->allocated_bytes,
                               &device->allocated_bytes));
        PLM_TRY(plm__add_bytes(device->active_bytes, segment->active_bytes, &device->active_bytes));
        PLM_TRY(plm__add_bytes(device->asked_bytes, segment->asked_bytes, &device->asked_bytes));
        PLM_TRY(plm__add_bytes(device->reserved_bytes, segment->bytes, &device->reserved_bytes));
        bool split = segment->block_count > 1 && !segment->expandable;
        for (int64_t i = 0; i < segment->block_count; i++) {
            const plm_snapshot_block *block = &blocks[segment->block + i];
            if (block->state == PLM_BLOCK_PENDING_FREE) {
                device->pending_free_blocks++;
                PLM_TRY(plm__add_bytes(device->pending_free_bytes, block->bytes,
                                       &device->pending_free_bytes));
            }
            if (block->state != PLM_BLOCK_INACTIVE)
                continue;
            if (split)
                PLM_TRY(plm__add_bytes(device->inactive_split_bytes, block->bytes,
                                       &device->inactive_split_bytes));
            if (block->bytes > device->largest_free_bytes)
                device->largest_free_bytes = block->bytes;
        }
    }
    return PLM_OK;
}

static plm_status add_device(assembly *work, int32_t number, plm_value entries, int64_t *segment)
{
    plm_snapshot *snapshot = work->snapshot;
    plm_snapshot_device device = {
        .device = number,
        .segments = snapshot->segments.items ? snapshot->segments.items + *segment : NULL};
    int64_t first = *segment;
    while (*segment < snapshot->segments.count &&
           snapshot->segments.items[*segment].device == number)
        ++*segment;
    device.segment_count = *segment - first;
    device.trace_entries = plm__document_count(&work->document, &entries);
    if (device.segment_count == 0 && device.trace_entries == 0)
        return PLM_OK;
    PLM_FAIL_IF(number > UINT16_MAX, PLM_ERROR_UNSUPPORTED, "'%s' has more than %d devices",
                work->name, UINT16_MAX);
    PLM_TRY(PLM_ARRAY_PUSH(&snapshot->devices, device));
    return PLM_ARRAY_PUSH(&work->entries, entries);
}

/* The devices that have segments or events; `traces` holds a list of events for each number. */
static plm_status assemble_devices(assembly *work, const plm_value *traces)
{
    const plm_snapshot *snapshot = work->snapshot;
    int64_t segment = 0, number = 0, trace_count = plm__document_count(&work->document, traces);
    plm_run run;
    for (int64_t i = 0; plm__document_run(&work->document, traces, i, &run); i++, number++) {
        PLM_FAIL_IF(run.first.kind != PLM_VALUE_LIST && run.first.kind != PLM_VALUE_EMPTY_LIST,
                    PLM_ERROR_FORMAT, "'%s' is no snapshot: a device's trace is no list",
                    work->name);
        PLM_TRY(add_device(work, (int32_t)number, run.first, &segment));
    }
    PLM_BUG_IF(number != trace_count, "a list of lists is not made of single runs");
    while (segment < snapshot->segments.count)
        PLM_TRY(add_device(work, snapshot->segments.items[segment].device,
                           (plm_value){.kind = PLM_VALUE_EMPTY_LIST}, &segment));
    return PLM_OK;
}

/*
 * Whether the devices' lists are runs that follow each other and make up all events of the store:
 * then none need be held twice.
 */
static bool events_are_parted(const assembly *work)
{
    uint64_t next = 0;
    for (int64_t i = 0; i < work->entries.count; i++) {
        plm_run run;
        if (!plm__document_run(&work->document, &work->entries.items[i], 0, &run))
            continue;
        if (run.first.kind != (uint32_t)PLM_FOLDED_EVENT || run.first.index != next ||
            run.count != plm__document_count(&work->document, &work->entries.items[i]))
            return false;
        next += (uint64_t)run.count;
    }
    return next == (uint64_t)work->store.events.count;
}

static plm_status copy_events(assembly *work, const plm_value *entries, plm_history_events *events)
{
    plm_run run;
    PLM_TRY(PLM_ARRAY_RESERVE(events, plm__document_count(&work->document, entries)));
    for (int64_t i = 0; plm__document_run(&work->document, entries, i, &run); i++) {
        PLM_FAIL_IF(run.first.kind != (uint32_t)PLM_FOLDED_EVENT, PLM_ERROR_FORMAT,
                    "'%s' is no snapshot: in a device's trace stands something that is no entry",
                    work->name);
        memcpy(events->items + events->count, work->store.events.items + run.first.index,
               (size_t)run.count * sizeof *events->items);
        events->count += run.count;
    }
    return PLM_OK;
}

/* Moves the events of device `i`, the last one that still has some, out of the store. */
static plm_status take_events(assembly *work, int64_t i, bool parted, plm_history_events *events)
{
    const plm_value *entries = &work->entries.items[i];
    int64_t count = plm__document_count(&work->document, entries);
    if (parted && count > 0 && count == work->store.events.count) {
        *events =
            (plm_history_events){work->store.events.items, count, work->store.events.capacity};
        work->store.events.items = NULL;
        work->store.events.count = work->store.events.capacity = 0;
        return PLM_OK;
    }
    if (count > 0)
        PLM_TRY(copy_events(work, entries, events));
    if (parted && count > 0) {
        int64_t kept = work->store.events.count - count;
        PLM_TRY(plm__host_realloc((size_t)kept * sizeof *work->store.events.items,
                                  &work->store.events.items));
        work->store.events.count = work->store.events.capacity = kept;
    }
    return PLM_OK;
}

/* Segments and blocks of a device name owners of its trace from here on. */
static plm_status carry_owners(assembly *work, const plm_snapshot_device *device,
                               plm_owner_map *owners)
{
    int64_t first = device->segments - work->snapshot->segments.items;
    for (int64_t s = 0; s < device->segment_count; s++) {
        plm_snapshot_segment *segment = &work->snapshot->segments.items[first + s];
        PLM_TRY(plm__owner_map_carry(owners, &segment->owner));
        for (int64_t k = 0; k < segment->block_count; k++)
            PLM_TRY(
                plm__owner_map_carry(owners, &work->store.blocks.items[segment->block + k].owner));
    }
    return PLM_OK;
}

/* The history of device `i`: its trace, and what is known of how whole it is. */
static plm_status assemble_history(assembly *work, int64_t i, bool parted, plm_trace *trace)
{
    plm_snapshot_device *device = &work->snapshot->devices.items[i];
    plm_history_events events = {0};
    plm_owner_map owners;
    PLM_TRY(plm__owner_map_init(&owners, &work->store, trace));
    plm_status status;
    PLM_TRY_DONE(take_events(work, i, parted, &events));
    for (int64_t k = 0; k < events.count; k++)
        device->oom_events += events.items[k].kind == PLM_EVENT_OUT_OF_MEMORY;
    PLM_TRY_DONE(carry_owners(work, device, &owners));
    plm_history_state state = {.device = (uint16_t)device->device,
                               .owners = &owners,
                               .segments = device->segments,
                               .segment_count = device->segment_count,
                               .blocks = work->store.blocks.items};
    PLM_TRY_DONE(plm__history_complete(&events, &state, &device->history, &device->carried_in));
    device->history.complete &= !device->history.overflowed;
    plm__trace_adopt_events(trace, events.items, events.count, events.capacity);
    events.items = NULL;
done:
    plm__owner_map_fini(&owners);
    plm__host_free(events.items);
    return status;
}

static plm_status assemble_histories(assembly *work)
{
    plm_snapshot *snapshot = work->snapshot;
    bool parted = events_are_parted(work);
    PLM_TRY(PLM_ARRAY_RESERVE(&snapshot->traces, snapshot->devices.count));
    snapshot->traces.count = snapshot->devices.count;
    for (int64_t i = snapshot->devices.count - 1; i >= 0; i--) {
        plm_snapshot_device *device = &snapshot->devices.items[i];
        PLM_TRY(plm__trace_create(&snapshot->traces.items[i]));
        device->trace = snapshot->traces.items[i];
        PLM_TRY(sum_state(work->store.blocks.items, device));
        PLM_TRY(assemble_history(work, i, parted, snapshot->traces.items[i]));
    }
    return PLM_OK;
}

/* Annotations and settings. */

/* *text = a copy of a text of the document that lives as long as the snapshot. */
static plm_status keep_text(assembly *work, uint64_t number, const char **text)
{
    const plm_intern_entry *entry = &work->document.texts.entries.items[number];
    plm_text clean = {0};
    plm__utf8_add_clean(&clean, entry->bytes, entry->count);
    plm_status status = plm__text_status(&clean);
    uint32_t kept = 0;
    if (status == PLM_OK)
        status = plm__intern_add(&work->snapshot->names, clean.items, (size_t)clean.count, &kept);
    plm__text_fini(&clean);
    if (status == PLM_OK)
        *text = plm__intern_text(&work->snapshot->names, kept);
    return status;
}

static plm_status assemble_annotations(assembly *work, const plm_value *list)
{
    plm_run run;
    for (int64_t i = 0; plm__document_run(&work->document, list, i, &run); i++) {
        if (run.first.kind != (uint32_t)PLM_FOLDED_ANNOTATION)
            continue; /* a kind that a newer PyTorch may have */
        for (int64_t k = 0; k < run.count; k++) {
            const plm_fold_annotation *found =
                &work->store.annotations.items[run.first.index + (uint64_t)k];
            plm_snapshot_annotation made = {
                .time = found->time, .device = found->device, .ends = found->ends};
            PLM_TRY(keep_text(work, found->name, &made.name));
            PLM_TRY(PLM_ARRAY_PUSH(&work->snapshot->annotations, made));
        }
    }
    return PLM_OK;
}

static bool truth_of(const plm_value *value)
{
    return value && (value->kind == PLM_VALUE_BOOL || value->kind == PLM_VALUE_INTEGER) &&
           value->integer != 0;
}

/* {"1": d, "2": d, ..., "32768": d}: the divisions for sizes from that many MiB up. */
static void read_divisions(const plm_document *document, const plm_value *value,
                           uint16_t divisions[PLM_SNAPSHOT_DIVISIONS])
{
    if (!value || value->kind != PLM_VALUE_DICT)
        return;
    const plm_dict *dict = &document->dicts.items[value->index];
    for (int64_t i = 0; i + 1 < dict->pairs.count; i += 2) {
        const plm_value *key = &dict->pairs.items[i], *setting = &dict->pairs.items[i + 1];
        if (key->kind != PLM_VALUE_TEXT || setting->kind != PLM_VALUE_INTEGER)
            continue;
        long mebibytes = strtol(plm__document_text(document, key->index), NULL, 10);
        for (int place = 0; place < PLM_SNAPSHOT_DIVISIONS; place++)
            if (mebibytes == 1L << place && setting->integer >= 0 && setting->integer <= UINT16_MAX)
                divisions[place] = (uint16_t)setting->integer;
    }
}

static plm_status assemble_settings(assembly *work, const plm_value *from)
{
    plm_snapshot_settings *settings = &work->snapshot->settings;
    const plm_document *document = &work->document;
    settings->text = "";
    settings->max_split_bytes = SIZE_MAX;
    settings->recorded = from && from->kind == PLM_VALUE_DICT;
    if (!settings->recorded)
        return PLM_OK;
    const plm_value *text = plm__document_member(document, from, PLM_WORD_ALLOC_CONF);
    if (!text)
        text = plm__document_member(document, from, PLM_WORD_ALLOC_CONF_NEW);
    if (text && text->kind == PLM_VALUE_TEXT)
        PLM_TRY(keep_text(work, text->index, &settings->text));
    const plm_value *split = plm__document_member(document, from, PLM_WORD_MAX_SPLIT_SIZE);
    if (split && split->kind == PLM_VALUE_INTEGER && split->integer >= 0)
        settings->max_split_bytes = (size_t)split->integer;
    const plm_value *threshold = plm__document_member(document, from, PLM_WORD_GC_THRESHOLD);
    if (threshold && threshold->kind == PLM_VALUE_REAL)
        settings->garbage_collection_threshold = threshold->real;
    settings->expandable_segments =
        truth_of(plm__document_member(document, from, PLM_WORD_EXPANDABLE_SEGMENTS));
    settings->release_lock_on_malloc =
        truth_of(plm__document_member(document, from, PLM_WORD_RELEASE_LOCK));
    read_divisions(document, plm__document_member(document, from, PLM_WORD_DIVISIONS),
                   settings->roundup_power2_divisions);
    return PLM_OK;
}

/* Newer files say for each device whether older events were overwritten. */
static void note_overflow(assembly *work, const plm_value *overflowed)
{
    for (int64_t i = 0; i < work->snapshot->devices.count; i++) {
        plm_snapshot_device *device = &work->snapshot->devices.items[i];
        if (device->device < plm__document_count(&work->document, overflowed)) {
            plm_value item = plm__document_item(&work->document, overflowed, device->device);
            device->history.overflowed = truth_of(&item);
        } else {
            device->history.overflowed = truth_of(overflowed);
        }
    }
}

/* The whole. */

/* *array = the bytes behind the numbers 1, 2, ... of an intern, `each_bytes` of each. */
static plm_status copy_interned(const plm_intern *intern, size_t each_bytes, void *out)
{
    int64_t count = intern->entries.count - 1;
    uint8_t *array = NULL;
    PLM_TRY(plm__host_alloc((size_t)count * each_bytes, &array));
    for (int64_t i = 0; i < count; i++)
        memcpy(array + (size_t)i * each_bytes, intern->entries.items[i + 1].bytes, each_bytes);
    memcpy(out, &array, sizeof array);
    return PLM_OK;
}

/* The snapshot takes over what the fold kept, and every device points to it. */
static plm_status lend_to_devices(assembly *work)
{
    plm_snapshot *snapshot = work->snapshot;
    PLM_TRY(copy_interned(&work->store.streams, sizeof *snapshot->streams, &snapshot->streams));
    PLM_TRY(copy_interned(&work->store.pools, sizeof *snapshot->pools, &snapshot->pools));
    int64_t block_count = work->store.blocks.count;
    snapshot->blocks = work->store.blocks.items;
    memset(&work->store.blocks, 0, sizeof work->store.blocks);
    for (int64_t i = 0; i < snapshot->devices.count; i++) {
        plm_snapshot_device *device = &snapshot->devices.items[i];
        device->blocks = snapshot->blocks;
        device->block_count = block_count;
        device->annotations = snapshot->annotations.items;
        device->annotation_count = snapshot->annotations.count;
        device->settings = &snapshot->settings;
        device->streams = snapshot->streams;
        device->stream_count = work->store.streams.entries.count - 1;
        device->pools = (const uint64_t(*)[2])snapshot->pools;
        device->pool_count = work->store.pools.entries.count - 1;
    }
    return PLM_OK;
}

static plm_status assemble(assembly *work)
{
    const plm_document *document = &work->document;
    const plm_value *root = &work->root, *segments, *traces;
    bool is_list = root->kind == PLM_VALUE_LIST || root->kind == PLM_VALUE_EMPTY_LIST;
    segments = is_list ? root : plm__document_member(document, root, PLM_WORD_SEGMENTS);
    traces = plm__document_member(document, root, PLM_WORD_DEVICE_TRACES);
    PLM_FAIL_IF(!segments && !traces, PLM_ERROR_FORMAT,
                "'%s' is no memory snapshot: wanted 'segments' and 'device_traces', as "
                "torch.cuda.memory._dump_snapshot writes them",
                work->name);
    PLM_TRY(assemble_segments(work, segments));
    PLM_TRY(assemble_devices(work, traces));
    note_overflow(work, plm__document_member(document, root, PLM_WORD_TRACE_ALLOC_OVERFLOWED));
    PLM_TRY(assemble_histories(work));
    PLM_TRY(assemble_annotations(
        work, plm__document_member(document, root, PLM_WORD_EXTERNAL_ANNOTATIONS)));
    PLM_TRY(
        assemble_settings(work, plm__document_member(document, root, PLM_WORD_ALLOCATOR_SETTINGS)));
    return lend_to_devices(work);
}

/* Tells the form by the first byte and reads it. */
static plm_status read_form(assembly *work, plm_stream *stream)
{
    PLM_TRY(plm__stream_fill(stream, 2));
    size_t left = plm__stream_left(stream);
    PLM_FAIL_IF(left == 0, PLM_ERROR_FORMAT, "'%s' is empty", work->name);
    uint8_t first = *stream->next;
    if (first == 0x80)
        return plm__pickle_read(stream, &work->document, &work->root);
    if (strchr("{[ \t\r\n\xef", first) && first != 0)
        return plm__json_form_read(stream, &work->document, &work->root);
    bool zip = left >= 2 && memcmp(stream->next, "PK", 2) == 0;
    return plm_fail(PLM_ERROR_FORMAT,
                    "'%s' is no memory snapshot: wanted a pickle of protocol 2 to 5 or JSON, found "
                    "%s",
                    work->name, zip ? "a zip archive, as torch.save writes" : "neither");
}

static plm_status read_stream(plm_stream *stream, plm_snapshot **snapshot)
{
    assembly work = {.name = stream->name};
    plm_status status;
    PLM_TRY(plm__document_init(&work.document, plm__fold_words, PLM_WORD_COUNT - 1,
                               plm__fold_into(&work.store)));
    PLM_TRY_DONE(plm__fold_init(&work.store, &work.document));
    PLM_TRY_DONE(plm__host_alloc(sizeof *work.snapshot, &work.snapshot));
    PLM_TRY_DONE(plm__intern_init(&work.snapshot->names));
    PLM_TRY_DONE(read_form(&work, stream));
    plm__document_end_reading(&work.document);
    PLM_TRY_DONE(assemble(&work));
    *snapshot = work.snapshot;
    work.snapshot = NULL;
done:
    plm_snapshot_destroy(work.snapshot);
    PLM_ARRAY_FREE(&work.entries);
    plm__fold_fini(&work.store);
    plm__document_fini(&work.document);
    return status;
}

plm_status plm_snapshot_read(const char *path, plm_snapshot **snapshot)
{
    plm_stream stream;
    PLM_TRY(plm__stream_open(path, &stream));
    plm_status status = read_stream(&stream, snapshot);
    plm__stream_close(&stream);
    return status;
}

plm_status plm_snapshot_read_bytes(const char *name, const void *bytes, size_t count,
                                   plm_snapshot **snapshot)
{
    plm_stream stream;
    PLM_TRY(plm__stream_over(name, bytes, count, &stream));
    plm_status status = read_stream(&stream, snapshot);
    plm__stream_close(&stream);
    return status;
}

void plm_snapshot_destroy(plm_snapshot *snapshot)
{
    if (!snapshot)
        return;
    for (int64_t i = 0; i < snapshot->traces.count; i++)
        plm_trace_destroy(snapshot->traces.items[i]);
    PLM_ARRAY_FREE(&snapshot->traces);
    PLM_ARRAY_FREE(&snapshot->devices);
    PLM_ARRAY_FREE(&snapshot->segments);
    PLM_ARRAY_FREE(&snapshot->annotations);
    plm__host_free(snapshot->blocks);
    plm__intern_fini(&snapshot->names);
    plm__host_free(snapshot->streams);
    plm__host_free(snapshot->pools);
    plm__host_free(snapshot);
}

const plm_snapshot_device *plm_snapshot_devices(const plm_snapshot *snapshot, int64_t *count)
{
    *count = snapshot->devices.count;
    return snapshot->devices.items;
}

plm_trace *plm__snapshot_trace(plm_snapshot *snapshot, int64_t device)
{
    PLM_ASSERT(device >= 0 && device < snapshot->traces.count);
    return snapshot->traces.items[device];
}

const plm_snapshot_segment *plm__snapshot_find_segment(const plm_snapshot_device *device,
                                                       uint64_t address)
{
    int64_t low = 0, high = device->segment_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const plm_snapshot_segment *segment = &device->segments[middle];
        if (address < segment->address)
            high = middle;
        else if (address - segment->address >= segment->bytes)
            low = middle + 1;
        else
            return segment;
    }
    return NULL;
}
