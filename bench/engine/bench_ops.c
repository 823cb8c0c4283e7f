/* SPDX-License-Identifier: MIT */
/*
 * Time of every operation of a transformer layer on the CPU, at GPT-2 124M's shapes and at width
 * 256. What is bound by arithmetic is set beside the product of 2048 cubed, what is bound by memory
 * beside a copy of as many bytes, both measured in the same run: rates of machines differ, these
 * shares hardly do. Beside fp32 stand bf16 and fp16, with fp32 gradients of weights: time, and how
 * many times faster.
 *
 *     bench_ops [THREADS [INSTRUCTION SET [WORD [blocks]]]]
 *
 * THREADS 0 and an unknown set mean the machine's own choice; WORD keeps the operations whose name
 * contains it; "blocks" makes products of 16-bit types without silicon.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/size.h"
#include "device/cpu/cpu_internal.h"
#include "engine/op_table.h"
#include "kit.h"

enum { RUNS_MIN = 7, RUNS_MAX = 200 };

static const int64_t run_budget_ns = 150000000; /* of one row, once RUNS_MIN are done */

typedef struct timing {
    double best, median; /* seconds */
} timing;

typedef struct bench {
    plm_device *device;
    char *arena;
    size_t arena_bytes;
    plm_step_record step;
    double product_rate; /* operations a second of 2048 cubed */
    const char *word;    /* in the names of the operations wanted */
} bench;

typedef struct bench_row {
    plm_op_kind kind;
    const char *what;
    extents n;
    bool accumulate;
    double operations; /* 0: bound by memory */
} bench_row;

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static timing summarise(int64_t *ns, int count)
{
    qsort(ns, (size_t)count, sizeof *ns, by_time);
    return (timing){(double)ns[0] * 1e-9, (double)ns[count / 2] * 1e-9};
}

/* With one thread processor time, which other work on the machine does not lengthen; else time. */
static int64_t now_ns(int threads)
{
    struct timespec used;
    if (threads > 1 || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) != 0)
        return plm__clock_ns();
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

/* Runs `once` until the time is used. */
static timing repeat(void (*once)(void *context), void *context, int threads)
{
    int64_t ns[RUNS_MAX], begin = plm__clock_ns();
    int count = 0;
    once(context); /* warm */
    while (count < RUNS_MAX && (count < RUNS_MIN || plm__clock_ns() - begin < run_budget_ns)) {
        int64_t start = now_ns(threads);
        once(context);
        ns[count++] = now_ns(threads) - start;
    }
    return summarise(ns, count);
}

typedef struct op_run {
    plm_device *device;
    plm_launch launch;
    void *prepared;
} op_run;

static void run_once(void *context)
{
    op_run *run = context;
    check(run->device->table->launch(run->device, &run->launch, run->prepared));
}

typedef struct copy_run {
    char *to;
    const char *from;
    size_t bytes;
    int threads;
} copy_run;

static void copy_once(void *context)
{
    copy_run *run = context;
    size_t piece = plm__granules(run->bytes / (size_t)run->threads);
#pragma omp parallel for num_threads(run->threads)
    for (int i = 0; i < run->threads; i++) {
        size_t at = piece * (size_t)i, left = at < run->bytes ? run->bytes - at : 0;
        memcpy(run->to + at, run->from + at, left < piece ? left : piece);
    }
}

/* Places the operands one after the other and gives them small values; returns the bytes that the
 * operation moves (an effect is read and written). */
static size_t place(const bench *b, const bench_row *row, op_types types, op_run *run)
{
    size_t at = 0, moved = 0;
    for (int i = 0; i < OPERANDS; i++) {
        const char *word = word_at(&op_table[row->kind], i);
        if (!word)
            continue;
        plm_operand *operand = operand_at(&run->launch, i);
        int64_t count = shape_operand(&row->n, types, word, operand);
        operand->data = b->arena + at;
        for (int64_t e = 0; e < count; e++)
            if (operand->dtype == PLM_DTYPE_I32)
                ((int32_t *)operand->data)[e] = (int32_t)(e * 7919 % row->n.V);
            else
                set_value(operand, e, (float)(e * 31 % 1009) * 0.001f - 0.3f);
        size_t bytes = (size_t)count * element_bytes(operand);
        at += plm__granules(bytes);
        bool effect = i >= PLM_OP_INPUTS_MAX + PLM_OP_OUTPUTS_MAX;
        moved += bytes * (effect && row->accumulate ? 2 : 1);
    }
    check(b->device->table->workspace(b->device, &run->launch, &run->launch.workspace_bytes));
    run->launch.workspace = b->arena + at;
    if (at + run->launch.workspace_bytes > b->arena_bytes)
        check(plm_fail(PLM_ERROR_ARGUMENT, "the arena is too small for %s", row->what));
    return moved;
}

/* Attention's gradient reads lse: it must be of the right size, or everything overflows. */
static void tame(const bench_row *row, op_run *run)
{
    int input = row->kind == PLM_OP_ATTENTION_GRAD       ? 3
                : row->kind == PLM_OP_CROSS_ENTROPY_GRAD ? 2
                                                         : -1;
    for (int64_t e = 0; input >= 0 && e < plm__operand_count(&run->launch.in[input]); e++)
        ((float *)run->launch.in[input].data)[e] = 10.0f;
    for (int64_t e = 0; row->kind == PLM_OP_ADAMW && e < plm__operand_count(&run->launch.effect[2]);
         e++)
        ((float *)run->launch.effect[2].data)[e] = 0.01f;
}

static timing time_op(bench *b, const bench_row *row, op_types types, size_t *moved)
{
    op_run run = {.device = b->device,
                  .launch = {.kind = row->kind,
                             .attr = {.epsilon = 1e-5f,
                                      .probability = 0.1f,
                                      .scale = 0.02f,
                                      .heads = (int32_t)row->n.H,
                                      .key_heads = (int32_t)key_heads_of(&row->n),
                                      .columns = row->n.V,
                                      .causal = true,
                                      .accumulate = row->accumulate,
                                      .decay = true},
                             .step = &b->step}};
    *moved = place(b, row, types, &run);
    tame(row, &run);
    check(b->device->table->prepare(b->device, &run.launch, &run.prepared));
    timing time = repeat(run_once, &run, b->device->threads);
    b->device->table->forget(b->device, run.prepared);
    return time;
}

/* A copy that moves as many bytes; beyond the arena the time is scaled. */
static timing time_copy(const bench *b, size_t moved)
{
    size_t bytes = moved < b->arena_bytes ? moved / 2 : b->arena_bytes / 2;
    copy_run run = {.to = b->arena,
                    .from = b->arena + b->arena_bytes / 2,
                    .bytes = bytes,
                    .threads = b->device->threads};
    timing time = repeat(copy_once, &run, run.threads);
    double scale = (double)moved / 2 / (double)bytes;
    return (timing){time.best * scale, time.median * scale};
}

static const op_types fp32 = {PLM_DTYPE_F32, PLM_DTYPE_F32};

/* Time in a 16-bit type, and how many times faster it is than fp32. */
static void print_half(bench *b, const bench_row *row, plm_dtype dtype, double fp32_seconds)
{
    size_t moved;
    timing time = time_op(b, row, (op_types){dtype, PLM_DTYPE_F32}, &moved);
    printf("  %9.3f %5.2f x", time.best * 1e3, fp32_seconds / time.best);
}

static void run_row(bench *b, const bench_row *row)
{
    size_t moved;
    if (!strstr(op_table[row->kind].name, b->word))
        return;
    timing time = time_op(b, row, fp32, &moved);
    printf("%-23s %-17s %9.3f %+5.0f%%", op_table[row->kind].name, row->what, time.best * 1e3,
           (time.median / time.best - 1) * 100);
    if (row->operations > 0) {
        double rate = row->operations / time.best;
        printf(" %7.1f GFLOP/s %4.2f of the product", rate * 1e-9, rate / b->product_rate);
    } else {
        timing copy = time_copy(b, moved);
        printf(" %7.1f GB/s    %4.2f of a copy     ", (double)moved / time.best * 1e-9,
               copy.best / time.best);
    }
    print_half(b, row, PLM_DTYPE_BF16, time.best);
    print_half(b, row, PLM_DTYPE_F16, time.best);
    printf("\n");
}

/* Positions that see one another under the causal mask, times heads and width. */
static double pairs(const extents *n)
{
    return (double)n->B * (double)n->C * (double)n->T * (double)(n->T + 1) / 2;
}

static double product(const extents *n)
{
    return 2.0 * (double)n->B * (double)n->T * (double)n->K * (double)n->N;
}

static void run_products(bench *b, extents n, const char *what, int64_t k, int64_t outputs)
{
    n.K = k;
    n.N = outputs;
    double operations = product(&n);
    run_row(b, &(bench_row){PLM_OP_LINEAR, what, n, false, operations});
    run_row(b, &(bench_row){PLM_OP_LINEAR_GRAD_INPUT, what, n, false, operations});
    run_row(b, &(bench_row){PLM_OP_LINEAR_GRAD_WEIGHT, what, n, false, operations});
    run_row(b, &(bench_row){PLM_OP_LINEAR_GRAD_WEIGHT, what, n, true, operations});
    run_row(b, &(bench_row){PLM_OP_LINEAR_GRAD_BIAS, what, n, false, 0});
}

static void run_attention(bench *b, extents n)
{
    double each = 2 * pairs(&n);
    run_row(b, &(bench_row){PLM_OP_ATTENTION, "fused", n, false, 2 * each});
    run_row(b, &(bench_row){PLM_OP_ATTENTION_GRAD, "fused", n, false, 5 * each});
    extents grouped = n;
    grouped.G = n.H / 4;
    run_row(b, &(bench_row){PLM_OP_ATTENTION, "4 heads a key", grouped, false, 2 * each});
    run_row(b, &(bench_row){PLM_OP_ATTENTION_GRAD, "4 heads a key", grouped, false, 5 * each});
    run_row(b, &(bench_row){PLM_OP_ATTENTION_SCORES, "plain", n, false, each});
    run_row(b, &(bench_row){PLM_OP_SOFTMAX, "plain", n, false, 0});
    run_row(b, &(bench_row){PLM_OP_ATTENTION_APPLY, "plain", n, false, each});
    run_row(b, &(bench_row){PLM_OP_ATTENTION_GRAD_PROBS, "plain", n, false, each});
    run_row(b, &(bench_row){PLM_OP_SOFTMAX_GRAD, "plain", n, false, 0});
    run_row(b, &(bench_row){PLM_OP_ATTENTION_GRAD_QKV, "plain", n, false, 3 * each});
}

static void run_memory_bound(bench *b, extents n)
{
    extents wide = n;
    wide.C = 4 * n.C;
    run_row(b, &(bench_row){PLM_OP_EMBEDDING, "", n, false, 0});
    run_row(b, &(bench_row){PLM_OP_POSITION, "", n, false, 0});
    run_row(b, &(bench_row){PLM_OP_LAYER_NORM, "", n, false, 0});
    run_row(b, &(bench_row){PLM_OP_LAYER_NORM_GRAD_INPUT, "", n, false, 0});
    run_row(b, &(bench_row){PLM_OP_LAYER_NORM_GRAD_WEIGHT, "", n, true, 0});
    run_row(b, &(bench_row){PLM_OP_GELU, "4 C", wide, false, 0});
    run_row(b, &(bench_row){PLM_OP_GELU_GRAD, "4 C", wide, false, 0});
    run_row(b, &(bench_row){PLM_OP_GELU_EXACT, "4 C", wide, false, 0});
    run_row(b, &(bench_row){PLM_OP_GELU_EXACT_GRAD, "4 C", wide, false, 0});
    run_row(b, &(bench_row){PLM_OP_ADD, "", n, false, 0});
    run_row(b, &(bench_row){PLM_OP_DROPOUT, "", n, false, 0});
    run_row(b, &(bench_row){PLM_OP_POSITION_GRAD, "", n, true, 0});
    run_row(b, &(bench_row){PLM_OP_EMBEDDING_GRAD, "", n, true, 0});
    run_row(b, &(bench_row){PLM_OP_CROSS_ENTROPY, "", n, false, 0});
    run_row(b, &(bench_row){PLM_OP_CROSS_ENTROPY_GRAD, "", n, false, 0});
    run_row(b, &(bench_row){PLM_OP_GRADIENT_NORM, "V C", n, false, 0});
    run_row(b, &(bench_row){PLM_OP_ADAMW, "V C", n, true, 0});
    run_row(b, &(bench_row){PLM_OP_SGD, "V C", n, true, 0});
    run_row(b, &(bench_row){PLM_OP_CAST, "V C", n, false, 0});
    run_row(b, &(bench_row){PLM_OP_INIT_NORMAL, "V C", n, false, 0});
}

static void run_model(bench *b, const char *name, extents n)
{
    printf("\n%s: B=%lld T=%lld C=%lld H=%lld V=%lld\n", name, (long long)n.B, (long long)n.T,
           (long long)n.C, (long long)n.H, (long long)n.V);
    printf("%-23s %-17s %9s %6s %32s  %9s %18s\n", "operation", "", "best ms", "median", "",
           "bf16 ms", "fp16 ms");
    run_products(b, n, "query, key, value", n.C, 3 * n.C);
    run_products(b, n, "projection", n.C, n.C);
    run_products(b, n, "up", n.C, 4 * n.C);
    run_products(b, n, "down", 4 * n.C, n.C);
    run_products(b, n, "head", n.C, n.V);
    run_attention(b, n);
    run_memory_bound(b, n);
}

static void measure_product_rate(bench *b)
{
    size_t moved;
    extents n = {.B = 1, .T = 2048, .C = 1, .H = 1, .V = 1, .K = 2048, .N = 2048, .P = 1};
    timing time =
        time_op(b, &(bench_row){PLM_OP_LINEAR, "2048 cubed", n, false, product(&n)}, fp32, &moved);
    b->product_rate = product(&n) / time.best;
    printf("product of 2048 cubed: %.1f GFLOP/s\n", b->product_rate * 1e-9);
}

static void choose_kernels(plm_device *device, const char *isa)
{
    const plm_cpu_kernels *kernels = plm__cpu_best_kernels();
    for (int i = 0; isa && plm__cpu_kernels_at(i); i++)
        if (strcmp(plm__cpu_kernels_at(i)->isa, isa) == 0)
            kernels = plm__cpu_kernels_at(i);
    plm__cpu_use_kernels(device, kernels);
    printf("%d threads, kernels for %s\n", device->threads, kernels->isa);
}

int main(int count, char **arguments)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench b = {.arena_bytes = (size_t)1 << 30,
               .word = count > 3 ? arguments[3] : "",
               .step = {.seed = 1,
                        .inverse_count = 0.001f,
                        .learning_rate = 1e-4f,
                        .beta1 = 0.9f,
                        .beta2 = 0.95f,
                        .epsilon = 1e-8f,
                        .clip_norm = 1.0f,
                        .loss_scale = 1.0f,
                        .clip_scale = 1.0f,
                        .gradient_factor = 1.0f,
                        .update_count = 1}};
    check(plm_device_open("cpu", count > 1 ? atoi(arguments[1]) : 0, 0, &b.device));
    choose_kernels(b.device, count > 2 ? arguments[2] : NULL);
    if (count > 4)
        plm__cpu_use_silicon(b.device, strcmp(arguments[4], "blocks") != 0);
    void *arena = NULL;
    check(b.device->table->reserve(b.device, b.arena_bytes, &arena));
    b.arena = arena;
    measure_product_rate(&b);
    run_model(&b, "gpt2", (extents){.B = 4, .T = 256, .C = 768, .H = 12, .V = 50257, .P = 1024});
    run_model(&b, "width 256", (extents){.B = 8, .T = 256, .C = 256, .H = 4, .V = 256, .P = 256});
    b.device->table->release(b.device, arena, b.arena_bytes);
    plm_device_destroy(b.device);
    return 0;
}
