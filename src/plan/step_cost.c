/* SPDX-License-Identifier: MIT */
/* The cost of an operation from its work and a device's rates. */
#include "plan/step_cost.h"

#include "graph/op_cost.h"

/*
 * Without a profile only ratios are wanted. Sixteen operations for a byte moved is between a
 * processor core (about 4 to 10) and a large GPU (over 100); a launch counts as 16 KiB.
 */
static const plm_device_profile relative = {
    .name = "relative",
    .product_flops = {[PLM_DTYPE_F32] = 16e9, [PLM_DTYPE_BF16] = 16e9, [PLM_DTYPE_F16] = 16e9},
    .bandwidth = 1e9,
    .launch_seconds = 16e-6,
};

#define COST_MAX 1e15 /* of one operation: eleven days */

static double rate_of(const plm_device_profile *profile, plm_dtype dtype)
{
    double rate = profile->product_flops[dtype];
    return rate > 0 ? rate : profile->product_flops[PLM_DTYPE_F32];
}

static double ideal_seconds(const plm_device_profile *profile, const plm_work *work)
{
    double computing = work->flops / rate_of(profile, work->dtype);
    double moving = work->bytes / profile->bandwidth;
    return computing > moving ? computing : moving;
}

double plm__op_ideal_seconds(const plm_device_profile *profile, const plm_graph *graph,
                             const plm_op *op)
{
    plm_work work = plm__op_work(graph, op);
    return ideal_seconds(profile, &work);
}

/* That of the operation in the type it works in, else in any, else 1. */
static double efficiency_of(const plm_device_profile *profile, plm_op_kind kind, plm_dtype dtype)
{
    double own = profile->efficiency_of[dtype][kind], any = profile->efficiency[kind];
    return own > 0 ? own : any > 0 ? any : 1;
}

int64_t plm__op_cost(const plm_device_profile *profile, const plm_graph *graph, const plm_op *op)
{
    if (!profile)
        profile = &relative;
    plm_work work = plm__op_work(graph, op);
    double seconds = ideal_seconds(profile, &work) / efficiency_of(profile, op->kind, work.dtype) +
                     profile->launch_seconds;
    double cost = seconds * PLM_COSTS_A_SECOND;
    return cost < COST_MAX ? (int64_t)cost : (int64_t)COST_MAX;
}

int64_t plm__cost_add(int64_t sum, int64_t runs, int64_t cost)
{
    int64_t product, total;
    if (__builtin_mul_overflow(runs, cost, &product) ||
        __builtin_add_overflow(sum, product, &total))
        return INT64_MAX;
    return total;
}

int64_t plm__program_runs(plm_program program, int64_t batch, int64_t micro_batch)
{
    switch (program) {
    case PLM_PROGRAM_FIRST:
    case PLM_PROGRAM_UPDATE:
        return 1;
    case PLM_PROGRAM_NEXT:
        return batch / micro_batch - 1;
    default:
        return 0;
    }
}
