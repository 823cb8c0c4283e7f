/* SPDX-License-Identifier: MIT */
/*
 * One operation ready to be tried on a device: random operands in one block with a canary before
 * and after each, the same operands in double for the reference, and what compares the two.
 */
#ifndef PLM_OP_FIXTURE_H
#define PLM_OP_FIXTURE_H

#include "unit/test.h"

#include <math.h>

#include "base/size.h"
#include "device/cpu/kernel/kernel.h"
#include "device/device.h"
#include "engine/reference_ops.h"

static reference_op *const references[PLM_OP_COUNT] = {
    [PLM_OP_EMBEDDING] = ref_embedding,
    [PLM_OP_POSITION] = ref_position,
    [PLM_OP_LAYER_NORM] = ref_layer_norm,
    [PLM_OP_LINEAR] = ref_linear,
    [PLM_OP_GELU] = ref_gelu,
    [PLM_OP_GELU_EXACT] = ref_gelu_exact,
    [PLM_OP_ADD] = ref_add,
    [PLM_OP_DROPOUT] = ref_dropout,
    [PLM_OP_ATTENTION] = ref_attention,
    [PLM_OP_ATTENTION_SCORES] = ref_attention_scores,
    [PLM_OP_SOFTMAX] = ref_softmax,
    [PLM_OP_ATTENTION_APPLY] = ref_attention_apply,
    [PLM_OP_SELECT] = ref_select,
    [PLM_OP_CROSS_ENTROPY] = ref_cross_entropy,
    [PLM_OP_LOSS_SUM] = ref_loss_sum,
    [PLM_OP_EMBEDDING_GRAD] = ref_embedding_grad,
    [PLM_OP_POSITION_GRAD] = ref_position_grad,
    [PLM_OP_LAYER_NORM_GRAD_INPUT] = ref_layer_norm_grad_input,
    [PLM_OP_LAYER_NORM_GRAD_WEIGHT] = ref_layer_norm_grad_weight,
    [PLM_OP_LINEAR_GRAD_INPUT] = ref_linear_grad_input,
    [PLM_OP_LINEAR_GRAD_WEIGHT] = ref_linear_grad_weight,
    [PLM_OP_LINEAR_GRAD_BIAS] = ref_linear_grad_bias,
    [PLM_OP_GELU_GRAD] = ref_gelu_grad,
    [PLM_OP_GELU_EXACT_GRAD] = ref_gelu_exact_grad,
    [PLM_OP_ATTENTION_GRAD] = ref_attention_grad,
    [PLM_OP_ATTENTION_GRAD_PROBS] = ref_attention_grad_probs,
    [PLM_OP_SOFTMAX_GRAD] = ref_softmax_grad,
    [PLM_OP_ATTENTION_GRAD_QKV] = ref_attention_grad_qkv,
    [PLM_OP_CROSS_ENTROPY_GRAD] = ref_cross_entropy_grad,
    [PLM_OP_GRADIENT_NORM] = ref_gradient_norm,
    [PLM_OP_GRADIENT_PART] = ref_gradient_part,
    [PLM_OP_ADAMW] = ref_adamw,
    [PLM_OP_SGD] = ref_sgd,
    [PLM_OP_CAST] = ref_cast,
    [PLM_OP_INIT_NORMAL] = ref_init_normal,
    [PLM_OP_INIT_CONSTANT] = ref_init_constant,
};

enum { CANARY = 64 };

/* A launch with its operands in one block, a canary before and after each and around the workspace,
 * and the same operands in double for the reference. */
typedef struct fixture {
    const op_words *words;
    plm_launch launch;
    plm_step_record step;
    reference truth;
    char *block;
    size_t block_bytes;
    size_t start[OPERANDS + 1], bytes[OPERANDS + 1]; /* the last one is the workspace */
    double *doubles;
} fixture;

static inline double **double_at(reference *r, int i, int64_t **count)
{
    if (i < PLM_OP_INPUTS_MAX) {
        *count = &r->in_count[i];
        return &r->in[i];
    }
    i -= PLM_OP_INPUTS_MAX;
    if (i < PLM_OP_OUTPUTS_MAX) {
        *count = &r->out_count[i];
        return &r->out[i];
    }
    i -= PLM_OP_OUTPUTS_MAX;
    *count = &r->effect_count[i];
    return &r->effect[i];
}

/* A fixed stream of numbers in [-1, 1). */
static inline double next_number(uint64_t *index)
{
    return 2.0 * (double)plm__philox_unit(plm__philox_at(99, 0, 0, (*index)++).word[0]) - 1.0;
}

/* Random operands. Ids lie in the vocabulary; of targets (input 1) some are not counted. Second
 * moments and rstd are positive. */
static inline void fill_operands(fixture *f, uint64_t seed)
{
    uint64_t index = seed << 32;
    for (int i = 0; i < OPERANDS; i++) {
        plm_operand *operand = operand_at(&f->launch, i);
        int64_t count = plm__operand_count(operand);
        if (operand->dtype == PLM_DTYPE_I32) {
            for (int64_t e = 0; e < count; e++) {
                int64_t most = i == 1 ? f->launch.attr.columns : f->truth.n.V;
                int32_t id = (int32_t)((next_number(&index) + 1) / 2 * (double)most);
                ((int32_t *)operand->data)[e] = i == 1 && e % 5 == 3 ? -1 : id;
            }
            continue;
        }
        bool positive = (f->launch.kind == PLM_OP_ADAMW && i == OPERANDS - 1) ||
                        (f->launch.kind == PLM_OP_LAYER_NORM_GRAD_INPUT && i == 4) ||
                        (f->launch.kind == PLM_OP_LAYER_NORM_GRAD_WEIGHT && i == 3);
        for (int64_t e = 0; operand->rank > 0 && e < count; e++) {
            float x = (float)(2 * next_number(&index));
            set_value(operand, e, positive ? fabsf(x) : x);
        }
    }
}

/* Zero where a causal tensor [B,H,T,T] has keys after the query: probabilities are never there. */
static inline void zero_future(const extents *n, const plm_operand *square)
{
    for (int64_t row = 0; row < n->B * n->H * n->T; row++)
        for (int64_t j = row % n->T + 1; j < n->T; j++)
            set_value(square, row * n->T + j, 0);
}

/* Attention's saved outputs must belong to its input, or e^(score - lse) means nothing. */
static inline void fill_consistently(fixture *f)
{
    const extents *n = &f->truth.n;
    if (f->launch.attr.causal && f->launch.kind == PLM_OP_ATTENTION_APPLY)
        zero_future(n, &f->launch.in[0]);
    if (f->launch.attr.causal && f->launch.kind == PLM_OP_ATTENTION_GRAD_QKV) {
        zero_future(n, &f->launch.in[2]);
        zero_future(n, &f->launch.in[3]);
    }
    if (f->launch.kind != PLM_OP_ATTENTION_GRAD)
        return;
    const plm_operand *qkv = &f->launch.in[1];
    float *lse = f->launch.in[3].data;
    reference r = {.n = *n, .attr = f->launch.attr};
    double *wide = calloc((size_t)(plm__operand_count(&f->launch.in[1]) + 1), sizeof *wide);
    for (int64_t i = 0; i < plm__operand_count(&f->launch.in[1]); i++)
        wide[i] = (double)value_of(qkv, i);
    for (int64_t row = 0; row < n->B * n->H * n->T; row++) {
        double sum = 0;
        for (int64_t j = 0; j < n->T; j++)
            sum += exp(ref_score(&r, wide, row / (n->H * n->T), row / n->T % n->H, row % n->T, j));
        lse[row] = (float)log(sum);
    }
    free(wide);
}

/* The operands as they are now become the reference's. */
static inline void widen(fixture *f)
{
    double *next = f->doubles;
    f->truth.attr = f->launch.attr;
    f->truth.step = f->step;
    for (int i = 0; i < OPERANDS; i++) {
        plm_operand *operand = operand_at(&f->launch, i);
        int64_t *count, elements = plm__operand_count(operand);
        double **to = double_at(&f->truth, i, &count);
        *to = NULL;
        *count = 0;
        if (operand->rank == 0)
            continue;
        *count = elements;
        if (operand->dtype == PLM_DTYPE_I32) {
            f->truth.ids[i] = operand->data;
            continue;
        }
        *to = next;
        for (int64_t e = 0; e < elements; e++)
            *next++ = (double)value_of(operand, e);
    }
}

static inline plm_step_record step_record(void)
{
    return (plm_step_record){.seed = 1234,
                             .step = 3,
                             .sample_offset = 3,
                             .position = 0,
                             .inverse_count = 0.125f,
                             .learning_rate = 0.01f,
                             .weight_decay = 0.1f,
                             .beta1 = 0.9f,
                             .beta2 = 0.95f,
                             .epsilon = 1e-8f,
                             .clip_norm = 1.0f,
                             .momentum = 0.8f,
                             .loss_scale = 4.0f,
                             .clip_scale = 0.5f,
                             .gradient_factor = 0.125f,
                             .update_count = 2};
}

static inline void fixture_open_as(fixture *f, plm_device *device, plm_op_kind kind, extents n,
                                   plm_op_attr attr, op_types types)
{
    *f = (fixture){.words = &op_table[kind], .step = step_record()};
    f->launch = (plm_launch){.kind = kind, .attr = attr, .step = &f->step};
    f->truth.n = n;
    int64_t elements = 0;
    size_t at = CANARY;
    for (int i = 0; i < OPERANDS; i++)
        if (word_at(f->words, i)) {
            plm_operand *operand = operand_at(&f->launch, i);
            int64_t count = shape_operand(&n, types, word_at(f->words, i), operand);
            f->start[i] = at;
            f->bytes[i] = (size_t)count * element_bytes(operand);
            elements += count;
            at += plm__granules(f->bytes[i]) + CANARY;
        }
    assert_ok(device->table->workspace(device, &f->launch, &f->launch.workspace_bytes));
    f->start[OPERANDS] = at;
    f->bytes[OPERANDS] = f->launch.workspace_bytes;
    f->block_bytes = at + plm__granules(f->launch.workspace_bytes) + CANARY;
    f->block = aligned_alloc(64, f->block_bytes);
    memset(f->block, 0x5A, f->block_bytes);
    for (int i = 0; i < OPERANDS; i++)
        if (word_at(f->words, i))
            operand_at(&f->launch, i)->data = f->block + f->start[i];
    f->launch.workspace = f->launch.workspace_bytes ? f->block + f->start[OPERANDS] : NULL;
    f->doubles = calloc((size_t)elements + 1, sizeof *f->doubles);
    fill_operands(f, (uint64_t)kind);
    fill_consistently(f);
    widen(f);
}

static inline void fixture_open(fixture *f, plm_device *device, plm_op_kind kind, extents n,
                                plm_op_attr attr)
{
    fixture_open_as(f, device, kind, n, attr, (op_types){PLM_DTYPE_F32, PLM_DTYPE_F32});
}

static inline void fixture_close(fixture *f)
{
    free(f->block);
    free(f->doubles);
}

static inline void run_op(plm_device *device, const plm_launch *launch)
{
    void *prepared = NULL;
    assert_ok(device->table->prepare(device, launch, &prepared));
    assert_ok(device->table->launch(device, launch, prepared));
    device->table->forget(device, prepared);
}

/* Every byte that belongs to no operand and not to the workspace is as it was. */
static inline void assert_canaries(const fixture *f)
{
    size_t from = 0;
    for (int i = 0; i <= OPERANDS + 1; i++) {
        size_t to = i <= OPERANDS ? f->start[i] : f->block_bytes;
        if (i < OPERANDS && !word_at(f->words, i))
            continue;
        for (size_t at = from; at < to; at++)
            if (f->block[at] != 0x5A)
                fail_msg("%s wrote outside its operands, before operand %d", f->words->name, i);
        from = i <= OPERANDS ? to + f->bytes[i] : from;
    }
}

/* Largest relative error of rounding a result to a type, and the largest error near 0, where the
 * numbers of fp16 stand no closer. */
static inline double rounding(plm_dtype dtype)
{
    return dtype == PLM_DTYPE_BF16 ? 0x1p-8 : dtype == PLM_DTYPE_F16 ? 0x1p-11 : 0;
}

static inline double rounding_near_zero(plm_dtype dtype)
{
    return dtype == PLM_DTYPE_F16 ? 0x1p-25 : 0;
}

/* Largest distance to the reference beyond the one rounding that storing a result costs, as a share
 * of the tensor's largest value (at least 1). */
static inline double distance(const plm_operand *x, const double *truth, int64_t count)
{
    double largest = 1, worst = 0;
    for (int64_t i = 0; i < count; i++) {
        double found = (double)value_of(x, i);
        if (isinf(truth[i]) && found == truth[i])
            continue;
        largest = fmax(largest, fabs(truth[i]));
        double allowed = rounding(x->dtype) * fabs(truth[i]) + rounding_near_zero(x->dtype);
        double off = fabs(found - truth[i]) - allowed;
        worst = off <= worst ? worst : off; /* a NaN stays */
    }
    return worst / largest;
}

static inline void assert_matches(fixture *f, double tolerance)
{
    for (int i = 0; i < OPERANDS; i++) {
        plm_operand *operand = operand_at(&f->launch, i);
        int64_t *count;
        double **truth = double_at(&f->truth, i, &count);
        if (operand->rank == 0 || operand->dtype == PLM_DTYPE_I32)
            continue;
        double off = distance(operand, *truth, *count);
        if (!(off <= tolerance))
            fail_msg("%s, operand %d (%s) of B=%d T=%d C=%d H=%d V=%d: off by %g", f->words->name,
                     i, plm_dtype_text(operand->dtype), (int)f->truth.n.B, (int)f->truth.n.T,
                     (int)f->truth.n.C, (int)f->truth.n.H, (int)f->truth.n.V, off);
    }
    const plm_step_record *step = &f->step, *truth = &f->truth.step;
    assert_true(fabs(step->loss_sum - truth->loss_sum) < 1e-9);
    assert_true(fabsf(step->gradient_norm - truth->gradient_norm) <= 1e-6f * truth->gradient_norm);
    assert_true(fabsf(step->clip_scale - truth->clip_scale) <= 1e-6f);
    assert_true(fabsf(step->gradient_factor - truth->gradient_factor) <= 1e-6f);
    assert_true(fabs(step->square_sum - truth->square_sum) <= 1e-6 * truth->square_sum);
    assert_int_equal(step->update_count, truth->update_count);
}

static const extents shapes[] = {
    {.B = 2, .T = 1, .C = 8, .H = 1, .V = 5, .K = 1, .N = 1, .P = 1},
    {.B = 1, .T = 17, .C = 20, .H = 2, .V = 5, .K = 20, .N = 7, .P = 19},
    {.B = 3, .T = 65, .C = 24, .H = 3, .V = 33, .K = 24, .N = 65, .P = 65},
    {.B = 2, .T = 64, .C = 128, .H = 2, .V = 256, .K = 64, .N = 128, .P = 80},
    {.B = 1, .T = 150, .C = 60, .H = 3, .V = 1500, .K = 33, .N = 100, .P = 150},
    {.B = 2, .T = 3, .C = 1050, .H = 25, .V = 9, .K = 5, .N = 3, .P = 4},
    {.B = 2, .T = 67, .C = 24, .H = 6, .G = 2, .D = 5, .V = 7, .K = 3, .N = 5, .P = 67},
    {.B = 1, .T = 33, .C = 20, .H = 4, .G = 1, .D = 16, .V = 5, .K = 2, .N = 2, .P = 33},
    {.B = 1, .T = 65, .C = 12, .H = 2, .G = 1, .D = 72, .V = 5, .K = 2, .N = 2, .P = 65},
};

enum { SHAPES = sizeof shapes / sizeof *shapes, LARGE = 4 /* the slow one */ };

/* Shapes whose heads share keys are for attention alone. */
static inline bool is_for(const extents *n, plm_op_kind kind)
{
    return n->G == 0 || plm__op_info_of(kind)->flops.by == PLM_FLOPS_ATTENTION;
}

/* In the causal half of the cases, which means nothing to the cross entropy, half of its columns
 * are padding. */
static inline plm_op_attr attributes(const extents *n, bool causal, bool accumulate)
{
    return (plm_op_attr){.epsilon = 1e-5f,
                         .probability = 0.3f,
                         .scale = 0.02f,
                         .heads = (int32_t)n->H,
                         .key_heads = (int32_t)key_heads_of(n),
                         .columns = causal ? (n->V + 1) / 2 : n->V,
                         .site = 7,
                         .causal = causal,
                         .accumulate = accumulate,
                         .decay = accumulate};
}

/* What tensors and gradients are stored as; fp32 throughout is the first. */
static const op_types all_types[] = {
    {PLM_DTYPE_F32, PLM_DTYPE_F32},   {PLM_DTYPE_BF16, PLM_DTYPE_F32},
    {PLM_DTYPE_BF16, PLM_DTYPE_BF16}, {PLM_DTYPE_F16, PLM_DTYPE_F32},
    {PLM_DTYPE_F16, PLM_DTYPE_BF16},
};

enum { TYPES = sizeof all_types / sizeof *all_types };

#endif
