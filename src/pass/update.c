/* SPDX-License-Identifier: MIT */
/* The update pass. */
#include "pass/pass.h"

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

/* Gradient and moments of everything that learns. */
static void make_flats(plm_graph *graph, plm_optimizer optimizer)
{
    for (int64_t i = 0; i < graph->parameters.count; i++) {
        plm_tensor parameter = graph->parameters.items[i].flat[PLM_FLAT_PARAMETER];
        if (!plm_graph_tensor(graph, parameter)->trainable)
            continue;
        plm__graph_flat(graph, parameter, PLM_FLAT_GRADIENT);
        for (int m = 0; m < optimizers[optimizer].moments; m++)
            plm__graph_flat(graph, parameter, moments[m]);
    }
}

static void update_group(plm_graph *graph, plm_optimizer optimizer, plm_group group,
                         plm_tensor gradient)
{
    plm_op_attr attr = {.decay = group == PLM_GROUP_DECAY};
    plm_tensor effect[PLM_OP_EFFECTS_MAX] = {
        plm__graph_flat_whole(graph, PLM_FLAT_PARAMETER, group), PLM_TENSOR_NONE, PLM_TENSOR_NONE};
    for (int m = 0; m < optimizers[optimizer].moments; m++)
        effect[1 + m] = plm__graph_flat_whole(graph, moments[m], group);
    plm__op_append(graph, optimizers[optimizer].op, &attr, &gradient, effect);
}

plm_status plm_pass_update(plm_graph *graph, plm_optimizer optimizer)
{
    PLM_FAIL_IF((unsigned)optimizer >= PLM_OPTIMIZER_COUNT, PLM_ERROR_ARGUMENT,
                "wanted one of %d optimizers, found number %d", PLM_OPTIMIZER_COUNT,
                (int)optimizer);
    plm_graph_begin(graph, PLM_PROGRAM_UPDATE);
    make_flats(graph, optimizer);
    plm_tensor gradients[4] = {PLM_TENSOR_NONE, PLM_TENSOR_NONE, PLM_TENSOR_NONE, PLM_TENSOR_NONE};
    for (int group = 0; group < PLM_GROUP_COUNT; group++)
        gradients[group] = plm__graph_flat_whole(graph, PLM_FLAT_GRADIENT, (plm_group)group);
    plm__op_append(graph, PLM_OP_GRADIENT_NORM, NULL, gradients, NULL);
    for (int group = 0; group < PLM_GROUP_COUNT; group++)
        if (gradients[group] != PLM_TENSOR_NONE)
            update_group(graph, optimizer, (plm_group)group, gradients[group]);
    return plm_graph_status(graph);
}
