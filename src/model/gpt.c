/* SPDX-License-Identifier: MIT */
/*
 * GPT as in GPT-2: pre-normalised blocks, learned positions, tied head. First values as there:
 * deviation 0.02, the two products that end a residual branch divided by sqrt(2 layers).
 */
#include "model/gpt.h"

#include <math.h>
#include <stdio.h>

#define DEVIATION 0.02f
#define EPSILON   1e-5f

/* Parameters are made one statement at a time: their order is the layout of the persistent region.
 */

static plm_tensor weight(plm_graph *g, const char *name, int64_t outputs, int64_t inputs,
                         float deviation)
{
    return plm_parameter(g, name, 2, (int64_t[]){outputs, inputs}, plm_init_normal(deviation),
                         true);
}

/* "name.part", a vector. */
static plm_tensor vector(plm_graph *g, const char *name, const char *part, int64_t width,
                         float value)
{
    char full[64];
    snprintf(full, sizeof full, "%s.%s", name, part);
    return plm_parameter(g, full, 1, &width, plm_init_constant(value), false);
}

/* x [..,C] -> [..,C] */
static plm_tensor norm(plm_graph *g, const char *name, plm_tensor x, int64_t width)
{
    plm_tensor scale = vector(g, name, "weight", width, 1);
    plm_tensor bias = vector(g, name, "bias", width, 0);
    return plm_layer_norm(g, x, scale, bias, EPSILON);
}

/* x [..,inputs] -> [..,outputs] */
static plm_tensor linear(plm_graph *g, const char *name, plm_tensor x, int64_t outputs,
                         int64_t inputs, float deviation)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    plm_tensor matrix = weight(g, full, outputs, inputs, deviation);
    plm_tensor bias = vector(g, name, "bias", outputs, 0);
    return plm_linear(g, x, matrix, bias);
}

/* x [B,T,C] -> [B,T,C] */
static plm_tensor attention(plm_graph *g, const plm_model *m, plm_tensor x, float branch_deviation)
{
    int64_t width = m->width;
    x = norm(g, "ln1", x, width);
    x = linear(g, "attention.qkv", x, 3 * width, width, DEVIATION);
    x = plm_attention(g, x, (int32_t)m->heads, true);
    return linear(g, "attention.out", x, width, width, branch_deviation);
}

/* x [B,T,C] -> [B,T,C] */
static plm_tensor mlp(plm_graph *g, const plm_model *m, plm_tensor x, float branch_deviation)
{
    int64_t width = m->width;
    x = norm(g, "ln2", x, width);
    x = plm_gelu(g, linear(g, "mlp.up", x, 4 * width, width, DEVIATION));
    return linear(g, "mlp.down", x, width, 4 * width, branch_deviation);
}

/* Token ids [B,T] -> [B,T,C], and the token table for the head. */
static plm_tensor embed(plm_graph *g, const plm_model *m, plm_tensor tokens, plm_tensor *table)
{
    plm_layer(g, "embedding");
    *table = weight(g, "token.weight", m->vocab, m->width, DEVIATION);
    plm_tensor positions = weight(g, "position.weight", m->context, m->width, DEVIATION);
    return plm_dropout(g, plm_position(g, plm_embedding(g, tokens, *table), positions), m->dropout);
}

void plm__gpt_build(plm_graph *g, const void *config, plm_program program, int64_t batch,
                    int64_t sequence)
{
    const plm_model *m = config;
    const int64_t shape[2] = {batch, sequence};
    float branch_deviation = DEVIATION / sqrtf(2 * (float)m->layers);
    plm_tensor table, tokens = plm_input(g, "tokens", 2, shape);
    plm_tensor x = embed(g, m, tokens, &table);
    for (int64_t i = 0; i < m->layers; i++) {
        plm_block(g, (int32_t)i);
        x = plm_add(g, x, plm_dropout(g, attention(g, m, x, branch_deviation), m->dropout));
        x = plm_add(g, x, plm_dropout(g, mlp(g, m, x, branch_deviation), m->dropout));
    }
    plm_layer(g, "head");
    if (program == PLM_PROGRAM_GENERATE) {
        x = norm(g, "ln", plm_select(g, x), m->width);
        plm_output(g, plm_name(g, plm_linear(g, x, table, PLM_TENSOR_NONE), "logits"));
        return;
    }
    plm_tensor targets = plm_input(g, "targets", 2, shape);
    x = norm(g, "ln", x, m->width);
    plm_cross_entropy(g, plm_name(g, plm_linear(g, x, table, PLM_TENSOR_NONE), "logits"), targets);
}
