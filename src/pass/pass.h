/* SPDX-License-Identifier: MIT */
/* Passes: each takes a graph and appends to it or rewrites it; graph in, graph out. One file a
 * pass. */
#ifndef PLM_PASS_PASS_H
#define PLM_PASS_PASS_H

#include "graph/graph.h"
#include "plimsoll/optimizer.h"

/*
 * Appends to the current program (FIRST or NEXT) the operations that make the gradients of every
 * trainable parameter from the program's cross entropy. Operations run in reverse order of the
 * forward ones; gradients that meet are summed by explicit additions in that order, so that no
 * later pass changes a sum. PLM_ERROR_ARGUMENT when the program has no cross entropy.
 */
PLM_MUST_USE plm_status plm__pass_backward(plm_graph *graph);

/*
 * Rewrites the current program: the head and its loss run in strategy.head_chunks chunks of rows,
 * so that the logits are never held whole. PLM_ERROR_UNSUPPORTED when the logits are not made by a
 * product right before the cross entropy, PLM_ERROR_ARGUMENT for more chunks than rows.
 */
PLM_MUST_USE plm_status plm__pass_chunk_head(plm_graph *graph);

/*
 * Rewrites the current program, behind recompute: the MLP (a product, an activation function of
 * it, a product of that) of each block that keeps nothing in between runs in strategy.mlp_chunks
 * chunks of rows, forward and backward each, so that what is in between is never held whole. No sum
 * of the forward is touched; weights' and biases' gradients add up chunk by chunk, in fp32. A
 * network without such a block stays as it is. PLM_ERROR_ARGUMENT for more chunks than rows;
 * generating, which has fewer rows than training, takes as many as there are.
 */
PLM_MUST_USE plm_status plm__pass_chunk_mlp(plm_graph *graph);

/*
 * Rewrites the current program, which has its backward: what the strategy says of a block is not
 * kept, and the operations that made it are cloned in front of the first backward operation that
 * wants it. Sites, shapes and order of sums stay, so losses and gradients are the same bits.
 * PLM_ERROR_ARGUMENT when the strategy lists more blocks than there are, or names operations that
 * no block has.
 */
PLM_MUST_USE plm_status plm__pass_recompute(plm_graph *graph);

/*
 * Rewrites the current program, which has its backward, where the strategy updates early: behind
 * the last operation that reads a parameter or adds to its gradient the parameter is updated, and
 * the gradient dies. The same bits as a late update without clipping. A gradient that is not finite
 * stops the updates behind it, not those before. PLM_ERROR_UNSUPPORTED when a parameter that learns
 * gets no gradient.
 */
PLM_MUST_USE plm_status plm__pass_update_early(plm_graph *graph, plm_optimizer optimizer);

/*
 * Appends to the current program the casts that make the weights from their masters, a decay group
 * at a time; nothing where the weights are fp32. The last step of INITIALIZE and UPDATE, so that
 * weights are cast once a step.
 */
PLM_MUST_USE plm_status plm__pass_precision(plm_graph *graph);

/*
 * Builds UPDATE: the global norm of all gradients, then the optimizer over each decay group's flat
 * storages, in one operation between parameters that are frozen; where updates are early, the norm
 * alone. PLM_ERROR_ARGUMENT for an optimizer that is none.
 */
PLM_MUST_USE plm_status plm__pass_update(plm_graph *graph, plm_optimizer optimizer);

/* Builds INITIALIZE: every parameter's first values. Moments and gradients start as zero bytes. */
PLM_MUST_USE plm_status plm__pass_initialize(plm_graph *graph);

#endif
