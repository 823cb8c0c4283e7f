/* SPDX-License-Identifier: MIT */
/* Chunks of the head and of MLPs: the same losses and gradients but for the order of sums, and what
 * is wide never whole. */
#include "plan/plan.h"
#include "engine/fake_plan.h"
#include "engine/small_run.h"
#include "graph/strategy.h"

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

/* One early or late update without clipping, and the parameters after it. */
static void train_values(const small_shape *shape, outcome *seen)
{
    small_run run;
    small_window window;
    plm_step_result result;
    small_run_open(&run, shape);
    plm_hyper hyper = plm_hyper_default();
    hyper.clip_norm = 0;
    small_window_fill(&window, shape->batch * shape->sequence, shape->vocab, 5);
    assert_ok(plm_session_step(run.session, 0, &hyper, shape->batch, window.tokens, window.targets,
                               &result));
    seen->loss = result.loss;
    small_values_read(&run, shape, PLM_PART_VALUE, &seen->gradients);
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

/*
 * Gradients of an MLP's weights and biases are summed over 20 rows, chunk by chunk. In either order
 * a sum of n terms is off by less than n u times their sizes' sum, u = 2^-24, and by about sqrt(n)
 * u of it when roundings are not all of one sign: 2 sqrt(20) u = 5e-7 of the norm, to which the
 * products of another kernel for fewer rows add as much.
 */
static void mlp_chunks_change_nothing_but_the_order_of_sums(void **state)
{
    (void)state;
    static const int64_t chunks[] = {2, 3, 7, 20};
    static const char *const recompute[] = {"mlp", "block", "mlp+attention"};
    for (int family = 0; family < 2; family++) {
        small_shape shape = small;
        shape.family = family ? "bert" : "gpt";
        shape.recompute = "none";
        shape.mlp_chunks = 1;
        train(&shape, &whole);
        for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
            shape.mlp_chunks = chunks[i];
            shape.recompute = recompute[i % 3];
            shape.head_chunks = 1 + (int64_t)i % 2;
            train(&shape, &cut);
            assert_true(fabs(cut.loss - whole.loss) < 1e-6 * whole.loss);
            assert_true(fabs(cut.evaluated - whole.evaluated) < 1e-6 * whole.evaluated);
            assert_true(small_difference(&cut.gradients, &whole.gradients) < 1e-6);
            assert_false(small_same_bits(&cut.gradients, &whole.gradients));
        }
    }
}

/* Where nothing is made again training has no MLP to cut. */
static void an_mlp_that_is_kept_is_not_cut(void **state)
{
    (void)state;
    small_shape shape = small;
    static const char *const recompute[] = {"none", "act", "norm", "attention"};
    train(&shape, &whole);
    shape.mlp_chunks = 5;
    for (size_t i = 0; i < sizeof recompute / sizeof *recompute; i++) {
        shape.recompute = recompute[i];
        train(&shape, &cut);
        assert_true(cut.loss == whole.loss);
        assert_true(small_same_bits(&cut.gradients, &whole.gradients));
    }
}

static void mlp_chunks_update_early_as_late(void **state)
{
    (void)state;
    small_shape shape = small;
    shape.micro_batch = shape.batch;
    shape.mlp_chunks = 3;
    shape.head_chunks = 2;
    shape.recompute = "block";
    for (int i = 0; i < 2; i++) {
        shape.precision = i ? PLM_DTYPE_BF16 : PLM_DTYPE_F32;
        shape.update = PLM_UPDATE_LATE;
        train_values(&shape, &whole);
        shape.update = PLM_UPDATE_EARLY;
        train_values(&shape, &cut);
        assert_true(cut.loss == whole.loss);
        assert_true(small_same_bits(&cut.gradients, &whole.gradients));
    }
}

/* Sums of weights' gradients are fp32 whatever the weights are. What is in between is rounded to 8
 * or 11 bits row by row, chunks or none: the order of fp32 sums may carry one over a rounding now
 * and then, 2^-8 or 2^-11 of it, and gradients of a few layers hold a few of those. */
static void mlp_chunks_go_with_16_bits(void **state)
{
    (void)state;
    static const plm_dtype precisions[] = {PLM_DTYPE_BF16, PLM_DTYPE_F16};
    for (int i = 0; i < 2; i++) {
        small_shape shape = small;
        double rounding = precisions[i] == PLM_DTYPE_BF16 ? 0x1p-8 : 0x1p-11;
        shape.precision = precisions[i];
        shape.recompute = "mlp";
        train(&shape, &whole);
        shape.mlp_chunks = 4;
        train(&shape, &cut);
        assert_true(fabs(cut.loss - whole.loss) < rounding * whole.loss);
        assert_true(small_difference(&cut.gradients, &whole.gradients) < 2 * rounding);
    }
}

static plm_status plan_mlp(int64_t chunks, const char *recompute, plm_dtype gradient,
                           plm_plan_summary *summary)
{
    fake_device device = fake_device_make(0, 0);
    plm_model model;
    plm_plan *plan = NULL;
    assert_ok(plm_model_parse("gpt:layers=4,width=768,heads=12,context=1024,vocab=64", &model));
    plm_job job = job_of(&model, 2, 1024);
    plm_strategy strategy = strategy_of(2, PLM_ATTENTION_FUSED);
    strategy.mlp_chunks = chunks;
    strategy.precision = gradient;
    strategy.gradient = gradient;
    assert_ok(plm__recompute_parse(recompute, &strategy.recompute));
    plm_status status = plm_plan_create(&job, &strategy, &device.head, &plan);
    if (status == PLM_OK)
        *summary = plm_plan_summarize(plan);
    plm_plan_destroy(plan);
    return status;
}

/* Of the backward of one block three tensors of width 4C are there at once, or a sixteenth of
 * them and beside them the gradient that leaves. */
static void an_mlp_in_chunks_is_never_held_whole(void **state)
{
    (void)state;
    plm_plan_summary one, sixteen;
    size_t narrow = (size_t)2 * 1024 * 768 * sizeof(float);
    assert_ok(plan_mlp(1, "block", PLM_DTYPE_F32, &one));
    assert_ok(plan_mlp(16, "block", PLM_DTYPE_F32, &sixteen));
    print_message("transient: whole %.2f, in 16 chunks %.2f widths of the model\n",
                  (double)one.transient_bytes / (double)narrow,
                  (double)sixteen.transient_bytes / (double)narrow);
    assert_true(sixteen.transient_bytes + 2 * narrow < one.transient_bytes);
    assert_int_equal(sixteen.transient_bytes, sixteen.transient_bound_bytes);
}

static void mlp_chunks_that_do_not_go_are_refused(void **state)
{
    (void)state;
    plm_plan_summary summary;
    assert_ok(plan_mlp(2048, "mlp", PLM_DTYPE_F32, &summary));
    assert_int_equal(plan_mlp(2049, "mlp", PLM_DTYPE_F32, &summary), PLM_ERROR_ARGUMENT);
    assert_int_equal(plan_mlp(0, "mlp", PLM_DTYPE_F32, &summary), PLM_ERROR_ARGUMENT);
    assert_ok(plan_mlp(1, "mlp", PLM_DTYPE_BF16, &summary));
    assert_int_equal(plan_mlp(2, "mlp", PLM_DTYPE_BF16, &summary), PLM_ERROR_ARGUMENT);
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

/* A million rows, each a chunk of four operations and more. */
static void more_chunks_than_a_graph_can_hold_are_refused_at_once(void **state)
{
    (void)state;
    fake_device device = fake_device_make(0, 0);
    plm_model model;
    plm_plan *plan = NULL;
    assert_ok(plm_model_parse("gpt:layers=1,width=8,heads=2,context=1024,vocab=5", &model));
    plm_job job = job_of(&model, 1024, 1024);
    plm_strategy strategy = strategy_of(1024, PLM_ATTENTION_FUSED);
    strategy.head_chunks = 1 << 20;
    assert_int_equal(plm_plan_create(&job, &strategy, &device.head, &plan), PLM_ERROR_OVERFLOW);
    strategy.head_chunks = 1;
    strategy.mlp_chunks = 1 << 20;
    strategy.recompute = PLM_RECOMPUTE_BLOCK;
    assert_int_equal(plm_plan_create(&job, &strategy, &device.head, &plan), PLM_ERROR_OVERFLOW);
    strategy.recompute = PLM_RECOMPUTE_NONE; /* nothing is cut, yet treatments multiply the count */
    strategy.mlp_chunks = INT64_MAX / 2;
    assert_int_equal(plm_plan_create(&job, &strategy, &device.head, &plan), PLM_ERROR_ARGUMENT);
    assert_null(plan);
}

/* A product right before that of the logits. */
static void build_two_products(plm_graph *g, const void *config, plm_program program, int64_t batch,
                               int64_t sequence)
{
    (void)config, (void)program;
    plm_tensor tokens = plm_input(g, "tokens", 2, (int64_t[]){batch, sequence});
    plm_tensor targets = plm_input(g, "targets", 2, (int64_t[]){batch, sequence});
    plm_tensor table = plm_parameter(g, "table", 2, (int64_t[]){7, 8}, plm_init_normal(1), true);
    plm_tensor inner = plm_parameter(g, "inner", 2, (int64_t[]){8, 8}, plm_init_normal(1), true);
    plm_tensor x = plm_linear(g, plm_embedding(g, tokens, table), inner, PLM_TENSOR_NONE);
    plm_cross_entropy(g, plm_linear(g, x, table, PLM_TENSOR_NONE), targets);
}

static void the_head_ends_with_the_gradient_that_leaves_it(void **state)
{
    (void)state;
    fake_device device = fake_device_make(0, 0);
    plm_plan *plan = NULL;
    plm_job job = {
        .network = {build_two_products, NULL}, .batch = 2, .sequence = 4, .trains = true};
    plm_strategy strategy = strategy_of(2, PLM_ATTENTION_FUSED);
    strategy.head_chunks = 2;
    assert_ok(plm_plan_create(&job, &strategy, &device.head, &plan));
    const plm_op_range range = plan->graph->programs[PLM_PROGRAM_FIRST];
    int weights = 0, inputs = 0;
    for (int64_t i = range.begin; i < range.end; i++) {
        weights += plan->graph->ops.items[i].kind == PLM_OP_LINEAR_GRAD_WEIGHT;
        inputs += plan->graph->ops.items[i].kind == PLM_OP_LINEAR_GRAD_INPUT;
    }
    plm_plan_destroy(plan);
    assert_int_equal(weights, 2 + 1); /* two chunks of the head, the inner product whole */
    assert_int_equal(inputs, 2 + 1);
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
    strategy.head_chunks = strategy.mlp_chunks = 3;
    strategy.recompute = PLM_RECOMPUTE_BLOCK;
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
    strategy.mlp_chunks = 3;
    assert_ok(plm__recompute_parse("mlp", &strategy.recompute));
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
        cmocka_unit_test(mlp_chunks_change_nothing_but_the_order_of_sums),
        cmocka_unit_test(an_mlp_that_is_kept_is_not_cut),
        cmocka_unit_test(mlp_chunks_update_early_as_late),
        cmocka_unit_test(mlp_chunks_go_with_16_bits),
        cmocka_unit_test(an_mlp_in_chunks_is_never_held_whole),
        cmocka_unit_test(mlp_chunks_that_do_not_go_are_refused),
        cmocka_unit_test(more_chunks_hold_fewer_logits),
        cmocka_unit_test(more_chunks_than_rows_are_refused),
        cmocka_unit_test(the_head_ends_with_the_gradient_that_leaves_it),
        cmocka_unit_test(more_chunks_than_a_graph_can_hold_are_refused_at_once),
        cmocka_unit_test(chunking_survives_the_failure_of_every_allocation),
        cmocka_unit_test(the_trace_of_a_chunked_plan_peaks_at_its_lower_bound),
    };
    return run_test_group(tests);
}
