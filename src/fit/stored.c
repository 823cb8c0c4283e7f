/* SPDX-License-Identifier: MIT */
/*
 * Weights by the type that they are stored in, and their shares where several GPUs hold a layer
 * together: queries, MLPs, experts and the vocabulary are cut, keys and values by whole heads, of
 * which each GPU has one at least; latents, routers, normalisations and towers are on each.
 */
#include "fit/stored.h"

#include <string.h>

#include "base/status.h"

static const struct {
    const char *text;
    int64_t elements; /* of a block */
    size_t bytes;
} types[PLM_STORED_COUNT] = {
#define TYPE_ROW(name, text, elements, bytes) [PLM_STORED_##name] = {text, elements, bytes},
    PLM_STORED_MAP(TYPE_ROW)
#undef TYPE_ROW
};

const char *plm_stored_text(plm_stored type)
{
    return (unsigned)type < PLM_STORED_COUNT ? types[type].text : "unknown";
}

size_t plm__stored_bytes(plm_stored type, int64_t elements)
{
    int64_t blocks = (elements + types[type].elements - 1) / types[type].elements;
    return (size_t)blocks * types[type].bytes;
}

plm_stored plm__stored_of(plm_dtype dtype)
{
    return dtype == PLM_DTYPE_F32   ? PLM_STORED_F32
           : dtype == PLM_DTYPE_F16 ? PLM_STORED_F16
                                    : PLM_STORED_BF16;
}

typedef struct weighing {
    const plm_config *config;
    plm_stored type;  /* that is asked for */
    plm_stored plain; /* of what that type does not take */
    int64_t parallel;
    size_t bytes;
} weighing;

static bool ends_in(const char *text, const char *end)
{
    size_t count = strlen(text), end_count = strlen(end);
    return count >= end_count && memcmp(text + count - end_count, end, end_count) == 0;
}

/* Modules of which each GPU has all. */
static const char *const whole[] = {".q_a_proj.weight", ".q_a_proj.bias",
                                    ".kv_a_proj_with_mqa.weight", ".kv_a_proj_with_mqa.bias",
                                    ".shared_expert_gate.weight"};
/* Biases of products whose input is cut: added once. */
static const char *const added[] = {".o_proj.bias", ".down_proj.bias", ".c_proj.bias",
                                    ".dense.bias"};
/* Keys and values. */
static const char *const keyed[] = {".k_proj.weight", ".k_proj.bias", ".v_proj.weight",
                                    ".v_proj.bias"};

#define IS_ONE_OF(name, list) is_one_of(name, list, sizeof(list) / sizeof *(list))

static bool is_one_of(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ends_in(name, list[i]))
            return true;
    return false;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Of `heads` with keys and values, cut by whole ones. */
static int64_t share_of_keys(const weighing *w, int64_t elements)
{
    return elements / w->config->kv_heads * ceil_div(w->config->kv_heads, w->parallel);
}

/* Elements of a tensor on one GPU. */
static int64_t share(const weighing *w, const plm_weight *weight)
{
    bool is_linear = weight->part == PLM_WEIGHT_LINEAR_ATTENTION;
    bool is_cut = weight->form == PLM_WEIGHT_MATRIX || weight->form == PLM_WEIGHT_MATRIX_T ||
                  weight->form == PLM_WEIGHT_BIAS || weight->form == PLM_WEIGHT_EXPERT ||
                  is_linear || weight->part == PLM_WEIGHT_TOKEN_EMBEDDING;
    if (w->parallel == 1 || !is_cut || weight->is_in_tower || IS_ONE_OF(weight->name, whole) ||
        weight->part == PLM_WEIGHT_HEAD)
        return weight->elements;
    if (weight->form == PLM_WEIGHT_BIAS && IS_ONE_OF(weight->name, added))
        return weight->elements;
    if (weight->part == PLM_WEIGHT_ATTENTION && IS_ONE_OF(weight->name, keyed))
        return share_of_keys(w, weight->elements);
    if (ends_in(weight->name, ".qkv_proj.weight")) {
        int64_t rows = w->config->heads + 2 * w->config->kv_heads;
        int64_t queries = weight->elements / rows * w->config->heads;
        return queries / w->parallel + share_of_keys(w, weight->elements - queries);
    }
    if (weight->part == PLM_WEIGHT_TOKEN_EMBEDDING || weight->part == PLM_WEIGHT_LM_HEAD)
        return ceil_div(weight->shape[0], w->parallel) * weight->shape[1];
    return ceil_div(weight->elements, w->parallel);
}

/* Whether the type that is asked for takes a tensor. llama.cpp packs every table and matrix whose
 * rows are whole blocks, routers apart; the others matrices alone, bitsandbytes no experts. */
static bool takes(const weighing *w, const plm_weight *weight)
{
    bool is_matrix = weight->form == PLM_WEIGHT_MATRIX || weight->form == PLM_WEIGHT_MATRIX_T;
    bool is_expert = weight->form == PLM_WEIGHT_EXPERT;
    if (w->type == PLM_STORED_Q8_0 || w->type == PLM_STORED_Q4_0)
        return (is_matrix || is_expert || weight->form == PLM_WEIGHT_TABLE) &&
               weight->shape[weight->rank - 1] % types[w->type].elements == 0;
    if (w->type == PLM_STORED_NF4)
        return is_matrix && weight->part != PLM_WEIGHT_LM_HEAD;
    if (w->type == PLM_STORED_FP8)
        return (is_matrix || is_expert) && weight->part != PLM_WEIGHT_LM_HEAD &&
               weight->part != PLM_WEIGHT_ROUTER && !weight->is_in_tower;
    return true;
}

static plm_status add(const plm_weight *weight, void *user)
{
    weighing *w = user;
    int64_t elements = share(w, weight);
    plm_stored type = takes(w, weight) ? w->type : w->plain;
    if (weight->form == PLM_WEIGHT_BUFFER)
        type = PLM_STORED_F32;
    w->bytes += plm__stored_bytes(type, elements);
    return PLM_OK;
}

/* Of a checkpoint that is quantised: what is added to a tensor that its scheme takes. */
static size_t quantised_bytes(const plm_config *c, const plm_weight *weight, int64_t elements)
{
    int64_t in = weight->shape[weight->rank - 1], out = weight->shape[weight->rank - 2];
    int64_t group = c->quantizer_group > 0 ? c->quantizer_group : in, heads = elements / (in * out);
    if (c->quantizer == PLM_CONFIG_QUANTIZER_FP8 && c->quantizer_group > 0)
        return (size_t)elements + 4 * (size_t)(heads * ceil_div(in, group) * ceil_div(out, group));
    if (c->quantizer == PLM_CONFIG_QUANTIZER_FP8)
        return (size_t)elements + 4 * (size_t)heads;
    if (c->quantizer == PLM_CONFIG_QUANTIZER_GPTQ) /* scales of 16 bits, zeros as weights, order */
        return (size_t)(ceil_div(elements * c->quantizer_bits, 8) +
                        heads * ceil_div(in, group) * (2 * out + out * c->quantizer_bits / 8) +
                        4 * heads * in);
    return c->quantizer_bits == 4 ? plm__stored_bytes(PLM_STORED_NF4, elements)
                                  : (size_t)(elements + 4 * out);
}

static plm_status add_quantised(const plm_weight *weight, void *user)
{
    weighing *w = user;
    bool is_matrix = weight->form == PLM_WEIGHT_MATRIX || weight->form == PLM_WEIGHT_EXPERT;
    if (!is_matrix || weight->part == PLM_WEIGHT_LM_HEAD || weight->part == PLM_WEIGHT_ROUTER ||
        weight->is_in_tower)
        return add(weight, user);
    size_t bytes = quantised_bytes(w->config, weight, weight->elements);
    w->bytes += bytes / (size_t)(weight->elements / share(w, weight));
    return PLM_OK;
}

plm_status plm__stored_weights(const plm_config *config, plm_stored type, int64_t parallel,
                               size_t *bytes)
{
    plm_stored plain = plm__stored_of(config->tells_dtype ? config->dtype : PLM_DTYPE_F32);
    weighing w = {.config = config, .plain = plain, .parallel = parallel};
    bool is_quantised =
        type == PLM_STORED_AS_FILE && config->quantizer != PLM_CONFIG_QUANTIZER_NONE;
    w.type = type == PLM_STORED_AS_FILE ? plain : type;
    if (type == PLM_STORED_Q8_0 || type == PLM_STORED_Q4_0)
        w.plain = PLM_STORED_F32; /* normalisations and routers, in llama.cpp's files */
    PLM_FAIL_IF(is_quantised && config->quantizer == PLM_CONFIG_QUANTIZER_OTHER,
                PLM_ERROR_UNSUPPORTED,
                "%s: wanted weights quantised by fp8, gptq, awq or bitsandbytes, found '%s'; "
                "state the type of weights instead",
                config->name, config->quantizer_name);
    PLM_TRY(
        plm_config_weights(config, PLM_WEIGHTS_IN_MEMORY, is_quantised ? add_quantised : add, &w));
    *bytes = w.bytes;
    return PLM_OK;
}
