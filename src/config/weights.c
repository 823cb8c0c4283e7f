/* SPDX-License-Identifier: MIT */
/*
 * The list of a model's tensors: tables of rows, each with its name, its form, its lengths as
 * symbols, and what a model or a layer must have for the row to be there.
 */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "plimsoll/config.h"

/* Lengths of a model, by symbol. */
enum {
    ONE = 1, /* 0 ends a shape */
    VOCAB,
    POSITIONS,
    TYPES,
    WIDTH,
    TRIPLE, /* 3 WIDTH */
    MLP,
    MLP_TWICE,
    QUERIES, /* twice as many where queries bring a gate */
    KEYS,
    QKV,
    HEAD,
    VALUES, /* what o_proj takes */
    EXPERTS,
    EXPERT,
    EXPERT_TWICE,
    SHARED,
    QUERY_RANK,
    LATENT,
    LATENT_AND_ROTARY,
    LATENT_OUT,
    LINEAR_MIXED, /* queries, keys and values of linear attention */
    LINEAR_ALL,   /* and z */
    LINEAR_OUT,
    LINEAR_GATES, /* b and a */
    LINEAR_HEADS,
    LINEAR_HEAD,
    CONVOLUTION,
    TOWER,
    TOWER_TRIPLE,
    TOWER_MLP,
    TOWER_POSITIONS,
    CHANNELS,
    FRAMES,
    PATCH,
    MERGED,
    TOWER_OUT,
    LENGTH_COUNT
};

/* What a row asks for. */
enum {
    HAS_TOKENS = 1u << 0, /* a head that tells tokens */
    IS_BASE = 1u << 1,
    IS_UNTIED = 1u << 2,
    SPLIT = 1u << 3, /* attention with a product each for queries, keys and values */
    FUSED = 1u << 4, /* with one */
    NORMS_HEADS = 1u << 5,
    IS_LATENT = 1u << 6,
    RANKED = 1u << 7,
    UNRANKED = 1u << 8,
    SOFTMAX = 1u << 9, /* any of these */
    IS_LINEAR = 1u << 10,
    LINEAR_FUSED = 1u << 11,
    LINEAR_SPLIT = 1u << 12,
    FOUR_NORMS = 1u << 13,
    DENSE = 1u << 14,
    DENSE_FUSED = 1u << 15,
    SPARSE = 1u << 16,
    EXPERTS_APART = 1u << 17,    /* in files */
    EXPERTS_TOGETHER = 1u << 18, /* in memory */
    MIXTRAL = 1u << 19,
    NOT_MIXTRAL = 1u << 20,
    SHARES = 1u << 21,     /* experts that all tokens go through */
    SHARES_ONE = 1u << 22, /* one with a gate */
    ROUTER_BIAS = 1u << 23,
    POOLS = 1u << 24,
    /* biases */
    QKV_BIAS = 1u << 25,
    OUT_BIAS = 1u << 26,
    MLP_BIAS = 1u << 27,
    ALWAYS = 1u << 28
};

typedef struct weight_row {
    const char *name; /* '#' is the number of an expert; ".weight" is left out but of FREE */
    plm_weight_form form;
    plm_weight_part part;
    unsigned char shape[PLM_WEIGHT_RANK_MAX];
    unsigned needs;
    unsigned bias; /* with a bias too, where the model has this */
} weight_row;

#define MATRIX(name, part, out, in, needs, bias)                                                   \
    {                                                                                              \
        name, PLM_WEIGHT_MATRIX, PLM_WEIGHT_##part, {out, in}, needs, bias                         \
    }
#define MATRIX_T(name, part, in, out)                                                              \
    {                                                                                              \
        name, PLM_WEIGHT_MATRIX_T, PLM_WEIGHT_##part, {in, out}, ALWAYS, ALWAYS                    \
    }
#define SCALE(name, part, width, needs)                                                            \
    {                                                                                              \
        name, PLM_WEIGHT_SCALE, PLM_WEIGHT_##part, {width}, needs, 0                               \
    }
#define LAYER_NORM(name, part, width, needs)                                                       \
    {                                                                                              \
        name, PLM_WEIGHT_SCALE, PLM_WEIGHT_##part, {width}, needs, ALWAYS                          \
    }
#define TABLE(name, part, rows, width, needs)                                                      \
    {                                                                                              \
        name, PLM_WEIGHT_TABLE, PLM_WEIGHT_##part, {rows, width}, needs, 0                         \
    }
#define FREE(name, part, needs, ...)                                                               \
    {                                                                                              \
        name, PLM_WEIGHT_FREE, PLM_WEIGHT_##part, {__VA_ARGS__}, needs, 0                          \
    }
#define EXPERT_ROW(name, needs, ...)                                                               \
    {                                                                                              \
        name, PLM_WEIGHT_EXPERT, PLM_WEIGHT_ROUTED_EXPERTS, {__VA_ARGS__}, needs, 0                \
    }
#define GATES(name, needs)                                                                         \
    {                                                                                              \
        name, PLM_WEIGHT_GATES, PLM_WEIGHT_ROUTER, {EXPERTS, WIDTH}, needs, 0                      \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, PLM_WEIGHT_FREE, PLM_WEIGHT_HEAD, {0}, 0, 0                                          \
    }

static const weight_row decoder_first[] = {
    TABLE("embed_tokens", TOKEN_EMBEDDING, VOCAB, WIDTH, ALWAYS),
    END,
};

static const weight_row decoder_layer[] = {
    SCALE("input_layernorm", NORM, WIDTH, ALWAYS),
    MATRIX("self_attn.q_proj", ATTENTION, QUERIES, WIDTH, SPLIT, QKV_BIAS),
    MATRIX("self_attn.k_proj", ATTENTION, KEYS, WIDTH, SPLIT, QKV_BIAS),
    MATRIX("self_attn.v_proj", ATTENTION, KEYS, WIDTH, SPLIT, QKV_BIAS),
    SCALE("self_attn.q_norm", NORM, HEAD, SPLIT | NORMS_HEADS),
    SCALE("self_attn.k_norm", NORM, HEAD, SPLIT | NORMS_HEADS),
    MATRIX("self_attn.qkv_proj", ATTENTION, QKV, WIDTH, FUSED, 0),
    MATRIX("self_attn.q_proj", ATTENTION, QUERIES, WIDTH, IS_LATENT | UNRANKED, 0),
    MATRIX("self_attn.q_a_proj", ATTENTION, QUERY_RANK, WIDTH, IS_LATENT | RANKED, OUT_BIAS),
    SCALE("self_attn.q_a_layernorm", NORM, QUERY_RANK, IS_LATENT | RANKED),
    MATRIX("self_attn.q_b_proj", ATTENTION, QUERIES, QUERY_RANK, IS_LATENT | RANKED, 0),
    MATRIX("self_attn.kv_a_proj_with_mqa", ATTENTION, LATENT_AND_ROTARY, WIDTH, IS_LATENT,
           OUT_BIAS),
    SCALE("self_attn.kv_a_layernorm", NORM, LATENT, IS_LATENT),
    MATRIX("self_attn.kv_b_proj", ATTENTION, LATENT_OUT, LATENT, IS_LATENT, 0),
    MATRIX("self_attn.o_proj", ATTENTION, WIDTH, VALUES, SOFTMAX, OUT_BIAS),
    FREE("linear_attn.dt_bias", LINEAR_ATTENTION, IS_LINEAR, LINEAR_HEADS),
    FREE("linear_attn.A_log", LINEAR_ATTENTION, IS_LINEAR, LINEAR_HEADS),
    {"linear_attn.conv1d",
     PLM_WEIGHT_FILTER,
     PLM_WEIGHT_LINEAR_ATTENTION,
     {LINEAR_MIXED, ONE, CONVOLUTION},
     IS_LINEAR,
     0},
    MATRIX("linear_attn.in_proj_qkvz", LINEAR_ATTENTION, LINEAR_ALL, WIDTH, LINEAR_FUSED, 0),
    MATRIX("linear_attn.in_proj_ba", LINEAR_ATTENTION, LINEAR_GATES, WIDTH, LINEAR_FUSED, 0),
    MATRIX("linear_attn.in_proj_qkv", LINEAR_ATTENTION, LINEAR_MIXED, WIDTH, LINEAR_SPLIT, 0),
    MATRIX("linear_attn.in_proj_z", LINEAR_ATTENTION, LINEAR_OUT, WIDTH, LINEAR_SPLIT, 0),
    MATRIX("linear_attn.in_proj_b", LINEAR_ATTENTION, LINEAR_HEADS, WIDTH, LINEAR_SPLIT, 0),
    MATRIX("linear_attn.in_proj_a", LINEAR_ATTENTION, LINEAR_HEADS, WIDTH, LINEAR_SPLIT, 0),
    SCALE("linear_attn.norm", NORM, LINEAR_HEAD, IS_LINEAR),
    MATRIX("linear_attn.out_proj", LINEAR_ATTENTION, WIDTH, LINEAR_OUT, IS_LINEAR, 0),
    SCALE("post_attention_layernorm", NORM, WIDTH, ALWAYS),
    SCALE("pre_feedforward_layernorm", NORM, WIDTH, FOUR_NORMS),
    SCALE("post_feedforward_layernorm", NORM, WIDTH, FOUR_NORMS),
    MATRIX("mlp.gate_proj", MLP, MLP, WIDTH, DENSE, MLP_BIAS),
    MATRIX("mlp.up_proj", MLP, MLP, WIDTH, DENSE, MLP_BIAS),
    MATRIX("mlp.down_proj", MLP, WIDTH, MLP, DENSE, MLP_BIAS),
    MATRIX("mlp.gate_up_proj", MLP, MLP_TWICE, WIDTH, DENSE_FUSED, 0),
    MATRIX("mlp.down_proj", MLP, WIDTH, MLP, DENSE_FUSED, 0),
    GATES("mlp.gate", SPARSE | NOT_MIXTRAL),
    GATES("block_sparse_moe.gate", SPARSE | MIXTRAL),
    {"mlp.gate.e_score_correction_bias",
     PLM_WEIGHT_BUFFER,
     PLM_WEIGHT_ROUTER,
     {EXPERTS},
     SPARSE | ROUTER_BIAS,
     0},
    EXPERT_ROW("mlp.experts.#.gate_proj", SPARSE | NOT_MIXTRAL | EXPERTS_APART, EXPERT, WIDTH),
    EXPERT_ROW("mlp.experts.#.up_proj", SPARSE | NOT_MIXTRAL | EXPERTS_APART, EXPERT, WIDTH),
    EXPERT_ROW("mlp.experts.#.down_proj", SPARSE | NOT_MIXTRAL | EXPERTS_APART, WIDTH, EXPERT),
    EXPERT_ROW("block_sparse_moe.experts.#.w1", SPARSE | MIXTRAL | EXPERTS_APART, EXPERT, WIDTH),
    EXPERT_ROW("block_sparse_moe.experts.#.w2", SPARSE | MIXTRAL | EXPERTS_APART, WIDTH, EXPERT),
    EXPERT_ROW("block_sparse_moe.experts.#.w3", SPARSE | MIXTRAL | EXPERTS_APART, EXPERT, WIDTH),
    EXPERT_ROW("mlp.experts.gate_up_proj", SPARSE | EXPERTS_TOGETHER, EXPERTS, EXPERT_TWICE, WIDTH),
    EXPERT_ROW("mlp.experts.down_proj", SPARSE | EXPERTS_TOGETHER, EXPERTS, WIDTH, EXPERT),
    MATRIX("mlp.shared_experts.gate_proj", SHARED_EXPERTS, SHARED, WIDTH, SPARSE | SHARES,
           MLP_BIAS),
    MATRIX("mlp.shared_experts.up_proj", SHARED_EXPERTS, SHARED, WIDTH, SPARSE | SHARES, MLP_BIAS),
    MATRIX("mlp.shared_experts.down_proj", SHARED_EXPERTS, WIDTH, SHARED, SPARSE | SHARES,
           MLP_BIAS),
    MATRIX("mlp.shared_expert.gate_proj", SHARED_EXPERTS, SHARED, WIDTH, SPARSE | SHARES_ONE, 0),
    MATRIX("mlp.shared_expert.up_proj", SHARED_EXPERTS, SHARED, WIDTH, SPARSE | SHARES_ONE, 0),
    MATRIX("mlp.shared_expert.down_proj", SHARED_EXPERTS, WIDTH, SHARED, SPARSE | SHARES_ONE, 0),
    MATRIX("mlp.shared_expert_gate", ROUTER, ONE, WIDTH, SPARSE | SHARES_ONE, 0),
    END,
};

static const weight_row decoder_last[] = {
    SCALE("norm", NORM, WIDTH, ALWAYS),
    END,
};

static const weight_row untied_head[] = {
    {"lm_head", PLM_WEIGHT_MATRIX, PLM_WEIGHT_LM_HEAD, {VOCAB, WIDTH}, HAS_TOKENS | IS_UNTIED, 0},
    END,
};

static const weight_row gpt2_first[] = {
    TABLE("wte", TOKEN_EMBEDDING, VOCAB, WIDTH, ALWAYS),
    TABLE("wpe", OTHER_EMBEDDING, POSITIONS, WIDTH, ALWAYS),
    END,
};

static const weight_row gpt2_layer[] = {
    LAYER_NORM("ln_1", NORM, WIDTH, ALWAYS),
    MATRIX_T("attn.c_attn", ATTENTION, WIDTH, TRIPLE),
    MATRIX_T("attn.c_proj", ATTENTION, WIDTH, WIDTH),
    LAYER_NORM("ln_2", NORM, WIDTH, ALWAYS),
    MATRIX_T("mlp.c_fc", MLP, WIDTH, MLP),
    MATRIX_T("mlp.c_proj", MLP, MLP, WIDTH),
    END,
};

static const weight_row gpt2_last[] = {
    LAYER_NORM("ln_f", NORM, WIDTH, ALWAYS),
    END,
};

static const weight_row bert_first[] = {
    TABLE("embeddings.word_embeddings", TOKEN_EMBEDDING, VOCAB, WIDTH, ALWAYS),
    TABLE("embeddings.position_embeddings", OTHER_EMBEDDING, POSITIONS, WIDTH, ALWAYS),
    TABLE("embeddings.token_type_embeddings", OTHER_EMBEDDING, TYPES, WIDTH, ALWAYS),
    LAYER_NORM("embeddings.LayerNorm", NORM, WIDTH, ALWAYS),
    END,
};

static const weight_row bert_layer[] = {
    MATRIX("attention.self.query", ATTENTION, WIDTH, WIDTH, ALWAYS, ALWAYS),
    MATRIX("attention.self.key", ATTENTION, WIDTH, WIDTH, ALWAYS, ALWAYS),
    MATRIX("attention.self.value", ATTENTION, WIDTH, WIDTH, ALWAYS, ALWAYS),
    MATRIX("attention.output.dense", ATTENTION, WIDTH, WIDTH, ALWAYS, ALWAYS),
    LAYER_NORM("attention.output.LayerNorm", NORM, WIDTH, ALWAYS),
    MATRIX("intermediate.dense", MLP, MLP, WIDTH, ALWAYS, ALWAYS),
    MATRIX("output.dense", MLP, WIDTH, MLP, ALWAYS, ALWAYS),
    LAYER_NORM("output.LayerNorm", NORM, WIDTH, ALWAYS),
    END,
};

static const weight_row bert_last[] = {
    MATRIX("pooler.dense", HEAD, WIDTH, WIDTH, IS_BASE, ALWAYS),
    END,
};

static const weight_row bert_head[] = {
    FREE("cls.predictions.bias", HEAD, HAS_TOKENS, VOCAB),
    MATRIX("cls.predictions.transform.dense", HEAD, WIDTH, WIDTH, HAS_TOKENS, ALWAYS),
    LAYER_NORM("cls.predictions.transform.LayerNorm", HEAD, WIDTH, HAS_TOKENS),
    {"cls.predictions.decoder",
     PLM_WEIGHT_MATRIX,
     PLM_WEIGHT_LM_HEAD,
     {VOCAB, WIDTH},
     HAS_TOKENS | IS_UNTIED,
     0},
    END,
};

static const weight_row siglip_first[] = {
    {"embeddings.patch_embedding",
     PLM_WEIGHT_FILTER,
     PLM_WEIGHT_VISION,
     {TOWER, CHANNELS, PATCH, PATCH},
     ALWAYS,
     ALWAYS},
    TABLE("embeddings.position_embedding", VISION, TOWER_POSITIONS, TOWER, ALWAYS),
    END,
};

static const weight_row siglip_layer[] = {
    LAYER_NORM("layer_norm1", VISION, TOWER, ALWAYS),
    MATRIX("self_attn.k_proj", VISION, TOWER, TOWER, ALWAYS, ALWAYS),
    MATRIX("self_attn.v_proj", VISION, TOWER, TOWER, ALWAYS, ALWAYS),
    MATRIX("self_attn.q_proj", VISION, TOWER, TOWER, ALWAYS, ALWAYS),
    MATRIX("self_attn.out_proj", VISION, TOWER, TOWER, ALWAYS, ALWAYS),
    LAYER_NORM("layer_norm2", VISION, TOWER, ALWAYS),
    MATRIX("mlp.fc1", VISION, TOWER_MLP, TOWER, ALWAYS, ALWAYS),
    MATRIX("mlp.fc2", VISION, TOWER, TOWER_MLP, ALWAYS, ALWAYS),
    END,
};

static const weight_row siglip_last[] = {
    LAYER_NORM("post_layernorm", VISION, TOWER, ALWAYS),
    FREE("head.probe", VISION, POOLS, ONE, ONE, TOWER),
    FREE("head.attention.in_proj_weight", VISION, POOLS, TOWER_TRIPLE, TOWER),
    FREE("head.attention.in_proj_bias", VISION, POOLS, TOWER_TRIPLE),
    FREE("head.attention.out_proj.weight", VISION, POOLS, TOWER, TOWER),
    FREE("head.attention.out_proj.bias", VISION, POOLS, TOWER),
    LAYER_NORM("head.layernorm", VISION, TOWER, POOLS),
    MATRIX("head.mlp.fc1", VISION, TOWER_MLP, TOWER, POOLS, ALWAYS),
    MATRIX("head.mlp.fc2", VISION, TOWER, TOWER_MLP, POOLS, ALWAYS),
    END,
};

static const weight_row siglip_projector[] = {
    FREE("multi_modal_projector.mm_input_projection_weight", VISION, ALWAYS, TOWER, WIDTH),
    SCALE("multi_modal_projector.mm_soft_emb_norm", VISION, TOWER, ALWAYS),
    END,
};

static const weight_row qwen_first[] = {
    {"patch_embed.proj",
     PLM_WEIGHT_FILTER,
     PLM_WEIGHT_VISION,
     {TOWER, CHANNELS, FRAMES, PATCH, PATCH},
     ALWAYS,
     ALWAYS},
    TABLE("pos_embed", VISION, TOWER_POSITIONS, TOWER, ALWAYS),
    END,
};

static const weight_row qwen_layer[] = {
    LAYER_NORM("norm1", VISION, TOWER, ALWAYS),
    MATRIX("attn.qkv", VISION, TOWER_TRIPLE, TOWER, ALWAYS, ALWAYS),
    MATRIX("attn.proj", VISION, TOWER, TOWER, ALWAYS, ALWAYS),
    LAYER_NORM("norm2", VISION, TOWER, ALWAYS),
    MATRIX("mlp.linear_fc1", VISION, TOWER_MLP, TOWER, ALWAYS, ALWAYS),
    MATRIX("mlp.linear_fc2", VISION, TOWER, TOWER_MLP, ALWAYS, ALWAYS),
    END,
};

static const weight_row qwen_last[] = {
    LAYER_NORM("merger.norm", VISION, TOWER, ALWAYS),
    MATRIX("merger.linear_fc1", VISION, MERGED, MERGED, ALWAYS, ALWAYS),
    MATRIX("merger.linear_fc2", VISION, TOWER_OUT, MERGED, ALWAYS, ALWAYS),
    END,
};

/* One list after the other: what stands before the layers, a layer, what stands behind them, and
 * what stands outside of the prefix. */
typedef struct weight_shelf {
    const weight_row *first, *layer, *last, *outside;
    const char *layers; /* "layers." */
} weight_shelf;

enum { SHELF_DECODER, SHELF_GPT2, SHELF_BERT };

static const weight_shelf shelves[] = {
    [SHELF_DECODER] = {decoder_first, decoder_layer, decoder_last, untied_head, "layers."},
    [SHELF_GPT2] = {gpt2_first, gpt2_layer, gpt2_last, untied_head, "h."},
    [SHELF_BERT] = {bert_first, bert_layer, bert_last, bert_head, "encoder.layer."},
};

static const weight_shelf tower_shelves[] = {
    [PLM_CONFIG_TOWER_SIGLIP] = {siglip_first, siglip_layer, siglip_last, siglip_projector,
                                 "encoder.layers."},
    [PLM_CONFIG_TOWER_QWEN] = {qwen_first, qwen_layer, qwen_last, NULL, "blocks."},
};

/* What a family's tensors are called and have. */
typedef struct weight_habit {
    int shelf;
    const char *prefix;      /* of a model with a head; a base model has none */
    const char *head_prefix; /* before lm_head */
    const char *tower_prefix;
    unsigned attention, linear, mlp; /* of such a layer */
    unsigned all;
} weight_habit;

static const weight_habit habits[PLM_CONFIG_FAMILY_COUNT] = {
    [PLM_CONFIG_GPT2] = {SHELF_GPT2, "transformer.", "", "", 0, 0, 0, 0},
    [PLM_CONFIG_BERT] = {SHELF_BERT, "bert.", "", "", 0, 0, 0, 0},
    [PLM_CONFIG_LLAMA] = {SHELF_DECODER, "model.", "", "", SPLIT, 0, DENSE, 0},
    [PLM_CONFIG_MISTRAL] = {SHELF_DECODER, "model.", "", "", SPLIT, 0, DENSE, 0},
    [PLM_CONFIG_QWEN2] = {SHELF_DECODER, "model.", "", "", SPLIT, 0, DENSE, 0},
    [PLM_CONFIG_QWEN3] = {SHELF_DECODER, "model.", "", "", SPLIT, 0, DENSE, NORMS_HEADS},
    [PLM_CONFIG_GEMMA2] = {SHELF_DECODER, "model.", "", "", SPLIT, 0, DENSE, FOUR_NORMS},
    [PLM_CONFIG_GEMMA3_TEXT] = {SHELF_DECODER, "model.", "", "", SPLIT, 0, DENSE,
                                FOUR_NORMS | NORMS_HEADS},
    [PLM_CONFIG_GEMMA3] = {SHELF_DECODER, "language_model.model.", "language_model.",
                           "vision_tower.", SPLIT, 0, DENSE, FOUR_NORMS | NORMS_HEADS},
    [PLM_CONFIG_PHI3] = {SHELF_DECODER, "model.", "", "", FUSED, 0, DENSE_FUSED, 0},
    [PLM_CONFIG_MIXTRAL] = {SHELF_DECODER, "model.", "", "", SPLIT, 0, DENSE, MIXTRAL},
    [PLM_CONFIG_QWEN3_MOE] = {SHELF_DECODER, "model.", "", "", SPLIT, 0, DENSE,
                              NORMS_HEADS | NOT_MIXTRAL},
    [PLM_CONFIG_DEEPSEEK_V2] = {SHELF_DECODER, "model.", "", "", IS_LATENT, 0, DENSE, NOT_MIXTRAL},
    [PLM_CONFIG_DEEPSEEK_V3] = {SHELF_DECODER, "model.", "", "", IS_LATENT, 0, DENSE,
                                NOT_MIXTRAL | ROUTER_BIAS},
    [PLM_CONFIG_QWEN3_NEXT] = {SHELF_DECODER, "model.", "", "", SPLIT, LINEAR_FUSED, DENSE,
                               NORMS_HEADS | NOT_MIXTRAL},
    [PLM_CONFIG_QWEN3_5_TEXT] = {SHELF_DECODER, "model.", "", "", SPLIT, LINEAR_SPLIT, DENSE,
                                 NORMS_HEADS},
    [PLM_CONFIG_QWEN3_5] = {SHELF_DECODER, "model.language_model.", "", "model.visual.", SPLIT,
                            LINEAR_SPLIT, DENSE, NORMS_HEADS},
};

/* The walk over a model's tensors. */
typedef struct weight_walk {
    const plm_config *config;
    plm_weight_visit *visit;
    void *user;
    int64_t lengths[LENGTH_COUNT];
    const char *prefix;
    const char *layers; /* between the prefix and a layer's number */
    bool is_in_tower;
} weight_walk;

static void measure_tower(const plm_config_tower *tower, int64_t lengths[LENGTH_COUNT])
{
    int64_t patches = tower->patch > 0 ? tower->image / tower->patch : 0;
    lengths[TOWER] = tower->width;
    lengths[TOWER_TRIPLE] = 3 * tower->width;
    lengths[TOWER_MLP] = tower->mlp_width;
    lengths[TOWER_POSITIONS] =
        tower->kind == PLM_CONFIG_TOWER_QWEN ? tower->positions : patches * patches;
    lengths[CHANNELS] = tower->channels;
    lengths[FRAMES] = tower->frames;
    lengths[PATCH] = tower->patch;
    lengths[MERGED] = tower->width * tower->merge * tower->merge;
    lengths[TOWER_OUT] = tower->out_width;
}

static void measure_attention(const plm_config *c, int64_t lengths[LENGTH_COUNT])
{
    int64_t keys = c->linear_key_heads * c->linear_key_width;
    int64_t values = c->linear_value_heads * c->linear_value_width;
    bool has_gate = c->convolution > 0; /* of queries, in hybrid models */
    lengths[HEAD] = c->head_width;
    lengths[QUERIES] = c->heads * c->head_width * (has_gate ? 2 : 1);
    lengths[KEYS] = c->kv_heads * c->head_width;
    lengths[QKV] = lengths[QUERIES] + 2 * lengths[KEYS];
    lengths[VALUES] = c->heads * (c->kv_rank > 0 ? c->value_head_width : c->head_width);
    lengths[QUERY_RANK] = c->query_rank;
    lengths[LATENT] = c->kv_rank;
    lengths[LATENT_AND_ROTARY] = c->kv_rank + c->rotary_head_width;
    lengths[LATENT_OUT] = c->heads * (c->plain_head_width + c->value_head_width);
    lengths[LINEAR_MIXED] = 2 * keys + values;
    lengths[LINEAR_ALL] = 2 * keys + 2 * values;
    lengths[LINEAR_OUT] = values;
    lengths[LINEAR_GATES] = 2 * c->linear_value_heads;
    lengths[LINEAR_HEADS] = c->linear_value_heads;
    lengths[LINEAR_HEAD] = c->linear_value_width;
    lengths[CONVOLUTION] = c->convolution;
}

static void measure(const plm_config *c, int64_t lengths[LENGTH_COUNT])
{
    lengths[ONE] = 1;
    lengths[VOCAB] = c->vocab;
    lengths[POSITIONS] = c->positions;
    lengths[TYPES] = c->types;
    lengths[WIDTH] = c->width;
    lengths[TRIPLE] = 3 * c->width;
    lengths[MLP] = c->mlp_width;
    lengths[MLP_TWICE] = 2 * c->mlp_width;
    lengths[EXPERTS] = c->experts;
    lengths[EXPERT] = c->expert_width;
    lengths[EXPERT_TWICE] = 2 * c->expert_width;
    lengths[SHARED] = c->shared_width > 0 ? c->shared_width : c->shared_experts * c->expert_width;
    measure_attention(c, lengths);
    measure_tower(&c->tower, lengths);
}

static unsigned bits_of_model(const plm_config *c, plm_weights_as as)
{
    unsigned bits = ALWAYS | habits[c->family].all;
    bits |= c->head == PLM_CONFIG_HEAD_TOKENS ? HAS_TOKENS : IS_BASE;
    bits |= c->is_tied ? 0 : IS_UNTIED;
    bits |= c->query_rank > 0 ? RANKED : UNRANKED;
    bits |= as == PLM_WEIGHTS_IN_FILES ? EXPERTS_APART : EXPERTS_TOGETHER;
    bits |= c->shared_width > 0 ? SHARES_ONE : c->shared_experts > 0 ? SHARES : 0;
    bits |= c->attention_bias || c->query_bias ? QKV_BIAS : 0;
    bits |= c->attention_bias ? OUT_BIAS : 0;
    bits |= c->mlp_bias ? MLP_BIAS : 0;
    bits |= c->tower.pools ? POOLS : 0;
    return bits;
}

static unsigned bits_of_layer(const plm_config *c, int64_t layer)
{
    const weight_habit *habit = &habits[c->family];
    bool is_linear = c->mixing[layer] == PLM_CONFIG_LINEAR;
    unsigned bits = is_linear ? IS_LINEAR | habit->linear : SOFTMAX | habit->attention;
    return bits | (c->has_experts[layer] ? SPARSE : habit->mlp);
}

/* Adds a piece of a name, '#' as the number of an expert. */
static void add_name(char name[PLM_WEIGHT_NAME_TEXT], const char *piece, int32_t expert)
{
    size_t length = strlen(name);
    for (; *piece && length + 12 < PLM_WEIGHT_NAME_TEXT; piece++) {
        if (*piece == '#')
            length += (size_t)snprintf(name + length, 12, "%d", expert);
        else
            name[length++] = *piece;
    }
    name[length] = '\0';
}

static void name_weight(const weight_walk *walk, const weight_row *row, plm_weight *weight)
{
    bool stands_alone = row->form == PLM_WEIGHT_FREE || row->form == PLM_WEIGHT_BUFFER ||
                        (row->form == PLM_WEIGHT_EXPERT && weight->expert < 0);
    snprintf(weight->name, sizeof weight->name, "%s", walk->prefix);
    if (weight->layer != PLM_WEIGHT_NO_LAYER) {
        size_t length = strlen(weight->name);
        snprintf(weight->name + length, sizeof weight->name - length, "%s%d.", walk->layers,
                 weight->layer);
    }
    add_name(weight->name, row->name, weight->expert);
    if (!stands_alone)
        add_name(weight->name, weight->form == PLM_WEIGHT_BIAS ? ".bias" : ".weight", 0);
}

static plm_status show(const weight_walk *walk, const weight_row *row, plm_weight *weight)
{
    weight->elements = 1;
    for (int i = 0; i < weight->rank; i++) {
        PLM_FAIL_IF(weight->shape[i] > PLM_CONFIG_ELEMENTS_MAX / weight->elements, PLM_ERROR_FORMAT,
                    "%s: wanted tensors of at most 2^50 elements, found more in %s",
                    walk->config->name, row->name);
        weight->elements *= weight->shape[i];
    }
    name_weight(walk, row, weight);
    return walk->visit(weight, walk->user);
}

/* A tensor of a row, and its bias. */
static plm_status show_row(const weight_walk *walk, const weight_row *row, unsigned bits,
                           int32_t layer, int32_t expert)
{
    plm_weight weight = {.form = row->form,
                         .part = row->part,
                         .layer = layer,
                         .expert = expert,
                         .is_in_tower = walk->is_in_tower};
    weight.unit = layer;
    if (walk->is_in_tower && layer != PLM_WEIGHT_NO_LAYER)
        weight.unit += (int32_t)walk->config->layers;
    while (weight.rank < PLM_WEIGHT_RANK_MAX && row->shape[weight.rank]) {
        weight.shape[weight.rank] = walk->lengths[row->shape[weight.rank]];
        weight.rank++;
    }
    PLM_TRY(show(walk, row, &weight));
    if (!(row->bias & bits))
        return PLM_OK;
    weight.shape[0] = weight.shape[row->form == PLM_WEIGHT_MATRIX_T ? 1 : 0];
    weight.rank = 1;
    weight.form = PLM_WEIGHT_BIAS;
    return show(walk, row, &weight);
}

static plm_status show_rows(const weight_walk *walk, const weight_row *rows, unsigned bits,
                            int32_t layer)
{
    for (const weight_row *row = rows; row && row->name; row++) {
        if ((row->needs & bits) != row->needs)
            continue;
        int32_t count = strchr(row->name, '#') ? (int32_t)walk->config->experts : 0;
        if (count == 0)
            PLM_TRY(show_row(walk, row, bits, layer, -1));
        for (int32_t expert = 0; expert < count; expert++)
            PLM_TRY(show_row(walk, row, bits, layer, expert));
    }
    return PLM_OK;
}

static plm_status show_model(weight_walk *walk, unsigned bits)
{
    const plm_config *c = walk->config;
    const weight_habit *habit = &habits[c->family];
    const weight_shelf *shelf = &shelves[habit->shelf];
    walk->prefix = c->head == PLM_CONFIG_HEAD_TOKENS ? habit->prefix : "";
    walk->layers = shelf->layers;
    PLM_TRY(show_rows(walk, shelf->first, bits, PLM_WEIGHT_NO_LAYER));
    for (int64_t i = 0; i < c->layers; i++)
        PLM_TRY(show_rows(walk, shelf->layer, bits | bits_of_layer(c, i), (int32_t)i));
    PLM_TRY(show_rows(walk, shelf->last, bits, PLM_WEIGHT_NO_LAYER));
    walk->prefix = habit->head_prefix;
    return show_rows(walk, shelf->outside, bits, PLM_WEIGHT_NO_LAYER);
}

static plm_status show_tower(weight_walk *walk, unsigned bits)
{
    const plm_config *c = walk->config;
    const weight_shelf *shelf = &tower_shelves[c->tower.kind];
    walk->prefix = habits[c->family].tower_prefix;
    walk->layers = shelf->layers;
    walk->is_in_tower = true;
    PLM_TRY(show_rows(walk, shelf->first, bits, PLM_WEIGHT_NO_LAYER));
    for (int64_t i = 0; i < c->tower.layers; i++)
        PLM_TRY(show_rows(walk, shelf->layer, bits, (int32_t)i));
    PLM_TRY(show_rows(walk, shelf->last, bits, PLM_WEIGHT_NO_LAYER));
    walk->prefix = "";
    return show_rows(walk, shelf->outside, bits, PLM_WEIGHT_NO_LAYER);
}

plm_status plm_config_weights(const plm_config *config, plm_weights_as as, plm_weight_visit *visit,
                              void *user)
{
    weight_walk walk = {.config = config, .visit = visit, .user = user};
    unsigned bits = bits_of_model(config, as);
    measure(config, walk.lengths);
    PLM_TRY(show_model(&walk, bits));
    return config->tower.kind != PLM_CONFIG_TOWER_NONE ? show_tower(&walk, bits) : PLM_OK;
}
