/* SPDX-License-Identifier: MIT */
/* Growth curves as a chart for a terminal and as JSON. */

#include <math.h>

#include "base/json.h"
#include "base/number.h"
#include "plimsoll/plan_report.h"
#include "plimsoll/size.h"
#include "report/terminal.h"
#include "plan/curve.h"

enum { BAR_CELLS = 40, BAR_CELLS_NARROW = 10 };

static const char *axis_text(plm_curve_axis axis)
{
    return axis == PLM_CURVE_BATCH ? "batch" : "sequence";
}

enum { SECONDS_TEXT = 32 };

/* Three digits, or whole seconds. */
static const char *seconds_text(double seconds, char text[SECONDS_TEXT])
{
    plm__print(text, SECONDS_TEXT, seconds < 999.5 ? "%.3g s" : "%.0f s", seconds);
    return text;
}

/* What a point costs in time, as far as it is known. */
static void add_times(const plm_curve *curve, const plm_curve_point *point, plm_table *table)
{
    const plm_curve_point *last = &curve->points[curve->count - 1];
    char peak[PLM_SIZE_TEXT], seconds[SECONDS_TEXT];
    if (curve->timed)
        plm__table_cell(table, "%s", seconds_text(point->plan.step_seconds, seconds));
    else
        plm__table_cell(table, "%.3f",
                        (double)point->plan.step_cost / (double)last->plan.step_cost);
    if (!plm__curve_is_measured(curve))
        return;
    if (point->measured_peak_bytes == 0) {
        plm__table_cell(table, "not run");
        plm__table_cell(table, "%s", "");
        return;
    }
    plm__table_cell(table, "%s", seconds_text(point->measured_seconds, seconds));
    plm__table_cell(table, "%s",
                    point->measured_peak_bytes == point->plan.peak_bytes
                        ? "equal"
                        : plm_size_format(point->measured_peak_bytes, peak));
}

static void add_points(const plm_curve *curve, plm_table *table)
{
    char peak[PLM_SIZE_TEXT];
    const plm_curve_point *last = &curve->points[curve->count - 1];
    for (int i = 0; i < curve->count; i++) {
        const plm_curve_point *point = &curve->points[i];
        bool over = curve->budget_bytes > 0 && point->plan.peak_bytes > curve->budget_bytes;
        plm__table_row(table, over ? PLM_TABLE_DIM : PLM_TABLE_PLAIN);
        plm__table_cell(table, "%lld", (long long)point->x);
        plm__table_cell(table, "%s", plm_size_format(point->plan.peak_bytes, peak));
        plm__table_bar(table, (double)point->plan.peak_bytes / (double)last->plan.peak_bytes);
        add_times(curve, point, table);
        plm__table_cell(table, "%s", over ? "over the budget" : "");
    }
}

/* Beyond the points: the fit where the caller asked, and what fits. */
static void add_forecast(const plm_curve *curve, plm_text *out)
{
    char size[PLM_SIZE_TEXT], taken[SECONDS_TEXT];
    double x = (double)curve->forecast_x, peak = plm_curve_peak_at(curve, x);
    double seconds = plm_curve_seconds_at(curve, x);
    plm__text_add(out, "forecast for %s %lld: %s", axis_text(curve->axis),
                  (long long)curve->forecast_x, plm_size_format(peak > 0 ? (size_t)peak : 0, size));
    if (seconds > 0)
        plm__text_add(out, ", %s an update", seconds_text(seconds, taken));
    plm__text_add(out, "\n");
    if (curve->budget_bytes == 0)
        return;
    plm_size_format(curve->budget_bytes, size);
    if (curve->largest_batch == 0)
        plm__text_add(out, "no batch of %lld tokens a sequence fits %s\n",
                      (long long)curve->sequence, size);
    else
        plm__text_add(out, "the largest batch that fits %s: %lld, of %lld tokens a sequence\n",
                      size, (long long)curve->largest_batch, (long long)curve->sequence);
    if (curve->largest_sequence == 0)
        plm__text_add(out, "no sequence fits it in a batch of %lld\n", (long long)curve->batch);
    else
        plm__text_add(out, "the longest sequence that fits it: %lld tokens, in a batch of %lld\n",
                      (long long)curve->largest_sequence, (long long)curve->batch);
}

/* What the fit says in words. */
static void add_parts(const plm_curve *curve, plm_text *out)
{
    char size[PLM_SIZE_TEXT];
    double last = (double)curve->points[curve->count - 1].x;
    double linear = curve->linear > 0 ? curve->linear : 0;
    plm__text_add(out,
                  "at %.0f: %.0f %% constant, %.0f %% in proportion, %.0f %% with the square\n",
                  last, 100 * (1 - curve->linear_share - curve->quadratic_share),
                  100 * curve->linear_share, 100 * curve->quadratic_share);
    plm__text_add(
        out, "each further unit of %s takes %s", axis_text(curve->axis),
        plm_size_format((size_t)(linear + 2 * (curve->quadratic > 0 ? curve->quadratic : 0) * last),
                        size));
    plm__text_add(out, "; the fit is within %.1f %%\n", 100 * curve->worst_error);
    add_forecast(curve, out);
}

plm_status plm_report_curve_text(const plm_curve *curve, const char *model, plm_report_style style,
                                 char **text)
{
    bool narrow = style.columns > 0 && style.columns < PLM_REPORT_COLUMNS_DEFAULT;
    plm_table_column columns[] = {
        {.title = axis_text(curve->axis), .right = true},
        {.title = "peak", .right = true},
        {.bar_cells = narrow ? BAR_CELLS_NARROW : BAR_CELLS},
        {.title = curve->timed ? "step" : "step, relative", .right = true},
        {.title = "step as run", .right = true},
        {.title = "peak as run"},
        {0},
    };
    const int count = sizeof columns / sizeof *columns;
    bool measured = plm__curve_is_measured(curve);
    plm_page page = plm__page_begin(style);
    plm_table table;
    plm__page_heading(&page, "%.128s over %s", model, axis_text(curve->axis));
    if (!measured)
        columns[count - 3] = columns[count - 1]; /* what is not filled is not shown */
    plm__table_init(&table, columns, measured ? count : count - 2);
    add_points(curve, &table);
    plm__page_section(&page, &table);
    add_parts(curve, &page.text);
    return plm__page_end(&page, text);
}

static void write_point(plm_json_writer *json, const plm_curve *curve, const plm_curve_point *point)
{
    plm__json_begin_object(json, NULL);
    plm__json_int(json, axis_text(curve->axis), point->x);
    plm__json_bytes(json, "peak_bytes", point->plan.peak_bytes);
    plm__json_bytes(json, "transient_bytes", point->plan.transient_bytes);
    plm__json_real(json, "step_seconds", curve->timed ? point->plan.step_seconds : NAN);
    if (point->measured_peak_bytes > 0) {
        plm__json_bytes(json, "measured_peak_bytes", point->measured_peak_bytes);
        plm__json_real(json, "measured_seconds", point->measured_seconds);
    }
    plm__json_end(json);
}

static void write_forecast(plm_json_writer *json, const plm_curve *curve)
{
    double x = (double)curve->forecast_x, seconds = plm_curve_seconds_at(curve, x);
    plm__json_begin_object(json, "forecast");
    plm__json_int(json, axis_text(curve->axis), curve->forecast_x);
    plm__json_real(json, "peak_bytes", plm_curve_peak_at(curve, x));
    plm__json_real(json, "step_seconds", seconds > 0 ? seconds : NAN);
    plm__json_end(json);
}

plm_status plm_report_curve_json(const plm_curve *curve, const char *model, char **line)
{
    plm_json_writer json = {0};
    plm__json_begin_object(&json, NULL);
    plm__json_text(&json, "model", model);
    plm__json_text(&json, "vary", axis_text(curve->axis));
    plm__json_real(&json, "constant_bytes", curve->constant);
    plm__json_real(&json, "linear_bytes", curve->linear);
    plm__json_real(&json, "quadratic_bytes", curve->quadratic);
    plm__json_real(&json, "linear_share", curve->linear_share);
    plm__json_real(&json, "quadratic_share", curve->quadratic_share);
    plm__json_real(&json, "worst_error", curve->worst_error);
    if (curve->budget_bytes) {
        plm__json_bytes(&json, "budget_bytes", curve->budget_bytes);
        plm__json_int(&json, "largest",
                      curve->axis == PLM_CURVE_BATCH ? curve->largest_batch
                                                     : curve->largest_sequence);
        plm__json_int(&json, "largest_batch", curve->largest_batch);
        plm__json_int(&json, "largest_sequence", curve->largest_sequence);
    }
    plm__json_int(&json, "at_batch", curve->batch);
    plm__json_int(&json, "at_sequence", curve->sequence);
    write_forecast(&json, curve);
    plm__json_begin_array(&json, "points");
    for (int i = 0; i < curve->count; i++)
        write_point(&json, curve, &curve->points[i]);
    return plm__json_finish(&json, line);
}
