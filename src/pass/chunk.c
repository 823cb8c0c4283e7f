/* SPDX-License-Identifier: MIT */
/*
 * The chunk passes: what is wide runs over a few rows at a time, so that it is never held whole.
 *
 * The head is the product that makes the logits, the cross entropy, the sum of its losses and, when
 * the program has its backward, the gradients that come of them: one span, forward and backward
 * together. An MLP is a product, an activation function and a product: a span forward, and one
 * backward where recompute makes the first two again in front of their gradients. Both are found by
 * what feeds what, not by name.
 */
#include <inttypes.h>

#include "pass/pass.h"
#include "pass/pass_internal.h"

/* ---- the head ------------------------------------------------------------------------------- */

static bool is_product(const plm_op *op)
{
    return plm__op_class(op) == PLM_CLASS_PRODUCT;
}

static bool is_product_gradient(const plm_op *op)
{
    return plm__op_class(op) == PLM_CLASS_PRODUCT_GRADIENT;
}

/* Behind the gradients that follow the loss, up to the one that leaves the head. */
static int64_t end_of_head(const plm__old_program *old, int64_t end)
{
    if (end >= old->count || old->ops[end].kind != PLM_OP_CROSS_ENTROPY_GRAD)
        return end;
    for (end++; end < old->count && is_product_gradient(&old->ops[end]); end++)
        if (old->ops[end].kind == PLM_OP_LINEAR_GRAD_INPUT)
            return end + 1;
    return end;
}

static plm_status find_head(const plm__cut *cut, plm__row_span *head)
{
    const plm_graph *graph = cut->graph;
    const plm__old_program *old = &cut->old;
    int64_t begin = graph->programs[graph->program].begin;
    int64_t loss = plm__graph_tensor(graph, graph->loss[graph->program])->producer - begin;
    PLM_FAIL_IF(
        loss < 1 || !is_product(&old->ops[loss - 1]) ||
            old->ops[loss - 1].out[0] != old->ops[loss].in[0] || loss + 1 >= old->count ||
            old->ops[loss + 1].kind != PLM_OP_LOSS_SUM,
        PLM_ERROR_UNSUPPORTED,
        "the head cannot be cut into chunks: its logits are not made by a product right before "
        "the cross entropy");
    head->begin = loss - 1;
    head->end = end_of_head(old, loss + 2);
    head->rows = plm__shape_elements(&plm__graph_tensor(graph, old->ops[loss].out[0])->shape);
    return PLM_OK;
}

static plm_status check_rows(const char *of, int64_t rows, int64_t chunks)
{
    PLM_FAIL_IF(chunks > rows, PLM_ERROR_ARGUMENT,
                "wanted at most a chunk a row of the %s, %" PRId64 ", found %" PRId64, of, rows,
                chunks);
    return PLM_OK;
}

plm_status plm__pass_chunk_head(plm_graph *graph)
{
    int64_t chunks = graph->strategy.head_chunks;
    plm__cut cut = {0};
    plm__row_span head;
    plm_status status;
    if (chunks <= 1)
        return PLM_OK;
    PLM_TRY_DONE(plm__cut_begin(graph, &cut));
    PLM_TRY_DONE(find_head(&cut, &head));
    PLM_TRY_DONE(check_rows("head", head.rows, chunks));
    PLM_TRY_DONE(plm__cut_keep(&cut, 0, head.begin));
    PLM_TRY_DONE(plm__cut_rows(&cut, &head, chunks));
    /* the backward begins inside the head */
    graph->loss[graph->program] =
        graph->ops.items[graph->programs[graph->program].begin + head.begin].out[0];
    status = plm__cut_keep(&cut, head.end, cut.old.count);
done:
    plm__cut_fini(&cut);
    return status;
}

/* ---- an MLP --------------------------------------------------------------------------------- */

/*
 * Behind the gradients of an MLP whose activation function is made again at `made`: those of the
 * second product, that of the activation function, those of the first product. `made` when they are
 * not there.
 */
static int64_t end_of_gradients(const plm__old_program *old, int64_t made)
{
    int64_t end = made + 1;
    while (end < old->count && is_product_gradient(&old->ops[end]))
        end++;
    if (end == made + 1 || end == old->count || old->ops[end].in[0] != old->ops[end - 1].out[0] ||
        old->ops[end].in[1] != old->ops[made].in[0])
        return made;
    plm_tensor gradient = old->ops[end++].out[0];
    while (end < old->count && is_product_gradient(&old->ops[end]) &&
           (old->ops[end].in[0] == gradient || old->ops[end].in[1] == gradient))
        end++;
    return end;
}

/* Whether an MLP, or the backward of one, begins at an operation and keeps nothing in between. The
 * programs without a backward go by what the strategy says of the block. */
static bool find_mlp(const plm__cut *cut, int64_t begin, plm__row_span *mlp)
{
    const plm_op *op = &cut->old.ops[begin];
    if (begin + 2 >= cut->old.count || op->block < 0 || !is_product(op) ||
        plm__op_class(&op[1]) != PLM_CLASS_ACTIVATION || op[1].in[0] != op->out[0] ||
        !plm__recompute_drops_both(cut->graph, &op[0], &op[1]))
        return false;
    bool forward = is_product(&op[2]) && op[2].in[0] == op[1].out[0];
    const plm_shape *wide = &plm__graph_tensor(cut->graph, op->out[0])->shape;
    mlp->begin = begin;
    mlp->end = forward ? begin + 3 : end_of_gradients(&cut->old, begin + 1);
    mlp->rows = plm__shape_elements(wide) / wide->dims[wide->rank - 1];
    return mlp->end >= begin + 3 && !plm__cut_leaves(cut, mlp, op->out[0]) &&
           !plm__cut_leaves(cut, mlp, op[1].out[0]);
}

static plm_status cut_mlps(plm__cut *cut)
{
    int64_t next;
    for (int64_t i = 0; i < cut->old.count; i = next) {
        int64_t chunks = cut->graph->strategy.mlp_chunks;
        plm__row_span mlp;
        next = i + 1;
        if (!find_mlp(cut, i, &mlp)) {
            PLM_TRY(plm__cut_keep(cut, i, next));
            continue;
        }
        if (cut->graph->program == PLM_PROGRAM_GENERATE && chunks > mlp.rows)
            chunks = mlp.rows;
        PLM_TRY(check_rows("MLP", mlp.rows, chunks));
        PLM_TRY(plm__cut_rows(cut, &mlp, chunks));
        cut->graph->cuts_mlps = true;
        next = mlp.end;
    }
    return PLM_OK;
}

plm_status plm__pass_chunk_mlp(plm_graph *graph)
{
    plm__cut cut = {0};
    plm_status status;
    if (graph->strategy.mlp_chunks <= 1)
        return PLM_OK;
    PLM_TRY_DONE(plm__cut_begin(graph, &cut));
    status = cut_mlps(&cut);
done:
    plm__cut_fini(&cut);
    return status;
}
