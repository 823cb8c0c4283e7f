/* SPDX-License-Identifier: MIT */
/*
 * Growth curves: peak and step time over the sequences held at once or over their length, each
 * point a plan, and what of the peak is constant, grows in proportion, or with the square.
 */
#ifndef PLIMSOLL_CURVE_H
#define PLIMSOLL_CURVE_H

#include "plimsoll/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PLM_CURVE_POINTS_MAX = 16 };

typedef enum plm_curve_axis {
    PLM_CURVE_BATCH,   /* sequences of an update, all held at once */
    PLM_CURVE_SEQUENCE /* tokens of a sequence */
} plm_curve_axis;

typedef struct plm_curve_point {
    int64_t x;
    plm_plan_summary plan;
} plm_curve_point;

/* peak bytes = constant + linear x + quadratic x^2, by least squares over the points. */
typedef struct plm_curve {
    plm_curve_axis axis;
    bool timed;          /* the device's profile gave seconds */
    size_t budget_bytes; /* 0: none */
    int64_t largest_x;   /* that fits the budget, up to the last point's; 0: none fits */
    double constant, linear, quadratic;
    double linear_share;    /* of the peak at the last point, by the fit */
    double quadratic_share; /* likewise */
    double worst_error;     /* largest distance of a point from the fit, relative to its peak */
    plm_curve_point points[PLM_CURVE_POINTS_MAX];
    int count;
} plm_curve;

/*
 * *curve = up to `count` evenly spaced points from 1 to `last`, at least 3 and at most
 * PLM_CURVE_POINTS_MAX. The strategy's micro-batch is not looked at on the batch axis; its other
 * choices must be made, and the network must know sequences of `last` tokens on the other axis.
 * Owned by the caller. PLM_ERROR_ARGUMENT for too few points; else as plm_plan_create.
 */
PLM_MUST_USE plm_status plm_curve_create(const plm_job *job, const plm_strategy *strategy,
                                         plm_device *device, plm_curve_axis axis, int64_t last,
                                         int count, size_t budget_bytes, plm_curve **curve);

/* NULL is allowed. */
void plm_curve_destroy(plm_curve *curve);

/* The peak by the fit at any x, beyond the points too. Bytes. */
double plm_curve_peak_at(const plm_curve *curve, double x);

#ifdef __cplusplus
}
#endif
#endif
