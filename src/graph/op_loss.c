/* SPDX-License-Identifier: MIT */
/* Cross entropy over rows of logits, and the sum of the losses. */
#include "graph/rules.h"

PLM_SHAPE_RULE(cross_entropy)
{
    (void)attr;
    const plm_shape *logits = plm__shape(graph, in[0]), *targets = plm__shape(graph, in[1]);
    if (targets->dtype != PLM_DTYPE_I32 || plm__shape_elements(targets) != plm__rows(logits))
        return plm__shape_failed("cross entropy", "one int32 target a row of logits", targets);
    out[0] = out[1] = (plm_shape){PLM_DTYPE_F32, 1, {plm__rows(logits)}};
    return PLM_OK;
}

plm_tensor plm_cross_entropy(plm_graph *graph, plm_tensor logits, plm_tensor targets)
{
    if (graph->loss[graph->program] != PLM_TENSOR_NONE) {
        plm__graph_check(graph, plm_fail(PLM_ERROR_ARGUMENT,
                                         "wanted one cross entropy in %s, found a second",
                                         plm_program_text(graph->program)));
        return PLM_TENSOR_NONE;
    }
    if (!plm__graph_check(graph, PLM_OK))
        return PLM_TENSOR_NONE;
    plm_op_attr attr = {0};
    if (logits > PLM_TENSOR_STEP && logits < graph->tensors.count)
        attr.columns = plm__graph_real_columns(graph, logits);
    plm_tensor losses =
        plm__op_append(graph, PLM_OP_CROSS_ENTROPY, &attr, (plm_tensor[]){logits, targets}, NULL);
    plm__op_append(graph, PLM_OP_LOSS_SUM, NULL, &losses, NULL);
    graph->loss[graph->program] = losses;
    return losses;
}

/* dlogits over the logits, already divided by the window's count. Keeps the logits and one number a
 * row. */
PLM_GRADIENT_RULE(cross_entropy)
{
    (void)dout;
    din[0] = plm__op_append(graph, PLM_OP_CROSS_ENTROPY_GRAD, &op->attr,
                            (plm_tensor[]){op->in[0], op->in[1], op->out[1]}, NULL);
}
