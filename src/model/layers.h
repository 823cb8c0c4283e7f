/* SPDX-License-Identifier: MIT */
/*
 * The layers that families share, written with the public builder: each makes the parameters it
 * wants, by name, in the layer that is current. A parameter's first call gives it its place in the
 * persistent region, so a family calls these one statement at a time.
 */
#ifndef PLM_MODEL_LAYERS_H
#define PLM_MODEL_LAYERS_H

#include "model/family.h"

#define PLM_LAYER_DEVIATION 0.02f /* of the first values of weights, in GPT-2 and in BERT */

/* The keys of a transformer with learned positions, and what they must agree on. */
extern const plm_model_key plm__transformer_keys[];
PLM_MUST_USE plm_status plm__transformer_check(const plm_model *model);

/* A matrix [outputs,inputs] that starts normal and decays. */
plm_tensor plm__layer_weight(plm_graph *g, const char *name, int64_t outputs, int64_t inputs,
                             float deviation);

/* "name.part", a vector that starts constant and does not decay. */
plm_tensor plm__layer_vector(plm_graph *g, const char *name, const char *part, int64_t width,
                             float value);

/* x [..,C] -> [..,C] */
plm_tensor plm__layer_norm(plm_graph *g, const char *name, plm_tensor x, int64_t width,
                           float epsilon);

/* x [..,inputs] -> [..,outputs], with a bias */
plm_tensor plm__layer_linear(plm_graph *g, const char *name, plm_tensor x, int64_t outputs,
                             int64_t inputs, float deviation);

/* Token ids [B,T] -> token + position [B,T,C]; *table = the token table, for the head. */
plm_tensor plm__layer_embedding(plm_graph *g, const plm_model *m, plm_tensor tokens,
                                plm_tensor *table);

/* x [B,T,C] -> [B,T,C]: query, key and value, attention, projection with `deviation`. */
plm_tensor plm__layer_attention(plm_graph *g, const plm_model *m, plm_tensor x, bool causal,
                                float deviation);

/* An activation function of the builder. */
typedef plm_tensor plm_activation(plm_graph *g, plm_tensor x);

/* x [B,T,C] -> [B,T,C]: up to 4 C, `activation`, down with `deviation`. */
plm_tensor plm__layer_mlp(plm_graph *g, const plm_model *m, plm_tensor x,
                          plm_activation *activation, float deviation);

#endif
