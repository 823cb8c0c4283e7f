/* SPDX-License-Identifier: MIT */
/* Making and completing a trace, which the library alone does. One thread writes. */
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

/* *trace becomes an empty trace, owned by the caller. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__trace_create(plm_trace **trace);

/* *id = the number of this string, the same for the same text; "" is 0. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__trace_intern(plm_trace *trace, const char *text, uint32_t *id);

/* The same for `count` bytes that need not end with a NUL and hold none. */
PLM_MUST_USE plm_status plm__trace_intern_bytes(plm_trace *trace, const char *bytes, size_t count,
                                                uint32_t *id);

/* *index = the place of a copy of *owner; equal owners are not merged. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__trace_add_owner(plm_trace *trace, const plm_owner *owner,
                                             int32_t *index);

/*
 * *index = the number of a call stack, innermost frame first, the same for equal stacks; for
 * plm_owner.frames. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm__trace_add_stack(plm_trace *trace, const plm_frame *frames,
                                             int64_t count, int32_t *index);

/* Appends a copy of *event, whose time must not be before the last one's. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__trace_add_event(plm_trace *trace, const plm_event *event);

/* largest[role] = the largest sum of bytes_asked of that role's live blocks, each at its own
 * instant. */
void plm__trace_role_maxima(const plm_trace *trace, size_t largest[PLM_ROLE_COUNT]);

#endif
