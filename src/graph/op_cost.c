/* SPDX-License-Identifier: MIT */
/*
 * The cost rules: one row an operation whose arithmetic or traffic is not simply that of its
 * operands. B batch, T positions, C width; causal attention does half of the square.
 */
#include "graph/op_cost.h"

#include <ctype.h>

/* How an operation's arithmetic follows from its shapes. */
typedef enum arithmetic {
    BY_ELEMENT,   /* factor x elements of the first operand */
    BY_PRODUCT,   /* 2 x elements of operand `of` x the last extent of in[by] */
    BY_ATTENTION, /* factor x B T T C, in[of] being [B,T,3C] or [B,T,C] packs */
} arithmetic;

/* What moves differently from whole operands. */
typedef enum traffic {
    WHOLE,      /* every operand once */
    ROWS_READ,  /* a table of which only the rows that are looked up are read */
    ROWS_ADDED, /* a table that is written whole, or to which only rows are added */
    PLACE_READ  /* one position of each sequence: as much as it writes */
} traffic;

typedef struct cost_row {
    arithmetic arithmetic;
    traffic traffic;
    double factor;
    int8_t of, by;
} cost_row;

static const cost_row rows[PLM_OP_COUNT] = {
    [PLM_OP_EMBEDDING] = {.traffic = ROWS_READ},
    [PLM_OP_POSITION] = {.traffic = ROWS_READ, .factor = 1},
    [PLM_OP_LAYER_NORM] = {.factor = 8},
    [PLM_OP_LINEAR] = {.arithmetic = BY_PRODUCT, .of = -1, .by = 0},
    [PLM_OP_GELU] = {.factor = 9},
    [PLM_OP_GELU_EXACT] = {.factor = 4},
    [PLM_OP_ADD] = {.factor = 1},
    [PLM_OP_DROPOUT] = {.factor = 2},
    [PLM_OP_ATTENTION] = {.arithmetic = BY_ATTENTION, .factor = 4, .of = 0},
    [PLM_OP_ATTENTION_SCORES] = {.arithmetic = BY_ATTENTION, .factor = 2, .of = 0},
    [PLM_OP_SOFTMAX] = {.factor = 4},
    [PLM_OP_ATTENTION_APPLY] = {.arithmetic = BY_ATTENTION, .factor = 2, .of = 1},
    [PLM_OP_SELECT] = {.traffic = PLACE_READ},
    [PLM_OP_CROSS_ENTROPY] = {.factor = 4},
    [PLM_OP_EMBEDDING_GRAD] = {.traffic = ROWS_ADDED},
    [PLM_OP_POSITION_GRAD] = {.traffic = ROWS_ADDED, .factor = 1},
    [PLM_OP_LAYER_NORM_GRAD_INPUT] = {.factor = 12},
    [PLM_OP_LAYER_NORM_GRAD_WEIGHT] = {.factor = 5},
    [PLM_OP_LINEAR_GRAD_INPUT] = {.arithmetic = BY_PRODUCT, .of = -1, .by = 0},
    [PLM_OP_LINEAR_GRAD_WEIGHT] = {.arithmetic = BY_PRODUCT, .of = 0, .by = 1},
    [PLM_OP_LINEAR_GRAD_BIAS] = {.factor = 1},
    [PLM_OP_GELU_GRAD] = {.factor = 14},
    [PLM_OP_GELU_EXACT_GRAD] = {.factor = 8},
    [PLM_OP_ATTENTION_GRAD] = {.arithmetic = BY_ATTENTION, .factor = 10, .of = 1},
    [PLM_OP_ATTENTION_GRAD_PROBS] = {.arithmetic = BY_ATTENTION, .factor = 2, .of = 1},
    [PLM_OP_SOFTMAX_GRAD] = {.factor = 4},
    [PLM_OP_ATTENTION_GRAD_QKV] = {.arithmetic = BY_ATTENTION, .factor = 6, .of = 1},
    [PLM_OP_CROSS_ENTROPY_GRAD] = {.factor = 4},
    [PLM_OP_GRADIENT_NORM] = {.factor = 2},
    [PLM_OP_GRADIENT_PART] = {.factor = 2},
    [PLM_OP_ADAMW] = {.factor = 12},
    [PLM_OP_SGD] = {.factor = 5},
    [PLM_OP_CAST] = {.factor = 1},
};

static const char *const keys[PLM_OP_COUNT] = {
#define PLM_OP(kind, ...) [PLM_OP_##kind] = #kind,
#include "graph/ops.def"
#undef PLM_OP
};

const char *plm__op_key(plm_op_kind kind, char text[PLM_OP_KEY_TEXT])
{
    int i = 0;
    for (; keys[kind][i] && i < PLM_OP_KEY_TEXT - 1; i++)
        text[i] = (char)tolower((unsigned char)keys[kind][i]);
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

/* What an operation is about: its first result, else its first input, else what it changes. */
static plm_tensor subject_of(const plm_op *op)
{
    return op->out[0] != PLM_TENSOR_NONE  ? op->out[0]
           : op->in[0] != PLM_TENSOR_NONE ? op->in[0]
                                          : op->effect[0];
}

/* The type an operation works in: that of its first operand of real numbers. */
static plm_dtype dtype_of(const plm_graph *graph, const plm_op *op)
{
    for (int i = 0; i < PLM_OP_INPUTS_MAX; i++) {
        if (op->in[i] == PLM_TENSOR_NONE)
            continue;
        plm_dtype dtype = plm__graph_tensor(graph, op->in[i])->shape.dtype;
        if (plm_dtype_is_real(dtype))
            return dtype;
    }
    return PLM_DTYPE_F32;
}

static double product_flops(const plm_graph *graph, const plm_op *op, const cost_row *row)
{
    const plm_shape *by = &plm__graph_tensor(graph, op->in[row->by])->shape;
    double rows_and_columns = elements_of(graph, row->of < 0 ? op->out[0] : op->in[row->of]);
    return 2 * rows_and_columns * (double)by->dims[by->rank - 1];
}

static double attention_flops(const plm_graph *graph, const plm_op *op, const cost_row *row)
{
    const plm_tensor_info *qkv = plm__graph_tensor(graph, op->in[row->of]);
    double elements = (double)plm__shape_elements(&qkv->shape) / 3; /* B T C */
    double whole = row->factor * elements * (double)qkv->shape.dims[1];
    return op->attr.causal ? whole / 2 : whole;
}

/* Sums are read before they are written again; a first contribution is only written. */
static double effect_bytes(const plm_graph *graph, const plm_op *op, traffic moved)
{
    bool adds = op->attr.accumulate || op->kind == PLM_OP_ADAMW || op->kind == PLM_OP_SGD;
    double bytes = 0;
    for (int i = 0; i < PLM_OP_EFFECTS_MAX; i++)
        bytes += bytes_of(graph, op->effect[i]);
    if (moved != ROWS_ADDED)
        return adds ? 2 * bytes : bytes;
    /* The rows: of the positions that are looked up, or of all of them. */
    double added = 2 * bytes_of(graph, op->in[1] != PLM_TENSOR_NONE ? op->in[1] : op->in[0]);
    return op->attr.accumulate ? added : bytes + added;
}

static double operand_bytes(const plm_graph *graph, const plm_op *op, traffic moved)
{
    double in = 0, out = 0;
    for (int i = 0; i < PLM_OP_INPUTS_MAX; i++)
        in += bytes_of(graph, op->in[i]);
    for (int i = 0; i < PLM_OP_OUTPUTS_MAX; i++)
        out += bytes_of(graph, op->out[i]);
    if (moved == ROWS_READ) /* as many rows of the table as rows of the result, at most all */
        in += bytes_of(graph, op->out[0]) < bytes_of(graph, op->in[1])
                  ? bytes_of(graph, op->out[0]) - bytes_of(graph, op->in[1])
                  : 0;
    if (moved == PLACE_READ)
        in = out;
    return in + out + effect_bytes(graph, op, moved);
}

plm_work plm__op_work(const plm_graph *graph, const plm_op *op)
{
    const cost_row *row = &rows[op->kind];
    plm_tensor subject = subject_of(op);
    plm_work work = {.bytes = operand_bytes(graph, op, row->traffic),
                     .is_products = row->arithmetic != BY_ELEMENT,
                     .dtype = dtype_of(graph, op)};
    if (row->arithmetic == BY_PRODUCT)
        work.flops = product_flops(graph, op, row);
    else if (row->arithmetic == BY_ATTENTION)
        work.flops = attention_flops(graph, op, row);
    else
        work.flops = row->factor * elements_of(graph, subject);
    return work;
}
