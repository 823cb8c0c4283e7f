/* SPDX-License-Identifier: MIT */
/*
 * Out of memory at the start of a run: others took the memory between the plan and the reservation.
 * The answer is one line with the whole record and the largest plan that would fit now, and that
 * plan then runs in what is left.
 */
#include "engine/small_run.h"

#include "base/size.h"
#include "device/fault/fault.h"
#include "plimsoll/train.h"
#include "unit/program.h"
#include "unit/scratch.h"

enum { BATCH = 8, TEXT_BYTES = 2000 };

/* A device that hands out at most `cap_bytes` (0: what is asked for) and fails by `fault`. */
typedef struct machine {
    plm_fault fault;
    size_t cap_bytes;
    plm_device *device; /* while a trainer has it */
} machine;

static plm_trainer *trainer_on(machine *where, plm_train_settings settings)
{
    plm_device *inner = NULL;
    plm_trainer *trainer = NULL;
    assert_ok(plm_device_open("cpu", 1, where->cap_bytes, &inner));
    assert_ok(plm__device_create_fault(inner, &where->fault, &where->device));
    settings.device = where->device;
    assert_ok(plm_trainer_create(&settings, &trainer));
    return trainer;
}

static void end_trainer(plm_trainer *trainer, machine *where)
{
    plm_trainer_destroy(trainer);
    plm_device_destroy(where->device);
}

static void write_text(const char *path)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < TEXT_BYTES; i++)
        fputc("heave ho, my hearties, heave away "[i % 34], file);
    assert_int_equal(fclose(file), 0);
}

/* A folder with a text. */
static int make_text(void **state)
{
    static char path[SCRATCH_BYTES + 8];
    char folder[SCRATCH_BYTES];
    if (!scratch_folder(folder))
        return -1;
    snprintf(path, sizeof path, "%s/text", folder);
    write_text(path);
    *state = path;
    return 0;
}

static int remove_text(void **state)
{
    char *path = *state;
    unlink(path);
    *strrchr(path, '/') = '\0';
    return rmdir(path) || check_no_leak(state);
}

static plm_train_settings settings_of(const char *text, int64_t micro_batch)
{
    plm_train_settings settings = {.data_path = text,
                                   .budget_bytes = (size_t)64 << 20,
                                   .strategy = plm_strategy_default(),
                                   .batch = BATCH,
                                   .sequence = 16,
                                   .steps = 2,
                                   .hyper = plm_hyper_default(),
                                   .seed = 3};
    assert_ok(
        plm_model_parse("gpt:layers=1,width=16,heads=2,context=16,vocab=128", &settings.model));
    settings.strategy.micro_batch = micro_batch;
    return settings;
}

/* The plan that a trainer makes for a micro-batch. */
static plm_plan_summary plan_of(const char *text, int64_t micro_batch)
{
    machine plain = {.cap_bytes = 0};
    plm_trainer *trainer = trainer_on(&plain, settings_of(text, micro_batch));
    plm_plan_summary summary = plm_plan_summarize(plm_trainer_plan(trainer));
    end_trainer(trainer, &plain);
    return summary;
}

static void assert_told(const char *part)
{
    plm_error error;
    plm_error_get(&error);
    if (!strstr(error.message, part) || strchr(error.message, '\n'))
        fail_msg("'%s' is not in: %s", part, error.message);
}

/* Makes a trainer on this machine and runs it into the refusal. */
static plm_trainer *run_into_refusal(const char *text, int64_t micro_batch, machine *where)
{
    plm_train_result result = {.steps = -1};
    plm_trainer *trainer = trainer_on(where, settings_of(text, micro_batch));
    assert_int_equal(plm_trainer_run(trainer, NULL, &result), PLM_ERROR_DEVICE_MEMORY);
    assert_int_equal(result.steps, -1);
    assert_int_equal(where->fault.regions, 0);
    assert_int_equal(where->fault.prepared, 0);
    return trainer;
}

static void check_record(size_t asked, size_t budget, size_t left)
{
    plm_error error;
    plm_error_get(&error);
    assert_int_equal(error.status, PLM_ERROR_DEVICE_MEMORY);
    assert_int_equal(error.oom.asked_bytes, asked);
    assert_int_equal(error.oom.live_bytes, 0);
    assert_int_equal(error.oom.reserved_bytes, 0);
    assert_int_equal(error.oom.budget_bytes, budget);
    assert_int_equal(error.oom.largest_free_bytes, left);
    assert_string_equal(error.oom.op, "reserve");
    assert_string_equal(error.oom.tensor, "arena");
    assert_told("start of the run");
}

static void a_refused_arena_offers_the_largest_plan_that_fits_what_is_left(void **state)
{
    for (int64_t fixed = 0; fixed <= BATCH; fixed += BATCH) { /* chosen by the plan, or given */
        char number[48];
        plm_plan_summary whole = plan_of(*state, BATCH), half = plan_of(*state, BATCH / 2);
        machine where = {.fault = {.left_bytes = whole.arena_bytes - 1}};
        plm__fault_at(&where.fault, PLM_FAULT_RESERVE, 1, false);
        plm_trainer *trainer = run_into_refusal(*state, fixed, &where);
        check_record(whole.arena_bytes, ((size_t)64 << 20) - whole.overhead_bytes,
                     whole.arena_bytes - 1);
        assert_told("would fit now, with a micro-batch of 4");
        snprintf(number, sizeof number, "(%zu bytes)", half.peak_bytes);
        assert_told(number);

        /* the others are gone: the same trainer runs */
        plm_train_result result;
        assert_ok(plm_trainer_run(trainer, NULL, &result));
        assert_int_equal(result.steps, 2);
        end_trainer(trainer, &where);
    }
}

static void what_is_offered_runs_in_what_is_left_and_not_in_less(void **state)
{
    plm_plan_summary half = plan_of(*state, BATCH / 2);
    machine where = {.cap_bytes = half.arena_bytes};
    plm_train_result result;
    plm_trainer *trainer = run_into_refusal(*state, 0, &where);
    assert_told("would fit now, with a micro-batch of 4");
    check_record(plan_of(*state, BATCH).arena_bytes, half.arena_bytes, half.arena_bytes);
    end_trainer(trainer, &where);

    trainer = trainer_on(&where, settings_of(*state, BATCH / 2));
    assert_ok(plm_trainer_run(trainer, NULL, &result));
    assert_int_equal(result.measured_peak_bytes, half.peak_bytes);
    end_trainer(trainer, &where);

    where.cap_bytes -= PLM_GRANULE_BYTES;
    end_trainer(run_into_refusal(*state, 0, &where), &where);
    assert_told("would fit now, with a micro-batch of 2");
}

/* What the message tells can be done: stated as the budget, its figure gives a run. */
static void the_budget_that_is_offered_plans_a_run_that_fits(void **state)
{
    plm_plan_summary whole = plan_of(*state, BATCH);
    machine where = {.cap_bytes = whole.arena_bytes / 3 * 2};
    plm_train_settings settings = settings_of(*state, 0);
    plm_train_result result;
    plm_error error;
    settings.strategy.recompute = PLM_RECOMPUTE_AUTO;
    settings.strategy.head_chunks = 0;
    plm_trainer *trainer = trainer_on(&where, settings);
    assert_int_equal(plm_trainer_run(trainer, NULL, &result), PLM_ERROR_DEVICE_MEMORY);
    end_trainer(trainer, &where);
    plm_error_get(&error);
    const char *offer = strstr(error.message, "; a budget of ");
    assert_non_null(offer);
    assert_int_equal(sscanf(strchr(offer, '('), "(%zu bytes)", &settings.budget_bytes), 1);
    trainer = trainer_on(&where, settings);
    assert_ok(plm_trainer_run(trainer, NULL, &result));
    assert_int_equal(result.measured_peak_bytes, settings.budget_bytes);
    end_trainer(trainer, &where);
}

static void where_nothing_fits_the_smallest_peak_is_named(void **state)
{
    char number[48];
    plm_plan_summary least = plan_of(*state, 1);
    machine where = {.fault = {.left_bytes = least.arena_bytes - PLM_GRANULE_BYTES}};
    plm__fault_at(&where.fault, PLM_FAULT_RESERVE, 1, true);
    end_trainer(run_into_refusal(*state, 0, &where), &where);
    assert_told("nothing fits now");
    snprintf(number, sizeof number, "(%zu bytes)", least.peak_bytes);
    assert_told(number);
}

static void the_record_stands_when_the_offer_cannot_be_planned(void **state)
{
    plm_plan_summary whole = plan_of(*state, BATCH);
    machine where = {.fault = {.left_bytes = 0}};
    plm_train_result result;
    plm_trainer *trainer = trainer_on(&where, settings_of(*state, BATCH));
    plm__fault_at(&where.fault, PLM_FAULT_ANY, 1, true); /* reserve, then every workspace */
    assert_int_equal(plm_trainer_run(trainer, NULL, &result), PLM_ERROR_DEVICE_MEMORY);
    check_record(whole.arena_bytes, ((size_t)64 << 20) - whole.overhead_bytes, 0);
    end_trainer(trainer, &where);
}

static void the_program_answers_with_status_1_and_one_line(void **state)
{
    static char output[OUTPUT_BYTES];
    char arguments[256];
    snprintf(arguments, sizeof arguments,
             "train gpt:layers=1,width=131072,heads=1,context=8,vocab=256 --data %s --batch 1 "
             "--steps 1 --threads 1 --budget 16TiB",
             (const char *)*state);
    assert_int_equal(run_program(arguments, to_error, output), 1);
    const char *end = strchr(output, '\n');
    assert_true(end && end[1] == '\0');
    assert_non_null(strstr(output, "out of memory at the start of the run"));
    assert_non_null(strstr(output, "nothing fits now"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_arena_offers_the_largest_plan_that_fits_what_is_left),
        cmocka_unit_test(what_is_offered_runs_in_what_is_left_and_not_in_less),
        cmocka_unit_test(the_budget_that_is_offered_plans_a_run_that_fits),
        cmocka_unit_test(where_nothing_fits_the_smallest_peak_is_named),
        cmocka_unit_test(the_record_stands_when_the_offer_cannot_be_planned),
        cmocka_unit_test(the_program_answers_with_status_1_and_one_line),
    };
    return cmocka_run_group_tests(tests, make_text, remove_text);
}
