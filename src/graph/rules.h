/* SPDX-License-Identifier: MIT */
/*
 * The rules behind the operation table, one pair an operation, in op_FAMILY.c. Only src/graph
 * includes this.
 *
 * A shape rule checks the inputs and sets the shapes of the outputs; a gradient rule emits backward
 * operations and sets din[i] for the inputs that want a gradient.
 */
#ifndef PLM_GRAPH_RULES_H
#define PLM_GRAPH_RULES_H

#include "graph/graph.h"

typedef plm_status (*plm_shape_rule)(const plm_graph *graph, const plm_op_attr *attr,
                                     const plm_tensor *in, plm_shape *out);
typedef void (*plm_gradient_rule)(plm_graph *graph, const plm_op *op, const plm_tensor *dout,
                                  plm_tensor *din);

#define PLM_SHAPE_RULE(name)                                                                       \
    plm_status plm__shape_##name(const plm_graph *graph, const plm_op_attr *attr,                  \
                                 const plm_tensor *in, plm_shape *out)
#define PLM_GRADIENT_RULE(name)                                                                    \
    void plm__gradient_##name(plm_graph *graph, const plm_op *op, const plm_tensor *dout,          \
                              plm_tensor *din)

PLM_SHAPE_RULE(none); /* no outputs */
PLM_SHAPE_RULE(same); /* every input like the first, the output too */
PLM_SHAPE_RULE(add);
PLM_SHAPE_RULE(embedding);
PLM_SHAPE_RULE(position);
PLM_SHAPE_RULE(select);
PLM_SHAPE_RULE(layer_norm);
PLM_SHAPE_RULE(linear);
PLM_SHAPE_RULE(linear_grad_input);
PLM_SHAPE_RULE(attention);
PLM_SHAPE_RULE(attention_scores);
PLM_SHAPE_RULE(attention_scores_of_second);
PLM_SHAPE_RULE(attention_apply);
PLM_SHAPE_RULE(attention_grad);
PLM_SHAPE_RULE(cross_entropy);

PLM_GRADIENT_RULE(embedding);
PLM_GRADIENT_RULE(position);
PLM_GRADIENT_RULE(layer_norm);
PLM_GRADIENT_RULE(linear);
PLM_GRADIENT_RULE(gelu);
PLM_GRADIENT_RULE(gelu_exact);
PLM_GRADIENT_RULE(add);
PLM_GRADIENT_RULE(dropout);
PLM_GRADIENT_RULE(attention);
PLM_GRADIENT_RULE(attention_apply);
PLM_GRADIENT_RULE(cross_entropy);

/* The shape of a tensor. */
static inline const plm_shape *plm__shape(const plm_graph *graph, plm_tensor tensor)
{
    return &graph->tensors.items[tensor].shape;
}

/* Whether input i of `op` wants a gradient. */
static inline bool plm__wants(const plm_graph *graph, const plm_op *op, int i)
{
    return op->in[i] != PLM_TENSOR_NONE && graph->tensors.items[op->in[i]].needs_gradient;
}

/* The last dimension, and the product of all others. */
static inline int64_t plm__columns(const plm_shape *shape)
{
    return shape->dims[shape->rank - 1];
}
int64_t plm__rows(const plm_shape *shape);

/* A vector [columns] of real numbers, as weights and biases of normalisations and products are. */
bool plm__is_vector(const plm_shape *shape, int64_t columns);

/* Fails with both shapes named. */
plm_status plm__shape_failed(const char *op, const char *wanted, const plm_shape *found);

/*
 * The gradient of a weight, and of a `second` that the same operation writes (or PLM_TENSOR_NONE),
 * as effects: `attr` and `in` as for plm__op_append. Nothing when they are frozen; a failure when
 * only one is, or when one is written and the other added to.
 */
void plm__emit_weight_gradient(plm_graph *graph, plm_op_kind kind, plm_op_attr attr,
                               const plm_tensor *in, plm_tensor weight, plm_tensor second);

#endif
