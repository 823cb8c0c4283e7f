/* SPDX-License-Identifier: MIT */
/* The figures of a config.json: one table of keys, each with its place, its range and whose it is.
 */
#include "config/config_internal.h"

#include <math.h>
#include <string.h>

#include "base/number.h"

void plm__config_tell(const plm_config_source *source, const char *key, const char *wanted,
                      const json_t *found)
{
    char text[PLM_JSON_DESCRIPTION_TEXT];
    plm__json_describe(found, text);
    (void)plm_fail(PLM_ERROR_FORMAT, "%s: wanted %s for %s%s, found %s", source->file, wanted,
                   source->prefix, key, text);
}

static bool is_in_range(const json_t *value, const plm_config_field *field)
{
    if (field->kind == PLM_CONFIG_COUNT_KIND && !json_is_integer(value))
        return false;
    double number = json_number_value(value);
    return json_is_number(value) && isfinite(number) && number >= field->least &&
           number <= field->most;
}

static plm_status refuse_range(const plm_config_source *source, const plm_config_field *field,
                               const json_t *found)
{
    char wanted[96];
    plm__print(wanted, sizeof wanted, "a %s from %.15g to %.15g",
               field->kind == PLM_CONFIG_COUNT_KIND ? "whole number" : "number", field->least,
               field->most);
    return plm__config_refuse(source, field->key, wanted, found);
}

static plm_status put(const plm_config_source *source, const plm_config_field *field,
                      const json_t *value, void *place)
{
    bool is_zero = json_is_null(value);
    if (field->kind == PLM_CONFIG_FLAG_KIND) {
        if (!json_is_boolean(value))
            return plm__config_refuse(source, field->key, "true or false", value);
        *(bool *)place = json_is_true(value);
        return PLM_OK;
    }
    if (!is_zero && !is_in_range(value, field))
        return refuse_range(source, field, value);
    if (field->kind == PLM_CONFIG_COUNT_KIND)
        *(int64_t *)place = is_zero ? 0 : json_integer_value(value);
    else
        *(double *)place = is_zero ? 0 : json_number_value(value);
    return PLM_OK;
}

plm_status plm__config_field(const plm_config_source *source, const json_t *object,
                             const plm_config_field *field, void *result)
{
    const json_t *value = json_object_get(object, field->key);
    if (!value || (json_is_null(value) && !field->null_is_zero))
        return PLM_OK;
    return put(source, field, value, (char *)result + field->offset);
}

#define COUNT(key, place, least, most)                                                             \
    {                                                                                              \
        key, offsetof(plm_config, place), PLM_CONFIG_COUNT_KIND, false, least, most                \
    }
#define COUNT_OR_NULL(key, place, least, most)                                                     \
    {                                                                                              \
        key, offsetof(plm_config, place), PLM_CONFIG_COUNT_KIND, true, least, most                 \
    }
#define REAL(key, place, least, most)                                                              \
    {                                                                                              \
        key, offsetof(plm_config, place), PLM_CONFIG_REAL_KIND, false, least, most                 \
    }
#define REAL_OR_NULL(key, place, least, most)                                                      \
    {                                                                                              \
        key, offsetof(plm_config, place), PLM_CONFIG_REAL_KIND, true, least, most                  \
    }
#define FLAG(key, place)                                                                           \
    {                                                                                              \
        key, offsetof(plm_config, place), PLM_CONFIG_FLAG_KIND, false, 0, 0                        \
    }

/* Far above any model, and so low that products of a few stay within 64 bits. */
enum { WIDTH_MAX = 1 << 20, ROWS_MAX = 1 << 24, HEADS_MAX = 1 << 12, HEAD_MAX = 1 << 13 };
enum { EXPERTS_MAX = 1 << 11, POSITIONS_MAX = 1 << 28 };

static const struct {
    unsigned keys; /* that the family must have one of */
    plm_config_field field;
} fields[] = {
    {~0u, COUNT("vocab_size", vocab, 1, ROWS_MAX)},

    {PLM_KEYS_GPT2, COUNT("n_embd", width, 1, WIDTH_MAX)},
    {PLM_KEYS_GPT2, COUNT("n_layer", layers, 1, PLM_CONFIG_LAYERS_MAX)},
    {PLM_KEYS_GPT2, COUNT("n_head", heads, 1, HEADS_MAX)},
    {PLM_KEYS_GPT2, COUNT("n_positions", positions, 1, POSITIONS_MAX)},
    {PLM_KEYS_GPT2, COUNT_OR_NULL("n_inner", mlp_width, 1, ROWS_MAX)},
    {PLM_KEYS_GPT2, REAL("layer_norm_epsilon", norm_epsilon, 0, 1)},
    {PLM_KEYS_GPT2, REAL("resid_pdrop", dropout, 0, 1)},
    {PLM_KEYS_GPT2, REAL("attn_pdrop", attention_dropout, 0, 1)},
    {PLM_KEYS_GPT2, REAL("embd_pdrop", embedding_dropout, 0, 1)},
    {PLM_KEYS_GPT2, FLAG("scale_attn_by_inverse_layer_idx", scales_by_layer)},

    {PLM_KEYS_PLAIN, COUNT("hidden_size", width, 1, WIDTH_MAX)},
    {PLM_KEYS_PLAIN, COUNT("num_hidden_layers", layers, 1, PLM_CONFIG_LAYERS_MAX)},
    {PLM_KEYS_PLAIN, COUNT("num_attention_heads", heads, 1, HEADS_MAX)},
    {PLM_KEYS_PLAIN, COUNT("intermediate_size", mlp_width, 1, ROWS_MAX)},
    {PLM_KEYS_PLAIN, COUNT("max_position_embeddings", positions, 1, POSITIONS_MAX)},

    {PLM_KEYS_BERT, COUNT("type_vocab_size", types, 1, ROWS_MAX)},
    {PLM_KEYS_BERT, REAL("layer_norm_eps", norm_epsilon, 0, 1)},
    {PLM_KEYS_BERT, REAL("hidden_dropout_prob", dropout, 0, 1)},
    {PLM_KEYS_BERT, REAL("hidden_dropout_prob", embedding_dropout, 0, 1)},
    {PLM_KEYS_BERT, REAL("attention_probs_dropout_prob", attention_dropout, 0, 1)},

    {PLM_KEYS_ROPE, COUNT_OR_NULL("num_key_value_heads", kv_heads, 1, HEADS_MAX)},
    {PLM_KEYS_ROPE, REAL("rms_norm_eps", norm_epsilon, 0, 1)},
    {PLM_KEYS_ROPE, REAL("attention_dropout", attention_dropout, 0, 1)},
    {PLM_KEYS_ROPE, REAL("partial_rotary_factor", rotary_share, 0, 1)},
    {PLM_KEYS_HEAD_WIDTH, COUNT("head_dim", head_width, 1, HEAD_MAX)},
    {PLM_KEYS_BIAS, FLAG("attention_bias", attention_bias)},
    {PLM_KEYS_MLP_BIAS, FLAG("mlp_bias", mlp_bias)},
    {PLM_KEYS_WINDOW, COUNT_OR_NULL("sliding_window", window, 1, POSITIONS_MAX)},
    {PLM_KEYS_GEMMA, REAL("query_pre_attn_scalar", query_scale, 1e-6, 1e6)},
    {PLM_KEYS_GEMMA, REAL_OR_NULL("attn_logit_softcapping", attention_cap, 1e-6, 1e6)},
    {PLM_KEYS_GEMMA, REAL_OR_NULL("final_logit_softcapping", logit_cap, 1e-6, 1e6)},
    {PLM_KEYS_PHI, REAL("resid_pdrop", dropout, 0, 1)},
    {PLM_KEYS_PHI, REAL("embd_pdrop", embedding_dropout, 0, 1)},

    {PLM_KEYS_EXPERTS, COUNT("num_local_experts", experts, 1, EXPERTS_MAX)},
    {PLM_KEYS_EXPERTS, COUNT("num_experts", experts, 0, EXPERTS_MAX)},
    {PLM_KEYS_EXPERTS, COUNT_OR_NULL("n_routed_experts", experts, 0, EXPERTS_MAX)},
    {PLM_KEYS_EXPERTS, COUNT("num_experts_per_tok", chosen_experts, 1, EXPERTS_MAX)},
    {PLM_KEYS_EXPERT_WIDTH, COUNT("moe_intermediate_size", expert_width, 1, ROWS_MAX)},
    {PLM_KEYS_EXPERT_WIDTH, FLAG("norm_topk_prob", normalizes_choice)},
    {PLM_KEYS_SHARED_EXPERTS, COUNT_OR_NULL("n_shared_experts", shared_experts, 0, EXPERTS_MAX)},
    {PLM_KEYS_SHARED_EXPERTS, REAL("routed_scaling_factor", routed_scale, 0, 1e6)},
    {PLM_KEYS_SHARED_EXPERTS, COUNT_OR_NULL("n_group", expert_groups, 1, EXPERTS_MAX)},
    {PLM_KEYS_SHARED_EXPERTS, COUNT_OR_NULL("topk_group", chosen_groups, 1, EXPERTS_MAX)},
    {PLM_KEYS_SHARED_WIDTH, COUNT("shared_expert_intermediate_size", shared_width, 0, ROWS_MAX)},

    {PLM_KEYS_LATENT, COUNT_OR_NULL("q_lora_rank", query_rank, 1, WIDTH_MAX)},
    {PLM_KEYS_LATENT, COUNT("kv_lora_rank", kv_rank, 1, WIDTH_MAX)},
    {PLM_KEYS_LATENT, COUNT("qk_nope_head_dim", plain_head_width, 1, HEAD_MAX)},
    {PLM_KEYS_LATENT, COUNT("qk_rope_head_dim", rotary_head_width, 1, HEAD_MAX)},
    {PLM_KEYS_LATENT, COUNT("v_head_dim", value_head_width, 1, HEAD_MAX)},

    {PLM_KEYS_LINEAR, COUNT("linear_conv_kernel_dim", convolution, 1, 1 << 10)},
    {PLM_KEYS_LINEAR, COUNT("linear_key_head_dim", linear_key_width, 1, HEAD_MAX)},
    {PLM_KEYS_LINEAR, COUNT("linear_value_head_dim", linear_value_width, 1, HEAD_MAX)},
    {PLM_KEYS_LINEAR, COUNT("linear_num_key_heads", linear_key_heads, 1, HEADS_MAX)},
    {PLM_KEYS_LINEAR, COUNT("linear_num_value_heads", linear_value_heads, 1, HEADS_MAX)},
};

static const struct {
    const char *text;
    plm_config_activation activation;
} activations[] = {
    {"gelu", PLM_CONFIG_GELU},           {"gelu_python", PLM_CONFIG_GELU},
    {"gelu_new", PLM_CONFIG_GELU_TANH},  {"gelu_pytorch_tanh", PLM_CONFIG_GELU_TANH},
    {"gelu_fast", PLM_CONFIG_GELU_TANH}, {"silu", PLM_CONFIG_SILU},
    {"swish", PLM_CONFIG_SILU},          {"relu", PLM_CONFIG_RELU},
};

static plm_status read_activation(const plm_config_source *source, plm_config *config)
{
    const char *key = source->row->keys & PLM_KEYS_GEMMA  ? "hidden_activation"
                      : source->row->keys & PLM_KEYS_GPT2 ? "activation_function"
                                                          : "hidden_act";
    const json_t *value = json_object_get(source->text, key);
    if (!value || json_is_null(value))
        return PLM_OK;
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        if (strcmp(text, activations[i].text) == 0) {
            config->activation = activations[i].activation;
            return PLM_OK;
        }
    }
    return plm__config_refuse(source, key, "gelu, gelu_new, gelu_pytorch_tanh, silu or relu",
                              value);
}

static plm_status refuse_relation(const plm_config_source *source, const char *key,
                                  const char *wanted, int64_t other, int64_t found)
{
    return plm_fail(PLM_ERROR_FORMAT, "%s: wanted %s (%lld) for %s%s, found %lld", source->file,
                    wanted, (long long)other, source->prefix, key, (long long)found);
}

/* What follows from other figures, and whether they go together. */
static plm_status settle_heads(const plm_config_source *source, plm_config *config)
{
    const char *heads = source->row->keys & PLM_KEYS_GPT2 ? "n_head" : "num_attention_heads";
    if (config->kv_heads == 0)
        config->kv_heads = config->heads;
    if (config->heads % config->kv_heads != 0)
        return refuse_relation(source, "num_key_value_heads", "a divisor of num_attention_heads",
                               config->heads, config->kv_heads);
    if (config->kv_rank > 0)
        config->head_width = config->plain_head_width + config->rotary_head_width;
    if (config->head_width == 0 && config->width % config->heads != 0)
        return refuse_relation(source, heads, "a divisor of the width, or a head_dim",
                               config->width, config->heads);
    if (config->head_width == 0)
        config->head_width = config->width / config->heads;
    if (config->convolution > 0 && config->linear_value_heads % config->linear_key_heads != 0)
        return refuse_relation(source, "linear_num_key_heads",
                               "a divisor of "
                               "linear_num_value_heads",
                               config->linear_value_heads, config->linear_key_heads);
    return PLM_OK;
}

static plm_status settle_experts(const plm_config_source *source, plm_config *config)
{
    if (config->experts > 0 && config->chosen_experts == 0)
        return plm__config_refuse(source, "num_experts_per_tok", "how many experts a token has",
                                  NULL);
    if (config->experts > 0 && config->chosen_experts > config->experts)
        return refuse_relation(source, "num_experts_per_tok", "at most the number of experts",
                               config->experts, config->chosen_experts);
    if (config->experts > 0 && config->expert_width == 0)
        config->expert_width = config->mlp_width;
    return PLM_OK;
}

plm_status plm__config_fields(const plm_config_source *source, plm_config *config)
{
    static const plm_config_field tied = FLAG("tie_word_embeddings", is_tied);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].keys & source->row->keys)
            PLM_TRY(plm__config_field(source, source->text, &fields[i].field, config));
    PLM_TRY(plm__config_field(source, source->root, &tied, config)); /* the outer one */
    PLM_TRY(read_activation(source, config));
    if (config->mlp_width == 0)
        config->mlp_width = 4 * config->width;
    PLM_TRY(settle_heads(source, config));
    return settle_experts(source, config);
}

#define TOWER_COUNT(key, place, least, most)                                                       \
    {                                                                                              \
        key, offsetof(plm_config_tower, place), PLM_CONFIG_COUNT_KIND, false, least, most          \
    }

static const plm_config_field siglip_fields[] = {
    TOWER_COUNT("hidden_size", width, 1, WIDTH_MAX),
    TOWER_COUNT("num_hidden_layers", layers, 1, PLM_CONFIG_LAYERS_MAX),
    TOWER_COUNT("num_attention_heads", heads, 1, HEADS_MAX),
    TOWER_COUNT("intermediate_size", mlp_width, 1, ROWS_MAX),
    TOWER_COUNT("num_channels", channels, 1, 256),
    TOWER_COUNT("image_size", image, 1, 1 << 14),
    TOWER_COUNT("patch_size", patch, 1, 1 << 10),
    {"vision_use_head", offsetof(plm_config_tower, pools), PLM_CONFIG_FLAG_KIND, false, 0, 0},
};

static const plm_config_field qwen_fields[] = {
    TOWER_COUNT("hidden_size", width, 1, WIDTH_MAX),
    TOWER_COUNT("depth", layers, 1, PLM_CONFIG_LAYERS_MAX),
    TOWER_COUNT("num_heads", heads, 1, HEADS_MAX),
    TOWER_COUNT("intermediate_size", mlp_width, 1, ROWS_MAX),
    TOWER_COUNT("in_channels", channels, 1, 256),
    TOWER_COUNT("patch_size", patch, 1, 1 << 10),
    TOWER_COUNT("spatial_merge_size", merge, 1, 1 << 6),
    TOWER_COUNT("temporal_patch_size", frames, 1, 1 << 6),
    TOWER_COUNT("out_hidden_size", out_width, 1, WIDTH_MAX),
    TOWER_COUNT("num_position_embeddings", positions, 1, ROWS_MAX),
};

#define TABLE(rows) (rows), sizeof(rows) / sizeof *(rows)

/* By family; the classes' defaults. */
static const struct {
    const plm_config_field *fields;
    size_t count;
    plm_config_tower defaults;
} towers[PLM_CONFIG_FAMILY_COUNT] = {
    [PLM_CONFIG_GEMMA3] = {TABLE(siglip_fields),
                           {.kind = PLM_CONFIG_TOWER_SIGLIP,
                            .width = 768,
                            .layers = 12,
                            .heads = 12,
                            .mlp_width = 3072,
                            .channels = 3,
                            .image = 224,
                            .patch = 16,
                            .pools = true}},
    [PLM_CONFIG_QWEN3_5] = {TABLE(qwen_fields),
                            {.kind = PLM_CONFIG_TOWER_QWEN,
                             .width = 1152,
                             .layers = 27,
                             .heads = 16,
                             .mlp_width = 4304,
                             .channels = 3,
                             .patch = 16,
                             .positions = 2304,
                             .frames = 2,
                             .merge = 2,
                             .out_width = 3584}},
};

plm_status plm__config_tower(const plm_config_source *source, plm_config *config)
{
    plm_config_source inner = *source;
    const json_t *object = json_object_get(source->root, "vision_config");
    if (!towers[config->family].fields)
        return PLM_OK;
    plm_config_tower tower = towers[config->family].defaults;
    inner.prefix = "";
    if (object && !json_is_null(object) && !json_is_object(object))
        return plm__config_refuse(&inner, "vision_config", "an object", object);
    inner.prefix = "vision_config.";
    for (size_t i = 0; i < towers[config->family].count; i++)
        PLM_TRY(plm__config_field(&inner, object, &towers[config->family].fields[i], &tower));
    if (tower.kind == PLM_CONFIG_TOWER_SIGLIP && tower.patch > tower.image)
        return refuse_relation(&inner, "patch_size", "at most image_size", tower.image,
                               tower.patch);
    config->tower = tower;
    return PLM_OK;
}
