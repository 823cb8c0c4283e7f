/* SPDX-License-Identifier: MIT */
/*
 * Describing a network.
 *
 * A graph is a list of operations on tensors with concrete shapes. The functions below append one
 * operation each and return its result; shapes are checked as they are called. The first mistake
 * sticks: later calls do nothing and return PLM_TENSOR_NONE, and plm_plan_create tells it, so a
 * network is written without a check on every line.
 *
 *     plm_tensor two_layers(plm_graph *g, plm_tensor x)
 *     {
 *         const int64_t up[] = {256, 64}, down[] = {64, 256};
 *         plm_init init = plm_init_normal(0.02f);
 *         x = plm_linear(g, x, plm_parameter(g, "up.weight", 2, up, init, true), PLM_TENSOR_NONE);
 *         x = plm_gelu(g, x);
 *         plm_tensor w = plm_parameter(g, "down.weight", 2, down, init, true);
 *         return plm_linear(g, x, w, PLM_TENSOR_NONE);
 *     }
 *
 * A command runs several graphs on one set of parameters: the programs. The network's function is
 * called once for each program that needs it, and asks for its parameters by name, so that all
 * programs share them. A program holds its operations in the order in which they were called; that
 * is the order in which they run.
 *
 * Storage scopes: run (parameters, moments, step record), window (gradients, which several
 * micro-batches add to), call (everything else, which lives only inside one run of one program).
 *
 * One thread builds a graph. Names are copied.
 */
#ifndef PLIMSOLL_GRAPH_H
#define PLIMSOLL_GRAPH_H

#include <stdbool.h>

#include "plimsoll/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plm_graph plm_graph;

/* A tensor of a graph: a small number, meaningful only with its graph. */
typedef int32_t plm_tensor;

#define PLM_TENSOR_NONE ((plm_tensor)-1)

/* One row a program: name, text. Their order is the schedule: initialize, first, next ..., update,
 * ... */
#define PLM_PROGRAM_MAP(ROW)                                                                       \
    ROW(INITIALIZE, "initialize") /* parameters get their first values */                          \
    ROW(FIRST, "first")           /* first micro-batch of a window: gradients are written */       \
    ROW(NEXT, "next")             /* further micro-batches: gradients are added to */              \
    ROW(UPDATE, "update")         /* clip and step */                                              \
    ROW(EVALUATE, "evaluate")     /* forward and loss only */                                      \
    ROW(GENERATE, "generate")     /* logits of one position */

typedef enum plm_program {
#define PLM_PROGRAM_ROW(name, text) PLM_PROGRAM_##name,
    PLM_PROGRAM_MAP(PLM_PROGRAM_ROW)
#undef PLM_PROGRAM_ROW
        PLM_PROGRAM_COUNT
} plm_program;

/* "first", "update", ...; static. */
const char *plm_program_text(plm_program program);

/* How a parameter gets its first values. */
typedef struct plm_init {
    bool normal; /* normal with deviation `value`, else the constant `value` */
    float value;
} plm_init;

static inline plm_init plm_init_normal(float deviation)
{
    plm_init init = {true, deviation};
    return init;
}

static inline plm_init plm_init_constant(float value)
{
    plm_init init = {false, value};
    return init;
}

/* Operations and parameters that follow belong to this layer: "block.3", "head", "" for none. */
void plm_layer(plm_graph *graph, const char *format, ...);

/*
 * The same for block `index` of a network whose blocks repeat, counted from 0: the layer
 * "block.INDEX". What is made again in the backward is chosen for each block.
 */
void plm_block(plm_graph *graph, int32_t index);

/*
 * How many blocks to append of a network with `count` blocks that are built alike: all of them
 * where a plan is made, a few where the graph is only looked at for what a block costs.
 *
 *     for (int32_t i = 0; i < plm_blocks(g, layers); i++) {
 *         plm_block(g, i);
 *         x = ...;
 *     }
 */
int32_t plm_blocks(const plm_graph *graph, int64_t count);

/*
 * The parameter of this name, fp32, made at the first call and found again later; the full name is
 * the layer's, a dot, `name`. `decay` says whether weight decay applies to it. Trainable. Wrong: an
 * empty shape, more than 4 dimensions, a second call with another shape, a first call in another
 * program than FIRST when there is a FIRST.
 */
plm_tensor plm_parameter(plm_graph *graph, const char *name, int32_t rank, const int64_t *shape,
                         plm_init init, bool decay);

/*
 * The same, but that its rows (the first dimension) are those of a vocabulary. A device whose
 * products want aligned columns holds more rows, which are 0 and count nowhere: not in the loss,
 * not in what is read, written and saved by name. For the table that makes the logits, and their
 * bias.
 */
plm_tensor plm_parameter_padded(plm_graph *graph, const char *name, int32_t rank,
                                const int64_t *shape, plm_init init, bool decay);

/* The same by its full name, wherever it was made (a tied weight); it must exist. */
plm_tensor plm_parameter_named(plm_graph *graph, const char *full_name);

/* A tensor that the host fills before the program runs: int32 ids [batch, T]. */
plm_tensor plm_input(plm_graph *graph, const char *name, int32_t rank, const int64_t *shape);

/* table[ids]: ids [B,T] int32, table [V,C] -> [B,T,C]. */
plm_tensor plm_embedding(plm_graph *graph, plm_tensor ids, plm_tensor table);

/* x + table[position]: x [B,T,C], table [P,C], P >= T -> [B,T,C]. */
plm_tensor plm_position(plm_graph *graph, plm_tensor x, plm_tensor table);

/* Layer normalisation over the last dimension (Ba, Kiros, Hinton 2016): x [..,C], weight [C], bias
 * [C]. */
plm_tensor plm_layer_norm(plm_graph *graph, plm_tensor x, plm_tensor weight, plm_tensor bias,
                          float epsilon);

/* x weight^T + bias: x [..,K], weight [N,K], bias [N] or PLM_TENSOR_NONE -> [..,N]. Weight and bias
 * are parameters, here as in every operation that has them. */
plm_tensor plm_linear(plm_graph *graph, plm_tensor x, plm_tensor weight, plm_tensor bias);

/* GELU in its tanh form, any shape. */
plm_tensor plm_gelu(plm_graph *graph, plm_tensor x);

/* GELU as it is defined, by the error function, any shape. */
plm_tensor plm_gelu_exact(plm_graph *graph, plm_tensor x);

/* a + b, same shapes. */
plm_tensor plm_add(plm_graph *graph, plm_tensor a, plm_tensor b);

/*
 * Drops elements with `probability` and scales the rest by 1 / (1 - probability): x [B,T,C]. Only
 * in FIRST and NEXT; elsewhere, and for probability 0, x itself. The mask is a pure function of
 * seed, step, site and the element's global index, so it depends neither on the micro-batch nor on
 * recompute.
 */
plm_tensor plm_dropout(plm_graph *graph, plm_tensor x, float probability);

/*
 * Self-attention, plain or fused by the strategy: qkv [B,T,(H+2G)D] -> [B,T,HD]. qkv packs the
 * queries of H = `heads` heads, then the keys and then the values of G = `key_heads`, all of size
 * D, which need not be the width of the network over H. G divides H: each head of keys and values
 * serves H / G heads of queries in a row. G = H is plain multi-head attention, G = 1 multi-query.
 */
plm_tensor plm_attention(plm_graph *graph, plm_tensor qkv, int32_t heads, int32_t key_heads,
                         bool causal);

/* The position of the step record out of x [B,T,C] -> [B,C]. No gradient passes through it. */
plm_tensor plm_select(plm_graph *graph, plm_tensor x);

/*
 * Token losses: logits [..,V], targets [..] int32, of which negative ones are not counted -> losses
 * [..]. Their sum is added to the step record. Once in a program; in FIRST and NEXT this ends the
 * network: the backward starts here.
 */
plm_tensor plm_cross_entropy(plm_graph *graph, plm_tensor logits, plm_tensor targets);

/* Gives a result a name of its own, by which bills call it: "logits". Returns the tensor. A
 * parameter has its name already: wrong. */
plm_tensor plm_name(plm_graph *graph, plm_tensor tensor, const char *name);

/* Marks the tensor whose content the host reads after the program (the logits of GENERATE). */
void plm_output(plm_graph *graph, plm_tensor tensor);

#ifdef __cplusplus
}
#endif
#endif
