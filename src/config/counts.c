/* SPDX-License-Identifier: MIT */
/* Sums over a model's tensors. */
#include "base/status.h"
#include "plimsoll/config.h"

static const char *const part_texts[PLM_WEIGHT_PART_COUNT] = {
#define TEXT_ROW(name, text) [PLM_WEIGHT_##name] = text,
    PLM_WEIGHT_PART_MAP(TEXT_ROW)
#undef TEXT_ROW
};

const char *plm_weight_part_text(plm_weight_part part)
{
    return (unsigned)part < PLM_WEIGHT_PART_COUNT ? part_texts[part] : "unknown";
}

typedef struct total {
    const plm_config *config;
    plm_config_counts counts;
} total;

static plm_status add(const plm_weight *weight, void *user)
{
    total *sum = user;
    plm_config_counts *counts = &sum->counts;
    if (weight->form == PLM_WEIGHT_BUFFER) {
        counts->buffers += weight->elements;
        return PLM_OK;
    }
    counts->parameters += weight->elements;
    PLM_FAIL_IF(counts->parameters > PLM_CONFIG_ELEMENTS_MAX, PLM_ERROR_FORMAT,
                "%s: wanted a model of at most 2^50 parameters, found more", sum->config->name);
    counts->parts[weight->part] += weight->elements;
    if ((weight->form == PLM_WEIGHT_MATRIX && weight->part != PLM_WEIGHT_LM_HEAD) ||
        weight->form == PLM_WEIGHT_MATRIX_T) {
        counts->matrices++;
        counts->matrix_elements += weight->elements;
    }
    return PLM_OK;
}

plm_status plm_config_count(const plm_config *config, plm_config_counts *counts)
{
    total sum = {.config = config};
    PLM_TRY(plm_config_weights(config, PLM_WEIGHTS_IN_MEMORY, add, &sum));
    int64_t routed = sum.counts.parts[PLM_WEIGHT_ROUTED_EXPERTS];
    int64_t idle = config->experts - config->chosen_experts; /* experts of a layer */
    sum.counts.active_parameters = sum.counts.parameters;
    if (config->experts > 0)
        sum.counts.active_parameters -= routed / config->experts * idle;
    *counts = sum.counts;
    return PLM_OK;
}
