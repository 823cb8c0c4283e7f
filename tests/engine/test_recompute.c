/* SPDX-License-Identifier: MIT */
/* Recompute: what it must not change, and what it saves. */
#include "plan/plan.h"
#include "engine/fake_plan.h"
#include "engine/small_run.h"

static const char *const rungs[] = {"act", "norm", "mlp", "block", "attention", "act+attention",
                                    "mlp+attention",
                                    /* by name */
                                    "ln1", "attention.qkv", "gelu", "mlp.up", "add+dropout",
                                    "act+attention.qkv", "ln1+attention.qkv+attention+mlp.up+gelu"};

enum { RUNG_COUNT = sizeof rungs / sizeof *rungs, STEPS = 2 };

static const small_shape small = {.layers = 3,
                                  .width = 24,
                                  .heads = 3,
                                  .context = 10,
                                  .vocab = 17,
                                  .batch = 4,
                                  .micro_batch = 2,
                                  .sequence = 10,
                                  .dropout = 0.1f};

typedef struct outcome {
    double loss[STEPS];
    small_values values;
    small_values gradients;
} outcome;

static outcome plain_outcome, other_outcome; /* too large for a stack */

static void train(const small_shape *shape, outcome *seen)
{
    small_run run;
    small_window window;
    small_run_open(&run, shape);
    plm_hyper hyper = plm_hyper_default();
    for (int step = 0; step < STEPS; step++) {
        plm_step_result result;
        small_window_fill(&window, shape->batch * shape->sequence, shape->vocab, (uint32_t)step);
        assert_ok(plm_session_step(run.session, step, &hyper, shape->batch, window.tokens,
                                   window.targets, &result));
        seen->loss[step] = result.loss;
    }
    plm_session_measure measure;
    assert_ok(plm_session_measure_memory(run.session, &measure));
    assert_int_equal(measure.peak_bytes, run.summary.peak_bytes);
    small_values_read(&run, shape, PLM_PART_VALUE, &seen->values);
    small_values_read(&run, shape, PLM_PART_GRADIENT, &seen->gradients);
    small_run_close(&run);
}

static void
losses_gradients_and_parameters_are_the_same_bits_with_and_without_recompute(void **state)
{
    (void)state;
    for (int form = 0; form <= PLM_ATTENTION_PLAIN; form++) {
        small_shape shape = small;
        shape.attention = (plm_attention_form)form;
        train(&shape, &plain_outcome);
        for (int rung = 0; rung < RUNG_COUNT; rung++) {
            shape.recompute = rungs[rung];
            train(&shape, &other_outcome);
            assert_memory_equal(other_outcome.loss, plain_outcome.loss, sizeof plain_outcome.loss);
            assert_true(small_same_bits(&other_outcome.gradients, &plain_outcome.gradients));
            assert_true(small_same_bits(&other_outcome.values, &plain_outcome.values));
        }
    }
}

static plm_plan *small_plan(int layers, const char *recompute)
{
    char text[64];
    fake_device device = fake_device_make(0, 0);
    plm_model model;
    plm_plan *plan = NULL;
    snprintf(text, sizeof text, "gpt:layers=%d,width=8,heads=2,context=4,vocab=5", layers);
    assert_ok(plm_model_parse(text, &model));
    plm_job job = job_of(&model, 1, 4);
    plm_strategy strategy = strategy_of(1, PLM_ATTENTION_FUSED);
    assert_ok(plm_strategy_recompute_parse(&strategy, recompute, &strategy.recompute));
    assert_ok(plm_plan_create(&job, &strategy, &device.head, &plan));
    return plan;
}

/* How many statistics of normalisations are made again for gradients in the blocks. */
static int statistics_made_again(const char *recompute)
{
    plm_plan *plan = small_plan(2, recompute);
    const plm_graph *graph = plan->graph;
    const plm_op_range range = graph->programs[PLM_PROGRAM_FIRST];
    int32_t turn = plm__graph_tensor(graph, graph->loss[PLM_PROGRAM_FIRST])->producer;
    int gradients = 0, again = 0;
    for (int64_t i = range.begin; i < range.end; i++) {
        const plm_op *op = &graph->ops.items[i];
        if (op->kind != PLM_OP_LAYER_NORM_GRAD_INPUT || op->block < 0)
            continue;
        gradients++;
        for (int k = 3; k < 5; k++) /* mean and rstd */
            again += plm__graph_tensor(graph, op->in[k])->producer > turn;
    }
    plm_plan_destroy(plan);
    assert_int_equal(gradients, 4);
    return again;
}

static void mean_and_rstd_are_kept_where_the_normalisation_is_made_again(void **state)
{
    (void)state;
    assert_int_equal(statistics_made_again("none"), 0);
    assert_int_equal(statistics_made_again("norm"), 0);
    assert_int_equal(statistics_made_again("mlp"), 0);
    assert_int_equal(statistics_made_again("block"), 8);
}

/* How often a kind runs in FIRST. */
static int runs_of(int layers, const char *recompute, plm_op_kind kind)
{
    plm_plan *plan = small_plan(layers, recompute);
    const plm_op_range range = plan->graph->programs[PLM_PROGRAM_FIRST];
    int runs = 0;
    for (int64_t i = range.begin; i < range.end; i++)
        runs += plan->graph->ops.items[i].kind == kind;
    plm_plan_destroy(plan);
    return runs;
}

/* A block has four products, of which `mlp` drops the one before the activation function. */
static void a_rung_makes_its_operations_again_in_every_block_and_no_others(void **state)
{
    (void)state;
    for (int layers = 1; layers <= 3; layers++) {
        const int head = 1;
        assert_int_equal(runs_of(layers, "none", PLM_OP_LINEAR), 4 * layers + head);
        assert_int_equal(runs_of(layers, "act", PLM_OP_LINEAR), 4 * layers + head);
        assert_int_equal(runs_of(layers, "act", PLM_OP_GELU), 2 * layers);
        assert_int_equal(runs_of(layers, "act", PLM_OP_LAYER_NORM), 2 * layers + head);
        assert_int_equal(runs_of(layers, "norm", PLM_OP_LAYER_NORM), 4 * layers + head);
        assert_int_equal(runs_of(layers, "norm", PLM_OP_LINEAR), 4 * layers + head);
        assert_int_equal(runs_of(layers, "mlp", PLM_OP_LINEAR), 5 * layers + head);
        assert_int_equal(runs_of(layers, "mlp", PLM_OP_ATTENTION), layers);
        assert_int_equal(runs_of(layers, "attention", PLM_OP_ATTENTION), 2 * layers);
        assert_int_equal(runs_of(layers, "gelu", PLM_OP_GELU), 2 * layers);
    }
}

static size_t transient_of(const char *recompute, plm_attention_form attention)
{
    fake_device device = fake_device_make(0, 0);
    plm_model model;
    plm_plan *plan = NULL;
    assert_ok(plm_model_parse("gpt:layers=12,width=768,heads=12,context=1024,vocab=256", &model));
    plm_job job = job_of(&model, 8, 1024);
    plm_strategy strategy = strategy_of(8, attention);
    assert_ok(plm_strategy_recompute_parse(&strategy, recompute, &strategy.recompute));
    assert_ok(plm_plan_create(&job, &strategy, &device.head, &plan));
    plm_plan_summary summary = plm_plan_summarize(plan);
    assert_int_equal(summary.transient_bytes, summary.transient_bound_bytes);
    plm_plan_destroy(plan);
    return summary.transient_bytes;
}

/*
 * Bytes a token of 12 blocks of width C: 16 C floats are kept of a block, 12 C without the
 * activation function, 10 C without the normalisations, 6 C without the product before it, C when
 * only the block's input is kept.
 */
static void each_rung_keeps_what_the_ladder_says(void **state)
{
    (void)state;
    static const struct {
        const char *rung;
        double kept; /* floats of width C a block */
    } ladder[] = {{"none", 16}, {"act", 12}, {"norm", 10}, {"mlp", 6}, {"block", 1}};
    for (size_t i = 0; i < sizeof ladder / sizeof *ladder; i++) {
        double kept = (double)transient_of(ladder[i].rung, PLM_ATTENTION_FUSED) /
                      (8.0 * 1024 * 768 * sizeof(float));
        double blocks = 12 * ladder[i].kept;
        /* beyond the blocks: one block's own backward or recompute, and statistics of a few numbers
         * a row */
        assert_in_range((int)(kept - blocks), 0, 24);
    }
}

static void attention_that_is_recomputed_is_not_kept_in_any_block(void **state)
{
    (void)state;
    size_t matrix = (size_t)8 * 12 * 1024 * 1024 * sizeof(float);
    size_t kept = transient_of("none", PLM_ATTENTION_PLAIN);
    size_t made_again = transient_of("attention", PLM_ATTENTION_PLAIN);
    assert_true(kept - made_again > 10 * matrix);
}

/* What a rung drops can be said by names; what no rung drops too. */
static void a_name_drops_what_the_operation_makes(void **state)
{
    (void)state;
    size_t width = (size_t)8 * 1024 * 768 * sizeof(float);
    size_t none = transient_of("none", PLM_ATTENTION_FUSED);
    size_t qkv = transient_of("attention.qkv", PLM_ATTENTION_FUSED);
    assert_int_equal(transient_of("gelu", PLM_ATTENTION_FUSED),
                     transient_of("act", PLM_ATTENTION_FUSED));
    assert_int_equal(transient_of("attention scores+softmax+attention apply", PLM_ATTENTION_PLAIN),
                     transient_of("attention", PLM_ATTENTION_PLAIN));
    assert_true(none - qkv > 11 * 3 * width && none - qkv <= 12 * 3 * width);
}

static plm_status plan_with(plm_strategy strategy)
{
    fake_device device = fake_device_make(0, 0);
    plm_model model;
    plm_plan *plan = NULL;
    assert_ok(plm_model_parse("gpt:layers=2,width=8,heads=2,context=4,vocab=5", &model));
    plm_job job = job_of(&model, 1, 4);
    plm_status status = plm_plan_create(&job, &strategy, &device.head, &plan);
    plm_plan_destroy(plan);
    return status;
}

static void blocks_may_differ_by_name(void **state)
{
    (void)state;
    static const char text[] = "{\"micro_batch\": 1, \"recompute\": [{\"rung\": \"ln1\", "
                               "\"blocks\": 1}, {\"rung\": \"act+attention.qkv\", \"blocks\": 1}]}";
    plm_strategy strategy, again;
    char *line = NULL;
    assert_ok(plm_strategy_read("text", text, sizeof text - 1, &strategy));
    assert_ok(plan_with(strategy));
    assert_ok(plm_strategy_json(&strategy, &line));
    assert_non_null(strstr(line, "\"act+attention.qkv\""));
    assert_ok(plm_strategy_read("line", line, strlen(line), &again));
    assert_memory_equal(&again, &strategy, sizeof again);
    plm_free(line);
}

static void a_name_that_no_block_has_is_refused_with_those_there_are(void **state)
{
    (void)state;
    plm_strategy strategy = strategy_of(1, PLM_ATTENTION_FUSED);
    plm_error error;
    assert_ok(plm_strategy_recompute_parse(&strategy, "act+attention.qvk", &strategy.recompute));
    assert_int_equal(plan_with(strategy), PLM_ERROR_ARGUMENT);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "ln1, attention.qkv, attention, attention.out, add, ln2, "
                                          "mlp.up, gelu, mlp.down), found 'attention.qvk'"));
    /* an operation outside of blocks has no name here */
    strategy = strategy_of(1, PLM_ATTENTION_FUSED);
    assert_ok(plm_strategy_recompute_parse(&strategy, "logits+embedding", &strategy.recompute));
    assert_int_equal(plan_with(strategy), PLM_ERROR_ARGUMENT);
}

static void blocks_that_are_not_there_are_refused(void **state)
{
    (void)state;
    plm_strategy strategy = strategy_of(1, PLM_ATTENTION_FUSED);
    strategy.recompute_count = 2;
    assert_ok(plan_with(strategy));
    strategy.recompute_count = 3;
    assert_int_equal(plan_with(strategy), PLM_ERROR_ARGUMENT);
    plm_error error;
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "3 blocks"));
}

static plm_status plan_recomputed(void *context)
{
    plm_strategy strategy = strategy_of(1, PLM_ATTENTION_PLAIN);
    (void)context;
    assert_ok(plm_strategy_recompute_parse(&strategy, "block+mlp.up", &strategy.recompute));
    return plan_with(strategy);
}

static void recompute_survives_the_failure_of_every_allocation(void **state)
{
    (void)state;
    sweep_failures(plan_recomputed, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            losses_gradients_and_parameters_are_the_same_bits_with_and_without_recompute),
        cmocka_unit_test(mean_and_rstd_are_kept_where_the_normalisation_is_made_again),
        cmocka_unit_test(a_rung_makes_its_operations_again_in_every_block_and_no_others),
        cmocka_unit_test(each_rung_keeps_what_the_ladder_says),
        cmocka_unit_test(attention_that_is_recomputed_is_not_kept_in_any_block),
        cmocka_unit_test(a_name_drops_what_the_operation_makes),
        cmocka_unit_test(blocks_may_differ_by_name),
        cmocka_unit_test(a_name_that_no_block_has_is_refused_with_those_there_are),
        cmocka_unit_test(blocks_that_are_not_there_are_refused),
        cmocka_unit_test(recompute_survives_the_failure_of_every_allocation),
    };
    return run_test_group(tests);
}
