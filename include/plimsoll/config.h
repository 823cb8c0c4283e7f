/* SPDX-License-Identifier: MIT */
/*
 * What a model is, from its config.json alone: its figures, and every tensor that it has.
 *
 *     plm_config config;
 *     plm_config_counts counts;
 *     if (plm_config_load("models/Qwen3-0.6B", &config) == PLM_OK &&
 *         plm_config_count(&config, &counts) == PLM_OK)
 *         ... counts.parameters ...
 *
 * Hugging Face's files are read in both dialects (`torch_dtype`, `rope_theta`, `rope_scaling` of
 * old; `dtype`, `rope_parameters` of transformers 5), and the language model of a multimodal file
 * from its `text_config`. A key that is absent has its class's default, which is seldom the value
 * of the best known checkpoint; published files leave out keys that equal it.
 *
 * Counts are elements, widths too. A figure that a family does not have is 0.
 *
 * A config is plain data without pointers, to be copied as one pleases. Thread-safe.
 */
#ifndef PLIMSOLL_CONFIG_H
#define PLIMSOLL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plimsoll/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PLM_CONFIG_FILE "config.json"

enum {
    PLM_CONFIG_NAME_TEXT = 64,
    PLM_CONFIG_LAYERS_MAX = 512,
    PLM_CONFIG_ROPE_FACTORS_MAX = 256 /* rotated pairs of a head */
};

/* The most elements that a model has, tensor by tensor and in all: sums of 16 bytes each fit. */
#define PLM_CONFIG_ELEMENTS_MAX ((int64_t)1 << 50)

/* One row a family: name, the model_type of its files. */
#define PLM_CONFIG_FAMILY_MAP(ROW)                                                                 \
    ROW(GPT2, "gpt2")                                                                              \
    ROW(BERT, "bert")                                                                              \
    ROW(LLAMA, "llama")                                                                            \
    ROW(MISTRAL, "mistral")                                                                        \
    ROW(QWEN2, "qwen2")                                                                            \
    ROW(QWEN3, "qwen3")                                                                            \
    ROW(GEMMA2, "gemma2")                                                                          \
    ROW(GEMMA3_TEXT, "gemma3_text")                                                                \
    ROW(GEMMA3, "gemma3") /* with a vision tower, as QWEN3_5 */                                    \
    ROW(PHI3, "phi3")                                                                              \
    ROW(MIXTRAL, "mixtral")                                                                        \
    ROW(QWEN3_MOE, "qwen3_moe")                                                                    \
    ROW(DEEPSEEK_V2, "deepseek_v2")                                                                \
    ROW(DEEPSEEK_V3, "deepseek_v3")                                                                \
    ROW(QWEN3_NEXT, "qwen3_next")                                                                  \
    ROW(QWEN3_5_TEXT, "qwen3_5_text")                                                              \
    ROW(QWEN3_5, "qwen3_5")

typedef enum plm_config_family {
#define PLM_CONFIG_FAMILY_ROW(name, text) PLM_CONFIG_##name,
    PLM_CONFIG_FAMILY_MAP(PLM_CONFIG_FAMILY_ROW)
#undef PLM_CONFIG_FAMILY_ROW
        PLM_CONFIG_FAMILY_COUNT
} plm_config_family;

/* What stands behind the last layer. */
typedef enum plm_config_head {
    PLM_CONFIG_HEAD_TOKENS, /* a language model's: LlamaForCausalLM, BertForMaskedLM */
    PLM_CONFIG_HEAD_NONE    /* a base model, LlamaModel; BertModel has its pooler */
} plm_config_head;

typedef enum plm_config_activation {
    PLM_CONFIG_GELU, /* by erf */
    PLM_CONFIG_GELU_TANH,
    PLM_CONFIG_SILU,
    PLM_CONFIG_RELU
} plm_config_activation;

/* How a layer mixes tokens. */
typedef enum plm_config_mixing {
    PLM_CONFIG_FULL,    /* attention to all tokens before */
    PLM_CONFIG_SLIDING, /* to `window` tokens, the token itself among them */
    PLM_CONFIG_LINEAR   /* linear attention, which keeps a state and no tokens */
} plm_config_mixing;

typedef enum plm_config_rope_kind {
    PLM_CONFIG_ROPE_PLAIN,
    PLM_CONFIG_ROPE_LINEAR,
    PLM_CONFIG_ROPE_DYNAMIC,
    PLM_CONFIG_ROPE_LLAMA3,
    PLM_CONFIG_ROPE_YARN,
    PLM_CONFIG_ROPE_LONG
} plm_config_rope_kind;

/* Rotary positions and how they are stretched. What a kind does not use is 0. */
typedef struct plm_config_rope {
    plm_config_rope_kind kind;
    double theta;
    double factor;                        /* of every stretching kind; LONG: 0, none is told */
    double low_frequency, high_frequency; /* LLAMA3 */
    double beta_fast, beta_slow;          /* YARN */
    double magnitude, magnitude_all;      /* YARN: mscale, mscale_all_dim */
    double attention_factor;              /* YARN, LONG: of cosines and sines; 0: derived */
    int64_t original_positions;           /* LLAMA3, YARN, LONG */
    int32_t factor_count;                 /* LONG: of each of the lists */
    float short_factors[PLM_CONFIG_ROPE_FACTORS_MAX];
    float long_factors[PLM_CONFIG_ROPE_FACTORS_MAX];
} plm_config_rope;

typedef enum plm_config_tower_kind {
    PLM_CONFIG_TOWER_NONE,
    PLM_CONFIG_TOWER_SIGLIP, /* Gemma 3's */
    PLM_CONFIG_TOWER_QWEN    /* Qwen3.5's */
} plm_config_tower_kind;

/* The vision tower of a multimodal model, as far as its weights need it. */
typedef struct plm_config_tower {
    plm_config_tower_kind kind;
    int64_t width, layers, heads, mlp_width;
    int64_t channels, image, patch;   /* pixels */
    int64_t positions;                /* QWEN: rows of its table */
    int64_t frames, merge, out_width; /* QWEN: frames of a patch, patches merged each way */
    bool pools;                       /* SIGLIP: a head that pools */
} plm_config_tower;

/* How the weights of the checkpoint are stored, where they are quantised. */
typedef enum plm_config_quantizer {
    PLM_CONFIG_QUANTIZER_NONE,
    PLM_CONFIG_QUANTIZER_FP8,  /* a byte, and fp32 scales of blocks */
    PLM_CONFIG_QUANTIZER_GPTQ, /* bits, and scales, zeros and order of groups; AWQ alike */
    PLM_CONFIG_QUANTIZER_BITS, /* bitsandbytes, 4 or 8 bits */
    PLM_CONFIG_QUANTIZER_OTHER /* `quantizer_name` */
} plm_config_quantizer;

typedef struct plm_config {
    char name[PLM_CONFIG_NAME_TEXT]; /* of the file without its ending, or of its folder */
    plm_config_family family;
    plm_config_head head;
    plm_dtype dtype;  /* that the weights are stored in */
    bool tells_dtype; /* false: the file has none, and `dtype` is fp32 */
    int64_t vocab;    /* rows of the token table */
    int64_t width;    /* of the residual stream */
    int64_t layers;
    int64_t heads;    /* of queries */
    int64_t kv_heads; /* of keys and values; divides heads */
    int64_t head_width;
    int64_t mlp_width; /* of dense layers */
    int64_t positions; /* the longest sequence; rows of the position table of GPT-2 and BERT */
    int64_t types;     /* BERT: rows of the type table */
    plm_config_activation activation;
    double norm_epsilon;
    double dropout, attention_dropout, embedding_dropout;
    bool is_tied;        /* the head is the token table */
    bool attention_bias; /* of products with queries, keys and values, and of the one behind */
    bool query_bias;     /* of queries, keys and values alone */
    bool mlp_bias;
    bool scales_by_layer; /* GPT-2: scale_attn_by_inverse_layer_idx */
    /* windows and soft caps */
    int64_t window;                  /* of sliding layers; 0: there are none */
    double query_scale;              /* Gemma: scores are divided by its root; 0: head_width */
    double attention_cap, logit_cap; /* Gemma; 0: none */
    /* positions by rotation: of full layers, and of sliding ones where they have their own */
    plm_config_rope rope, local_rope;
    double rotary_share; /* of a head's width that is rotated */
    /* experts */
    int64_t experts;        /* of a layer of experts; 0: all layers are dense */
    int64_t chosen_experts; /* for each token */
    int64_t expert_width;
    int64_t shared_experts; /* that every token goes through, side by side */
    int64_t shared_width;   /* of one that all share, with a gate of its own: Qwen3-Next */
    bool normalizes_choice; /* weights of the chosen sum to 1 */
    double routed_scale;
    int64_t expert_groups, chosen_groups; /* DeepSeek-V3 */
    /* latent attention: kv_rank over 0 */
    int64_t query_rank; /* 0: queries are made at once */
    int64_t kv_rank, plain_head_width, rotary_head_width, value_head_width;
    /* linear attention */
    int64_t linear_key_heads, linear_value_heads, linear_key_width, linear_value_width;
    int64_t convolution; /* tokens that its convolution sees */
    plm_config_tower tower;
    plm_config_quantizer quantizer;
    char quantizer_name[24];
    int64_t quantizer_bits, quantizer_group;    /* GPTQ; FP8: edge of a block; 0: per tensor */
    uint8_t mixing[PLM_CONFIG_LAYERS_MAX];      /* plm_config_mixing, by layer */
    uint8_t has_experts[PLM_CONFIG_LAYERS_MAX]; /* by layer; 0: its MLP is dense */
} plm_config;

/* "llama", ...: the model_type of a family's files; static. */
const char *plm_config_family_text(plm_config_family family);

/*
 * *config = what a config.json says, or the one in the folder `path`. PLM_ERROR_IO for a file that
 * is missing or unreadable; PLM_ERROR_FORMAT for malformed JSON and for a key that is missing or
 * whose value is of a wrong type, out of range or at odds with another's: the message names the
 * file and the key, what was found and what is wanted; PLM_ERROR_UNSUPPORTED for an unknown
 * architecture, with those that are known; PLM_ERROR_HOST_MEMORY. *config is then as it was.
 */
PLM_MUST_USE plm_status plm_config_load(const char *path, plm_config *config);

/* The same from memory, at most 1 MiB; `name` stands for the file in messages. */
PLM_MUST_USE plm_status plm_config_read(const char *name, const void *bytes, size_t byte_count,
                                        plm_config *config);

/* What a tensor is for. One row a part: name, text. */
#define PLM_WEIGHT_PART_MAP(ROW)                                                                   \
    ROW(TOKEN_EMBEDDING, "token_embedding")                                                        \
    ROW(OTHER_EMBEDDING, "other_embedding") /* of positions and types */                           \
    ROW(ATTENTION, "attention")                                                                    \
    ROW(LINEAR_ATTENTION, "linear_attention")                                                      \
    ROW(MLP, "mlp")                                                                                \
    ROW(ROUTED_EXPERTS, "routed_experts")                                                          \
    ROW(SHARED_EXPERTS, "shared_experts")                                                          \
    ROW(ROUTER, "router")                                                                          \
    ROW(NORM, "norm")                                                                              \
    ROW(HEAD, "head") /* BERT's, before the token table, and its pooler */                         \
    ROW(LM_HEAD, "lm_head")                                                                        \
    ROW(VISION, "vision")

typedef enum plm_weight_part {
#define PLM_WEIGHT_PART_ROW(name, text) PLM_WEIGHT_##name,
    PLM_WEIGHT_PART_MAP(PLM_WEIGHT_PART_ROW)
#undef PLM_WEIGHT_PART_ROW
        PLM_WEIGHT_PART_COUNT
} plm_weight_part;

/* How a tensor is held. */
typedef enum plm_weight_form {
    PLM_WEIGHT_TABLE,    /* [rows, width], of which rows are looked up */
    PLM_WEIGHT_MATRIX,   /* [out, in], of a module that multiplies by it (nn.Linear) */
    PLM_WEIGHT_MATRIX_T, /* [in, out], GPT-2's (Conv1D) */
    PLM_WEIGHT_BIAS,     /* [out] */
    PLM_WEIGHT_SCALE,    /* of a normalisation, [width] */
    PLM_WEIGHT_GATES,    /* [experts, width] of a router */
    PLM_WEIGHT_EXPERT,   /* [out, in] of one expert, or [experts, out, in] */
    PLM_WEIGHT_FILTER,   /* of a convolution */
    PLM_WEIGHT_FREE,     /* a parameter of no such module */
    PLM_WEIGHT_BUFFER    /* in files, and no parameter; fp32 */
} plm_weight_form;

enum { PLM_WEIGHT_NAME_TEXT = 112, PLM_WEIGHT_RANK_MAX = 5, PLM_WEIGHT_NO_LAYER = -1 };

typedef struct plm_weight {
    char name[PLM_WEIGHT_NAME_TEXT]; /* as transformers' save_pretrained writes it */
    int rank;
    int64_t shape[PLM_WEIGHT_RANK_MAX];
    int64_t elements;
    plm_weight_part part;
    plm_weight_form form;
    int32_t layer;  /* of the language model or of the tower; PLM_WEIGHT_NO_LAYER: outside */
    int32_t unit;   /* what is gathered with it where a model is sharded by layers: the layers of
                       the language model, then those of the tower; PLM_WEIGHT_NO_LAYER: the rest */
    int32_t expert; /* PLM_WEIGHT_EXPERT of one; else -1 */
    bool is_in_tower;
} plm_weight;

typedef enum plm_weights_as {
    PLM_WEIGHTS_IN_FILES, /* each expert's tensors by themselves */
    PLM_WEIGHTS_IN_MEMORY /* as transformers 5 holds them: the experts of a layer in two tensors,
                             of which gate and up are one; names of these are of our making */
} plm_weights_as;

/* Sees a tensor; anything but PLM_OK ends the list and is its status. *weight is borrowed. */
typedef plm_status plm_weight_visit(const plm_weight *weight, void *user);

/*
 * Calls `visit` with each tensor of the model once, a tied head left out, in the order of layers.
 * The status of the visit that ended it, else PLM_OK.
 */
PLM_MUST_USE plm_status plm_config_weights(const plm_config *config, plm_weights_as as,
                                           plm_weight_visit *visit, void *user);

typedef struct plm_config_counts {
    int64_t parameters;        /* a tied head once */
    int64_t active_parameters; /* without the experts that a token is not sent to */
    int64_t buffers;           /* elements of files that are no parameters */
    int64_t parts[PLM_WEIGHT_PART_COUNT];
    int64_t matrices;        /* how many PLM_WEIGHT_MATRIX(_T) there are, the head left out */
    int64_t matrix_elements; /* theirs */
} plm_config_counts;

/* *counts = sums over the model's tensors. PLM_ERROR_FORMAT beyond PLM_CONFIG_ELEMENTS_MAX. */
PLM_MUST_USE plm_status plm_config_count(const plm_config *config, plm_config_counts *counts);

/* "token_embedding", ...; static. */
const char *plm_weight_part_text(plm_weight_part part);

#ifdef __cplusplus
}
#endif
#endif
