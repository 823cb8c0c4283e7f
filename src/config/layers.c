/* SPDX-License-Identifier: MIT */
/* What each layer is: how it mixes tokens, and whether its MLP is one or many experts. */
#include <string.h>

#include "config/config_internal.h"

static const char *const mixing_texts[] = {[PLM_CONFIG_FULL] = "full_attention",
                                           [PLM_CONFIG_SLIDING] = "sliding_attention",
                                           [PLM_CONFIG_LINEAR] = "linear_attention"};

enum { MIXING_COUNT = sizeof mixing_texts / sizeof *mixing_texts };

/* Of the file's list. */
static plm_status read_list(const plm_config_source *source, const json_t *list, plm_config *config)
{
    static const char key[] = "layer_types";
    bool has_linear = config->convolution > 0;
    if (!json_is_array(list) || (int64_t)json_array_size(list) != config->layers)
        return plm__config_refuse(source, key, "a list with an item for each layer", list);
    for (int64_t i = 0; i < config->layers; i++) {
        const json_t *item = json_array_get(list, (size_t)i);
        int mixing = 0;
        while (json_is_string(item) && mixing < MIXING_COUNT &&
               strcmp(json_string_value(item), mixing_texts[mixing]) != 0)
            mixing++;
        if (!json_is_string(item) || mixing == MIXING_COUNT ||
            (mixing == PLM_CONFIG_LINEAR && !has_linear))
            return plm__config_refuse(source, key,
                                      has_linear ? "full_attention or linear_attention"
                                                 : "full_attention or sliding_attention",
                                      item);
        config->mixing[i] = (uint8_t)mixing;
    }
    return PLM_OK;
}

static plm_status read_count(const plm_config_source *source, const char *key, int64_t least,
                             int64_t most, int64_t *count)
{
    plm_config_field field = {key, 0, PLM_CONFIG_COUNT_KIND, false, (double)least, (double)most};
    return plm__config_field(source, source->text, &field, count);
}

/* By the family's rule. */
static plm_status follow_rule(const plm_config_source *source, plm_config *config)
{
    const plm_config_layer_rule *rule = &source->row->rule;
    int64_t interval = rule->interval, first = 0;
    if (rule->tail) {
        first = 28; /* the classes' default of max_window_layers */
        PLM_TRY(read_count(source, "max_window_layers", 0, 1 << 20, &first));
    }
    for (int i = 0; i < 2; i++)
        if (rule->interval_keys[i])
            PLM_TRY(read_count(source, rule->interval_keys[i], 1, 1 << 20, &interval));
    for (int64_t i = 0; i < config->layers; i++) {
        bool is_full = i < first || (interval > 0 && (i + 1) % interval == 0);
        config->mixing[i] = (uint8_t)(is_full ? PLM_CONFIG_FULL : rule->others);
    }
    return PLM_OK;
}

static plm_status read_mixing(const plm_config_source *source, plm_config *config)
{
    const plm_config_layer_rule *rule = &source->row->rule;
    const json_t *list = json_object_get(source->text, "layer_types");
    bool uses = !rule->asks_use;
    const plm_config_field use = {"use_sliding_window", 0, PLM_CONFIG_FLAG_KIND, false, 0, 0};
    const plm_config_field both = {
        "use_bidirectional_attention", 0, PLM_CONFIG_FLAG_KIND, false, 0, 0};
    bool sees_both = false;
    if (rule->asks_use)
        PLM_TRY(plm__config_field(source, source->text, &use, &uses));
    if (!uses)
        config->window = 0;
    if (source->row->keys & PLM_KEYS_GEMMA)
        PLM_TRY(plm__config_field(source, source->text, &both, &sees_both));
    if (sees_both) /* half of the window is to each side, the token itself counted once more */
        config->window = config->window / 2 + 1;
    if (rule->takes_list && list && !json_is_null(list))
        PLM_TRY(read_list(source, list, config));
    else
        PLM_TRY(follow_rule(source, config));
    bool slides = false;
    for (int64_t i = 0; i < config->layers; i++) {
        if (config->mixing[i] == PLM_CONFIG_SLIDING && config->window == 0)
            config->mixing[i] = PLM_CONFIG_FULL;
        slides |= config->mixing[i] == PLM_CONFIG_SLIDING;
    }
    if (!slides)
        config->window = 0;
    return PLM_OK;
}

/* Layers that `mlp_only_layers` names are dense. */
static plm_status read_dense(const plm_config_source *source, plm_config *config)
{
    static const char key[] = "mlp_only_layers";
    const json_t *list = json_object_get(source->text, key);
    if (!list || json_is_null(list))
        return PLM_OK;
    if (!json_is_array(list))
        return plm__config_refuse(source, key, "a list of layers", list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t layer = json_integer_value(item);
        if (!json_is_integer(item) || layer < 0 || layer >= config->layers)
            return plm__config_refuse(source, key, "layers that are there", item);
        config->has_experts[layer] = 0;
    }
    return PLM_OK;
}

static plm_status read_experts(const plm_config_source *source, plm_config *config)
{
    int64_t step = 1, first = 0;
    if (config->experts == 0)
        return PLM_OK;
    if (source->row->rule.experts_behind_first) {
        first = config->family == PLM_CONFIG_DEEPSEEK_V3 ? 3 : 0; /* the classes' defaults */
        PLM_TRY(read_count(source, "first_k_dense_replace", 0, 1 << 20, &first));
    } else if (source->row->keys & PLM_KEYS_EXPERT_WIDTH) {
        PLM_TRY(read_count(source, "decoder_sparse_step", 1, 1 << 20, &step));
    }
    for (int64_t i = 0; i < config->layers; i++)
        config->has_experts[i] = i >= first && (i + 1) % step == 0;
    return source->row->keys & PLM_KEYS_EXPERT_WIDTH && !source->row->rule.experts_behind_first
               ? read_dense(source, config)
               : PLM_OK;
}

plm_status plm__config_layers(const plm_config_source *source, plm_config *config)
{
    PLM_TRY(read_mixing(source, config));
    return read_experts(source, config);
}
