/* SPDX-License-Identifier: MIT */
/*
 * A growth curve as a picture: two charts over one axis. Above, the peak: its constant, linear and
 * quadratic part stacked as the fit gives them, the budget as a line and the largest that fits
 * marked on it. Below, the time of an update with its fit. In both, each plan is a point, and what
 * a run measured a ring.
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
    LEFT = 84,   /* of the charts */
    RIGHT = 640, /* behind it stand the names of the parts, from LEGEND on */
    LEGEND = RIGHT + 22,
    PEAK_TOP = 104,
    PEAK_BOTTOM = 384,
    TIME_TOP = 444,
    TIME_BOTTOM = 564,
    TITLE_FONT = 17,
    SAMPLES = 48,    /* of a curved line */
    STEPS = 6,       /* of a scale, at most */
    PARTS = 3,       /* constant, linear, quadratic */
    LABEL_STEP = 18, /* between names that would touch */
    TEXT = 256
};

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
    ".title { fill: var(--ink); font-weight: 600; } .name { fill: var(--ink); }\n"
    ".end { text-anchor: end; } .mid { text-anchor: middle; } .paper { fill: var(--paper); }\n"
    ".grid { stroke: var(--line); } .part { fill-opacity: .82; }\n"
    ".plan { fill: var(--ink); stroke: var(--paper); stroke-width: 1.5; }\n"
    ".run { fill: none; stroke: var(--ink); stroke-width: 1.5; }\n"
    ".curve { fill: none; stroke: var(--p1); stroke-width: 2; }\n"
    ".budget { stroke: var(--warn); stroke-width: 1.5; stroke-dasharray: 6 4; }\n"
    ".fits { fill: var(--warn); stroke: var(--paper); stroke-width: 1.5; }\n"
    ".warn { fill: var(--warn); paint-order: stroke; stroke: var(--paper); stroke-width: 3; }\n"
    "</style>\n";

/* A scale from 0 along one side of a chart: what it reaches, and the pixels of both ends. */
typedef struct scale {
    double most, step;
    int from, to;
    bool bytes; /* else seconds, sequences or tokens */
} scale;

typedef struct picture {
    const plm_curve *curve;
    plm_text out;
    scale across, peak, time;
} picture;

static double at(const scale *s, double value)
{
    return s->from + (s->to - s->from) * value / s->most;
}

/* Steps of 1, 2 or 5 times a power of ten, of bytes in their largest unit, at most STEPS of them.
 */
static scale scale_of(double most, bool bytes, int from, int to)
{
    double unit = 1;
    while (bytes && most >= 1024 * unit)
        unit *= 1024;
    double step = pow(10, floor(log10(most / unit / STEPS))) * unit;
    static const double factors[] = {2, 2.5, 2}; /* to 2, 5, 10 */
    for (int i = 0; i < 3 && step * STEPS < most; i++)
        step *= factors[i];
    return (scale){most, step, from, to, bytes};
}

/* One that goes up ends at a whole step. */
static scale scale_up(double most, bool bytes, int bottom, int top)
{
    scale made = scale_of(most, bytes, bottom, top);
    made.most = made.step * ceil(most / made.step - 1e-9);
    return made;
}

static const char *figure(const scale *s, double value, char text[PLM_SIZE_TEXT])
{
    if (s->bytes)
        return plm_size_format((size_t)value, text);
    plm__print(text, PLM_SIZE_TEXT, s->from == LEFT ? "%.10g" : "%.3g s", value);
    return text;
}

/* The text of any bytes, as XML. */
static void add_escaped(plm_text *out, const char *text)
{
    int64_t count = (int64_t)strlen(text);
    for (int64_t i = 0, length; i < count; i += length) {
        length = plm__utf8_decode(text + i, count - i, NULL);
        if (length == 0)
            plm__text_add(out, "?");
        else if (strchr("<>&\"", text[i]))
            plm__text_add(out, "&#%d;", text[i]);
        else if ((unsigned char)text[i] >= ' ')
            plm__text_add_bytes(out, text + i, length);
        length = length > 0 ? length : 1;
    }
}

static void add_text(picture *p, double x, double y, const char *class, const char *text)
{
    plm__text_add(&p->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">%s</text>\n", x, y, class,
                  text);
}

static void add_mark(picture *p, const char *class, double x, double y, const char *told)
{
    plm__text_add(&p->out,
                  "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>%s</title>"
                  "</circle>\n",
                  class, x, y, strcmp(class, "run") == 0 ? 7 : 4, told);
}

/* The lines of the scale that goes up and the figures of both. */
static void add_scales(picture *p, const scale *up)
{
    char text[PLM_SIZE_TEXT];
    for (double value = 0; value <= up->most * (1 + 1e-9); value += up->step) {
        plm__text_add(&p->out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", LEFT, at(up, value),
                      RIGHT);
        add_text(p, LEFT - 8, at(up, value) + 4, "end", figure(up, value, text));
    }
    for (double value = 0; value <= p->across.most; value += p->across.step)
        add_text(p, at(&p->across, value), up->from + 18, "mid", figure(&p->across, value, text));
}

/* The sum of the first `parts` parts at x, none below 0, all of them the fit itself. */
static double stack(const plm_curve *curve, double x, int parts)
{
    double whole = fmax(plm_curve_peak_at(curve, x), 0);
    double square = fmin(fmax(curve->quadratic * x * x, 0), whole);
    const double tops[] = {0, fmin(fmax(curve->constant, 0), whole - square), whole - square,
                           whole};
    return tops[parts];
}

/* A part's area and, where it can be seen, its name at the right, apart from the one below. */
static void add_part(picture *p, int part, double *above)
{
    static const char *const names[] = {"constant", "in proportion", "with the square"};
    double last = p->across.most, from = stack(p->curve, last, part),
           bytes = stack(p->curve, last, part + 1) - from;
    plm__text_add(&p->out, "<path class=\"part\" fill=\"var(--p%d)\" d=\"M", part);
    for (int i = 0; i <= 2 * SAMPLES + 1; i++) {
        double x = last * (i <= SAMPLES ? i : 2 * SAMPLES + 1 - i) / SAMPLES;
        plm__text_add(&p->out, "%.1f %.1f ", at(&p->across, x),
                      at(&p->peak, stack(p->curve, x, i <= SAMPLES ? part + 1 : part)));
    }
    plm__text_add(&p->out, "z\"/>\n");
    double share = bytes / stack(p->curve, last, PARTS);
    char text[TEXT], size[PLM_SIZE_TEXT];
    if (!(share >= 0.005)) /* nor where there is nothing */
        return;
    *above = fmin(at(&p->peak, from + bytes / 2) + 4, *above - LABEL_STEP);
    plm__text_add(&p->out,
                  "<rect x=\"%d\" y=\"%.1f\" width=\"9\" height=\"9\" fill=\"var(--p%d)\"/>\n",
                  LEGEND, *above - 9, part);
    plm__print(text, sizeof text, "%s, %.0f %%, %s", names[part], 100 * share,
               plm_size_format((size_t)bytes, size));
    add_text(p, LEGEND + 15, *above, "name", text);
}

static int64_t largest(const plm_curve *curve)
{
    return curve->axis == PLM_CURVE_BATCH ? curve->largest_batch : curve->largest_sequence;
}

/* The budget's line, where it is within the chart, and on it the largest that fits. */
static void add_budget(picture *p)
{
    char text[TEXT], size[PLM_SIZE_TEXT];
    double bytes = (double)p->curve->budget_bytes, x = (double)largest(p->curve);
    if (bytes == 0 || bytes > p->peak.most)
        return;
    double y = at(&p->peak, bytes), down = at(&p->across, fmin(x, p->across.most));
    plm__print(text, sizeof text, "budget %s", plm_size_format(p->curve->budget_bytes, size));
    plm__text_add(&p->out, "<path class=\"budget\" d=\"M%d %.1fH%dM%.1f %.1fV%d\"/>\n", LEFT, y,
                  RIGHT, down, y, x > 0 && x <= p->across.most ? PEAK_BOTTOM : (int)y);
    add_text(p, LEFT + 6, y - 6, "warn", text);
    plm__print(text, sizeof text, "%.0f is the largest that fits", x);
    if (x > 0 && x <= p->across.most)
        add_mark(p, "fits", down, y, text);
}

static void add_point(picture *p, const char *class, const scale *up, int64_t x, double value)
{
    char told[TEXT], text[PLM_SIZE_TEXT];
    plm__print(told, sizeof told, "%lld: %s", (long long)x, figure(up, value, text));
    if (value > 0)
        add_mark(p, class, at(&p->across, (double)x), at(up, value), told);
}

/* Plans as points and runs as rings, in both charts. */
static void add_points(picture *p)
{
    for (int i = 0; i < p->curve->count; i++) {
        const plm_curve_point *point = &p->curve->points[i];
        add_point(p, "plan", &p->peak, point->x, (double)point->plan.peak_bytes);
        add_point(p, "run", &p->peak, point->x, (double)point->measured_peak_bytes);
        add_point(p, "plan", &p->time, point->x, p->curve->timed ? point->plan.step_seconds : 0);
        add_point(p, "run", &p->time, point->x, point->measured_seconds);
    }
}

static void add_time_chart(picture *p)
{
    add_text(p, 24, TIME_TOP - 16, "name", "time of an update");
    add_scales(p, &p->time);
    plm__text_add(&p->out, "<path class=\"curve\" d=\"M");
    for (int i = 0; i <= SAMPLES; i++) {
        double x = p->across.most * i / SAMPLES;
        plm__text_add(&p->out, "%.1f %.1f ", at(&p->across, x),
                      at(&p->time, fmax(plm_curve_seconds_at(p->curve, x), 0)));
    }
    plm__text_add(&p->out, "\"/>\n");
}

/* The model, in letters as small as its name needs to be; under it what holds at every point. */
static void add_head(picture *p, const char *model)
{
    const plm_curve *curve = p->curve;
    char text[TEXT], fits[TEXT / 2] = "", size[PLM_SIZE_TEXT];
    bool batch = curve->axis == PLM_CURVE_BATCH;
    plm__text_add(&p->out, "<text x=\"24\" y=\"34\" class=\"title\" style=\"font-size: %.1fpx\">",
                  fmin(TITLE_FONT, (WIDTH - 48) / (0.62 * (double)(strlen(model) + 1))));
    add_escaped(&p->out, model);
    plm__text_add(&p->out, "</text>\n");
    if (curve->budget_bytes > 0)
        plm__print(fits, sizeof fits, "; the %s that fits %s: %lld",
                   batch ? "largest batch" : "longest sequence",
                   plm_size_format(curve->budget_bytes, size), (long long)largest(curve));
    if (batch)
        plm__print(text, sizeof text, "over the batch: %lld tokens a sequence, all at once%s",
                   (long long)curve->sequence, fits);
    else
        plm__print(text, sizeof text, "over the length: %lld sequences an update, %lld at once%s",
                   (long long)curve->batch, (long long)curve->points[0].plan.strategy.micro_batch,
                   fits);
    add_text(p, 24, 54, "", text);
}

/* The scales hold every point; a budget a little above them is drawn too. */
static void set_scales(picture *p)
{
    const plm_curve *curve = p->curve;
    double last = (double)curve->points[curve->count - 1].x, budget = (double)curve->budget_bytes;
    double peak = stack(curve, last, PARTS), time = plm_curve_seconds_at(curve, last);
    for (int i = 0; i < curve->count; i++) {
        const plm_curve_point *point = &curve->points[i];
        peak = fmax(peak, (double)point->plan.peak_bytes);
        time = fmax(time, point->measured_seconds);
        time = fmax(time, curve->timed ? point->plan.step_seconds : 0);
    }
    peak = fmax(peak, budget < 1.6 * peak ? budget : 0);
    p->peak = scale_up(peak, true, PEAK_BOTTOM, PEAK_TOP);
    p->across = scale_of(last, false, LEFT, RIGHT);
    p->across.step = fmax(p->across.step, 1);
    if (time > 0)
        p->time = scale_up(time, false, TIME_BOTTOM, TIME_TOP);
}

plm_status plm_report_curve_svg(const plm_curve *curve, const char *model, const char *path)
{
    picture p = {.curve = curve};
    set_scales(&p);
    bool timed = p.time.most > 0;
    double above = PEAK_BOTTOM + LABEL_STEP;
    int bottom = timed ? TIME_BOTTOM : PEAK_BOTTOM, height = bottom + (timed ? 54 : 88);
    plm__text_add(&p.out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                  "viewBox=\"0 0 %d %d\" role=\"img\">\n%s"
                  "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n",
                  WIDTH, height, WIDTH, height, style, WIDTH, height);
    add_head(&p, model);
    add_text(&p, 24, PEAK_TOP - 16, "name",
             plm__curve_is_measured(curve) ? "peak of an update: points are plans, rings their runs"
                                           : "peak of an update: points are plans");
    for (int part = 0; part < PARTS; part++)
        add_part(&p, part, &above);
    add_scales(&p, &p.peak);
    add_budget(&p);
    if (timed)
        add_time_chart(&p);
    else
        add_text(&p, 24, TIME_TOP + 8, "", "no times: the rates of this machine were not measured");
    add_points(&p);
    add_text(&p, (LEFT + RIGHT) / 2.0, bottom + 38, "mid",
             curve->axis == PLM_CURVE_BATCH ? "sequences in a batch" : "tokens of a sequence");
    plm__text_add(&p.out, "</svg>\n");
    plm_status status = plm__text_status(&p.out);
    if (status == PLM_OK)
        status = plm__file_write(path, p.out.items, (size_t)p.out.count);
    plm__text_fini(&p.out);
    return status;
}
