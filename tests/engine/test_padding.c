/* SPDX-License-Identifier: MIT */
/*
 * A device that wants aligned rows holds a larger table of tokens than the model has. Nobody sees
 * more of that than the bill: losses, gradients, parameters, logits, limits and files are those of
 * the model, and a run goes on from a checkpoint on either kind of device.
 */
#include "engine/fake_plan.h"
#include "engine/small_run.h"

#include <unistd.h>

#include "plan/plan.h"
#include "plimsoll/device_profile.h"
#include "run/session.h"
#include "train/checkpoint.h"
#include "unit/scratch.h"

enum { VOCAB = 37, MULTIPLE = 64, STEPS = 5, BATCH = 4, LENGTH = 12 };

/* The runs that the padding could touch; each is made with it and without. */
static const small_shape shapes[] = {
    {.family = "gpt"},
    {.family = "bert"},
    {.family = "bert", .head_chunks = 5},
    {.family = "gpt", .update = PLM_UPDATE_EARLY, .micro_batch = BATCH},
    {.family = "gpt", .precision = PLM_DTYPE_BF16, .head_chunks = 3},
    {.family = "bert", .precision = PLM_DTYPE_F16},
    {.family = "gpt",
     .precision = PLM_DTYPE_BF16,
     .gradient = PLM_DTYPE_BF16,
     .micro_batch = BATCH},
    {.family = "gpt", .optimizer = PLM_OPTIMIZER_SGD, .recompute = "block"},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static small_shape whole(small_shape shape, int64_t row_multiple)
{
    shape.layers = 2;
    shape.width = 16;
    shape.heads = 2;
    shape.context = LENGTH;
    shape.vocab = VOCAB;
    shape.batch = BATCH;
    shape.micro_batch = shape.micro_batch ? shape.micro_batch : 2;
    shape.sequence = LENGTH;
    shape.dropout = 0.1f;
    shape.row_multiple = row_multiple;
    shape.seed = 5;
    return shape;
}

static plm_step_result train_a_step(small_run *run, int64_t step)
{
    static small_window window;
    plm_step_result result;
    plm_hyper hyper = plm_hyper_default();
    hyper.clip_norm = run->strategy.update == PLM_UPDATE_EARLY ? 0 : 1;
    small_window_fill(&window, BATCH * LENGTH, VOCAB, (uint32_t)step + 1);
    assert_ok(plm_session_step(run->session, step, &hyper, BATCH, window.tokens, window.targets,
                               &result));
    return result;
}

static void assert_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * fabs(b)))
        fail_msg("%.17g with padding, %.17g without", a, b);
}

static void assert_same_part(const small_run *padded, const small_run *plain,
                             const small_shape *shape, plm_parameter_part part)
{
    static small_values a, b;
    const double tolerance = shape->precision == PLM_DTYPE_F32 ? 1e-5 : 1e-2;
    small_values_read(padded, shape, part, &a);
    small_values_read(plain, shape, part, &b);
    if (!(small_difference(&a, &b) <= tolerance))
        fail_msg("part %d differs by %g", (int)part, small_difference(&a, &b));
}

/* The rows of padding of the table of tokens, every fp32 part of which is 0. */
static void assert_padding_is_zero(const small_run *run)
{
    static float rows[(MULTIPLE - VOCAB) * 16];
    for (int part = 0; part < 4; part++) {
        bool half = part == PLM_PART_GRADIENT && run->strategy.gradient != PLM_DTYPE_F32;
        if (half || !plm__session_has_part(run->session, 0, (plm_parameter_part)part))
            continue;
        assert_ok(plm__session_copy_out(run->session, 0, (plm_parameter_part)part,
                                        (size_t)VOCAB * 16 * sizeof(float), sizeof rows, rows));
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            assert_true(rows[i] == 0);
    }
}

static void losses_gradients_parameters_and_logits_are_those_without_padding(void **state)
{
    (void)state;
    for (int s = 0; s < SHAPES; s++) {
        const small_shape with = whole(shapes[s], MULTIPLE), without = whole(shapes[s], 0);
        const double tolerance = with.precision == PLM_DTYPE_F32 ? 1e-6 : 1e-3;
        small_run padded, plain;
        float seen[2][VOCAB];
        const int32_t tokens[3] = {1, 36, 7};
        small_run_open(&padded, &with);
        small_run_open(&plain, &without);
        assert_same_part(&padded, &plain, &with, PLM_PART_VALUE);
        for (int64_t step = 0; step < STEPS; step++) {
            plm_step_result a = train_a_step(&padded, step), b = train_a_step(&plain, step);
            assert_near(a.loss, b.loss, tolerance);
            assert_near(a.gradient_norm, b.gradient_norm, 10 * tolerance);
            assert_false(a.skipped);
        }
        if (with.update != PLM_UPDATE_EARLY)
            assert_same_part(&padded, &plain, &with, PLM_PART_GRADIENT);
        assert_same_part(&padded, &plain, &with, PLM_PART_VALUE);
        assert_same_part(&padded, &plain, &with, PLM_PART_MOMENT1);
        assert_ok(plm_session_generate(padded.session, 3, tokens, VOCAB, seen[0]));
        assert_ok(plm_session_generate(plain.session, 3, tokens, VOCAB, seen[1]));
        for (int v = 0; v < VOCAB; v++)
            assert_true(fabs((double)seen[0][v] - (double)seen[1][v]) <= 10 * tolerance);
        assert_padding_is_zero(&padded);
        small_run_close(&padded);
        small_run_close(&plain);
    }
}

static void ids_of_the_padding_are_refused(void **state)
{
    (void)state;
    const small_shape shape = whole(shapes[0], MULTIPLE);
    small_run run;
    static small_window window;
    const plm_hyper hyper = plm_hyper_default();
    plm_step_result result;
    float logits[MULTIPLE], *values = calloc(MULTIPLE * 16, sizeof *values);
    small_run_open(&run, &shape);
    for (int32_t id = VOCAB - 1; id <= VOCAB; id++) {
        const plm_status wanted = id < VOCAB ? PLM_OK : PLM_ERROR_ARGUMENT;
        small_window_fill(&window, BATCH * LENGTH, VOCAB, 1);
        window.tokens[3] = id;
        assert_int_equal(
            plm_session_step(run.session, 0, &hyper, BATCH, window.tokens, window.targets, &result),
            wanted);
        window.tokens[3] = 0;
        window.targets[5] = id;
        assert_int_equal(
            plm_session_step(run.session, 0, &hyper, BATCH, window.tokens, window.targets, &result),
            wanted);
    }
    assert_int_equal(plm_session_generate(run.session, 1, window.tokens, MULTIPLE, logits),
                     PLM_ERROR_ARGUMENT);
    assert_int_equal(plm_session_read(run.session, "embedding.token.weight", PLM_PART_VALUE,
                                      (int64_t)MULTIPLE * 16, values),
                     PLM_ERROR_ARGUMENT);
    free(values);
    small_run_close(&run);
}

/* Saves a run on one kind of device and goes on on the other: as if it had stayed. */
static void resume_across(const small_shape *from, const small_shape *to)
{
    char folder[SCRATCH_BYTES], path[SCRATCH_BYTES + 64];
    small_run first, second;
    int64_t step = -1;
    small_run_open(&first, from);
    small_run_open(&second, to);
    const plm_train_settings settings = {
        .model = first.model, .batch = BATCH, .sequence = LENGTH, .seed = from->seed};
    const plm_corpus_counts text = {.training_tokens = 180, .held_out_tokens = 20, .checksum = 7};
    assert_true(scratch_folder(folder));
    train_a_step(&first, 0);
    train_a_step(&first, 1);
    assert_ok(plm__checkpoint_save(folder, 1, &settings, &text, 2, first.session));
    assert_ok(plm__checkpoint_load(folder, &settings, &text, second.session, &step));
    assert_int_equal(step, 2);
    for (step = 2; step < STEPS; step++) {
        double stayed = train_a_step(&first, step).loss;
        assert_near(train_a_step(&second, step).loss, stayed,
                    from->precision == PLM_DTYPE_F32 ? 1e-6 : 1e-3);
    }
    if (to->row_multiple)
        assert_padding_is_zero(&second);
    snprintf(path, sizeof path, "%s/step-%08d.safetensors", folder, 2);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    small_run_close(&first);
    small_run_close(&second);
}

static void a_checkpoint_goes_from_one_kind_of_device_to_the_other_and_back(void **state)
{
    (void)state;
    for (int s = 0; s < SHAPES; s++) {
        const small_shape with = whole(shapes[s], MULTIPLE), without = whole(shapes[s], 0);
        resume_across(&without, &with);
        resume_across(&with, &without);
    }
}

/* The first extent of the tensor of this name, the largest where it has several. */
static int64_t rows_named(const plm_plan *plan, const char *name, bool columns)
{
    int64_t most = 0;
    for (int64_t i = 0; i < plan->graph->tensors.count; i++) {
        const plm_tensor_info *info = &plan->graph->tensors.items[i];
        int64_t extent = info->shape.dims[columns ? info->shape.rank - 1 : 0];
        if (strcmp(plm__intern_text(&plan->graph->names, info->name), name) == 0 && extent > most)
            most = extent;
    }
    return most;
}

static void a_vocabulary_that_fits_is_not_padded_and_one_more_row_is(void **state)
{
    (void)state;
    const struct {
        const char *description;
        int64_t rows;
    } cases[] = {
        {"gpt:layers=1,width=16,heads=1,context=4,vocab=63", 64},
        {"gpt:layers=1,width=16,heads=1,context=4,vocab=64", 64},
        {"gpt:layers=1,width=16,heads=1,context=4,vocab=65", 128},
    };
    plm_device_table table = fake_device_table;
    table.row_multiple = MULTIPLE;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_device plain = fake_device_make(0, 0), device = plain;
        device.head.table = &table;
        plm_plan *padded = plan_of(cases[i].description, 2, 2, PLM_ATTENTION_FUSED, &device);
        plm_plan *without = plan_of(cases[i].description, 2, 2, PLM_ATTENTION_FUSED, &plain);
        assert_int_equal(rows_named(padded, "embedding.token.weight", false), cases[i].rows);
        assert_int_equal(rows_named(padded, "logits", true), cases[i].rows);
        assert_int_equal(rows_named(without, "logits", true), 63 + (int64_t)i);
        assert_int_equal(plm_plan_summarize(padded).parameter_count,
                         plm_plan_summarize(without).parameter_count);
        assert_true((plm_plan_summarize(padded).persistent_bytes >
                     plm_plan_summarize(without).persistent_bytes) == (i != 1));
        plm_plan_destroy(padded);
        plm_plan_destroy(without);
    }
}

static void a_plan_for_a_gpu_has_50304_rows_for_a_vocabulary_of_50257(void **state)
{
    (void)state;
    plm_device_profile profile;
    plm_device *device = NULL;
    plm_model model;
    plm_plan *plan = NULL;
    const plm_strategy strategy = strategy_of(1, PLM_ATTENTION_FUSED);
    assert_ok(plm_device_profile_find("h200", &profile));
    assert_ok(plm_device_create_target(&profile, &device));
    assert_ok(plm_model_parse("gpt2", &model));
    const plm_job job = job_of(&model, 1, 1024);
    assert_ok(plm_plan_create(&job, &strategy, device, &plan));
    assert_int_equal(rows_named(plan, "embedding.token.weight", false), 50304);
    assert_int_equal(rows_named(plan, "logits", true), 50304);
    assert_int_equal(plm_plan_summarize(plan).parameter_count, 124439808);
    plm_plan_destroy(plan);
    plm_device_destroy(device);
}

static void a_parameter_is_padded_at_every_call_or_at_none(void **state)
{
    (void)state;
    const plm_strategy strategy = strategy_of(1, PLM_ATTENTION_FUSED);
    const int64_t shape[2] = {VOCAB, 4};
    for (int64_t multiple = 1; multiple <= MULTIPLE; multiple *= MULTIPLE) {
        plm_graph *graph = NULL;
        assert_ok(plm__graph_create(&strategy, &graph));
        graph->row_multiple = multiple;
        plm__graph_begin(graph, PLM_PROGRAM_FIRST);
        plm_tensor made = plm_parameter_padded(graph, "t", 2, shape, plm_init_constant(0), true);
        assert_int_equal(made,
                         plm_parameter_padded(graph, "t", 2, shape, plm_init_constant(0), true));
        plm_parameter(graph, "t", 2, shape, plm_init_constant(0), true);
        assert_int_equal(plm__graph_status(graph), multiple == 1 ? PLM_OK : PLM_ERROR_ARGUMENT);
        plm__graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_gradients_parameters_and_logits_are_those_without_padding),
        cmocka_unit_test(ids_of_the_padding_are_refused),
        cmocka_unit_test(a_checkpoint_goes_from_one_kind_of_device_to_the_other_and_back),
        cmocka_unit_test(a_vocabulary_that_fits_is_not_padded_and_one_more_row_is),
        cmocka_unit_test(a_parameter_is_padded_at_every_call_or_at_none),
        cmocka_unit_test(a_plan_for_a_gpu_has_50304_rows_for_a_vocabulary_of_50257),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
