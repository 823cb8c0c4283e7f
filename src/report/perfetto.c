/* SPDX-License-Identifier: MIT */
/*
 * Chrome's JSON trace, which Perfetto opens: a list of small objects, written one after the other.
 *
 * A source is a process. It has two counters (allocated, reserved), a track of marks and one of
 * operations as slices, failed requests as instants. Times are microseconds with three decimals.
 * Ordinal times are spread out: an instant is one microsecond, and events that share it follow each
 * other within, so that a peak between two of them is seen.
 */
#include "plimsoll/export.h"

#include <string.h>

#include "base/file.h"
#include "report/escape.h"
#include "report/extents.h"

enum { MARKS_TRACK = 1, OPERATIONS_TRACK = 2, PIECE_BYTES = 256 * 1024 };

typedef struct writer {
    const plm_export_source *source;
    const plm_event *events;
    const plm_owner *owners;
    int64_t count;
    int process;
    plm_extents extents;
    plm_file_writer file;
    plm_text out;
    bool started; /* an object stands before the next one */
} writer;

static plm_status write_gathered(writer *w, int64_t from_bytes)
{
    PLM_TRY(plm__text_status(&w->out));
    if (w->out.count < from_bytes)
        return PLM_OK;
    PLM_TRY(plm__file_append(&w->file, w->out.items, (size_t)w->out.count));
    w->out.count = 0;
    return PLM_OK;
}

static void begin(writer *w, char phase, int track)
{
    plm__text_add(&w->out, "%s{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d", w->started ? ",\n" : "", phase,
                  w->process, track);
    w->started = true;
}

/* Nanoseconds from the first event. */
static void add_time(writer *w, const char *key, int64_t ns)
{
    plm__text_add(&w->out, ",\"%s\":%lld.%03d", key, (long long)(ns / 1000), (int)(ns % 1000));
}

static void add_name(writer *w, const char *name)
{
    plm__text_add(&w->out, ",\"name\":");
    plm__escape_add(&w->out, name);
}

static void name_track(writer *w, const char *what, int track, const char *name)
{
    begin(w, 'M', track);
    add_name(w, what);
    plm__text_add(&w->out, ",\"args\":{\"name\":");
    plm__escape_add(&w->out, name);
    plm__text_add(&w->out, "}}");
}

static void add_counter(writer *w, const char *name, int64_t ns, size_t bytes)
{
    begin(w, 'C', 0);
    add_name(w, name);
    add_time(w, "ts", ns);
    plm__text_add(&w->out, ",\"args\":{\"bytes\":%zu}}", bytes);
}

static void add_slice(writer *w, int track, const char *name, int64_t from, int64_t to)
{
    begin(w, 'X', track);
    add_name(w, name);
    add_time(w, "ts", from);
    add_time(w, "dur", to - from);
    plm__text_add(&w->out, "}");
}

static void add_failure(writer *w, const plm_event *event, int64_t ns)
{
    begin(w, 'i', 0);
    add_name(w, "out of memory");
    add_time(w, "ts", ns);
    plm__text_add(&w->out, ",\"s\":\"p\",\"args\":{\"asked_bytes\":%zu,\"free_bytes\":%zu}}",
                  event->bytes_asked, event->bytes_taken);
}

/* The event after the last one that shares the time of `index`. */
static int64_t end_of_instant(const writer *w, int64_t index)
{
    int64_t end = index + 1;
    while (end < w->count && w->events[end].time == w->events[index].time)
        end++;
    return end;
}

/* Where a time of the trace stands, in nanoseconds from the first event. */
static int64_t stands(const writer *w, int64_t time)
{
    time -= w->events[0].time;
    return w->source->timed ? time : time * 1000;
}

static int64_t place(const writer *w, int64_t index)
{
    return stands(w, w->events[index].time);
}

/* Counters and failures of the events [from, to), which share a time. */
static void tell_instant(writer *w, int64_t from, int64_t to, size_t *live, int64_t *step)
{
    for (int64_t i = from; i < to; i++) {
        const plm_event *event = &w->events[i];
        int64_t ns = place(w, from);
        if (!w->source->timed)
            ns += (i - from) * 1000 / (to - from);
        bool birth = event->kind == PLM_EVENT_BLOCK_ALLOC,
             death = event->kind == PLM_EVENT_BLOCK_FREE;
        if (birth || death) {
            *live += birth ? event->bytes_taken : 0 - event->bytes_taken;
            add_counter(w, "allocated", ns, *live);
        }
        while (*step < w->extents.steps.count && w->extents.steps.items[*step].event <= i)
            add_counter(w, "reserved", ns, w->extents.steps.items[(*step)++].bytes);
        if (event->kind == PLM_EVENT_OUT_OF_MEMORY)
            add_failure(w, event, ns);
    }
}

/* The operation that ran at an instant: the one that made the first block born then. */
static const char *operation_at(const writer *w, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        if (w->events[i].kind == PLM_EVENT_BLOCK_ALLOC && w->events[i].owner >= 0 &&
            w->owners[w->events[i].owner].made_by)
            return plm_trace_text(w->source->trace, w->owners[w->events[i].owner].made_by);
    return NULL;
}

static plm_status tell_events(writer *w)
{
    size_t live = 0;
    int64_t step = 0;
    for (int64_t from = 0, to; from < w->count; from = to) {
        to = end_of_instant(w, from);
        tell_instant(w, from, to, &live, &step);
        const char *operation = w->source->slice_count > 0 ? NULL : operation_at(w, from, to);
        int64_t end = to < w->count ? place(w, to) : place(w, from) + 1000;
        if (operation)
            add_slice(w, OPERATIONS_TRACK, operation, place(w, from), end);
        PLM_TRY(write_gathered(w, PIECE_BYTES));
    }
    return PLM_OK;
}

/* The operations that the source tells itself. */
static plm_status tell_slices(writer *w)
{
    for (int64_t i = 0; w->count > 0 && i < w->source->slice_count; i++) {
        const plm_export_slice *slice = &w->source->slices[i];
        add_slice(w, OPERATIONS_TRACK, plm_trace_text(w->source->trace, slice->name),
                  stands(w, slice->begin), stands(w, slice->end));
        PLM_TRY(write_gathered(w, PIECE_BYTES));
    }
    return PLM_OK;
}

/* A mark reaches to the next one, the last to the end. */
static plm_status tell_marks(writer *w)
{
    int64_t last = -1;
    for (int64_t i = 0; i <= w->count; i++) {
        if (i < w->count && w->events[i].kind != PLM_EVENT_MARK)
            continue;
        int64_t end = i < w->count ? place(w, i) : w->count > 0 ? place(w, w->count - 1) + 1000 : 0;
        if (last >= 0)
            add_slice(w, MARKS_TRACK, plm_trace_text(w->source->trace, w->events[last].label),
                      place(w, last), end);
        last = i;
        PLM_TRY(write_gathered(w, PIECE_BYTES));
    }
    return PLM_OK;
}

static plm_status tell_source(writer *w, const plm_export_source *source, int process)
{
    int64_t owner_count;
    w->source = source;
    w->process = process;
    w->events = plm_trace_events(source->trace, &w->count);
    w->owners = plm_trace_owners(source->trace, &owner_count);
    name_track(w, "process_name", 0, source->name ? source->name : "memory");
    name_track(w, "thread_name", MARKS_TRACK, "marks");
    name_track(w, "thread_name", OPERATIONS_TRACK, "operations");
    plm_status status = plm__extents_init(source, &w->extents);
    if (status == PLM_OK)
        status = tell_events(w);
    if (status == PLM_OK)
        status = tell_slices(w);
    if (status == PLM_OK)
        status = tell_marks(w);
    plm__extents_fini(&w->extents);
    return status;
}

static plm_status write_all(writer *w, const plm_export_source *sources, int64_t count)
{
    plm__text_add(&w->out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    for (int64_t i = 0; i < count; i++)
        PLM_TRY(tell_source(w, &sources[i], (int)i + 1));
    plm__text_add(&w->out, "\n]}\n");
    return write_gathered(w, 0);
}

plm_status plm_export_perfetto(const char *path, const plm_export_source *sources, int64_t count)
{
    writer w = {0};
    PLM_TRY(plm__file_begin(path, &w.file));
    plm_status status = write_all(&w, sources, count);
    plm__text_fini(&w.out);
    if (status == PLM_OK)
        return plm__file_finish(&w.file);
    plm__file_abandon(&w.file);
    return status;
}

plm_status plm_export_check(const char *path)
{
    plm_file_writer file;
    PLM_TRY(plm__file_begin(path, &file));
    plm__file_abandon(&file);
    return PLM_OK;
}
