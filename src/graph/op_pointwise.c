/* SPDX-License-Identifier: MIT */
/* Element by element: GELU, addition, dropout. */
#include <string.h>

#include "graph/rules.h"

plm_tensor plm_gelu(plm_graph *graph, plm_tensor x)
{
    return plm__op_append(graph, PLM_OP_GELU, NULL, &x, NULL);
}

/* Keeps x. */
PLM_GRADIENT_RULE(gelu)
{
    din[0] =
        plm__op_append(graph, PLM_OP_GELU_GRAD, NULL, (plm_tensor[]){dout[0], op->in[0]}, NULL);
}

plm_tensor plm_gelu_exact(plm_graph *graph, plm_tensor x)
{
    return plm__op_append(graph, PLM_OP_GELU_EXACT, NULL, &x, NULL);
}

/* Keeps x. */
PLM_GRADIENT_RULE(gelu_exact)
{
    din[0] = plm__op_append(graph, PLM_OP_GELU_EXACT_GRAD, NULL, (plm_tensor[]){dout[0], op->in[0]},
                            NULL);
}

PLM_SHAPE_RULE(add)
{
    (void)attr;
    const plm_shape *left = plm__shape(graph, in[0]), *right = plm__shape(graph, in[1]);
    char text[PLM_SHAPE_TEXT];
    if (memcmp(left, right, sizeof *left) != 0)
        return plm__shape_failed("add", plm__shape_format(left, text), right);
    *out = *left;
    return PLM_OK;
}

plm_tensor plm_add(plm_graph *graph, plm_tensor a, plm_tensor b)
{
    return plm__op_append(graph, PLM_OP_ADD, NULL, (plm_tensor[]){a, b}, NULL);
}

/* The gradient of a sum is its terms' gradient: no operation. */
PLM_GRADIENT_RULE(add)
{
    for (int i = 0; i < 2; i++)
        if (plm__wants(graph, op, i))
            din[i] = dout[0];
}

plm_tensor plm_dropout(plm_graph *graph, plm_tensor x, float probability)
{
    bool trains = graph->program == PLM_PROGRAM_FIRST || graph->program == PLM_PROGRAM_NEXT;
    if (!(probability >= 0 && probability < 1)) {
        plm__graph_check(graph, plm_fail(PLM_ERROR_ARGUMENT,
                                         "wanted a dropout probability of at least 0 and under 1, "
                                         "found %g",
                                         (double)probability));
        return PLM_TENSOR_NONE;
    }
    plm_op_attr attr = {.probability = probability, .site = graph->next_site++};
    return trains && probability > 0 ? plm__op_append(graph, PLM_OP_DROPOUT, &attr, &x, NULL) : x;
}

/* The same mask over the gradient: made again from the site, not kept. */
PLM_GRADIENT_RULE(dropout)
{
    din[0] = plm__op_append(graph, PLM_OP_DROPOUT, &op->attr, dout, NULL);
}
