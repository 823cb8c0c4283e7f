/* SPDX-License-Identifier: MIT */
/* Laying a program out anew, operation by operation. */
#include <string.h>

#include "pass/pass_internal.h"

plm_status plm__rewrite_begin(const plm_graph *graph, plm__old_program *old)
{
    const plm_op_range range = graph->programs[graph->program];
    old->count = range.end - range.begin;
    size_t bytes = (size_t)old->count * sizeof *old->ops;
    PLM_TRY(plm__host_alloc(bytes, &old->ops));
    memcpy(old->ops, graph->ops.items + range.begin, bytes);
    return PLM_OK;
}

void plm__rewrite_keep(plm_graph *graph, int64_t kept)
{
    plm_op_range *range = &graph->programs[graph->program];
    graph->ops.count = range->end = range->begin + kept;
}

/* The last operation makes `tensor`; what is written part by part is made by who writes its first
 * part. */
static void set_producer(plm_graph *graph, plm_tensor tensor)
{
    plm_tensor_info *tensors = graph->tensors.items;
    size_t offset = tensors[tensor].offset;
    for (; tensor != PLM_TENSOR_NONE && tensors[tensor].offset == offset;
         tensor = tensors[tensor].view_of)
        tensors[tensor].producer = (int32_t)(graph->ops.count - 1);
}

plm_status plm__rewrite_append(plm_graph *graph, const plm_op *op)
{
    PLM_TRY(PLM_ARRAY_PUSH(&graph->ops, *op));
    for (int i = 0; i < PLM_OP_OUTPUTS_MAX; i++)
        if (op->out[i] != PLM_TENSOR_NONE)
            set_producer(graph, op->out[i]);
    graph->programs[graph->program].end = graph->ops.count;
    return PLM_OK;
}
