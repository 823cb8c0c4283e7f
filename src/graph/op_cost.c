/* SPDX-License-Identifier: MIT */
/* What the flops and bytes of an operation's row come to at its shapes. */
#include "graph/op_cost.h"

#include <ctype.h>

#include "base/dtype.h"
#include "graph/rules.h"

const char *plm__op_key(plm_op_kind kind, char text[PLM_OP_KEY_TEXT])
{
    const char *key = plm__op_info_of(kind)->key;
    int i = 0;
    for (; key[i] && i < PLM_OP_KEY_TEXT - 1; i++)
        text[i] = (char)tolower((unsigned char)key[i]);
    text[i] = 0;
    return text;
}

static double bytes_of(const plm_graph *graph, plm_tensor tensor)
{
    return tensor == PLM_TENSOR_NONE ? 0 : (double)plm__graph_tensor(graph, tensor)->bytes;
}

static double elements_of(const plm_graph *graph, plm_tensor tensor)
{
    return tensor == PLM_TENSOR_NONE
               ? 0
               : (double)plm__shape_elements(&plm__graph_tensor(graph, tensor)->shape);
}

/* What an operation is about: what it reads first, logits and not losses, else what it changes. */
static plm_tensor subject_of(const plm_op *op)
{
    return op->in[0] != PLM_TENSOR_NONE ? op->in[0] : op->effect[0];
}

/* The type an operation works in: that of its first operand of real numbers. */
static plm_dtype dtype_of(const plm_graph *graph, const plm_op *op)
{
    for (int i = 0; i < PLM_OP_INPUTS_MAX; i++) {
        if (op->in[i] == PLM_TENSOR_NONE)
            continue;
        plm_dtype dtype = plm__graph_tensor(graph, op->in[i])->shape.dtype;
        if (plm__dtype_is_real(dtype))
            return dtype;
    }
    return PLM_DTYPE_F32;
}

static double product_count(const plm_graph *graph, const plm_op *op)
{
    plm_tensor weight = op->effect[0] != PLM_TENSOR_NONE ? op->effect[0] : op->in[1];
    return (double)plm__rows(plm__shape(graph, op->in[0])) * elements_of(graph, weight);
}

static double attention_count(const plm_graph *graph, const plm_op *op, plm_tensor packed)
{
    const plm_shape *qkv = plm__shape(graph, packed);
    double width = (double)(op->attr.heads * plm__head_size(&op->attr, plm__columns(qkv)));
    return (double)plm__rows(qkv) * width * (double)qkv->dims[1] / (op->attr.causal ? 2 : 1);
}

/* Sums are read before they are written again; a first contribution is only written. */
static double effect_bytes(const plm_graph *graph, const plm_op *op, plm_bytes moved)
{
    bool adds = op->attr.accumulate || moved == PLM_BYTES_CHANGED;
    double bytes = 0;
    for (int i = 0; i < PLM_OP_EFFECTS_MAX; i++)
        bytes += bytes_of(graph, op->effect[i]);
    if (moved != PLM_BYTES_ROWS_ADDED)
        return adds ? 2 * bytes : bytes;
    /* The rows: of the positions that are looked up, or of all of them. */
    double added = 2 * bytes_of(graph, op->in[1] != PLM_TENSOR_NONE ? op->in[1] : op->in[0]);
    return op->attr.accumulate ? added : bytes + added;
}

static double operand_bytes(const plm_graph *graph, const plm_op *op, plm_bytes moved)
{
    double in = 0, out = 0;
    for (int i = 0; i < PLM_OP_INPUTS_MAX; i++)
        in += bytes_of(graph, op->in[i]);
    for (int i = 0; i < PLM_OP_OUTPUTS_MAX; i++)
        out += bytes_of(graph, op->out[i]);
    if (moved == PLM_BYTES_ROWS_READ) {
        /* As many rows of the table as the result has, at most all. */
        double table = bytes_of(graph, op->in[1]), rows = bytes_of(graph, op->out[0]);
        in -= rows < table ? table - rows : 0;
    }
    if (moved == PLM_BYTES_PLACE_READ)
        in = out;
    return in + out + effect_bytes(graph, op, moved);
}

plm_work plm__op_work(const plm_graph *graph, const plm_op *op)
{
    const plm_op_info *row = plm__op_info_of(op->kind);
    double count = row->flops.by == PLM_FLOPS_PRODUCT ? product_count(graph, op)
                   : row->flops.by == PLM_FLOPS_ATTENTION
                       ? attention_count(graph, op, op->in[row->flops.qkv])
                       : elements_of(graph, subject_of(op));
    return (plm_work){.flops = row->flops.factor * count,
                      .bytes = operand_bytes(graph, op, row->bytes),
                      .is_products = row->flops.by != PLM_FLOPS_EACH,
                      .dtype = dtype_of(graph, op)};
}
