/* SPDX-License-Identifier: MIT */
/* What the library's other modules may do with a trace beyond the public header. */
#ifndef PLM_TRACE_TRACE_H
#define PLM_TRACE_TRACE_H

#include "plimsoll/trace.h"

/*
 * Gives an empty trace all its events at once, in order of time: `events` comes from the host
 * allocator, holds `count` of `capacity`, and belongs to the trace from here on. For readers of
 * recordings, whose events are too many to be held twice.
 */
void plm__trace_adopt_events(plm_trace *trace, plm_event *events, int64_t count, int64_t capacity);

/* The events, to be completed in place: the order of times stays. Valid like plm_trace_events. */
plm_event *plm__trace_change_events(plm_trace *trace, int64_t *count);

/* One more than the largest block number among the events. */
int64_t plm__trace_block_count(const plm_trace *trace);

#endif
