/* SPDX-License-Identifier: MIT */
/* The operation table at work: appending an operation and emitting its backward. */
#include <string.h>

#include "graph/rules.h"
#include "base/dtype.h"

#define plm__gradient_none NULL

static const struct {
    plm_shape_rule shape;
    plm_gradient_rule gradient;
} rules[PLM_OP_COUNT] = {
#define PLM_OP(kind, text, class, inputs, outputs, effects, overwrites, operands, shape_rule,      \
               gradient_rule, ...)                                                                 \
    [PLM_OP_##kind] = {plm__shape_##shape_rule, plm__gradient_##gradient_rule},
#include "graph/ops.def"
#undef PLM_OP
};

int64_t plm__rows(const plm_shape *shape)
{
    int64_t rows = 1;
    for (int32_t i = 0; i + 1 < shape->rank; i++)
        rows *= shape->dims[i];
    return rows;
}

bool plm__is_vector(const plm_shape *shape, int64_t columns)
{
    return plm__dtype_is_real(shape->dtype) && shape->rank == 1 && shape->dims[0] == columns;
}

plm_status plm__shape_failed(const char *op, const char *wanted, const plm_shape *found)
{
    char text[PLM_SHAPE_TEXT];
    return plm_fail(PLM_ERROR_ARGUMENT, "%s wanted %s, found %s", op, wanted,
                    plm__shape_format(found, text));
}

PLM_SHAPE_RULE(none)
{
    (void)graph, (void)attr, (void)in, (void)out;
    return PLM_OK;
}

PLM_SHAPE_RULE(same)
{
    (void)attr;
    *out = *plm__shape(graph, in[0]);
    return PLM_OK;
}

/* A product or a normalisation is known by its weight, any other operation by what it does. */
static bool is_named_by_weight(plm_op_kind kind)
{
    plm_op_class class = plm__op_info_of(kind)->class;
    return class == PLM_CLASS_PRODUCT || class == PLM_CLASS_NORMALISATION;
}

static plm_status choose_label(plm_graph *graph, plm_op *op)
{
    op->label = graph->label;
    if (op->label)
        return PLM_OK;
    const char *text = plm__op_info_of(op->kind)->text;
    size_t length = strlen(text);
    if (is_named_by_weight(op->kind)) {
        const plm_tensor_info *weight = plm__graph_tensor(graph, op->in[1]);
        const char *name = plm__intern_text(&graph->names, weight->name);
        const char *layer = plm__intern_text(&graph->names, weight->layer);
        if (layer[0])
            name += strlen(layer) + 1;
        const char *suffix = strrchr(name, '.');
        text = name;
        length = suffix ? (size_t)(suffix - name) : strlen(name);
    }
    return plm__intern_add(&graph->names, text, length, &op->label);
}

static plm_status add_outputs(plm_graph *graph, plm_op *op, const plm_shape *shapes)
{
    bool needs_gradient = false;
    for (int32_t i = 0; i < plm__op_info_of(op->kind)->inputs; i++)
        if (op->in[i] != PLM_TENSOR_NONE)
            needs_gradient |= graph->tensors.items[op->in[i]].needs_gradient;
    for (int32_t i = 0; i < plm__op_info_of(op->kind)->outputs; i++) {
        PLM_TRY(plm__graph_call_tensor(graph, &shapes[i], PLM_ROLE_ACTIVATION, &op->out[i]));
        plm_tensor_info *info = &graph->tensors.items[op->out[i]];
        info->producer = (int32_t)graph->ops.count;
        info->needs_gradient = needs_gradient && i == 0;
    }
    return PLM_OK;
}

/* Whether the word of input i bears a mark: ? a tensor that may be absent, # token ids or targets,
 * whose rules check that they are int32, ^ a parameter, to whose gradient an effect goes. */
static bool input_is(plm_op_kind kind, int32_t i, char mark)
{
    const char *word = plm__op_info_of(kind)->operands;
    while (i-- > 0)
        word = strchr(word, ' ') + 1;
    return memchr(word, mark, strspn(word, PLM_OPERAND_MARKS)) != NULL;
}

static plm_status check_input(const plm_graph *graph, plm_op_kind kind, int32_t i, plm_tensor in)
{
    const char *op = plm__op_info_of(kind)->text;
    if (in == PLM_TENSOR_NONE && input_is(kind, i, '?'))
        return PLM_OK;
    PLM_FAIL_IF(in < 0 || in >= graph->tensors.count, PLM_ERROR_ARGUMENT,
                "%s wanted a tensor of this graph as input %d, found none", op, i);
    const plm_storage *storage = &graph->storages.items[plm__graph_tensor(graph, in)->storage];
    PLM_FAIL_IF(storage->scope == PLM_SCOPE_CALL && storage->program != graph->program,
                PLM_ERROR_ARGUMENT, "%s wanted a tensor of %s as input %d, found one of %s", op,
                plm_program_text(graph->program), i, plm_program_text(storage->program));
    const plm_shape *shape = &plm__graph_tensor(graph, in)->shape;
    char text[PLM_SHAPE_TEXT];
    PLM_FAIL_IF(!plm__dtype_is_real(shape->dtype) && !input_is(kind, i, '#'), PLM_ERROR_ARGUMENT,
                "%s wanted real numbers as input %d, found %s", op, i,
                plm__shape_format(shape, text));
    PLM_FAIL_IF(input_is(kind, i, '^') && graph->parameter_of.items[in] < 0, PLM_ERROR_ARGUMENT,
                "%s wanted a parameter as input %d, found a result, %s", op, i,
                plm__shape_format(shape, text));
    return PLM_OK;
}

static plm_status check_inputs(const plm_graph *graph, plm_op_kind kind, const plm_tensor *in)
{
    for (int32_t i = 0; i < plm__op_info_of(kind)->inputs; i++)
        PLM_TRY(check_input(graph, kind, i, in[i]));
    return PLM_OK;
}

static plm_status append(plm_graph *graph, plm_op_kind kind, const plm_op_attr *attr,
                         const plm_tensor *in, const plm_tensor *effect)
{
    const plm_op_info *info = plm__op_info_of(kind);
    PLM_FAIL_IF(graph->ops.count >= PLM_GRAPH_OPS_MAX, PLM_ERROR_OVERFLOW,
                "the network has more than %d operations; use fewer layers", PLM_GRAPH_OPS_MAX);
    PLM_TRY(check_inputs(graph, kind, in));
    plm_op op = {.kind = kind, .layer = graph->layer, .block = graph->block};
    if (attr)
        op.attr = *attr;
    memset(op.in, -1, sizeof op.in);
    memset(op.out, -1, sizeof op.out);
    memset(op.effect, -1, sizeof op.effect);
    for (int32_t i = 0; i < info->inputs; i++)
        op.in[i] = in[i];
    for (int32_t i = 0; i < info->effects; i++)
        op.effect[i] = effect[i];
    plm_shape shapes[PLM_OP_OUTPUTS_MAX] = {0};
    PLM_TRY(rules[kind].shape(graph, &op.attr, op.in, shapes));
    PLM_TRY(choose_label(graph, &op));
    PLM_TRY(PLM_ARRAY_RESERVE(&graph->ops, graph->ops.count + 1));
    PLM_TRY(add_outputs(graph, &op, shapes));
    graph->ops.items[graph->ops.count++] = op;
    graph->programs[graph->program].end = graph->ops.count;
    return PLM_OK;
}

plm_tensor plm__op_append(plm_graph *graph, plm_op_kind kind, const plm_op_attr *attr,
                          const plm_tensor *in, const plm_tensor *effect)
{
    if (!plm__graph_check(graph, PLM_OK) ||
        !plm__graph_check(graph, append(graph, kind, attr, in, effect)))
        return PLM_TENSOR_NONE;
    return graph->ops.items[graph->ops.count - 1].out[0];
}

void plm__op_gradient(plm_graph *graph, const plm_op *op, const plm_tensor *dout, plm_tensor *din)
{
    if (!rules[op->kind].gradient) {
        plm__graph_check(graph, plm_fail(PLM_ERROR_UNSUPPORTED,
                                         "%s has no backward, and the loss depends on it",
                                         plm__op_info_of(op->kind)->text));
        return;
    }
    uint32_t layer = graph->layer;
    graph->layer = op->layer;
    graph->label = is_named_by_weight(op->kind) ? op->label : 0;
    rules[op->kind].gradient(graph, op, dout, din);
    graph->layer = layer;
    graph->label = 0;
}

void plm__emit_weight_gradient(plm_graph *graph, plm_op_kind kind, plm_op_attr attr,
                               const plm_tensor *in, plm_tensor weight, plm_tensor second)
{
    bool learns = plm__graph_tensor(graph, weight)->trainable, accumulates = false;
    bool other_learns = learns, other_accumulates = false;
    plm_tensor effect[PLM_OP_EFFECTS_MAX] = {PLM_TENSOR_NONE, PLM_TENSOR_NONE, PLM_TENSOR_NONE};
    if (second != PLM_TENSOR_NONE)
        other_learns = plm__graph_tensor(graph, second)->trainable;
    if (!learns && !other_learns)
        return;
    if (learns)
        effect[0] = plm__graph_gradient(graph, weight, &accumulates);
    other_accumulates = accumulates;
    if (second != PLM_TENSOR_NONE && other_learns)
        effect[1] = plm__graph_gradient(graph, second, &other_accumulates);
    if (learns != other_learns || accumulates != other_accumulates) {
        plm__graph_check(graph, plm_fail(PLM_ERROR_UNSUPPORTED,
                                         "%s writes weight and bias together: share both or "
                                         "neither, freeze both or neither",
                                         plm__op_info_of(kind)->text));
        return;
    }
    attr.accumulate = accumulates;
    plm__op_append(graph, kind, &attr, in, effect);
}
