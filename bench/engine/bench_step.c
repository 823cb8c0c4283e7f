/* SPDX-License-Identifier: MIT */
/*
 * The training step as a share of what the machine multiplies: model operations a second of whole
 * updates over the rate of a product of 2048 cubed through the same device, both taken in turns.
 * Model operations are 6 x product weights + 6 L C T a token; recompute, a tiny head and everything
 * that is no product are not counted, but their time is. The update's rate is that of its memory
 * traffic beside a copy's. Then where the time of a step goes, by operation.
 *
 *     bench_step [THREADS [WORD]]
 *
 * Without THREADS (or 0) once with one thread, by processor time, which other work on the machine
 * hardly lengthens, and once with as many as the machine gives, by the clock. The update and the
 * shares of operations are always by the clock, so they want an idle machine; a small model's
 * update stays in the cache and passes the copy. WORD keeps the models whose name contains it.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "device/device.h"
#include "plimsoll/model.h"
#include "plimsoll/profile.h"
#include "kit.h"

enum { CUBE = 2048, ROUNDS_MIN = 3, ROUNDS_MAX = 24, PRODUCTS = 3, OPS_MAX = 64, OPS_SHOWN = 12 };

static const int64_t round_budget_ns = 12000000000; /* of one model, once ROUNDS_MIN are done */
static const size_t copy_bytes = (size_t)256 << 20; /* beyond most caches */

/* A model, and which of its weights count as product weights. */
typedef struct bench_case {
    const char *name, *model;
    int64_t batch, sequence;
    size_t budget_bytes; /* 0: the whole batch at once */
    bool head_counts;
} bench_case;

static const bench_case cases[] = {
    {"12 blocks of GPT-2", "gpt:layers=12,width=768,heads=12,context=256,vocab=16", 4, 256, 0,
     false},
    {"demo", "gpt:layers=2,width=256,heads=4,context=256,vocab=256", 8, 256, (size_t)64 << 20,
     true},
    {"GPT-2 124M", "gpt2", 4, 256, 0, true},
};

typedef struct samples {
    double seconds[ROUNDS_MAX];
    int count;
} samples;

typedef struct bench {
    plm_device *device;
    float *arena; /* of the product and the copy */
    plm_launch cube;
    void *prepared;
} bench;

/* The fastest; *above = how far the median is above it. */
static double best(samples *s, double *above)
{
    qsort(s->seconds, (size_t)s->count, sizeof *s->seconds, ascending);
    *above = s->seconds[s->count / 2] / s->seconds[0] - 1;
    return s->seconds[0];
}

static plm_operand square(float *data)
{
    return (plm_operand){data, PLM_DTYPE_F32, 2, {CUBE, CUBE}, {CUBE, 1}};
}

static void start(bench *b, int threads)
{
    const size_t floats = (size_t)CUBE * CUBE;
    void *region = NULL;
    check(plm_device_open("cpu", threads, 0, &b->device));
    check(b->device->table->reserve(b->device, 2 * copy_bytes, &region));
    b->arena = region;
    for (size_t i = 0; i < 2 * copy_bytes / sizeof(float); i++)
        b->arena[i] = (float)(i * 31 % 1009) * 0.001f - 0.3f;
    b->cube = (plm_launch){.kind = PLM_OP_LINEAR,
                           .in = {square(b->arena), square(b->arena + floats)},
                           .out = {square(b->arena + 2 * floats)}};
    check(b->device->table->workspace(b->device, &b->cube, &b->cube.workspace_bytes));
    b->cube.workspace = b->cube.workspace_bytes > 0 ? b->arena + 3 * floats : NULL;
    check(b->device->table->prepare(b->device, &b->cube, &b->prepared));
}

static void stop(bench *b)
{
    b->device->table->forget(b->device, b->prepared);
    b->device->table->release(b->device, b->arena, 2 * copy_bytes);
    plm_device_destroy(b->device);
}

static double time_cube(bench *b)
{
    double fastest = 0;
    for (int i = 0; i <= PRODUCTS; i++) { /* the first warms */
        double begin = seconds_now(b->device->threads);
        check(b->device->table->launch(b->device, &b->cube, b->prepared));
        double taken = seconds_now(b->device->threads) - begin;
        fastest = i == 1 || taken < fastest ? taken : fastest;
    }
    return fastest;
}

/* By the clock, as the profile times the update. */
static double time_copy(bench *b)
{
    int threads = b->device->threads;
    char *from = (char *)b->arena, *to = from + copy_bytes;
    size_t piece = copy_bytes / (size_t)threads;
    int64_t begin = plm__clock_ns();
#pragma omp parallel for num_threads(threads)
    for (int i = 0; i < threads; i++)
        memcpy(to + piece * (size_t)i, from + piece * (size_t)i, piece);
    return (double)(plm__clock_ns() - begin) * 1e-9;
}

static double token_operations(const bench_case *c, const plm_model *m)
{
    double layers = (double)m->layers, width = (double)m->width;
    double weights = 12 * layers * width * width;
    if (c->head_counts)
        weights += (double)m->vocab * width;
    return 6 * weights + 6 * layers * width * (double)c->sequence;
}

/* The data: any ids do. */
static void draw(const plm_model *m, int64_t count, int32_t *tokens, int32_t *targets)
{
    for (int64_t i = 0; i < count; i++) {
        tokens[i] = (int32_t)(i * 7919 % m->vocab);
        targets[i] = (int32_t)((i + 1) * 7919 % m->vocab);
    }
}

/* Bytes a second that an update moves: clipping's norm and the optimizer. */
static double update_rate(const plm_profile *profile)
{
    int64_t count;
    const plm_profile_row *rows = plm_profile_rows(profile, &count);
    double bytes = 0, ns = 0;
    for (int64_t i = 0; i < count; i++)
        if (rows[i].program == PLM_PROGRAM_UPDATE) {
            bytes += rows[i].bytes;
            ns += (double)rows[i].best_ns;
        }
    return bytes / ns * 1e9;
}

typedef struct op_time {
    const char *op;
    double ns;
} op_time;

static int longest_first(const void *left, const void *right)
{
    double a = ((const op_time *)left)->ns, b = ((const op_time *)right)->ns;
    return a < b ? 1 : -(a > b);
}

static void print_operations(const plm_profile *profile)
{
    int64_t count;
    int known = 0;
    const plm_profile_row *rows = plm_profile_rows(profile, &count);
    op_time times[OPS_MAX] = {{0}};
    double total = 0;
    for (int64_t i = 0; i < count; i++) {
        double ns = (double)(rows[i].best_ns * rows[i].runs);
        int at = 0;
        while (at < known && strcmp(times[at].op, rows[i].op) != 0)
            at++;
        known += at == known && known < OPS_MAX;
        times[at].op = rows[i].op;
        times[at].ns += ns;
        total += ns;
    }
    qsort(times, (size_t)known, sizeof *times, longest_first);
    for (int i = 0; i < known && i < OPS_SHOWN; i++)
        printf("%s%s %.1f%%",
               i % 4 ? ", "
               : i   ? ",\n    "
                     : "    ",
               times[i].op, 100 * times[i].ns / total);
    printf("\n");
}

static void print_row(const bench *b, const bench_case *c, double operations, samples *steps,
                      samples *cubes, samples *copies, const plm_profile *profile)
{
    double step_above, cube_above, copy_above;
    double step = best(steps, &step_above), cube = best(cubes, &cube_above);
    double copy = best(copies, &copy_above);
    double tokens = (double)(c->batch * c->sequence);
    double rate = operations * tokens / step, product = 2.0 * CUBE * CUBE * CUBE / cube;
    double moved = update_rate(profile), copied = 2.0 * (double)copy_bytes / copy;
    printf("%s, batch %lld x %lld, %d thread%s, best of %d:\n", c->name, (long long)c->batch,
           (long long)c->sequence, b->device->threads, b->device->threads == 1 ? "" : "s",
           steps->count);
    printf("    step      %8.1f ms  (median %+.0f%%)  %8.0f tokens/s\n", step * 1e3,
           step_above * 100, tokens / step);
    printf("    model     %8.1f GFLOP/s of %.1f (median %+.0f%%): %.2f of the product rate\n",
           rate * 1e-9, product * 1e-9, cube_above * 100, rate / product);
    printf("    update    %8.1f GB/s of a copy's %.1f (median %+.0f%%): %.2f\n", moved * 1e-9,
           copied * 1e-9, copy_above * 100, moved / copied);
    print_operations(profile);
}

/* Plans the case; *seconds = how long that took. */
static plm_plan *plan_case(const bench *b, const bench_case *c, const plm_model *m, double *seconds)
{
    plm_job job = {.network = plm_model_network(m),
                   .batch = c->batch,
                   .sequence = c->sequence,
                   .trains = true};
    plm_strategy strategy = plm_strategy_default();
    plm_plan *plan = NULL;
    int64_t begin = plm__clock_ns();
    if (c->budget_bytes > 0) {
        check(plm_plan_for_budget(&job, &strategy, b->device, c->budget_bytes, NULL, &plan));
    } else {
        strategy.micro_batch = c->batch;
        strategy.head_chunks = 1;
        check(plm_plan_create(&job, &strategy, b->device, &plan));
    }
    *seconds = (double)(plm__clock_ns() - begin) * 1e-9;
    return plan;
}

static double time_step(const bench_case *c, plm_session *session, int64_t index,
                        const int32_t *tokens, const int32_t *targets, int threads)
{
    plm_hyper hyper = plm_hyper_default();
    plm_step_result result;
    double begin = seconds_now(threads);
    check(plm_session_step(session, index, &hyper, c->batch, tokens, targets, &result));
    return seconds_now(threads) - begin;
}

static void measure(bench *b, const bench_case *c, const plm_model *m, const plm_plan *plan)
{
    samples steps = {0}, cubes = {0}, copies = {0};
    plm_session *session = NULL;
    plm_profile *profile = NULL;
    int32_t *ids = NULL;
    int64_t count = c->batch * c->sequence;
    check(plm__host_alloc(2 * (size_t)count * sizeof *ids, &ids));
    draw(m, count, ids, ids + count);
    check(plm_session_create(plan, b->device, 1, &session));
    check(plm_profile_create(plan, b->device, &profile));
    plm_session_profile(session, profile);
    time_step(c, session, 0, ids, ids + count, b->device->threads); /* warm */
    int64_t begin = plm__clock_ns();
    for (int i = 0; i < ROUNDS_MAX; i++) {
        if (i >= ROUNDS_MIN && plm__clock_ns() - begin > round_budget_ns)
            break;
        cubes.seconds[cubes.count++] = time_cube(b);
        copies.seconds[copies.count++] = time_copy(b);
        steps.seconds[steps.count++] =
            time_step(c, session, i + 1, ids, ids + count, b->device->threads);
    }
    print_row(b, c, token_operations(c, m), &steps, &cubes, &copies, profile);
    plm_profile_destroy(profile);
    plm_session_destroy(session);
    plm__host_free(ids);
}

static void run_case(bench *b, const bench_case *c)
{
    plm_model model;
    double seconds;
    check(plm_model_parse(c->model, &model));
    plm_plan *plan = plan_case(b, c, &model, &seconds);
    measure(b, c, &model, plan);
    plm_plan_summary summary = plm_plan_summarize(plan);
    printf("    planned in %.1f ms: micro-batch %lld, peak %.1f MiB\n\n", seconds * 1e3,
           (long long)summary.strategy.micro_batch, (double)summary.peak_bytes / (1 << 20));
    plm_plan_destroy(plan);
}

static void run_cases(int threads, const char *word)
{
    bench b = {0};
    start(&b, threads);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strstr(cases[i].name, word))
            run_case(&b, &cases[i]);
    stop(&b);
}

int main(int count, char **arguments)
{
    int threads = count > 1 ? atoi(arguments[1]) : 0, most = omp_get_max_threads();
    const char *word = count > 2 ? arguments[2] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    run_cases(threads > 0 ? threads : 1, word);
    if (threads == 0 && most > 1)
        run_cases(most, word);
    return 0;
}
