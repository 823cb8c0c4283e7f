/* SPDX-License-Identifier: MIT */
/*
 * Growth curves: peak and step time over the sequences held at once or over their length, each
 * point a plan, and what of the peak is constant, grows in proportion, or with the square. The
 * calling thread uses the device; a curve that was made does not change.
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
    size_t measured_peak_bytes; /* counted by the device that ran it; 0: it was not run */
    double measured_seconds;    /* its fastest update; 0: likewise */
} plm_curve_point;

/* peak bytes = constant + linear x + quadratic x^2, by least squares over the points. */
typedef struct plm_curve {
    plm_curve_axis axis;
    bool timed;               /* the device's profile gave seconds */
    int64_t batch, sequence;  /* the job's: the one that does not vary holds at every point */
    int64_t forecast_x;       /* where reports forecast: twice the last point, or a caller's */
    size_t budget_bytes;      /* 0: none */
    int64_t largest_batch;    /* that fits it at that length, all held at once; 0: none fits */
    int64_t largest_sequence; /* likewise, at that batch and the strategy's micro-batch */
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
 * choices must be made. The largest that fit a budget (0: none) are searched beyond the points, up
 * to PLM_BATCH_MAX and PLM_SEQUENCE_MAX, or to where the network refuses; on the other axis the
 * network must know sequences of `last` tokens. Owned by the caller. PLM_ERROR_ARGUMENT for too few
 * points; else as plm_plan_create.
 */
PLM_MUST_USE plm_status plm_curve_create(const plm_job *job, const plm_strategy *strategy,
                                         plm_device *device, plm_curve_axis axis, int64_t last,
                                         int count, size_t budget_bytes, plm_curve **curve);

/* NULL is allowed. */
void plm_curve_destroy(plm_curve *curve);

/* The peak by the fit at any x, beyond the points too. Bytes. */
double plm_curve_peak_at(const plm_curve *curve, double x);

/*
 * The time of an update at any x, by a fit over the points that were run or, where fewer than 3
 * were, over the predictions: a line over the batch, a parabola over the length. Seconds; 0 when
 * neither is known.
 */
double plm_curve_seconds_at(const plm_curve *curve, double x);

/* Told of each point: just before it is run, and when it was run or passed over. */
typedef struct plm_curve_observer {
    void (*begins)(const plm_curve *curve, int index, void *user);
    void (*ended)(const plm_curve *curve, int index, void *user);
    void *user;
} plm_curve_observer;

/*
 * Runs each point: updates on drawn ids in an arena of exactly its plan, on the device, which hands
 * out not a byte more meanwhile. Fills the points' measured figures; those whose peak is beyond
 * `limit_bytes` (0: what the device has available) are passed over. The job, the strategy and the
 * device that the curve was made with; nothing else may use the device. `observer` may be NULL.
 * Fails as plm_session_create and plm_session_step.
 */
PLM_MUST_USE plm_status plm_curve_measure(plm_curve *curve, const plm_job *job,
                                          const plm_strategy *strategy, plm_device *device,
                                          size_t limit_bytes, const plm_curve_observer *observer);

#ifdef __cplusplus
}
#endif
#endif
