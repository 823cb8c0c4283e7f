/* SPDX-License-Identifier: MIT */
/* Growth curves: known shapes of growth, forecasts against plans, the largest that fits. */
#include <math.h>

#include "base/file.h"
#include "plimsoll/plan_report.h"
#include "engine/fake_plan.h"
#include "unit/page.h"
#include "plan/curve.h"

#define SMALL "gpt:layers=2,width=32,heads=2,context=512,vocab=40"

static char svg_path[128];

typedef struct shop {
    plm_model model;
    plm_job job;
    fake_device device;
    plm_strategy strategy;
    const plm_advice *advice; /* to be told; borrowed */
} shop;

static void shop_open(shop *s, plm_attention_form form)
{
    assert_ok(plm_model_parse(SMALL, &s->model));
    s->job = job_of(&s->model, 2, 64);
    s->device = fake_device_make(0, 0);
    s->strategy = strategy_of(2, form);
}

static plm_curve *curve_of(shop *s, plm_curve_axis axis, int64_t last, size_t budget)
{
    plm_curve *curve = NULL;
    assert_ok(
        plm_curve_create(&s->job, &s->strategy, &s->device.head, axis, last, 8, budget, &curve));
    assert_int_equal(curve->count, 8);
    assert_int_equal(curve->points[7].x, last);
    assert_int_equal(curve->forecast_x, 2 * last);
    return curve;
}

static size_t peak_at(shop *s, int64_t batch, int64_t sequence)
{
    plm_plan *plan = NULL;
    plm_job job = s->job;
    plm_strategy strategy = s->strategy;
    job.batch = strategy.micro_batch = batch;
    job.sequence = sequence;
    assert_ok(plm_plan_create(&job, &strategy, &s->device.head, &plan));
    size_t peak = plm_plan_summarize(plan).peak_bytes;
    plm_plan_destroy(plan);
    return peak;
}

static void memory_grows_in_proportion_to_the_batch(void **state)
{
    (void)state;
    shop s;
    shop_open(&s, PLM_ATTENTION_PLAIN);
    plm_curve *curve = curve_of(&s, PLM_CURVE_BATCH, 32, 0);
    assert_true(curve->quadratic_share < 0.01);
    assert_true(curve->linear_share > 0.9);
    assert_true(curve->worst_error < 0.02);
    double forecast = plm_curve_peak_at(curve, 64), found = (double)peak_at(&s, 64, 64);
    assert_true(forecast > 0.98 * found && forecast < 1.02 * found);
    plm_curve_destroy(curve);
}

static void plain_attention_grows_with_the_square_and_fused_does_not(void **state)
{
    (void)state;
    for (int form = 0; form < 2; form++) {
        shop s;
        shop_open(&s, (plm_attention_form)form);
        plm_curve *curve = curve_of(&s, PLM_CURVE_SEQUENCE, 256, 0);
        if (form == PLM_ATTENTION_PLAIN)
            assert_true(curve->quadratic_share > 0.5);
        else
            assert_true(curve->quadratic_share < 0.02);
        double forecast = plm_curve_peak_at(curve, 512), found = (double)peak_at(&s, 2, 512);
        assert_true(forecast > 0.97 * found && forecast < 1.03 * found);
        plm_curve_destroy(curve);
    }
}

static void the_largest_that_fits_fits_and_one_more_does_not(void **state)
{
    (void)state;
    shop s;
    shop_open(&s, PLM_ATTENTION_FUSED);
    size_t larger = peak_at(&s, 61, 64);
    const struct {
        size_t budget;
        int64_t batch;
    } cases[] = {{peak_at(&s, 13, 64), 13},
                 {peak_at(&s, 13, 64) - 1, 12},
                 {larger, 61}, /* beyond the points */
                 {larger - 1, 60},
                 {1000, 0},
                 {SIZE_MAX, PLM_BATCH_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_curve *curve = curve_of(&s, PLM_CURVE_BATCH, 32, cases[i].budget);
        assert_int_equal(curve->largest_batch, cases[i].batch);
        plm_curve_destroy(curve);
    }
}

static void both_axes_have_a_largest(void **state)
{
    (void)state;
    shop s;
    shop_open(&s, PLM_ATTENTION_PLAIN);
    size_t budget = peak_at(&s, 2, 300);
    for (int axis = 0; axis < 2; axis++) {
        plm_curve *curve = curve_of(&s, (plm_curve_axis)axis, 32, budget);
        assert_int_equal(curve->largest_sequence, 300);
        assert_true(peak_at(&s, curve->largest_batch, 64) <= budget);
        assert_true(peak_at(&s, curve->largest_batch + 1, 64) > budget);
        plm_curve_destroy(curve);
    }
    plm_curve *curve = curve_of(&s, PLM_CURVE_SEQUENCE, 32, SIZE_MAX);
    assert_int_equal(curve->largest_sequence, s.model.context); /* it knows no longer ones */
    plm_curve_destroy(curve);
}

/* The largest is looked for from one sequence and one token on. */
static void short_points_have_no_more_chunks_than_rows(void **state)
{
    (void)state;
    shop s;
    shop_open(&s, PLM_ATTENTION_FUSED);
    s.strategy.head_chunks = s.strategy.mlp_chunks = 16;
    s.strategy.recompute = PLM_RECOMPUTE_BLOCK;
    plm_curve *curve = curve_of(&s, PLM_CURVE_SEQUENCE, 64, peak_at(&s, 2, 48));
    assert_true(curve->largest_sequence >= 48);
    plm_curve_destroy(curve);
}

static void extents_that_cannot_be_counted_are_refused(void **state)
{
    (void)state;
    shop s;
    plm_curve *curve = NULL;
    for (int axis = 0; axis < 2; axis++) {
        shop_open(&s, PLM_ATTENTION_FUSED);
        assert_int_equal(plm_curve_create(&s.job, &s.strategy, &s.device.head, (plm_curve_axis)axis,
                                          INT64_MAX, 8, 0, &curve),
                         PLM_ERROR_ARGUMENT);
        s.job.sequence = s.job.batch = INT64_MAX;
        assert_int_equal(plm_curve_create(&s.job, &s.strategy, &s.device.head, (plm_curve_axis)axis,
                                          8, 8, 0, &curve),
                         PLM_ERROR_ARGUMENT);
    }
    assert_null(curve);
}

static void too_few_points_are_refused(void **state)
{
    (void)state;
    static const struct {
        int64_t last;
        int count;
    } cases[] = {{32, 2}, {32, 17}, {2, 3}, {0, 3}, {32, 0}};
    shop s;
    plm_curve *curve = NULL;
    shop_open(&s, PLM_ATTENTION_FUSED);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(plm_curve_create(&s.job, &s.strategy, &s.device.head, PLM_CURVE_BATCH,
                                          cases[i].last, cases[i].count, 0, &curve),
                         PLM_ERROR_ARGUMENT);
    assert_null(curve);
}

/* Measured figures are given here; that runs give them is for the tests of the program. */
static void the_time_of_a_larger_run_is_forecast_from_what_ran(void **state)
{
    (void)state;
    shop s;
    shop_open(&s, PLM_ATTENTION_FUSED);
    plm_curve *curve = curve_of(&s, PLM_CURVE_SEQUENCE, 32, 0);
    assert_true(plm_curve_seconds_at(curve, 64) == 0); /* neither rates nor runs */
    assert_false(plm__curve_is_measured(curve));
    for (int i = 0; i < 4; i++) {
        double x = (double)curve->points[i].x;
        curve->points[i].measured_peak_bytes = 1;
        curve->points[i].measured_seconds = 3 + 2 * x + 0.5 * x * x;
    }
    assert_true(fabs(plm_curve_seconds_at(curve, 100) - 5203) < 1e-6 * 5203);
    for (int i = 0; i < 4; i++) /* what bends down is taken for a line */
        curve->points[i].measured_seconds = sqrt((double)curve->points[i].x);
    assert_true(plm_curve_seconds_at(curve, 1000) > plm_curve_seconds_at(curve, 500));
    assert_true(plm__curve_is_measured(curve));
    plm_curve_destroy(curve);
}

/* How often `what` stands in a text. */
static int occurrences(const char *text, const char *what)
{
    int count = 0;
    for (; (text = strstr(text, what)); text++)
        count++;
    return count;
}

/* Reads the picture; every element that is opened is closed. */
static char *picture_of(const plm_curve *curve, const char *model)
{
    plm_file file;
    char *text = NULL;
    int open = 0;
    assert_ok(plm_report_curve_svg(curve, model, svg_path));
    assert_ok(plm__file_map(svg_path, &file));
    assert_ok(plm__host_alloc(file.byte_count + 1, &text));
    memcpy(text, file.bytes, file.byte_count);
    plm__file_unmap(&file);
    unlink(svg_path);
    for (const char *at = strchr(text, '<'); at; at = strchr(at + 1, '<')) {
        const char *end = strchr(at, '>');
        assert_non_null(end);
        open += at[1] == '/' ? -1 : end[-1] == '/' ? 0 : 1;
        assert_true(open >= 0);
    }
    assert_int_equal(open, 0);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    return text;
}

static void a_picture_shows_plans_runs_budget_and_parts(void **state)
{
    (void)state;
    shop s;
    shop_open(&s, PLM_ATTENTION_PLAIN);
    plm_curve *curve = curve_of(&s, PLM_CURVE_SEQUENCE, 256, peak_at(&s, 2, 200));
    char *text = picture_of(curve, "gpt \"<&\xff>");
    assert_int_equal(occurrences(text, "class=\"plan\""), 8);
    assert_int_equal(occurrences(text, "class=\"run\""), 0);
    assert_int_equal(occurrences(text, "class=\"part\""), 3);
    assert_non_null(strstr(text, "with the square"));
    assert_non_null(strstr(text, "200 is the largest that fits"));
    assert_non_null(strstr(text, "prefers-color-scheme: dark"));
    assert_non_null(strstr(text, "gpt &#34;&#60;&#38;?&#62;"));
    plm__host_free(text);
    for (int i = 0; i < 3; i++) {
        curve->points[i].measured_peak_bytes = curve->points[i].plan.peak_bytes;
        curve->points[i].measured_seconds = 1;
    }
    text = picture_of(curve, "small");
    assert_int_equal(occurrences(text, "class=\"run\""), 3 + 3); /* in both charts */
    plm__host_free(text);
    plm_curve_destroy(curve);
}

static void a_picture_can_be_made_of_any_growth(void **state)
{
    (void)state;
    shop s;
    shop_open(&s, PLM_ATTENTION_FUSED);
    plm_curve *curve = curve_of(&s, PLM_CURVE_BATCH, 8, 1);
    static const double terms[][3] = {{0, 0, 0},  {-5, -5, -5},  {1e18, 1e15, 1e12}, {1, 1, 1},
                                      {9, -1, 0}, {0, 100, -12}, {3e9, 2e8, 1e6}};
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        curve->constant = terms[i][0];
        curve->linear = terms[i][1];
        curve->quadratic = terms[i][2];
        curve->timed = i % 2 != 0;
        plm__host_free(picture_of(curve, "small"));
    }
    plm_curve_destroy(curve);
    assert_int_equal(
        plm_report_curve_svg(curve = curve_of(&s, PLM_CURVE_BATCH, 8, 0), "small", "/dev/null/x"),
        PLM_ERROR_IO);
    plm_curve_destroy(curve);
}

static plm_status draw(void *context)
{
    shop *s = context;
    plm_curve *curve = NULL;
    char *text = NULL, *line = NULL;
    plm_status status = plm_curve_create(&s->job, &s->strategy, &s->device.head, PLM_CURVE_BATCH, 3,
                                         3, 1 << 20, &curve);
    if (status == PLM_OK)
        status = plm_report_curve_text(curve, "small", (plm_report_style){0}, &text);
    if (status == PLM_OK)
        status = plm_report_curve_json(curve, "small", &line);
    if (status == PLM_OK)
        status = plm_report_curve_svg(curve, "small", svg_path);
    plm_free(text);
    plm_free(line);
    plm_curve_destroy(curve);
    return status;
}

static plm_status tell(void *context)
{
    char *text = NULL;
    plm_status status = plm_report_advice_text(((const shop *)context)->advice, "small",
                                               (plm_report_style){.columns = 80}, &text);
    plm_free(text);
    return status;
}

static size_t smallest_budget(shop *s)
{
    plm_advice *advice = NULL;
    plm_strategy strategy = s->strategy;
    strategy.recompute = PLM_RECOMPUTE_AUTO;
    assert_ok(plm_advise(&s->job, &strategy, &s->device.head, 1, &advice));
    size_t smallest = advice->smallest_budget_bytes;
    plm_advice_destroy(advice);
    return smallest;
}

static plm_status advise(void *context)
{
    shop *s = context;
    char *text = NULL, *line = NULL;
    plm_advice *advice = NULL;
    plm_strategy strategy = s->strategy;
    strategy.recompute = PLM_RECOMPUTE_AUTO;
    plm_status status = plm_advise(&s->job, &strategy, &s->device.head, (size_t)1 << 30, &advice);
    if (status == PLM_OK)
        status = plm_report_advice_text(advice, "small", (plm_report_style){0}, &text);
    if (status == PLM_OK)
        status = plm_report_advice_json(advice, "small", NULL, &line);
    plm_free(text);
    plm_free(line);
    plm_advice_destroy(advice);
    return status;
}

static void a_curve_for_eighty_columns_stays_within_them(void **state)
{
    (void)state;
    shop s;
    char *text = NULL;
    shop_open(&s, PLM_ATTENTION_FUSED);
    plm_curve *curve = curve_of(&s, PLM_CURVE_SEQUENCE, 512, 0);
    for (int i = 0; i < curve->count; i++) {
        curve->points[i].measured_peak_bytes = curve->points[i].plan.peak_bytes;
        curve->points[i].measured_seconds = 0.123;
    }
    assert_true(plm__curve_is_measured(curve));
    assert_ok(plm_report_curve_text(curve, "small", (plm_report_style){.columns = 80}, &text));
    assert_in_range(widest_line(text), 60, 80);
    plm_free(text);
    plm_curve_destroy(curve);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    shop s;
    assert_ok(plm_model_parse("gpt:layers=1,width=8,heads=1,context=2,vocab=8", &s.model));
    s.job = job_of(&s.model, 1, 2);
    s.job.evaluates = s.job.generates = false;
    s.device = fake_device_make(0, 0);
    s.strategy = strategy_of(1, PLM_ATTENTION_FUSED);
    sweep_failures(draw, &s);
    unlink(svg_path);
    sweep_failures(advise, &s);
}

static void advice_for_eighty_columns_stays_within_them(void **state)
{
    (void)state;
    shop s;
    shop_open(&s, PLM_ATTENTION_FUSED);
    s.strategy = plm_strategy_default();
    s.strategy.recompute = PLM_RECOMPUTE_AUTO;
    s.device = fake_device_make(0, 700000000);
    const size_t budgets[] = {(size_t)1 << 40, smallest_budget(&s) - 1};
    for (int i = 0; i < 2; i++) {
        plm_advice *advice = NULL;
        char *text = NULL;
        assert_ok(plm_advise(&s.job, &s.strategy, &s.device.head, budgets[i], &advice));
        assert_true(advice->alternative_count > 2);
        assert_int_equal(advice->fits, i == 0);
        assert_ok(
            plm_report_advice_text(advice, "small", (plm_report_style){.columns = 80}, &text));
        assert_in_range(widest_line(text), 60, 80);
        plm_free(text);
        s.advice = advice;
        sweep_failures(tell, &s);
        plm_advice_destroy(advice);
    }
}

/* The library has no options: what a program calls a change is put in by the program. */
static void changes_and_hints_are_told_in_the_programs_words_or_in_plain_ones(void **state)
{
    (void)state;
    static const char *const hints[PLM_HINT_COUNT] = {
        [PLM_HINT_UPDATE] = "-u", [PLM_HINT_CALIBRATE] = "make rates"};
    plm_advice advice = {
        .budget_bytes = 2,
        .smallest_budget_bytes = 3,
        .plan = {.batch = 1, .step_cost = 1, .strategy = {.micro_batch = 1}},
        .alternatives = {{.what = "early",
                          .changes = {{PLM_HINT_UPDATE, "early"}, {PLM_HINT_BATCH, "1"}},
                          .change_count = 2,
                          .fits = true}},
        .alternative_count = 1};
    static const char *const told[][3] = {
        {"add update early batch 1", "calibrating measures",
         "\"options\":\"update early batch 1\""},
        {"add -u early batch 1", "make rates measures", "\"options\":\"-u early batch 1\""}};
    for (int with = 0; with < 2; with++) {
        char *text = NULL, *line = NULL;
        const char *const *words = with ? hints : NULL;
        assert_ok(plm_report_advice_text(&advice, "m", (plm_report_style){.hints = words}, &text));
        assert_ok(plm_report_advice_json(&advice, "m", words, &line));
        assert_non_null(strstr(text, told[with][0]));
        assert_non_null(strstr(text, told[with][1]));
        assert_non_null(strstr(line, told[with][2]));
        assert_null(strstr(text, "--"));
        plm_free(text);
        plm_free(line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_and_hints_are_told_in_the_programs_words_or_in_plain_ones),
        cmocka_unit_test(memory_grows_in_proportion_to_the_batch),
        cmocka_unit_test(plain_attention_grows_with_the_square_and_fused_does_not),
        cmocka_unit_test(the_largest_that_fits_fits_and_one_more_does_not),
        cmocka_unit_test(both_axes_have_a_largest),
        cmocka_unit_test(short_points_have_no_more_chunks_than_rows),
        cmocka_unit_test(extents_that_cannot_be_counted_are_refused),
        cmocka_unit_test(too_few_points_are_refused),
        cmocka_unit_test(the_time_of_a_larger_run_is_forecast_from_what_ran),
        cmocka_unit_test(a_picture_shows_plans_runs_budget_and_parts),
        cmocka_unit_test(a_picture_can_be_made_of_any_growth),
        cmocka_unit_test(a_curve_for_eighty_columns_stays_within_them),
        cmocka_unit_test(advice_for_eighty_columns_stays_within_them),
        cmocka_unit_test(every_allocation_may_fail),
    };
    snprintf(svg_path, sizeof svg_path, "/tmp/plimsoll-test-curve-%ld.svg", (long)getpid());
    return run_test_group(tests);
}
