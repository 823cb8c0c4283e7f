/* SPDX-License-Identifier: MIT */
/* The bill of a plan: the bill of its trace, with the arena's regions and the budget beside it. */
#include "plimsoll/bill.h"

#include <stdio.h>

#include "plan/plan.h"

plm_status plm_plan_bill(const plm_plan *plan, const char *model, size_t budget_bytes,
                         plm_bill **bill)
{
    plm_trace *trace = NULL;
    plm_bill *made = NULL;
    PLM_TRY(plm_plan_trace(plan, &trace));
    PLM_TRY(plm_bill_create(trace, &made));
    made->plan = plan->summary;
    made->budget_bytes = budget_bytes;
    made->fits = budget_bytes == 0 || plan->summary.peak_bytes <= budget_bytes;
    snprintf(made->model, sizeof made->model, "%s", model);
    PLM_BUG_IF(made->live_bytes != plan->summary.lower_bound_bytes,
               "the trace's peak of %zu bytes is not the plan's lower bound of %zu",
               made->live_bytes, plan->summary.lower_bound_bytes);
    *bill = made;
    return PLM_OK;
}
