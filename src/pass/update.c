/* SPDX-License-Identifier: MIT */
/* The update pass. */
#include "pass/pass.h"

plm_status plm_pass_update(plm_graph *graph)
{
    plm_graph_begin(graph, PLM_PROGRAM_UPDATE);
    for (int64_t i = 0; i < graph->parameters.count; i++) {
        plm_tensor parameter = graph->parameters.items[i].flat[PLM_FLAT_PARAMETER];
        if (!plm_graph_tensor(graph, parameter)->trainable)
            continue;
        plm__graph_flat(graph, parameter, PLM_FLAT_GRADIENT);
        plm__graph_flat(graph, parameter, PLM_FLAT_MOMENT1);
        plm__graph_flat(graph, parameter, PLM_FLAT_MOMENT2);
    }
    plm_tensor gradients[4] = {PLM_TENSOR_NONE, PLM_TENSOR_NONE, PLM_TENSOR_NONE, PLM_TENSOR_NONE};
    for (int group = 0; group < PLM_GROUP_COUNT; group++)
        gradients[group] = plm__graph_flat_whole(graph, PLM_FLAT_GRADIENT, (plm_group)group);
    plm__op_append(graph, PLM_OP_GRADIENT_NORM, NULL, gradients, NULL);
    for (int group = 0; group < PLM_GROUP_COUNT; group++) {
        if (gradients[group] == PLM_TENSOR_NONE)
            continue;
        plm_op_attr attr = {.decay = group == PLM_GROUP_DECAY};
        plm_tensor effect[PLM_OP_EFFECTS_MAX] = {
            plm__graph_flat_whole(graph, PLM_FLAT_PARAMETER, (plm_group)group),
            plm__graph_flat_whole(graph, PLM_FLAT_MOMENT1, (plm_group)group),
            plm__graph_flat_whole(graph, PLM_FLAT_MOMENT2, (plm_group)group),
        };
        plm__op_append(graph, PLM_OP_ADAMW, &attr, &gradients[group], effect);
    }
    return plm_graph_status(graph);
}
