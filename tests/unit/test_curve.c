/* SPDX-License-Identifier: MIT */
/* Growth curves: known shapes of growth, forecasts against plans, the largest that fits. */
#include "plimsoll/report.h"
#include "unit/fake_plan.h"

#define SMALL "gpt:layers=2,width=32,heads=2,context=512,vocab=40"

typedef struct shop {
    plm_model model;
    plm_job job;
    fake_device device;
    plm_strategy strategy;
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
    size_t budget = peak_at(&s, 13, 64);
    plm_curve *curve = curve_of(&s, PLM_CURVE_BATCH, 32, budget);
    assert_int_equal(curve->largest_x, 13);
    plm_curve_destroy(curve);
    curve = curve_of(&s, PLM_CURVE_BATCH, 32, budget - 1);
    assert_int_equal(curve->largest_x, 12);
    plm_curve_destroy(curve);
    curve = curve_of(&s, PLM_CURVE_BATCH, 32, 1000);
    assert_int_equal(curve->largest_x, 0);
    plm_curve_destroy(curve);
    curve = curve_of(&s, PLM_CURVE_BATCH, 32, SIZE_MAX);
    assert_int_equal(curve->largest_x, 32);
    plm_curve_destroy(curve);
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
    plm_report_free(text);
    plm_report_free(line);
    plm_curve_destroy(curve);
    return status;
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
        status = plm_report_advice_json(advice, "small", &line);
    plm_report_free(text);
    plm_report_free(line);
    plm_advice_destroy(advice);
    return status;
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
    sweep_failures(advise, &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_grows_in_proportion_to_the_batch),
        cmocka_unit_test(plain_attention_grows_with_the_square_and_fused_does_not),
        cmocka_unit_test(the_largest_that_fits_fits_and_one_more_does_not),
        cmocka_unit_test(too_few_points_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return run_test_group(tests);
}
