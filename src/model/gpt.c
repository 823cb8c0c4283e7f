/* SPDX-License-Identifier: MIT */
/*
 * GPT as in GPT-2: pre-normalised blocks, learned positions, tied head. First values as there:
 * deviation 0.02, the two products that end a residual branch divided by sqrt(2 layers).
 */
#include <math.h>

#include "model/family.h"
#include "model/layers.h"

#define EPSILON 1e-5f

/* x [B,T,C] -> [B,T,C] */
static plm_tensor block(plm_graph *g, const plm_model *m, plm_tensor x)
{
    float deviation = PLM_LAYER_DEVIATION / sqrtf(2 * (float)m->layers);
    plm_tensor branch = plm__layer_norm(g, "ln1", x, m->width, EPSILON);
    branch = plm__layer_attention(g, m, branch, true, deviation);
    x = plm_add(g, x, plm_dropout(g, branch, m->dropout));
    branch = plm__layer_norm(g, "ln2", x, m->width, EPSILON);
    branch = plm__layer_mlp(g, m, branch, plm_gelu, deviation);
    return plm_add(g, x, plm_dropout(g, branch, m->dropout));
}

/* x [..,C] -> logits [..,V] */
static plm_tensor head(plm_graph *g, const plm_model *m, plm_tensor x, plm_tensor table)
{
    x = plm__layer_norm(g, "ln", x, m->width, EPSILON);
    return plm_name(g, plm_linear(g, x, table, PLM_TENSOR_NONE), "logits");
}

static void build(plm_graph *g, const void *config, plm_program program, int64_t batch,
                  int64_t sequence)
{
    const plm_model *m = config;
    const int64_t shape[2] = {batch, sequence};
    plm_tensor table, tokens = plm_input(g, "tokens", 2, shape);
    plm_layer(g, "embedding");
    plm_tensor x = plm_dropout(g, plm__layer_embedding(g, m, tokens, &table), m->dropout);
    for (int32_t i = 0; i < plm_blocks(g, m->layers); i++) {
        plm_block(g, i);
        x = block(g, m, x);
    }
    plm_layer(g, "head");
    if (program == PLM_PROGRAM_GENERATE) {
        plm_output(g, head(g, m, plm_select(g, x), table));
        return;
    }
    plm_tensor targets = plm_input(g, "targets", 2, shape);
    plm_cross_entropy(g, head(g, m, x, table), targets);
}

static const plm_model presets[] = {
#define PRESET(name, layers, width, heads)                                                         \
    {                                                                                              \
        name, &plm__family_gpt, layers, width, heads, 1024, 50257, 0                               \
    }
    PRESET("gpt2", 12, 768, 12),
    PRESET("gpt2-medium", 24, 1024, 16),
    PRESET("gpt2-large", 36, 1280, 20),
    PRESET("gpt2-xl", 48, 1600, 25),
#undef PRESET
    {.name = ""},
};

const plm_family plm__family_gpt = {
    .name = "gpt",
    .keys = plm__transformer_keys,
    .presets = presets,
    .example = "gpt:layers=4,width=128,heads=4,context=128,vocab=256",
    .trials = {.gpu = "gpt:layers=2,width=768,heads=12,context=1024,vocab=50257,dropout=0.1",
               .cpu = "gpt:layers=2,width=512,heads=8,context=256,vocab=4096,dropout=0.1",
               .quick = "gpt:layers=2,width=128,heads=2,context=64,vocab=512,dropout=0.1"},
    .build = build,
    .check = plm__transformer_check,
};
