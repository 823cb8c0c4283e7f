/* SPDX-License-Identifier: MIT */
/* Growth curves: plans along an axis, and the parabola through their peaks. */
#include "plimsoll/curve.h"

#include <inttypes.h>
#include <math.h>

#include "plan/plan.h"

enum { TERMS = 3 }; /* constant, linear, quadratic */

void plm_curve_destroy(plm_curve *curve)
{
    plm_host_free(curve);
}

double plm_curve_peak_at(const plm_curve *curve, double x)
{
    return curve->constant + curve->linear * x + curve->quadratic * x * x;
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
    plm_job job = *walk->job;
    plm_strategy strategy = *walk->strategy;
    plm_plan *plan = NULL;
    if (walk->axis == PLM_CURVE_BATCH)
        job.batch = strategy.micro_batch = x;
    else
        job.sequence = x;
    PLM_TRY(plm_plan_create(&job, &strategy, walk->device, &plan));
    *summary = plm_plan_summarize(plan);
    plm_plan_destroy(plan);
    return PLM_OK;
}

/* Gaussian elimination with the largest pivot; the matrix is that of distinct points. */
static void solve(double m[TERMS][TERMS + 1], double out[TERMS])
{
    for (int c = 0; c < TERMS; c++) {
        int pivot = c;
        for (int r = c + 1; r < TERMS; r++)
            if (fabs(m[r][c]) > fabs(m[pivot][c]))
                pivot = r;
        for (int k = 0; k <= TERMS; k++) {
            double held = m[c][k];
            m[c][k] = m[pivot][k];
            m[pivot][k] = held;
        }
        for (int r = 0; r < TERMS; r++) {
            double factor = r == c ? 0 : m[r][c] / m[c][c];
            for (int k = c; k <= TERMS && r != c; k++)
                m[r][k] -= factor * m[c][k];
        }
    }
    for (int c = 0; c < TERMS; c++)
        out[c] = m[c][TERMS] / m[c][c];
}

/* Least squares in x / last, so that the sums are of one size. */
static void fit(plm_curve *curve)
{
    double m[TERMS][TERMS + 1] = {{0}}, term[TERMS];
    double last = (double)curve->points[curve->count - 1].x;
    for (int i = 0; i < curve->count; i++) {
        double x = (double)curve->points[i].x / last, power[TERMS] = {1, x, x * x};
        for (int r = 0; r < TERMS; r++) {
            for (int c = 0; c < TERMS; c++)
                m[r][c] += power[r] * power[c];
            m[r][TERMS] += power[r] * (double)curve->points[i].plan.peak_bytes;
        }
    }
    solve(m, term);
    curve->constant = term[0];
    curve->linear = term[1] / last;
    curve->quadratic = term[2] / (last * last);
    double peak = term[0] + term[1] + term[2];
    curve->linear_share = peak > 0 && term[1] > 0 ? term[1] / peak : 0;
    curve->quadratic_share = peak > 0 && term[2] > 0 ? term[2] / peak : 0;
    for (int i = 0; i < curve->count; i++) {
        double found = (double)curve->points[i].plan.peak_bytes;
        double error = fabs(plm_curve_peak_at(curve, (double)curve->points[i].x) / found - 1);
        curve->worst_error = error > curve->worst_error ? error : curve->worst_error;
    }
}

/* Between the last point that fits and the first that does not, by halving. */
static plm_status find_largest(const axis_walk *walk, plm_curve *curve)
{
    int64_t fits = 0, fails = 0;
    for (int i = 0; i < curve->count && fails == 0; i++) {
        if (curve->points[i].plan.peak_bytes <= curve->budget_bytes)
            fits = curve->points[i].x;
        else
            fails = curve->points[i].x;
    }
    while (fails > fits + 1) {
        plm_plan_summary summary;
        int64_t middle = fits + (fails - fits) / 2;
        PLM_TRY(plan_at(walk, middle, &summary));
        if (summary.peak_bytes <= curve->budget_bytes)
            fits = middle;
        else
            fails = middle;
    }
    curve->largest_x = fits;
    return PLM_OK;
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
    return curve->budget_bytes ? find_largest(walk, curve) : PLM_OK;
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
    PLM_TRY(plm_host_alloc(sizeof *made, &made));
    made->axis = axis;
    made->timed = device->profile != NULL;
    made->budget_bytes = budget_bytes;
    plm_status status = make(&walk, last, count, made);
    if (status != PLM_OK) {
        plm_curve_destroy(made);
        return status;
    }
    *curve = made;
    return PLM_OK;
}
