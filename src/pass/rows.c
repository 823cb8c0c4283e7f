/* SPDX-License-Identifier: MIT */
/*
 * Cutting a span of neighbouring operations by rows: the span runs once for each chunk. A chunk
 * reads a view of its rows of what comes from outside the span, has tensors of its own for what the
 * span makes and uses up, and writes a view of its rows of what leaves the span. Effects, the
 * weights' gradients, add from the second chunk on, in fp32, in order.
 */
#include <inttypes.h>
#include <string.h>

#include "pass/pass_internal.h"
#include "base/dtype.h"

static void find_last_reads(plm__cut *cut)
{
    for (int64_t i = 0; i < cut->old.count; i++)
        for (int k = 0; k < PLM_OP_INPUTS_MAX; k++)
            if (cut->old.ops[i].in[k] != PLM_TENSOR_NONE)
                cut->last_read[cut->old.ops[i].in[k]] = (int32_t)i;
}

plm_status plm__cut_begin(plm_graph *graph, plm__cut *cut)
{
    size_t tensors = (size_t)graph->tensors.count;
    cut->graph = graph;
    PLM_TRY(plm__rewrite_begin(graph, &cut->old));
    PLM_TRY(plm__host_alloc(tensors * sizeof *cut->last_read, &cut->last_read));
    PLM_TRY(plm__host_alloc(tensors * sizeof *cut->places, &cut->places));
    memset(cut->last_read, -1, tensors * sizeof *cut->last_read);
    find_last_reads(cut);
    plm__rewrite_keep(graph, 0);
    return PLM_OK;
}

void plm__cut_fini(plm__cut *cut)
{
    plm__host_free(cut->old.ops);
    plm__host_free(cut->last_read);
    plm__host_free(cut->places);
    *cut = (plm__cut){0};
}

bool plm__cut_leaves(const plm__cut *cut, const plm__row_span *span, plm_tensor tensor)
{
    return cut->last_read[tensor] >= span->end || plm__graph_tensor(cut->graph, tensor)->is_output;
}

plm_status plm__cut_keep(plm__cut *cut, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        PLM_TRY(plm__rewrite_append(cut->graph, &cut->old.ops[i]));
    return PLM_OK;
}

/* ---- one chunk ------------------------------------------------------------------------------ */

typedef struct row_chunk {
    int64_t first, rows;
    bool adds; /* not the first: effects add */
} row_chunk;

/* The shape of `rows` rows of a tensor that has `all` rows: [rows, width], or [rows] with one
 * number a row. */
static plm_shape shape_of_rows(const plm_shape *whole, int64_t all, int64_t rows)
{
    plm_shape shape = {.dtype = whole->dtype, .rank = 1, .dims = {rows}};
    if (plm__dtype_is_real(whole->dtype) && whole->rank > 1) {
        shape.rank = 2;
        shape.dims[1] = plm__shape_elements(whole) / all;
    }
    return shape;
}

static plm_status view_of_rows(plm__cut *cut, const plm__row_span *span, const row_chunk *chunk,
                               plm_tensor of, plm_tensor *view)
{
    const plm_tensor_info whole = *plm__graph_tensor(cut->graph, of);
    plm_shape shape = shape_of_rows(&whole.shape, span->rows, chunk->rows);
    size_t offset = whole.bytes / (size_t)span->rows * (size_t)chunk->first;
    return plm__graph_view(cut->graph, of, &shape, offset, view);
}

/* A tensor of its own for what the span makes and uses up; a view of what leaves it. */
static plm_status place_output(plm__cut *cut, const plm__row_span *span, const row_chunk *chunk,
                               plm_tensor *out)
{
    plm_tensor original = *out;
    plm_graph *graph = cut->graph;
    if (plm__cut_leaves(cut, span, original)) {
        PLM_TRY(view_of_rows(cut, span, chunk, original, out));
    } else {
        const plm_tensor_info whole = *plm__graph_tensor(graph, original);
        plm_shape shape = shape_of_rows(&whole.shape, span->rows, chunk->rows);
        graph->layer = whole.layer;
        PLM_TRY(plm__graph_call_tensor(graph, &shape, whole.role, out));
        graph->tensors.items[*out].name = whole.name;
    }
    cut->places[original] = *out;
    return PLM_OK;
}

/* Activations and ids have rows; what persists, weights, has none. */
static bool has_rows(const plm_graph *graph, plm_tensor tensor)
{
    int32_t storage = plm__graph_tensor(graph, tensor)->storage;
    return graph->storages.items[storage].scope == PLM_SCOPE_CALL;
}

static plm_status append_chunk_op(plm__cut *cut, const plm__row_span *span, const row_chunk *chunk,
                                  plm_op op)
{
    for (int i = 0; i < PLM_OP_INPUTS_MAX; i++) {
        plm_tensor in = op.in[i];
        if (in == PLM_TENSOR_NONE || !has_rows(cut->graph, in))
            continue;
        if (cut->places[in] == PLM_TENSOR_NONE)
            PLM_TRY(view_of_rows(cut, span, chunk, in, &cut->places[in]));
        op.in[i] = cut->places[in];
    }
    for (int i = 0; i < PLM_OP_OUTPUTS_MAX; i++)
        if (op.out[i] != PLM_TENSOR_NONE)
            PLM_TRY(place_output(cut, span, chunk, &op.out[i]));
    op.attr.accumulate |= chunk->adds && op.effect[0] != PLM_TENSOR_NONE;
    return plm__rewrite_append(cut->graph, &op);
}

static void forget_places(plm__cut *cut, const plm__row_span *span)
{
    for (int64_t i = span->begin; i < span->end; i++) {
        const plm_op *op = &cut->old.ops[i];
        for (int k = 0; k < PLM_OP_INPUTS_MAX; k++)
            if (op->in[k] != PLM_TENSOR_NONE)
                cut->places[op->in[k]] = PLM_TENSOR_NONE;
        for (int k = 0; k < PLM_OP_OUTPUTS_MAX; k++)
            if (op->out[k] != PLM_TENSOR_NONE)
                cut->places[op->out[k]] = PLM_TENSOR_NONE;
    }
}

/* Seen before anything is made, as many chunks of a long span are more than a host can hold. */
static plm_status check_room(const plm__cut *cut, const plm__row_span *span, int64_t chunks)
{
    int64_t room = PLM_GRAPH_OPS_MAX - cut->graph->ops.count;
    PLM_FAIL_IF(chunks > room / (span->end - span->begin), PLM_ERROR_OVERFLOW,
                "%" PRId64 " chunks make more than %d operations; use fewer chunks", chunks,
                PLM_GRAPH_OPS_MAX);
    return PLM_OK;
}

plm_status plm__cut_rows(plm__cut *cut, const plm__row_span *span, int64_t chunks)
{
    PLM_TRY(check_room(cut, span, chunks));
    for (int64_t c = 0; c < chunks; c++) {
        int64_t first = span->rows * c / chunks, next = span->rows * (c + 1) / chunks;
        row_chunk chunk = {.first = first, .rows = next - first, .adds = c > 0};
        forget_places(cut, span);
        for (int64_t i = span->begin; i < span->end; i++)
            PLM_TRY(append_chunk_op(cut, span, &chunk, cut->old.ops[i]));
    }
    return PLM_OK;
}
