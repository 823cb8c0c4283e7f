/* SPDX-License-Identifier: MIT */
/*
 * Calibration: small models are trained and profiled, and what their operations took is turned into
 * rates. The best product gives the product rate, the best mover of memory the bandwidth, the
 * quickest operation the launch; each operation's efficiency is what it would take at those rates
 * over what it took, and that is stretched to what a whole step took.
 */
#include "plimsoll/calibrate.h"

#include <stdio.h>

#include "base/host.h"
#include "graph/op_cost.h"
#include "model/family.h"
#include "plan/step_cost.h"
#include "plan/plan.h"
#include "plimsoll/profile.h"
#include "run/profile.h"

enum { BATCH = 4, MICRO_BATCH = 2, STEPS_MIN = 2 };

#define MOVER_BYTES_MIN 1e6 /* less may come from a cache near a core */

/* What is run: each family in each precision, every other one with the form of attention and the
 * optimizer of `others`. */
static const plm_dtype precisions[] = {PLM_DTYPE_F32, PLM_DTYPE_BF16, PLM_DTYPE_F16};
static const struct {
    plm_attention_form attention;
    plm_optimizer optimizer;
} others[] = {{PLM_ATTENTION_FUSED, PLM_OPTIMIZER_ADAMW}, {PLM_ATTENTION_PLAIN, PLM_OPTIMIZER_SGD}};

#define COUNT_FAMILY(name) +1
enum { FAMILY_COUNT = 0 PLM_FAMILIES(COUNT_FAMILY), RUN_COUNT = 3 * FAMILY_COUNT };

#define SECONDS_FOR_LARGE 1.0 /* with no more, the smaller models are run */

/* One of the runs, from plan to profile. */
typedef struct trial {
    plm_model model;
    plm_plan *plan;
    plm_profile *profile;
} trial;

static void trial_end(trial *t)
{
    plm_profile_destroy(t->profile);
    plm_plan_destroy(t->plan);
}

static plm_status trial_run(trial *t, int run, plm_device *device, double seconds)
{
    const bool is_small = !(seconds * RUN_COUNT > SECONDS_FOR_LARGE);
    const int family = run % FAMILY_COUNT;
    PLM_TRY(plm_model_parse(plm__families[family]->trials[is_small], &t->model));
    plm_job job = {.network = plm_model_network(&t->model),
                   .batch = BATCH,
                   .sequence = t->model.context,
                   .trains = true,
                   .optimizer = others[family % 2].optimizer};
    plm_strategy strategy = plm_strategy_default();
    strategy.micro_batch = MICRO_BATCH;
    strategy.attention = others[family % 2].attention;
    strategy.precision = precisions[run / FAMILY_COUNT];
    PLM_TRY(plm_plan_create(&job, &strategy, device, &t->plan));
    PLM_TRY(plm_profile_create(t->plan, device, &t->profile));
    return plm_profile_run(t->profile, device, STEPS_MIN, seconds);
}

/* Raises the profile's rates to the best that the trial saw. */
static void take_rates(const trial *t, plm_device_profile *profile)
{
    int64_t count;
    const plm_profile_row *rows = plm_profile_rows(t->profile, &count);
    for (int64_t i = 0; i < count; i++) {
        if (rows[i].timed == 0 || rows[i].best_ns <= 0)
            continue;
        double seconds = (double)rows[i].best_ns * 1e-9;
        plm_work work = plm__op_work(t->plan->graph, &t->plan->graph->ops.items[i]);
        if (work.is_products && work.flops / seconds > profile->product_flops[work.dtype])
            profile->product_flops[work.dtype] = work.flops / seconds;
        if (!work.is_products && work.bytes >= MOVER_BYTES_MIN &&
            work.bytes / seconds > profile->bandwidth)
            profile->bandwidth = work.bytes / seconds;
        if (profile->launch_seconds == 0 || seconds < profile->launch_seconds)
            profile->launch_seconds = seconds;
    }
}

/* What each kind would take and took in each type, over all trials. */
typedef struct shares {
    double ideal[PLM_DTYPE_COUNT][PLM_OP_COUNT], taken[PLM_DTYPE_COUNT][PLM_OP_COUNT];
} shares;

static void take_shares(const trial *t, const plm_device_profile *profile, shares *sums)
{
    int64_t count;
    const plm_profile_row *rows = plm_profile_rows(t->profile, &count);
    const double slack = plm__profile_slack(t->profile);
    for (int64_t i = 0; i < count; i++) {
        const plm_op *op = &t->plan->graph->ops.items[i];
        if (rows[i].timed == 0)
            continue;
        double taken = slack * (double)rows[i].best_ns * 1e-9 - profile->launch_seconds;
        plm_dtype dtype = plm__op_work(t->plan->graph, op).dtype;
        sums->ideal[dtype][op->kind] += plm__op_ideal_seconds(profile, t->plan->graph, op);
        sums->taken[dtype][op->kind] += taken > 0 ? taken : 0;
    }
}

static plm_status measure(trial trials[RUN_COUNT], plm_device *device, double seconds,
                          plm_device_profile *profile)
{
    shares sums = {0};
    for (int i = 0; i < RUN_COUNT; i++) {
        PLM_TRY(trial_run(&trials[i], i, device, seconds / RUN_COUNT));
        take_rates(&trials[i], profile);
    }
    for (int i = 0; i < RUN_COUNT; i++)
        take_shares(&trials[i], profile, &sums);
    for (int dtype = 0; dtype < PLM_DTYPE_COUNT; dtype++) {
        double *efficiency = dtype == PLM_DTYPE_BF16 || dtype == PLM_DTYPE_F16
                                 ? profile->efficiency_of[dtype]
                                 : profile->efficiency;
        for (int kind = 0; kind < PLM_OP_COUNT; kind++)
            if (sums.ideal[dtype][kind] > 0 && sums.taken[dtype][kind] > 0)
                efficiency[kind] = sums.ideal[dtype][kind] / sums.taken[dtype][kind];
    }
    return PLM_OK;
}

plm_status plm_calibrate(plm_device *device, double seconds, plm_device_profile *profile)
{
    PLM_FAIL_IF(!(seconds > 0), PLM_ERROR_ARGUMENT, "wanted some seconds to calibrate in, found %g",
                seconds);
    trial trials[RUN_COUNT] = {0};
    plm_device_profile made = {.threads = device->threads,
                               .overhead_bytes = device->table->overhead_bytes(device)};
    snprintf(made.name, sizeof made.name, "%s", device->table->kind);
    snprintf(made.source, sizeof made.source,
             "measured on this machine: the fastest runs of a small GPT's and a small BERT's "
             "training steps");
    plm_status status = measure(trials, device, seconds, &made);
    for (int i = 0; i < RUN_COUNT; i++)
        trial_end(&trials[i]);
    if (status == PLM_OK)
        *profile = made;
    return status;
}
