/* SPDX-License-Identifier: MIT */
/*
 * The cost model: how long an operation takes on a device. Costs are whole numbers, nanoseconds
 * with a profile and units of no meaning but their ratio without one, so that a sum does not depend
 * on its order: the price of a strategy is exactly the cost of its plan.
 */
#ifndef PLM_PLAN_STEP_COST_H
#define PLM_PLAN_STEP_COST_H

#include "graph/graph.h"
#include "plimsoll/device_profile.h"

#define PLM_COSTS_A_SECOND 1e9

/* The cost of one run of `op`; `profile` NULL: relative. */
int64_t plm__op_cost(const plm_device_profile *profile, const plm_graph *graph, const plm_op *op);

/* What the operation would take at the full rates of the profile: seconds, efficiency 1. */
double plm__op_ideal_seconds(const plm_device_profile *profile, const plm_graph *graph,
                             const plm_op *op);

/* sum + runs x cost, at most INT64_MAX. */
int64_t plm__cost_add(int64_t sum, int64_t runs, int64_t cost);

/* How often an update runs a program: FIRST once, NEXT for the other micro-batches, UPDATE once. */
int64_t plm__program_runs(plm_program program, int64_t batch, int64_t micro_batch);

#endif
