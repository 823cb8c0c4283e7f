/* SPDX-License-Identifier: MIT */
/*
 * Calibration: small models are trained and profiled, and what their operations took is turned into
 * rates. The best product gives the product rate, the best mover of memory the bandwidth, the
 * quickest operation the launch; each operation's efficiency is what it would take at those rates
 * over what it took, and that is stretched to what a whole step took.
 *
 * On a GPU the quickest operation is mostly the host that waits for it, which a step that runs as a
 * graph does not. That wait is taken off every operation, and what the step took beyond their sum
 * is the launches'. Worked example: 100 operations of 18 us each, the quickest 8 us, and a step of
 * 1.1 ms: 100 x (18 - 8) us = 1 ms, so a launch takes 0.1 ms / 100 = 1 us.
 */
#include "plimsoll/calibrate.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/host.h"
#include "device/device.h"
#include "graph/op_cost.h"
#include "model/family.h"
#include "plan/step_cost.h"
#include "plan/plan.h"
#include "plimsoll/profile.h"
#include "run/profile.h"

enum { STEPS_MIN = 2 };

/* How trials of a kind of device are made. */
typedef struct trial_size {
    size_t model; /* offset of plm_family.trials' description */
    int64_t batch, micro_batch;
    double mover_bytes; /* what moves less may find it in a cache */
} trial_size;

static const trial_size sizes_cpu = {offsetof(plm_family, trials.cpu), 4, 2, 1e6};
static const trial_size sizes_quick = {offsetof(plm_family, trials.quick), 4, 2, 1e6};
static const trial_size sizes_gpu = {offsetof(plm_family, trials.gpu), 32, 16, 2.5e8};

/* What is run: each family in each precision, every other one with the form of attention and the
 * optimizer of `others`. */
static const plm_dtype precisions[] = {PLM_DTYPE_F32, PLM_DTYPE_BF16, PLM_DTYPE_F16};
static const struct {
    plm_attention_form attention;
    plm_optimizer optimizer;
} others[] = {{PLM_ATTENTION_FUSED, PLM_OPTIMIZER_ADAMW}, {PLM_ATTENTION_PLAIN, PLM_OPTIMIZER_SGD}};

#define COUNT_FAMILY(name) +1
enum { FAMILY_COUNT = 0 PLM_FAMILIES(COUNT_FAMILY), RUN_COUNT = 3 * FAMILY_COUNT };

#define LAUNCH_SECONDS_MIN 1e-7 /* none is for nothing */
#define SECONDS_FOR_LARGE  1.0  /* with no more, a CPU runs the quick models */

/* A GPU is known by its name: a CPU has none. */
static bool is_gpu(const plm_device *device)
{
    return device->name[0] != '\0';
}

static const trial_size *size_of(const plm_device *device, double seconds)
{
    if (is_gpu(device))
        return &sizes_gpu;
    return seconds > SECONDS_FOR_LARGE ? &sizes_cpu : &sizes_quick;
}

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

static plm_status trial_run(trial *t, int run, plm_device *device, const trial_size *size,
                            double seconds)
{
    const int family = run % FAMILY_COUNT;
    const char *text;
    memcpy(&text, (const char *)plm__families[family] + size->model, sizeof text);
    PLM_TRY(plm_model_parse(text, &t->model));
    plm_job job = {.network = plm_model_network(&t->model),
                   .batch = size->batch,
                   .sequence = t->model.context,
                   .trains = true,
                   .optimizer = others[family % 2].optimizer};
    plm_strategy strategy = plm_strategy_default();
    strategy.micro_batch = size->micro_batch;
    strategy.attention = others[family % 2].attention;
    strategy.precision = precisions[run / FAMILY_COUNT];
    PLM_TRY(plm_plan_create(&job, &strategy, device, &t->plan));
    PLM_TRY(plm_profile_create(t->plan, device, &t->profile));
    return plm_profile_run(t->profile, device, STEPS_MIN, seconds);
}

/* Raises the profile's rates to the best that the trial saw. */
static void take_rates(const trial *t, double mover_bytes, plm_device_profile *profile)
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
        if (!work.is_products && work.bytes >= mover_bytes &&
            work.bytes / seconds > profile->bandwidth)
            profile->bandwidth = work.bytes / seconds;
        if (profile->launch_seconds == 0 || seconds < profile->launch_seconds)
            profile->launch_seconds = seconds;
    }
}

/* What a step of the trial took beyond its operations, each without `wait` seconds: for one of
 * them.
 */
static double launch_of(const trial *t, double wait)
{
    int64_t count, launches = 0;
    const plm_profile_row *rows = plm_profile_rows(t->profile, &count);
    double rest = plm__profile_plain_seconds(t->profile);
    for (int64_t i = 0; i < count; i++) {
        launches += rows[i].runs;
        rest -= (double)rows[i].runs * ((double)rows[i].best_ns * 1e-9 - wait);
    }
    return launches > 0 && rest > 0 ? rest / (double)launches : 0;
}

/* The least of all trials: what else a step has in it is no launch. It is a small difference of
 * large numbers, so where a profile that travels with the library has the GPU's, that is taken. */
static double launch_seconds(const trial trials[RUN_COUNT], const plm_device *device, double wait)
{
    plm_device_profile known;
    double least = wait;
    if (plm_device_profile_known(device, &known))
        return known.launch_seconds;
    for (int i = 0; i < RUN_COUNT; i++)
        least = fmin(least, launch_of(&trials[i], wait));
    return fmax(least, LAUNCH_SECONDS_MIN);
}

/* What each kind would take and took in each type, over all trials. */
typedef struct shares {
    double ideal[PLM_DTYPE_COUNT][PLM_OP_COUNT], taken[PLM_DTYPE_COUNT][PLM_OP_COUNT];
} shares;

/* `wait`: seconds of each operation that are not its own. */
static void take_shares(const trial *t, const plm_device_profile *profile, double wait,
                        shares *sums)
{
    int64_t count;
    const plm_profile_row *rows = plm_profile_rows(t->profile, &count);
    const double plain = plm__profile_plain_seconds(t->profile);
    const double slack = plain > 0 ? 1 : plm__profile_slack(t->profile);
    for (int64_t i = 0; i < count; i++) {
        const plm_op *op = &t->plan->graph->ops.items[i];
        if (rows[i].timed == 0)
            continue;
        double taken = slack * (double)rows[i].best_ns * 1e-9 - wait;
        plm_dtype dtype = plm__op_work(t->plan->graph, op).dtype;
        sums->ideal[dtype][op->kind] += plm__op_ideal_seconds(profile, t->plan->graph, op);
        sums->taken[dtype][op->kind] += taken > 0 ? taken : 0;
    }
}

static void take_efficiencies(const shares *sums, plm_device_profile *profile)
{
    for (int dtype = 0; dtype < PLM_DTYPE_COUNT; dtype++) {
        double *efficiency = dtype == PLM_DTYPE_BF16 || dtype == PLM_DTYPE_F16
                                 ? profile->efficiency_of[dtype]
                                 : profile->efficiency;
        for (int kind = 0; kind < PLM_OP_COUNT; kind++)
            if (sums->ideal[dtype][kind] > 0 && sums->taken[dtype][kind] > 0)
                efficiency[kind] = sums->ideal[dtype][kind] / sums->taken[dtype][kind];
    }
}

static plm_status measure(trial trials[RUN_COUNT], plm_device *device, double seconds,
                          plm_device_profile *profile)
{
    const trial_size *size = size_of(device, seconds);
    shares sums = {0};
    for (int i = 0; i < RUN_COUNT; i++) {
        PLM_TRY(trial_run(&trials[i], i, device, size, seconds / RUN_COUNT));
        take_rates(&trials[i], size->mover_bytes, profile);
    }
    const double wait = profile->launch_seconds;
    for (int i = 0; i < RUN_COUNT; i++)
        take_shares(&trials[i], profile, wait, &sums);
    if (is_gpu(device))
        profile->launch_seconds = launch_seconds(trials, device, wait);
    take_efficiencies(&sums, profile);
    return PLM_OK;
}

/* What is not measured: of a GPU that is known by name, its memory and what stands under "gpu". */
static plm_device_profile begin(plm_device *device)
{
    plm_device_profile known, made = {.threads = is_gpu(device) ? 0 : device->threads};
    snprintf(made.name, sizeof made.name, "%s",
             is_gpu(device) ? device->name : device->table->kind);
    made.kind = is_gpu(device) ? PLM_DEVICE_CUDA : PLM_DEVICE_CPU;
    if (plm_device_profile_known(device, &known)) {
        memcpy(made.name, known.name, sizeof made.name);
        made.memory_bytes = known.memory_bytes;
        made.gpu = known.gpu;
    }
    made.overhead_bytes = device->table->overhead_bytes(device);
    snprintf(made.source, sizeof made.source,
             "measured on this machine: the fastest runs of a small GPT's and a small BERT's "
             "training steps");
    return made;
}

plm_status plm_calibrate(plm_device *device, double seconds, plm_device_profile *profile)
{
    PLM_FAIL_IF(!(seconds > 0), PLM_ERROR_ARGUMENT, "wanted some seconds to calibrate in, found %g",
                seconds);
    trial trials[RUN_COUNT] = {0};
    plm_device_profile made = begin(device);
    plm_status status = measure(trials, device, seconds, &made);
    for (int i = 0; i < RUN_COUNT; i++)
        trial_end(&trials[i]);
    if (status == PLM_OK)
        *profile = made;
    return status;
}
