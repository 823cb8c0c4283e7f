/* SPDX-License-Identifier: MIT */
/*
 * Rotary positions in both dialects: `rope_theta` with `rope_scaling`, which goes first where it is
 * there, and `rope_parameters`, of Gemma 3 with one object for each kind of layer.
 */
#include <string.h>

#include "config/config_internal.h"

static const struct {
    const char *text;
    plm_config_rope_kind kind;
} kinds[] = {
    {"default", PLM_CONFIG_ROPE_PLAIN},   {"linear", PLM_CONFIG_ROPE_LINEAR},
    {"dynamic", PLM_CONFIG_ROPE_DYNAMIC}, {"llama3", PLM_CONFIG_ROPE_LLAMA3},
    {"yarn", PLM_CONFIG_ROPE_YARN},       {"longrope", PLM_CONFIG_ROPE_LONG},
    {"su", PLM_CONFIG_ROPE_LONG},         {"mrope", PLM_CONFIG_ROPE_PLAIN},
};

#define REAL(key, place, least, most)                                                              \
    {                                                                                              \
        key, offsetof(plm_config_rope, place), PLM_CONFIG_REAL_KIND, false, least, most            \
    }
#define COUNT(key, place, least, most)                                                             \
    {                                                                                              \
        key, offsetof(plm_config_rope, place), PLM_CONFIG_COUNT_KIND, false, least, most           \
    }

static const plm_config_field theta = REAL("rope_theta", theta, 1e-6, 1e12);
static const plm_config_field local_theta = REAL("rope_local_base_freq", theta, 1e-6, 1e12);
static const plm_config_field original =
    COUNT("original_max_position_embeddings", original_positions, 1, 1 << 28);

static const plm_config_field figures[] = {
    REAL("rope_theta", theta, 1e-6, 1e12),
    REAL("factor", factor, 1e-6, 1e6),
    REAL("low_freq_factor", low_frequency, 1e-6, 1e6),
    REAL("high_freq_factor", high_frequency, 1e-6, 1e6),
    REAL("beta_fast", beta_fast, 1e-6, 1e6),
    REAL("beta_slow", beta_slow, 1e-6, 1e6),
    REAL("mscale", magnitude, 0, 1e6),
    REAL("mscale_all_dim", magnitude_all, 0, 1e6),
    REAL("attention_factor", attention_factor, 1e-6, 1e6),
    COUNT("original_max_position_embeddings", original_positions, 1, 1 << 28),
};

/* What a kind cannot be without. */
static const struct {
    plm_config_rope_kind kind;
    size_t offset;
    const char *key;
} needs[] = {
    {PLM_CONFIG_ROPE_LINEAR, offsetof(plm_config_rope, factor), "factor"},
    {PLM_CONFIG_ROPE_DYNAMIC, offsetof(plm_config_rope, factor), "factor"},
    {PLM_CONFIG_ROPE_LLAMA3, offsetof(plm_config_rope, factor), "factor"},
    {PLM_CONFIG_ROPE_LLAMA3, offsetof(plm_config_rope, low_frequency), "low_freq_factor"},
    {PLM_CONFIG_ROPE_LLAMA3, offsetof(plm_config_rope, high_frequency), "high_freq_factor"},
    {PLM_CONFIG_ROPE_YARN, offsetof(plm_config_rope, factor), "factor"},
};

static plm_status read_kind(const plm_config_source *source, const json_t *object,
                            plm_config_rope *rope)
{
    const json_t *value = json_object_get(object, "rope_type");
    if (!value)
        value = json_object_get(object, "type");
    if (!value || json_is_null(value))
        return PLM_OK;
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(text, kinds[i].text) == 0) {
            rope->kind = kinds[i].kind;
            return PLM_OK;
        }
    }
    return plm__config_refuse(source, "rope_type",
                              "default, linear, dynamic, llama3, yarn or longrope", value);
}

static plm_status read_factors(const plm_config_source *source, const json_t *object,
                               const char *key, int64_t wanted,
                               float factors[PLM_CONFIG_ROPE_FACTORS_MAX])
{
    const json_t *list = json_object_get(object, key);
    if (!json_is_array(list) || wanted > PLM_CONFIG_ROPE_FACTORS_MAX ||
        json_array_size(list) != (size_t)wanted) {
        char text[64];
        snprintf(text, sizeof text, "a list of %lld numbers, one for each pair", (long long)wanted);
        return plm__config_refuse(source, key, text, list);
    }
    for (size_t i = 0; i < (size_t)wanted; i++) {
        const json_t *item = json_array_get(list, i);
        double factor = json_number_value(item);
        if (!json_is_number(item) || !(factor >= 1e-6 && factor <= 1e6))
            return plm__config_refuse(source, key, "numbers from 1e-06 to 1000000", item);
        factors[i] = (float)factor;
    }
    return PLM_OK;
}

static plm_status read_long(const plm_config_source *source, const json_t *object,
                            const plm_config *config, plm_config_rope *rope)
{
    int64_t pairs = (int64_t)((double)config->head_width * config->rotary_share) / 2;
    PLM_TRY(read_factors(source, object, "short_factor", pairs, rope->short_factors));
    PLM_TRY(read_factors(source, object, "long_factor", pairs, rope->long_factors));
    rope->factor_count = (int32_t)pairs;
    return PLM_OK;
}

/* What an object says of the stretching; *rope has the defaults. */
static plm_status read_object(const plm_config_source *source, const json_t *object,
                              plm_config *config, plm_config_rope *rope)
{
    static const plm_config_field share = {"partial_rotary_factor",
                                           offsetof(plm_config, rotary_share),
                                           PLM_CONFIG_REAL_KIND,
                                           false,
                                           0,
                                           1};
    PLM_TRY(read_kind(source, object, rope));
    if (source->row->keys & PLM_KEYS_PHI && rope->kind == PLM_CONFIG_ROPE_YARN)
        rope->kind = PLM_CONFIG_ROPE_LONG; /* what old files of Phi-3 call so */
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        PLM_TRY(plm__config_field(source, object, &figures[i], rope));
    PLM_TRY(plm__config_field(source, object, &share, config));
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (needs[i].kind == rope->kind && *(double *)((char *)rope + needs[i].offset) == 0)
            return plm__config_refuse(source, needs[i].key, "a number over 0", NULL);
    return rope->kind == PLM_CONFIG_ROPE_LONG ? read_long(source, object, config, rope) : PLM_OK;
}

/* What holds where the object of a stretching kind says nothing. */
static void settle(const plm_config *config, plm_config_rope *rope)
{
    if (rope->kind != PLM_CONFIG_ROPE_LLAMA3 && rope->kind != PLM_CONFIG_ROPE_YARN &&
        rope->kind != PLM_CONFIG_ROPE_LONG)
        return;
    if (rope->original_positions == 0)
        rope->original_positions = config->positions;
    if (rope->kind == PLM_CONFIG_ROPE_YARN && rope->beta_fast == 0)
        rope->beta_fast = 32;
    if (rope->kind == PLM_CONFIG_ROPE_YARN && rope->beta_slow == 0)
        rope->beta_slow = 1;
}

/* *object = that of the key, NULL where there is none. */
static plm_status find_object(const plm_config_source *source, const json_t *in, const char *key,
                              const json_t **object)
{
    const json_t *value = json_object_get(in, key);
    *object = NULL;
    if (!value || json_is_null(value))
        return PLM_OK;
    if (!json_is_object(value))
        return plm__config_refuse(source, key, "an object", value);
    *object = value;
    return PLM_OK;
}

/* Gemma 3's sliding layers have positions of their own, which nothing stretches of old. */
static plm_status read_local(const plm_config_source *source, const json_t *parameters,
                             plm_config *config)
{
    const json_t *object = NULL;
    PLM_TRY(plm__config_field(source, source->text, &local_theta, &config->local_rope));
    PLM_TRY(find_object(source, parameters, "sliding_attention", &object));
    if (object)
        PLM_TRY(read_object(source, object, config, &config->local_rope));
    settle(config, &config->local_rope);
    return PLM_OK;
}

plm_status plm__config_ropes(const plm_config_source *source, plm_config *config)
{
    const json_t *scaling = NULL, *parameters = NULL, *full = NULL;
    if (!(source->row->keys & PLM_KEYS_ROPE))
        return PLM_OK;
    PLM_TRY(plm__config_field(source, source->text, &theta, &config->rope));
    if (source->row->keys & PLM_KEYS_PHI)
        PLM_TRY(plm__config_field(source, source->text, &original, &config->rope));
    PLM_TRY(find_object(source, source->text, "rope_scaling", &scaling));
    PLM_TRY(find_object(source, source->text, "rope_parameters", &parameters));
    PLM_TRY(find_object(source, parameters, "full_attention", &full));
    const json_t *from = scaling ? scaling : full ? full : parameters;
    if (from)
        PLM_TRY(read_object(source, from, config, &config->rope));
    settle(config, &config->rope);
    return source->row->defaults.local_rope.theta > 0 ? read_local(source, parameters, config)
                                                      : PLM_OK;
}
