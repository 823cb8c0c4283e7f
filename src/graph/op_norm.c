/* SPDX-License-Identifier: MIT */
/* Layer normalisation. */
#include "graph/rules.h"

PLM_SHAPE_RULE(layer_norm)
{
    (void)attr;
    const plm_shape *x = plm__shape(graph, in[0]);
    int64_t columns = plm__columns(x);
    for (int i = 1; i < 3; i++)
        if (!plm__is_vector(plm__shape(graph, in[i]), columns))
            return plm__shape_failed("layer norm", "a weight and a bias as wide as x",
                                     plm__shape(graph, in[i]));
    out[0] = *x;
    out[1] = out[2] = (plm_shape){PLM_DTYPE_F32, 1, {plm__rows(x)}};
    return PLM_OK;
}

plm_tensor plm_layer_norm(plm_graph *graph, plm_tensor x, plm_tensor weight, plm_tensor bias,
                          float epsilon)
{
    plm_op_attr attr = {.epsilon = epsilon};
    return plm__op_append(graph, PLM_OP_LAYER_NORM, &attr, (plm_tensor[]){x, weight, bias}, NULL);
}

/* Keeps x and each row's mean and rstd, from which the normalised value is made again. */
PLM_GRADIENT_RULE(layer_norm)
{
    plm_tensor x = op->in[0], mean = op->out[1], rstd = op->out[2];
    plm__emit_weight_gradient(graph, PLM_OP_LAYER_NORM_GRAD_WEIGHT, op->attr,
                              (plm_tensor[]){dout[0], x, mean, rstd}, op->in[1], op->in[2]);
    if (plm__wants(graph, op, 0))
        din[0] = plm__op_append(graph, PLM_OP_LAYER_NORM_GRAD_INPUT, &op->attr,
                                (plm_tensor[]){dout[0], x, op->in[1], mean, rstd}, NULL);
}
