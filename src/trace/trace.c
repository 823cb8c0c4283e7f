/* SPDX-License-Identifier: MIT */
/* The trace's storage: events, owners, interned strings. Views live in files of their own. */
#include "plimsoll/trace.h"

#include <string.h>

#include "base/array.h"
#include "base/intern.h"

struct plm_trace {
    PLM_ARRAY(plm_event) events;
    PLM_ARRAY(plm_owner) owners;
    plm_intern strings;
};

static const char *const event_texts[PLM_EVENT_COUNT] = {
#define EVENT_ROW(name, text) [PLM_EVENT_##name] = text,
    PLM_EVENT_MAP(EVENT_ROW)
#undef EVENT_ROW
};

const char *plm_event_text(plm_event_kind kind)
{
    return (unsigned)kind < PLM_EVENT_COUNT ? event_texts[kind] : "unknown";
}

plm_status plm_trace_create(plm_trace **trace)
{
    plm_trace *made = NULL;
    PLM_TRY(plm_host_alloc(sizeof *made, &made));
    plm_status status = plm_intern_init(&made->strings);
    if (status != PLM_OK) {
        plm_host_free(made);
        return status;
    }
    *trace = made;
    return PLM_OK;
}

void plm_trace_destroy(plm_trace *trace)
{
    if (!trace)
        return;
    PLM_ARRAY_FREE(&trace->events);
    PLM_ARRAY_FREE(&trace->owners);
    plm_intern_fini(&trace->strings);
    plm_host_free(trace);
}

plm_status plm_trace_intern(plm_trace *trace, const char *text, uint32_t *id)
{
    return plm_intern_add(&trace->strings, text, strlen(text), id);
}

plm_status plm_trace_intern_bytes(plm_trace *trace, const char *bytes, size_t count, uint32_t *id)
{
    return plm_intern_add(&trace->strings, bytes, count, id);
}

const char *plm_trace_text(const plm_trace *trace, uint32_t id)
{
    return plm_intern_text(&trace->strings, id);
}

plm_status plm_trace_add_owner(plm_trace *trace, const plm_owner *owner, int32_t *index)
{
    PLM_FAIL_IF(trace->owners.count >= INT32_MAX, PLM_ERROR_OVERFLOW,
                "more owners than a trace can name");
    PLM_TRY(PLM_ARRAY_PUSH(&trace->owners, *owner));
    *index = (int32_t)(trace->owners.count - 1);
    return PLM_OK;
}

plm_status plm_trace_add_event(plm_trace *trace, const plm_event *event)
{
    PLM_ASSERT(trace->events.count == 0 ||
               event->time >= trace->events.items[trace->events.count - 1].time);
    return PLM_ARRAY_PUSH(&trace->events, *event);
}

const plm_event *plm_trace_events(const plm_trace *trace, int64_t *count)
{
    *count = trace->events.count;
    return trace->events.items;
}

const plm_owner *plm_trace_owners(const plm_trace *trace, int64_t *count)
{
    *count = trace->owners.count;
    return trace->owners.items;
}
