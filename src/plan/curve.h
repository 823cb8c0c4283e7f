/* SPDX-License-Identifier: MIT */
/* What runs and draws the points of a growth curve needs of the curve beyond the public header. */
#ifndef PLM_PLAN_CURVE_H
#define PLM_PLAN_CURVE_H

#include "plimsoll/curve.h"

/* Whether a point was run. */
bool plm__curve_is_measured(const plm_curve *curve);

/*
 * *job, *strategy = those of a point of the curve that was made from them: the varied figure is
 * put in its place, and a short point has no more chunks than rows.
 */
void plm__curve_place(const plm_curve *curve, int64_t x, plm_job *job, plm_strategy *strategy);

#endif
