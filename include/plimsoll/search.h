/* SPDX-License-Identifier: MIT */
/*
 * The search for a strategy: the fastest that fits a budget, over what a strategy leaves open:
 * micro-batch (0), recompute (PLM_RECOMPUTE_AUTO), head chunks (0), MLP chunks (0) and the form of
 * attention (PLM_ATTENTION_AUTO). PLM_PRECISION_AUTO is the device's best. What it fixes stays.
 *
 * All strategies are priced first, and those that another beats in both memory and time are
 * dropped. What is left, the frontier, does not depend on any budget: a budget only selects from
 * it. So a smaller budget never gives a larger peak, and a larger one never a slower step.
 */
#ifndef PLIMSOLL_SEARCH_H
#define PLIMSOLL_SEARCH_H

#include "plimsoll/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plm_search plm_search;

/*
 * *search = the frontier of a job. The job's network and the device are borrowed as long as the
 * search lives. Owned by the caller. As plm_plan_create.
 */
PLM_MUST_USE plm_status plm_search_create(const plm_job *job, const plm_strategy *strategy,
                                          plm_device *device, plm_search **search);

/* NULL is allowed. */
void plm_search_destroy(plm_search *search);

/* *bytes = the smallest peak of any strategy on the frontier, planned exactly. */
PLM_MUST_USE plm_status plm_search_smallest(plm_search *search, size_t *bytes);

/*
 * *plan = the fastest strategy whose peak is within the budget, planned exactly; the caller's.
 * PLM_ERROR_BUDGET when none is, with the smallest that would do in its message.
 */
PLM_MUST_USE plm_status plm_search_plan(plm_search *search, size_t budget_bytes, plm_plan **plan);

typedef struct plm_search_size {
    int64_t priced;   /* strategies looked at */
    int64_t sketched; /* plans that their prices come from */
    int64_t frontier; /* strategies that no other beats */
    int64_t planned;  /* of them, planned exactly so far */
} plm_search_size;

plm_search_size plm_search_count(const plm_search *search);

#ifdef __cplusplus
}
#endif
#endif
