/* SPDX-License-Identifier: MIT */
/*
 * A small model on the CPU, opened and closed in one call: what the tests of the engine share. One
 * thread unless a test says otherwise, so that a busy machine does not slow them down.
 */
#ifndef PLM_TEST_SMALL_RUN_H
#define PLM_TEST_SMALL_RUN_H

#include "unit/test.h"

#include <math.h>

#include "device/device.h"
#include "model/family.h"
#include "plimsoll/session.h"

enum { SMALL_WINDOW_MAX = 1024, SMALL_TENSOR_MAX = 65536 };

typedef struct small_shape {
    const char *family; /* NULL: a gpt */
    int64_t layers, width, heads, context, vocab;
    int64_t batch, micro_batch, sequence;
    float dropout;
    plm_attention_form attention;
    plm_optimizer optimizer;
    const char *recompute;         /* NULL: none */
    int64_t head_chunks;           /* 0: 1 */
    int64_t mlp_chunks;            /* 0: 1 */
    int32_t threads;               /* 0: one */
    int64_t row_multiple;          /* of the device; 0: the CPU's own */
    plm_dtype precision, gradient; /* 0: fp32 */
    plm_update_time update;
    uint64_t seed;
} small_shape;

/* A plan on a device of its own, and its session. */
typedef struct small_run {
    plm_model model;
    plm_job job;
    plm_strategy strategy;
    plm_device *device;
    plm_device_table table; /* the device's, with another multiple of rows */
    plm_plan *plan;
    plm_session *session;
    plm_plan_summary summary;
} small_run;

/* Fills in what a plan is made from; `run` must stay where it is until it is closed. */
static inline void small_run_describe(small_run *run, const small_shape *shape)
{
    *run = (small_run){.model = {.name = "small",
                                 .family = plm__family_find(shape->family ? shape->family : "gpt"),
                                 .layers = shape->layers,
                                 .width = shape->width,
                                 .heads = shape->heads,
                                 .context = shape->context,
                                 .vocab = shape->vocab,
                                 .dropout = shape->dropout},
                       .strategy = {.micro_batch = shape->micro_batch,
                                    .precision = shape->precision,
                                    .gradient = shape->gradient,
                                    .update = shape->update,
                                    .attention = shape->attention}};
    run->job = (plm_job){.network = plm_model_network(&run->model),
                         .batch = shape->batch,
                         .sequence = shape->sequence,
                         .trains = true,
                         .evaluates = true,
                         .generates = true,
                         .optimizer = shape->optimizer};
    if (shape->recompute)
        assert_ok(plm_strategy_recompute_parse(&run->strategy, shape->recompute,
                                               &run->strategy.recompute));
    run->strategy.head_chunks = shape->head_chunks ? shape->head_chunks : 1;
    run->strategy.mlp_chunks = shape->mlp_chunks ? shape->mlp_chunks : 1;
}

/* Plans and begins what `run` describes. */
static inline void small_run_begin(small_run *run, const small_shape *shape, plm_device *device)
{
    assert_ok(plm_plan_create(&run->job, &run->strategy, device, &run->plan));
    assert_ok(plm_session_create(run->plan, device, shape->seed, &run->session));
    run->summary = plm_plan_summarize(run->plan);
}

/* On a device that the caller keeps. */
static inline void small_run_open_on(small_run *run, const small_shape *shape, plm_device *device)
{
    small_run_describe(run, shape);
    small_run_begin(run, shape, device);
}

static inline void small_run_open(small_run *run, const small_shape *shape)
{
    small_run_describe(run, shape);
    assert_ok(plm_device_open("cpu", shape->threads ? shape->threads : 1, 0, &run->device));
    run->table = *run->device->table;
    run->table.row_multiple = shape->row_multiple;
    if (shape->row_multiple)
        run->device->table = &run->table;
    small_run_begin(run, shape, run->device);
}

static inline void small_run_close(small_run *run)
{
    plm_session_destroy(run->session);
    plm_plan_destroy(run->plan);
    plm_device_destroy(run->device);
}

/* A repeatable number of 16 bits, the same as in scripts/reference_models.py. */
static inline uint32_t small_hash(uint32_t salt, uint32_t index)
{
    uint32_t x = index * 0x85EBCA77u + salt * 0x9E3779B1u;
    x ^= x >> 15;
    x *= 0xC2B2AE3Du;
    x ^= x >> 13;
    x *= 0x27D4EB2Fu;
    return x >> 16;
}

/* In [-1, 1), a multiple of 2^-15. */
static inline float small_spread(uint32_t salt, uint32_t index)
{
    return (float)small_hash(salt, index) / 32768.0f - 1.0f;
}

/* A window of ids; one target in five is not counted. */
typedef struct small_window {
    int32_t tokens[SMALL_WINDOW_MAX];
    int32_t targets[SMALL_WINDOW_MAX];
    int32_t types[SMALL_WINDOW_MAX]; /* used where a test says so */
} small_window;

static inline void small_window_fill(small_window *window, int64_t count, int64_t vocab,
                                     uint32_t salt)
{
    assert_true(count <= SMALL_WINDOW_MAX);
    for (int64_t i = 0; i < count; i++) {
        uint32_t index = (uint32_t)i;
        window->types[i] = (int32_t)(small_hash(salt + 3, index) % 2);
        window->tokens[i] = (int32_t)(small_hash(salt, index) % vocab);
        window->targets[i] = small_hash(salt + 2, index) % 5 == 0
                                 ? -1
                                 : (int32_t)(small_hash(salt + 1, index) % vocab);
    }
}

/* Calls `each` with every parameter of a model of this shape: full name, elements, whether it is a
 * matrix. */
typedef void small_parameter_function(const char *name, int64_t elements, bool matrix, void *user);

static inline void small_each_parameter(const small_shape *shape, small_parameter_function *each,
                                        void *user)
{
    const int64_t c = shape->width;
    const struct {
        const char *name;
        int64_t elements;
        bool matrix;
    } in_block[] = {
        {"ln1.weight", c, false},
        {"ln1.bias", c, false},
        {"attention.qkv.weight", 3 * c * c, true},
        {"attention.qkv.bias", 3 * c, false},
        {"attention.out.weight", c * c, true},
        {"attention.out.bias", c, false},
        {"ln2.weight", c, false},
        {"ln2.bias", c, false},
        {"mlp.up.weight", 4 * c * c, true},
        {"mlp.up.bias", 4 * c, false},
        {"mlp.down.weight", 4 * c * c, true},
        {"mlp.down.bias", c, false},
    };
    each("embedding.token.weight", shape->vocab * c, true, user);
    each("embedding.position.weight", shape->context * c, true, user);
    for (int64_t layer = 0; layer < shape->layers; layer++) {
        for (size_t i = 0; i < sizeof in_block / sizeof *in_block; i++) {
            char name[64];
            snprintf(name, sizeof name, "block.%d.%s", (int)layer, in_block[i].name);
            each(name, in_block[i].elements, in_block[i].matrix, user);
        }
    }
    each("head.ln.weight", c, false, user);
    each("head.ln.bias", c, false, user);
    if (!shape->family || strcmp(shape->family, "bert") != 0)
        return;
    each("embedding.type.weight", 2 * c, true, user);
    each("embedding.ln.weight", c, false, user);
    each("embedding.ln.bias", c, false, user);
    each("head.dense.weight", c * c, true, user);
    each("head.dense.bias", c, false, user);
    each("head.decoder.bias", shape->vocab, false, user);
}

static inline void small_enlarge(const char *name, int64_t elements, bool matrix, void *user)
{
    static float values[SMALL_TENSOR_MAX];
    const small_run *run = user;
    if (!matrix)
        return;
    assert_ok(plm_session_read(run->session, name, PLM_PART_VALUE, elements, values));
    for (int64_t i = 0; i < elements; i++)
        values[i] *= 8;
    assert_ok(plm_session_write(run->session, name, PLM_PART_VALUE, elements, values));
}

/* Opens a run whose weights are so large that every part of the network matters. */
static inline void small_run_open_lively(small_run *run, const small_shape *shape)
{
    small_run_open(run, shape);
    small_each_parameter(shape, small_enlarge, run);
}

/* One part of all parameters, one after the other in the order above. */
typedef struct small_values {
    plm_session *session;
    plm_parameter_part part;
    int64_t count;
    float items[SMALL_TENSOR_MAX];
} small_values;

static inline void small_values_add(const char *name, int64_t elements, bool matrix, void *user)
{
    (void)matrix;
    small_values *values = user;
    assert_true(values->count + elements <= SMALL_TENSOR_MAX);
    assert_ok(plm_session_read(values->session, name, values->part, elements,
                               values->items + values->count));
    values->count += elements;
}

static inline void small_values_read(const small_run *run, const small_shape *shape,
                                     plm_parameter_part part, small_values *values)
{
    values->session = run->session;
    values->part = part;
    values->count = 0;
    small_each_parameter(shape, small_values_add, values);
}

static inline double small_norm(const small_values *values)
{
    double sum = 0;
    for (int64_t i = 0; i < values->count; i++)
        sum += (double)values->items[i] * (double)values->items[i];
    return sqrt(sum);
}

/* |a - b| / |b|, Euclidean norms over all elements. */
static inline double small_difference(const small_values *a, const small_values *b)
{
    double sum = 0;
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++)
        sum += ((double)a->items[i] - (double)b->items[i]) *
               ((double)a->items[i] - (double)b->items[i]);
    return sqrt(sum) / small_norm(b);
}

static inline bool small_same_bits(const small_values *a, const small_values *b)
{
    return a->count == b->count &&
           memcmp(a->items, b->items, (size_t)a->count * sizeof *a->items) == 0;
}

#endif
