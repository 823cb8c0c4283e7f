/* SPDX-License-Identifier: MIT */
/*
 * One source of the page as JSON. Long lists are packed (report/packed.h); page.js reads them in
 * the order in which they are written here. An index that may be absent is written plus one.
 */
#include "report/page_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/escape.h"
#include "report/packed.h"

enum {
    SITES_MAX = 20000,                   /* sites told one by one, by what they hold at most */
    STRINGS_MAX_BYTES = 4 * 1024 * 1024, /* texts beyond are cut to nothing */
    STRING_MAX_BYTES = 400,
    FRAMES_MAX = 48,             /* of a stack, from the innermost */
    EXTENTS_MAX = 100000,        /* the largest ones */
    STEPS_MAX = 200000,          /* of reserved memory; beyond, one a bin */
    TIMES_MAX = 2 * 1024 * 1024, /* events with a time of their own; beyond, one a bin */
    INSTANTS_MAX = 2000          /* failed requests and marks, each */
};

typedef struct writer {
    const plm_timeline *t;
    const plm_export_source *source;
    plm_text *out;
    plm_text packed;    /* the list that is being made */
    plm_intern strings; /* that the lists refer to */
    size_t string_bytes;
    plm_intern frames;  /* bytes of a plm_frame whose texts are ours; number 0 is unused */
    uint32_t *order;    /* sites, the largest first */
    uint32_t *place;    /* by site: its place in that order */
    int64_t site_count; /* of those that are told */
} writer;

static void fail(writer *w, plm_status status)
{
    if (w->out->status == PLM_OK)
        w->out->status = status;
}

/* The number of a text of the trace among the strings of the page. */
static uint32_t string_of(writer *w, uint32_t text)
{
    const char *bytes = plm_trace_text(w->t->trace, text);
    size_t count = strlen(bytes);
    uint32_t id = 0;
    if (count > STRING_MAX_BYTES)
        count = STRING_MAX_BYTES;
    if (w->string_bytes + count > STRINGS_MAX_BYTES)
        return 0;
    int64_t before = w->strings.entries.count;
    plm_status status = plm__intern_add(&w->strings, bytes, count, &id);
    if (status != PLM_OK)
        fail(w, status);
    if (w->strings.entries.count > before)
        w->string_bytes += count;
    return id;
}

static uint32_t frame_of(writer *w, plm_frame frame)
{
    uint32_t number = 0;
    plm_frame ours;
    memset(&ours, 0, sizeof ours);
    ours.function = string_of(w, frame.function);
    ours.file = string_of(w, frame.file);
    ours.line = frame.line;
    plm_status status = plm__intern_add(&w->frames, (const char *)&ours, sizeof ours, &number);
    if (status != PLM_OK)
        fail(w, status);
    return number;
}

static void put(writer *w, uint64_t number)
{
    plm__packed_add(&w->packed, number);
}

static void put_signed(writer *w, int64_t number)
{
    plm__packed_add_signed(&w->packed, number);
}

/* Writes `"key":"..."` with the list made so far, and begins the next one. */
static void end_list(writer *w, const char *key)
{
    plm__text_add(w->out, ",\"%s\":", key);
    plm__packed_write(&w->packed, w->out);
    w->packed.count = 0;
}

static const plm_holder *site_of_place(const writer *w, int64_t place)
{
    return &w->t->sites.items.items[w->order[place]];
}

typedef struct ranked {
    size_t bytes;
    uint32_t index;
} ranked;

static int largest_first(const void *left, const void *right)
{
    const ranked *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static plm_status rank_sites(writer *w)
{
    int64_t count = w->t->sites.items.count;
    ranked *list = NULL;
    PLM_TRY(plm__host_alloc((size_t)(count + 1) * sizeof *w->order, &w->order));
    PLM_TRY(plm__host_alloc((size_t)(count + 1) * sizeof *w->place, &w->place));
    PLM_TRY(plm__host_alloc((size_t)(count + 1) * sizeof *list, &list));
    for (int64_t i = 0; i < count; i++)
        list[i] = (ranked){w->t->sites.items.items[i].largest_bytes, (uint32_t)i};
    qsort(list, (size_t)count, sizeof *list, largest_first);
    w->site_count = count < SITES_MAX ? count : SITES_MAX;
    for (int64_t i = 0; i < count; i++) {
        w->order[i] = list[i].index;
        w->place[list[i].index] = (uint32_t)(i < w->site_count ? i : w->site_count);
    }
    plm__host_free(list);
    return PLM_OK;
}

static void put_stack(writer *w, int32_t stack)
{
    int64_t depth = stack < 0 ? 0 : plm_trace_stack_depth(w->t->trace, stack);
    if (depth > FRAMES_MAX)
        depth = FRAMES_MAX;
    put(w, (uint64_t)depth);
    for (int64_t i = 0; i < depth; i++)
        put(w, frame_of(w, plm_trace_stack_frame(w->t->trace, stack, i)));
}

static void put_site(writer *w, const plm_holder *site)
{
    const plm_owner *owner = &site->key.owner;
    put(w, (uint64_t)(owner->role + 1));
    put(w, (uint64_t)(owner->dtype + 1));
    put(w, (uint64_t)owner->rank);
    for (int32_t i = 0; i < owner->rank; i++)
        put(w, (uint64_t)owner->shape[i]);
    put(w, string_of(w, owner->name));
    put(w, string_of(w, owner->layer));
    put(w, string_of(w, owner->op));
    put(w, string_of(w, owner->made_by));
    for (int i = 0; i < PLM_TRACE_KEPT_MAX; i++)
        put(w, string_of(w, owner->kept_for[i]));
    put(w, site->key.queue);
    put(w, site->key.pool);
    put(w, site->key.size_class);
    put_stack(w, owner->frames);
    put(w, (uint64_t)site->total_count);
    put(w, site->total_bytes);
    put(w, site->largest_bytes);
    put(w, (uint64_t)site->peak_count);
    put(w, site->peak_bytes);
    put(w, (uint64_t)site->live_count);
    put(w, site->live_bytes);
}

/* Sites that are not told one by one, as one whose maximum is not known: 0. */
static plm_holder sum_of_rest(const writer *w)
{
    plm_holder rest = {.key.owner = {.role = -1, .dtype = -1, .frames = PLM_TRACE_NO_FRAMES}};
    for (int64_t i = w->site_count; i < w->t->sites.items.count; i++) {
        const plm_holder *site = site_of_place(w, i);
        rest.total_count += site->total_count;
        rest.total_bytes += site->total_bytes;
        rest.peak_count += site->peak_count;
        rest.peak_bytes += site->peak_bytes;
        rest.live_count += site->live_count;
        rest.live_bytes += site->live_bytes;
    }
    return rest;
}

static void add_sites(writer *w)
{
    for (int64_t i = 0; i < w->site_count; i++)
        put_site(w, site_of_place(w, i));
    plm_holder rest = sum_of_rest(w);
    put_site(w, &rest);
    plm__text_add(w->out, ",\"site_count\":%lld,\"sites_left_out\":%lld", (long long)w->site_count,
                  (long long)(w->t->sites.items.count - w->site_count));
    end_list(w, "sites");
    for (int64_t i = 1; i < w->frames.entries.count; i++) {
        plm_frame frame;
        memcpy(&frame, w->frames.entries.items[i].bytes, sizeof frame);
        put(w, frame.function);
        put(w, frame.file);
        put(w, (uint64_t)(frame.line > 0 ? frame.line : 0));
    }
    end_list(w, "frames");
}

/* Whether a grouping is worth a choice: it parts something, and by what is known. */
static bool is_telling(const plm_timeline *t, int k)
{
    return (k != PLM_GROUPING_ROLE || t->has_roles) && t->groupings[k].used_keys > 1;
}

static void add_grouping(writer *w, int k)
{
    const plm_timeline *t = w->t;
    const plm_grouping *grouping = &t->groupings[k];
    plm__text_add(w->out, "{\"title\":");
    plm__escape_add(w->out, k == PLM_GROUPING_ROLE && !t->has_roles
                                ? "size of block"
                                : plm__grouping_title((plm_grouping_kind)k, t->recorded));
    plm__text_add(w->out, ",\"others\":%s,\"labels\":[", grouping->has_others ? "true" : "false");
    for (int g = 0; g < grouping->group_count; g++) {
        plm__text_add(w->out, g ? "," : "");
        plm__escape_add(w->out, plm__grouping_label(grouping, g));
    }
    plm__text_add(w->out, "]");
    for (int64_t i = 0; i < w->site_count; i++)
        put(w, plm__grouping_of_site(grouping, w->order[i]));
    put(w, (uint64_t)(grouping->group_count > 0 ? grouping->group_count - 1 : 0));
    end_list(w, "group_of_site");
    size_t last[PLM_GROUPS_MAX] = {0};
    for (int64_t bin = 0; bin < t->bins.count; bin++) {
        for (int g = 0; g < grouping->group_count; g++) {
            size_t bytes = plm__timeline_group_bytes(t, k, bin, g);
            put_signed(w, (int64_t)(bytes - last[g]));
            last[g] = bytes;
        }
    }
    end_list(w, "bins");
    plm__text_add(w->out, "}");
}

static void add_groupings(writer *w)
{
    int first = plm__timeline_first_grouping(w->t);
    plm__text_add(w->out, ",\"groupings\":[");
    add_grouping(w, first);
    for (int k = 0; k < PLM_GROUPING_COUNT; k++) {
        if (k == first || !is_telling(w->t, k))
            continue;
        plm__text_add(w->out, ",");
        add_grouping(w, k);
    }
    plm__text_add(w->out, "]");
}

static void add_bins(writer *w)
{
    const plm_timeline *t = w->t;
    plm_timeline_bin last = {0};
    for (int64_t i = 0; i < t->bins.count; i++) {
        const plm_timeline_bin *bin = &t->bins.items[i];
        put(w, (uint64_t)(bin->event - i * t->bin_events));
        put_signed(w, (int64_t)(bin->bytes - last.bytes));
        put_signed(w, (int64_t)(bin->least - last.least));
        put_signed(w, (int64_t)(bin->reserved - last.reserved));
        last = *bin;
    }
    plm__text_add(w->out, ",\"bin_events\":%lld,\"bin_count\":%lld", (long long)t->bin_events,
                  (long long)t->bins.count);
    end_list(w, "bins");
}

/* Reserved memory: every change, or the largest of each bin when there are too many. */
static void add_steps(writer *w)
{
    const plm_timeline *t = w->t;
    bool all = t->extents.steps.count <= STEPS_MAX;
    int64_t count = all ? t->extents.steps.count : t->bins.count, last_event = -1;
    size_t last_bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t event = all ? t->extents.steps.items[i].event : i * t->bin_events;
        size_t bytes = all ? t->extents.steps.items[i].bytes : t->bins.items[i].reserved;
        put(w, (uint64_t)(event - last_event));
        put_signed(w, (int64_t)(bytes - last_bytes));
        last_event = event;
        last_bytes = bytes;
    }
    plm__text_add(w->out, ",\"reserved_count\":%lld", (long long)count);
    end_list(w, "reserved");
}

static void add_times(writer *w)
{
    const plm_timeline *t = w->t;
    int64_t stride = t->event_count <= TIMES_MAX ? 1 : t->bin_events;
    int64_t last = t->event_count > 0 ? t->events[0].time : 0;
    for (int64_t i = 0; i < t->event_count; i += stride) {
        put(w, (uint64_t)(t->events[i].time - last));
        last = t->events[i].time;
    }
    if (t->event_count > 0) /* the time of the last one, where the stride passes over it */
        put(w, (uint64_t)(t->events[t->event_count - 1].time - last));
    plm__text_add(w->out, ",\"time_events\":%lld", (long long)stride);
    end_list(w, "times");
}

static void add_blocks(writer *w)
{
    const plm_timeline *t = w->t;
    int64_t last_birth = 0;
    uint64_t last_address = 0;
    for (int64_t i = 0; i < t->blocks.count; i++) {
        const plm_timeline_block *block = &t->blocks.items[i];
        put(w, (uint64_t)(block->birth - last_birth));
        put(w, block->death < 0 ? 0 : (uint64_t)(block->death - block->birth));
        put(w, block->let_go < 0 ? 0 : (uint64_t)(block->let_go - block->birth));
        put(w, block->taken);
        put(w, block->taken - block->asked);
        put(w, w->place[block->site]);
        put_signed(w, (int64_t)(block->address - last_address));
        last_birth = block->birth;
        last_address = block->address;
    }
    plm__text_add(w->out, ",\"block_count\":%lld,\"blocks_in_all\":%lld,\"smallest_block\":%zu",
                  (long long)t->blocks.count, (long long)t->block_count, t->smallest_kept_bytes);
    end_list(w, "blocks");
}

static plm_status add_extents(writer *w)
{
    const plm_extents *extents = &w->t->extents;
    int64_t count = extents->items.count;
    ranked *list = NULL;
    PLM_TRY(plm__host_alloc((size_t)(count + 1) * sizeof *list, &list));
    for (int64_t i = 0; i < count; i++)
        list[i] = (ranked){extents->items.items[i].bytes, (uint32_t)i};
    qsort(list, (size_t)count, sizeof *list, largest_first);
    if (count > EXTENTS_MAX)
        count = EXTENTS_MAX;
    uint64_t last_address = 0;
    for (int64_t i = 0; i < count; i++) {
        const plm_extent *extent = &extents->items.items[list[i].index];
        put(w, (uint64_t)(extent->birth + 1));
        put(w, (uint64_t)(extent->death + 1));
        put(w, extent->bytes);
        put_signed(w, (int64_t)(extent->address - last_address));
        put(w, extent->queue);
        put(w, extent->pool);
        put(w, extent->expandable);
        last_address = extent->address;
    }
    plm__host_free(list);
    plm__text_add(w->out, ",\"segment_count\":%lld,\"segments_left_out\":%lld", (long long)count,
                  (long long)(extents->items.count - count));
    end_list(w, "segments");
    return PLM_OK;
}

static void add_instant(writer *w, int64_t index)
{
    const plm_event *event = &w->t->events[index];
    if (event->kind == PLM_EVENT_MARK) {
        plm__text_add(w->out, "{\"event\":%lld,\"label\":%u}", (long long)index,
                      string_of(w, event->label));
        return;
    }
    int64_t count;
    const plm_owner *owners = plm_trace_owners(w->t->trace, &count);
    plm_holder_key key = {.owner = {.role = -1, .dtype = -1, .frames = PLM_TRACE_NO_FRAMES}};
    if (event->owner != PLM_TRACE_NO_OWNER)
        key.owner = owners[event->owner];
    plm_text who = {0};
    plm__page_add_site(&who, w->t->trace, &key);
    fail(w, who.status);
    plm__text_add(w->out, "{\"event\":%lld,\"asked\":%zu,\"free\":%zu,\"who\":", (long long)index,
                  event->bytes_asked, event->bytes_taken);
    plm__escape_add_bytes(w->out, who.items, who.count);
    plm__text_add(w->out, "}");
    plm__text_fini(&who);
}

static void add_instants(writer *w, const char *key, plm_event_kind kind)
{
    int64_t count = 0;
    plm__text_add(w->out, ",\"%s\":[", key);
    for (int64_t i = 0; i < w->t->event_count && count < INSTANTS_MAX; i++) {
        if (w->t->events[i].kind != kind)
            continue;
        plm__text_add(w->out, count++ ? "," : "");
        add_instant(w, i);
    }
    plm__text_add(w->out, "]");
}

static void add_tables(writer *w)
{
    plm__text_add(w->out, ",\"roles\":[");
    for (int i = 0; i < PLM_ROLE_COUNT; i++)
        plm__text_add(w->out, "%s\"%s\"", i ? "," : "", plm_role_text((plm_role)i));
    plm__text_add(w->out, "],\"dtypes\":[");
    for (int i = 0; i < PLM_DTYPE_COUNT; i++)
        plm__text_add(w->out, "%s\"%s\"", i ? "," : "", plm_dtype_text((plm_dtype)i));
    plm__text_add(w->out, "],\"unknown\":[");
    for (uint32_t i = 0; i <= PLM_HOLDER_SIZE_CLASSES; i++)
        plm__text_add(w->out, "%s\"%s\"", i ? "," : "", plm__holder_unknown_text(i));
    plm__text_add(w->out, "],\"strings\":[");
    for (int64_t i = 0; i < w->strings.entries.count; i++) {
        plm__text_add(w->out, i ? "," : "");
        plm__escape_add_bytes(w->out, w->strings.entries.items[i].bytes,
                              w->strings.entries.items[i].count);
    }
    plm__text_add(w->out, "]");
}

static void add_summary(writer *w)
{
    const plm_timeline *t = w->t;
    plm__text_add(w->out, "{\"name\":");
    plm__escape_add(w->out, w->source->name ? w->source->name : "");
    plm__text_add(w->out, ",\"settings\":");
    plm__escape_add(w->out, w->source->settings ? w->source->settings : "");
    plm__text_add(w->out, ",\"timed\":%s,\"recorded\":%s,\"carried_in\":%lld,\"event_count\":%lld",
                  w->source->timed ? "true" : "false", t->recorded ? "true" : "false",
                  (long long)w->source->carried_in, (long long)t->event_count);
    plm__text_add(w->out, ",\"start_ms\":%lld",
                  t->event_count && w->source->timed ? (long long)(t->events[0].time / 1000000)
                                                     : 0);
    plm__text_add(w->out,
                  ",\"peak_event\":%lld,\"peak_bytes\":%zu,\"peak_asked_bytes\":%zu"
                  ",\"peak_blocks\":%lld,\"reserved_peak_bytes\":%zu,\"reserved_at_peak_bytes\":%zu"
                  ",\"end_bytes\":%zu,\"end_blocks\":%lld,\"oom_count\":%lld,\"mark_count\":%lld",
                  (long long)t->peak.event, t->peak.bytes_taken, t->peak.bytes_asked,
                  (long long)t->peak_blocks, t->reserved_peak, t->reserved_at_peak, t->end_bytes,
                  (long long)t->end_blocks, (long long)t->oom_count, (long long)t->mark_count);
    plm__text_add(w->out, ",\"story\":[");
    plm__page_add_story(w->out, t, w->source);
    plm__text_add(w->out, "]");
}

static plm_status add_all(writer *w)
{
    PLM_TRY(plm__intern_init(&w->strings));
    PLM_TRY(plm__intern_init(&w->frames));
    PLM_TRY(rank_sites(w));
    add_summary(w);
    add_sites(w);
    add_groupings(w);
    add_bins(w);
    add_steps(w);
    add_times(w);
    add_blocks(w);
    PLM_TRY(add_extents(w));
    add_instants(w, "failures", PLM_EVENT_OUT_OF_MEMORY);
    add_instants(w, "marks", PLM_EVENT_MARK);
    add_tables(w);
    plm__text_add(w->out, "}");
    return PLM_OK;
}

void plm__page_add_source(plm_text *out, const plm_timeline *timeline,
                          const plm_export_source *source)
{
    writer w = {.t = timeline, .source = source, .out = out};
    plm_status status = add_all(&w);
    if (status != PLM_OK)
        fail(&w, status);
    plm__text_fini(&w.packed);
    plm__intern_fini(&w.strings);
    plm__intern_fini(&w.frames);
    plm__host_free(w.order);
    plm__host_free(w.place);
}
