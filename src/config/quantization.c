/* SPDX-License-Identifier: MIT */
/* How the weights of a checkpoint are quantised: the file's `quantization_config`. */
#include <string.h>

#include "config/config_internal.h"

static const struct {
    const char *method;
    plm_config_quantizer quantizer;
    int64_t bits; /* where the file says none */
} methods[] = {
    {"fp8", PLM_CONFIG_QUANTIZER_FP8, 8},
    {"gptq", PLM_CONFIG_QUANTIZER_GPTQ, 4},
    {"awq", PLM_CONFIG_QUANTIZER_GPTQ, 4},
    {"bitsandbytes", PLM_CONFIG_QUANTIZER_BITS, 0},
};

#define COUNT(key, place, least, most)                                                             \
    {                                                                                              \
        key, offsetof(plm_config, place), PLM_CONFIG_COUNT_KIND, true, least, most                 \
    }

static plm_status read_groups(const plm_config_source *source, const json_t *object,
                              plm_config *config)
{
    static const plm_config_field bits = COUNT("bits", quantizer_bits, 2, 8);
    static const plm_config_field group = COUNT("group_size", quantizer_group, -1, 1 << 20);
    PLM_TRY(plm__config_field(source, object, &bits, config));
    config->quantizer_group = 128;
    return plm__config_field(source, object, &group, config);
}

/* The edge of FP8's blocks, the first of two that are alike. */
static plm_status read_block(const plm_config_source *source, const json_t *object,
                             plm_config *config)
{
    const json_t *list = json_object_get(object, "weight_block_size");
    const json_t *edge = json_array_get(list, 0);
    if (!list || json_is_null(list))
        return PLM_OK;
    if (json_array_size(list) != 2 || !json_is_integer(edge) || json_integer_value(edge) < 1 ||
        json_integer_value(edge) > 1 << 20 || !json_equal(edge, json_array_get(list, 1)))
        return plm__config_refuse(source, "weight_block_size", "two equal whole numbers", list);
    config->quantizer_group = json_integer_value(edge);
    return PLM_OK;
}

static plm_status read_bits(const plm_config_source *source, const json_t *object,
                            plm_config *config)
{
    const plm_config_field four = {"load_in_4bit", 0, PLM_CONFIG_FLAG_KIND, false, 0, 0};
    bool is_four = false;
    PLM_TRY(plm__config_field(source, object, &four, &is_four));
    config->quantizer_bits = is_four ? 4 : 8;
    return PLM_OK;
}

plm_status plm__config_quantization(const plm_config_source *source, plm_config *config)
{
    plm_config_source inner = *source;
    const json_t *object = json_object_get(source->root, "quantization_config");
    inner.prefix = "";
    if (!object || json_is_null(object))
        return PLM_OK;
    if (!json_is_object(object))
        return plm__config_refuse(&inner, "quantization_config", "an object", object);
    inner.prefix = "quantization_config.";
    const json_t *value = json_object_get(object, "quant_method");
    if (!json_is_string(value) || json_string_length(value) >= sizeof config->quantizer_name)
        return plm__config_refuse(&inner, "quant_method", "a word", value);
    snprintf(config->quantizer_name, sizeof config->quantizer_name, "%s", json_string_value(value));
    config->quantizer = PLM_CONFIG_QUANTIZER_OTHER;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(methods[i].method, json_string_value(value)) == 0) {
            config->quantizer = methods[i].quantizer;
            config->quantizer_bits = methods[i].bits;
        }
    }
    if (config->quantizer == PLM_CONFIG_QUANTIZER_GPTQ)
        return read_groups(&inner, object, config);
    if (config->quantizer == PLM_CONFIG_QUANTIZER_FP8)
        return read_block(&inner, object, config);
    return config->quantizer == PLM_CONFIG_QUANTIZER_BITS ? read_bits(&inner, object, config)
                                                          : PLM_OK;
}
