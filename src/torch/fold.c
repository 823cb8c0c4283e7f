/* SPDX-License-Identifier: MIT */
/*
 * Dictionaries of a snapshot become records: the keys say of which kind, the table of fields how.
 *
 * Example, as a pickle is read from the inside out:
 *   {name: forward, filename: model.py, line: 41}      has name and filename: frame 7, say
 *   [frame 7, frame 3]                                 nothing but frames: stack 12
 *   {action: alloc, addr: 4096, size: 512, frames: stack 12}   has action: event 0 by owner 5
 * Each dictionary is forgotten as soon as its record has a number.
 */
#include "torch/fold.h"

#include <string.h>

const char *const plm__fold_words[PLM_WORD_COUNT - 1] = {
#define WORD_ROW(name, text) text,
    PLM_WORD_MAP(WORD_ROW)
#undef WORD_ROW
};

_Static_assert(PLM_WORD_STAGE < 64, "keys must fit a mask of 64 bits");

/* The known keys of one dictionary. at[key] is set only where the mask says so. */
typedef struct dict_fields {
    uint64_t present;
    const plm_value *at[64];
} dict_fields;

static inline uint64_t bit(plm_word key)
{
    return (uint64_t)1 << key;
}

static inline bool has(const dict_fields *fields, plm_word key)
{
    return (fields->present & bit(key)) != 0;
}

static inline void collect(const plm_value *pairs, int64_t count, dict_fields *fields)
{
    fields->present = 0;
    for (int64_t i = 0; i < count; i++) {
        const plm_value *key = &pairs[2 * i];
        if (key->kind == PLM_VALUE_TEXT && key->index <= PLM_WORD_STAGE) {
            fields->present |= (uint64_t)1 << key->index;
            fields->at[key->index] = &pairs[2 * i + 1];
        }
    }
}

/* A number of any sign as 64 bits; false when the value is no integer. */
static bool bits_of(const plm_value *value, uint64_t *bits)
{
    if (value->kind != PLM_VALUE_INTEGER && value->kind != PLM_VALUE_NATURAL)
        return false;
    *bits = value->natural;
    return true;
}

/* A number that is not negative; false otherwise. */
static bool natural_of(const plm_value *value, uint64_t *natural)
{
    if (value->kind == PLM_VALUE_INTEGER && value->integer < 0)
        return false;
    return bits_of(value, natural);
}

static plm_status wrong(plm_word key, const char *wanted)
{
    return plm_fail(PLM_ERROR_FORMAT, "'%s' is no %s", plm__fold_words[key - 1], wanted);
}

/* An address or a handle: 64 bits, which some writers print as a signed number. */
static inline plm_status get_bits(const dict_fields *fields, plm_word key, uint64_t *bits)
{
    if (!has(fields, key))
        return PLM_OK;
    return bits_of(fields->at[key], bits) ? PLM_OK : wrong(key, "integer");
}

/* A number of bytes. Left alone when the key is absent. */
static inline plm_status get_bytes(const dict_fields *fields, plm_word key, size_t *bytes)
{
    uint64_t natural;
    if (!has(fields, key))
        return PLM_OK;
    if (!natural_of(fields->at[key], &natural))
        return wrong(key, "number of bytes");
    *bytes = natural;
    return PLM_OK;
}

/* A text; None reads as "". */
static inline plm_status get_text(const dict_fields *fields, plm_word key, uint32_t *text)
{
    if (!has(fields, key) || fields->at[key]->kind == PLM_VALUE_NONE)
        return PLM_OK;
    if (fields->at[key]->kind != PLM_VALUE_TEXT)
        return wrong(key, "text");
    *text = (uint32_t)fields->at[key]->index;
    return PLM_OK;
}

static inline plm_status get_stack(const plm_value *value, uint32_t *stack)
{
    if (value->kind == (uint32_t)PLM_FOLDED_STACK)
        *stack = (uint32_t)value->index;
    else if (value->kind != PLM_VALUE_EMPTY_LIST && value->kind != PLM_VALUE_NONE)
        return wrong(PLM_WORD_FRAMES, "list of frames");
    return PLM_OK;
}

static inline plm_status get_time(const dict_fields *fields, int64_t *time)
{
    uint64_t microseconds;
    if (!has(fields, PLM_WORD_TIME_US))
        return PLM_OK;
    if (!natural_of(fields->at[PLM_WORD_TIME_US], &microseconds) || microseconds > INT64_MAX / 1000)
        return wrong(PLM_WORD_TIME_US, "time in microseconds");
    *time = (int64_t)microseconds * 1000;
    return PLM_OK;
}

/* Interned small things. */

static plm_status too_many(const char *what)
{
    return plm_fail(PLM_ERROR_UNSUPPORTED, "more than %d %s", PLM_DOCUMENT_COUNT_MAX, what);
}

static plm_status get_stream(plm_fold_store *store, const dict_fields *fields, uint16_t *queue)
{
    uint64_t stream = 0;
    PLM_TRY(get_bits(fields, PLM_WORD_STREAM, &stream));
    if (stream != store->last_stream) {
        uint32_t number;
        PLM_TRY(plm__intern_add(&store->streams, (const char *)&stream, sizeof stream, &number));
        PLM_FAIL_IF(number > UINT16_MAX, PLM_ERROR_UNSUPPORTED, "more than %d streams", UINT16_MAX);
        store->last_stream = stream;
        store->last_stream_number = number;
    }
    *queue = (uint16_t)(store->last_stream_number - 1);
    return PLM_OK;
}

/* A pair of numbers; the pair {0, 0} is the default pool, number 0. */
static plm_status get_pool(plm_fold_store *store, const dict_fields *fields, plm_word key,
                           uint16_t *pool)
{
    if (!has(fields, key))
        return PLM_OK;
    const plm_value *pair = fields->at[key];
    if (plm__document_count(store->document, pair) != 2)
        return wrong(key, "pair of numbers");
    uint64_t id[2];
    for (int i = 0; i < 2; i++) {
        plm_value item = plm__document_item(store->document, pair, i);
        if (!bits_of(&item, &id[i]))
            return wrong(key, "pair of numbers");
    }
    uint32_t number;
    PLM_TRY(plm__intern_add(&store->pools, (const char *)id, sizeof id, &number));
    PLM_FAIL_IF(number > UINT16_MAX, PLM_ERROR_UNSUPPORTED, "more than %d pools", UINT16_MAX);
    *pool = (uint16_t)(number - 1);
    return PLM_OK;
}

/* *number = that of an owner, PLM_TRACE_NO_OWNER for one of whom nothing is known. */
static inline plm_status intern_owner(plm_fold_store *store, plm_fold_owner owner, int32_t *number)
{
    if (owner.context == PLM_WORD_NOT_AVAILABLE)
        owner.context = PLM_WORD_EMPTY;
    *number = PLM_TRACE_NO_OWNER;
    if (owner.stack == 0 && owner.metadata == PLM_WORD_EMPTY && owner.context == PLM_WORD_EMPTY)
        return PLM_OK;
    uint32_t found;
    PLM_TRY(plm__intern_add(&store->owners, (const char *)&owner, sizeof owner, &found));
    *number = (int32_t)found;
    return PLM_OK;
}

/* Events. */

/* MARK for an action of a newer PyTorch. */
static inline plm_event_kind kind_of(uint64_t action)
{
    static const uint8_t kinds[] = {
        [PLM_WORD_ALLOC - PLM_WORD_ALLOC] = PLM_EVENT_BLOCK_ALLOC,
        [PLM_WORD_FREE_REQUESTED - PLM_WORD_ALLOC] = PLM_EVENT_BLOCK_FREE_REQUESTED,
        [PLM_WORD_FREE_COMPLETED - PLM_WORD_ALLOC] = PLM_EVENT_BLOCK_FREE,
        [PLM_WORD_SEGMENT_ALLOC - PLM_WORD_ALLOC] = PLM_EVENT_SEGMENT_ALLOC,
        [PLM_WORD_SEGMENT_FREE - PLM_WORD_ALLOC] = PLM_EVENT_SEGMENT_FREE,
        [PLM_WORD_SEGMENT_MAP - PLM_WORD_ALLOC] = PLM_EVENT_SEGMENT_MAP,
        [PLM_WORD_SEGMENT_UNMAP - PLM_WORD_ALLOC] = PLM_EVENT_SEGMENT_UNMAP,
        [PLM_WORD_OOM - PLM_WORD_ALLOC] = PLM_EVENT_OUT_OF_MEMORY,
        [PLM_WORD_SNAPSHOT - PLM_WORD_ALLOC] = PLM_EVENT_SNAPSHOT,
    };
    return action - PLM_WORD_ALLOC < sizeof kinds ? kinds[action - PLM_WORD_ALLOC] : PLM_EVENT_MARK;
}

static plm_status check_event(const dict_fields *fields, plm_event_kind kind)
{
    uint64_t needed = kind == PLM_EVENT_MARK || kind == PLM_EVENT_SNAPSHOT ? 0
                      : kind == PLM_EVENT_OUT_OF_MEMORY                    ? bit(PLM_WORD_SIZE)
                                                        : bit(PLM_WORD_ADDR) | bit(PLM_WORD_SIZE);
    uint64_t missing = needed & ~fields->present;
    PLM_FAIL_IF(missing, PLM_ERROR_FORMAT, "an entry of the history, '%s', lacks '%s'",
                plm_event_text(kind), missing & bit(PLM_WORD_ADDR) ? "addr" : "size");
    return PLM_OK;
}

static plm_status fold_event(plm_fold_store *store, const dict_fields *fields, plm_value *value)
{
    if (fields->at[PLM_WORD_ACTION]->kind != PLM_VALUE_TEXT)
        return wrong(PLM_WORD_ACTION, "text");
    if (store->events.count > PLM_DOCUMENT_COUNT_MAX)
        return too_many("entries of history");
    uint64_t action = fields->at[PLM_WORD_ACTION]->index;
    plm_event_kind kind = kind_of(action);
    PLM_TRY(check_event(fields, kind));
    plm_event event = {.time = -1, .block = -1, .kind = (uint16_t)kind};
    plm_fold_owner owner = {0};
    PLM_TRY(get_bits(fields, PLM_WORD_ADDR, &event.address));
    PLM_TRY(get_bytes(fields, PLM_WORD_SIZE, &event.bytes_asked));
    event.bytes_taken = event.bytes_asked;
    PLM_TRY(get_stream(store, fields, &event.queue));
    PLM_TRY(get_time(fields, &event.time));
    PLM_TRY(get_text(fields, PLM_WORD_COMPILE_CONTEXT, &owner.context));
    PLM_TRY(get_text(fields, PLM_WORD_USER_METADATA, &owner.metadata));
    if (has(fields, PLM_WORD_FRAMES))
        PLM_TRY(get_stack(fields->at[PLM_WORD_FRAMES], &owner.stack));
    PLM_TRY(get_pool(store, fields, PLM_WORD_POOL_ID, &event.pool));
    if (kind == PLM_EVENT_OUT_OF_MEMORY) {
        event.bytes_taken = 0;
        PLM_TRY(get_bytes(fields, PLM_WORD_DEVICE_FREE, &event.bytes_taken));
    } else if (kind == PLM_EVENT_MARK) {
        event.label = owner.metadata != PLM_WORD_EMPTY ? owner.metadata : (uint32_t)action;
    }
    PLM_TRY(intern_owner(store, owner, &event.owner));
    if (store->events.count == store->events.capacity)
        PLM_TRY(PLM_ARRAY_RESERVE(&store->events, store->events.count + 1));
    *value = (plm_value){
        .kind = PLM_FOLDED_EVENT, .memo = value->memo, .index = (uint64_t)store->events.count};
    store->events.items[store->events.count++] = event;
    return PLM_OK;
}

/* Frames and stacks. */

static plm_status fold_frame(plm_fold_store *store, const dict_fields *fields, plm_value *value)
{
    plm_fold_frame frame = {0};
    uint64_t line = 0;
    PLM_TRY(get_text(fields, PLM_WORD_NAME, &frame.name));
    PLM_TRY(get_text(fields, PLM_WORD_FILENAME, &frame.file));
    if (has(fields, PLM_WORD_LINE) && fields->at[PLM_WORD_LINE]->kind != PLM_VALUE_NONE)
        PLM_TRY(get_bits(fields, PLM_WORD_LINE, &line));
    frame.line = line <= INT32_MAX ? (int32_t)line : 0; /* C++ frames have lines of no meaning */
    uint32_t number;
    PLM_TRY(plm__intern_add(&store->frames, (const char *)&frame, sizeof frame, &number));
    if (number > PLM_DOCUMENT_COUNT_MAX)
        return too_many("different frames");
    *value = (plm_value){.kind = PLM_FOLDED_FRAME, .memo = value->memo, .index = number};
    return PLM_OK;
}

/* A list that holds nothing but frames becomes a stack; one that goes on becomes a longer stack. */
static plm_status fold_list(void *context, const plm_value *items, int64_t count, plm_value *value)
{
    plm_fold_store *store = context;
    bool extends = value->kind == (uint32_t)PLM_FOLDED_STACK;
    PLM_FAIL_IF(value->kind >= PLM_VALUE_FOLDED && !extends, PLM_ERROR_FORMAT,
                "items for something that is no list");
    int64_t kept = 0;
    if (extends) {
        const char *old = plm__fold_get_stack(store, (uint32_t)value->index, &kept);
        PLM_TRY(PLM_ARRAY_RESERVE(&store->scratch, kept));
        memcpy(store->scratch.items, old, (size_t)kept * sizeof *store->scratch.items);
    }
    PLM_TRY(PLM_ARRAY_RESERVE(&store->scratch, kept + count));
    for (int64_t i = 0; i < count; i++) {
        if (items[i].kind != (uint32_t)PLM_FOLDED_FRAME) {
            PLM_FAIL_IF(extends || i > 0, PLM_ERROR_FORMAT,
                        "a list of frames goes on with something else");
            return PLM_OK;
        }
        store->scratch.items[kept + i] = (uint32_t)items[i].index;
    }
    uint32_t number;
    PLM_TRY(plm__intern_add(&store->stacks, (const char *)store->scratch.items,
                            (size_t)(kept + count) * sizeof *store->scratch.items, &number));
    if (number > PLM_DOCUMENT_COUNT_MAX)
        return too_many("different stacks");
    *value = (plm_value){.kind = PLM_FOLDED_STACK, .memo = value->memo, .index = number};
    return PLM_OK;
}

/* The state. */

/* Old snapshots: [{addr, real_size, frames}, ...], the newest first; the first one is the holder's.
 */
static plm_status read_old_history(plm_fold_store *store, const plm_value *history, size_t *asked,
                                   uint32_t *stack)
{
    if (plm__document_count(store->document, history) == 0)
        return PLM_OK;
    plm_value newest = plm__document_item(store->document, history, 0);
    const plm_value *size = plm__document_member(store->document, &newest, PLM_WORD_REAL_SIZE);
    const plm_value *frames = plm__document_member(store->document, &newest, PLM_WORD_FRAMES);
    uint64_t bytes;
    if (size) {
        if (!natural_of(size, &bytes))
            return wrong(PLM_WORD_REAL_SIZE, "number of bytes");
        *asked = bytes;
    }
    return frames ? get_stack(frames, stack) : PLM_OK;
}

static plm_status fold_block(plm_fold_store *store, const dict_fields *fields, plm_value *value)
{
    if (store->blocks.count > PLM_DOCUMENT_COUNT_MAX)
        return too_many("blocks");
    uint64_t word = fields->at[PLM_WORD_STATE]->kind == PLM_VALUE_TEXT
                        ? fields->at[PLM_WORD_STATE]->index
                        : PLM_WORD_EMPTY;
    plm_snapshot_block block = {.block = -1};
    if (word == PLM_WORD_ACTIVE_ALLOCATED)
        block.state = PLM_BLOCK_ALLOCATED;
    else if (word == PLM_WORD_ACTIVE_PENDING_FREE || word == PLM_WORD_ACTIVE_AWAITING_FREE)
        block.state = PLM_BLOCK_PENDING_FREE;
    else if (word == PLM_WORD_INACTIVE)
        block.state = PLM_BLOCK_INACTIVE;
    else
        return wrong(PLM_WORD_STATE, "state of a block that is known");
    plm_fold_owner owner = {0};
    PLM_TRY(get_bits(fields, PLM_WORD_ADDRESS, &block.address));
    PLM_TRY(get_bytes(fields, PLM_WORD_SIZE, &block.bytes));
    block.bytes_asked = block.bytes;
    if (has(fields, PLM_WORD_HISTORY))
        PLM_TRY(read_old_history(store, fields->at[PLM_WORD_HISTORY], &block.bytes_asked,
                                 &owner.stack));
    PLM_TRY(get_bytes(fields, PLM_WORD_REQUESTED_SIZE, &block.bytes_asked));
    if (has(fields, PLM_WORD_FRAMES))
        PLM_TRY(get_stack(fields->at[PLM_WORD_FRAMES], &owner.stack));
    PLM_TRY(get_text(fields, PLM_WORD_USER_METADATA, &owner.metadata));
    if (block.state == PLM_BLOCK_INACTIVE)
        block.bytes_asked = 0;
    PLM_TRY(intern_owner(store, owner, &block.owner));
    *value = (plm_value){
        .kind = PLM_FOLDED_BLOCK, .memo = value->memo, .index = (uint64_t)store->blocks.count};
    return PLM_ARRAY_PUSH(&store->blocks, block);
}

/* Sums that the file lacks are marked SIZE_MAX, to be made from the blocks. */
static plm_status fold_segment(plm_fold_store *store, const dict_fields *fields, plm_value *value)
{
    if (store->segments.count > PLM_DOCUMENT_COUNT_MAX)
        return too_many("segments");
    plm_fold_segment made = {.blocks = *fields->at[PLM_WORD_BLOCKS],
                             .segment = {.bytes = SIZE_MAX,
                                         .allocated_bytes = SIZE_MAX,
                                         .active_bytes = SIZE_MAX,
                                         .asked_bytes = SIZE_MAX}};
    plm_snapshot_segment *segment = &made.segment;
    plm_fold_owner owner = {0};
    uint64_t device = 0;
    PLM_TRY(get_bits(fields, PLM_WORD_DEVICE, &device));
    if (device > UINT16_MAX)
        return wrong(PLM_WORD_DEVICE, "number of a device");
    segment->device = (int32_t)device;
    PLM_TRY(get_bits(fields, PLM_WORD_ADDRESS, &segment->address));
    PLM_TRY(get_bytes(fields, PLM_WORD_TOTAL_SIZE, &segment->bytes));
    PLM_TRY(get_bytes(fields, PLM_WORD_ALLOCATED_SIZE, &segment->allocated_bytes));
    PLM_TRY(get_bytes(fields, PLM_WORD_ACTIVE_SIZE, &segment->active_bytes));
    PLM_TRY(get_bytes(fields, PLM_WORD_REQUESTED_SIZE, &segment->asked_bytes));
    PLM_TRY(get_stream(store, fields, &segment->queue));
    PLM_TRY(get_pool(store, fields, PLM_WORD_SEGMENT_POOL_ID, &segment->pool));
    if (has(fields, PLM_WORD_FRAMES))
        PLM_TRY(get_stack(fields->at[PLM_WORD_FRAMES], &owner.stack));
    PLM_TRY(intern_owner(store, owner, &segment->owner));
    if (has(fields, PLM_WORD_SEGMENT_TYPE)) {
        uint32_t type = PLM_WORD_EMPTY;
        PLM_TRY(get_text(fields, PLM_WORD_SEGMENT_TYPE, &type));
        segment->large = type == PLM_WORD_LARGE;
    } else {
        segment->large = segment->bytes > (size_t)2 << 20; /* small ones all have 2 MiB */
    }
    segment->expandable = has(fields, PLM_WORD_IS_EXPANDABLE) &&
                          fields->at[PLM_WORD_IS_EXPANDABLE]->kind == PLM_VALUE_BOOL &&
                          fields->at[PLM_WORD_IS_EXPANDABLE]->integer != 0;
    *value = (plm_value){
        .kind = PLM_FOLDED_SEGMENT, .memo = value->memo, .index = (uint64_t)store->segments.count};
    return PLM_ARRAY_PUSH(&store->segments, made);
}

static plm_status fold_annotation(plm_fold_store *store, const dict_fields *fields,
                                  plm_value *value)
{
    if (store->annotations.count > PLM_DOCUMENT_COUNT_MAX)
        return too_many("annotations");
    plm_fold_annotation made = {0};
    uint32_t stage = PLM_WORD_EMPTY;
    uint64_t device = 0;
    PLM_TRY(get_text(fields, PLM_WORD_STAGE, &stage));
    PLM_TRY(get_text(fields, PLM_WORD_NAME, &made.name));
    PLM_TRY(get_time(fields, &made.time));
    PLM_TRY(get_bits(fields, PLM_WORD_DEVICE, &device));
    made.device = device <= UINT16_MAX ? (int32_t)device : -1;
    made.ends = stage == PLM_WORD_END;
    *value = (plm_value){.kind = PLM_FOLDED_ANNOTATION,
                         .memo = value->memo,
                         .index = (uint64_t)store->annotations.count};
    return PLM_ARRAY_PUSH(&store->annotations, made);
}

static plm_status fold_dict(void *context, const plm_value *pairs, int64_t count, plm_value *value)
{
    plm_fold_store *store = context;
    dict_fields fields;
    collect(pairs, count, &fields);
    if (has(&fields, PLM_WORD_ACTION))
        return fold_event(store, &fields, value);
    if (has(&fields, PLM_WORD_STATE) && has(&fields, PLM_WORD_SIZE))
        return fold_block(store, &fields, value);
    if (has(&fields, PLM_WORD_BLOCKS))
        return fold_segment(store, &fields, value);
    if (has(&fields, PLM_WORD_STAGE))
        return fold_annotation(store, &fields, value);
    if (has(&fields, PLM_WORD_FILENAME) ||
        (has(&fields, PLM_WORD_NAME) && has(&fields, PLM_WORD_LINE)))
        return fold_frame(store, &fields, value);
    return PLM_OK;
}

plm_fold plm__fold_into(plm_fold_store *store)
{
    return (plm_fold){.context = store, .dict = fold_dict, .list = fold_list};
}

/* Life of a store. */

static plm_status init_tables(plm_fold_store *store)
{
    static const uint64_t zeros[2] = {0};
    uint32_t number;
    PLM_TRY(plm__intern_init(&store->frames));
    PLM_TRY(plm__intern_init(&store->stacks));
    PLM_TRY(plm__intern_init(&store->owners));
    PLM_TRY(plm__intern_init(&store->streams));
    PLM_TRY(plm__intern_init(&store->pools));
    PLM_TRY(plm__intern_add(&store->streams, (const char *)zeros, sizeof zeros[0], &number));
    store->last_stream_number = number;
    return plm__intern_add(&store->pools, (const char *)zeros, sizeof zeros, &number);
}

plm_status plm__fold_init(plm_fold_store *store, plm_document *document)
{
    *store = (plm_fold_store){.document = document};
    plm_status status = init_tables(store);
    if (status != PLM_OK)
        plm__fold_fini(store);
    return status;
}

void plm__fold_fini(plm_fold_store *store)
{
    PLM_ARRAY_FREE(&store->events);
    PLM_ARRAY_FREE(&store->blocks);
    PLM_ARRAY_FREE(&store->segments);
    PLM_ARRAY_FREE(&store->annotations);
    PLM_ARRAY_FREE(&store->scratch);
    plm__intern_fini(&store->frames);
    plm__intern_fini(&store->stacks);
    plm__intern_fini(&store->owners);
    plm__intern_fini(&store->streams);
    plm__intern_fini(&store->pools);
}

plm_fold_frame plm__fold_get_frame(const plm_fold_store *store, uint32_t number)
{
    plm_fold_frame frame;
    memcpy(&frame, store->frames.entries.items[number].bytes, sizeof frame);
    return frame;
}

plm_fold_owner plm__fold_get_owner(const plm_fold_store *store, uint32_t number)
{
    plm_fold_owner owner;
    memcpy(&owner, store->owners.entries.items[number].bytes, sizeof owner);
    return owner;
}

const char *plm__fold_get_stack(const plm_fold_store *store, uint32_t number, int64_t *count)
{
    const plm_intern_entry *entry = &store->stacks.entries.items[number];
    *count = (int64_t)(entry->count / sizeof(uint32_t));
    return entry->bytes;
}
