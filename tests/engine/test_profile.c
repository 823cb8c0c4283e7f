/* SPDX-License-Identifier: MIT */
/* Profiles of a step: memory that adds up, times of what ran, pages and JSON; calibration. */
#include "base/json.h"
#include "plan/plan.h"
#include "run/profile.h"
#include "plimsoll/calibrate.h"
#include "plimsoll/plan_report.h"
#include "unit/page.h"
#include "engine/small_run.h"

static const small_shape shape = {.layers = 2,
                                  .width = 32,
                                  .heads = 2,
                                  .context = 16,
                                  .vocab = 60,
                                  .batch = 4,
                                  .micro_batch = 2,
                                  .sequence = 16,
                                  .dropout = 0.1f,
                                  .seed = 1};

typedef struct bench {
    small_run run;
    plm_profile *profile;
    const plm_profile_row *rows;
    int64_t count;
} bench;

static void bench_open_as(bench *b, const small_shape *as)
{
    small_run_open(&b->run, as);
    assert_ok(plm_profile_create(b->run.plan, b->run.device, &b->profile));
    b->rows = plm_profile_rows(b->profile, &b->count);
}

static void bench_open(bench *b)
{
    bench_open_as(b, &shape);
}

static void bench_close(bench *b)
{
    small_run_close(&b->run);
    plm_profile_destroy(b->profile);
}

static void step(bench *b)
{
    small_window window;
    plm_step_result result;
    plm_hyper hyper = plm_hyper_default();
    small_window_fill(&window, shape.batch * shape.sequence, shape.vocab, 1);
    assert_ok(plm_session_step(b->run.session, 0, &hyper, shape.batch, window.tokens,
                               window.targets, &result));
}

static void what_is_made_is_freed_and_the_peak_is_the_plans(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    size_t made[PLM_PROGRAM_COUNT] = {0}, freed[PLM_PROGRAM_COUNT] = {0}, most = 0;
    int peaks = 0;
    for (int64_t i = 0; i < b.count; i++) {
        const plm_profile_row *row = &b.rows[i];
        made[row->program] += row->made_bytes;
        freed[row->program] += row->freed_bytes;
        assert_true(row->kept_bytes <= row->made_bytes);
        most = row->live_bytes > most ? row->live_bytes : most;
        peaks += row->is_peak;
    }
    for (int p = 0; p < PLM_PROGRAM_COUNT; p++)
        assert_int_equal(made[p], freed[p]);
    assert_int_equal(most, b.run.summary.transient_bound_bytes);
    assert_int_equal(peaks, 1);
    bench_close(&b);
}

static void what_ran_is_timed_and_nothing_else(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    step(&b);
    for (int64_t i = 0; i < b.count; i++)
        assert_int_equal(b.rows[i].timed, 0); /* not profiled yet */
    plm_session_profile(b.run.session, b.profile);
    step(&b);
    plm_session_profile(b.run.session, NULL);
    step(&b);
    double ns = 0;
    for (int64_t i = 0; i < b.count; i++) {
        const plm_profile_row *row = &b.rows[i];
        bool ran = row->program == PLM_PROGRAM_FIRST || row->program == PLM_PROGRAM_NEXT ||
                   row->program == PLM_PROGRAM_UPDATE;
        assert_int_equal(row->timed, ran ? 1 : 0);
        assert_int_equal(row->runs, ran ? 1 : 0);
        assert_int_equal(row->best_ns, row->total_ns);
        ns += (double)row->best_ns;
    }
    assert_true(ns > 0 && fabs(plm_profile_step_seconds(b.profile) - ns * 1e-9) < 1e-12);
    bench_close(&b);
}

static void the_fastest_of_several_runs_counts(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    assert_int_equal(plm_profile_run(b.profile, b.run.device, 0, 0), PLM_ERROR_ARGUMENT);
    assert_ok(plm_profile_run(b.profile, b.run.device, 4, 0));
    for (int64_t i = 0; i < b.count; i++)
        if (b.rows[i].runs > 0) {
            assert_int_equal(b.rows[i].timed, 4);
            assert_true(4 * b.rows[i].best_ns <= b.rows[i].total_ns);
        }
    bench_close(&b);
}

static void early_updates_are_profiled_though_they_cannot_clip(void **state)
{
    (void)state;
    bench b;
    small_shape early = shape;
    early.micro_batch = early.batch;
    early.update = PLM_UPDATE_EARLY;
    bench_open_as(&b, &early);
    assert_ok(plm_profile_run(b.profile, b.run.device, 1, 0));
    for (int64_t i = 0; i < b.count; i++)
        assert_int_equal(b.rows[i].timed, b.rows[i].runs);
    bench_close(&b);
}

/* Rates at which nothing is quick: every floor is above what was measured. */
static void the_floor_is_the_longer_of_products_and_memory(void **state)
{
    (void)state;
    bench b;
    plm_device_profile rates = {.name = "slow", .bandwidth = 1e3, .launch_seconds = 1};
    for (int dtype = 0; dtype < PLM_DTYPE_COUNT; dtype++)
        rates.product_flops[dtype] = 2e3;
    rates.efficiency[PLM_OP_LINEAR] = 0.5;
    small_run_open(&b.run, &shape);
    plm_device_use_profile(b.run.device, &rates);
    assert_ok(plm_profile_create(b.run.plan, b.run.device, &b.profile));
    b.rows = plm_profile_rows(b.profile, &b.count);
    int by_products = 0, by_memory = 0;
    for (int64_t i = 0; i < b.count; i++) {
        const plm_profile_row *row = &b.rows[i];
        double products = row->flops / 2e3 * 1e9, memory = row->bytes / 1e3 * 1e9;
        assert_true(fabs(row->floor_ns - fmax(products, memory)) < 1);
        assert_true(row->predicted_ns >= row->floor_ns + 0.99e9); /* a launch and an efficiency */
        by_products += products > memory;
        by_memory += memory > products;
    }
    assert_true(by_products > 0 && by_memory > 0);
    bench_close(&b);
}

/* One operation is made to take long: by time over the floor it comes first, where its own floor
 * does not explain the time. */
static void the_first_line_is_what_is_farthest_over_its_floor(void **state)
{
    (void)state;
    bench b;
    char *text = NULL;
    plm_device_profile rates = {.name = "quick", .bandwidth = 1e15, .launch_seconds = 1e-9};
    for (int dtype = 0; dtype < PLM_DTYPE_COUNT; dtype++)
        rates.product_flops[dtype] = 1e15;
    small_run_open(&b.run, &shape);
    plm_device_use_profile(b.run.device, &rates);
    assert_ok(plm_profile_create(b.run.plan, b.run.device, &b.profile));
    b.rows = plm_profile_rows(b.profile, &b.count);
    int64_t gelu = -1;
    for (int64_t i = 0; i < b.count; i++) {
        plm__profile_add(b.profile, i, 1000);
        if (strcmp(b.rows[i].op, "gelu gradient") == 0 && b.rows[i].runs > 0)
            gelu = i;
    }
    assert_true(gelu >= 0);
    plm_profile_row *slow = (plm_profile_row *)&b.rows[gelu];
    slow->best_ns = 5000000;
    assert_ok(plm_report_profile_text(b.profile, "small", PLM_PROFILE_BY_EXCESS,
                                      (plm_report_style){.rows = 1}, &text));
    assert_non_null(strstr(text, "gelu gradient"));
    assert_non_null(strstr(text, "over it"));
    plm_free(text);
    slow->floor_ns = 5000000; /* it cannot be quicker: something else is first */
    assert_ok(plm_report_profile_text(b.profile, "small", PLM_PROFILE_BY_EXCESS,
                                      (plm_report_style){.rows = 1}, &text));
    assert_null(strstr(text, "gelu gradient"));
    plm_free(text);
    bench_close(&b);
}

static void both_reports_tell_every_operation(void **state)
{
    (void)state;
    bench b;
    char *text = NULL;
    json_t *root = NULL;
    bench_open(&b);
    assert_ok(plm_profile_run(b.profile, b.run.device, 1, 0));
    assert_ok(plm_report_profile_json(b.profile, "small", PLM_PROFILE_BY_TIME, &text));
    assert_ok(plm__json_read("the profile", text, strlen(text), &root));
    plm_free(text);
    size_t wanted = 0;
    for (int64_t i = 0; i < b.count; i++)
        wanted += b.rows[i].runs > 0;
    assert_int_equal(json_array_size(json_object_get(root, "operations")), wanted);
    /* embedding, two blocks, head, and what belongs to none */
    assert_int_equal(json_array_size(json_object_get(root, "layers")), 5);
    json_decref(root);
    for (int order = 0; order < 3; order++) {
        assert_ok(plm_report_profile_text(b.profile, "small", (plm_profile_order)order,
                                          (plm_report_style){.rows = 100}, &text));
        assert_non_null(strstr(text, "attention.qkv"));
        assert_non_null(strstr(text, "block.1"));
        assert_non_null(strstr(text, "adamw"));
        plm_free(text);
    }
    bench_close(&b);
}

static void a_profile_stays_within_its_columns_whatever_it_is_sorted_by(void **state)
{
    (void)state;
    static const struct {
        int32_t columns;
        const char *shown, *left_out;
    } pages[] = {
        {80, "share", "times "}, {100, "made", "times "}, {160, "times ", "no such column"}};
    bench b;
    char *text = NULL;
    bench_open(&b);
    assert_ok(plm_profile_run(b.profile, b.run.device, 1, 0));
    for (int i = 0; i < 3 * 3; i++) {
        plm_report_style style = {.rows = 100, .columns = pages[i / 3].columns};
        assert_ok(
            plm_report_profile_text(b.profile, "small", (plm_profile_order)(i % 3), style, &text));
        if (pages[i / 3].columns < 160) /* a shape is as long as it is */
            assert_in_range(widest_line(text), 60, pages[i / 3].columns);
        assert_non_null(strstr(text, pages[i / 3].shown));
        assert_null(strstr(text, pages[i / 3].left_out));
        plm_free(text);
    }
    bench_close(&b);
}

static void calibration_gives_every_operation_of_a_step_its_efficiency(void **state)
{
    (void)state;
    bench b;
    plm_device_profile rates;
    bench_open(&b);
    assert_int_equal(plm_calibrate(b.run.device, 0, &rates), PLM_ERROR_ARGUMENT);
    assert_ok(plm_calibrate(b.run.device, 0.1, &rates));
    assert_true(rates.product_flops[PLM_DTYPE_F32] > 1e8);
    assert_true(rates.bandwidth > 1e8);
    assert_true(rates.launch_seconds > 0 && rates.launch_seconds < 1e-2);
    const plm_graph *graph = b.run.plan->graph;
    for (int64_t i = 0; i < b.count; i++)
        if (b.rows[i].runs > 0 && graph->ops.items[i].kind != PLM_OP_LOSS_SUM)
            assert_true(rates.efficiency[graph->ops.items[i].kind] > 0);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_made_is_freed_and_the_peak_is_the_plans),
        cmocka_unit_test(what_ran_is_timed_and_nothing_else),
        cmocka_unit_test(the_fastest_of_several_runs_counts),
        cmocka_unit_test(early_updates_are_profiled_though_they_cannot_clip),
        cmocka_unit_test(the_floor_is_the_longer_of_products_and_memory),
        cmocka_unit_test(the_first_line_is_what_is_farthest_over_its_floor),
        cmocka_unit_test(both_reports_tell_every_operation),
        cmocka_unit_test(a_profile_stays_within_its_columns_whatever_it_is_sorted_by),
        cmocka_unit_test(calibration_gives_every_operation_of_a_step_its_efficiency),
    };
    return run_test_group(tests);
}
