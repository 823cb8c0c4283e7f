/* SPDX-License-Identifier: MIT */
/* Advice: the chosen plan, then one plan for each choice made otherwise. */
#include "plimsoll/advice.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/search_internal.h"
#include "plan/search.h"
#include "plimsoll/device_profile.h"
#include "graph/strategy.h"

void plm_advice_destroy(plm_advice *advice)
{
    plm__host_free(advice);
}

/* What is being advised. */
typedef struct request {
    const plm_job *job;
    const plm_strategy *open; /* with the choices that are open */
    plm_device *device;
    plm_advice *advice;
} request;

static void add_plan(const request *r, const char *what, const plm_plan *plan)
{
    plm_advice *advice = r->advice;
    PLM_BUG_IF(advice->alternative_count == PLM_ALTERNATIVES_MAX, "more alternatives than rows");
    plm_alternative *other = &advice->alternatives[advice->alternative_count++];
    snprintf(other->what, sizeof other->what, "%s", what);
    other->plan = plm_plan_summarize(plan);
    other->fits = other->plan.peak_bytes <= advice->budget_bytes;
}

static bool same_choices(const plm_strategy *a, const plm_strategy *b, int32_t blocks)
{
    for (int32_t i = 0; i <= blocks && i < PLM_BLOCKS_MAX; i++)
        if (plm__strategy_recompute(a, i) != plm__strategy_recompute(b, i))
            return false;
    return a->micro_batch == b->micro_batch && a->head_chunks == b->head_chunks &&
           a->mlp_chunks == b->mlp_chunks && a->attention == b->attention &&
           a->gradient == b->gradient && a->update == b->update && a->precision == b->precision;
}

/* What cannot be planned is no alternative. */
static bool is_no_plan(plm_status status)
{
    return status == PLM_ERROR_ARGUMENT || status == PLM_ERROR_UNSUPPORTED ||
           status == PLM_ERROR_OVERFLOW;
}

/* Plans a strategy for the request's job. */
static plm_status add_other_job(const request *r, const char *what, const plm_strategy *strategy)
{
    plm_plan *plan = NULL;
    plm_status status = plm_plan_create(r->job, strategy, r->device, &plan);
    if (is_no_plan(status))
        return PLM_OK;
    PLM_TRY(status);
    add_plan(r, what, plan);
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
        PLM_TRY(plm__recompute_parse(rungs[i], &strategy.recompute));
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

static plm_status add_whole_mlp(const request *r)
{
    plm_strategy strategy = r->advice->plan.strategy;
    if (r->open->mlp_chunks != 0)
        return PLM_OK;
    strategy.mlp_chunks = 1;
    return add_other(r, "the MLPs whole", &strategy);
}

static plm_status add_attention(const request *r)
{
    plm_strategy strategy = r->advice->plan.strategy;
    bool fused = strategy.attention == PLM_ATTENTION_FUSED;
    strategy.attention = fused ? PLM_ATTENTION_PLAIN : PLM_ATTENTION_FUSED;
    return add_other(r, fused ? "plain attention" : "fused attention", &strategy);
}

/* Never chosen unasked, for it changes the arithmetic. */
static plm_status add_precision(const request *r)
{
    plm_strategy strategy = r->advice->plan.strategy;
    strategy.precision = plm_device_precision(r->device);
    if (r->open->precision != PLM_DTYPE_F32 || strategy.precision == PLM_DTYPE_F32)
        return PLM_OK;
    return add_other(r, "16 bits with fp32 masters", &strategy);
}

/* ---- when nothing fits --------------------------------------------------------------------- */

/* One more change, where a choice has another value than the job or strategy that was given. */
static void add_change(plm_alternative *other, bool differs, plm_hint choice, const char *value)
{
    if (!differs)
        return;
    PLM_BUG_IF(other->change_count == PLM_CHANGES_MAX, "more changes than choices");
    plm_change *change = &other->changes[other->change_count++];
    change->choice = choice;
    snprintf(change->value, sizeof change->value, "%s", value);
}

static void add_number(plm_alternative *other, int64_t before, plm_hint choice, int64_t now)
{
    char value[24];
    snprintf(value, sizeof value, "%" PRId64, now);
    add_change(other, now != before, choice, value);
}

/* Micro-batch and chunks are the plan's to choose where nothing names them. */
static void tell_changes(const request *r, const plm_job *job, const plm_strategy *strategy,
                         plm_alternative *other)
{
    const plm_strategy *before = r->open;
    add_change(other, job->optimizer != r->job->optimizer, PLM_HINT_OPTIMIZER,
               plm_optimizer_text(job->optimizer));
    add_change(other, strategy->attention != before->attention, PLM_HINT_ATTENTION,
               plm_attention_text(strategy->attention));
    add_change(other, strategy->recompute != before->recompute, PLM_HINT_RECOMPUTE, "auto");
    add_change(other, strategy->precision != before->precision, PLM_HINT_PRECISION,
               plm_dtype_text(strategy->precision));
    add_change(other, strategy->gradient != before->gradient, PLM_HINT_GRADIENT,
               plm_dtype_text(strategy->gradient));
    add_change(other, strategy->update != before->update, PLM_HINT_UPDATE, "early");
    add_number(other, r->job->batch, PLM_HINT_BATCH, job->batch);
    add_number(other, r->job->sequence, PLM_HINT_SEQUENCE, job->sequence);
}

/* The smallest plan of a changed job or strategy; kept when it is smaller than what there is. */
static plm_status add_treatment(const request *r, const char *what, const plm_job *job,
                                const plm_strategy *strategy)
{
    size_t smallest;
    plm_plan *plan = NULL;
    plm_search *search = NULL;
    plm_status status;
    PLM_TRY_DONE(plm__search_create(job, strategy, r->device, &search));
    PLM_TRY_DONE(plm__search_smallest(search, &smallest));
    if (smallest >= r->advice->smallest_budget_bytes)
        goto done;
    PLM_TRY_DONE(plm__search_plan(search, smallest, &plan));
    add_plan(r, what, plan);
    tell_changes(r, job, strategy, &r->advice->alternatives[r->advice->alternative_count - 1]);
done:
    plm_plan_destroy(plan);
    plm__search_destroy(search);
    return is_no_plan(status) ? PLM_OK : status;
}

/*
 * What may help where nothing fits, beyond what the strategy leaves open: one row each, a change of
 * the strategy, of the job, or of both. A row that does not apply returns false.
 */
typedef bool change(const request *r, plm_job *job, plm_strategy *strategy);

static bool open_micro_batch(const request *r, plm_job *job, plm_strategy *strategy)
{
    (void)r;
    (void)job;
    bool fixed = strategy->micro_batch != 0;
    strategy->micro_batch = 0;
    return fixed;
}

static bool open_recompute(const request *r, plm_job *job, plm_strategy *strategy)
{
    (void)r;
    (void)job;
    bool fixed = !(strategy->recompute & PLM_RECOMPUTE_AUTO);
    strategy->recompute = PLM_RECOMPUTE_AUTO;
    strategy->recompute_count = 0;
    return fixed;
}

static bool open_chunks(const request *r, plm_job *job, plm_strategy *strategy)
{
    (void)r;
    (void)job;
    bool fixed = strategy->head_chunks != 0 || strategy->mlp_chunks != 0;
    strategy->head_chunks = strategy->mlp_chunks = 0;
    return fixed;
}

static bool fuse_attention(const request *r, plm_job *job, plm_strategy *strategy)
{
    (void)r;
    (void)job;
    bool plain = strategy->attention == PLM_ATTENTION_PLAIN;
    strategy->attention = PLM_ATTENTION_FUSED;
    return plain;
}

/* Worth a row beside the others when two of them apply. */
static bool open_all(const request *r, plm_job *job, plm_strategy *strategy)
{
    int closed = open_micro_batch(r, job, strategy) + open_recompute(r, job, strategy) +
                 open_chunks(r, job, strategy) + fuse_attention(r, job, strategy);
    return closed > 1;
}

static bool halve_precision(const request *r, plm_job *job, plm_strategy *strategy)
{
    (void)job;
    bool whole = strategy->precision == PLM_DTYPE_F32;
    strategy->precision = plm_device_precision(r->device);
    return whole && strategy->precision != PLM_DTYPE_F32;
}

/* Sums need fp32: the batch is one micro-batch, head and MLP whole. */
static bool halve_gradients(const request *r, plm_job *job, plm_strategy *strategy)
{
    (void)r;
    bool whole = strategy->gradient == PLM_DTYPE_F32 && strategy->update == PLM_UPDATE_LATE &&
                 strategy->precision == PLM_DTYPE_BF16;
    strategy->gradient = PLM_DTYPE_BF16;
    strategy->micro_batch = job->batch;
    strategy->head_chunks = strategy->mlp_chunks = 1;
    return whole;
}

static bool update_early(const request *r, plm_job *job, plm_strategy *strategy)
{
    (void)r;
    bool late = strategy->update == PLM_UPDATE_LATE && strategy->precision != PLM_DTYPE_F16;
    strategy->gradient = PLM_DTYPE_F32;
    strategy->update = PLM_UPDATE_EARLY;
    strategy->micro_batch = job->batch;
    return late;
}

/* One sequence an update is another training: stated as such. */
static bool update_early_alone(const request *r, plm_job *job, plm_strategy *strategy)
{
    bool several = job->batch > 1;
    job->batch = 1;
    return update_early(r, job, strategy) && several;
}

static bool halve_gradients_alone(const request *r, plm_job *job, plm_strategy *strategy)
{
    bool several = job->batch > 1;
    job->batch = 1;
    return halve_gradients(r, job, strategy) && several;
}

/* What holds the batch whole cannot cut it into micro-batches. */
static bool take_one_sequence(const request *r, plm_job *job, plm_strategy *strategy)
{
    (void)r;
    bool whole = strategy->update == PLM_UPDATE_EARLY || strategy->gradient != PLM_DTYPE_F32;
    bool several = job->batch > 1;
    job->batch = 1;
    if (strategy->micro_batch != 0)
        strategy->micro_batch = 1;
    return whole && several;
}

static bool halve_sequence(const request *r, plm_job *job, plm_strategy *strategy)
{
    (void)r;
    (void)strategy;
    job->sequence = (job->sequence + 1) / 2;
    return true;
}

static bool take_sgd(const request *r, plm_job *job, plm_strategy *strategy)
{
    (void)r;
    (void)strategy;
    bool moments = job->optimizer != PLM_OPTIMIZER_SGD;
    job->optimizer = PLM_OPTIMIZER_SGD;
    return moments;
}

/* The least state that there is: for what no single change makes fit. */
static bool take_sgd_and_update_early(const request *r, plm_job *job, plm_strategy *strategy)
{
    bool moments = take_sgd(r, job, strategy);
    job->batch = 1;
    return update_early(r, job, strategy) && moments;
}

static const struct {
    const char *what;
    change *make;
} changes[] = {
    {"a micro-batch that the plan chooses", open_micro_batch},
    {"recompute that the plan chooses", open_recompute},
    {"chunks of head and MLP that the plan chooses", open_chunks},
    {"fused attention", fuse_attention},
    {"all of these, as the plan chooses", open_all},
    {"16 bits with fp32 masters", halve_precision},
    {"gradients in bf16", halve_gradients},
    {"gradients in bf16, a batch of 1", halve_gradients_alone},
    {"each parameter updated early, no clipping", update_early},
    {"updated early, no clipping, a batch of 1", update_early_alone},
    {"a batch of 1", take_one_sequence},
    {"sequences half as long", halve_sequence},
    {"sgd, which holds one moment less", take_sgd},
    {"sgd, updated early, a batch of 1", take_sgd_and_update_early},
};

enum { CHANGE_COUNT = sizeof changes / sizeof *changes };

_Static_assert((int)CHANGE_COUNT <= (int)PLM_ALTERNATIVES_MAX, "a row for each treatment");

static plm_status add_changes(const request *r)
{
    for (int i = 0; i < CHANGE_COUNT; i++) {
        plm_job job = *r->job;
        plm_strategy strategy = *r->open;
        if (changes[i].make(r, &job, &strategy))
            PLM_TRY(add_treatment(r, changes[i].what, &job, &strategy));
    }
    return PLM_OK;
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
        PLM_TRY(plm__recompute_parse(heavier[i], &other.recompute));
        snprintf(what, sizeof what, "recompute %s in every block", heavier[i]);
        PLM_TRY(add_cure(r, what, &other));
    }
    return PLM_OK;
}

/* Of a strategy whose window is whole already; elsewhere these cannot be planned. */
static plm_status add_lighter_state(const request *r)
{
    plm_job job = *r->job;
    plm_strategy other = *r->open;
    if (halve_precision(r, &job, &other))
        PLM_TRY(add_cure(r, "16 bits with fp32 masters", &other));
    other = *r->open;
    if (r->open->micro_batch != job.batch)
        return PLM_OK;
    if (halve_gradients(r, &job, &other))
        PLM_TRY(add_cure(r, "gradients in bf16", &other));
    other = *r->open;
    return update_early(r, &job, &other)
               ? add_cure(r, "each parameter updated early, no clipping", &other)
               : PLM_OK;
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
    other.mlp_chunks = other.mlp_chunks < 4 ? 4 : 4 * other.mlp_chunks;
    PLM_TRY(add_cure(r, "the MLPs in more chunks", &other));
    other = *r->open;
    other.attention = PLM_ATTENTION_FUSED;
    PLM_TRY(add_cure(r, "fused attention", &other));
    PLM_TRY(add_lighter_state(r));
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
    PLM_TRY(plm__search_smallest(search, &advice->smallest_budget_bytes));
    advice->fits = advice->smallest_budget_bytes <= advice->budget_bytes;
    PLM_TRY(plm__search_plan(
        search, advice->fits ? advice->budget_bytes : advice->smallest_budget_bytes, &plan));
    advice->plan = plm_plan_summarize(plan);
    advice->looked_at = plm__search_count(search);
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
        PLM_TRY(add_whole_mlp(r));
        PLM_TRY(add_attention(r));
        PLM_TRY(add_precision(r));
    } else {
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
    plm_strategy open = *strategy; /* but for the precision, which is not searched */
    request r = {.job = job, .open = &open, .device = device};
    plm_status status;
    plm__search_settle_precision(device, &open);
    PLM_TRY(plm__host_alloc(sizeof *r.advice, &r.advice));
    r.advice->budget_bytes = budget_bytes;
    tell_rates(device, r.advice);
    PLM_TRY_DONE(plm__search_create(job, &open, device, &search));
    PLM_TRY_DONE(tell_choice(&r, search));
    PLM_TRY_DONE(tell_alternatives(&r));
    *advice = r.advice;
    r.advice = NULL;
done:
    plm__search_destroy(search);
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
    PLM_TRY_DONE(plm__host_alloc(sizeof *r.advice, &r.advice));
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
