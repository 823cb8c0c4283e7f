/* SPDX-License-Identifier: MIT */
/*
 * A growth curve as a picture: two charts over one axis. Above, the peak: its constant, linear and
 * quadratic part stacked as the fit gives them, each plan as a point, what a run counted as a ring,
 * the budget as a line and the largest that fits marked on it. Below, the time of an update: the
 * predictions as points, what was measured as rings, the fit as a line.
 *
 * One SVG without scripts, fonts or links. Its colours are named once and follow the reader's
 * preference for light or dark.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/number.h"
#include "base/text.h"
#include "base/utf8.h"
#include "plimsoll/plan_report.h"
#include "plimsoll/size.h"
#include "plan/curve.h"

enum {
    WIDTH = 900,
    LEFT = 84,  /* of the charts */
    RIGHT = 640 /* behind it stand the names of the parts */
};
enum {
    PEAK_TOP = 104,
    PEAK_BOTTOM = 384,
    TIME_TOP = 444,
    TIME_BOTTOM = 564,
    HEIGHT = 618,
    LEGEND = RIGHT + 22, /* left edge of names at the right */
    TITLE_FONT = 17,
    SAMPLES = 48, /* of a curved line */
    TICKS_UP = 6, /* steps of a scale, at most */
    TICKS_ACROSS = 8,
    PARTS = 3,       /* constant, linear, quadratic */
    LABEL_STEP = 18, /* between names that would touch */
    NUMBER_TEXT = 32
};

static const char head[] =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
    "role=\"img\">\n<title>";

static const char style[] =
    "<style>\n"
    "svg { --paper: #ffffff; --line: #d9dde3; --ink: #1d2430; --soft: #5d6775;\n"
    "  --p0: #98a2af; --p1: #2c6bb3; --p2: #e09a17; --warn: #c3372b; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  svg { --paper: #12161c; --line: #2d3540; --ink: #e8ebef; --soft: #a5afbc;\n"
    "    --p0: #707b89; --p1: #4f8fd8; --p2: #e5aa3c; --warn: #ff7b6b; }\n"
    "}\n"
    "text { fill: var(--soft); font: 12px system-ui, -apple-system, \"Segoe UI\", \"DejaVu Sans\", "
    "sans-serif; }\n"
    ".title { fill: var(--ink); font-weight: 600; }\n"
    ".name { fill: var(--ink); }\n"
    ".end { text-anchor: end; } .mid { text-anchor: middle; }\n"
    ".paper { fill: var(--paper); }\n"
    ".grid { stroke: var(--line); } .axis { stroke: var(--soft); }\n"
    ".part { fill-opacity: .82; }\n"
    ".plan { fill: var(--ink); stroke: var(--paper); stroke-width: 1.5; }\n"
    ".run { fill: none; stroke: var(--ink); stroke-width: 1.5; }\n"
    ".curve { fill: none; stroke: var(--p1); stroke-width: 2; }\n"
    ".budget { stroke: var(--warn); stroke-width: 1.5; stroke-dasharray: 6 4; fill: none; }\n"
    ".fits { fill: var(--warn); stroke: var(--paper); stroke-width: 1.5; }\n"
    ".warn { fill: var(--warn); paint-order: stroke; stroke: var(--paper); stroke-width: 3; }\n"
    "</style>\n";

/* A scale from 0: what it reaches, where its lines stand, in which unit they are told. */
typedef struct scale {
    double most, step, unit;
    const char *unit_text;
} scale;

typedef struct picture {
    const plm_curve *curve;
    plm_text out;
    double last; /* of the points: the right end of the axis */
    scale across, peak, time;
} picture;

/* The smallest of 1, 2, 5 times a power of ten that makes at most `steps` steps. */
static double round_step(double most, int steps)
{
    double power = pow(10, floor(log10(most / steps)));
    static const double factors[] = {1, 2, 5, 10};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (factors[i] * power * steps >= most)
            return factors[i] * power;
    return 10 * power;
}

/* A scale that goes up ends at a whole step. */
static scale scale_up(double most, double unit, const char *unit_text)
{
    double step = round_step(most / unit, TICKS_UP) * unit;
    return (scale){step * ceil(most / step - 1e-9), step, unit, unit_text};
}

static scale byte_scale(double most)
{
    static const char *const names[] = {" B", " KiB", " MiB", " GiB", " TiB"};
    size_t at = 0;
    double unit = 1;
    while (at + 1 < sizeof names / sizeof *names && most >= 1024 * unit)
        unit *= 1024, at++;
    return scale_up(most, unit, names[at]);
}

static scale time_scale(double most)
{
    return most < 1e-3 ? scale_up(most, 1e-6, " us")
           : most < 1  ? scale_up(most, 1e-3, " ms")
                       : scale_up(most, 1, " s");
}

static double at_x(const picture *p, double x)
{
    return LEFT + (RIGHT - LEFT) * x / p->last;
}

static double at_y(const scale *s, int top, int bottom, double value)
{
    return bottom - (bottom - top) * value / s->most;
}

static double peak_y(const picture *p, double bytes)
{
    return at_y(&p->peak, PEAK_TOP, PEAK_BOTTOM, bytes);
}

static double time_y(const picture *p, double seconds)
{
    return at_y(&p->time, TIME_TOP, TIME_BOTTOM, seconds);
}

/* The text of any bytes, as XML: what JSON's text escapes, it escapes too, but for two. */
static void add_escaped(plm_text *out, const char *text)
{
    int64_t count = (int64_t)strlen(text);
    for (int64_t i = 0, length; i < count; i += length) {
        length = plm__utf8_decode(text + i, count - i, NULL);
        if (length == 0) {
            plm__text_add(out, "?");
            length = 1;
        } else if (strchr("<>&\"", text[i])) {
            plm__text_add(out, "&#%d;", text[i]);
        } else if ((unsigned char)text[i] >= ' ') {
            plm__text_add_bytes(out, text + i, length);
        }
    }
}

static void add_text(picture *p, double x, double y, const char *class, const char *text)
{
    plm__text_add(&p->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">%s</text>\n", x, y, class,
                  text);
}

static void add_line(picture *p, const char *class, double x1, double y1, double x2, double y2)
{
    plm__text_add(&p->out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                  class, x1, y1, x2, y2);
}

static void add_circle(picture *p, const char *class, double x, double y, double radius,
                       const char *told)
{
    plm__text_add(&p->out,
                  "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"><title>%s</title>"
                  "</circle>\n",
                  class, x, y, radius, told);
}

/* The lines of a scale that goes up, each with its figure. */
static void add_grid(picture *p, const scale *s, int top, int bottom)
{
    char text[NUMBER_TEXT];
    int64_t steps = (int64_t)floor(s->most / s->step + 1e-9);
    for (int64_t i = 0; i <= steps; i++) {
        double value = (double)i * s->step, y = at_y(s, top, bottom, value);
        add_line(p, i == 0 ? "axis" : "grid", LEFT, y, RIGHT, y);
        plm__print(text, sizeof text, "%.6g%s", value / s->unit, i == 0 ? "" : s->unit_text);
        add_text(p, LEFT - 8, y + 4, "end", text);
    }
}

static const char *axis_name(plm_curve_axis axis)
{
    return axis == PLM_CURVE_BATCH ? "sequences in a batch" : "tokens of a sequence";
}

/* Figures under a chart; the axis's name once, under the lower one. */
static void add_across(picture *p, int bottom, bool named)
{
    char text[NUMBER_TEXT];
    int64_t steps = (int64_t)floor(p->across.most / p->across.step + 1e-9);
    for (int64_t i = 0; i <= steps; i++) {
        double value = (double)i * p->across.step;
        add_line(p, "axis", at_x(p, value), bottom, at_x(p, value), bottom + 4);
        plm__print(text, sizeof text, "%.10g", value);
        add_text(p, at_x(p, value), bottom + 18, "mid", text);
    }
    if (named)
        add_text(p, (LEFT + RIGHT) / 2.0, bottom + 38, "mid", axis_name(p->curve->axis));
}

/* tops[k] = the sum of the parts up to k at x, none below 0, the last the fit itself. */
static void stack(const plm_curve *curve, double x, double tops[PARTS])
{
    double whole = fmax(plm_curve_peak_at(curve, x), 0);
    double square = fmin(fmax(curve->quadratic * x * x, 0), whole);
    tops[0] = fmin(fmax(curve->constant, 0), whole - square);
    tops[1] = whole - square;
    tops[2] = whole;
}

static void add_part(picture *p, int part)
{
    double tops[PARTS];
    plm__text_add(&p->out, "<path class=\"part\" fill=\"var(--p%d)\" d=\"M", part);
    for (int i = 0; i <= SAMPLES; i++) {
        double x = p->last * i / SAMPLES;
        stack(p->curve, x, tops);
        plm__text_add(&p->out, "%.1f %.1f ", at_x(p, x), peak_y(p, tops[part]));
    }
    for (int i = SAMPLES; i >= 0; i--) {
        double x = p->last * i / SAMPLES;
        stack(p->curve, x, tops);
        plm__text_add(&p->out, "%.1f %.1f ", at_x(p, x), peak_y(p, part > 0 ? tops[part - 1] : 0));
    }
    plm__text_add(&p->out, "z\"/>\n");
}

/* The parts that can be seen, named at the right where each ends, apart from each other. */
static void add_part_names(picture *p)
{
    static const char *const names[] = {"constant", "in proportion", "with the square"};
    double tops[PARTS], above = PEAK_BOTTOM + LABEL_STEP;
    stack(p->curve, p->last, tops);
    for (int part = 0; part < PARTS; part++) {
        double from = part > 0 ? tops[part - 1] : 0, share = (tops[part] - from) / tops[PARTS - 1];
        char text[128], size[PLM_SIZE_TEXT];
        if (!(share >= 0.005)) /* nor where there is nothing */
            continue;
        double y = fmin(peak_y(p, (from + tops[part]) / 2) + 4, above - LABEL_STEP);
        above = y;
        plm__text_add(&p->out,
                      "<rect x=\"%d\" y=\"%.1f\" width=\"9\" height=\"9\" rx=\"2\" "
                      "fill=\"var(--p%d)\"/>\n",
                      LEGEND, y - 9, part);
        plm__print(text, sizeof text, "%s, %.0f %%, %s", names[part], 100 * share,
                   plm_size_format((size_t)(tops[part] - from), size));
        add_text(p, LEGEND + 15, y, "name", text);
    }
}

static void add_peaks(picture *p)
{
    char told[160], size[PLM_SIZE_TEXT], exact[NUMBER_TEXT];
    for (int i = 0; i < p->curve->count; i++) {
        const plm_curve_point *point = &p->curve->points[i];
        double x = at_x(p, (double)point->x), y = peak_y(p, (double)point->plan.peak_bytes);
        snprintf(exact, sizeof exact, "%zu", point->plan.peak_bytes);
        snprintf(told, sizeof told, "%lld: %s, %s bytes", (long long)point->x,
                 plm_size_format(point->plan.peak_bytes, size), exact);
        add_circle(p, "plan", x, y, 4, told);
        if (point->measured_peak_bytes == 0)
            continue;
        snprintf(told, sizeof told, "%lld, run: %zu bytes", (long long)point->x,
                 point->measured_peak_bytes);
        add_circle(p, "run", x, peak_y(p, (double)point->measured_peak_bytes), 7, told);
    }
}

static int64_t largest(const plm_curve *curve)
{
    return curve->axis == PLM_CURVE_BATCH ? curve->largest_batch : curve->largest_sequence;
}

/* The budget's line, where it is within the chart, and on it the largest that fits. */
static void add_budget(picture *p)
{
    const plm_curve *curve = p->curve;
    char text[160], size[PLM_SIZE_TEXT];
    double bytes = (double)curve->budget_bytes, x = (double)largest(curve);
    if (curve->budget_bytes == 0)
        return;
    plm_size_format(curve->budget_bytes, size);
    if (bytes <= p->peak.most) {
        double y = peak_y(p, bytes);
        add_line(p, "budget", LEFT, y, RIGHT, y);
        snprintf(text, sizeof text, "budget %s", size);
        add_text(p, LEFT + 6, y - 6, "warn", text);
        if (x > 0 && x <= p->last) {
            add_line(p, "budget", at_x(p, x), y, at_x(p, x), PEAK_BOTTOM);
            plm__print(text, sizeof text, "%.0f is the largest that fits", x);
            add_circle(p, "fits", at_x(p, x), y, 5, text);
        }
    }
}

/* Under the title: what holds at every point, and what fits. */
static void add_summary(picture *p)
{
    const plm_curve *curve = p->curve;
    char text[256], fits[160] = "", size[PLM_SIZE_TEXT];
    bool batch = curve->axis == PLM_CURVE_BATCH;
    if (curve->budget_bytes > 0 && largest(curve) > 0)
        snprintf(fits, sizeof fits, "; the %s that fits %s: %lld",
                 batch ? "largest batch" : "longest sequence",
                 plm_size_format(curve->budget_bytes, size), (long long)largest(curve));
    else if (curve->budget_bytes > 0)
        snprintf(fits, sizeof fits, "; none fits %s", plm_size_format(curve->budget_bytes, size));
    if (batch)
        snprintf(text, sizeof text,
                 "over the batch: %lld tokens a sequence, all sequences at once%s",
                 (long long)curve->sequence, fits);
    else
        snprintf(text, sizeof text, "over the length: %lld sequences an update, %lld at once%s",
                 (long long)curve->batch, (long long)curve->points[0].plan.strategy.micro_batch,
                 fits);
    add_text(p, 24, 54, "", text);
}

static void add_peak_chart(picture *p)
{
    add_text(p, 24, PEAK_TOP - 16, "name", "peak of an update");
    for (int part = 0; part < PARTS; part++)
        add_part(p, part);
    add_grid(p, &p->peak, PEAK_TOP, PEAK_BOTTOM);
    add_across(p, PEAK_BOTTOM, !(p->time.most > 0));
    add_budget(p);
    add_peaks(p);
    add_part_names(p);
}

/* Predictions as points, measurements as rings, named at the right. */
static void add_times(picture *p)
{
    char told[96];
    for (int i = 0; i < p->curve->count; i++) {
        const plm_curve_point *point = &p->curve->points[i];
        double x = at_x(p, (double)point->x);
        if (p->curve->timed) {
            plm__print(told, sizeof told, "%lld: %.3g s predicted", (long long)point->x,
                       point->plan.step_seconds);
            add_circle(p, "plan", x, time_y(p, point->plan.step_seconds), 4, told);
        }
        if (point->measured_seconds > 0) {
            plm__print(told, sizeof told, "%lld: %.3g s measured", (long long)point->x,
                       point->measured_seconds);
            add_circle(p, "run", x, time_y(p, point->measured_seconds), 7, told);
        }
    }
}

static void add_time_chart(picture *p)
{
    if (!(p->time.most > 0)) {
        add_text(p, 24, TIME_TOP + 8, "", "no times: the rates of this machine were not measured");
        return;
    }
    add_text(p, 24, TIME_TOP - 16, "name", "time of an update");
    add_grid(p, &p->time, TIME_TOP, TIME_BOTTOM);
    add_across(p, TIME_BOTTOM, true);
    plm__text_add(&p->out, "<path class=\"curve\" d=\"M");
    for (int i = 0; i <= SAMPLES; i++) {
        double x = p->last * i / SAMPLES, y = plm_curve_seconds_at(p->curve, x);
        plm__text_add(&p->out, "%.1f %.1f ", at_x(p, x), time_y(p, y > 0 ? y : 0));
    }
    plm__text_add(&p->out, "\"/>\n");
    add_times(p);
}

/* What points and rings are, where both may be. */
static void add_legend(picture *p)
{
    double y = TIME_TOP + 14;
    add_circle(p, "plan", LEGEND + 5, y - 4, 4, "");
    add_text(p, LEGEND + 19, y, "name", "a plan");
    if (!plm__curve_is_measured(p->curve))
        return;
    add_circle(p, "run", LEGEND + 5, y + LABEL_STEP - 4, 6, "");
    add_text(p, LEGEND + 19, y + LABEL_STEP, "name", "its run");
}

/* The model, in letters as small as its name needs to be. */
static void add_title(picture *p, const char *model)
{
    double font = fmin(TITLE_FONT, (WIDTH - 48) / (0.62 * (double)(strlen(model) + 1)));
    plm__text_add(&p->out, "<text x=\"24\" y=\"34\" class=\"title\" style=\"font-size: %.1fpx\">",
                  font);
    add_escaped(&p->out, model);
    plm__text_add(&p->out, "</text>\n");
}

/* The scales hold every point; a budget a little above them is drawn too. */
static void set_scales(picture *p)
{
    const plm_curve *curve = p->curve;
    double tops[PARTS], peak, time = 0;
    p->last = (double)curve->points[curve->count - 1].x;
    stack(curve, p->last, tops);
    peak = tops[PARTS - 1];
    for (int i = 0; i < curve->count; i++) {
        const plm_curve_point *point = &curve->points[i];
        peak = fmax(peak, (double)point->plan.peak_bytes);
        time =
            fmax(time, fmax(point->measured_seconds, curve->timed ? point->plan.step_seconds : 0));
    }
    time = fmax(time, plm_curve_seconds_at(curve, p->last));
    if ((double)curve->budget_bytes < 1.6 * peak)
        peak = fmax(peak, (double)curve->budget_bytes);
    p->peak = byte_scale(peak);
    p->across = (scale){p->last, fmax(round_step(p->last, TICKS_ACROSS), 1), 1, ""};
    if (time > 0)
        p->time = time_scale(time);
}

plm_status plm_report_curve_svg(const plm_curve *curve, const char *model, const char *path)
{
    picture p = {.curve = curve};
    set_scales(&p);
    bool timed = p.time.most > 0;
    int height = timed ? HEIGHT : TIME_TOP + 28;
    plm__text_add(&p.out, head, WIDTH, height, WIDTH, height);
    add_escaped(&p.out, model);
    plm__text_add(&p.out, ": peak and time over %s</title>\n%s", axis_name(curve->axis), style);
    plm__text_add(&p.out, "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", WIDTH, height);
    add_title(&p, model);
    add_summary(&p);
    add_peak_chart(&p);
    add_time_chart(&p);
    if (timed)
        add_legend(&p);
    plm__text_add(&p.out, "</svg>\n");
    plm_status status = plm__text_status(&p.out);
    if (status == PLM_OK)
        status = plm__file_write(path, p.out.items, (size_t)p.out.count);
    plm__text_fini(&p.out);
    return status;
}
