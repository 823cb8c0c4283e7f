/* SPDX-License-Identifier: MIT */
/*
 * The graph as passes, the planner and the executor see it.
 *
 * Invariants: a tensor has one storage and lies inside it; values are single-assignment: a call
 * tensor is an output of exactly one operation or an input of its program, and where it is made in
 * chunks of rows each part is a view of it and such an output; persistent tensors change only
 * through effects, and so do gradients of call scope, which an early update uses up. Operations of
 * a program are contiguous and in running order.
 */
#ifndef PLM_GRAPH_GRAPH_H
#define PLM_GRAPH_GRAPH_H

#include "base/intern.h"
#include "graph/op.h"
#include "plimsoll/graph.h"

enum {
    PLM_TENSOR_RANK_MAX = 4,
    PLM_GRAPH_OPS_MAX = 4 << 20, /* operations in all programs */
    PLM_TENSOR_STEP = 0,         /* the step record */
    PLM_HOLDER_INIT = 0x40000000 /* sites from here on belong to parameters' first values */
};

typedef enum plm_scope { PLM_SCOPE_RUN, PLM_SCOPE_WINDOW, PLM_SCOPE_CALL } plm_scope;

/* Parameters and all that belongs to them lie flat, one storage for each kind and decay group, at
 * the same elements of each. */
typedef enum plm_flat {
    PLM_FLAT_PARAMETER, /* what the network computes with, in the strategy's precision */
    PLM_FLAT_MASTER,    /* what is updated, in fp32, where the weights have 16 bits */
    PLM_FLAT_GRADIENT,
    PLM_FLAT_MOMENT1,
    PLM_FLAT_MOMENT2,
    PLM_FLAT_COUNT
} plm_flat;

typedef enum plm_group { PLM_GROUP_DECAY, PLM_GROUP_NO_DECAY, PLM_GROUP_COUNT } plm_group;

typedef struct plm_storage {
    size_t bytes; /* of a persistent one whole granules, with padding between its tensors */
    plm_scope scope;
    plm_program program; /* of a call storage */
} plm_storage;

typedef struct plm_shape {
    plm_dtype dtype;
    int32_t rank;
    int64_t dims[PLM_TENSOR_RANK_MAX];
} plm_shape;

typedef struct plm_tensor_info {
    plm_shape shape;
    int64_t stride[PLM_TENSOR_RANK_MAX]; /* in elements */
    size_t bytes;
    int32_t storage;
    plm_tensor view_of; /* the call tensor of which this one is a part, PLM_TENSOR_NONE */
    size_t offset;      /* in the storage, bytes */
    uint32_t name;      /* interned; of a parameter its full name */
    uint32_t layer;     /* interned */
    int32_t producer;   /* operation whose output it is, -1 for inputs and persistent tensors */
    plm_role role;      /* ACTIVATION for every result: the plan tells activation from temporary */
    bool trainable;
    bool needs_gradient; /* a trainable parameter is among what it was made from, or it is one */
    bool is_output;      /* read by the host after its program */
} plm_tensor_info;

typedef struct plm_op {
    plm_op_kind kind;
    plm_op_attr attr;
    plm_queue queue;
    uint32_t layer; /* interned */
    int32_t block;  /* -1 outside of blocks */
    uint32_t label; /* interned: the weight's name without its layer ("attention.qkv"), or the
                       operation's text */
    plm_tensor in[PLM_OP_INPUTS_MAX]; /* PLM_TENSOR_NONE where absent */
    plm_tensor out[PLM_OP_OUTPUTS_MAX];
    plm_tensor effect[PLM_OP_EFFECTS_MAX];
} plm_op;

/* A parameter and what belongs to it; tensors are PLM_TENSOR_NONE until a pass makes them. The
 * gradient is of call scope, and not flat, where updates are early. */
typedef struct plm_parameter_info {
    plm_tensor flat[PLM_FLAT_COUNT];
    plm_shape shape; /* as the network asked for it: the tensors may have rows of padding behind */
    plm_init init;
    plm_group group;
    uint32_t gradient_in; /* bit p: program p has written its gradient */
} plm_parameter_info;

typedef struct plm_op_range {
    int64_t begin, end;
} plm_op_range;

struct plm_graph {
    plm_strategy strategy;
    int64_t row_multiple; /* of plm_parameter_padded, at least 1: the device's */
    PLM_ARRAY(plm_storage) storages;
    PLM_ARRAY(plm_tensor_info) tensors;
    PLM_ARRAY(plm_op) ops;
    PLM_ARRAY(plm_parameter_info) parameters;
    PLM_ARRAY(int32_t)
    parameter_of; /* by tensor: its parameter, and that of a gradient of call
                     scope; -1 for other tensors */
    PLM_ARRAY(plm_tensor)
    by_name; /* by interned name: the parameter's tensor + 1, 0 for other names */
    plm_op_range programs[PLM_PROGRAM_COUNT];
    /* Output of the operation at which forward turns to backward. */
    plm_tensor loss[PLM_PROGRAM_COUNT];
    int32_t flat_storage[PLM_FLAT_COUNT][PLM_GROUP_COUNT]; /* -1 until something lies there */
    size_t group_elements[PLM_GROUP_COUNT]; /* of every flat storage of the group, with padding */
    plm_intern names;
    plm_program program; /* that is being built */
    uint32_t layer;
    int32_t block;       /* of operations that follow, -1 outside of blocks */
    int32_t block_count; /* one more than the largest block so far */
    int32_t blocks_most; /* that plm_blocks lets a network append, 0: all */
    bool cuts_mlps;      /* the strategy's chunks of MLPs came about in one of them at least */
    uint32_t label;      /* overrides the label of appended operations, 0: their own */
    uint32_t next_site;
    plm_error error; /* the first failure */
};

static inline plm_op_class plm__op_class(const plm_op *op)
{
    return plm__op_info_of(op->kind)->class;
}

static inline const plm_tensor_info *plm__graph_tensor(const plm_graph *graph, plm_tensor tensor)
{
    return &graph->tensors.items[tensor];
}

/* Elements of a shape; shapes of a graph are checked to fit. */
int64_t plm__shape_elements(const plm_shape *shape);

/* "[8,1024,768] fp32" into `text`, which is returned. */
enum { PLM_SHAPE_TEXT = 112 };
const char *plm__shape_format(const plm_shape *shape, char text[PLM_SHAPE_TEXT]);

/*
 * Appends an operation: checks inputs by its shape rule, makes its outputs. `in` and `effect` are
 * as long as the table says. Returns output 0, or PLM_TENSOR_NONE for an effect or after a failure.
 */
plm_tensor plm__op_append(plm_graph *graph, plm_op_kind kind, const plm_op_attr *attr,
                          const plm_tensor *in, const plm_tensor *effect);

/* *tensor = a contiguous tensor of run scope on a storage of its own. */
PLM_MUST_USE plm_status plm__graph_run_tensor(plm_graph *graph, const char *name,
                                              const plm_shape *shape, plm_role role,
                                              plm_tensor *tensor);

/* *tensor = a contiguous call tensor on a storage of its own. */
PLM_MUST_USE plm_status plm__graph_call_tensor(plm_graph *graph, const plm_shape *shape,
                                               plm_role role, plm_tensor *tensor);

/*
 * *view = a tensor of `shape`, contiguous, on the storage of the call tensor `of`, `offset` bytes
 * from it. Made by the same operation, until one that writes it is appended.
 */
PLM_MUST_USE plm_status plm__graph_view(plm_graph *graph, plm_tensor of, const plm_shape *shape,
                                        size_t offset, plm_tensor *view);

/*
 * Emits the backward operations of `op` (a copy: the list grows meanwhile). dout[i] is the gradient
 * of output i, PLM_TENSOR_NONE where there is none; din[i] becomes that of input i where it is
 * wanted. Weights' gradients are effects. An operation without a gradient rule is a failure.
 */
void plm__op_gradient(plm_graph *graph, const plm_op *op, const plm_tensor *dout, plm_tensor *din);

/* The tensor of this kind that belongs to a parameter, made at the first call: a view of its
 * group's flat storage. */
plm_tensor plm__graph_flat(plm_graph *graph, plm_tensor parameter, plm_flat flat);

/* The columns of a result that are not padding: those of the product that it comes from, as long as
 * its width stays the same. */
int64_t plm__graph_real_columns(const plm_graph *graph, plm_tensor tensor);

/* The bytes of a tensor that lies flat, to where the next one begins: more than its granules where
 * narrower ones lie at the same elements. */
size_t plm__graph_flat_room(const plm_graph *graph, const plm_tensor_info *tensor);

/* Elements [begin, end) of the flat storage of a kind and group as one tensor; PLM_TENSOR_NONE when
 * nothing lies there. */
plm_tensor plm__graph_flat_part(plm_graph *graph, plm_flat flat, plm_group group, size_t begin,
                                size_t end);

/* The whole of it as one tensor [N]. */
plm_tensor plm__graph_flat_whole(plm_graph *graph, plm_flat flat, plm_group group);

/* The kind that an update changes: the masters where there are any, else the parameters. */
plm_flat plm__graph_updated_flat(const plm_graph *graph);

/*
 * The gradient of `parameter` for an effect of the current program; *accumulate = whether it adds:
 * always in NEXT, in FIRST from its second contribution on.
 */
plm_tensor plm__graph_gradient(plm_graph *graph, plm_tensor parameter, bool *accumulate);

/* Sets the graph's sticky failure from the thread's record when `status` is one. Returns whether
 * the graph is well. */
bool plm__graph_check(plm_graph *graph, plm_status status);

/*
 * *graph becomes an empty graph that builds by `strategy` (copied). Owned by the caller.
 * PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm__graph_create(const plm_strategy *strategy, plm_graph **graph);

/* NULL is allowed. */
void plm__graph_destroy(plm_graph *graph);

/* PLM_OK, or the first failure of a builder call, whose record is set again. */
PLM_MUST_USE plm_status plm__graph_status(const plm_graph *graph);

/*
 * Later calls append to `program`, which must be empty. Layer, label and the keys of random numbers
 * start anew, so that the same network called in two programs drops the same elements.
 */
void plm__graph_begin(plm_graph *graph, plm_program program);

#endif
