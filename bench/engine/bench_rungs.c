/* SPDX-License-Identifier: MIT */
/*
 * What each choice of a strategy buys and costs: peak and time of a training step under it, against
 * the plain step (fused attention, nothing recomputed, the head whole), in the same run.
 *
 *     bench_rungs [THREADS [WORD]]
 *
 * In every round each strategy takes one update, right behind one of the plain step, so that what
 * else the machine does meets both. The ratio is best over best; beside it stand the median and the
 * extremes of the rounds' own ratios. With one thread, which is the default, time is processor
 * time. WORD keeps the strategies whose name contains it. The limits are those that recompute is
 * held to: activation functions 1.05, whole blocks 1.35.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "plimsoll/device.h"
#include "plimsoll/model.h"
#include "plimsoll/session.h"
#include "plimsoll/size.h"
#include "kit.h"

enum { ROUNDS = 5, BATCH = 4, SEQUENCE = 256 };

static const char model_text[] = "gpt:layers=6,width=384,heads=6,context=256,vocab=4096";

/* One row a strategy, as the JSON of a strategy file; the first is the plain one. */
typedef struct rung {
    const char *name;
    const char *strategy;
    double limit; /* largest ratio of time that is promised; 0: none */
} rung;

static const rung rungs[] = {
    {"plain step", "{}", 0},
    {"recompute act", "{\"recompute\": \"act\"}", 1.05},
    {"recompute norm", "{\"recompute\": \"norm\"}", 0},
    {"recompute mlp", "{\"recompute\": \"mlp\"}", 0},
    {"recompute attention", "{\"recompute\": \"attention\"}", 0},
    {"recompute mlp+attention", "{\"recompute\": \"mlp+attention\"}", 0},
    {"recompute block", "{\"recompute\": \"block\"}", 1.35},
    {"head in 8 chunks", "{\"head_chunks\": 8}", 0},
    {"micro-batch of 1", "{\"micro_batch\": 1}", 0},
    {"plain attention", "{\"attention\": \"plain\"}", 0},
    {"plain attention, recomputed", "{\"attention\": \"plain\", \"recompute\": \"attention\"}", 0},
    {"recompute mlp, in 4 chunks", "{\"recompute\": \"mlp\", \"mlp_chunks\": 4}", 0},
    {"update early", "{\"update\": \"early\"}", 0},
    {"bf16", "{\"precision\": \"bf16\"}", 0},
    {"bf16, recompute block", "{\"precision\": \"bf16\", \"recompute\": \"block\"}", 0},
    {"bf16, bf16 gradients", "{\"precision\": \"bf16\", \"gradient\": \"bf16\"}", 0},
    {"fp16", "{\"precision\": \"fp16\"}", 0},
};

typedef struct bench {
    plm_device *device;
    plm_model model;
    int threads;
    int32_t ids[2 * BATCH * SEQUENCE];
} bench;

/* A strategy that is ready to step. */
typedef struct runner {
    plm_plan *plan;
    plm_session *session;
    int64_t step;
    bool clips; /* which an early update cannot */
} runner;

static double time_step(bench *b, runner *r)
{
    plm_hyper hyper = plm_hyper_default();
    plm_step_result result;
    hyper.clip_norm = r->clips ? hyper.clip_norm : 0;
    double begin = seconds_now(b->threads);
    check(plm_session_step(r->session, r->step++, &hyper, BATCH, b->ids, b->ids + BATCH * SEQUENCE,
                           &result));
    return seconds_now(b->threads) - begin;
}

/* Plans it and takes one update, which touches all memory once. */
static void start(bench *b, const rung *row, runner *r)
{
    plm_job job = {.network = plm_model_network(&b->model),
                   .batch = BATCH,
                   .sequence = SEQUENCE,
                   .trains = true};
    plm_strategy strategy;
    check(plm_strategy_read(row->name, row->strategy, strlen(row->strategy), &strategy));
    if (strategy.micro_batch == 0)
        strategy.micro_batch = BATCH;
    if (strategy.head_chunks == 0)
        strategy.head_chunks = 1;
    *r = (runner){.clips = strategy.update == PLM_UPDATE_LATE};
    check(plm_plan_create(&job, &strategy, b->device, &r->plan));
    check(plm_session_create(r->plan, b->device, 1, &r->session));
    time_step(b, r);
}

static void stop(runner *r)
{
    plm_session_destroy(r->session);
    plm_plan_destroy(r->plan);
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static void print_row(const rung *row, const runner *plain, const runner *r, double best,
                      double best_plain, double ratios[ROUNDS])
{
    char peak[PLM_SIZE_TEXT], text[32] = "";
    plm_plan_summary of = plm_plan_summarize(r->plan), against = plm_plan_summarize(plain->plan);
    qsort(ratios, ROUNDS, sizeof *ratios, ascending);
    if (row->limit > 0)
        snprintf(text, sizeof text, "  limit %.2f%s", row->limit,
                 best / best_plain <= row->limit ? "" : ": MISSED");
    printf("%-28s %10s %6.2f %6.2f %9.1f ms %6.3f  (%.3f, %.3f to %.3f)%s\n", row->name,
           plm_size_format(of.peak_bytes, peak), (double)of.peak_bytes / (double)against.peak_bytes,
           (double)of.transient_bytes / (double)against.transient_bytes, best * 1e3,
           best / best_plain, ratios[ROUNDS / 2], ratios[0], ratios[ROUNDS - 1], text);
}

static void run_rung(bench *b, const rung *row, runner *plain)
{
    runner r;
    double best = 1e30, best_plain = 1e30, ratios[ROUNDS];
    start(b, row, &r);
    for (int i = 0; i < ROUNDS; i++) {
        double before = time_step(b, plain), taken = time_step(b, &r);
        best = smaller(best, taken);
        best_plain = smaller(best_plain, before);
        ratios[i] = taken / before;
    }
    print_row(row, plain, &r, best, best_plain, ratios);
    stop(&r);
}

int main(int count, char **arguments)
{
    static bench b;
    runner plain;
    const char *word = count > 2 ? arguments[2] : "";
    b.threads = count > 1 && atoi(arguments[1]) > 0 ? atoi(arguments[1]) : 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    check(plm_model_parse(model_text, &b.model));
    check(plm_device_open("cpu", b.threads, 0, &b.device));
    for (int i = 0; i < 2 * BATCH * SEQUENCE; i++)
        b.ids[i] = (int32_t)(i * 7919LL % b.model.vocab);
    start(&b, &rungs[0], &plain);
    printf("%s, batch %d x %d, %d thread%s, best of %d\n", model_text, BATCH, SEQUENCE, b.threads,
           b.threads == 1 ? "" : "s", ROUNDS);
    printf("%-28s %10s %6s %6s %12s %6s  (median, extremes)\n", "", "peak", "ratio", "acts", "step",
           "ratio");
    for (size_t i = 0; i < sizeof rungs / sizeof *rungs; i++)
        if (strstr(rungs[i].name, word))
            run_rung(&b, &rungs[i], &plain);
    stop(&plain);
    plm_device_destroy(b.device);
    return 0;
}
