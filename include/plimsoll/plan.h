/* SPDX-License-Identifier: MIT */
/*
 * Plans: a network, a batch and a strategy become programs with every storage placed in one arena.
 * The peak is known to the byte, and the run executes exactly this plan inside exactly this arena.
 *
 *     peak = arena + overhead            arena = persistent region + transient region
 *
 * The persistent region (parameters, gradients, moments, step record) does not depend on the
 * micro-batch; the transient region above it is as large as the largest of the programs needs.
 *
 * One thread makes plans with a device at a time, since a device keeps what it was asked. A plan
 * that was made does not change: any number of threads may read it.
 */
#ifndef PLIMSOLL_PLAN_H
#define PLIMSOLL_PLAN_H

#include "plimsoll/device.h"
#include "plimsoll/graph.h"
#include "plimsoll/optimizer.h"
#include "plimsoll/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PLM_BATCH_MAX = 1 << 24,   /* sequences in one update */
    PLM_SEQUENCE_MAX = 1 << 28 /* tokens of a sequence */
};

/*
 * A network: a function that appends one program's operations, called once for each of FIRST, NEXT,
 * EVALUATE and GENERATE that the job runs. It makes the inputs "tokens" and
 * (except in GENERATE) "targets", and "types" when it tells texts of a pair apart, all [batch,
 * sequence] int32 and no others, and ends with plm_cross_entropy, or with one plm_output, the
 * logits, in GENERATE. Mistakes stick in the graph.
 */
typedef struct plm_network {
    void (*build)(plm_graph *graph, const void *config, plm_program program, int64_t batch,
                  int64_t sequence);
    const void *config; /* passed to build; borrowed while a plan is made */
} plm_network;

/* What is to be run. */
typedef struct plm_job {
    plm_network network;
    int64_t batch;    /* sequences in one update */
    int64_t sequence; /* tokens of each */
    bool trains; /* INITIALIZE, FIRST, NEXT (when the micro-batch is smaller than the batch), UPDATE
                  */
    bool evaluates;          /* EVALUATE, at the micro-batch */
    bool generates;          /* GENERATE, one sequence */
    plm_optimizer optimizer; /* of UPDATE; decides which moments are held */
} plm_job;

typedef struct plm_plan plm_plan;

/* The figures of a plan. Bytes. */
typedef struct plm_plan_summary {
    plm_strategy strategy; /* with the micro-batch chosen */
    int64_t batch;
    int64_t sequence;
    plm_optimizer optimizer;      /* of a job that trains */
    int64_t parameter_count;      /* elements; a tied weight counts once */
    size_t persistent_bytes;      /* run and window storages, each rounded to the granule */
    size_t transient_bytes;       /* the largest packing of a program */
    size_t transient_bound_bytes; /* the largest live sum of a program: no packing is smaller */
    size_t arena_bytes;
    size_t lower_bound_bytes; /* persistent + transient bound */
    size_t overhead_bytes;    /* of the device */
    size_t peak_bytes;        /* arena + overhead */
    int64_t step_cost;        /* of an update: compares plans for one device, in no unit */
    double step_seconds;      /* predicted, by the device's profile; 0 when it has none */
} plm_plan_summary;

/*
 * Plans a job by a strategy whose micro-batch is given and divides the batch. The device is asked
 * for workspaces and overhead only; it is borrowed for the call. *plan is the caller's.
 * PLM_ERROR_ARGUMENT for a wrong network, batch or strategy, PLM_ERROR_UNSUPPORTED for a precision
 * or a backward that is not built, PLM_ERROR_OVERFLOW for sizes that cannot be counted.
 */
PLM_MUST_USE plm_status plm_plan_create(const plm_job *job, const plm_strategy *strategy,
                                        plm_device *device, plm_plan **plan);

/*
 * The fastest plan whose peak is within `budget_bytes`, over what the strategy leaves open:
 * micro-batch 0, PLM_RECOMPUTE_AUTO, head and MLP chunks 0, PLM_ATTENTION_AUTO; PLM_PRECISION_AUTO
 * is the device's best. What the strategy fixes stays.
 * *smallest_budget (NULL allowed) = the smallest peak among them, set also when none fits: then
 * PLM_ERROR_BUDGET, whose message names it. A smaller budget never gives a larger peak.
 */
PLM_MUST_USE plm_status plm_plan_for_budget(const plm_job *job, const plm_strategy *strategy,
                                            plm_device *device, size_t budget_bytes,
                                            size_t *smallest_budget, plm_plan **plan);

/* NULL is allowed. */
void plm_plan_destroy(plm_plan *plan);

plm_plan_summary plm_plan_summarize(const plm_plan *plan);

/*
 * *trace = the plan told as a trace: births and deaths of every tensor and workspace over one pass
 * of the schedule, first with the persistent blocks, then each program behind a mark. Times count
 * operations; addresses are offsets in the arena. Owned by the caller.
 */
PLM_MUST_USE plm_status plm_plan_trace(const plm_plan *plan, plm_trace **trace);

#ifdef __cplusplus
}
#endif
#endif
