/* SPDX-License-Identifier: MIT */
/*
 * Leaks: sites that hold more from step to step. What each site holds is noted behind some of the
 * steps, evenly chosen; the steps since it began to grow are cut into quarters, and it leaks when
 * it grows in each of them, in none by less than a quarter of what it grows in another. A plateau,
 * a warm-up or one big allocation does not pass.
 */
#include <stdlib.h>

#include "base/array.h"
#include "diagnose/views.h"

enum {
    SAMPLES_MAX = 64,    /* steps that are looked at */
    GROUPS_MAX = 1 << 16 /* sites that are looked at: those that hold most at the peak */
};

typedef struct leak_samples {
    int64_t count;
    int64_t steps[SAMPLES_MAX];
    int64_t sites;
    size_t *bytes; /* sample after sample, `sites` each */
} leak_samples;

static void choose_steps(const plm_findings *findings, leak_samples *samples)
{
    int64_t steps = findings->step_count;
    samples->count = steps < SAMPLES_MAX ? steps : SAMPLES_MAX;
    for (int64_t i = 0; i < samples->count; i++)
        samples->steps[i] = samples->count > 1 ? i * (steps - 1) / (samples->count - 1) : steps - 1;
}

/* One pass: what each site holds behind each chosen step. */
static plm_status take_samples(const plm_findings *findings, leak_samples *samples)
{
    int64_t count, next = 0;
    const plm_event *events = plm_trace_events(findings->device->trace, &count);
    samples->sites = findings->site_count < GROUPS_MAX ? findings->site_count : GROUPS_MAX;
    PLM_TRY(plm__host_alloc((size_t)(samples->sites * (samples->count + 1)) * sizeof(size_t),
                            &samples->bytes));
    size_t *now = samples->bytes + samples->sites * samples->count;
    for (int64_t i = 0; i < count && next < samples->count; i++) {
        bool is_birth = events[i].kind == PLM_EVENT_BLOCK_ALLOC;
        if (is_birth || events[i].kind == PLM_EVENT_BLOCK_FREE) {
            int32_t site = findings->site_of_block[events[i].block];
            if (site < samples->sites)
                now[site] += is_birth ? events[i].bytes_taken : 0 - events[i].bytes_taken;
        }
        if (i != findings->steps[samples->steps[next]])
            continue;
        for (int64_t site = 0; site < samples->sites; site++)
            samples->bytes[next * samples->sites + site] = now[site];
        next++;
    }
    return PLM_OK;
}

static size_t bytes_at(const leak_samples *samples, int64_t site, int64_t sample)
{
    return samples->bytes[sample * samples->sites + site];
}

/* The last sample before the site began to grow. */
static int64_t find_beginning(const leak_samples *samples, int64_t site)
{
    size_t first = bytes_at(samples, site, 0);
    int64_t since = 0;
    while (since + 1 < samples->count && bytes_at(samples, site, since + 1) <= first)
        since++;
    return since;
}

static bool grows_steadily(const leak_samples *samples, int64_t site, int64_t since)
{
    int64_t length = samples->count - 1 - since, least = INT64_MAX, most = 0;
    for (int64_t quarter = 0; quarter < 4; quarter++) {
        int64_t from = since + quarter * length / 4, to = since + (quarter + 1) * length / 4;
        int64_t grown =
            (int64_t)bytes_at(samples, site, to) - (int64_t)bytes_at(samples, site, from);
        least = grown < least ? grown : least;
        most = grown > most ? grown : most;
    }
    return least > 0 && least * 4 >= most;
}

static int fastest_first(const void *left, const void *right)
{
    const plm_leak *a = left, *b = right;
    if (a->bytes_a_step != b->bytes_a_step)
        return a->bytes_a_step < b->bytes_a_step ? 1 : -1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static bool is_leak(const plm_findings *findings, const leak_samples *samples, int64_t site,
                    plm_leak *leak)
{
    int64_t events, since = find_beginning(samples, site);
    int64_t first = samples->steps[since], last = samples->steps[samples->count - 1];
    size_t begun = bytes_at(samples, site, since);
    size_t end = bytes_at(samples, site, samples->count - 1);
    if (last - first < PLM_LEAK_STEPS_MIN || end <= begun ||
        (end - begun) / PLM_LEAK_PER_MILLE < findings->replayed.allocated_peak_bytes / 1000 ||
        !grows_steadily(samples, site, since))
        return false;
    const plm_event *list = plm_trace_events(findings->device->trace, &events);
    *leak = (plm_leak){.place = site,
                       .bytes_a_step = (end - begun) / (size_t)(last - first),
                       .grown_bytes = end - begun,
                       .since_step = first,
                       .since_time = list[findings->steps[first]].time,
                       .steps = last - first};
    return true;
}

plm_status plm__find_leaks(plm_findings *findings)
{
    leak_samples samples = {0};
    PLM_ARRAY(plm_leak) leaks = {0};
    plm_status status = PLM_OK;
    if (findings->step_count < PLM_LEAK_STEPS_MIN)
        return PLM_OK;
    choose_steps(findings, &samples);
    PLM_TRY_DONE(take_samples(findings, &samples));
    for (int64_t site = 0; site < samples.sites; site++) {
        plm_leak leak;
        if (is_leak(findings, &samples, site, &leak))
            PLM_TRY_DONE(PLM_ARRAY_PUSH(&leaks, leak));
    }
    PLM_ARRAY_SORT(&leaks, fastest_first);
    findings->leaks = leaks.items;
    findings->leak_count = leaks.count;
    leaks.items = NULL;
done:
    plm__host_free(leaks.items);
    plm__host_free(samples.bytes);
    return status;
}
