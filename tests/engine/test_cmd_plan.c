/* SPDX-License-Identifier: MIT */
/* plimsoll plan and plimsoll profile from outside. */
#include "base/json.h"
#include "plimsoll/device_profile.h"
#include "plimsoll/strategy.h"
#include "unit/program.h"
#include "unit/scratch.h"

#define SMALL "gpt:layers=3,width=32,heads=2,context=16,vocab=256"

static char folder[SCRATCH_BYTES]; /* and the cache, so that no machine's calibration is read */

static int make_folder(void **state)
{
    (void)state;
    return scratch_folder(folder) && setenv("XDG_CACHE_HOME", folder, 1) == 0 ? 0 : -1;
}

static int remove_folder(void **state)
{
    char line[SCRATCH_BYTES + 16];
    snprintf(line, sizeof line, "rm -r '%s'", folder);
    return system(line) == 0 ? check_no_leak(state) : -1;
}

static void a_plan_fits_its_budget_and_says_what_it_turned_down(void **state)
{
    (void)state;
    json_t *free_plan = run_json("plan --threads 1", SMALL " --batch 8 --budget 1GiB", 0);
    json_int_t smallest = json_number(free_plan, "smallest_budget_bytes");
    json_int_t most = json_number(free_plan, "predicted_peak_bytes");
    char arguments[200];
    snprintf(arguments, sizeof arguments, SMALL " --batch 8 --budget %lldB",
             (long long)(smallest + most) / 2);
    json_t *root = run_json("plan --threads 1", arguments, 0);
    assert_true(json_is_true(json_object_get(root, "fits")));
    assert_true(json_number(root, "predicted_peak_bytes") <= json_number(root, "budget_bytes"));
    assert_true(json_is_null(json_object_get(root, "predicted_step_seconds")));
    const json_t *others = json_object_get(root, "alternatives");
    assert_true(json_array_size(others) >= 5);
    for (size_t i = 0; i < json_array_size(others); i++) {
        const json_t *other = json_array_get(others, i);
        bool fits = json_is_true(json_object_get(other, "fits"));
        assert_int_equal(fits,
                         json_number(other, "peak_bytes") <= json_number(root, "budget_bytes"));
    }
    json_decref(root);
    json_decref(free_plan);
}

static void what_does_not_fit_is_exit_status_one_with_what_would_help(void **state)
{
    (void)state;
    char output[OUTPUT_BYTES];
    json_t *root =
        run_json("plan --threads 1", SMALL " --batch 8 --micro-batch 8 --budget 100KiB", 1);
    assert_true(json_is_false(json_object_get(root, "fits")));
    const json_t *treatments = json_object_get(root, "treatments");
    assert_true(json_array_size(treatments) >= 2);
    json_int_t before = 0;
    for (size_t i = 0; i < json_array_size(treatments); i++) {
        json_int_t peak = json_number(json_array_get(treatments, i), "peak_bytes");
        assert_true(peak >= before); /* what helps most first */
        assert_true(peak < json_number(root, "smallest_budget_bytes"));
        before = peak;
    }
    json_decref(root);
    assert_int_equal(run_program("plan " SMALL " --budget 100KiB", to_output, output), 1);
    assert_non_null(strstr(output, "the smallest budget is"));
    assert_non_null(strstr(output, "what would help"));
}

static void a_saved_strategy_trains_with_the_planned_peak(void **state)
{
    (void)state;
    char arguments[400];
    snprintf(arguments, sizeof arguments,
             SMALL " --batch 8 --budget 900KiB --save-strategy %s/s.json", folder);
    json_t *planned = run_json("plan --threads 1", arguments, 0);
    snprintf(arguments, sizeof arguments, SMALL " --batch 8 --budget 900KiB --strategy %s/s.json",
             folder);
    json_t *bill = run_json("bill --threads 1", arguments, 0);
    assert_int_equal(json_number(bill, "peak_bytes"), json_number(planned, "predicted_peak_bytes"));
    assert_true(
        json_equal(json_object_get(bill, "strategy"), json_object_get(planned, "strategy")));
    json_decref(bill);
    bill = run_json("bill --threads 1", SMALL " --batch 8 --budget 900KiB",
                    0); /* plans by itself, alike */
    assert_true(
        json_equal(json_object_get(bill, "strategy"), json_object_get(planned, "strategy")));
    json_decref(bill);
    json_decref(planned);
}

static void calibration_is_found_by_the_plans_that_follow(void **state)
{
    (void)state;
    char path[SCRATCH_BYTES + 64], line[400], output[OUTPUT_BYTES];
    json_decref(run_json("profile --threads 1", "--calibrate --seconds 0.1", 0));
    json_t *root = run_json("plan --threads 1", SMALL " --budget 1GiB", 0);
    assert_true(json_is_real(json_object_get(root, "predicted_step_seconds")));
    json_decref(root);
    root = run_json("profile --threads 1", SMALL " --steps 1", 0);
    assert_true(json_is_real(json_object_get(root, "predicted_step_seconds")));
    assert_true(json_real_value(json_object_get(root, "step_seconds")) > 0);
    json_decref(root);
    snprintf(path, sizeof path, "%s/plimsoll/cpu.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{}", file);
    fclose(file);
    root = run_json("plan --threads 1", SMALL " --budget 1GiB", 0); /* passed over */
    assert_true(json_is_null(json_object_get(root, "predicted_step_seconds")));
    json_decref(root);
    snprintf(line, sizeof line, "plan " SMALL " --budget 1GiB --profile %s", path);
    assert_int_equal(run_program(line, to_error, output), 2);
    assert_non_null(strstr(output, "lacks name"));
    assert_int_equal(unlink(path), 0);
}

/* Without a budget 98 % of the target's memory is one; a larger than all is said and not taken. */
static void a_target_is_planned_for_within_its_memory(void **state)
{
    (void)state;
    static char output[OUTPUT_BYTES];
    plm_device_profile profile;
    assert_ok(plm_device_profile_find("t4", &profile));
    json_t *whole = run_json("plan --threads 1", SMALL " --target t4 --precision auto", 0);
    size_t budget = profile.memory_bytes - profile.memory_bytes / 50;
    assert_int_equal(json_number(whole, "budget_bytes"), budget);
    assert_int_equal(run_program("plan " SMALL " --target t4", to_error, output), 0);
    assert_non_null(strstr(output, "the budget is 14.27 GiB: the 14.56 GiB of t4 less 2 %"));
    assert_true(json_number(whole, "predicted_peak_bytes") > (json_int_t)profile.overhead_bytes);
    assert_true(json_is_real(json_object_get(whole, "predicted_step_seconds")));
    const json_t *strategy = json_object_get(whole, "strategy");
    assert_string_equal(json_string_value(json_object_get(strategy, "precision")), "fp16");
    json_t *over =
        run_json("plan --threads 1", SMALL " --target t4 --precision auto --budget 64GiB", 0);
    assert_int_equal(json_number(over, "budget_bytes"), profile.memory_bytes);
    assert_true(json_equal(json_object_get(over, "strategy"), strategy));
    json_decref(over);
    json_decref(whole);
    assert_int_equal(run_program("plan " SMALL " --target t4 --budget 64GiB", to_error, output), 0);
    assert_non_null(strstr(output, "the budget of 64.00 GiB is over the 14.56 GiB of t4"));
}

/* train clips at 1 by itself, which early updates cannot. */
static void what_updates_early_is_proposed_without_clipping(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int status;
        bool told;
    } cases[] = {
        {"plan " SMALL " --batch 1 --budget 1GiB --update early", 0, true},
        {"plan " SMALL " --batch 1 --budget 1GiB --update early --json", 0, false},
        {"plan " SMALL " --batch 1 --budget 1GiB", 0, false},
        {"plan gpt2 --batch 8 --budget 1700MiB", 1, true},
        {"plan gpt2 --batch 8 --budget 100MiB", 1, false},
    };
    static char output[OUTPUT_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(run_program(cases[i].line, to_output, output), cases[i].status);
        if ((strstr(output, "--clip 0") != NULL) != cases[i].told)
            fail_msg("%s: %s", cases[i].line, output);
    }
}

static void a_profile_of_ones_own_is_a_target(void **state)
{
    (void)state;
    char path[SCRATCH_BYTES + 32], arguments[SCRATCH_BYTES + 128];
    plm_device_profile profile;
    assert_ok(plm_device_profile_find("l4", &profile));
    profile.memory_bytes = (size_t)2 << 30;
    snprintf(path, sizeof path, "%s/own.json", folder);
    assert_ok(plm_device_profile_save(&profile, path));
    snprintf(arguments, sizeof arguments, SMALL " --target %s", path);
    json_t *root = run_json("plan --threads 1", arguments, 0);
    assert_int_equal(json_number(root, "budget_bytes"), ((size_t)2 << 30) / 50 * 49 + 48);
    json_decref(root);
}

/* 18 bytes a parameter are 26.1 GiB. */
static void what_would_make_gpt2_xl_fit_a_4090_is_told(void **state)
{
    (void)state;
    json_t *root =
        run_json("plan --threads 1", "gpt2-xl --precision bf16 --batch 1 --target rtx4090", 1);
    const json_t *treatments = json_object_get(root, "treatments");
    bool early = false, gradients = false;
    for (size_t i = 0; i < json_array_size(treatments); i++) {
        const json_t *treatment = json_array_get(treatments, i);
        const char *what = json_string_value(json_object_get(treatment, "what"));
        bool fits = json_is_true(json_object_get(treatment, "fits"));
        early |= strstr(what, "updated early") && fits;
        gradients |=
            strstr(what, "gradients in bf16") &&
            json_number(treatment, "peak_bytes") < json_number(root, "smallest_budget_bytes");
    }
    assert_true(early && gradients);
    json_decref(root);
}

/* Each treatment's options, added to the line that did not fit, plan what the treatment said. */
static void the_options_of_a_treatment_plan_what_it_promised(void **state)
{
    (void)state;
    static const char *const lines[] = {
        SMALL " --batch 8 --budget 100KiB",
        SMALL " --batch 8 --budget 100KiB --precision bf16 --attention plain --recompute none",
        SMALL " --batch 8 --budget 100KiB --precision bf16 --update early",
    };
    int replayed = 0, combined = 0, alone = 0;
    for (size_t line = 0; line < sizeof lines / sizeof *lines; line++) {
        json_t *root = run_json("plan --threads 1", lines[line], 1);
        const json_t *treatments = json_object_get(root, "treatments");
        for (size_t i = 0; i < json_array_size(treatments); i++) {
            const json_t *treatment = json_array_get(treatments, i);
            const char *options = json_string_value(json_object_get(treatment, "options"));
            char arguments[400];
            if (!options)
                continue;
            snprintf(arguments, sizeof arguments, "%s %s", lines[line], options);
            json_t *again = run_json("plan --threads 1", arguments, 1);
            assert_int_equal(json_number(again, "smallest_budget_bytes"),
                             json_number(treatment, "peak_bytes"));
            json_decref(again);
            replayed++;
            combined += strcmp(options, "--optimizer sgd --update early --batch 1") == 0;
            alone += strcmp(options, "--batch 1") == 0;
        }
        json_decref(root);
    }
    assert_true(replayed >= 12 && combined == 2 && alone == 1);
}

static bool has_alternative(const char *arguments, const char *wanted)
{
    json_t *root = run_json("plan --threads 1", arguments, 0);
    const json_t *others = json_object_get(root, "alternatives");
    bool found = false;
    for (size_t i = 0; i < json_array_size(others); i++)
        found |= strcmp(json_string_value(json_object_get(json_array_get(others, i), "what")),
                        wanted) == 0;
    json_decref(root);
    return found;
}

static void a_plan_in_fp32_tells_what_16_bits_would_need(void **state)
{
    (void)state;
    static const char wanted[] = "16 bits with fp32 masters";
    assert_true(has_alternative(SMALL " --target t4", wanted));
    assert_true(has_alternative(SMALL " --target l4", wanted));
    assert_false(has_alternative(SMALL " --target l4 --precision bf16", wanted));
}

static void what_fits_is_told_as_options_and_the_overhead_beside_the_regions(void **state)
{
    (void)state;
    static char output[OUTPUT_BYTES];
    assert_int_equal(run_program("plan gpt2-xl --batch 1 --target t4", to_output, output), 1);
    assert_non_null(strstr(output, "to make it fit, add --optimizer sgd --update early\n"));
    assert_non_null(strstr(output, " transient, 710.8 MiB overhead\n"));
    assert_int_equal(run_program("plan gpt2-xl --batch 1 --target t4 --optimizer sgd "
                                 "--update early",
                                 to_output, output),
                     0);
    assert_int_equal(run_program("plan " SMALL " --budget 100KiB", to_output, output), 1);
    assert_null(strstr(output, "to make it fit"));
    assert_null(strstr(output, "overhead"));
}

static void a_bill_is_held_against_its_targets_memory(void **state)
{
    (void)state;
    static char output[OUTPUT_BYTES];
    char path[SCRATCH_BYTES + 32], arguments[SCRATCH_BYTES + 128];
    plm_device_profile profile;
    assert_ok(plm_device_profile_find("l4", &profile));
    profile.memory_bytes = profile.overhead_bytes + 100000;
    snprintf(path, sizeof path, "%s/tiny.json", folder);
    assert_ok(plm_device_profile_save(&profile, path));
    snprintf(arguments, sizeof arguments, SMALL " --target %s", path);
    json_t *root = run_json("bill --threads 1", arguments, 1);
    assert_true(json_is_false(json_object_get(root, "fits")));
    json_decref(root);
    snprintf(arguments, sizeof arguments, "bill " SMALL " --target %s", path);
    assert_int_equal(run_program(arguments, to_error, output), 1);
    assert_non_null(strstr(output, "does not fit the budget of 696.7 MiB on l4"));
    root = run_json("bill --threads 1", SMALL " --target rtx4090 --attention auto", 0);
    assert_true(json_is_true(json_object_get(root, "fits")));
    json_decref(root);
    root = run_json("curve --threads 1", SMALL " --target rtx4090", 0);
    json_decref(root);
}

static void wrong_use_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line, *wanted;
    } cases[] = {
        {"plan " SMALL, "--budget"},
        {"plan " SMALL " --budget 1GiB --head-chunks 0", "head-chunks"},
        {"plan " SMALL " --budget 1GiB --mlp-chunks 0", "mlp-chunks"},
        {"plan " SMALL " --budget 1GiB --recompute mpl", "mlp.up"},
        {"plan " SMALL " --budget 1GiB --recompute all", "recompute"},
        {"plan " SMALL " --budget 1GiB --strategy /nowhere.json", "/nowhere.json"},
        {"profile", "MODEL"},
        {"profile " SMALL " --calibrate", "--calibrate"},
        {"profile " SMALL " --recompute auto", "choices"},
        {"profile " SMALL " --attention auto", "choices"},
        {"plan " SMALL " --target h2000", "unknown target 'h2000'; known are h200, h100"},
        {"plan " SMALL " --target ./nowhere.json", "nowhere.json"},
        {"plan " SMALL " --target cpu", "--budget"},
        {"plan " SMALL " --budget 1GiB --gradient bf16", "try precision bf16"},
        {"plan " SMALL " --budget 1GiB --gradient bf16 --precision bf16 --micro-batch 1",
         "cannot be sums"},
        {"curve " SMALL " --target h200 --measure", "not on a target"},
        {"plan " SMALL " --target t4 --precision bf16", "t4 does not run bf16; it runs fp16"},
    };
    char output[OUTPUT_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(run_program(cases[i].line, to_error, output), 2);
        if (!strstr(output, cases[i].wanted))
            fail_msg("%s: wanted '%s' in '%s'", cases[i].line, cases[i].wanted, output);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_fits_its_budget_and_says_what_it_turned_down),
        cmocka_unit_test(what_does_not_fit_is_exit_status_one_with_what_would_help),
        cmocka_unit_test(a_saved_strategy_trains_with_the_planned_peak),
        cmocka_unit_test(calibration_is_found_by_the_plans_that_follow),
        cmocka_unit_test(a_target_is_planned_for_within_its_memory),
        cmocka_unit_test(what_updates_early_is_proposed_without_clipping),
        cmocka_unit_test(a_profile_of_ones_own_is_a_target),
        cmocka_unit_test(what_would_make_gpt2_xl_fit_a_4090_is_told),
        cmocka_unit_test(the_options_of_a_treatment_plan_what_it_promised),
        cmocka_unit_test(a_plan_in_fp32_tells_what_16_bits_would_need),
        cmocka_unit_test(what_fits_is_told_as_options_and_the_overhead_beside_the_regions),
        cmocka_unit_test(a_bill_is_held_against_its_targets_memory),
        cmocka_unit_test(wrong_use_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
