/* SPDX-License-Identifier: MIT */
/* The product with a weight, and its bias. */
#include "graph/rules.h"

PLM_SHAPE_RULE(linear)
{
    (void)attr;
    const plm_shape *x = plm__shape(graph, in[0]), *weight = plm__shape(graph, in[1]);
    if (weight->rank != 2 || weight->dims[1] != plm__columns(x))
        return plm__shape_failed("linear", "a weight [outputs,inputs] whose inputs are x's width",
                                 weight);
    if (in[2] != PLM_TENSOR_NONE && !plm__is_vector(plm__shape(graph, in[2]), weight->dims[0]))
        return plm__shape_failed("linear", "a bias as long as the weight's outputs",
                                 plm__shape(graph, in[2]));
    *out = *x;
    out->dims[out->rank - 1] = weight->dims[0];
    return PLM_OK;
}

plm_tensor plm_linear(plm_graph *graph, plm_tensor x, plm_tensor weight, plm_tensor bias)
{
    return plm__op_append(graph, PLM_OP_LINEAR, NULL, (plm_tensor[]){x, weight, bias}, NULL);
}

PLM_SHAPE_RULE(linear_grad_input)
{
    (void)attr;
    *out = *plm__shape(graph, in[0]);
    out->dims[out->rank - 1] = plm__shape(graph, in[1])->dims[1];
    return PLM_OK;
}

/* dW = dy^T x, db = sum dy, dx = dy W. Keeps x; the weight's gradient comes first, so that x can
 * die before dx is born. */
PLM_GRADIENT_RULE(linear)
{
    plm_tensor x = op->in[0], weight = op->in[1], bias = op->in[2];
    plm__emit_weight_gradient(graph, PLM_OP_LINEAR_GRAD_WEIGHT, op->attr,
                              (plm_tensor[]){x, dout[0]}, weight, PLM_TENSOR_NONE);
    if (bias != PLM_TENSOR_NONE)
        plm__emit_weight_gradient(graph, PLM_OP_LINEAR_GRAD_BIAS, op->attr, dout, bias,
                                  PLM_TENSOR_NONE);
    if (plm__wants(graph, op, 0))
        din[0] = plm__op_append(graph, PLM_OP_LINEAR_GRAD_INPUT, NULL,
                                (plm_tensor[]){dout[0], weight}, NULL);
}
