/* SPDX-License-Identifier: MIT */
/*
 * The slot: where the copy queue puts what the next micro-batch needs while the compute queue runs
 * this one. A slot is written after the signal that its last content was taken, in whatever program
 * runs then, so no program's order holds its birth or its death: it is of run scope, and lies at
 * the end of the persistent region, the one part of it that grows with the micro-batch.
 */
#include <string.h>

#include "base/size.h"
#include "plan/plan.h"

const char *const plm__plan_inputs[PLM_INPUT_COUNT] = {
    [PLM_INPUT_TOKENS] = "tokens",
    [PLM_INPUT_TARGETS] = "targets",
    [PLM_INPUT_TYPES] = "types",
};

static const char *const part_names[PLM_SLOT_PARTS] = {
    [PLM_INPUT_TOKENS] = "next tokens",
    [PLM_INPUT_TARGETS] = "next targets",
    [PLM_INPUT_TYPES] = "next types",
    [PLM_SLOT_RECORD] = "next step record",
};

int plm__plan_input(const plm_graph *graph, const plm_tensor_info *tensor)
{
    const char *name = plm__intern_text(&graph->names, tensor->name);
    int which = 0;
    while (which < PLM_INPUT_COUNT && strcmp(name, plm__plan_inputs[which]) != 0)
        which++;
    return which;
}

static plm_status add_part(plm_plan *plan, int part, const plm_shape *shape, plm_role role)
{
    plm_tensor *tensor = &plan->slot.parts[part];
    PLM_TRY(plm__graph_run_tensor(plan->graph, part_names[part], shape, role, tensor));
    plan->slot.bytes += plm__granules(plm__graph_tensor(plan->graph, *tensor)->bytes);
    return PLM_OK;
}

plm_status plm__plan_add_slot(plm_plan *plan)
{
    plm_graph *graph = plan->graph;
    const plm_shape record = {PLM_DTYPE_U8, 1, {PLM_STEP_HOST_BYTES}};
    int64_t count = graph->tensors.count; /* without the slot's own */
    graph->layer = 0;
    PLM_TRY(add_part(plan, PLM_SLOT_RECORD, &record, PLM_ROLE_STATE));
    for (int64_t i = 0; i < count; i++) {
        const plm_tensor_info info = *plm__graph_tensor(graph, (plm_tensor)i);
        if (info.role == PLM_ROLE_INPUT && info.view_of == PLM_TENSOR_NONE &&
            plm__plan_is_call(graph, info.storage, PLM_PROGRAM_FIRST))
            PLM_TRY(add_part(plan, plm__plan_input(graph, &info), &info.shape, PLM_ROLE_INPUT));
    }
    return PLM_OK;
}
