/* SPDX-License-Identifier: MIT */
/* The layers that families share. */
#include "model/layers.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"

enum { DIMENSION_MAX = 1 << 28 };

const plm_model_key plm__transformer_keys[] = {
    {"layers", offsetof(plm_model, layers), PLM_BLOCKS_MAX},
    {"width", offsetof(plm_model, width), DIMENSION_MAX},
    {"heads", offsetof(plm_model, heads), DIMENSION_MAX},
    {"context", offsetof(plm_model, context), DIMENSION_MAX},
    {"vocab", offsetof(plm_model, vocab), DIMENSION_MAX},
    {"dropout", offsetof(plm_model, dropout), 0},
    {NULL, 0, 0},
};

plm_status plm__transformer_check(const plm_model *model)
{
    PLM_FAIL_IF(model->width % model->heads != 0, PLM_ERROR_ARGUMENT,
                "model description: wanted heads that divide the width of %" PRId64
                ", found %" PRId64,
                model->width, model->heads);
    return PLM_OK;
}

plm_tensor plm__layer_weight(plm_graph *g, const char *name, int64_t outputs, int64_t inputs,
                             float deviation)
{
    return plm_parameter(g, name, 2, (int64_t[]){outputs, inputs}, plm_init_normal(deviation),
                         true);
}

plm_tensor plm__layer_vector(plm_graph *g, const char *name, const char *part, int64_t width,
                             float value)
{
    char full[64];
    snprintf(full, sizeof full, "%s.%s", name, part);
    return plm_parameter(g, full, 1, &width, plm_init_constant(value), false);
}

plm_tensor plm__layer_norm(plm_graph *g, const char *name, plm_tensor x, int64_t width,
                           float epsilon)
{
    plm_tensor scale = plm__layer_vector(g, name, "weight", width, 1);
    plm_tensor bias = plm__layer_vector(g, name, "bias", width, 0);
    return plm_layer_norm(g, x, scale, bias, epsilon);
}

plm_tensor plm__layer_linear(plm_graph *g, const char *name, plm_tensor x, int64_t outputs,
                             int64_t inputs, float deviation)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    plm_tensor matrix = plm__layer_weight(g, full, outputs, inputs, deviation);
    plm_tensor bias = plm__layer_vector(g, name, "bias", outputs, 0);
    return plm_linear(g, x, matrix, bias);
}

plm_tensor plm__layer_embedding(plm_graph *g, const plm_model *m, plm_tensor tokens,
                                plm_tensor *table)
{
    *table = plm_parameter_padded(g, "token.weight", 2, (int64_t[]){m->vocab, m->width},
                                  plm_init_normal(PLM_LAYER_DEVIATION), true);
    plm_tensor positions =
        plm__layer_weight(g, "position.weight", m->context, m->width, PLM_LAYER_DEVIATION);
    return plm_position(g, plm_embedding(g, tokens, *table), positions);
}

plm_tensor plm__layer_attention(plm_graph *g, const plm_model *m, plm_tensor x, bool causal,
                                float deviation)
{
    int64_t width = m->width;
    x = plm__layer_linear(g, "attention.qkv", x, 3 * width, width, PLM_LAYER_DEVIATION);
    x = plm_attention(g, x, (int32_t)m->heads, (int32_t)m->heads, causal);
    return plm__layer_linear(g, "attention.out", x, width, width, deviation);
}

plm_tensor plm__layer_mlp(plm_graph *g, const plm_model *m, plm_tensor x,
                          plm_activation *activation, float deviation)
{
    int64_t width = m->width;
    x = activation(g, plm__layer_linear(g, "mlp.up", x, 4 * width, width, PLM_LAYER_DEVIATION));
    return plm__layer_linear(g, "mlp.down", x, width, 4 * width, deviation);
}
