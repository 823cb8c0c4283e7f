/* SPDX-License-Identifier: MIT */
/* Head chunks: the same losses and gradients but for the order of sums, and logits never whole. */
#include "unit/fake_plan.h"
#include "unit/small_run.h"

static const small_shape small = {.layers = 2,
                                  .width = 24,
                                  .heads = 3,
                                  .context = 10,
                                  .vocab = 17,
                                  .batch = 4,
                                  .micro_batch = 2,
                                  .sequence = 10,
                                  .dropout = 0.1f};

typedef struct outcome {
    double loss;
    double evaluated;
    small_values gradients;
} outcome;

static outcome whole, cut; /* too large for a stack */

static void train(const small_shape *shape, outcome *seen)
{
    small_run run;
    small_window window;
    plm_step_result result;
    plm_session_measure measure;
    int64_t counted;
    small_run_open(&run, shape);
    plm_hyper hyper = plm_hyper_default();
    small_window_fill(&window, shape->batch * shape->sequence, shape->vocab, 5);
    assert_ok(plm_session_evaluate(run.session, shape->batch, window.tokens, window.targets,
                                   &seen->evaluated, &counted));
    assert_ok(plm_session_step(run.session, 0, &hyper, shape->batch, window.tokens, window.targets,
                               &result));
    seen->loss = result.loss;
    assert_ok(plm_session_measure_memory(run.session, &measure));
    assert_int_equal(measure.peak_bytes, run.summary.peak_bytes);
    assert_true(measure.last_granule_written);
    small_values_read(&run, shape, PLM_PART_GRADIENT, &seen->gradients);
    small_run_close(&run);
}

/* Only the weight's gradient of the head is summed in another order: a few units in the last place
 * of fp32. */
static void chunks_change_nothing_but_the_order_of_sums(void **state)
{
    (void)state;
    train(&small, &whole);
    static const int64_t chunks[] = {2, 3, 7, 20}; /* of 20 rows */
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        small_shape shape = small;
        shape.head_chunks = chunks[i];
        train(&shape, &cut);
        assert_true(fabs(cut.loss - whole.loss) < 1e-6 * whole.loss);
        assert_true(fabs(cut.evaluated - whole.evaluated) < 1e-6 * whole.evaluated);
        assert_true(small_difference(&cut.gradients, &whole.gradients) < 2e-6);
    }
}

static void chunks_and_recompute_together_are_the_same_bits_as_chunks_alone(void **state)
{
    (void)state;
    small_shape shape = small;
    shape.head_chunks = 4;
    train(&shape, &whole);
    shape.recompute = "block";
    train(&shape, &cut);
    assert_true(cut.loss == whole.loss);
    assert_true(small_same_bits(&cut.gradients, &whole.gradients));
}

static plm_status plan_chunks(int64_t chunks, plm_plan_summary *summary)
{
    fake_device device = fake_device_make(0, 0);
    plm_model model;
    plm_plan *plan = NULL;
    assert_ok(plm_model_parse("gpt2", &model));
    plm_job job = job_of(&model, 2, 1024);
    plm_strategy strategy = strategy_of(2, PLM_ATTENTION_FUSED);
    strategy.head_chunks = chunks;
    plm_status status = plm_plan_create(&job, &strategy, &device.head, &plan);
    if (status == PLM_OK)
        *summary = plm_plan_summarize(plan);
    plm_plan_destroy(plan);
    return status;
}

static void more_chunks_hold_fewer_logits(void **state)
{
    (void)state;
    plm_plan_summary one, eight;
    size_t logits = (size_t)2 * 1024 * 50257 * sizeof(float);
    assert_ok(plan_chunks(1, &one));
    assert_ok(plan_chunks(8, &eight));
    /* what was the peak is an eighth; the gradient that leaves the head is now whole beside it */
    assert_true(one.transient_bytes - eight.transient_bytes > logits * 6 / 8);
    assert_int_equal(eight.transient_bytes, eight.transient_bound_bytes);
}

static void more_chunks_than_rows_are_refused(void **state)
{
    (void)state;
    plm_plan_summary summary;
    assert_ok(plan_chunks(2048, &summary));
    assert_int_equal(plan_chunks(2049, &summary), PLM_ERROR_ARGUMENT);
}

static plm_status plan_small(void *context)
{
    fake_device device = fake_device_make(0, 0);
    plm_model model;
    plm_plan *plan = NULL;
    plm_trace *trace = NULL;
    (void)context;
    assert_ok(plm_model_parse("gpt:layers=1,width=8,heads=2,context=4,vocab=5", &model));
    plm_job job = job_of(&model, 2, 4);
    plm_strategy strategy = strategy_of(1, PLM_ATTENTION_FUSED);
    strategy.head_chunks = 3;
    plm_status status = plm_plan_create(&job, &strategy, &device.head, &plan);
    if (status == PLM_OK)
        status = plm_plan_trace(plan, &trace);
    plm_trace_destroy(trace);
    plm_plan_destroy(plan);
    return status;
}

static void chunking_survives_the_failure_of_every_allocation(void **state)
{
    (void)state;
    sweep_failures(plan_small, NULL);
}

static void the_trace_of_a_chunked_plan_peaks_at_its_lower_bound(void **state)
{
    (void)state;
    fake_device device = fake_device_make(640, 0);
    plm_model model;
    plm_plan *plan = NULL;
    plm_bill *bill = NULL;
    assert_ok(plm_model_parse("gpt:layers=2,width=16,heads=2,context=8,vocab=300", &model));
    plm_job job = job_of(&model, 4, 8);
    plm_strategy strategy = strategy_of(2, PLM_ATTENTION_FUSED);
    strategy.head_chunks = 5;
    assert_ok(plm_recompute_parse("mlp", &strategy.recompute));
    assert_ok(plm_plan_create(&job, &strategy, &device.head, &plan));
    assert_ok(plm_plan_bill(plan, "small", 0, &bill));
    assert_int_equal(bill->live_bytes, plm_plan_summarize(plan).lower_bound_bytes);
    plm_bill_destroy(bill);
    plm_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_change_nothing_but_the_order_of_sums),
        cmocka_unit_test(chunks_and_recompute_together_are_the_same_bits_as_chunks_alone),
        cmocka_unit_test(more_chunks_hold_fewer_logits),
        cmocka_unit_test(more_chunks_than_rows_are_refused),
        cmocka_unit_test(chunking_survives_the_failure_of_every_allocation),
        cmocka_unit_test(the_trace_of_a_chunked_plan_peaks_at_its_lower_bound),
    };
    return run_test_group(tests);
}
