/* SPDX-License-Identifier: MIT */
/*
 * BERT (Devlin et al. 2019) with its masked-language head: the embedding is token + position +
 * type, normalised; blocks attend in both directions and normalise the sum after each branch; the
 * head has a product, a GELU and a normalisation of its own before the tied token table and its
 * bias. All weights start with deviation 0.02.
 */
#include "model/family.h"
#include "model/layers.h"

#define EPSILON 1e-12f

enum { TYPES = 2 }; /* first and second text of a pair */

/* Token ids and types [B,T] -> [B,T,C], and the token table for the head. */
static plm_tensor embed(plm_graph *g, const plm_model *m, plm_tensor tokens, plm_tensor types,
                        plm_tensor *table)
{
    plm_layer(g, "embedding");
    plm_tensor x = plm__layer_embedding(g, m, tokens, table);
    plm_tensor rows = plm__layer_weight(g, "type.weight", TYPES, m->width, PLM_LAYER_DEVIATION);
    x = plm_add(g, x, plm_embedding(g, types, rows));
    return plm_dropout(g, plm__layer_norm(g, "ln", x, m->width, EPSILON), m->dropout);
}

/* x [B,T,C] -> [B,T,C] */
static plm_tensor block(plm_graph *g, const plm_model *m, plm_tensor x)
{
    plm_tensor branch = plm__layer_attention(g, m, x, false, PLM_LAYER_DEVIATION);
    x = plm_add(g, x, plm_dropout(g, branch, m->dropout));
    x = plm__layer_norm(g, "ln1", x, m->width, EPSILON);
    branch = plm__layer_mlp(g, m, x, plm_gelu_exact, PLM_LAYER_DEVIATION);
    x = plm_add(g, x, plm_dropout(g, branch, m->dropout));
    return plm__layer_norm(g, "ln2", x, m->width, EPSILON);
}

/* x [..,C] -> logits [..,V] */
static plm_tensor head(plm_graph *g, const plm_model *m, plm_tensor x, plm_tensor table)
{
    x = plm__layer_linear(g, "dense", x, m->width, m->width, PLM_LAYER_DEVIATION);
    x = plm__layer_norm(g, "ln", plm_gelu_exact(g, x), m->width, EPSILON);
    plm_tensor bias =
        plm_parameter_padded(g, "decoder.bias", 1, &m->vocab, plm_init_constant(0), false);
    return plm_name(g, plm_linear(g, x, table, bias), "logits");
}

static void build(plm_graph *g, const void *config, plm_program program, int64_t batch,
                  int64_t sequence)
{
    const plm_model *m = config;
    const int64_t shape[2] = {batch, sequence};
    plm_tensor table, tokens = plm_input(g, "tokens", 2, shape);
    plm_tensor types = plm_input(g, "types", 2, shape);
    plm_tensor x = embed(g, m, tokens, types, &table);
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
    {"bert-base", &plm__family_bert, 12, 768, 12, 512, 30522, 0},
    {"bert-large", &plm__family_bert, 24, 1024, 16, 512, 30522, 0},
    {.name = ""},
};

const plm_family plm__family_bert = {
    .name = "bert",
    .keys = plm__transformer_keys,
    .presets = presets,
    .example = "bert:layers=4,width=128,heads=4,context=128,vocab=257",
    .trials = {.gpu = "bert:layers=1,width=768,heads=12,context=512,vocab=30522,dropout=0.1",
               .cpu = "bert:layers=1,width=512,heads=8,context=256,vocab=4096,dropout=0.1",
               .quick = "bert:layers=1,width=128,heads=2,context=64,vocab=512,dropout=0.1"},
    .build = build,
    .check = plm__transformer_check,
    .is_masked = true,
};
