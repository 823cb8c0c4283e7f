/* SPDX-License-Identifier: MIT */
/* Views of a trace that look for the peak: where it is, what lives then, each role's own maximum.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "plimsoll/trace.h"
#include "trace/trace.h"

plm_trace_peak plm_trace_find_peak(const plm_trace *trace)
{
    int64_t count;
    const plm_event *events = plm_trace_events(trace, &count);
    plm_trace_peak peak = {.event = -1};
    size_t asked = 0, taken = 0;
    for (int64_t i = 0; i < count; i++) {
        const plm_event *event = &events[i];
        if (event->kind == PLM_EVENT_BLOCK_FREE) {
            asked -= event->bytes_asked;
            taken -= event->bytes_taken;
        } else if (event->kind == PLM_EVENT_BLOCK_ALLOC) {
            asked += event->bytes_asked;
            taken += event->bytes_taken;
            if (peak.event < 0 || taken > peak.bytes_taken)
                peak = (plm_trace_peak){i, event->time, asked, taken};
        }
    }
    return peak;
}

void plm__trace_role_maxima(const plm_trace *trace, size_t largest[PLM_ROLE_COUNT])
{
    int64_t count, owner_count;
    const plm_event *events = plm_trace_events(trace, &count);
    const plm_owner *owners = plm_trace_owners(trace, &owner_count);
    size_t live[PLM_ROLE_COUNT] = {0};
    memset(largest, 0, PLM_ROLE_COUNT * sizeof *largest);
    for (int64_t i = 0; i < count; i++) {
        if (events[i].owner == PLM_TRACE_NO_OWNER)
            continue;
        int32_t role = owners[events[i].owner].role;
        if (role < 0)
            continue;
        if (events[i].kind == PLM_EVENT_BLOCK_FREE)
            live[role] -= events[i].bytes_asked;
        else if (events[i].kind == PLM_EVENT_BLOCK_ALLOC)
            live[role] += events[i].bytes_asked;
        if (live[role] > largest[role])
            largest[role] = live[role];
    }
}

typedef struct live_block {
    int64_t event;
    size_t bytes;
} live_block;

static int largest_first(const void *left, const void *right)
{
    const live_block *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->event < b->event ? -1 : a->event > b->event;
}

/* birth[block] = index of its alloc event + 1 while it lives, else 0. */
static plm_status find_births(const plm_event *events, int64_t at, int64_t **births,
                              int64_t *blocks)
{
    int64_t largest = -1;
    for (int64_t i = 0; i <= at; i++)
        if (events[i].block > largest)
            largest = events[i].block;
    PLM_TRY(plm__host_alloc((size_t)(largest + 1) * sizeof **births, births));
    *blocks = largest + 1;
    for (int64_t i = 0; i <= at; i++) {
        if (events[i].kind == PLM_EVENT_BLOCK_ALLOC)
            (*births)[events[i].block] = i + 1;
        else if (events[i].kind == PLM_EVENT_BLOCK_FREE)
            (*births)[events[i].block] = 0;
    }
    return PLM_OK;
}

plm_status plm_trace_live_at(const plm_trace *trace, int64_t at, int64_t **indices, int64_t *count)
{
    int64_t event_count, blocks = 0, *births = NULL;
    const plm_event *events = plm_trace_events(trace, &event_count);
    PLM_ASSERT(at < event_count);
    PLM_ARRAY(live_block) live = {0};
    plm_status status;
    PLM_TRY_DONE(find_births(events, at, &births, &blocks));
    for (int64_t block = 0; block < blocks; block++)
        if (births[block])
            PLM_TRY_DONE(PLM_ARRAY_PUSH(
                &live, (live_block){births[block] - 1, events[births[block] - 1].bytes_asked}));
    PLM_ARRAY_SORT(&live, largest_first);
    int64_t *sorted = NULL;
    PLM_TRY_DONE(plm__host_alloc((size_t)live.count * sizeof *sorted, &sorted));
    for (int64_t i = 0; i < live.count; i++)
        sorted[i] = live.items[i].event;
    *indices = sorted;
    *count = live.count;
done:
    plm__host_free(births);
    PLM_ARRAY_FREE(&live);
    return status;
}
