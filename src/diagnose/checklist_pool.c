/* SPDX-License-Identifier: MIT */
/*
 * Does the allocator suit the access pattern? Measured: what was reserved at its peak beside what
 * blocks needed at theirs. Where a tenth or more went unused, the history is replayed under the
 * settings that help most often, and the best one is told with what it would have reserved.
 */
#include <stdio.h>

#include "plimsoll/size.h"
#include "base/number.h"
#include "diagnose/checklist_internal.h"

enum {
    UNUSED_PART = 10,               /* of the reserved peak: less suits */
    UNUSED_LEAST = 40 * 1024 * 1024 /* two segments are no pattern */
};

bool plm__is_waste(size_t reserved_bytes, size_t needed_bytes)
{
    size_t unused = reserved_bytes > needed_bytes ? reserved_bytes - needed_bytes : 0;
    return unused >= reserved_bytes / UNUSED_PART && unused >= UNUSED_LEAST;
}

static const char *const tried[] = {"expandable_segments:True", "roundup_power2_divisions:8",
                                    "expandable_segments:True,roundup_power2_divisions:8"};

typedef struct pattern {
    int64_t requests; /* above the small pool's sizes */
    int64_t sizes;
    int streams;
} pattern;

/* How the large requests vary. */
static plm_status find_pattern(const plm_facts *facts, pattern *found)
{
    plm_sizes sizes;
    uint64_t streams = 0;
    PLM_TRY(plm__sizes_init(&sizes));
    plm_status status = PLM_OK;
    for (int64_t i = facts->findings->device->carried_in;
         i < facts->event_count && status == PLM_OK; i++) {
        int64_t *count;
        if (!plm__is_recorded(facts, i))
            continue;
        streams |= (uint64_t)1 << (facts->events[i].queue % 64);
        if (facts->events[i].bytes_asked <= (size_t)1 << 20)
            continue;
        found->requests++;
        status = plm__sizes_find(&sizes, facts->events[i].bytes_asked, &count);
    }
    found->sizes = sizes.counts.count;
    for (; streams; streams &= streams - 1)
        found->streams++;
    plm__sizes_fini(&sizes);
    return status;
}

/* The best of the recorded settings and those tried, by failed requests, then by peak. */
static plm_status find_better(const plm_findings *findings, plm_replay_result *best)
{
    *best = findings->replayed;
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        plm_replay_case wanted = {.settings = tried[i], .capacity_bytes = findings->capacity_bytes};
        plm_replay_result result;
        plm_status status = plm_replay_run(findings->device, &wanted, &result);
        if (status == PLM_ERROR_HOST_MEMORY)
            return status;
        if (status == PLM_OK && result.oom <= best->oom &&
            result.reserved_peak_bytes < best->reserved_peak_bytes)
            *best = result;
    }
    return PLM_OK;
}

static plm_status answer_no(const plm_facts *facts, plm_checklist_item *check)
{
    const plm_findings *findings = facts->findings;
    char now[PLM_SIZE_TEXT], then[PLM_SIZE_TEXT];
    plm_replay_result best;
    size_t recorded = findings->replayed.reserved_peak_bytes;
    PLM_TRY(find_better(findings, &best));
    check->answer = PLM_ANSWER_NO;
    if (best.reserved_peak_bytes >= recorded) {
        snprintf(check->action, sizeof check->action,
                 "none of three settings that often help reserves less; a sweep of plimsoll "
                 "replay tries all");
        return PLM_OK;
    }
    check->gain_bytes = recorded - best.reserved_peak_bytes;
    plm__checklist_add_figure(check, "reserved peak then", NULL, 0, best.reserved_peak_bytes);
    snprintf(check->action, sizeof check->action,
             "PYTORCH_ALLOC_CONF=%s: this history, replayed, then reserves %s instead of %s",
             best.name, plm_size_format(best.reserved_peak_bytes, then),
             plm_size_format(recorded, now));
    return PLM_OK;
}

/* A request that failed because what was free lay in pieces. */
static const plm_failure *find_fragmented(const plm_findings *findings)
{
    for (int64_t i = 0; i < findings->failure_count; i++)
        if (findings->failures[i].verdict == PLM_VERDICT_FRAGMENTATION)
            return &findings->failures[i];
    return NULL;
}

static void answer_failed(const plm_failure *failure, plm_checklist_item *check)
{
    char asked[PLM_SIZE_TEXT], cached[PLM_SIZE_TEXT], largest[PLM_SIZE_TEXT];
    check->answer = PLM_ANSWER_NO;
    snprintf(check->reason, sizeof check->reason,
             "a request of %s failed while %s were cached, in pieces of %s at most",
             plm_size_format(failure->asked_bytes, asked),
             plm_size_format(failure->then.cached_bytes, cached),
             plm_size_format(failure->then.largest_free_bytes, largest));
    snprintf(check->action, sizeof check->action, "%s", failure->remedy);
}

plm_status plm__answer_allocator(const plm_facts *facts, plm_checklist_item *check)
{
    const plm_findings *findings = facts->findings;
    char reserved[PLM_SIZE_TEXT], used[PLM_SIZE_TEXT];
    pattern found = {.requests = 0};
    if (!findings->replayed.is_replayed) {
        snprintf(check->reason, sizeof check->reason,
                 "the history cannot be replayed, so what was reserved at the peak is not known");
        snprintf(check->basis, sizeof check->basis, "the state and the history disagree");
        return PLM_OK;
    }
    size_t peak = findings->replayed.reserved_peak_bytes;
    PLM_TRY(find_pattern(facts, &found));
    plm__print(check->reason, sizeof check->reason,
               "%s were reserved at the peak where blocks needed %s, %.2f times as much; %lld "
               "requests above 1 MiB came in %lld size%s, on %d stream%s",
               plm_size_format(peak, reserved), plm_size_format(facts->peak_bytes, used),
               facts->peak_bytes ? (double)peak / (double)facts->peak_bytes : 0.0,
               (long long)found.requests, (long long)found.sizes, found.sizes == 1 ? "" : "s",
               found.streams, found.streams == 1 ? "" : "s");
    snprintf(check->basis, sizeof check->basis,
             "a replay by PyTorch's rules, which reproduced %lld of %lld recorded addresses%s",
             (long long)findings->replayed.addresses_reproduced,
             (long long)findings->replayed.addresses_total,
             findings->device->history.complete ? "" : "; peaks are since recording began");
    plm__checklist_add_figure(check, "reserved peak", NULL, 0, peak);
    plm__checklist_add_figure(check, "needed by blocks", NULL, 0, facts->peak_bytes);
    const plm_failure *failure = find_fragmented(findings);
    if (failure) {
        answer_failed(failure, check);
        return PLM_OK;
    }
    check->answer = PLM_ANSWER_YES;
    if (plm__is_waste(peak, facts->peak_bytes))
        return answer_no(facts, check);
    return PLM_OK;
}
