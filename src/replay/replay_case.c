/* SPDX-License-Identifier: MIT */
/* Cases of a replay: which settings were in force, what a case is called, which is better. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "pool/bump.h"
#include "replay/replay.h"
#include "torch/alloc_conf.h"
#include "torch/snapshot.h"
#include "trace/trace.h"

static const char *const policy_texts[PLM_REPLAY_POLICY_COUNT] = {
    [PLM_REPLAY_CACHING] = "caching",
    [PLM_REPLAY_MAPPED] = "mapped",
    [PLM_REPLAY_BOUND] = "bound",
};

const char *plm_replay_policy_text(plm_replay_policy policy)
{
    return (unsigned)policy < PLM_REPLAY_POLICY_COUNT ? policy_texts[policy] : "unknown";
}

/* ---- the recorded settings ---- */

/*
 * The size of the segments that middling requests share is not among the recorded settings, and
 * shows when one is taken for such a request.
 */
static void infer_large_segment(const plm_snapshot_device *device, plm_pool_settings *settings)
{
    int64_t count;
    const plm_event *events = plm_trace_events(device->trace, &count);
    for (int64_t i = device->carried_in; i + 1 < count; i++) {
        const plm_event *segment = &events[i], *block = &events[i + 1];
        if (segment->kind != PLM_EVENT_SEGMENT_ALLOC || block->kind != PLM_EVENT_BLOCK_ALLOC ||
            block->bytes_asked >= PLM_POOL_MEDIUM_BYTES)
            continue;
        size_t rounded = plm__pool_round_bytes(settings, block->bytes_asked);
        if (rounded <= PLM_POOL_SMALL_BYTES || rounded >= PLM_POOL_MEDIUM_BYTES)
            continue;
        plm_pool_settings tried = *settings;
        tried.large_segment_bytes = segment->bytes_asked;
        if (plm__pool_settings_check(&tried) == PLM_OK)
            *settings = tried;
        return;
    }
}

plm_pool_settings plm__replay_recorded_settings(const plm_snapshot_device *device)
{
    const plm_snapshot_settings *recorded = device->settings;
    plm_pool_settings settings = plm__pool_settings_default();
    plm_pool_settings plain = settings;
    if (recorded->recorded) {
        /* A text of a newer version may be beyond us; what it set is there in numbers too. */
        (void)!plm__torch_settings_parse(recorded->text, &settings);
        settings.backend = PLM_POOL_BACKEND_NATIVE;
        settings.max_split_bytes = recorded->max_split_bytes;
        settings.garbage_threshold = recorded->garbage_collection_threshold;
        settings.expandable_segments = recorded->expandable_segments;
        settings.release_lock_on_malloc = recorded->release_lock_on_malloc;
        for (int i = 0; i < PLM_POOL_INTERVALS; i++)
            settings.divisions[i] = recorded->roundup_power2_divisions[i];
        if (plm__pool_settings_check(&settings) != PLM_OK)
            settings = plain;
    }
    infer_large_segment(device, &settings);
    return settings;
}

_Static_assert((int)PLM_POOL_INTERVALS == (int)PLM_SNAPSHOT_DIVISIONS, "the same table");

/* ---- one case ---- */

static plm_status name_case(const plm_replay_case *wanted, const plm_pool_settings *settings,
                            char name[PLM_REPLAY_NAME])
{
    if (wanted->policy != PLM_REPLAY_CACHING) {
        snprintf(name, PLM_REPLAY_NAME, "%s", policy_texts[wanted->policy]);
        return PLM_OK;
    }
    plm_text text = {0};
    plm__torch_settings_print(settings, &text);
    plm_status status = plm__text_status(&text);
    if (status == PLM_OK)
        snprintf(name, PLM_REPLAY_NAME, "%s%s", wanted->settings ? "" : "recorded settings: ",
                 text.count > 0 ? text.items : "defaults");
    plm__text_fini(&text);
    return status;
}

static plm_status run_bound(const plm_snapshot_device *device, plm_replay_result *result)
{
    size_t bytes;
    PLM_TRY(plm__pool_bump(device->trace, NULL, &bytes));
    *result = (plm_replay_result){.is_replayed = true,
                                  .policy = PLM_REPLAY_BOUND,
                                  .reserved_peak_bytes = bytes,
                                  .allocated_peak_bytes = bytes};
    return PLM_OK;
}

static plm_status run_case(const plm_replay_case *wanted, plm_replay_job *job,
                           plm_replay_result *result)
{
    if (wanted->policy == PLM_REPLAY_BOUND)
        return run_bound(job->device, result);
    job->policy = wanted->policy == PLM_REPLAY_MAPPED ? PLM_POOL_MAPPED : PLM_POOL_CACHING;
    job->as_recorded = wanted->policy == PLM_REPLAY_CACHING && !wanted->settings;
    job->settings = job->as_recorded ? plm__replay_recorded_settings(job->device)
                                     : plm__pool_settings_default();
    if (wanted->settings)
        PLM_TRY(plm__torch_settings_parse(wanted->settings, &job->settings));
    PLM_FAIL_IF(
        job->settings.backend != PLM_POOL_BACKEND_NATIVE, PLM_ERROR_UNSUPPORTED,
        "backend:cudaMallocAsync is the driver's own pool, whose rules are not known; wanted "
        "settings of backend:native");
    return plm__replay_job_run(job, result);
}

plm_status plm_replay_run(const plm_snapshot_device *device, const plm_replay_case *wanted,
                          plm_replay_result *result)
{
    PLM_FAIL_IF(!device->history.recorded, PLM_ERROR_UNSUPPORTED,
                "no history was recorded, so there is nothing to replay; call "
                "torch.cuda.memory._record_memory_history() before the run");
    plm_replay_job job = {.device = device,
                          .capacity_bytes = wanted->capacity_bytes,
                          .without_site = wanted->without_site};
    plm_replay_result found;
    PLM_TRY(run_case(wanted, &job, &found));
    found.policy = wanted->policy;
    PLM_TRY(name_case(wanted, &job.settings, found.name));
    *result = found;
    return PLM_OK;
}

/* ---- many cases ---- */

const char *const *plm_replay_useful_settings(void)
{
    static const char *const useful[] = {
        "",
        "expandable_segments:True",
        "max_split_size_mb:64",
        "max_split_size_mb:128",
        "max_split_size_mb:512",
        "roundup_power2_divisions:4",
        "roundup_power2_divisions:8",
        "expandable_segments:True,roundup_power2_divisions:8",
        NULL,
    };
    return useful;
}

static int rank_of(const plm_replay_result *result)
{
    if (result->as_recorded)
        return 0;
    return result->policy == PLM_REPLAY_BOUND ? 2 : 1;
}

static int better_first(const void *left, const void *right)
{
    const plm_replay_result *a = left, *b = right;
    if (rank_of(a) != rank_of(b))
        return rank_of(a) - rank_of(b);
    if (a->oom != b->oom)
        return a->oom < b->oom ? -1 : 1;
    if (a->reserved_peak_bytes != b->reserved_peak_bytes)
        return a->reserved_peak_bytes < b->reserved_peak_bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

void plm_replay_sort(plm_replay_result *results, int64_t count)
{
    if (count > 0)
        qsort(results, (size_t)count, sizeof *results, better_first);
}

/* ---- true bytes ---- */

static void write_taken(plm_trace *trace, const size_t *taken)
{
    int64_t count;
    plm_event *events = plm__trace_change_events(trace, &count);
    for (int64_t i = 0; i < count; i++)
        if (events[i].block >= 0 && taken[events[i].block] > 0)
            events[i].bytes_taken = taken[events[i].block];
}

plm_status plm_replay_fill_taken(plm_snapshot *snapshot, int64_t device, plm_replay_result *result)
{
    int64_t count;
    const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &count);
    PLM_FAIL_IF(device < 0 || device >= count, PLM_ERROR_ARGUMENT,
                "the snapshot has %lld devices, wanted number %lld", (long long)count,
                (long long)device);
    plm_replay_result replayed = {0};
    if (!devices[device].history.recorded) {
        *result = replayed;
        return PLM_OK;
    }
    plm_trace *trace = plm__snapshot_trace(snapshot, device);
    size_t *taken = NULL;
    PLM_TRY(plm__host_alloc((size_t)(plm__trace_block_count(trace) + 1) * sizeof *taken, &taken));
    plm_replay_case recorded = {.policy = PLM_REPLAY_CACHING};
    plm_replay_job job = {.device = &devices[device],
                          .as_recorded = true,
                          .settings = plm__replay_recorded_settings(&devices[device]),
                          .taken = taken};
    plm_status status = plm__replay_job_run(&job, &replayed);
    if (status == PLM_ERROR_ARGUMENT) { /* the history contradicts the state */
        *result = (plm_replay_result){0};
        status = PLM_OK;
        goto done;
    }
    PLM_TRY_DONE(status);
    PLM_TRY_DONE(name_case(&recorded, &job.settings, replayed.name));
    write_taken(trace, taken);
    *result = replayed;
done:
    plm__host_free(taken);
    return status;
}
