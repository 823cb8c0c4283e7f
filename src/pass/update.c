/* SPDX-License-Identifier: MIT */
/*
 * The update passes. Late, the optimizer runs over each decay group's flat storages, but for what
 * is frozen there, in a program of its own. Early, each parameter is updated in the program that
 * makes its gradient, right behind the last operation that reads the parameter or adds to its
 * gradient.
 */
#include <string.h>

#include "pass/pass.h"
#include "pass/pass_internal.h"
#include "base/dtype.h"

static const plm_flat moments[] = {PLM_FLAT_MOMENT1, PLM_FLAT_MOMENT2};

static const struct {
    plm_op_kind op;
    int moments; /* the effects after the parameter */
} optimizers[PLM_OPTIMIZER_COUNT] = {
#define OPTIMIZER_ROW(name, op, moments, text, title)                                              \
    [PLM_OPTIMIZER_##name] = {PLM_OP_##op, moments},
    PLM_OPTIMIZER_MAP(OPTIMIZER_ROW)
#undef OPTIMIZER_ROW
};

/* Master and moments of everything that learns, and its gradient where that is kept. */
static void make_flats(plm_graph *graph, plm_optimizer optimizer)
{
    for (int64_t i = 0; i < graph->parameters.count; i++) {
        plm_tensor parameter = graph->parameters.items[i].flat[PLM_FLAT_PARAMETER];
        if (!plm__graph_tensor(graph, parameter)->trainable)
            continue;
        if (graph->strategy.update == PLM_UPDATE_LATE)
            plm__graph_flat(graph, parameter, PLM_FLAT_GRADIENT);
        plm__graph_flat(graph, parameter, plm__graph_updated_flat(graph));
        for (int m = 0; m < optimizers[optimizer].moments; m++)
            plm__graph_flat(graph, parameter, moments[m]);
    }
}

/* Elements [begin, end) of a group. */
static void update_part(plm_graph *graph, plm_optimizer optimizer, plm_group group, size_t begin,
                        size_t end)
{
    plm_op_attr attr = {.decay = group == PLM_GROUP_DECAY};
    plm_flat updated = plm__graph_updated_flat(graph);
    plm_tensor gradient = plm__graph_flat_part(graph, PLM_FLAT_GRADIENT, group, begin, end);
    plm_tensor effect[PLM_OP_EFFECTS_MAX] = {
        plm__graph_flat_part(graph, updated, group, begin, end), PLM_TENSOR_NONE, PLM_TENSOR_NONE};
    for (int m = 0; m < optimizers[optimizer].moments; m++)
        effect[1 + m] = plm__graph_flat_part(graph, moments[m], group, begin, end);
    plm__op_append(graph, optimizers[optimizer].op, &attr, &gradient, effect);
}

/* The group at once, but for what is frozen: decay would move that too. */
static void update_group(plm_graph *graph, plm_optimizer optimizer, plm_group group)
{
    bool learns = false;
    size_t begin = 0; /* of neighbours that learn */
    for (int64_t i = 0; i < graph->parameters.count; i++) {
        const plm_parameter_info *parameter = &graph->parameters.items[i];
        const plm_tensor_info *value =
            plm__graph_tensor(graph, parameter->flat[PLM_FLAT_PARAMETER]);
        size_t at = value->offset / plm__dtype_size(value->shape.dtype);
        if (parameter->group != group || value->trainable == learns)
            continue;
        if (learns)
            update_part(graph, optimizer, group, begin, at);
        learns = !learns;
        begin = at;
    }
    if (learns)
        update_part(graph, optimizer, group, begin, graph->group_elements[group]);
}

static plm_status check_optimizer(plm_optimizer optimizer)
{
    PLM_FAIL_IF((unsigned)optimizer >= PLM_OPTIMIZER_COUNT, PLM_ERROR_ARGUMENT,
                "wanted one of %d optimizers, found number %d", PLM_OPTIMIZER_COUNT,
                (int)optimizer);
    return PLM_OK;
}

static plm_status update_late(plm_graph *graph, plm_optimizer optimizer)
{
    plm_tensor gradients[4] = {PLM_TENSOR_NONE, PLM_TENSOR_NONE, PLM_TENSOR_NONE, PLM_TENSOR_NONE};
    for (int group = 0; group < PLM_GROUP_COUNT; group++)
        gradients[group] = plm__graph_flat_whole(graph, PLM_FLAT_GRADIENT, (plm_group)group);
    plm__op_append(graph, PLM_OP_GRADIENT_NORM, NULL, gradients, NULL);
    for (int group = 0; group < PLM_GROUP_COUNT; group++)
        if (gradients[group] != PLM_TENSOR_NONE)
            update_group(graph, optimizer, (plm_group)group);
    return plm__pass_precision(graph);
}

plm_status plm__pass_update(plm_graph *graph, plm_optimizer optimizer)
{
    PLM_TRY(check_optimizer(optimizer));
    plm__graph_begin(graph, PLM_PROGRAM_UPDATE);
    make_flats(graph, optimizer);
    if (graph->strategy.update == PLM_UPDATE_LATE)
        return update_late(graph, optimizer);
    const plm_op_attr attr = {.early = true};
    const plm_tensor none[4] = {PLM_TENSOR_NONE, PLM_TENSOR_NONE, PLM_TENSOR_NONE, PLM_TENSOR_NONE};
    plm__op_append(graph, PLM_OP_GRADIENT_NORM, &attr, none, NULL);
    return plm__graph_status(graph);
}

/* ---- early --------------------------------------------------------------------------------- */

/* Updates parameter `index` here, from its gradient. */
static void update_parameter(plm_graph *graph, plm_optimizer optimizer, int64_t index)
{
    const plm_parameter_info parameter = graph->parameters.items[index];
    const plm_tensor value = parameter.flat[PLM_FLAT_PARAMETER];
    plm_tensor gradient = parameter.flat[PLM_FLAT_GRADIENT];
    plm_op_attr attr = {.decay = parameter.group == PLM_GROUP_DECAY, .early = true};
    graph->layer = plm__graph_tensor(graph, value)->layer;
    plm_tensor effect[PLM_OP_EFFECTS_MAX] = {
        plm__graph_flat(graph, value, plm__graph_updated_flat(graph)), PLM_TENSOR_NONE,
        PLM_TENSOR_NONE};
    for (int m = 0; m < optimizers[optimizer].moments; m++)
        effect[1 + m] = plm__graph_flat(graph, value, moments[m]);
    plm__op_append(graph, PLM_OP_GRADIENT_PART, &attr, &gradient, NULL);
    plm__op_append(graph, optimizers[optimizer].op, &attr, &gradient, effect);
    if (effect[0] != value)
        plm__op_append(graph, PLM_OP_CAST, NULL, effect,
                       (plm_tensor[]){value, PLM_TENSOR_NONE, PLM_TENSOR_NONE});
}

/* What is updated behind each operation: lists of parameters, the first at behind[operation]. */
typedef struct early_places {
    plm__old_program old;
    int64_t *last;   /* by parameter: its operation, -1 while none is known */
    int64_t *behind; /* by operation: a parameter, -1 for none */
    int64_t *next;   /* by parameter: another one there, -1 for none */
} early_places;

/* The last operation of the program that reads each parameter or adds to its gradient. */
static void find_last(const plm_graph *graph, early_places *places)
{
    for (int64_t i = 0; i < places->old.count; i++) {
        const plm_op *op = &places->old.ops[i];
        for (int k = 0; k < PLM_OP_INPUTS_MAX; k++)
            if (op->in[k] != PLM_TENSOR_NONE && graph->parameter_of.items[op->in[k]] >= 0)
                places->last[graph->parameter_of.items[op->in[k]]] = i;
        for (int k = 0; k < PLM_OP_EFFECTS_MAX; k++)
            if (op->effect[k] != PLM_TENSOR_NONE && graph->parameter_of.items[op->effect[k]] >= 0)
                places->last[graph->parameter_of.items[op->effect[k]]] = i;
    }
}

static plm_status find_places(const plm_graph *graph, early_places *places)
{
    size_t parameters = (size_t)graph->parameters.count * sizeof(int64_t);
    PLM_TRY(plm__rewrite_begin(graph, &places->old));
    size_t ops = (size_t)places->old.count * sizeof(int64_t);
    PLM_TRY(plm__host_alloc(parameters, &places->last));
    PLM_TRY(plm__host_alloc(parameters, &places->next));
    PLM_TRY(plm__host_alloc(ops, &places->behind));
    memset(places->last, -1, parameters);
    memset(places->behind, -1, ops);
    find_last(graph, places);
    for (int64_t p = graph->parameters.count - 1; p >= 0; p--) {
        const plm_parameter_info *info = &graph->parameters.items[p];
        const plm_tensor_info *value = plm__graph_tensor(graph, info->flat[PLM_FLAT_PARAMETER]);
        if (!value->trainable)
            continue;
        PLM_FAIL_IF(info->flat[PLM_FLAT_GRADIENT] == PLM_TENSOR_NONE, PLM_ERROR_UNSUPPORTED,
                    "an early update wants a gradient for every parameter that learns; '%s' has "
                    "none, as the loss does not depend on it",
                    plm__intern_text(&graph->names, value->name));
        places->next[p] = places->behind[places->last[p]];
        places->behind[places->last[p]] = p;
    }
    return PLM_OK;
}

plm_status plm__pass_update_early(plm_graph *graph, plm_optimizer optimizer)
{
    early_places places = {0};
    plm_status status;
    if (graph->strategy.update != PLM_UPDATE_EARLY)
        return PLM_OK;
    PLM_TRY(check_optimizer(optimizer));
    PLM_TRY_DONE(find_places(graph, &places));
    plm__rewrite_keep(graph, 0);
    for (int64_t i = 0; i < places.old.count; i++) {
        const plm_op *op = &places.old.ops[i];
        PLM_TRY_DONE(plm__rewrite_append(graph, op));
        graph->block = op->block;
        for (int64_t p = places.behind[i]; p >= 0; p = places.next[p])
            update_parameter(graph, optimizer, p);
    }
    graph->block = -1;
    status = plm__graph_status(graph);
done:
    plm__host_free(places.old.ops);
    plm__host_free(places.last);
    plm__host_free(places.next);
    plm__host_free(places.behind);
    return status;
}
