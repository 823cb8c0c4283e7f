/* SPDX-License-Identifier: MIT */
/*
 * The families: one row each, with the keys of its files, what holds where a key is absent (the
 * defaults of its configuration class in transformers), and which layers are what. A 0 is derived
 * from the others, or says that there is none.
 */
#include "config/config_internal.h"

static const char *const texts[PLM_CONFIG_FAMILY_COUNT] = {
#define TEXT_ROW(name, text) [PLM_CONFIG_##name] = text,
    PLM_CONFIG_FAMILY_MAP(TEXT_ROW)
#undef TEXT_ROW
};

const char *plm_config_family_text(plm_config_family family)
{
    return (unsigned)family < PLM_CONFIG_FAMILY_COUNT ? texts[family] : "unknown";
}

enum {
    ROTARY = PLM_KEYS_PLAIN | PLM_KEYS_ROPE | PLM_KEYS_ACTIVATION,
    HEADS = ROTARY | PLM_KEYS_HEAD_WIDTH,
    GEMMA = PLM_KEYS_PLAIN | PLM_KEYS_ROPE | PLM_KEYS_HEAD_WIDTH | PLM_KEYS_GEMMA |
            PLM_KEYS_WINDOW | PLM_KEYS_BIAS,
    SPARSE = PLM_KEYS_EXPERTS | PLM_KEYS_EXPERT_WIDTH,
    DEEPSEEK = ROTARY | PLM_KEYS_LATENT | PLM_KEYS_BIAS | SPARSE | PLM_KEYS_SHARED_EXPERTS
};

/* Figures that rows share. */
#define SIZES(vocab_, width_, layers_, heads_, kv_heads_, mlp_width_, positions_)                  \
    .vocab = (vocab_), .width = (width_), .layers = (layers_), .heads = (heads_),                  \
    .kv_heads = (kv_heads_), .mlp_width = (mlp_width_), .positions = (positions_)
#define RMS(epsilon, theta_)                                                                       \
    .norm_epsilon = (epsilon), .activation = PLM_CONFIG_SILU, .rope = {.theta = (theta_)},         \
    .rotary_share = 1
#define GEMMAS                                                                                     \
    .norm_epsilon = 1e-6, .activation = PLM_CONFIG_GELU_TANH, .rotary_share = 1,                   \
    .head_width = 256, .window = 4096, .query_scale = 256, .is_tied = true
#define LATENT                                                                                     \
    .query_rank = 1536, .kv_rank = 512, .plain_head_width = 128, .rotary_head_width = 64,          \
    .value_head_width = 128
#define LINEAR                                                                                     \
    .convolution = 4, .linear_key_width = 128, .linear_value_width = 128, .linear_key_heads = 16,  \
    .linear_value_heads = 32, .head_width = 256

#define GEMMA3_RULE                                                                                \
    {                                                                                              \
        .takes_list = true, .interval = 6, .others = PLM_CONFIG_SLIDING, .interval_keys = {        \
            "_sliding_window_pattern",                                                             \
            "sliding_window_pattern"                                                               \
        }                                                                                          \
    }
#define LINEAR_RULE                                                                                \
    {                                                                                              \
        .takes_list = true, .interval = 4, .others = PLM_CONFIG_LINEAR, .interval_keys = {         \
            "full_attention_interval"                                                              \
        }                                                                                          \
    }
#define GEMMA3_DEFAULTS                                                                            \
    {                                                                                              \
        SIZES(262208, 2304, 26, 8, 4, 9216, 131072), GEMMAS, .rope = {.theta = 1e6},               \
                                                             .local_rope = {                       \
                                                                 .theta = 1e4                      \
                                                             }                                     \
    }
#define QWEN35_SIZES SIZES(248320, 4096, 32, 16, 4, 12288, 32768)
#define QWEN_LINEAR                                                                                \
    .norm_epsilon = 1e-6, .activation = PLM_CONFIG_SILU, .rope = {.theta = 1e4},                   \
    .rotary_share = 0.25, LINEAR

const plm_config_row plm__config_rows[PLM_CONFIG_FAMILY_COUNT] = {
    [PLM_CONFIG_GPT2] = {.keys = PLM_KEYS_GPT2,
                         .defaults = {SIZES(50257, 768, 12, 12, 0, 0, 1024),
                                      .activation = PLM_CONFIG_GELU_TANH, .norm_epsilon = 1e-5,
                                      .dropout = 0.1, .attention_dropout = 0.1,
                                      .embedding_dropout = 0.1, .attention_bias = true,
                                      .mlp_bias = true, .is_tied = true}},
    [PLM_CONFIG_BERT] = {.keys = PLM_KEYS_PLAIN | PLM_KEYS_BERT | PLM_KEYS_ACTIVATION,
                         .defaults = {SIZES(30522, 768, 12, 12, 0, 3072, 512), .types = 2,
                                      .activation = PLM_CONFIG_GELU, .norm_epsilon = 1e-12,
                                      .dropout = 0.1, .attention_dropout = 0.1,
                                      .embedding_dropout = 0.1, .attention_bias = true,
                                      .mlp_bias = true, .is_tied = true}},
    [PLM_CONFIG_LLAMA] = {.keys = HEADS | PLM_KEYS_BIAS | PLM_KEYS_MLP_BIAS,
                          .defaults = {SIZES(32000, 4096, 32, 32, 0, 11008, 2048), RMS(1e-6, 1e4)}},
    [PLM_CONFIG_MISTRAL] = {.keys = HEADS | PLM_KEYS_WINDOW,
                            .rule = {.others = PLM_CONFIG_SLIDING},
                            .defaults = {SIZES(32000, 4096, 32, 32, 8, 14336, 131072),
                                         RMS(1e-6, 1e4), .window = 4096}},
    [PLM_CONFIG_QWEN2] =
        {.keys = HEADS | PLM_KEYS_WINDOW,
         .rule = {.takes_list = true, .asks_use = true, .tail = true, .others = PLM_CONFIG_SLIDING},
         .defaults = {SIZES(151936, 4096, 32, 32, 32, 22016, 32768), RMS(1e-6, 1e4), .window = 4096,
                      .query_bias = true}},
    [PLM_CONFIG_QWEN3] =
        {.keys = HEADS | PLM_KEYS_WINDOW | PLM_KEYS_BIAS,
         .rule = {.takes_list = true, .asks_use = true, .tail = true, .others = PLM_CONFIG_SLIDING},
         .defaults = {SIZES(151936, 4096, 32, 32, 32, 22016, 32768), RMS(1e-6, 1e4),
                      .head_width = 128, .window = 4096}},
    [PLM_CONFIG_GEMMA2] =
        {.keys = GEMMA,
         .rule = {.takes_list = true, .interval = 2, .others = PLM_CONFIG_SLIDING},
         .defaults = {SIZES(256000, 2304, 26, 8, 4, 9216, 8192), GEMMAS, .rope = {.theta = 1e4},
                      .attention_cap = 50, .logit_cap = 30}},
    [PLM_CONFIG_GEMMA3_TEXT] = {.keys = GEMMA, .rule = GEMMA3_RULE, .defaults = GEMMA3_DEFAULTS},
    [PLM_CONFIG_GEMMA3] = {.text_type = "gemma3_text", .text = PLM_CONFIG_GEMMA3_TEXT},
    [PLM_CONFIG_PHI3] = {.keys = HEADS | PLM_KEYS_WINDOW | PLM_KEYS_PHI,
                         .rule = {.others = PLM_CONFIG_SLIDING},
                         .defaults = {SIZES(32064, 3072, 32, 32, 0, 8192, 4096),
                                      .norm_epsilon = 1e-5, .activation = PLM_CONFIG_SILU,
                                      .rope = {.theta = 1e4, .original_positions = 4096},
                                      .rotary_share = 1}},
    [PLM_CONFIG_MIXTRAL] = {.keys = HEADS | PLM_KEYS_WINDOW | PLM_KEYS_EXPERTS,
                            .rule = {.others = PLM_CONFIG_SLIDING},
                            .defaults = {SIZES(32000, 4096, 32, 32, 8, 14336, 131072),
                                         RMS(1e-5, 1e6), .experts = 8, .chosen_experts = 2,
                                         .normalizes_choice = true, .routed_scale = 1}},
    [PLM_CONFIG_QWEN3_MOE] = {.keys = HEADS | PLM_KEYS_WINDOW | PLM_KEYS_BIAS | SPARSE,
                              .rule = {.asks_use = true, .others = PLM_CONFIG_SLIDING},
                              .defaults = {SIZES(151936, 2048, 24, 32, 4, 6144, 32768),
                                           RMS(1e-6, 1e4), .window = 4096, .experts = 128,
                                           .chosen_experts = 8, .expert_width = 768,
                                           .routed_scale = 1}},
    [PLM_CONFIG_DEEPSEEK_V2] = {.keys = DEEPSEEK | PLM_KEYS_MLP_BIAS,
                                .rule = {.experts_behind_first = true},
                                .defaults = {SIZES(102400, 4096, 32, 32, 0, 11008, 2048),
                                             RMS(1e-6, 1e4), LATENT, .experts = 64,
                                             .shared_experts = 2, .expert_width = 1407,
                                             .routed_scale = 1}},
    [PLM_CONFIG_DEEPSEEK_V3] = {.keys = DEEPSEEK,
                                .rule = {.experts_behind_first = true},
                                .defaults = {SIZES(129280, 7168, 61, 128, 128, 18432, 4096),
                                             RMS(1e-6, 1e4), LATENT, .experts = 256,
                                             .chosen_experts = 8, .shared_experts = 1,
                                             .expert_width = 2048, .normalizes_choice = true,
                                             .routed_scale = 2.5, .expert_groups = 8,
                                             .chosen_groups = 4}},
    [PLM_CONFIG_QWEN3_NEXT] = {.keys = HEADS | PLM_KEYS_BIAS | SPARSE | PLM_KEYS_SHARED_WIDTH |
                                       PLM_KEYS_LINEAR,
                               .rule = LINEAR_RULE,
                               .defaults = {SIZES(151936, 2048, 48, 16, 2, 5632, 32768),
                                            QWEN_LINEAR, .experts = 512, .chosen_experts = 10,
                                            .expert_width = 512, .shared_width = 512,
                                            .normalizes_choice = true, .routed_scale = 1}},
    [PLM_CONFIG_QWEN3_5_TEXT] = {.keys = HEADS | PLM_KEYS_BIAS | PLM_KEYS_LINEAR,
                                 .rule = LINEAR_RULE,
                                 .defaults = {QWEN35_SIZES, QWEN_LINEAR}},
    [PLM_CONFIG_QWEN3_5] = {.text_type = "qwen3_5_text", .text = PLM_CONFIG_QWEN3_5_TEXT},
};
