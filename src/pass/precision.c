/* SPDX-License-Identifier: MIT */
/*
 * The precision pass. The builder makes weights and activations in the strategy's precision, and
 * the operation table says what is fp32 all the same; what is left for a pass is that weights of
 * 16 bits follow their masters.
 */
#include "pass/pass.h"

plm_status plm__pass_precision(plm_graph *graph)
{
    if (graph->strategy.precision == PLM_DTYPE_F32)
        return plm__graph_status(graph);
    for (int group = 0; group < PLM_GROUP_COUNT; group++) {
        plm_tensor masters = plm__graph_flat_whole(graph, PLM_FLAT_MASTER, (plm_group)group);
        if (masters == PLM_TENSOR_NONE)
            continue;
        plm_tensor effect[PLM_OP_EFFECTS_MAX] = {
            plm__graph_flat_whole(graph, PLM_FLAT_PARAMETER, (plm_group)group), PLM_TENSOR_NONE,
            PLM_TENSOR_NONE};
        plm__op_append(graph, PLM_OP_CAST, NULL, &masters, effect);
    }
    return plm__graph_status(graph);
}
