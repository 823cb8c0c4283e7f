/* SPDX-License-Identifier: MIT */
/*
 * The recompute pass. A tensor of a block is *dropped* when the strategy says so and nothing
 * outside the block's forward reads it before the backward. Each backward operation is looked at in
 * order: an input that was dropped is replaced by the output of a clone of its operation, made just
 * before, its own inputs first; each operation is cloned once at most.
 */
#include <stdio.h>
#include <string.h>

#include "pass/pass.h"
#include "pass/pass_internal.h"
#include "graph/strategy.h"

typedef struct rewrite {
    plm_graph *graph;
    plm__old_program old;
    int64_t turn;       /* first backward operation among them */
    bool *dropped;      /* by tensor */
    plm_tensor *clones; /* by tensor: the clone that stands for it */
    int64_t tensors;    /* before any clone was made */
} rewrite;

static const char *label_of(const plm_graph *graph, const plm_op *op)
{
    return plm__intern_text(&graph->names, op->label);
}

/* The bits of the strategy's names that are an operation's. */
static uint32_t bits_of_name(const plm_graph *graph, const plm_op *op)
{
    const plm_strategy *strategy = &graph->strategy;
    uint32_t bits = 0;
    for (int32_t i = 0; i < strategy->recompute_name_count; i++)
        if (strcmp(strategy->recompute_names[i], label_of(graph, op)) == 0)
            bits |= 1u << (PLM_RECOMPUTE_NAMES_SHIFT + i);
    return bits;
}

/* The bits under which output `index` of a forward operation is dropped. */
static uint32_t bits_of(const plm_graph *graph, const plm_op *op, int index)
{
    static const uint32_t bits_of_class[PLM_CLASS_COUNT] = {
        [PLM_CLASS_ACTIVATION] = PLM_RECOMPUTE_ACT,
        [PLM_CLASS_NORMALISATION] = PLM_RECOMPUTE_NORM,
        [PLM_CLASS_ATTENTION] = PLM_RECOMPUTE_ATTENTION,
    };
    plm_op_class class = plm__op_class(op);
    uint32_t bits = PLM_RECOMPUTE_BLOCK | bits_of_name(graph, op);
    bool statistic = class == PLM_CLASS_NORMALISATION && index > 0; /* one number a row: kept */
    return bits | (statistic ? 0 : bits_of_class[class]);
}

static bool drops_output(const plm_graph *graph, const plm_op *op, int index)
{
    return op->block >= 0 &&
           (bits_of(graph, op, index) & plm__strategy_recompute(&graph->strategy, op->block));
}

/* A product that feeds an activation function is dropped by its consumer. */
static bool drops_fed_product(const plm_graph *graph, const plm_op *product, const plm_op *consumer)
{
    return plm__op_class(product) == PLM_CLASS_PRODUCT && product->block == consumer->block &&
           product->block >= 0 && plm__op_class(consumer) == PLM_CLASS_ACTIVATION &&
           (plm__strategy_recompute(&graph->strategy, product->block) & PLM_RECOMPUTE_MLP);
}

bool plm__recompute_drops_both(const plm_graph *graph, const plm_op *product,
                               const plm_op *consumer)
{
    return drops_output(graph, consumer, 0) &&
           (drops_output(graph, product, 0) || drops_fed_product(graph, product, consumer));
}

static void drop(rewrite *r, const plm_op *op)
{
    for (int i = 0; i < PLM_OP_OUTPUTS_MAX; i++)
        if (op->out[i] != PLM_TENSOR_NONE && drops_output(r->graph, op, i))
            r->dropped[op->out[i]] = true;
    if (plm__op_class(op) != PLM_CLASS_ACTIVATION)
        return;
    int32_t producer = plm__graph_tensor(r->graph, op->in[0])->producer;
    if (producer >= 0 && drops_fed_product(r->graph, &r->graph->ops.items[producer], op))
        r->dropped[op->in[0]] = true;
}

/* What another block, or no block, reads in the forward leaves its block and is kept. */
static void keep_inputs_from_outside(rewrite *r, const plm_op *op)
{
    for (int i = 0; i < PLM_OP_INPUTS_MAX; i++) {
        if (op->in[i] == PLM_TENSOR_NONE)
            continue;
        int32_t producer = plm__graph_tensor(r->graph, op->in[i])->producer;
        if (producer >= 0 && r->graph->ops.items[producer].block != op->block)
            r->dropped[op->in[i]] = false;
    }
}

/* Returns whether anything is dropped. */
static bool choose_dropped(rewrite *r)
{
    bool any = false;
    for (int64_t i = 0; i < r->turn; i++)
        drop(r, &r->old.ops[i]);
    for (int64_t i = 0; i < r->turn; i++)
        keep_inputs_from_outside(r, &r->old.ops[i]);
    for (int64_t i = 0; i < r->tensors; i++)
        any |= r->dropped[i];
    return any;
}

/* *clone = a new tensor like `tensor`. */
static plm_status clone_tensor(rewrite *r, plm_tensor tensor, plm_tensor *clone)
{
    const plm_tensor_info like = *plm__graph_tensor(r->graph, tensor);
    r->graph->layer = like.layer;
    PLM_TRY(plm__graph_call_tensor(r->graph, &like.shape, like.role, clone));
    r->graph->tensors.items[*clone].name = like.name;
    return PLM_OK;
}

static plm_status replace_inputs(rewrite *r, plm_op *op);

/*
 * Clones the operation that made `tensor`, what it reads first. Depth is bounded by the block: what
 * it reads from outside was kept.
 */
static plm_status clone_op(rewrite *r, plm_tensor tensor)
{
    plm_op op = r->graph->ops.items[plm__graph_tensor(r->graph, tensor)->producer];
    PLM_TRY(replace_inputs(r, &op));
    for (int i = 0; i < PLM_OP_OUTPUTS_MAX; i++) {
        if (op.out[i] == PLM_TENSOR_NONE)
            continue;
        plm_tensor original = op.out[i];
        PLM_TRY(clone_tensor(r, original, &op.out[i]));
        if (r->dropped[original])
            r->clones[original] = op.out[i];
    }
    return plm__rewrite_append(r->graph, &op);
}

static plm_status replace_inputs(rewrite *r, plm_op *op)
{
    for (int i = 0; i < PLM_OP_INPUTS_MAX; i++) {
        plm_tensor in = op->in[i];
        if (in == PLM_TENSOR_NONE || in >= r->tensors || !r->dropped[in])
            continue;
        if (r->clones[in] == PLM_TENSOR_NONE)
            PLM_TRY(clone_op(r, in));
        op->in[i] = r->clones[in];
    }
    return PLM_OK;
}

/* Lays the program out anew: the forward as it was, the backward with clones between. */
static plm_status lay_out(rewrite *r)
{
    plm__rewrite_keep(r->graph, r->turn);
    for (int64_t i = r->turn; i < r->old.count; i++) {
        plm_op op = r->old.ops[i];
        PLM_TRY(replace_inputs(r, &op));
        PLM_TRY(plm__rewrite_append(r->graph, &op));
    }
    return PLM_OK;
}

static plm_status prepare(rewrite *r)
{
    const plm_graph *graph = r->graph;
    r->tensors = graph->tensors.count;
    r->turn = plm__graph_tensor(graph, graph->loss[graph->program])->producer + 1 -
              graph->programs[graph->program].begin;
    PLM_TRY(plm__rewrite_begin(graph, &r->old));
    while (r->turn < r->old.count && r->old.ops[r->turn].kind == PLM_OP_LOSS_SUM)
        r->turn++;
    PLM_TRY(plm__host_alloc((size_t)r->tensors * sizeof *r->dropped, &r->dropped));
    PLM_TRY(plm__host_alloc((size_t)r->tensors * sizeof *r->clones, &r->clones));
    memset(r->clones, -1, (size_t)r->tensors * sizeof *r->clones);
    return PLM_OK;
}

/* ---- names ---------------------------------------------------------------------------------- */

enum { LABELS_TEXT = 256 };

/* Whether an operation before `end` that belongs to a block has this name. */
static bool is_label(const rewrite *r, int64_t end, const char *name)
{
    for (int64_t i = 0; i < end; i++)
        if (r->old.ops[i].block >= 0 && strcmp(label_of(r->graph, &r->old.ops[i]), name) == 0)
            return true;
    return false;
}

/* "ln1, attention.qkv, ...", each name of the forward's blocks once. */
static void list_labels(const rewrite *r, char text[LABELS_TEXT])
{
    size_t length = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < r->turn && length < LABELS_TEXT; i++) {
        const char *label = label_of(r->graph, &r->old.ops[i]);
        if (r->old.ops[i].block >= 0 && !is_label(r, i, label))
            length += (size_t)snprintf(text + length, LABELS_TEXT - length, "%s%s",
                                       length ? ", " : "", label);
    }
}

static plm_status check_names(const rewrite *r)
{
    const plm_strategy *strategy = &r->graph->strategy;
    char labels[LABELS_TEXT];
    for (int32_t i = 0; i < strategy->recompute_name_count; i++) {
        if (is_label(r, r->turn, strategy->recompute_names[i]))
            continue;
        list_labels(r, labels);
        return plm_fail(PLM_ERROR_ARGUMENT,
                        "wanted recompute as none, act, norm, mlp, block, attention, auto or "
                        "operations of this network's blocks (%s), found '%s'",
                        labels, strategy->recompute_names[i]);
    }
    return PLM_OK;
}

plm_status plm__pass_recompute(plm_graph *graph)
{
    const plm_strategy *strategy = &graph->strategy;
    PLM_FAIL_IF(strategy->recompute_count > graph->block_count, PLM_ERROR_ARGUMENT,
                "the strategy chooses recompute for %d blocks, the network has %d",
                strategy->recompute_count, graph->block_count);
    rewrite r = {.graph = graph};
    plm_status status;
    PLM_TRY_DONE(prepare(&r));
    PLM_TRY_DONE(check_names(&r));
    if (choose_dropped(&r))
        status = lay_out(&r);
done:
    plm__host_free(r.old.ops);
    plm__host_free(r.dropped);
    plm__host_free(r.clones);
    return status;
}
