/* SPDX-License-Identifier: MIT */
/* Growth curves: plans along an axis, and the parabola through their peaks. */
#include "plan/curve.h"

#include <inttypes.h>
#include <math.h>

#include "plan/plan.h"

enum { TERMS = 3 }; /* constant, linear, quadratic */

void plm_curve_destroy(plm_curve *curve)
{
    plm__host_free(curve);
}

double plm_curve_peak_at(const plm_curve *curve, double x)
{
    return curve->constant + curve->linear * x + curve->quadratic * x * x;
}

void plm__curve_place(const plm_curve *curve, int64_t x, plm_job *job, plm_strategy *strategy)
{
    if (curve->axis == PLM_CURVE_BATCH)
        job->batch = strategy->micro_batch = x;
    else
        job->sequence = x;
    /* A short run has fewer rows than a long one is cut into. */
    int64_t rows, sequences = strategy->micro_batch > 0 ? strategy->micro_batch : job->batch;
    if (__builtin_mul_overflow(sequences, job->sequence, &rows))
        return; /* the plan refuses it */
    if (strategy->head_chunks > rows)
        strategy->head_chunks = rows;
    if (strategy->mlp_chunks > rows)
        strategy->mlp_chunks = rows;
}

/* What is varied. */
typedef struct axis_walk {
    const plm_job *job;
    const plm_strategy *strategy;
    plm_device *device;
    plm_curve_axis axis;
} axis_walk;

static plm_status plan_at(const axis_walk *walk, int64_t x, plm_plan_summary *summary)
{
    const plm_curve along = {.axis = walk->axis};
    plm_job job = *walk->job;
    plm_strategy strategy = *walk->strategy;
    plm_plan *plan = NULL;
    plm__curve_place(&along, x, &job, &strategy);
    PLM_TRY(plm_plan_create(&job, &strategy, walk->device, &plan));
    *summary = plm_plan_summarize(plan);
    plm_plan_destroy(plan);
    return PLM_OK;
}

/* Points of a fit: x in parts of the last one's, so that sums of powers are of one size. */
typedef struct fit_points {
    double x[PLM_CURVE_POINTS_MAX], y[PLM_CURVE_POINTS_MAX];
    double last;
    int count;
} fit_points;

static void add_point(fit_points *points, int64_t x, double y)
{
    points->x[points->count] = (double)x;
    points->y[points->count++] = y;
    points->last = (double)x;
}

/* Gaussian elimination with the largest pivot; the matrix is that of distinct points. */
static void solve(double m[TERMS][TERMS + 1], int terms, double out[TERMS])
{
    for (int c = 0; c < terms; c++) {
        int pivot = c;
        for (int r = c + 1; r < terms; r++)
            if (fabs(m[r][c]) > fabs(m[pivot][c]))
                pivot = r;
        for (int k = 0; k <= TERMS; k++) {
            double held = m[c][k];
            m[c][k] = m[pivot][k];
            m[pivot][k] = held;
        }
        for (int r = 0; r < terms; r++) {
            double factor = r == c ? 0 : m[r][c] / m[c][c];
            for (int k = c; k <= TERMS && r != c; k++)
                m[r][k] -= factor * m[c][k];
        }
    }
    for (int c = 0; c < terms; c++)
        out[c] = m[c][TERMS] / m[c][c];
}

/* out[0] + out[1] x + out[2] x^2 by least squares, the terms beyond `terms` being 0. */
static void fit_terms(const fit_points *points, int terms, double out[TERMS])
{
    double m[TERMS][TERMS + 1] = {{0}}, last = points->last;
    for (int i = 0; i < points->count; i++) {
        double x = points->x[i] / last, power[TERMS] = {1, x, x * x};
        for (int r = 0; r < terms; r++) {
            for (int c = 0; c < terms; c++)
                m[r][c] += power[r] * power[c];
            m[r][TERMS] += power[r] * points->y[i];
        }
    }
    out[0] = out[1] = out[2] = 0;
    solve(m, terms, out);
    out[1] /= last;
    out[2] /= last * last;
}

static void fit(plm_curve *curve)
{
    fit_points points = {.count = 0};
    double term[TERMS];
    for (int i = 0; i < curve->count; i++)
        add_point(&points, curve->points[i].x, (double)curve->points[i].plan.peak_bytes);
    fit_terms(&points, TERMS, term);
    curve->constant = term[0];
    curve->linear = term[1];
    curve->quadratic = term[2];
    double last = points.last, peak = plm_curve_peak_at(curve, last);
    curve->linear_share = peak > 0 && term[1] > 0 ? term[1] * last / peak : 0;
    curve->quadratic_share = peak > 0 && term[2] > 0 ? term[2] * last * last / peak : 0;
    for (int i = 0; i < curve->count; i++) {
        double error = fabs(plm_curve_peak_at(curve, points.x[i]) / points.y[i] - 1);
        curve->worst_error = error > curve->worst_error ? error : curve->worst_error;
    }
}

bool plm__curve_is_measured(const plm_curve *curve)
{
    for (int i = 0; i < curve->count; i++)
        if (curve->points[i].measured_peak_bytes > 0)
            return true;
    return false;
}

double plm_curve_seconds_at(const plm_curve *curve, double x)
{
    fit_points measured = {.count = 0}, predicted = {.count = 0};
    double term[TERMS];
    for (int i = 0; i < curve->count; i++) {
        const plm_curve_point *point = &curve->points[i];
        if (point->measured_seconds > 0)
            add_point(&measured, point->x, point->measured_seconds);
        add_point(&predicted, point->x, point->plan.step_seconds);
    }
    const fit_points *points = measured.count >= TERMS ? &measured : &predicted;
    if (points->count < TERMS || (points == &predicted && !curve->timed))
        return 0;
    int terms = curve->axis == PLM_CURVE_BATCH ? 2 : TERMS;
    fit_terms(points, terms, term);
    if (term[2] < 0) /* noise: no step has a part that shrinks with the square */
        fit_terms(points, 2, term);
    return term[0] + term[1] * x + term[2] * x * x;
}

/* *fits = whether the plan at x does; one that cannot be made or counted does not. */
static plm_status try_at(const axis_walk *walk, int64_t x, size_t budget_bytes, bool *fits)
{
    plm_plan_summary summary;
    plm_status status = plan_at(walk, x, &summary);
    *fits = status == PLM_OK && summary.peak_bytes <= budget_bytes;
    bool refused = status == PLM_ERROR_ARGUMENT || status == PLM_ERROR_OVERFLOW ||
                   status == PLM_ERROR_UNSUPPORTED;
    return refused && x > 1 ? PLM_OK : status;
}

/* Doubles from 1 to the first that does not fit, then halves what lies between. */
static plm_status find_largest(axis_walk walk, plm_curve_axis axis, size_t budget_bytes,
                               int64_t *largest)
{
    const int64_t limit = axis == PLM_CURVE_BATCH ? PLM_BATCH_MAX : PLM_SEQUENCE_MAX;
    int64_t good = 0, bad = 0;
    walk.axis = axis;
    while (good < limit && bad != good + 1) {
        int64_t next = bad == 0 ? (good == 0 ? 1 : 2 * good) : good + (bad - good) / 2;
        bool fits;
        PLM_TRY(try_at(&walk, next < limit ? next : limit, budget_bytes, &fits));
        *(fits ? &good : &bad) = next < limit ? next : limit;
    }
    *largest = good;
    return PLM_OK;
}

/* Whether the last point can be counted, before anything is multiplied. */
static plm_status check_last(const axis_walk *walk, int64_t last)
{
    plm_job job = *walk->job;
    bool by_batch = walk->axis == PLM_CURVE_BATCH;
    *(by_batch ? &job.batch : &job.sequence) = last;
    return plm__plan_check_extents(&job, by_batch ? last : walk->strategy->micro_batch);
}

static plm_status make(const axis_walk *walk, int64_t last, int count, plm_curve *curve)
{
    for (int i = 1; i <= count; i++) {
        plm_curve_point *point = &curve->points[curve->count];
        point->x = last / count * i + last % count * i / count;
        if (point->x < 1 || (curve->count > 0 && point->x == point[-1].x))
            continue;
        PLM_TRY(plan_at(walk, point->x, &point->plan));
        curve->count++;
    }
    fit(curve);
    if (curve->budget_bytes == 0)
        return PLM_OK;
    PLM_TRY(find_largest(*walk, PLM_CURVE_BATCH, curve->budget_bytes, &curve->largest_batch));
    return find_largest(*walk, PLM_CURVE_SEQUENCE, curve->budget_bytes, &curve->largest_sequence);
}

plm_status plm_curve_create(const plm_job *job, const plm_strategy *strategy, plm_device *device,
                            plm_curve_axis axis, int64_t last, int count, size_t budget_bytes,
                            plm_curve **curve)
{
    const axis_walk walk = {job, strategy, device, axis};
    plm_curve *made = NULL;
    PLM_FAIL_IF(count < TERMS || count > PLM_CURVE_POINTS_MAX || last < count, PLM_ERROR_ARGUMENT,
                "wanted %d to %d points up to at least as many, found %d up to %" PRId64, TERMS,
                PLM_CURVE_POINTS_MAX, count, last);
    PLM_TRY(check_last(&walk, last));
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    made->axis = axis;
    made->timed = device->profile != NULL;
    made->batch = job->batch;
    made->sequence = job->sequence;
    made->forecast_x = 2 * last;
    made->budget_bytes = budget_bytes;
    plm_status status = make(&walk, last, count, made);
    return PLM_HAND_OVER(status, made, plm_curve_destroy, curve);
}
