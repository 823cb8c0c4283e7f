/* SPDX-License-Identifier: MIT */
/* A trace of torch.profiler: its "[memory]" instants paired into blocks, owned by operations. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"
#include "plimsoll/torch_profile.h"
#include "torch/stream.h"
#include "trace/trace.h"

enum { SNIFFED_BYTES = 4096, CUDA_TYPE = 1, DEVICES_MAX = 1024 };

#define FILE_BYTES_MAX ((int64_t)1 << 30)

/* ---- what a file is ---- */

static bool has_words(const char *bytes, size_t count, const char *words)
{
    return memmem(bytes, count, words, strlen(words)) != NULL;
}

plm_status plm_torch_file_kind(const char *path, plm_torch_file *kind)
{
    plm_stream stream;
    PLM_TRY(plm__stream_open(path, &stream));
    plm_status status = plm__stream_fill(&stream, SNIFFED_BYTES);
    size_t left = status == PLM_OK ? plm__stream_left(&stream) : 0;
    const char *bytes = (const char *)stream.next;
    plm_torch_file found = PLM_TORCH_SNAPSHOT;
    left = left < SNIFFED_BYTES ? left : SNIFFED_BYTES;
    size_t blanks = 0;
    while (blanks < left && strchr(" \t\r\n\xef\xbb\xbf", bytes[blanks]) && bytes[blanks])
        blanks++;
    if (blanks < left && (bytes[blanks] == '{' || bytes[blanks] == '[')) {
        if (has_words(bytes, left, "\"traceEvents\"") ||
            has_words(bytes, left, "\"schemaVersion\""))
            found = PLM_TORCH_PROFILE;
        else if (!has_words(bytes, left, "\"segments\"") &&
                 (has_words(bytes, left, "\"active.all.") ||
                  has_words(bytes, left, "\"allocated_bytes") ||
                  has_words(bytes, left, "\"active\"") || has_words(bytes, left, "\"allocation")))
            found = PLM_TORCH_STATS;
    }
    plm__stream_close(&stream);
    if (status == PLM_OK)
        *kind = found;
    return status;
}

/* ---- reading ---- */

/* An operation that no other one of its thread encloses. */
typedef struct op_span {
    int64_t thread;
    double start, end; /* microseconds */
    const char *name;  /* of the document */
} op_span;

typedef struct memory_instant {
    int64_t thread;
    double time;
    int64_t bytes; /* negative: freed */
    uint64_t address;
    int64_t allocated, reserved;
    int64_t order; /* in the file */
} memory_instant;

typedef struct profile_work {
    const char *path;
    PLM_ARRAY(op_span) spans;
    PLM_ARRAY(memory_instant) instants;
    int64_t device;
    plm_torch_profile *profile;
} profile_work;

static int64_t whole(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static plm_status read_text(const char *path, plm_text *text)
{
    plm_stream stream;
    PLM_TRY(plm__stream_open(path, &stream));
    plm_status status = PLM_OK;
    while (status == PLM_OK) {
        status = plm__stream_fill(&stream, 1);
        size_t left = status == PLM_OK ? plm__stream_left(&stream) : 0;
        if (left == 0)
            break;
        if (text->count + (int64_t)left > FILE_BYTES_MAX)
            status = plm_fail(PLM_ERROR_UNSUPPORTED, "'%s' is larger than 1 GiB", path);
        else
            plm__text_add_bytes(text, (const char *)stream.next, (int64_t)left);
        stream.next = stream.end;
    }
    plm__stream_close(&stream);
    return status == PLM_OK ? plm__text_status(text) : status;
}

static plm_status keep_event(profile_work *work, const json_t *event)
{
    const char *category = json_string_value(json_object_get(event, "cat"));
    const char *name = json_string_value(json_object_get(event, "name"));
    double time = json_number_value(json_object_get(event, "ts"));
    if (!category || !name)
        return PLM_OK;
    if (strcmp(category, "cpu_op") == 0)
        return PLM_ARRAY_PUSH(
            &work->spans, (op_span){.thread = whole(event, "tid"),
                                    .start = time,
                                    .end = time + json_number_value(json_object_get(event, "dur")),
                                    .name = name});
    const json_t *details = json_object_get(event, "args");
    if (strcmp(name, "[memory]") != 0 || whole(details, "Device Type") != CUDA_TYPE ||
        whole(details, "Device Id") != work->device)
        return PLM_OK;
    return PLM_ARRAY_PUSH(&work->instants,
                          (memory_instant){.thread = whole(event, "tid"),
                                           .time = time,
                                           .bytes = whole(details, "Bytes"),
                                           .address = (uint64_t)whole(details, "Addr"),
                                           .allocated = whole(details, "Total Allocated"),
                                           .reserved = whole(details, "Total Reserved"),
                                           .order = work->instants.count});
}

/* The device with the most memory events; -1 when there are none. */
static int64_t choose_device(const json_t *events)
{
    int64_t counts[DEVICES_MAX] = {0}, best = -1;
    size_t index;
    json_t *event;
    json_array_foreach (events, index, event) {
        const char *name = json_string_value(json_object_get(event, "name"));
        const json_t *details = json_object_get(event, "args");
        int64_t device = whole(details, "Device Id");
        if (!name || strcmp(name, "[memory]") != 0 || whole(details, "Device Type") != CUDA_TYPE ||
            device < 0 || device >= DEVICES_MAX)
            continue;
        counts[device]++;
        if (best < 0 || counts[device] > counts[best])
            best = device;
    }
    return best;
}

/* ---- spans ---- */

static int by_thread_and_start(const void *left, const void *right)
{
    const op_span *a = left, *b = right;
    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->end > b->end ? -1 : a->end < b->end;
}

/* Keeps the spans that no other one encloses. */
static void keep_outermost(profile_work *work)
{
    int64_t kept = 0;
    PLM_ARRAY_SORT(&work->spans, by_thread_and_start);
    for (int64_t i = 0; i < work->spans.count; i++) {
        const op_span *last = kept > 0 ? &work->spans.items[kept - 1] : NULL;
        const op_span *span = &work->spans.items[i];
        if (!last || last->thread != span->thread || span->start >= last->end)
            work->spans.items[kept++] = *span;
    }
    work->spans.count = kept;
}

static const char *op_at(const profile_work *work, const memory_instant *instant)
{
    int64_t low = 0, high = work->spans.count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const op_span *span = &work->spans.items[middle];
        bool is_before = span->thread != instant->thread ? span->thread < instant->thread
                                                         : span->start <= instant->time;
        if (is_before)
            low = middle + 1;
        else
            high = middle;
    }
    const op_span *span = low > 0 ? &work->spans.items[low - 1] : NULL;
    bool holds = span && span->thread == instant->thread && instant->time <= span->end;
    return holds ? span->name : "";
}

/* ---- blocks ---- */

static int by_time(const void *left, const void *right)
{
    const memory_instant *a = left, *b = right;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* The block that lives at an address: the last one born there, by a map from the address. */
typedef struct address_map {
    uint64_t *addresses;
    int64_t *blocks; /* number + 1, 0 when dead */
    uint64_t slots;  /* a power of two, more than there are instants */
} address_map;

static int64_t *block_at(const address_map *map, uint64_t address)
{
    uint64_t i = (address >> 9) * 0x9e3779b97f4a7c15u >> 20 & (map->slots - 1);
    while (map->addresses[i] != 0 && map->addresses[i] != address)
        i = (i + 1) & (map->slots - 1);
    map->addresses[i] = address;
    return &map->blocks[i];
}

static plm_status add_owner(profile_work *work, const char *name, plm_text *clean, int32_t *owner)
{
    plm_owner made = {.role = -1, .dtype = -1, .frames = PLM_TRACE_NO_FRAMES};
    clean->count = 0;
    plm__utf8_add_clean(clean, name, strlen(name));
    PLM_TRY(plm__text_status(clean));
    PLM_TRY(plm__trace_intern_bytes(work->profile->trace, clean->items, (size_t)clean->count,
                                    &made.op));
    return plm__trace_add_owner(work->profile->trace, &made, owner);
}

static plm_status add_instant(profile_work *work, const address_map *map,
                              const memory_instant *instant, plm_text *clean, int64_t *next)
{
    plm_torch_profile *profile = work->profile;
    int64_t *block = block_at(map, instant->address);
    bool is_birth = instant->bytes > 0;
    size_t bytes = (size_t)(is_birth ? instant->bytes : -instant->bytes);
    plm_event event = {.time = (int64_t)(instant->time * 1000),
                       .address = instant->address,
                       .bytes_asked = bytes,
                       .bytes_taken = bytes,
                       .device = (uint16_t)profile->device,
                       .kind = is_birth ? PLM_EVENT_BLOCK_ALLOC : PLM_EVENT_BLOCK_FREE,
                       .owner = PLM_TRACE_NO_OWNER};
    if (is_birth) {
        *block = ++*next;
        PLM_TRY(add_owner(work, op_at(work, instant), clean, &event.owner));
    } else if (*block == 0) {
        profile->older_frees++;
        return PLM_OK;
    }
    event.block = *block - 1;
    if (!is_birth)
        *block = 0;
    return plm__trace_add_event(profile->trace, &event);
}

static void note_totals(plm_torch_profile *profile, const memory_instant *instant)
{
    profile->events++;
    profile->allocated_bytes = instant->allocated > 0 ? (size_t)instant->allocated : 0;
    profile->reserved_bytes = instant->reserved > 0 ? (size_t)instant->reserved : 0;
    if (profile->allocated_bytes > profile->allocated_peak_bytes)
        profile->allocated_peak_bytes = profile->allocated_bytes;
    if (profile->reserved_bytes > profile->reserved_peak_bytes)
        profile->reserved_peak_bytes = profile->reserved_bytes;
}

static plm_status fill_trace(profile_work *work)
{
    address_map map = {.slots = 64};
    plm_text clean = {0};
    int64_t next = 0;
    plm_status status;
    while (map.slots < (uint64_t)work->instants.count * 2)
        map.slots *= 2;
    PLM_TRY_DONE(plm__host_alloc(map.slots * sizeof *map.addresses, &map.addresses));
    PLM_TRY_DONE(plm__host_alloc(map.slots * sizeof *map.blocks, &map.blocks));
    PLM_ARRAY_SORT(&work->instants, by_time);
    for (int64_t i = 0; i < work->instants.count; i++) {
        const memory_instant *instant = &work->instants.items[i];
        note_totals(work->profile, instant);
        if (instant->bytes != 0 && instant->bytes > INT64_MIN)
            PLM_TRY_DONE(add_instant(work, &map, instant, &clean, &next));
    }
    work->profile->traced_peak_bytes = plm_trace_find_peak(work->profile->trace).bytes_taken;
done:
    plm__text_fini(&clean);
    plm__host_free(map.blocks);
    plm__host_free(map.addresses);
    return status;
}

static void find_capacity(plm_torch_profile *profile, const json_t *root)
{
    size_t index;
    json_t *device;
    json_array_foreach (json_object_get(root, "deviceProperties"), index, device) {
        int64_t bytes = whole(device, "totalGlobalMem");
        if (whole(device, "id") == profile->device && bytes > 0)
            profile->capacity_bytes = (size_t)bytes;
    }
}

static plm_status read_document(profile_work *work, const json_t *root)
{
    const json_t *events = json_is_array(root) ? root : json_object_get(root, "traceEvents");
    size_t index;
    json_t *event;
    PLM_FAIL_IF(!json_is_array(events), PLM_ERROR_FORMAT,
                "'%s' is no trace of torch.profiler: wanted 'traceEvents'", work->path);
    work->device = choose_device(events);
    PLM_FAIL_IF(work->device < 0, PLM_ERROR_FORMAT,
                "'%s' has no memory events; record with profile_memory=True", work->path);
    work->profile->device = (int32_t)work->device;
    json_array_foreach (events, index, event)
        PLM_TRY(keep_event(work, event));
    find_capacity(work->profile, root);
    keep_outermost(work);
    return fill_trace(work);
}

plm_status plm_torch_profile_read(const char *path, plm_torch_profile **profile)
{
    profile_work work = {.path = path};
    plm_text text = {0};
    json_t *root = NULL;
    plm_status status;
    PLM_TRY_DONE(read_text(path, &text));
    PLM_TRY_DONE(plm__json_read(path, text.items, (size_t)text.count, &root));
    PLM_TRY_DONE(plm__host_alloc(sizeof *work.profile, &work.profile));
    PLM_TRY_DONE(plm__trace_create(&work.profile->trace));
    PLM_TRY_DONE(read_document(&work, root));
    *profile = work.profile;
    work.profile = NULL;
done:
    plm_torch_profile_destroy(work.profile);
    PLM_ARRAY_FREE(&work.spans);
    PLM_ARRAY_FREE(&work.instants);
    json_decref(root);
    plm__text_fini(&text);
    return status;
}

void plm_torch_profile_destroy(plm_torch_profile *profile)
{
    if (!profile)
        return;
    plm_trace_destroy(profile->trace);
    plm__host_free(profile);
}
