/* SPDX-License-Identifier: MIT */
/* The initialisation pass. */
#include "pass/pass.h"

#include "base/dtype.h"

/* What is initialised of a parameter: padding stays 0, as all of it is at first. */
static plm_tensor first_values(plm_graph *graph, const plm_parameter_info *parameter)
{
    plm_flat updated = plm__graph_updated_flat(graph);
    plm_tensor whole = plm__graph_flat(graph, parameter->flat[PLM_FLAT_PARAMETER], updated);
    if (whole == PLM_TENSOR_NONE)
        return PLM_TENSOR_NONE;
    const plm_tensor_info info = *plm__graph_tensor(graph, whole);
    if (info.shape.dims[0] == parameter->shape.dims[0])
        return whole;
    size_t begin = info.offset / plm__dtype_size(info.shape.dtype);
    size_t count = (size_t)plm__shape_elements(&parameter->shape);
    return plm__graph_flat_part(graph, updated, parameter->group, begin, begin + count);
}

plm_status plm__pass_initialize(plm_graph *graph)
{
    plm__graph_begin(graph, PLM_PROGRAM_INITIALIZE);
    for (int64_t i = 0; i < graph->parameters.count; i++) {
        const plm_parameter_info *parameter = &graph->parameters.items[i];
        plm_tensor value = first_values(graph, parameter);
        plm_op_attr attr = {.scale = parameter->init.value, .site = PLM_HOLDER_INIT + (uint32_t)i};
        plm_tensor effect[PLM_OP_EFFECTS_MAX] = {value, PLM_TENSOR_NONE, PLM_TENSOR_NONE};
        plm__op_append(graph, parameter->init.normal ? PLM_OP_INIT_NORMAL : PLM_OP_INIT_CONSTANT,
                       &attr, NULL, effect);
    }
    return plm__pass_precision(graph);
}
