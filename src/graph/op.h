/* SPDX-License-Identifier: MIT */
/*
 * An operation's kind and attributes, what its row of the table says, and the step record: what
 * graphs and devices both know.
 */
#ifndef PLM_GRAPH_OP_H
#define PLM_GRAPH_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "graph/step_record.h"
#include "plimsoll/dtype.h"

typedef enum plm_op_kind {
#define PLM_OP(kind, ...) PLM_OP_##kind,
#include "graph/ops.def"
#undef PLM_OP
    PLM_OP_COUNT
} plm_op_kind;

#define PLM_OPERAND_MARKS "?#!~^" /* that stand before a word of a row's operands */

enum {
    PLM_OP_INPUTS_MAX = 5,
    PLM_OP_OUTPUTS_MAX = 3,
    PLM_OP_EFFECTS_MAX = 3,
    PLM_NORM_CHUNK = 4096 /* elements whose squares are summed in one go */
};

/* Where on a device something runs: each queue in order, side by side with the others. */
typedef enum plm_queue { PLM_QUEUE_COMPUTE, PLM_QUEUE_COPY, PLM_QUEUE_COMMUNICATION } plm_queue;

/* What an operation is to the passes. */
typedef enum plm_op_class {
    PLM_CLASS_LOOKUP,
    PLM_CLASS_NORMALISATION, /* keeps its statistics when its first output is made again */
    PLM_CLASS_PRODUCT,       /* with a weight, whose name it bears */
    PLM_CLASS_ACTIVATION,    /* of each element: what an MLP has between its products */
    PLM_CLASS_POINTWISE,
    PLM_CLASS_ATTENTION, /* fused, or a step of the plain form */
    PLM_CLASS_LOSS,
    PLM_CLASS_PRODUCT_GRADIENT,
    PLM_CLASS_GRADIENT, /* of any other class */
    PLM_CLASS_UPDATE,
    PLM_CLASS_INITIAL,
    PLM_CLASS_COUNT
} plm_op_class;

/* How its arithmetic follows from its shapes, and what of its operands is moved: see ops.def. */
typedef enum plm_flops { PLM_FLOPS_EACH, PLM_FLOPS_PRODUCT, PLM_FLOPS_ATTENTION } plm_flops;
typedef enum plm_bytes {
    PLM_BYTES_WHOLE,
    PLM_BYTES_ROWS_READ,
    PLM_BYTES_ROWS_ADDED,
    PLM_BYTES_PLACE_READ,
    PLM_BYTES_CHANGED
} plm_bytes;

/* A row of the table. */
typedef struct plm_op_info {
    const char *key, *text; /* "GELU_GRAD", "gelu gradient" */
    plm_op_class class;
    int32_t inputs, outputs, effects;
    uint32_t overwrites; /* bit i: output 0 may take the place of input i */
    const char *operands;
    struct {
        plm_flops by;
        double factor;
        int32_t qkv; /* of attention: the packed input */
    } flops;
    plm_bytes bytes;
    const char *output_names; /* NUL-separated */
} plm_op_info;

const plm_op_info *plm__op_info_of(plm_op_kind kind);

/* The name of output `index` of a kind, a noun: "output" for the plain result, "rstd". */
const char *plm__op_output_name(plm_op_kind kind, int32_t index);

/* Constants of an operation, fixed when the graph is built. Zero where the operation has no use for
 * them. */
typedef struct plm_op_attr {
    float epsilon;     /* LAYER_NORM* */
    float probability; /* DROPOUT: of dropping, in [0, 1) */
    float scale;       /* INIT_*: deviation or value */
    int32_t heads;     /* ATTENTION*: of queries */
    int32_t key_heads; /* ATTENTION*: of keys and values, a divisor of heads */
    int64_t columns;   /* CROSS_ENTROPY*: of the logits that are real; those behind are padding */
    uint32_t site;     /* key of the random numbers, kept by every clone of the operation */
    bool causal;       /* ATTENTION* */
    bool accumulate;   /* effects that sum: add to what is there */
    bool decay;        /* ADAMW, SGD: weight decay applies */
    bool early;        /* ADAMW, SGD, GRADIENT_NORM: parameters are updated one by one */
} plm_op_attr;

/* The size of attention's heads, of which `packed` elements hold queries, keys and values. */
static inline int64_t plm__head_size(const plm_op_attr *attr, int64_t packed)
{
    return packed / (attr->heads + 2 * (int64_t)attr->key_heads);
}

#endif
