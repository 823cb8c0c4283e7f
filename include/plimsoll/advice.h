/* SPDX-License-Identifier: MIT */
/*
 * Advice: the strategy for a budget and why it was chosen, told by the plans that were not. Every
 * figure comes from a plan that was made, never from a rule of thumb. The calling thread uses the
 * device; an advice that was made does not change.
 */
#ifndef PLIMSOLL_ADVICE_H
#define PLIMSOLL_ADVICE_H

#include "plimsoll/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PLM_ALTERNATIVES_MAX = 16, PLM_ALTERNATIVE_TEXT = 64, PLM_CHANGES_MAX = 8 };

/* A choice that is to have another value than it had: update, "early". */
typedef struct plm_change {
    plm_hint choice;
    char value[24];
} plm_change;

/* One choice made otherwise, the rest as in the chosen strategy. */
typedef struct plm_alternative {
    char what[PLM_ALTERNATIVE_TEXT]; /* "no recompute", "micro-batch 8" */
    /* of a treatment where nothing fits: how the job and the strategy would have to differ; none
     * where a choice is to be left open instead */
    plm_change changes[PLM_CHANGES_MAX];
    int change_count;
    plm_plan_summary plan; /* for a treatment, the smallest plan with it */
    bool fits;
} plm_alternative;

/* What the search looked at. */
typedef struct plm_search_size {
    int64_t priced;   /* strategies looked at */
    int64_t sketched; /* plans that their prices come from */
    int64_t frontier; /* strategies that no other beats */
    int64_t planned;  /* of them, planned exactly so far */
} plm_search_size;

typedef struct plm_advice {
    size_t budget_bytes;
    size_t smallest_budget_bytes;
    bool fits;
    bool timed;            /* seconds are known; else times are relative */
    char rates[96];        /* whose they are by: "cpu, 2 threads"; "" when they are not known */
    plm_plan_summary plan; /* the chosen one; when nothing fits, the smallest */
    plm_search_size looked_at;
    /* when it fits: what was turned down, largest peak first; else: treatments beyond what the
     * strategy leaves open, what helps most first */
    plm_alternative alternatives[PLM_ALTERNATIVES_MAX];
    int alternative_count;
} plm_advice;

/*
 * *advice = the strategy for a budget over what `strategy` leaves open, as plm_plan_for_budget
 * chooses it. That nothing fits is an answer, not a failure. Owned by the caller. As
 * plm_plan_create.
 */
PLM_MUST_USE plm_status plm_advise(const plm_job *job, const plm_strategy *strategy,
                                   plm_device *device, size_t budget_bytes, plm_advice **advice);

/*
 * *advice = the treatments of one strategy, whose choices are all made: what its plan would be with
 * one choice more in memory's favour, smallest peak first. `budget_bytes` 0: none. As above.
 */
PLM_MUST_USE plm_status plm_advise_treatments(const plm_job *job, const plm_strategy *strategy,
                                              plm_device *device, size_t budget_bytes,
                                              plm_advice **advice);

/* NULL is allowed. */
void plm_advice_destroy(plm_advice *advice);

#ifdef __cplusplus
}
#endif
#endif
