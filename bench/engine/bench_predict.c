/* SPDX-License-Identifier: MIT */
/*
 * Predicted step times beside measured ones: the device is calibrated, then twenty strategies over
 * four models are planned, which predicts their step, and run: the fastest of several whole updates
 * counts, with one thread by processor time. They should agree within 20 %. Wants an idle machine.
 *
 *     bench_predict [THREADS]        (1)
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/host.h"
#include "plimsoll/calibrate.h"
#include "plimsoll/model.h"
#include "plimsoll/session.h"
#include "kit.h"

enum { UPDATES_MIN = 3, UPDATES_MAX = 12 };

static const double calibration_seconds = 12.0;
static const int64_t case_budget_ns = 2000000000; /* once UPDATES_MIN updates are done */

#define GPT  "gpt:layers=4,width=512,heads=8,context=256,vocab=4096"
#define DEEP "gpt:layers=10,width=256,heads=4,context=256,vocab=512,dropout=0.1"
#define LONG "gpt:layers=3,width=512,heads=8,context=1024,vocab=1024"
#define BERT "bert:layers=4,width=512,heads=8,context=256,vocab=2048"

static const struct {
    const char *model;
    int64_t batch;
    const char *strategy;
} cases[] = {
    {GPT, 4, "{\"micro_batch\": 4}"},
    {GPT, 4, "{\"micro_batch\": 1}"},
    {GPT, 4, "{\"micro_batch\": 4, \"recompute\": \"act\"}"},
    {GPT, 4, "{\"micro_batch\": 4, \"recompute\": \"mlp\"}"},
    {GPT, 4, "{\"micro_batch\": 4, \"recompute\": \"block\"}"},
    {GPT, 4, "{\"micro_batch\": 4, \"head_chunks\": 8}"},
    {GPT, 4, "{\"micro_batch\": 2, \"attention\": \"plain\"}"},
    {GPT, 4, "{\"micro_batch\": 4, \"precision\": \"bf16\"}"},
    {GPT, 4, "{\"micro_batch\": 4, \"precision\": \"bf16\", \"recompute\": \"block\"}"},
    {GPT, 4, "{\"micro_batch\": 4, \"precision\": \"bf16\", \"gradient\": \"bf16\"}"},
    {GPT, 4, "{\"micro_batch\": 4, \"precision\": \"fp16\"}"},
    {GPT, 4, "{\"micro_batch\": 4, \"update\": \"early\"}"},
    {DEEP, 8, "{\"micro_batch\": 4}"},
    {DEEP, 8, "{\"micro_batch\": 8, \"recompute\": \"norm\"}"},
    {DEEP, 8, "{\"micro_batch\": 2, \"precision\": \"bf16\"}"},
    {LONG, 2, "{\"micro_batch\": 2}"},
    {LONG, 2, "{\"micro_batch\": 1, \"attention\": \"plain\", \"recompute\": \"attention\"}"},
    {LONG, 2, "{\"micro_batch\": 2, \"precision\": \"bf16\", \"head_chunks\": 4}"},
    {BERT, 4, "{\"micro_batch\": 4}"},
    {BERT, 4, "{\"micro_batch\": 2, \"recompute\": \"block\"}"},
};

enum { CASES = sizeof cases / sizeof *cases };

/* The fastest update in seconds; *above = how far the median is above it. The first one touches
 * everything and is not counted. */
static double measure(const plm_plan *plan, plm_device *device, int threads, double *above)
{
    plm_plan_summary s = plm_plan_summarize(plan);
    size_t count = (size_t)(s.batch * s.sequence);
    int32_t *ids = NULL;
    plm_session *session = NULL;
    plm_hyper hyper = plm_hyper_default();
    plm_step_result result;
    double seconds[UPDATES_MAX];
    int updates = 0;
    if (s.strategy.update == PLM_UPDATE_EARLY)
        hyper.clip_norm = 0;
    check(plm__host_alloc(count * sizeof *ids, &ids));
    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)(i * 2654435761u % 509);
    check(plm_session_create(plan, device, 1, &session));
    check(plm_session_step(session, 0, &hyper, s.batch, ids, ids, &result));
    for (int64_t began_ns = plm__clock_ns();
         updates < UPDATES_MIN ||
         (updates < UPDATES_MAX && plm__clock_ns() - began_ns < case_budget_ns);
         updates++) {
        double began = seconds_now(threads);
        check(plm_session_step(session, updates + 1, &hyper, s.batch, ids, ids, &result));
        seconds[updates] = seconds_now(threads) - began;
    }
    plm_session_destroy(session);
    plm__host_free(ids);
    qsort(seconds, (size_t)updates, sizeof *seconds, ascending);
    *above = seconds[updates / 2] / seconds[0] - 1;
    return seconds[0];
}

/* Plans and runs a case; returns how far the prediction is off, as a share of what was measured. */
static double run_case(int i, plm_device *device, int threads)
{
    plm_model model;
    plm_strategy strategy;
    plm_plan *plan = NULL;
    double above;
    check(plm_model_parse(cases[i].model, &model));
    check(plm_strategy_read("strategy", cases[i].strategy, strlen(cases[i].strategy), &strategy));
    plm_job job = {.network = plm_model_network(&model),
                   .batch = cases[i].batch,
                   .sequence = model.context,
                   .trains = true};
    check(plm_plan_create(&job, &strategy, device, &plan));
    double predicted = plm_plan_summarize(plan).step_seconds;
    double measured = measure(plan, device, threads, &above), off = predicted / measured - 1;
    plm_plan_destroy(plan);
    printf("%-18.18s %5lld  %-62.62s %8.1f %8.1f %+6.1f %%  +%.1f %%\n", cases[i].model,
           (long long)cases[i].batch, cases[i].strategy, predicted * 1e3, measured * 1e3, off * 100,
           above * 100);
    fflush(stdout);
    return off;
}

int main(int argc, char **argv)
{
    plm_device *device = NULL;
    plm_device_profile profile;
    double low = 0, high = 0;
    const int threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
    check(plm_device_open("cpu", threads, 0, &device));
    check(plm_calibrate(device, calibration_seconds, &profile));
    plm_device_use_profile(device, &profile);
    printf("%-18s %5s  %-62s %8s %8s %8s  %s\n", "model", "batch", "strategy", "predicted",
           "measured", "off", "median");
    for (int i = 0; i < CASES; i++) {
        double off = run_case(i, device, threads);
        low = fmin(low, off);
        high = fmax(high, off);
    }
    printf("%d strategies, milliseconds an update: predictions from %.1f %% to %+.1f %%\n", CASES,
           low * 100, high * 100);
    plm_device_destroy(device);
    return 0;
}
