/* SPDX-License-Identifier: MIT */
/* The trace's storage: events, owners, interned strings. Views live in files of their own. */
#include "plimsoll/trace.h"

#include <string.h>

#include "base/array.h"
#include "base/intern.h"
#include "base/size.h"
#include "trace/trace.h"

struct plm_trace {
    PLM_ARRAY(plm_event) events;
    PLM_ARRAY(plm_owner) owners;
    plm_intern strings;
    plm_intern stacks; /* bytes of plm_frame one after the other; "" is the empty stack */
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

plm_status plm__trace_create(plm_trace **trace)
{
    plm_trace *made = NULL;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    plm_status status = plm__intern_init(&made->strings);
    if (status == PLM_OK)
        status = plm__intern_init(&made->stacks);
    return PLM_HAND_OVER(status, made, plm_trace_destroy, trace);
}

void plm_trace_destroy(plm_trace *trace)
{
    if (!trace)
        return;
    PLM_ARRAY_FREE(&trace->events);
    PLM_ARRAY_FREE(&trace->owners);
    plm__intern_fini(&trace->strings);
    plm__intern_fini(&trace->stacks);
    plm__host_free(trace);
}

plm_status plm__trace_intern(plm_trace *trace, const char *text, uint32_t *id)
{
    return plm__intern_add(&trace->strings, text, strlen(text), id);
}

plm_status plm__trace_intern_bytes(plm_trace *trace, const char *bytes, size_t count, uint32_t *id)
{
    return plm__intern_add(&trace->strings, bytes, count, id);
}

const char *plm_trace_text(const plm_trace *trace, uint32_t id)
{
    return plm__intern_text(&trace->strings, id);
}

plm_status plm__trace_add_owner(plm_trace *trace, const plm_owner *owner, int32_t *index)
{
    PLM_FAIL_IF(trace->owners.count >= INT32_MAX, PLM_ERROR_OVERFLOW,
                "more owners than a trace can name");
    PLM_TRY(PLM_ARRAY_PUSH(&trace->owners, *owner));
    *index = (int32_t)(trace->owners.count - 1);
    return PLM_OK;
}

plm_status plm__trace_add_stack(plm_trace *trace, const plm_frame *frames, int64_t count,
                                int32_t *index)
{
    size_t bytes;
    uint32_t number;
    PLM_TRY(plm__mul_bytes((size_t)count, sizeof *frames, &bytes));
    PLM_TRY(plm__intern_add(&trace->stacks, (const char *)frames, bytes, &number));
    *index = (int32_t)number;
    return PLM_OK;
}

int64_t plm_trace_stack_depth(const plm_trace *trace, int32_t stack)
{
    if (stack == PLM_TRACE_NO_FRAMES)
        return 0;
    PLM_ASSERT(stack >= 0 && stack < trace->stacks.entries.count);
    return (int64_t)(trace->stacks.entries.items[stack].count / sizeof(plm_frame));
}

plm_frame plm_trace_stack_frame(const plm_trace *trace, int32_t stack, int64_t depth)
{
    PLM_ASSERT(depth >= 0 && depth < plm_trace_stack_depth(trace, stack));
    plm_frame frame; /* interned bytes are not aligned */
    memcpy(&frame, trace->stacks.entries.items[stack].bytes + (size_t)depth * sizeof frame,
           sizeof frame);
    return frame;
}

void plm__trace_adopt_events(plm_trace *trace, plm_event *events, int64_t count, int64_t capacity)
{
    PLM_ASSERT(trace->events.count == 0);
    PLM_ARRAY_FREE(&trace->events);
    trace->events.items = events;
    trace->events.count = count;
    trace->events.capacity = capacity;
}

plm_event *plm__trace_change_events(plm_trace *trace, int64_t *count)
{
    *count = trace->events.count;
    return trace->events.items;
}

int64_t plm__trace_block_count(const plm_trace *trace)
{
    int64_t largest = -1;
    for (int64_t i = 0; i < trace->events.count; i++)
        if (trace->events.items[i].block > largest)
            largest = trace->events.items[i].block;
    return largest + 1;
}

plm_status plm__trace_add_event(plm_trace *trace, const plm_event *event)
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
