/* SPDX-License-Identifier: MIT */
/*
 * Steps of a run, found in its memory trace. Best are the optimizer's own annotations. Without
 * them, requests that come back at even distances show a period: of all pairs of site and size that
 * do, most come once a step, so the count that most of them share is the number of steps.
 */
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "diagnose/views.h"

enum {
    STEPS_LEAST = 4,     /* fewer are no period */
    SPREAD_PER_CENT = 15 /* most deviation of the distances from their mean */
};

typedef PLM_ARRAY(int64_t) step_list;

/* ---- annotations ---- */

static bool ends_step(const plm_snapshot_annotation *annotation)
{
    return annotation->ends && annotation->time > 0 &&
           strncmp(annotation->name, "Optimizer.step#", 15) == 0;
}

/* The events behind which the optimizer's steps ended; both lists are in order of time. */
static plm_status steps_of_optimizer(const plm_findings *findings, step_list *steps)
{
    int64_t count, event = findings->device->carried_in;
    const plm_event *events = plm_trace_events(findings->device->trace, &count);
    const plm_snapshot_annotation *annotations = findings->device->annotations;
    if (!findings->device->history.timed || event >= count)
        return PLM_OK;
    for (int64_t i = 0; i < findings->device->annotation_count; i++) {
        if (!ends_step(&annotations[i]) || annotations[i].time < events[event].time)
            continue;
        while (event + 1 < count && events[event + 1].time <= annotations[i].time)
            event++;
        if (steps->count == 0 || steps->items[steps->count - 1] < event)
            PLM_TRY(PLM_ARRAY_PUSH(steps, event));
    }
    return PLM_OK;
}

/* ---- periods ---- */

/* Requests of one site and size. */
typedef struct recurrence {
    int64_t count;
    int64_t first, last; /* events */
    double squares;      /* sum of squared distances */
} recurrence;

typedef struct recurrences {
    plm_intern keys;
    PLM_ARRAY(recurrence) items; /* key number n is items[n - 1] */
} recurrences;

typedef struct recurrence_key {
    uint64_t site;
    uint64_t bytes;
} recurrence_key;

static plm_status note_request(recurrences *found, const plm_owner *owners, const plm_event *event,
                               int64_t i)
{
    recurrence_key key = {event->owner != PLM_TRACE_NO_OWNER ? owners[event->owner].op : 0,
                          event->bytes_asked};
    uint32_t number;
    PLM_TRY(plm__intern_add(&found->keys, (const char *)&key, sizeof key, &number));
    if ((int64_t)number > found->items.count)
        PLM_TRY(PLM_ARRAY_PUSH(&found->items, (recurrence){.first = i, .last = i}));
    recurrence *item = &found->items.items[number - 1];
    double distance = (double)(i - item->last);
    item->squares += distance * distance;
    item->last = i;
    item->count++;
    return PLM_OK;
}

/* Even distances, over most of the trace. */
static bool is_regular(const recurrence *item, int64_t events)
{
    if (item->count < STEPS_LEAST || (item->last - item->first) * 2 < events)
        return false;
    double steps = (double)(item->count - 1), mean = (double)(item->last - item->first) / steps;
    double variance = item->squares / steps - mean * mean;
    double most = mean * SPREAD_PER_CENT / 100;
    return variance <= most * most;
}

static int by_count(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* The count that most regular requests share; 0 when there are none. */
static plm_status most_common_count(const recurrences *found, int64_t events, int64_t *common)
{
    step_list counts = {0};
    plm_status status = PLM_OK;
    for (int64_t i = 0; i < found->items.count && status == PLM_OK; i++)
        if (is_regular(&found->items.items[i], events))
            status = PLM_ARRAY_PUSH(&counts, found->items.items[i].count);
    if (status == PLM_OK)
        PLM_ARRAY_SORT(&counts, by_count);
    int64_t best = 0;
    *common = 0;
    for (int64_t i = 0, run; i < counts.count && status == PLM_OK; i += run) {
        for (run = 1; i + run < counts.count && counts.items[i + run] == counts.items[i]; run++)
            ;
        if (run >= best) { /* of two, the more frequent */
            best = run;
            *common = counts.items[i];
        }
    }
    PLM_ARRAY_FREE(&counts);
    return status;
}

/* The requests of the first regular pair with that count. */
static plm_status list_requests(recurrences *found, const plm_event *events, int64_t count,
                                const plm_owner *owners, int64_t common, step_list *steps)
{
    int64_t which = 0;
    while (!is_regular(&found->items.items[which], count) ||
           found->items.items[which].count != common)
        which++;
    for (int64_t i = found->items.items[which].first; i <= found->items.items[which].last; i++) {
        if (events[i].kind != PLM_EVENT_BLOCK_ALLOC)
            continue;
        recurrence_key key = {events[i].owner != PLM_TRACE_NO_OWNER ? owners[events[i].owner].op
                                                                    : 0,
                              events[i].bytes_asked};
        uint32_t number;
        PLM_TRY(plm__intern_add(&found->keys, (const char *)&key, sizeof key, &number));
        if ((int64_t)number == which + 1)
            PLM_TRY(PLM_ARRAY_PUSH(steps, i));
    }
    return PLM_OK;
}

static plm_status steps_of_period(const plm_findings *findings, step_list *steps)
{
    int64_t count, owner_count, common;
    const plm_event *events = plm_trace_events(findings->device->trace, &count);
    const plm_owner *owners = plm_trace_owners(findings->device->trace, &owner_count);
    recurrences found = {0};
    PLM_TRY(plm__intern_init(&found.keys));
    plm_status status = PLM_OK;
    for (int64_t i = findings->device->carried_in; i < count && status == PLM_OK; i++)
        if (events[i].kind == PLM_EVENT_BLOCK_ALLOC)
            status = note_request(&found, owners, &events[i], i);
    if (status == PLM_OK)
        status = most_common_count(&found, count, &common);
    if (status == PLM_OK && common > 0)
        status = list_requests(&found, events, count, owners, common, steps);
    PLM_ARRAY_FREE(&found.items);
    plm__intern_fini(&found.keys);
    return status;
}

plm_status plm__find_steps(plm_findings *findings)
{
    step_list steps = {0};
    plm_status status = steps_of_optimizer(findings, &steps);
    findings->step_source = PLM_STEPS_OPTIMIZER;
    if (status == PLM_OK && steps.count < STEPS_LEAST) {
        steps.count = 0;
        findings->step_source = PLM_STEPS_PERIOD;
        status = steps_of_period(findings, &steps);
    }
    if (steps.count == 0)
        findings->step_source = PLM_STEPS_NONE;
    findings->steps = steps.items;
    findings->step_count = steps.count;
    return status;
}
