/* SPDX-License-Identifier: MIT */
/* plimsoll curve from outside: runs that take what was planned, forecasts, pictures, refusals. */
#include "base/json.h"
#include "unit/program.h"

#define SMALL "gpt:layers=2,width=32,heads=2,context=32,vocab=40"

static void every_point_that_fits_runs_in_exactly_its_plan(void **state)
{
    (void)state;
    static const char *const cases[] = {
        SMALL " --to 6 --points 3 --measure",
        SMALL " --vary seq --batch 4 --micro-batch 2 --to 64 --points 4 --measure",
        SMALL " --vary seq --attention plain --recompute block --to 48 --points 3 --measure",
        "bert:layers=2,width=32,heads=2,context=32,vocab=257 --to 4 --points 3 --measure",
        SMALL " --update early --to 6 --points 3 --measure",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *root = run_json("curve --threads 1", cases[i], 0), *point;
        size_t at;
        json_array_foreach (json_object_get(root, "points"), at, point) {
            assert_int_equal(json_number(point, "measured_peak_bytes"),
                             json_number(point, "peak_bytes"));
            assert_true(json_real_value(json_object_get(point, "measured_seconds")) > 0);
        }
        assert_true(at >= 3);
        const json_t *forecast = json_object_get(root, "forecast");
        assert_true(json_real_value(json_object_get(forecast, "step_seconds")) > 0);
        json_decref(root);
    }
}

static void what_is_beyond_the_budget_is_not_run(void **state)
{
    (void)state;
    char output[OUTPUT_BYTES], line[256];
    json_t *root = run_json("curve --threads 1", SMALL " --to 8 --points 4", 0);
    json_int_t budget =
        json_number(json_array_get(json_object_get(root, "points"), 1), "peak_bytes");
    json_decref(root);
    snprintf(line, sizeof line, SMALL " --to 8 --points 4 --measure --budget %lldB",
             (long long)budget);
    root = run_json("curve --threads 1", line, 0);
    for (size_t i = 0; i < 4; i++) {
        const json_t *point = json_array_get(json_object_get(root, "points"), i);
        assert_true((json_object_get(point, "measured_peak_bytes") != NULL) == (i < 2));
    }
    assert_int_equal(json_number(root, "largest"), 4);
    assert_int_equal(json_number(root, "largest_batch"), 4);
    json_decref(root);
    snprintf(line, sizeof line,
             "curve " SMALL " --threads 1 --to 8 --points 4 --measure --budget %lldB",
             (long long)budget);
    assert_int_equal(run_program(line, to_error, output), 0);
    assert_non_null(strstr(output, "point 2 of 4, batch 4: "));
    assert_non_null(strstr(output, "the same in the run"));
    assert_non_null(strstr(output, "point 3 of 4 is not run"));
}

static void a_larger_run_is_forecast_close_to_its_plan(void **state)
{
    (void)state;
    json_t *small = run_json("curve --threads 1",
                             SMALL " --vary seq --attention plain --to 256 --forecast 1024", 0);
    json_t *large = run_json("curve --threads 1",
                             SMALL " --vary seq --attention plain --to 1024 --points 4", 0);
    double forecast =
        json_real_value(json_object_get(json_object_get(small, "forecast"), "peak_bytes"));
    double found =
        (double)json_number(json_array_get(json_object_get(large, "points"), 3), "peak_bytes");
    assert_int_equal(json_number(json_object_get(small, "forecast"), "sequence"), 1024);
    assert_true(forecast > 0.95 * found && forecast < 1.05 * found);
    json_decref(small);
    json_decref(large);
}

static void what_is_said_to_fit_is_what_training_plans(void **state)
{
    (void)state;
    char output[OUTPUT_BYTES], line[256];
    json_t *root =
        run_json("curve --threads 1", SMALL " --vary seq --batch 2 --to 32 --budget 4MiB", 0);
    json_int_t longest = json_number(root, "largest_sequence"),
               batch = json_number(root, "largest_batch");
    json_decref(root);
    assert_true(longest > 32 && batch > 0); /* beyond the points, and beyond the context */
    const struct {
        json_int_t batch, sequence;
        int status;
    } cases[] = {{2, longest, 0}, {2, longest + 1, 1}, {batch, 32, 0}, {batch + 1, 32, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(line, sizeof line,
                 "bill " SMALL " --threads 1 --recompute none --head-chunks 1 --budget 4MiB "
                 "--batch %lld --micro-batch %lld --seq %lld",
                 (long long)cases[i].batch, (long long)cases[i].batch,
                 (long long)cases[i].sequence);
        assert_int_equal(run_program(line, to_output, output), cases[i].status);
    }
}

static void a_picture_is_written_beside_the_table(void **state)
{
    (void)state;
    static char output[OUTPUT_BYTES];
    char line[256], path[128];
    snprintf(path, sizeof path, "/tmp/plimsoll-test-curve-%ld.svg", (long)getpid());
    snprintf(line, sizeof line, "curve " SMALL " --threads 1 --svg %s", path);
    assert_int_equal(run_program(line, to_output, output), 0);
    assert_non_null(strstr(output, "forecast for batch 64"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t count = fread(output, 1, sizeof output - 1, file);
    output[count] = '\0';
    fclose(file);
    unlink(path);
    assert_memory_equal(output, "<svg ", 5);
    assert_string_equal(output + count - 7, "</svg>\n");
}

static void wrong_use_is_refused(void **state)
{
    (void)state;
    assert_refused("curve", SMALL " --points 2", "3 to 16 points");
    assert_refused("curve", SMALL " --forecast 0", "--forecast");
    assert_refused("curve", SMALL " --svg /dev/null/there.svg", "/dev/null/there.svg");
    assert_refused("curve", SMALL " --vary width", "batch|seq");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_point_that_fits_runs_in_exactly_its_plan),
        cmocka_unit_test(what_is_beyond_the_budget_is_not_run),
        cmocka_unit_test(a_larger_run_is_forecast_close_to_its_plan),
        cmocka_unit_test(what_is_said_to_fit_is_what_training_plans),
        cmocka_unit_test(a_picture_is_written_beside_the_table),
        cmocka_unit_test(wrong_use_is_refused),
    };
    return run_test_group(tests);
}
