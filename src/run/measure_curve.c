/* SPDX-License-Identifier: MIT */
/* The points of a growth curve, run: what the plans said beside what the device counted. */
#include "base/clock.h"
#include "device/device.h"
#include "plimsoll/curve.h"
#include "run/drawn.h"
#include "plan/curve.h"

enum { STEPS_MOST = 5 }; /* updates of a point that are timed */

static const int64_t enough_ns = 2000000000; /* no further update begins after this */

/* One update that is not timed, for it touches everything once, then at least one that is. */
static plm_status time_steps(plm_session *session, const plm_plan *plan, const int32_t *ids,
                             double *seconds)
{
    const plm_plan_summary summary = plm_plan_summarize(plan);
    const int32_t *targets = ids + summary.batch * summary.sequence;
    const plm_hyper hyper = plm__drawn_hyper(plan);
    int64_t began_ns = 0, best_ns = INT64_MAX;
    for (int step = 0; step <= STEPS_MOST; step++) {
        plm_step_result result;
        int64_t step_ns = plm__clock_ns();
        PLM_TRY(plm_session_step(session, step, &hyper, summary.batch, ids, targets, &result));
        int64_t now_ns = plm__clock_ns();
        if (step == 0)
            began_ns = now_ns;
        else if (now_ns - step_ns < best_ns)
            best_ns = now_ns - step_ns;
        if (step > 0 && now_ns - began_ns > enough_ns)
            break;
    }
    *seconds = (double)best_ns * 1e-9;
    return PLM_OK;
}

static plm_status run_plan(const plm_plan *plan, plm_device *device, plm_curve_point *point)
{
    plm_session *session = NULL;
    plm_session_measure memory;
    int32_t *ids = NULL;
    plm_status status;
    PLM_TRY(plm__session_create_as(plan, device, 1, false, &session)); /* checks take time */
    PLM_TRY_DONE(plm__drawn_window(session, plan, &ids));
    PLM_TRY_DONE(time_steps(session, plan, ids, &point->measured_seconds));
    PLM_TRY_DONE(plm_session_measure_memory(session, &memory));
    point->measured_peak_bytes = memory.peak_bytes;
done:
    plm_session_destroy(session);
    plm__host_free(ids);
    return status;
}

/* The device's cap is the arena of the plan that the point told of, not of the one made here. */
static plm_status run_point(const plm_job *job, const plm_strategy *strategy, plm_device *device,
                            plm_curve_point *point)
{
    plm_plan *plan = NULL;
    PLM_TRY(plm_plan_create(job, strategy, device, &plan));
    size_t cap_bytes = plm__device_limit(device, point->plan.arena_bytes);
    plm_status status = run_plan(plan, device, point);
    plm__device_limit(device, cap_bytes);
    plm_plan_destroy(plan);
    return status;
}

plm_status plm_curve_measure(plm_curve *curve, const plm_job *job, const plm_strategy *strategy,
                             plm_device *device, size_t limit_bytes,
                             const plm_curve_observer *observer)
{
    if (limit_bytes == 0)
        PLM_TRY(device->table->available_bytes(device, &limit_bytes));
    for (int i = 0; i < curve->count; i++) {
        plm_curve_point *point = &curve->points[i];
        plm_job placed = *job;
        plm_strategy chosen = *strategy;
        plm__curve_place(curve, point->x, &placed, &chosen);
        bool runs = point->plan.peak_bytes <= limit_bytes;
        if (runs && observer && observer->begins)
            observer->begins(curve, i, observer->user);
        if (runs)
            PLM_TRY(run_point(&placed, &chosen, device, point));
        if (observer && observer->ended)
            observer->ended(curve, i, observer->user);
    }
    return PLM_OK;
}
