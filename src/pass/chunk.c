/* SPDX-License-Identifier: MIT */
/*
 * The chunk pass: the head and its loss run over a few rows at a time, forward and backward
 * together, so that the logits are never held whole. The head is the product that makes the logits,
 * the cross entropy, the sum of its losses and, when the program has its backward, the gradients
 * that come of them: one run of neighbouring operations.
 *
 * Each chunk reads a view of its rows of what the head reads, makes logits of its own, and writes a
 * view of its rows of the gradient that leaves the head. Weights' gradients add from the second
 * chunk on, in fp32, in order.
 */
#include <inttypes.h>

#include "pass/pass.h"
#include "pass/pass_internal.h"

/* The head among the program's operations. */
typedef struct head_span {
    int64_t begin, end;
    int64_t rows;        /* of the logits */
    plm_tensor gradient; /* what leaves it, PLM_TENSOR_NONE without a backward */
} head_span;

static bool is_head_gradient(plm_op_kind kind)
{
    return kind == PLM_OP_CROSS_ENTROPY_GRAD || kind == PLM_OP_LINEAR_GRAD_WEIGHT ||
           kind == PLM_OP_LINEAR_GRAD_BIAS || kind == PLM_OP_LINEAR_GRAD_INPUT;
}

/* The gradients behind the loss, up to the one that leaves the head. */
static void extend_over_gradients(const plm__old_program *old, head_span *head)
{
    if (head->end >= old->count || old->ops[head->end].kind != PLM_OP_CROSS_ENTROPY_GRAD)
        return;
    while (head->end < old->count && is_head_gradient(old->ops[head->end].kind)) {
        const plm_op *op = &old->ops[head->end++];
        if (op->kind != PLM_OP_LINEAR_GRAD_INPUT)
            continue;
        head->gradient = op->out[0];
        return;
    }
}

static plm_status find_head(const plm_graph *graph, const plm__old_program *old, head_span *head)
{
    int64_t begin = graph->programs[graph->program].begin;
    int64_t loss = plm_graph_tensor(graph, graph->loss[graph->program])->producer - begin;
    PLM_FAIL_IF(
        loss < 1 || old->ops[loss - 1].kind != PLM_OP_LINEAR ||
            old->ops[loss - 1].out[0] != old->ops[loss].in[0] || loss + 1 >= old->count ||
            old->ops[loss + 1].kind != PLM_OP_LOSS_SUM,
        PLM_ERROR_UNSUPPORTED,
        "the head cannot be cut into chunks: its logits are not made by a product right before "
        "the cross entropy");
    head->begin = loss - 1;
    head->end = loss + 2;
    head->rows = plm_shape_elements(&plm_graph_tensor(graph, old->ops[loss].out[0])->shape);
    head->gradient = PLM_TENSOR_NONE;
    extend_over_gradients(old, head);
    return PLM_OK;
}

/* The shape of `rows` rows of a tensor that has `all` rows: [rows, width], or [rows] with one
 * number a row. */
static plm_shape shape_of_rows(const plm_shape *whole, int64_t all, int64_t rows)
{
    plm_shape shape = {.dtype = whole->dtype, .rank = 1, .dims = {rows}};
    if (plm_dtype_is_real(whole->dtype) && whole->rank > 1) {
        shape.rank = 2;
        shape.dims[1] = plm_shape_elements(whole) / all;
    }
    return shape;
}

typedef struct row_chunk {
    int64_t first, rows;
    bool adds;          /* not the first: weights' gradients add */
    plm_tensor *places; /* by old tensor: what stands for it in this chunk */
} row_chunk;

static plm_status view_of_rows(plm_graph *graph, const head_span *head, const row_chunk *chunk,
                               plm_tensor of, plm_tensor *view)
{
    const plm_tensor_info whole = *plm_graph_tensor(graph, of);
    plm_shape shape = shape_of_rows(&whole.shape, head->rows, chunk->rows);
    size_t offset = whole.bytes / (size_t)head->rows * (size_t)chunk->first;
    return plm__graph_view(graph, of, &shape, offset, view);
}

/* A tensor of its own for what the head makes and uses up; a view of what leaves it. */
static plm_status place_output(plm_graph *graph, const head_span *head, row_chunk *chunk,
                               plm_tensor *out)
{
    plm_tensor original = *out;
    if (original == head->gradient)
        return view_of_rows(graph, head, chunk, original, out);
    const plm_tensor_info whole = *plm_graph_tensor(graph, original);
    plm_shape shape = shape_of_rows(&whole.shape, head->rows, chunk->rows);
    graph->layer = whole.layer;
    PLM_TRY(plm__graph_call_tensor(graph, &shape, whole.role, out));
    graph->tensors.items[*out].name = whole.name;
    chunk->places[original] = *out;
    return PLM_OK;
}

static bool has_rows(const plm_graph *graph, plm_tensor tensor)
{
    int32_t storage = plm_graph_tensor(graph, tensor)->storage;
    return graph->storages.items[storage].scope == PLM_SCOPE_CALL;
}

static plm_status append_chunk_op(plm_graph *graph, const head_span *head, row_chunk *chunk,
                                  plm_op op)
{
    for (int i = 0; i < PLM_OP_INPUTS_MAX; i++) {
        plm_tensor in = op.in[i];
        if (in == PLM_TENSOR_NONE || !has_rows(graph, in))
            continue;
        if (chunk->places[in] == PLM_TENSOR_NONE)
            PLM_TRY(view_of_rows(graph, head, chunk, in, &chunk->places[in]));
        op.in[i] = chunk->places[in];
    }
    for (int i = 0; i < PLM_OP_OUTPUTS_MAX; i++)
        if (op.out[i] != PLM_TENSOR_NONE)
            PLM_TRY(place_output(graph, head, chunk, &op.out[i]));
    op.attr.accumulate |= chunk->adds;
    return plm__rewrite_append(graph, &op);
}

static void forget_places(const plm__old_program *old, const head_span *head, plm_tensor *places)
{
    for (int64_t i = head->begin; i < head->end; i++) {
        for (int k = 0; k < PLM_OP_INPUTS_MAX; k++)
            if (old->ops[i].in[k] != PLM_TENSOR_NONE)
                places[old->ops[i].in[k]] = PLM_TENSOR_NONE;
        for (int k = 0; k < PLM_OP_OUTPUTS_MAX; k++)
            if (old->ops[i].out[k] != PLM_TENSOR_NONE)
                places[old->ops[i].out[k]] = PLM_TENSOR_NONE;
    }
}

static plm_status lay_out(plm_graph *graph, const plm__old_program *old, const head_span *head,
                          int64_t chunks, plm_tensor *places)
{
    plm__rewrite_keep(graph, head->begin);
    for (int64_t c = 0; c < chunks; c++) {
        int64_t first = head->rows * c / chunks, next = head->rows * (c + 1) / chunks;
        row_chunk chunk = {.first = first, .rows = next - first, .adds = c > 0, .places = places};
        forget_places(old, head, places);
        for (int64_t i = head->begin; i < head->end; i++) {
            PLM_TRY(append_chunk_op(graph, head, &chunk, old->ops[i]));
            if (c == 0 && i == head->begin) /* the backward begins inside the head */
                graph->loss[graph->program] = graph->ops.items[graph->ops.count - 1].out[0];
        }
        if (c == 0 && head->gradient != PLM_TENSOR_NONE)
            graph->tensors.items[head->gradient].producer = (int32_t)(graph->ops.count - 1);
    }
    for (int64_t i = head->end; i < old->count; i++)
        PLM_TRY(plm__rewrite_append(graph, &old->ops[i]));
    return PLM_OK;
}

plm_status plm_pass_chunk(plm_graph *graph)
{
    int64_t chunks = graph->strategy.head_chunks;
    if (chunks <= 1)
        return PLM_OK;
    plm__old_program old = {0};
    plm_tensor *places = NULL;
    head_span head;
    plm_status status;
    PLM_TRY_DONE(plm__rewrite_begin(graph, &old));
    PLM_TRY_DONE(find_head(graph, &old, &head));
    if (chunks > head.rows) {
        status = plm_fail(PLM_ERROR_ARGUMENT,
                          "wanted at most a chunk a row of the head, %" PRId64 ", found %" PRId64,
                          head.rows, chunks);
        goto done;
    }
    PLM_TRY_DONE(plm_host_alloc((size_t)graph->tensors.count * sizeof *places, &places));
    status = lay_out(graph, &old, &head, chunks, places);
done:
    plm_host_free(places);
    plm_host_free(old.ops);
    return status;
}
