/* SPDX-License-Identifier: MIT */
/*
 * Spikes: the largest short-lived blocks that are live at the peak, and the peak without each of
 * them. Both are found in one pass: up to the peak and on from it; then all peaks side by side.
 */
#include <stdlib.h>

#include "base/array.h"
#include "diagnose/views.h"

enum {
    CANDIDATES_MAX = 4,
    LIFE_PART = 4 /* a short life is at most this part of a step, or of the trace */
};

typedef struct candidate {
    int64_t birth, death; /* events */
    size_t bytes;
    size_t live, peak; /* of the trace without it */
} candidate;

typedef struct candidate_list {
    candidate items[CANDIDATES_MAX]; /* largest first */
    int count;
} candidate_list;

static void offer(candidate_list *list, candidate wanted)
{
    int at = list->count;
    while (at > 0 && list->items[at - 1].bytes < wanted.bytes)
        at--;
    if (at == CANDIDATES_MAX)
        return;
    if (list->count < CANDIDATES_MAX)
        list->count++;
    for (int i = list->count - 1; i > at; i--)
        list->items[i] = list->items[i - 1];
    list->items[at] = wanted;
}

static int64_t longest_life(const plm_findings *findings, int64_t events)
{
    int64_t steps = findings->step_count;
    if (steps < 2)
        return events / LIFE_PART;
    return (findings->steps[steps - 1] - findings->steps[0]) / (steps - 1) / LIFE_PART;
}

/* The largest blocks that live at the peak and die soon after their birth. */
static plm_status find_candidates(const plm_findings *findings, candidate_list *list)
{
    int64_t count, *births = NULL;
    const plm_event *events = plm_trace_events(findings->device->trace, &count);
    int64_t most = longest_life(findings, count);
    PLM_TRY(plm__find_births(findings, &births));
    for (int64_t i = findings->peak_event + 1; i < count; i++) {
        if (events[i].kind != PLM_EVENT_BLOCK_FREE)
            continue;
        int64_t birth = births[events[i].block] - 1;
        if (birth >= findings->device->carried_in && birth <= findings->peak_event &&
            i - birth <= most)
            offer(list,
                  (candidate){.birth = birth, .death = i, .bytes = events[birth].bytes_taken});
    }
    plm__host_free(births);
    return PLM_OK;
}

static void peaks_without(const plm_findings *findings, candidate_list *list)
{
    int64_t count;
    const plm_event *events = plm_trace_events(findings->device->trace, &count);
    size_t live = 0;
    for (int64_t i = 0; i < count; i++) {
        if (events[i].kind == PLM_EVENT_BLOCK_ALLOC)
            live += events[i].bytes_taken;
        else if (events[i].kind == PLM_EVENT_BLOCK_FREE)
            live -= events[i].bytes_taken;
        else
            continue;
        for (int k = 0; k < list->count; k++) {
            candidate *item = &list->items[k];
            item->live = i >= item->birth && i < item->death ? live - item->bytes : live;
            if (item->live > item->peak)
                item->peak = item->live;
        }
    }
}

static int largest_fall_first(const void *left, const void *right)
{
    const plm_spike *a = left, *b = right;
    if (a->peak_without_bytes != b->peak_without_bytes)
        return a->peak_without_bytes < b->peak_without_bytes ? -1 : 1;
    return a->event < b->event ? -1 : a->event > b->event;
}

plm_status plm__find_spikes(plm_findings *findings)
{
    int64_t count;
    const plm_event *events = plm_trace_events(findings->device->trace, &count);
    candidate_list list = {.count = 0};
    if (findings->peak_event < 0)
        return PLM_OK;
    PLM_TRY(find_candidates(findings, &list));
    peaks_without(findings, &list);
    size_t peak = plm_trace_find_peak(findings->device->trace).bytes_taken;
    PLM_TRY(plm__host_alloc(CANDIDATES_MAX * sizeof *findings->spikes, &findings->spikes));
    for (int i = 0; i < list.count; i++) {
        const candidate *item = &list.items[i];
        if ((peak - item->peak) / PLM_SPIKE_PER_MILLE < peak / 1000)
            continue;
        bool is_timed = findings->device->history.timed;
        findings->spikes[findings->spike_count++] = (plm_spike){
            .event = item->birth,
            .place = findings->site_of_block[events[item->birth].block],
            .bytes = item->bytes,
            .peak_without_bytes = item->peak,
            .lived_ns = is_timed ? events[item->death].time - events[item->birth].time : 0};
    }
    qsort(findings->spikes, (size_t)findings->spike_count, sizeof *findings->spikes,
          largest_fall_first);
    return PLM_OK;
}
