/* SPDX-License-Identifier: MIT */
/*
 * The engine on an NVIDIA GPU: every kernel against the double-precision reference, whole models
 * against the CPU, and the memory promises over random strategies. Without a GPU the program says
 * why and ends with status 77, which skips the test.
 */
#include "gpu/gpu_kit.h"

#include "base/clock.h"

enum { SKIPPED = 77, STEPS = 20 };
enum { TYPES_TRAINED = TYPES - 1 }; /* the last goes with no strategy, so no GPU multiplies it */

/* A fixture's block on the GPU, the step record behind it. */
typedef struct on_gpu {
    plm_launch launch;
    char *region;
    size_t bytes, step_at;
} on_gpu;

static void *moved(const on_gpu *g, const fixture *f, const void *data)
{
    return data ? g->region + ((const char *)data - f->block) : NULL;
}

static void to_gpu(const fixture *f, on_gpu *g)
{
    void *region = NULL;
    g->step_at = plm__granules(f->block_bytes);
    g->bytes = g->step_at + plm__granules(sizeof f->step);
    assert_ok(gpu->table->reserve(gpu, g->bytes, &region));
    g->region = region;
    assert_ok(gpu->table->copy_in(gpu, g->region, f->block, f->block_bytes));
    assert_ok(gpu->table->copy_in(gpu, g->region + g->step_at, &f->step, sizeof f->step));
    g->launch = f->launch;
    for (int i = 0; i < OPERANDS; i++) {
        plm_operand *operand = operand_at(&g->launch, i);
        operand->data = moved(g, f, operand->data);
    }
    g->launch.workspace = moved(g, f, f->launch.workspace);
    g->launch.step = (plm_step_record *)(g->region + g->step_at);
}

static void from_gpu(on_gpu *g, fixture *f)
{
    assert_ok(gpu->table->copy_out(gpu, f->block, g->region, f->block_bytes));
    assert_ok(gpu->table->copy_out(gpu, &f->step, g->region + g->step_at, sizeof f->step));
    assert_ok(gpu->table->fence(gpu));
    gpu->table->release(gpu, g->region, g->bytes);
}

/*
 * Sums of fp32 terms differ by their order: 1e-5 of the largest value, as on the CPU. Fused
 * attention of 16-bit types multiplies probabilities, and in the backward pass their gradients,
 * that were rounded to the type: each product then errs by at most one rounding of its largest
 * term. Plain attention adds up the gradients of heads that share keys in the type itself, with one
 * rounding a head. A weight's gradient in 16 bits may be rounded before it is added to what was
 * there, which no strategy asks for.
 */
static double tolerance_of(plm_op_kind kind, const extents *n, op_types types)
{
    plm_dtype dtype = types.precision;
    if (kind == PLM_OP_LINEAR_GRAD_WEIGHT)
        return 1e-5 + rounding(types.gradient);
    bool rounds = kind == PLM_OP_ATTENTION || kind == PLM_OP_ATTENTION_GRAD;
    bool adds = kind == PLM_OP_ATTENTION_GRAD_QKV;
    int64_t group = n->H / key_heads_of(n);
    return 1e-5 + rounding(dtype) * (rounds ? 1 : adds ? (double)(group - 1) : 0);
}

static void compare_with_reference(plm_op_kind kind, const extents *n, int variant, op_types types)
{
    fixture f;
    on_gpu g;
    fixture_open_as(&f, gpu, kind, *n, attributes(n, variant & 1, variant >> 1), types);
    references[kind](&f.truth);
    to_gpu(&f, &g);
    run_op(gpu, &g.launch);
    from_gpu(&g, &f);
    assert_matches(&f, tolerance_of(kind, n, types));
    assert_canaries(&f);
    fixture_close(&f);
}

static void every_kernel_matches_the_reference(void **state)
{
    (void)state;
    for (int kind = 0; kind < PLM_OP_COUNT; kind++)
        for (int types = 0; types < TYPES_TRAINED; types++)
            for (int shape = 0; shape < SHAPES; shape++)
                for (int variant = 0; variant < 4; variant++)
                    if (is_for(&shapes[shape], (plm_op_kind)kind))
                        compare_with_reference((plm_op_kind)kind, &shapes[shape], variant,
                                               all_types[types]);
}

/* Attention's gradient by this project's own kernel, which a repeatable run takes. */
static void kernels_of_a_repeatable_run_match_the_reference(void **state)
{
    (void)state;
    plm_device_be_deterministic(gpu, true);
    for (int types = 0; types < TYPES_TRAINED; types++)
        for (int shape = 0; shape < SHAPES; shape++)
            for (int variant = 0; variant < 4; variant++)
                compare_with_reference(PLM_OP_ATTENTION_GRAD, &shapes[shape], variant,
                                       all_types[types]);
    plm_device_be_deterministic(gpu, false);
}

/* Of the whole model, fp32 agrees to the order of its sums; a 16-bit type to a few of its own
 * roundings, one in every operation that a gradient passes. */
static void gradients_of_whole_models_agree_with_the_cpu(void **state)
{
    (void)state;
    static small_values on_cpu, on_gpu_too;
    static const plm_dtype types[] = {PLM_DTYPE_F32, PLM_DTYPE_BF16, PLM_DTYPE_F16};
    for (int i = 0; i < 6; i++) {
        small_shape shape = usual;
        small_run cpu_run, gpu_run;
        plm_step_result result;
        shape.precision = types[i / 2];
        shape.attention = i % 2 ? PLM_ATTENTION_PLAIN : PLM_ATTENTION_FUSED;
        small_run_open(&cpu_run, &shape);
        step(&cpu_run, &shape, 0, &result);
        small_values_read(&cpu_run, &shape, PLM_PART_GRADIENT, &on_cpu);
        small_run_close(&cpu_run);
        small_run_open_on(&gpu_run, &shape, gpu);
        step(&gpu_run, &shape, 0, &result);
        small_values_read(&gpu_run, &shape, PLM_PART_GRADIENT, &on_gpu_too);
        small_run_close(&gpu_run);
        double off = small_difference(&on_gpu_too, &on_cpu);
        if (!(off <= 1e-5 + 4 * rounding(shape.precision)))
            fail_msg("gradients in %s, %s attention, are off by %g",
                     plm_dtype_text(shape.precision), plm_attention_text(shape.attention), off);
    }
}

static void twenty_steps_agree_with_the_cpu(void **state)
{
    (void)state;
    small_run cpu_run, gpu_run;
    plm_step_result expected, found;
    small_run_open(&cpu_run, &usual);
    small_run_open_on(&gpu_run, &usual, gpu);
    for (int64_t i = 0; i < STEPS; i++) {
        step(&cpu_run, &usual, i, &expected);
        step(&gpu_run, &usual, i, &found);
        if (!(fabs(found.loss - expected.loss) <= 1e-5 * expected.loss))
            fail_msg("the loss of update %d is %.9g, on the CPU %.9g", (int)i, found.loss,
                     expected.loss);
    }
    small_run_close(&cpu_run);
    small_run_close(&gpu_run);
}

static void forty_random_strategies_use_what_was_predicted(void **state)
{
    (void)state;
    for (int64_t i = 0; i < STRATEGIES; i++) {
        small_shape shape = random_shape(i);
        small_run run;
        plm_step_result result;
        plm_session_measure measure;
        plm__device_limit(gpu, 0); /* the high water begins anew */
        small_run_open_on(&run, &shape, gpu);
        for (int64_t number = 0; number < 4; number++)
            step(&run, &shape, number, &result);
        assert_ok(plm_session_measure_memory(run.session, &measure));
        assert_int_equal(measure.peak_bytes, run.summary.peak_bytes);
        assert_true(measure.last_granule_written);
        if (measure.driver_bytes > 0)
            assert_true(measure.driver_bytes <= run.summary.peak_bytes);
        small_run_close(&run);
    }
}

static void the_predicted_bytes_suffice_and_one_granule_less_is_refused(void **state)
{
    (void)state;
    small_run run;
    plm_step_result result;
    plm_error error;
    small_run_open_on(&run, &usual, gpu);
    size_t arena = run.summary.arena_bytes;
    plm_session_destroy(run.session);
    plm__device_limit(gpu, arena - PLM_GRANULE_BYTES);
    run.session = NULL;
    assert_int_equal(plm_session_create(run.plan, gpu, 1, &run.session), PLM_ERROR_DEVICE_MEMORY);
    plm_error_get(&error);
    assert_int_equal(error.oom.asked_bytes, arena);
    assert_int_equal(error.oom.budget_bytes, arena - PLM_GRANULE_BYTES);
    assert_int_equal(gpu->usage.live_bytes, 0);
    plm__device_limit(gpu, arena);
    assert_ok(plm_session_create(run.plan, gpu, 1, &run.session));
    step(&run, &usual, 0, &result);
    small_run_close(&run);
    plm__device_limit(gpu, 0);
}

/* The parameters after five updates. */
static void train_five(const small_shape *shape, small_values *values)
{
    small_run run;
    plm_step_result result;
    small_run_open_on(&run, shape, gpu);
    for (int64_t number = 0; number < 5; number++)
        step(&run, shape, number, &result);
    small_values_read(&run, shape, PLM_PART_VALUE, values);
    small_run_close(&run);
}

static void repeatable_runs_give_the_same_bits_and_making_again_changes_none(void **state)
{
    (void)state;
    static small_values first, second;
    static const plm_dtype types[] = {PLM_DTYPE_F32, PLM_DTYPE_BF16, PLM_DTYPE_F16};
    plm_device_be_deterministic(gpu, true);
    for (int i = 0; i < 3; i++) {
        small_shape shape = usual;
        shape.precision = types[i];
        train_five(&shape, &first);
        train_five(&shape, &second);
        assert_true(small_same_bits(&first, &second));
        shape.recompute = "block";
        train_five(&shape, &second);
        assert_true(small_same_bits(&first, &second));
    }
    plm_device_be_deterministic(gpu, false);
}

/* Losses and parameters of STEPS updates with so many in flight. */
static void train_ahead(const small_shape *shape, int64_t in_flight, double *losses,
                        small_values *values)
{
    small_run run;
    int64_t submitted = 0;
    small_run_open_on(&run, shape, gpu);
    for (int64_t number = 0; number < STEPS; number++) {
        plm_step_result result;
        for (; submitted < STEPS && submitted - number < in_flight; submitted++)
            submit(&run, shape, submitted);
        assert_ok(plm_session_collect(run.session, &result));
        losses[number] = result.loss;
    }
    small_values_read(&run, shape, PLM_PART_VALUE, values);
    small_run_close(&run);
}

/* Of one micro-batch and of four, which follow each other as fast as the GPU goes. */
static void steps_submitted_ahead_are_the_steps_one_at_a_time(void **state)
{
    (void)state;
    static small_values one, ahead;
    static const plm_dtype types[] = {PLM_DTYPE_F32, PLM_DTYPE_BF16, PLM_DTYPE_F16};
    double expected[STEPS], found[STEPS];
    plm_device_be_deterministic(gpu, true);
    for (int i = 0; i < 6; i++) {
        small_shape shape = usual;
        shape.precision = types[i / 2];
        shape.micro_batch = i % 2 ? 1 : shape.batch;
        train_ahead(&shape, 1, expected, &one);
        train_ahead(&shape, PLM_STEPS_IN_FLIGHT_MAX, found, &ahead);
        assert_memory_equal(expected, found, sizeof found);
        assert_true(small_same_bits(&one, &ahead));
    }
    plm_device_be_deterministic(gpu, false);
}

static void a_session_may_end_with_steps_in_flight(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        small_run run;
        small_run_open_on(&run, &usual, gpu);
        for (int64_t number = 0; number < PLM_STEPS_IN_FLIGHT_MAX; number++)
            submit(&run, &usual, number);
        small_run_close(&run);
        assert_int_equal(gpu->usage.live_bytes, 0);
    }
}

/* What was enqueued before on the queue that computes takes tens of milliseconds. */
static void a_copy_of_inputs_overtakes_what_computes(void **state)
{
    (void)state;
    enum { FILLS = 400, LEAST_NS = 5000000 };
    const size_t bytes = (size_t)256 << 20, copied = (size_t)256 << 10;
    const plm_device_table *table = gpu->table;
    void *region = NULL, *host = NULL, *arrived = NULL;
    assert_ok(table->reserve(gpu, bytes + copied, &region));
    assert_ok(table->reserve_host(gpu, copied, &host));
    assert_ok(table->create_signal(gpu, &arrived));
    memset(host, 1, copied);
    assert_ok(table->fence(gpu));
    int64_t began_ns = plm__clock_ns();
    for (int i = 0; i < FILLS; i++)
        assert_ok(table->fill(gpu, region, (uint8_t)i, bytes));
    assert_ok(table->copy(gpu, PLM_QUEUE_COPY, (char *)region + bytes, host, copied));
    assert_ok(table->signal(gpu, PLM_QUEUE_COPY, arrived));
    assert_ok(table->await(gpu, arrived));
    int64_t copied_ns = plm__clock_ns() - began_ns;
    assert_ok(table->fence(gpu));
    int64_t ended_ns = plm__clock_ns() - began_ns;
    print_message("the copy was there after %.1f ms, the rest after %.1f ms\n",
                  (double)copied_ns * 1e-6, (double)ended_ns * 1e-6);
    table->release(gpu, region, bytes + copied);
    table->release_host(gpu, host);
    table->destroy_signal(gpu, arrived);
    if (ended_ns < LEAST_NS) /* a stand-in fills nothing */
        skip();
    assert_true(copied_ns < ended_ns / 2);
}

static void a_gpu_that_is_not_there_is_refused(void **state)
{
    (void)state;
    plm_device *none = NULL;
    plm_error error;
    assert_int_equal(plm_device_open("cuda:4000", 0, 0, &none), PLM_ERROR_UNSUPPORTED);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "there is no GPU number 4000: the driver sees "));
    assert_null(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_matches_the_reference),
        cmocka_unit_test(kernels_of_a_repeatable_run_match_the_reference),
        cmocka_unit_test(gradients_of_whole_models_agree_with_the_cpu),
        cmocka_unit_test(twenty_steps_agree_with_the_cpu),
        cmocka_unit_test(forty_random_strategies_use_what_was_predicted),
        cmocka_unit_test(the_predicted_bytes_suffice_and_one_granule_less_is_refused),
        cmocka_unit_test(repeatable_runs_give_the_same_bits_and_making_again_changes_none),
        cmocka_unit_test(steps_submitted_ahead_are_the_steps_one_at_a_time),
        cmocka_unit_test(a_session_may_end_with_steps_in_flight),
        cmocka_unit_test(a_copy_of_inputs_overtakes_what_computes),
        cmocka_unit_test(a_gpu_that_is_not_there_is_refused),
    };
    plm_status status = plm_device_open("cuda", 0, 0, &gpu);
    if (status != PLM_OK) {
        plm_error error;
        plm_error_get(&error);
        printf("skipped: %s\n", error.message);
        return status == PLM_ERROR_UNSUPPORTED ? SKIPPED : 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    plm_device_destroy(gpu);
    return failed;
}
