/* SPDX-License-Identifier: MIT */
/* What the passes that lay a program out anew share. */
#ifndef PLM_PASS_PASS_INTERNAL_H
#define PLM_PASS_PASS_INTERNAL_H

#include "graph/graph.h"

/* A program's operations as they were, while its new list is made. */
typedef struct plm__old_program {
    plm_op *ops;
    int64_t count;
} plm__old_program;

/* Takes a copy of the current program's operations. *old is freed with plm__host_free(old->ops). */
PLM_MUST_USE plm_status plm__rewrite_begin(const plm_graph *graph, plm__old_program *old);

/* Keeps the first `kept` operations of the current program; what follows is appended anew. */
void plm__rewrite_keep(plm_graph *graph, int64_t kept);

/* Appends an operation as it is; its outputs are made by it at its new place. */
PLM_MUST_USE plm_status plm__rewrite_append(plm_graph *graph, const plm_op *op);

/* Whether the strategy keeps neither a product nor what its consumer makes of it. */
bool plm__recompute_drops_both(const plm_graph *graph, const plm_op *product,
                               const plm_op *consumer);

/* ---- running over rows in chunks (rows.c) --------------------------------------------------- */

/* The current program while spans of it are cut; freed with plm__cut_fini. */
typedef struct plm__cut {
    plm_graph *graph;
    plm__old_program old;
    int32_t *last_read; /* by tensor: the last operation that reads it, -1 for none */
    plm_tensor *places; /* by tensor: what stands for it in the chunk that is being made */
} plm__cut;

/* Neighbouring operations that work row by row, or sum over rows into effects. */
typedef struct plm__row_span {
    int64_t begin, end; /* in old.ops */
    int64_t rows;       /* of every call tensor that they read or make */
} plm__row_span;

/* Takes the current program, whose list starts empty anew. A zeroed struct may be freed. */
PLM_MUST_USE plm_status plm__cut_begin(plm_graph *graph, plm__cut *cut);

void plm__cut_fini(plm__cut *cut);

/* Whether `tensor`, made in the span, is read behind it. */
bool plm__cut_leaves(const plm__cut *cut, const plm__row_span *span, plm_tensor tensor);

/* Appends the old operations [begin, end) as they are. */
PLM_MUST_USE plm_status plm__cut_keep(plm__cut *cut, int64_t begin, int64_t end);

/* Appends the span once for each of `chunks` chunks of its rows, at most as many as there are.
 * PLM_ERROR_OVERFLOW beyond PLM_GRAPH_OPS_MAX operations. */
PLM_MUST_USE plm_status plm__cut_rows(plm__cut *cut, const plm__row_span *span, int64_t chunks);

#endif
