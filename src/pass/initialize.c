/* SPDX-License-Identifier: MIT */
/* The initialisation pass. */
#include "pass/pass.h"

plm_status plm__pass_initialize(plm_graph *graph)
{
    plm__graph_begin(graph, PLM_PROGRAM_INITIALIZE);
    for (int64_t i = 0; i < graph->parameters.count; i++) {
        const plm_parameter_info *parameter = &graph->parameters.items[i];
        plm_tensor value = plm__graph_flat(graph, parameter->flat[PLM_FLAT_PARAMETER],
                                           plm__graph_updated_flat(graph));
        plm_op_attr attr = {.scale = parameter->init.value, .site = PLM_HOLDER_INIT + (uint32_t)i};
        plm_tensor effect[PLM_OP_EFFECTS_MAX] = {value, PLM_TENSOR_NONE, PLM_TENSOR_NONE};
        plm__op_append(graph, parameter->init.normal ? PLM_OP_INIT_NORMAL : PLM_OP_INIT_CONSTANT,
                       &attr, NULL, effect);
    }
    return plm__pass_precision(graph);
}
