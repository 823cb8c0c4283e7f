/* SPDX-License-Identifier: MIT */
/* Tapes as the executor writes them and the trace reads them. */
#ifndef PLM_PLAN_TAPE_H
#define PLM_PLAN_TAPE_H

#include "plan/plan.h"
#include "plimsoll/export.h"
#include "plimsoll/tape.h"

typedef struct plm_span {
    int64_t begin, end; /* nanoseconds, of any origin */
} plm_span;

/* One run of a program. */
typedef struct plm_pass {
    plm_program program;
    int64_t step;  /* update of the tape, from 1; 0: of none */
    int64_t first; /* place of its first operation among the spans */
} plm_pass;

/* Where the spans of a program that begins now go, one for each of its operations; NULL when it is
 * not to be noted. A tape that is full stays so: is_full is looked at first. */
plm_span *plm__tape_begin(plm_tape *tape, plm_program program);
bool plm__tape_is_full(const plm_tape *tape);

/*
 * *trace = the plan told along these passes, after the persistent blocks. `spans` NULL: an
 * operation is one instant. `slices` (NULL allowed) gets each pass's operations, in time of the
 * trace, which begins at 0.
 */
PLM_MUST_USE plm_status plm__plan_trace_passes(const plm_plan *plan, const plm_pass *passes,
                                               int64_t count, const plm_span *spans,
                                               plm_export_slice *slices, plm_trace **trace);

#endif
