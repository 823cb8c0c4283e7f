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

/* Takes a copy of the current program's operations. *old is freed with plm_host_free(old->ops). */
PLM_MUST_USE plm_status plm__rewrite_begin(const plm_graph *graph, plm__old_program *old);

/* Keeps the first `kept` operations of the current program; what follows is appended anew. */
void plm__rewrite_keep(plm_graph *graph, int64_t kept);

/* Appends an operation as it is; its outputs are made by it at its new place. */
PLM_MUST_USE plm_status plm__rewrite_append(plm_graph *graph, const plm_op *op);

#endif
