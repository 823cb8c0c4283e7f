/* SPDX-License-Identifier: MIT */
/*
 * Models by name or by a short description:
 *
 *     gpt2  gpt2-medium  gpt2-large  gpt2-xl  bert-base  bert-large
 *     gpt:layers=6,width=384,heads=6,context=256,vocab=256,dropout=0.1
 *     bert:layers=6,width=384,heads=6,context=256,vocab=257
 *
 * A GPT (Radford et al. 2019): token and position embedding, `layers` blocks of pre-normalised
 * causal attention and a GELU MLP four times as wide, a final normalisation, a head tied to the
 * token embedding.
 *
 * A BERT (Devlin et al. 2019): token, position and type embedding, normalised; `layers` blocks of
 * attention in both directions and an MLP with the exact GELU, each normalised after its sum; a
 * head of a product, a GELU and a normalisation before the tied token embedding and its bias. It
 * learns to tell tokens that are hidden from it.
 *
 * Thread-safe.
 */
#ifndef PLIMSOLL_MODEL_H
#define PLIMSOLL_MODEL_H

#include "plimsoll/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plm_family plm_family; /* what a kind of model is; static */

typedef struct plm_model {
    char name[128]; /* as it was asked for */
    const plm_family *family;
    int64_t layers;
    int64_t width;   /* C, a multiple of heads */
    int64_t heads;   /* H */
    int64_t context; /* rows of the position table */
    int64_t vocab;   /* V */
    float dropout;   /* on the embedding and the residual branches, in [0, 1) */
} plm_model;

/*
 * *model = what `text` names or describes. PLM_ERROR_ARGUMENT names the unknown model or key, the
 * missing key, the number out of range, or heads that do not divide the width.
 */
PLM_MUST_USE plm_status plm_model_parse(const char *text, plm_model *model);

/* The network of a model; *model is borrowed as long as plans are made from it. */
plm_network plm_model_network(const plm_model *model);

/* Whether the model learns hidden tokens from both sides, so that it cannot continue a text. */
bool plm_model_is_masked(const plm_model *model);

#ifdef __cplusplus
}
#endif
#endif
