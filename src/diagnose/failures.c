/* SPDX-License-Identifier: MIT */
/*
 * Failures: what was there when a request found no memory, what that proves, and what would have
 * helped, measured by replay.
 *
 * What the process could have is known from both sides: it had its reserved peak; and it did not
 * get the segment that was refused. When the driver still had that much, a limit of the process
 * refused it. The request and everything active are the need. Then:
 *   larger than the device     the request alone exceeds it
 *   fragmentation              as much as the need was active before, so it fits; or the need
 *                              leaves at least a twentieth of the limit free
 *   capacity                   the need exceeds the limit or fills it
 *   other process, limit       the device could hold the need, others or a limit take the rest
 */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "plimsoll/size.h"
#include "torch/alloc_conf.h"
#include "diagnose/views.h"

#define CONTEXT_BYTES                                                                              \
    ((size_t)1 << 30) /* what a process holds outside of the allocator, at most                    \
                       */

enum { SPARE_PART = 20 }; /* a limit filled to more than all but this part is full */

/* ---- the moment ---- */

typedef struct failure_work {
    plm_findings *findings;
    const plm_event *events;
    int64_t event_count;
    int64_t *births;
    size_t *site_bytes; /* scratch, by site */
    PLM_ARRAY(plm_failure) list;
} failure_work;

/* The site that holds most. */
static void find_top(failure_work *work, const plm_replay_moment *moment, plm_failure *failure)
{
    const plm_findings *findings = work->findings;
    memset(work->site_bytes, 0, (size_t)findings->site_count * sizeof *work->site_bytes);
    for (int64_t i = 0; i < moment->block_count; i++)
        if (moment->addresses[i] != 0)
            work->site_bytes[findings->site_of_block[i]] +=
                work->events[work->births[i] - 1].bytes_taken;
    failure->top_place = -1;
    for (int64_t site = 0; site < findings->site_count; site++)
        if (work->site_bytes[site] > failure->top_bytes) {
            failure->top_bytes = work->site_bytes[site];
            failure->top_place = site;
        }
    for (int64_t i = 0; i < moment->block_count; i++)
        failure->top_blocks +=
            moment->addresses[i] != 0 && findings->site_of_block[i] == failure->top_place;
}

static plm_status note_failure(void *context, const plm_replay_moment *moment)
{
    failure_work *work = context;
    if (work->list.count >= PLM_FAILURES_MAX)
        return PLM_OK;
    int64_t count;
    const plm_owner *owners = plm_trace_owners(work->findings->device->trace, &count);
    const plm_event *event = &work->events[moment->event];
    plm_pool_settings settings = plm__replay_recorded_settings(work->findings->device);
    plm_failure failure = {.event = moment->event,
                           .time = event->time,
                           .site = event->owner != PLM_TRACE_NO_OWNER ? owners[event->owner].op : 0,
                           .asked_bytes = event->bytes_asked,
                           .segment_bytes = plm__pool_segment_bytes(&settings, event->bytes_asked),
                           .device_free_bytes = event->bytes_taken};
    find_top(work, moment, &failure);
    PLM_TRY(PLM_ARRAY_RESERVE(&work->list, work->list.count + 1));
    PLM_TRY(plm__fragments_of_pool(moment, work->births, &failure.then));
    work->list.items[work->list.count++] = failure;
    return PLM_OK;
}

static void forget_failures(void *context)
{
    failure_work *work = context;
    while (work->list.count > 0)
        plm__host_free(work->list.items[--work->list.count].then.pins);
}

/* ---- the verdict ---- */

/* The most that was active at one time before an event. */
static size_t active_before(const failure_work *work, int64_t event)
{
    size_t live = 0, most = 0;
    for (int64_t i = 0; i < event; i++) {
        if (work->events[i].kind == PLM_EVENT_BLOCK_ALLOC)
            live += work->events[i].bytes_taken;
        else if (work->events[i].kind == PLM_EVENT_BLOCK_FREE)
            live -= work->events[i].bytes_taken;
        most = live > most ? live : most;
    }
    return most;
}

static void find_limits(const plm_findings *findings, plm_failure *failure)
{
    size_t reserved = failure->then.reserved_bytes, capacity = findings->capacity_bytes;
    failure->limited = failure->device_free_bytes >= failure->segment_bytes;
    if (!failure->limited) {
        failure->limit_least_bytes = failure->limit_most_bytes =
            reserved + failure->device_free_bytes;
        return;
    }
    failure->limit_least_bytes = findings->replayed.reserved_peak_bytes;
    failure->limit_most_bytes = reserved + failure->segment_bytes - 1;
    if (failure->limit_most_bytes < failure->limit_least_bytes) /* it moved meanwhile */
        failure->limit_least_bytes = reserved;
    if (capacity >= failure->limit_least_bytes && capacity <= failure->limit_most_bytes)
        failure->limit_least_bytes = failure->limit_most_bytes = capacity;
}

static size_t need_of(const plm_failure *failure)
{
    return failure->then.active_bytes + failure->asked_bytes;
}

static plm_verdict judge_need(const plm_findings *findings, plm_failure *failure)
{
    size_t need = need_of(failure), limit = failure->limit_least_bytes;
    size_t capacity = findings->capacity_bytes;
    if (need <= limit && limit - need >= limit / SPARE_PART)
        return PLM_VERDICT_FRAGMENTATION;
    if (capacity == 0) {
        failure->wants_capacity = true;
        return PLM_VERDICT_CAPACITY;
    }
    if (need + CONTEXT_BYTES > capacity)
        return PLM_VERDICT_CAPACITY;
    if (failure->limited)
        return capacity > failure->limit_most_bytes ? PLM_VERDICT_LIMIT : PLM_VERDICT_CAPACITY;
    size_t ours = failure->then.reserved_bytes + failure->device_free_bytes + CONTEXT_BYTES;
    return capacity > ours ? PLM_VERDICT_OTHER_PROCESS : PLM_VERDICT_CAPACITY;
}

static void judge(const failure_work *work, plm_failure *failure)
{
    const plm_findings *findings = work->findings;
    size_t all = failure->then.reserved_bytes + failure->device_free_bytes;
    find_limits(findings, failure);
    if (findings->capacity_bytes ? failure->asked_bytes > findings->capacity_bytes
                                 : failure->asked_bytes > all) {
        failure->wants_capacity = findings->capacity_bytes == 0;
        failure->verdict = PLM_VERDICT_TOO_LARGE;
    } else if (need_of(failure) <= active_before(work, failure->event)) {
        failure->verdict = PLM_VERDICT_FRAGMENTATION;
    } else {
        failure->verdict = judge_need(findings, failure);
    }
}

/* ---- words ---- */

/* "10.76 GiB in use and 1.00 GiB asked for make 11.76 GiB", and what follows from that. */
static void give_reason(const failure_work *work, plm_failure *failure)
{
    char need[PLM_SIZE_TEXT], active[PLM_SIZE_TEXT], asked[PLM_SIZE_TEXT], limit[PLM_SIZE_TEXT],
        other[PLM_SIZE_TEXT], free[PLM_SIZE_TEXT];
    size_t had = active_before(work, failure->event), size = sizeof failure->reason;
    size_t capacity = work->findings->capacity_bytes;
    char *text = failure->reason;
    plm_size_format(need_of(failure), need);
    plm_size_format(failure->then.active_bytes, active);
    plm_size_format(failure->asked_bytes, asked);
    plm_size_format(failure->limit_least_bytes, limit);
    plm_size_format(failure->device_free_bytes, free);
#define MAKE "%s in use and %s asked for make %s"
    switch (failure->verdict) {
    case PLM_VERDICT_FRAGMENTATION:
        snprintf(text, size,
                 MAKE ", and %s %s: so much fits, but the %s that are free lie in pieces", active,
                 asked, need,
                 need_of(failure) <= had ? "the peak of what was in use before is"
                                         : "the process can have",
                 plm_size_format(need_of(failure) <= had ? had : failure->limit_least_bytes, other),
                 plm_size_format(failure->then.cached_bytes, free));
        break;
    case PLM_VERDICT_CAPACITY:
        snprintf(text, size,
                 need_of(failure) > failure->limit_least_bytes
                     ? MAKE "; the process had %s and got no more"
                     : MAKE ", which leaves less than a twentieth of the %s that the process had",
                 active, asked, need, limit);
        break;
    case PLM_VERDICT_LIMIT:
        snprintf(text, size,
                 MAKE "; a limit between %s and %s was set, while the driver still had %s", active,
                 asked, need, limit, plm_size_format(failure->limit_most_bytes, other), free);
        break;
    case PLM_VERDICT_OTHER_PROCESS:
        plm_size_format(capacity - failure->then.reserved_bytes - failure->device_free_bytes,
                        other);
        snprintf(text, size,
                 MAKE ", which the device could hold; %s of the device are held outside of this "
                      "allocator",
                 active, asked, need, other);
        break;
    case PLM_VERDICT_TOO_LARGE:
        plm_size_format(
            capacity ? capacity : failure->then.reserved_bytes + failure->device_free_bytes, limit);
        snprintf(text, size, "one request asked for %s; %s %s", asked,
                 capacity ? "the device has" : "this process and the free memory together have",
                 limit);
        break;
    default:
        break;
    }
#undef MAKE
}

/* ---- the remedy ---- */

/* The recorded settings as text, to be freed with plm__text_fini. */
static plm_status recorded_text(const plm_findings *findings, plm_text *text)
{
    plm_pool_settings settings = plm__replay_recorded_settings(findings->device);
    plm__torch_settings_print(&settings, text);
    plm__text_add(text, "%s", "");
    return plm__text_status(text);
}

/* The best of PyTorch's settings under which nothing fails; *best is left alone when none does. */
static plm_status best_settings(const plm_findings *findings, size_t limit, plm_replay_result *best,
                                bool *found)
{
    for (const char *const *settings = plm_replay_useful_settings(); *settings; settings++) {
        plm_replay_result result;
        plm_replay_case wanted = {.settings = *settings, .capacity_bytes = limit};
        PLM_TRY(plm_replay_run(findings->device, &wanted, &result));
        if (result.oom > 0 || (*found && result.reserved_peak_bytes >= best->reserved_peak_bytes))
            continue;
        *best = result;
        *found = true;
    }
    return PLM_OK;
}

/*
 * Against fragmentation: another setting, when it serves every request under the same limit and the
 * recorded settings, started as empty, do not; else a pool whose pages move.
 */
static plm_status remedy_fragmentation(const plm_findings *findings, plm_failure *failure)
{
    char peak[PLM_SIZE_TEXT], limit[PLM_SIZE_TEXT];
    size_t bytes = failure->limit_least_bytes;
    plm_text recorded = {0};
    plm_replay_result same, best;
    bool found = false;
    plm_status status;
    PLM_TRY_DONE(recorded_text(findings, &recorded));
    plm_replay_case wanted = {.settings = recorded.items, .capacity_bytes = bytes};
    PLM_TRY_DONE(plm_replay_run(findings->device, &wanted, &same));
    plm_size_format(bytes, limit);
    if (same.oom > 0)
        PLM_TRY_DONE(best_settings(findings, bytes, &best, &found));
    if (found) {
        snprintf(failure->remedy, sizeof failure->remedy,
                 "%s: replayed within %s, no request fails; reserved memory peaks at %s", best.name,
                 limit, plm_size_format(best.reserved_peak_bytes, peak));
        goto done;
    }
    wanted = (plm_replay_case){.policy = PLM_REPLAY_MAPPED, .capacity_bytes = bytes};
    PLM_TRY_DONE(plm_replay_run(findings->device, &wanted, &best));
    if (best.oom == 0)
        snprintf(
            failure->remedy, sizeof failure->remedy,
            "%s; pages that move (the policy mapped) serve it within %s, reserved memory peaks "
            "at %s",
            same.oom > 0 ? "none of PyTorch's settings that were replayed serves it"
                         : "free the blocks that pin the segments, or allocate them first",
            limit, plm_size_format(best.reserved_peak_bytes, peak));
done:
    plm__text_fini(&recorded);
    return status;
}

/* Against a lack of capacity: what the peak would be without the site that holds most. */
static plm_status remedy_capacity(const plm_findings *findings, plm_failure *failure)
{
    char with[PLM_SIZE_TEXT], without[PLM_SIZE_TEXT], held[PLM_SIZE_TEXT];
    plm_text recorded = {0};
    plm_replay_result all, less;
    plm_status status;
    uint32_t site = failure->top_place >= 0 ? findings->sites[failure->top_place].site : 0;
    if (site == 0)
        return PLM_OK;
    PLM_TRY_DONE(recorded_text(findings, &recorded));
    plm_replay_case wanted = {.settings = recorded.items};
    PLM_TRY_DONE(plm_replay_run(findings->device, &wanted, &all));
    wanted.without_site = site;
    PLM_TRY_DONE(plm_replay_run(findings->device, &wanted, &less));
    snprintf(failure->remedy, sizeof failure->remedy,
             "keep less of %s (%s in %lld blocks): replayed without it, this much of the run "
             "reserves %s instead of %s",
             plm_trace_text(findings->device->trace, site),
             plm_size_format(failure->top_bytes, held), (long long)failure->top_blocks,
             plm_size_format(less.reserved_peak_bytes, without),
             plm_size_format(all.reserved_peak_bytes, with));
done:
    plm__text_fini(&recorded);
    return status;
}

static plm_status find_remedy(const plm_findings *findings, plm_failure *failure)
{
    char text[PLM_SIZE_TEXT];
    switch (failure->verdict) {
    case PLM_VERDICT_FRAGMENTATION:
        return remedy_fragmentation(findings, failure);
    case PLM_VERDICT_CAPACITY:
        return remedy_capacity(findings, failure);
    case PLM_VERDICT_LIMIT:
        snprintf(failure->remedy, sizeof failure->remedy,
                 "a limit of at least %s for this request: set_per_process_memory_fraction or "
                 "per_process_memory_fraction",
                 plm_size_format(need_of(failure), text));
        return PLM_OK;
    case PLM_VERDICT_OTHER_PROCESS:
        snprintf(failure->remedy, sizeof failure->remedy,
                 "see with nvidia-smi which processes share the device, and end or move them");
        return PLM_OK;
    case PLM_VERDICT_TOO_LARGE:
        snprintf(failure->remedy, sizeof failure->remedy,
                 "look at the shapes at that line: this is rarely meant");
        return PLM_OK;
    default:
        return PLM_OK;
    }
}

/* ---- all ---- */

static plm_status judge_all(failure_work *work)
{
    bool has_remedy[PLM_VERDICT_COUNT] = {false};
    for (int64_t i = 0; i < work->list.count; i++) {
        plm_failure *failure = &work->list.items[i];
        judge(work, failure);
        give_reason(work, failure);
        if (!has_remedy[failure->verdict]) /* the replay is of the whole trace */
            PLM_TRY(find_remedy(work->findings, failure));
        has_remedy[failure->verdict] = true;
    }
    return PLM_OK;
}

plm_status plm__find_failures(plm_findings *findings)
{
    failure_work work = {.findings = findings};
    plm_status status;
    if (findings->device->oom_events == 0)
        return PLM_OK;
    work.events = plm_trace_events(findings->device->trace, &work.event_count);
    PLM_TRY_DONE(plm__find_births(findings, &work.births));
    PLM_TRY_DONE(plm__host_alloc(((size_t)findings->site_count + 1) * sizeof *work.site_bytes,
                                 &work.site_bytes));
    plm_replay_job job = {.device = findings->device,
                          .as_recorded = true,
                          .settings = plm__replay_recorded_settings(findings->device),
                          .failed = note_failure,
                          .restarts = forget_failures,
                          .context = &work};
    plm_replay_result ignored;
    PLM_TRY_DONE(plm__replay_job_run(&job, &ignored));
    PLM_TRY_DONE(judge_all(&work));
done:
    findings->failures = work.list.items; /* owned by the findings, also when not whole */
    findings->failure_count = work.list.count;
    plm__host_free(work.site_bytes);
    plm__host_free(work.births);
    return status;
}
