/* SPDX-License-Identifier: MIT */
/* The backward pass: reverse-mode differentiation of one program. */
#include <string.h>

#include "pass/pass.h"

/* Adds `gradient` to what `of` has so far. */
static void contribute(plm_graph *graph, plm_tensor *gradients, plm_tensor of, plm_tensor gradient)
{
    if (gradient == PLM_TENSOR_NONE)
        return;
    plm_tensor *slot = &gradients[of];
    *slot = *slot == PLM_TENSOR_NONE ? gradient : plm_add(graph, *slot, gradient);
}

/* Emits the backward of the operation at `index`, when a gradient reaches it. */
static void differentiate(plm_graph *graph, int64_t index, plm_tensor *gradients)
{
    const plm_op op = graph->ops.items[index];
    const plm_op_info *info = plm__op_info_of(op.kind);
    plm_tensor dout[PLM_OP_OUTPUTS_MAX], din[PLM_OP_INPUTS_MAX];
    memset(dout, -1, sizeof dout);
    memset(din, -1, sizeof din);
    bool reached = op.out[0] != PLM_TENSOR_NONE && op.out[0] == graph->loss[graph->program];
    for (int32_t i = 0; i < info->outputs; i++) {
        dout[i] = gradients[op.out[i]];
        reached |= dout[i] != PLM_TENSOR_NONE;
    }
    if (!reached || !plm__graph_tensor(graph, op.out[0])->needs_gradient)
        return;
    graph->block = op.block; /* an operation's backward belongs to its block */
    plm__op_gradient(graph, &op, dout, din);
    graph->layer = op.layer;
    for (int32_t i = 0; i < info->inputs; i++)
        contribute(graph, gradients, op.in[i], din[i]);
}

plm_status plm__pass_backward(plm_graph *graph)
{
    PLM_TRY(plm__graph_status(graph));
    PLM_FAIL_IF(graph->loss[graph->program] == PLM_TENSOR_NONE, PLM_ERROR_ARGUMENT,
                "the network ends without a cross entropy: nothing to differentiate");
    /* Only forward tensors are looked up; the operations emitted meanwhile make newer ones. */
    const plm_op_range forward = graph->programs[graph->program];
    size_t bytes = (size_t)graph->tensors.count * sizeof(plm_tensor);
    plm_tensor *gradients = NULL;
    PLM_TRY(plm__host_alloc(bytes, &gradients));
    memset(gradients, -1, bytes);
    for (int64_t i = forward.end - 1; i >= forward.begin; i--)
        differentiate(graph, i, gradients);
    graph->block = -1;
    plm__host_free(gradients);
    return plm__graph_status(graph);
}
