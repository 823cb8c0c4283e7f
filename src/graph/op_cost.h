/* SPDX-License-Identifier: MIT */
/* The work of an operation: what its shapes say of arithmetic and traffic, before any device. */
#ifndef PLM_GRAPH_OP_COST_H
#define PLM_GRAPH_OP_COST_H

#include "graph/graph.h"

typedef struct plm_work {
    double flops;     /* additions and multiplications that no implementation can leave out */
    double bytes;     /* read and written once each, as if nothing were found in a cache */
    plm_dtype dtype;  /* of the elements that it works on */
    bool is_products; /* made of matrix products: its flops run at their rate */
} plm_work;

/* The work of one run of `op`, by its row of the table. */
plm_work plm__op_work(const plm_graph *graph, const plm_op *op);

/* The kind as profiles of devices name it, "linear_grad_input", into `text`, which is returned. */
enum { PLM_OP_KEY_TEXT = 48 };
const char *plm__op_key(plm_op_kind kind, char text[PLM_OP_KEY_TEXT]);

#endif
