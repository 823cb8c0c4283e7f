/* SPDX-License-Identifier: MIT */
/*
 * The bill: a view of a trace that says where memory goes. Every role's largest sum, the instant of
 * the peak, and what is live then, largest first, with who made it and whom it is kept for.
 *
 * One thread makes a bill; any number may read it. A bill lives as long as its creator wants: it
 * owns its trace and borrows the treatments.
 */
#ifndef PLIMSOLL_BILL_H
#define PLIMSOLL_BILL_H

#include "plimsoll/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plm_bill {
    plm_trace *trace;                     /* owned */
    size_t role_bytes[PLM_ROLE_COUNT];    /* each role's largest live sum, at its own instant; bytes
                                             asked */
    size_t at_peak_bytes[PLM_ROLE_COUNT]; /* each role's live sum at the peak; bytes asked */
    size_t padding_bytes;      /* at the peak: what rounding to granules adds to all of them */
    size_t live_bytes;         /* at the peak: all roles and padding; the lower bound of an arena */
    int64_t largest_temporary; /* alloc event of the largest block of role temporary, -1: none */
    int64_t peak_event;        /* alloc event that reaches the peak, -1 for an empty trace */
    char at[160];              /* where: "first: head token linear gradient" */
    int64_t *live; /* alloc events of the blocks live at the peak, largest first; owned */
    int64_t live_count;
    /* of a plan; 0 for other traces */
    plm_plan_summary plan;
    size_t budget_bytes;                 /* 0: none was stated */
    bool fits;                           /* peak within the budget; true when none was stated */
    char model[128];                     /* "" when not known */
    const struct plm_advice *treatments; /* of plm_advise_treatments, borrowed; NULL: none asked */
} plm_bill;

/* *bill = the bill of a trace, which it takes over (destroyed on failure too).
 * PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm_bill_create(plm_trace *trace, plm_bill **bill);

/* *bill = the bill of a plan against a budget (0: none); `model` is copied. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_plan_bill(const plm_plan *plan, const char *model, size_t budget_bytes,
                                      plm_bill **bill);

/* NULL is allowed. */
void plm_bill_destroy(plm_bill *bill);

#ifdef __cplusplus
}
#endif
#endif
