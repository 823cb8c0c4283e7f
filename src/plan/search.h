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
#ifndef PLM_PLAN_SEARCH_H
#define PLM_PLAN_SEARCH_H

#include "plimsoll/advice.h"

typedef struct plm_search plm_search;

/*
 * *search = the frontier of a job. The job's network and the device are borrowed as long as the
 * search lives. Owned by the caller. As plm_plan_create.
 */
PLM_MUST_USE plm_status plm__search_create(const plm_job *job, const plm_strategy *strategy,
                                           plm_device *device, plm_search **search);

/* NULL is allowed. */
void plm__search_destroy(plm_search *search);

/* *bytes = the smallest peak of any strategy on the frontier, planned exactly. */
PLM_MUST_USE plm_status plm__search_smallest(plm_search *search, size_t *bytes);

/*
 * *plan = the fastest strategy whose peak is within the budget, planned exactly; the caller's.
 * PLM_ERROR_BUDGET when none is, with the smallest that would do in its message.
 */
PLM_MUST_USE plm_status plm__search_plan(plm_search *search, size_t budget_bytes, plm_plan **plan);

plm_search_size plm__search_count(const plm_search *search);

#endif
