/* SPDX-License-Identifier: MIT */
/* When each storage is born and dies, and who may write over whom. */
#include "plan/plan.h"

/* Whether a tensor is its whole call storage. */
static bool fills_call_storage(const plm_graph *graph, const plm_tensor_info *tensor)
{
    const plm_storage *storage = &graph->storages.items[tensor->storage];
    return storage->scope == PLM_SCOPE_CALL && tensor->offset == 0 &&
           tensor->bytes == storage->bytes;
}

static void mark_use(const plm_graph *graph, plm_tensor tensor, int32_t position, plm_place *places)
{
    if (tensor == PLM_TENSOR_NONE)
        return;
    int32_t storage = plm__graph_tensor(graph, tensor)->storage;
    if (graph->storages.items[storage].scope == PLM_SCOPE_CALL)
        places[storage].death = position;
}

static void mark_birth(const plm_graph *graph, plm_tensor tensor, int32_t position,
                       plm_place *places)
{
    int32_t storage = plm__graph_tensor(graph, tensor)->storage;
    if (graph->storages.items[storage].scope == PLM_SCOPE_CALL && places[storage].birth < 0)
        places[storage].birth = position;
}

static void mark_births_and_deaths(const plm_graph *graph, plm_op_range range, plm_place *places)
{
    for (int64_t i = range.begin; i < range.end; i++) {
        const plm_op *op = &graph->ops.items[i];
        int32_t position = (int32_t)(i - range.begin);
        for (int k = 0; k < PLM_OP_OUTPUTS_MAX; k++) {
            if (op->out[k] == PLM_TENSOR_NONE)
                continue;
            mark_birth(graph, op->out[k], position, places);
            mark_use(graph, op->out[k], position, places);
        }
        for (int k = 0; k < PLM_OP_INPUTS_MAX; k++)
            mark_use(graph, op->in[k], position, places);
        for (int k = 0; k < PLM_OP_EFFECTS_MAX; k++) {
            if (op->effect[k] == PLM_TENSOR_NONE)
                continue;
            mark_birth(graph, op->effect[k], position, places);
            mark_use(graph, op->effect[k], position, places);
        }
    }
}

/* The input whose place output 0 takes, PLM_TENSOR_NONE when there is none. What the host reads is
 * never taken, not even by the last operation, and a part of something larger takes no place. */
static plm_tensor find_overwritten(const plm_graph *graph, const plm_op *op, int32_t position,
                                   const plm_place *places)
{
    uint32_t allowed = plm__op_info_of(op->kind)->overwrites;
    if (!fills_call_storage(graph, plm__graph_tensor(graph, op->out[0])))
        return PLM_TENSOR_NONE;
    for (int k = 0; allowed >> k; k++) {
        if (!(allowed >> k & 1))
            continue;
        const plm_tensor_info *in = plm__graph_tensor(graph, op->in[k]);
        bool read_twice = false;
        for (int j = 0; j < PLM_OP_INPUTS_MAX; j++)
            if (j != k && op->in[j] != PLM_TENSOR_NONE)
                read_twice |= plm__graph_tensor(graph, op->in[j])->storage == in->storage;
        if (!read_twice && !in->is_output && fills_call_storage(graph, in) &&
            places[in->storage].death == position &&
            in->bytes == plm__graph_tensor(graph, op->out[0])->bytes)
            return op->in[k];
    }
    return PLM_TENSOR_NONE;
}

/* Inputs are there from the first operation on, and what the host reads stays to the last; what no
 * operation writes or reads any more is nowhere. */
static void settle(const plm_graph *graph, plm_program program, plm_place *places)
{
    const plm_op_range range = graph->programs[program];
    for (int64_t i = 0; i < graph->tensors.count; i++) {
        const plm_tensor_info *tensor = &graph->tensors.items[i];
        plm_place *place = &places[tensor->storage];
        if (!plm__plan_is_call(graph, tensor->storage, program))
            continue;
        if (tensor->role == PLM_ROLE_INPUT)
            place->birth = 0;
        if (tensor->is_output)
            place->death = (int32_t)(range.end - range.begin - 1);
    }
    for (int64_t i = 0; i < graph->storages.count; i++) {
        if (!plm__plan_is_call(graph, i, program))
            continue;
        places[i].home = places[i].birth < 0 ? -1 : (int32_t)i;
        places[i].until = places[i].death;
    }
}

void plm__plan_lifetimes(const plm_graph *graph, plm_program program, plm_place *places)
{
    const plm_op_range range = graph->programs[program];
    for (int64_t i = 0; i < graph->storages.count; i++)
        if (plm__plan_is_call(graph, i, program))
            places[i] = (plm_place){.birth = -1, .takes = -1};
    mark_births_and_deaths(graph, range, places);
    settle(graph, program, places);
    for (int64_t i = range.begin; i < range.end; i++) {
        const plm_op *op = &graph->ops.items[i];
        if (op->out[0] == PLM_TENSOR_NONE)
            continue;
        plm_tensor in = find_overwritten(graph, op, (int32_t)(i - range.begin), places);
        if (in == PLM_TENSOR_NONE)
            continue;
        int32_t from = plm__graph_tensor(graph, in)->storage;
        int32_t to = plm__graph_tensor(graph, op->out[0])->storage;
        places[to].takes = from;
        places[to].home = places[from].home;
        places[places[to].home].until = places[to].death;
    }
}
