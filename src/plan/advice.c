/* SPDX-License-Identifier: MIT */
/* Advice: the chosen plan, then one plan for each choice made otherwise. */
#include "plimsoll/advice.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "plimsoll/device_profile.h"

void plm_advice_destroy(plm_advice *advice)
{
    plm_host_free(advice);
}

/* What is being advised. */
typedef struct request {
    const plm_job *job;
    const plm_strategy *open; /* with the choices that are open */
    plm_device *device;
    plm_advice *advice;
} request;

static plm_alternative *next_alternative(plm_advice *advice)
{
    PLM_BUG_IF(advice->alternative_count == PLM_ALTERNATIVES_MAX, "more alternatives than rows");
    return &advice->alternatives[advice->alternative_count];
}

static bool same_choices(const plm_strategy *a, const plm_strategy *b, int32_t blocks)
{
    for (int32_t i = 0; i <= blocks && i < PLM_BLOCKS_MAX; i++)
        if (plm_strategy_recompute(a, i) != plm_strategy_recompute(b, i))
            return false;
    return a->micro_batch == b->micro_batch && a->head_chunks == b->head_chunks &&
           a->attention == b->attention;
}

/* Plans a strategy for the request's job. What cannot be planned is no alternative. */
static plm_status add_other_job(const request *r, const char *what, const plm_strategy *strategy)
{
    plm_plan *plan = NULL;
    plm_status status = plm_plan_create(r->job, strategy, r->device, &plan);
    if (status == PLM_ERROR_ARGUMENT || status == PLM_ERROR_UNSUPPORTED ||
        status == PLM_ERROR_OVERFLOW)
        return PLM_OK;
    PLM_TRY(status);
    plm_alternative *other = next_alternative(r->advice);
    snprintf(other->what, sizeof other->what, "%s", what);
    other->plan = plm_plan_summarize(plan);
    other->fits = other->plan.peak_bytes <= r->advice->budget_bytes;
    r->advice->alternative_count++;
    plm_plan_destroy(plan);
    return PLM_OK;
}

/* The same of a strategy that differs from the chosen one. */
static plm_status add_other(const request *r, const char *what, const plm_strategy *strategy)
{
    if (same_choices(strategy, &r->advice->plan.strategy, strategy->recompute_count))
        return PLM_OK;
    return add_other_job(r, what, strategy);
}

static plm_status add_micro_batch(const request *r, int64_t micro_batch)
{
    char what[PLM_ALTERNATIVE_TEXT];
    plm_strategy strategy = r->advice->plan.strategy;
    if (r->open->micro_batch != 0 || micro_batch < 1 || micro_batch > r->job->batch)
        return PLM_OK;
    strategy.micro_batch = micro_batch;
    snprintf(what, sizeof what, "micro-batch %" PRId64, micro_batch);
    return add_other(r, what, &strategy);
}

/* The next divisors of the batch on both sides. */
static plm_status add_micro_batches(const request *r)
{
    int64_t batch = r->job->batch, here = r->advice->plan.strategy.micro_batch;
    int64_t above = here + 1, below = here - 1;
    while (above < batch && batch % above != 0)
        above++;
    while (below > 1 && batch % below != 0)
        below--;
    PLM_TRY(add_micro_batch(r, above));
    return add_micro_batch(r, below);
}

static plm_status add_rungs(const request *r)
{
    static const char *const rungs[] = {"none", "act", "norm", "mlp", "mlp+attention", "block"};
    if (!(r->open->recompute & PLM_RECOMPUTE_AUTO))
        return PLM_OK;
    for (size_t i = 0; i < sizeof rungs / sizeof *rungs; i++) {
        char what[PLM_ALTERNATIVE_TEXT];
        plm_strategy strategy = r->advice->plan.strategy;
        strategy.recompute_count = 0;
        PLM_TRY(plm_recompute_parse(rungs[i], &strategy.recompute));
        snprintf(what, sizeof what, i == 0 ? "no recompute" : "recompute %s in every block",
                 rungs[i]);
        PLM_TRY(add_other(r, what, &strategy));
    }
    return PLM_OK;
}

static plm_status add_chunks(const request *r)
{
    const int64_t here = r->advice->plan.strategy.head_chunks;
    const int64_t counts[] = {1, here * 2};
    for (int i = 0; i < 2 && r->open->head_chunks == 0; i++) {
        char what[PLM_ALTERNATIVE_TEXT];
        plm_strategy strategy = r->advice->plan.strategy;
        strategy.head_chunks = counts[i];
        if (counts[i] == 1)
            snprintf(what, sizeof what, "the head whole");
        else
            snprintf(what, sizeof what, "the head in %" PRId64 " chunks", counts[i]);
        PLM_TRY(add_other(r, what, &strategy));
    }
    return PLM_OK;
}

static plm_status add_attention(const request *r)
{
    plm_strategy strategy = r->advice->plan.strategy;
    bool fused = strategy.attention == PLM_ATTENTION_FUSED;
    strategy.attention = fused ? PLM_ATTENTION_PLAIN : PLM_ATTENTION_FUSED;
    return add_other(r, fused ? "plain attention" : "fused attention", &strategy);
}

/* ---- when nothing fits --------------------------------------------------------------------- */

/* The smallest plan of a changed job or strategy; kept when it is smaller than what there is. */
static plm_status add_treatment(const request *r, const char *what, const plm_job *job,
                                const plm_strategy *strategy)
{
    size_t smallest;
    plm_plan *plan = NULL;
    plm_status status = plm_plan_for_budget(job, strategy, r->device, SIZE_MAX, &smallest, &plan);
    plm_plan_destroy(plan);
    plan = NULL;
    PLM_TRY(status);
    if (smallest >= r->advice->smallest_budget_bytes)
        return PLM_OK;
    PLM_TRY(plm_plan_for_budget(job, strategy, r->device, smallest, NULL, &plan));
    plm_alternative *treatment = next_alternative(r->advice);
    snprintf(treatment->what, sizeof treatment->what, "%s", what);
    treatment->plan = plm_plan_summarize(plan);
    treatment->fits = smallest <= r->advice->budget_bytes;
    r->advice->alternative_count++;
    plm_plan_destroy(plan);
    return PLM_OK;
}

static plm_status add_openings(const request *r)
{
    plm_strategy strategy = *r->open;
    strategy.micro_batch = 0;
    PLM_TRY(add_treatment(r, "a micro-batch that the plan chooses", r->job, &strategy));
    strategy = *r->open;
    strategy.recompute = PLM_RECOMPUTE_AUTO;
    strategy.recompute_count = 0;
    PLM_TRY(add_treatment(r, "recompute that the plan chooses", r->job, &strategy));
    strategy = *r->open;
    strategy.head_chunks = 0;
    PLM_TRY(add_treatment(r, "head chunks that the plan chooses", r->job, &strategy));
    strategy = *r->open;
    strategy.attention = PLM_ATTENTION_FUSED;
    PLM_TRY(add_treatment(r, "fused attention", r->job, &strategy));
    strategy.micro_batch = strategy.head_chunks = 0;
    strategy.recompute = PLM_RECOMPUTE_AUTO;
    strategy.recompute_count = 0;
    return add_treatment(r, "all of these, as the plan chooses", r->job, &strategy);
}

static plm_status add_changes(const request *r)
{
    plm_job job = *r->job;
    job.sequence = (job.sequence + 1) / 2;
    PLM_TRY(add_treatment(r, "sequences half as long", &job, r->open));
    job = *r->job;
    job.optimizer = PLM_OPTIMIZER_SGD;
    return add_treatment(r, "sgd, which holds one moment less", &job, r->open);
}

/* ---- of a strategy as it stands ------------------------------------------------------------- */

/* An alternative that needs less than the strategy itself, or none. */
static plm_status add_cure(const request *r, const char *what, const plm_strategy *strategy)
{
    plm_advice *advice = r->advice;
    int before = advice->alternative_count;
    PLM_TRY(add_other(r, what, strategy));
    if (advice->alternative_count > before &&
        advice->alternatives[before].plan.peak_bytes >= advice->plan.peak_bytes)
        advice->alternative_count = before;
    return PLM_OK;
}

/* The largest micro-batch that divides this one. */
static plm_status add_smaller_micro_batch(const request *r)
{
    char what[PLM_ALTERNATIVE_TEXT];
    plm_strategy other = *r->open;
    int64_t ways = 2;
    while (ways < other.micro_batch && other.micro_batch % ways != 0)
        ways++;
    if (other.micro_batch == 1)
        return PLM_OK;
    other.micro_batch /= ways;
    snprintf(what, sizeof what, "micro-batch %" PRId64, other.micro_batch);
    return add_cure(r, what, &other);
}

static plm_status add_heavier_rungs(const request *r)
{
    static const char *const heavier[] = {"act", "mlp", "mlp+attention", "block"};
    for (size_t i = 0; i < sizeof heavier / sizeof *heavier; i++) {
        char what[PLM_ALTERNATIVE_TEXT];
        plm_strategy other = *r->open;
        other.recompute_count = 0;
        PLM_TRY(plm_recompute_parse(heavier[i], &other.recompute));
        snprintf(what, sizeof what, "recompute %s in every block", heavier[i]);
        PLM_TRY(add_cure(r, what, &other));
    }
    return PLM_OK;
}

static plm_status add_cures(const request *r)
{
    plm_strategy other = *r->open;
    plm_job job = *r->job;
    request changed = *r;
    PLM_TRY(add_smaller_micro_batch(r));
    PLM_TRY(add_heavier_rungs(r));
    other.head_chunks = other.head_chunks < 8 ? 8 : 4 * other.head_chunks;
    PLM_TRY(add_cure(r, "the head in more chunks", &other));
    other = *r->open;
    other.attention = PLM_ATTENTION_FUSED;
    PLM_TRY(add_cure(r, "fused attention", &other));
    if (job.optimizer == PLM_OPTIMIZER_SGD)
        return PLM_OK;
    job.optimizer = PLM_OPTIMIZER_SGD;
    changed.job = &job;
    return add_other_job(&changed, "sgd, which holds one moment less", r->open);
}

/* ---- in order ------------------------------------------------------------------------------ */

static int larger_first(const void *left, const void *right)
{
    const plm_alternative *a = left, *b = right;
    if (a->plan.peak_bytes != b->plan.peak_bytes)
        return a->plan.peak_bytes > b->plan.peak_bytes ? -1 : 1;
    return strcmp(a->what, b->what);
}

static int smaller_first(const void *left, const void *right)
{
    return larger_first(right, left);
}

static void tell_rates(const plm_device *device, plm_advice *advice)
{
    const plm_device_profile *profile = device->profile;
    advice->timed = profile != NULL;
    if (profile && profile->threads > 0)
        snprintf(advice->rates, sizeof advice->rates, "%.60s, %d thread%s", profile->name,
                 profile->threads, profile->threads == 1 ? "" : "s");
    else if (profile)
        snprintf(advice->rates, sizeof advice->rates, "%.60s", profile->name);
}

static plm_status tell_choice(const request *r, plm_search *search)
{
    plm_advice *advice = r->advice;
    plm_plan *plan = NULL;
    PLM_TRY(plm_search_smallest(search, &advice->smallest_budget_bytes));
    advice->fits = advice->smallest_budget_bytes <= advice->budget_bytes;
    PLM_TRY(plm_search_plan(
        search, advice->fits ? advice->budget_bytes : advice->smallest_budget_bytes, &plan));
    advice->plan = plm_plan_summarize(plan);
    advice->looked_at = plm_search_count(search);
    plm_plan_destroy(plan);
    return PLM_OK;
}

static plm_status tell_alternatives(const request *r)
{
    plm_advice *advice = r->advice;
    if (advice->fits) {
        PLM_TRY(add_micro_batches(r));
        PLM_TRY(add_rungs(r));
        PLM_TRY(add_chunks(r));
        PLM_TRY(add_attention(r));
    } else {
        PLM_TRY(add_openings(r));
        PLM_TRY(add_changes(r));
    }
    qsort(advice->alternatives, (size_t)advice->alternative_count, sizeof *advice->alternatives,
          advice->fits ? larger_first : smaller_first);
    return PLM_OK;
}

plm_status plm_advise(const plm_job *job, const plm_strategy *strategy, plm_device *device,
                      size_t budget_bytes, plm_advice **advice)
{
    plm_search *search = NULL;
    request r = {.job = job, .open = strategy, .device = device};
    plm_status status;
    PLM_TRY(plm_host_alloc(sizeof *r.advice, &r.advice));
    r.advice->budget_bytes = budget_bytes;
    tell_rates(device, r.advice);
    PLM_TRY_DONE(plm_search_create(job, strategy, device, &search));
    PLM_TRY_DONE(tell_choice(&r, search));
    PLM_TRY_DONE(tell_alternatives(&r));
    *advice = r.advice;
    r.advice = NULL;
done:
    plm_search_destroy(search);
    plm_advice_destroy(r.advice);
    return status;
}

plm_status plm_advise_treatments(const plm_job *job, const plm_strategy *strategy,
                                 plm_device *device, size_t budget_bytes, plm_advice **advice)
{
    request r = {.job = job, .open = strategy, .device = device};
    plm_plan *plan = NULL;
    plm_status status;
    PLM_TRY(plm_plan_create(job, strategy, device, &plan));
    PLM_TRY_DONE(plm_host_alloc(sizeof *r.advice, &r.advice));
    r.advice->budget_bytes = budget_bytes ? budget_bytes : SIZE_MAX;
    tell_rates(device, r.advice);
    r.advice->plan = plm_plan_summarize(plan);
    r.advice->smallest_budget_bytes = r.advice->plan.peak_bytes;
    r.advice->fits = r.advice->plan.peak_bytes <= r.advice->budget_bytes;
    PLM_TRY_DONE(add_cures(&r));
    qsort(r.advice->alternatives, (size_t)r.advice->alternative_count,
          sizeof *r.advice->alternatives, smaller_first);
    *advice = r.advice;
    r.advice = NULL;
done:
    plm_plan_destroy(plan);
    plm_advice_destroy(r.advice);
    return status;
}
