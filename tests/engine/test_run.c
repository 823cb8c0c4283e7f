/* SPDX-License-Identifier: MIT */
/*
 * Plans that run. What a plan says is what a run takes: with exactly the predicted bytes it runs,
 * with one granule less it is refused, by the planner and, past it, by the device; nothing is
 * allocated during a step; every allocation before it may fail.
 */
#include "engine/small_run.h"

#include "base/memory.h"
#include "plan/plan.h"
#include "plimsoll/size.h"

static const small_shape usual = {.layers = 2,
                                  .width = 32,
                                  .heads = 4,
                                  .context = 24,
                                  .vocab = 61,
                                  .batch = 4,
                                  .micro_batch = 2,
                                  .sequence = 24};

/* One update, one evaluation and one generation of a window that is the same every time. */
static plm_status use(const small_run *run, plm_step_result *result)
{
    small_window window;
    float logits[256];
    double sum;
    int64_t counted;
    plm_hyper hyper = plm_hyper_default();
    const plm_job *job = &run->job;
    small_window_fill(&window, job->batch * job->sequence, run->model.vocab, 7);
    plm_status status = plm_session_step(run->session, 0, &hyper, job->batch, window.tokens,
                                         window.targets, result);
    if (status == PLM_OK)
        status = plm_session_evaluate(run->session, job->batch, window.tokens, window.targets, &sum,
                                      &counted);
    if (status == PLM_OK)
        status = plm_session_generate(run->session, 5, window.tokens, run->model.vocab, logits);
    return status;
}

/* ---- exact --------------------------------------------------------------------------------- */

/* Runs a shape on a device that hands out the arena and not a byte more. */
static void run_in_exactly_the_arena(const small_shape *shape)
{
    small_run run;
    plm_session_measure measure;
    plm_step_result result;
    plm_device *planner;
    small_run_describe(&run, shape);
    assert_ok(plm_device_open("cpu", 1, 0, &planner));
    assert_ok(plm_plan_create(&run.job, &run.strategy, planner, &run.plan));
    plm_plan_summary plan = plm_plan_summarize(run.plan);
    assert_int_equal(planner->usage.peak_bytes, 0); /* planning takes nothing */
    plm_device_destroy(planner);
    assert_int_equal(plan.arena_bytes, plan.persistent_bytes + plan.transient_bytes);
    assert_int_equal(plan.peak_bytes, plan.arena_bytes + plan.overhead_bytes);
    assert_int_equal(plan.arena_bytes % PLM_GRANULE_BYTES, 0);

    assert_ok(plm_device_open("cpu", 1, plan.arena_bytes, &run.device));
    assert_ok(plm_session_create(run.plan, run.device, 1, &run.session));
    assert_ok(plm_session_measure_memory(run.session, &measure));
    assert_false(measure.last_granule_written);
    assert_ok(use(&run, &result));
    assert_ok(plm_session_measure_memory(run.session, &measure));
    assert_int_equal(measure.peak_bytes, plan.peak_bytes);
    assert_true(measure.last_granule_written);
    small_run_close(&run);
}

static void the_measured_peak_is_the_predicted_one_on_a_grid_of_runs(void **state)
{
    (void)state;
    static const int64_t widths[] = {16, 32, 64, 128}, micro_batches[] = {1, 2, 4};
    int64_t runs = 0;
    for (int64_t layers = 1; layers <= (SANITIZED ? 1 : 4); layers++) {
        for (int i = 0; i < 4 * 3 * 2; i++) {
            small_shape shape = usual;
            shape.layers = layers;
            shape.width = widths[i % 4];
            shape.micro_batch = micro_batches[i / 4 % 3];
            shape.attention = i / 12 ? PLM_ATTENTION_PLAIN : PLM_ATTENTION_FUSED;
            runs++;
            run_in_exactly_the_arena(&shape);
        }
    }
    assert_int_equal(runs, SANITIZED ? 24 : 96);
}

/*
 * The operating system's word for it: resident memory grows by the arena, all of it, and by a
 * little for the host's metadata and for the code that the product library writes at run time.
 */
static void the_operating_system_sees_the_arena_and_little_more(void **state)
{
    (void)state;
    enum { LITTLE = 4 << 20 };
    small_shape shape = usual;
    small_run run;
    plm_step_result result;
    size_t before, after;
    if (SANITIZED || PLM_CHECK) /* a checked session holds copies of the arena */
        skip();
    shape.layers = 4;
    shape.width = 192;
    shape.context = shape.sequence = 64;
    small_run_describe(&run, &shape);
    assert_ok(plm_device_open("cpu", 1, 0, &run.device));
    assert_ok(plm__memory_resident(&before));
    assert_ok(plm_plan_create(&run.job, &run.strategy, run.device, &run.plan));
    assert_ok(plm_session_create(run.plan, run.device, 1, &run.session));
    assert_ok(use(&run, &result));
    assert_ok(plm__memory_resident(&after));
    size_t arena = plm_plan_summarize(run.plan).arena_bytes, growth = after - before;
    print_message("arena %zu kB, resident memory grew by %zu kB\n", arena >> 10, growth >> 10);
    assert_true(growth + (LITTLE >> 4) >= arena);
    assert_true(growth <= arena + LITTLE);
    small_run_close(&run);
}

static void a_session_gives_back_all_that_it_took(void **state)
{
    (void)state;
    small_run run;
    small_run_open(&run, &usual);
    assert_int_equal(run.device->usage.live_bytes, run.summary.arena_bytes);
    plm_session_destroy(run.session);
    run.session = NULL;
    assert_int_equal(run.device->usage.live_bytes, 0);
    small_run_close(&run);
}

/* ---- refused ------------------------------------------------------------------------------- */

static plm_error last_error(void)
{
    plm_error error;
    plm_error_get(&error);
    return error;
}

static void the_planner_refuses_one_granule_less_and_names_the_smallest(void **state)
{
    (void)state;
    small_run run;
    plm_plan *plan = NULL;
    size_t smallest = 0;
    char number[32];
    small_run_open(&run, &usual);
    size_t peak = run.summary.peak_bytes;
    assert_ok(plm_plan_for_budget(&run.job, &run.strategy, run.device, peak, &smallest, &plan));
    assert_int_equal(smallest, peak);
    assert_int_equal(plm_plan_summarize(plan).peak_bytes, peak);
    plm_plan_destroy(plan);

    plan = NULL;
    smallest = 0;
    assert_int_equal(plm_plan_for_budget(&run.job, &run.strategy, run.device,
                                         peak - PLM_GRANULE_BYTES, &smallest, &plan),
                     PLM_ERROR_BUDGET);
    assert_null(plan);
    assert_int_equal(smallest, peak);
    plm_error error = last_error();
    snprintf(number, sizeof number, "(%zu bytes)", peak);
    assert_non_null(strstr(error.message, number));
    assert_int_equal(error.oom.asked_bytes, peak);
    assert_int_equal(error.oom.budget_bytes, peak - PLM_GRANULE_BYTES);
    small_run_close(&run);
}

static void past_the_planner_the_device_refuses_one_granule_less(void **state)
{
    (void)state;
    small_run run;
    plm_step_result result;
    small_run_describe(&run, &usual);
    plm_device *planner;
    assert_ok(plm_device_open("cpu", 1, 0, &planner));
    assert_ok(plm_plan_create(&run.job, &run.strategy, planner, &run.plan));
    plm_device_destroy(planner);
    size_t arena = plm_plan_summarize(run.plan).arena_bytes, cap = arena - PLM_GRANULE_BYTES;
    assert_ok(plm_device_open("cpu", 1, cap, &run.device));
    plm_host_stats before = plm__host_stats_get();
    assert_int_equal(plm_session_create(run.plan, run.device, 1, &run.session),
                     PLM_ERROR_DEVICE_MEMORY);
    assert_null(run.session);
    plm_error error = last_error();
    assert_int_equal(error.status, PLM_ERROR_DEVICE_MEMORY);
    assert_int_equal(error.oom.asked_bytes, arena);
    assert_int_equal(error.oom.budget_bytes, cap);
    assert_int_equal(error.oom.live_bytes, 0);
    assert_int_equal(error.oom.largest_free_bytes, cap);
    assert_int_equal(run.device->usage.live_bytes, 0);
    assert_int_equal(run.device->usage.peak_bytes, 0);
    assert_int_equal(plm__host_stats_get().live_count, before.live_count);
    assert_int_equal(plm__host_stats_get().live_bytes, before.live_bytes);

    /* the same device then runs what fits */
    plm_plan_destroy(run.plan);
    run.strategy.micro_batch = 1;
    assert_ok(plm_plan_create(&run.job, &run.strategy, run.device, &run.plan));
    assert_true(plm_plan_summarize(run.plan).arena_bytes <= cap);
    assert_ok(plm_session_create(run.plan, run.device, 1, &run.session));
    assert_ok(use(&run, &result));
    small_run_close(&run);
}

static void less_memory_picks_a_smaller_micro_batch_and_never_a_larger_peak(void **state)
{
    (void)state;
    static const int64_t divisors[] = {12, 6, 4, 3, 2, 1};
    small_shape shape = usual;
    small_run run;
    size_t budget = SIZE_MAX, smallest = 0;
    shape.batch = 12;
    shape.micro_batch = 0;
    small_run_describe(&run, &shape);
    assert_ok(plm_device_open("cpu", 1, 0, &run.device));
    for (size_t i = 0; i < sizeof divisors / sizeof *divisors; i++) {
        assert_ok(
            plm_plan_for_budget(&run.job, &run.strategy, run.device, budget, &smallest, &run.plan));
        plm_plan_summary plan = plm_plan_summarize(run.plan);
        assert_int_equal(plan.strategy.micro_batch, divisors[i]);
        assert_true(plan.peak_bytes <= budget);
        assert_true(smallest <= plan.peak_bytes);
        plm_plan_destroy(run.plan);
        run.plan = NULL;
        budget = plan.peak_bytes - 1; /* the next divisor must do */
    }
    assert_int_equal(budget + 1, smallest);
    assert_int_equal(
        plm_plan_for_budget(&run.job, &run.strategy, run.device, budget, &smallest, &run.plan),
        PLM_ERROR_BUDGET);
    assert_int_equal(smallest, budget + 1);
    small_run_close(&run);
}

static void the_persistent_region_does_not_depend_on_the_micro_batch(void **state)
{
    (void)state;
    size_t persistent = 0;
    for (int64_t micro_batch = 1; micro_batch <= 4; micro_batch *= 2) {
        small_shape shape = usual;
        small_run run;
        shape.micro_batch = micro_batch;
        small_run_open(&run, &shape);
        if (micro_batch > 1)
            assert_int_equal(run.summary.persistent_bytes, persistent);
        persistent = run.summary.persistent_bytes;
        small_run_close(&run);
    }
}

/* ---- allocation ---------------------------------------------------------------------------- */

static void nothing_is_allocated_during_steps_evaluation_and_generation(void **state)
{
    (void)state;
    for (int form = 0; form < 2; form++) {
        small_shape shape = usual;
        small_run run;
        plm_step_result result;
        shape.attention = (plm_attention_form)form;
        shape.dropout = 0.1f;
        small_run_open(&run, &shape);
        int64_t calls = plm__host_stats_get().alloc_calls;
        for (int i = 0; i < 3; i++)
            assert_ok(use(&run, &result));
        assert_int_equal(plm__host_stats_get().alloc_calls, calls);
        assert_int_equal(run.device->usage.peak_bytes, run.summary.arena_bytes);
        small_run_close(&run);
    }
}

static plm_status open_and_use(small_run *run, const small_shape *shape, plm_step_result *result)
{
    small_run_describe(run, shape);
    plm_status status = plm_device_open("cpu", 1, 0, &run->device);
    if (status == PLM_OK)
        status = plm_plan_for_budget(&run->job, &run->strategy, run->device, (size_t)1 << 30, NULL,
                                     &run->plan);
    if (status == PLM_OK)
        status = plm_session_create(run->plan, run->device, 1, &run->session);
    if (status == PLM_OK)
        status = use(run, result);
    return status;
}

static void a_run_survives_the_failure_of_every_allocation(void **state)
{
    (void)state;
    small_shape shape = {.layers = 1,
                         .width = 8,
                         .heads = 2,
                         .context = 6,
                         .vocab = 11,
                         .batch = 2,
                         .micro_batch = 1,
                         .sequence = 6};
    small_run run;
    plm_step_result whole, result;
    assert_ok(open_and_use(&run, &shape, &whole));
    small_run_close(&run);
    for (int persistent = 0; persistent < 2; persistent++) {
        plm_host_stats before = plm__host_stats_get();
        for (int64_t n = 1;; n++) {
            plm__host_fail_at(n, persistent);
            plm_status status = open_and_use(&run, &shape, &result);
            bool fired = plm__host_fail_at(0, false);
            small_run_close(&run);
            assert_int_equal(plm__host_stats_get().live_count, before.live_count);
            if (!fired) {
                assert_ok(status);
                assert_true(n > 20);
                assert_memory_equal(&result.loss, &whole.loss, sizeof whole.loss);
                print_message("%d allocations failed in turn, %s\n", (int)n - 1,
                              persistent ? "for good" : "once");
                break;
            }
            if (status != PLM_ERROR_HOST_MEMORY) {
                print_error("allocation %d failing gives %s\n", (int)n, plm_status_name(status));
                fail();
            }
        }
    }
}

/* ---- wrong use ----------------------------------------------------------------------------- */

static void ids_beyond_the_tables_are_refused_before_anything_changes(void **state)
{
    (void)state;
    static const struct {
        int32_t token, target;
    } cases[] = {{61, 0}, {-1, 0}, {INT32_MAX, 0}, {0, 61}, {0, INT32_MAX}};
    static small_values before, after;
    small_run run;
    plm_hyper hyper = plm_hyper_default();
    small_run_open(&run, &usual);
    small_values_read(&run, &usual, PLM_PART_VALUE, &before);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        small_window window;
        plm_step_result result = {.counted = 77};
        double sum;
        int64_t counted;
        small_window_fill(&window, usual.batch * usual.sequence, usual.vocab, 3);
        window.tokens[90] = cases[i].token;
        window.targets[90] = cases[i].target;
        assert_int_equal(plm_session_step(run.session, 0, &hyper, usual.batch, window.tokens,
                                          window.targets, &result),
                         PLM_ERROR_ARGUMENT);
        assert_int_equal(result.counted, 77);
        assert_int_equal(plm_session_evaluate(run.session, usual.batch, window.tokens,
                                              window.targets, &sum, &counted),
                         PLM_ERROR_ARGUMENT);
    }
    small_values_read(&run, &usual, PLM_PART_VALUE, &after);
    assert_true(small_same_bits(&before, &after));
    small_run_close(&run);
}

static void windows_names_and_counts_out_of_range_are_refused(void **state)
{
    (void)state;
    small_run run;
    small_window window;
    plm_step_result result;
    float values[8];
    plm_hyper hyper = plm_hyper_default();
    small_run_open(&run, &usual);
    small_window_fill(&window, usual.batch * usual.sequence, usual.vocab, 3);
    for (int64_t sequences = -1; sequences <= usual.batch + 1; sequences += usual.batch / 4) {
        bool right = sequences >= 1 && sequences <= usual.batch;
        assert_int_equal(plm_session_step(run.session, 0, &hyper, sequences, window.tokens,
                                          window.targets, &result),
                         right ? PLM_OK : PLM_ERROR_ARGUMENT);
    }
    for (int64_t step = -1; step <= (int64_t)UINT32_MAX + 1; step += (int64_t)UINT32_MAX + 2)
        assert_int_equal(
            plm_session_step(run.session, step, &hyper, 1, window.tokens, window.targets, &result),
            PLM_ERROR_ARGUMENT);
    assert_int_equal(plm_session_generate(run.session, 0, window.tokens, usual.vocab, values),
                     PLM_ERROR_ARGUMENT);
    assert_int_equal(plm_session_generate(run.session, 25, window.tokens, usual.vocab, values),
                     PLM_ERROR_ARGUMENT);
    assert_int_equal(plm_session_generate(run.session, 2, window.tokens, 8, values),
                     PLM_ERROR_ARGUMENT);
    assert_int_equal(plm_session_read(run.session, "head.ln", PLM_PART_VALUE, 8, values),
                     PLM_ERROR_ARGUMENT);
    assert_int_equal(plm_session_read(run.session, "head.ln.bias", PLM_PART_VALUE, 8, values),
                     PLM_ERROR_ARGUMENT);
    assert_int_equal(plm_session_write(run.session, "head.ln.bias", PLM_PART_MOMENT1, 33, values),
                     PLM_ERROR_ARGUMENT);
    small_run_close(&run);
}

static void a_program_that_was_not_planned_is_refused(void **state)
{
    (void)state;
    small_run run;
    small_window window;
    plm_step_result result;
    double sum;
    int64_t counted;
    float logits[61];
    plm_hyper hyper = plm_hyper_default();
    small_run_describe(&run, &usual);
    run.job.trains = run.job.generates = false;
    assert_ok(plm_device_open("cpu", 1, 0, &run.device));
    assert_ok(plm_plan_create(&run.job, &run.strategy, run.device, &run.plan));
    assert_ok(plm_session_create(run.plan, run.device, 1, &run.session));
    small_window_fill(&window, usual.batch * usual.sequence, usual.vocab, 3);
    assert_int_equal(
        plm_session_step(run.session, 0, &hyper, 1, window.tokens, window.targets, &result),
        PLM_ERROR_STATE);
    assert_int_equal(plm_session_generate(run.session, 1, window.tokens, 61, logits),
                     PLM_ERROR_STATE);
    assert_ok(plm_session_evaluate(run.session, 3, window.tokens, window.targets, &sum, &counted));
    small_run_close(&run);
}

static void a_plan_without_training_holds_nothing_for_it(void **state)
{
    (void)state;
    small_run run;
    small_run_open(&run, &usual);
    size_t training = run.summary.persistent_bytes;
    plm_session_destroy(run.session);
    plm_plan_destroy(run.plan);
    run.session = NULL;
    run.job.trains = false;
    assert_ok(plm_plan_create(&run.job, &run.strategy, run.device, &run.plan));
    plm_plan_summary plan = plm_plan_summarize(run.plan);
    assert_int_equal(plan.parameter_count, run.summary.parameter_count);
    size_t parameters = (size_t)plan.parameter_count * sizeof(float);
    assert_true(plan.persistent_bytes >= parameters);
    assert_true(plan.persistent_bytes < parameters + parameters / 4);
    assert_true(training > 4 * parameters);
    small_run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_measured_peak_is_the_predicted_one_on_a_grid_of_runs),
        cmocka_unit_test(the_operating_system_sees_the_arena_and_little_more),
        cmocka_unit_test(a_session_gives_back_all_that_it_took),
        cmocka_unit_test(the_planner_refuses_one_granule_less_and_names_the_smallest),
        cmocka_unit_test(past_the_planner_the_device_refuses_one_granule_less),
        cmocka_unit_test(less_memory_picks_a_smaller_micro_batch_and_never_a_larger_peak),
        cmocka_unit_test(the_persistent_region_does_not_depend_on_the_micro_batch),
        cmocka_unit_test(nothing_is_allocated_during_steps_evaluation_and_generation),
        cmocka_unit_test(a_run_survives_the_failure_of_every_allocation),
        cmocka_unit_test(ids_beyond_the_tables_are_refused_before_anything_changes),
        cmocka_unit_test(windows_names_and_counts_out_of_range_are_refused),
        cmocka_unit_test(a_program_that_was_not_planned_is_refused),
        cmocka_unit_test(a_plan_without_training_holds_nothing_for_it),
    };
    return run_test_group(tests);
}
