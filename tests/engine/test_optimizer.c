/* SPDX-License-Identifier: MIT */
/*
 * The choice of the optimizer: which operations the update has, which moments are held and billed,
 * that what is predicted is what a run takes, and that checkpoints save and resume what exists.
 */
#include "pass/pass.h"
#include "plimsoll/bill.h"
#include "plimsoll/train.h"
#include "engine/small_run.h"

static const small_shape usual = {.layers = 1,
                                  .width = 16,
                                  .heads = 2,
                                  .context = 8,
                                  .vocab = 128,
                                  .batch = 4,
                                  .micro_batch = 2,
                                  .sequence = 8};

static small_shape shape_with(plm_optimizer optimizer)
{
    small_shape shape = usual;
    shape.optimizer = optimizer;
    return shape;
}

/* ---- the update ----------------------------------------------------------------------------- */

static void sgd_updates_each_group_with_one_moment(void **state)
{
    (void)state;
    small_run run;
    small_shape shape = shape_with(PLM_OPTIMIZER_SGD);
    plm_graph *g = NULL;
    small_run_describe(&run, &shape);
    assert_ok(plm__graph_create(&run.strategy, &g));
    plm__graph_begin(g, PLM_PROGRAM_FIRST);
    run.job.network.build(g, run.job.network.config, PLM_PROGRAM_FIRST, 2, 8);
    assert_ok(plm__pass_update(g, PLM_OPTIMIZER_SGD));
    plm_op_range range = g->programs[PLM_PROGRAM_UPDATE];
    assert_int_equal(range.end - range.begin, 1 + PLM_GROUP_COUNT);
    assert_int_equal(g->ops.items[range.begin].kind, PLM_OP_GRADIENT_NORM);
    for (int group = 0; group < PLM_GROUP_COUNT; group++) {
        const plm_op *op = &g->ops.items[range.begin + 1 + group];
        assert_int_equal(op->kind, PLM_OP_SGD);
        assert_int_equal(op->attr.decay, group == PLM_GROUP_DECAY);
        assert_int_equal(op->effect[2], PLM_TENSOR_NONE);
        assert_int_equal(plm__graph_tensor(g, op->effect[1])->storage,
                         g->flat_storage[PLM_FLAT_MOMENT1][group]);
        assert_int_equal(g->flat_storage[PLM_FLAT_MOMENT2][group], -1);
    }
    plm__graph_destroy(g);
}

static void an_optimizer_that_is_none_is_refused(void **state)
{
    (void)state;
    small_run run;
    small_run_describe(&run, &usual);
    assert_ok(plm_device_open("cpu", 1, 0, &run.device));
    for (int wrong = -1; wrong <= PLM_OPTIMIZER_COUNT; wrong += 1 + PLM_OPTIMIZER_COUNT) {
        run.job.optimizer = (plm_optimizer)wrong;
        assert_int_equal(plm_plan_create(&run.job, &run.strategy, run.device, &run.plan),
                         PLM_ERROR_ARGUMENT);
    }
    assert_null(run.plan);
    plm_device_destroy(run.device);
}

static void the_optimizers_have_names(void **state)
{
    (void)state;
    assert_string_equal(plm_optimizer_text(PLM_OPTIMIZER_ADAMW), "adamw");
    assert_string_equal(plm_optimizer_text(PLM_OPTIMIZER_SGD), "sgd");
    assert_string_equal(plm_optimizer_title(PLM_OPTIMIZER_SGD), "SGD with momentum");
}

/* ---- memory --------------------------------------------------------------------------------- */

static void sgd_holds_one_moment_less_in_plan_bill_and_run(void **state)
{
    (void)state;
    plm_plan_summary summary[PLM_OPTIMIZER_COUNT];
    size_t moments[PLM_OPTIMIZER_COUNT], parameters = 0;
    for (int i = 0; i < PLM_OPTIMIZER_COUNT; i++) {
        small_run run;
        small_window window;
        small_shape shape = shape_with((plm_optimizer)i);
        plm_bill *bill = NULL;
        plm_step_result result;
        plm_session_measure measure;
        plm_hyper hyper = plm_hyper_default();
        small_run_open(&run, &shape);
        small_window_fill(&window, shape.batch * shape.sequence, shape.vocab, 3);
        assert_ok(
            plm_session_step(run.session, 0, &hyper, 4, window.tokens, window.targets, &result));
        assert_ok(plm_session_measure_memory(run.session, &measure));
        assert_int_equal(measure.peak_bytes, run.summary.peak_bytes);
        assert_ok(plm_plan_bill(run.plan, "small", 0, &bill));
        summary[i] = run.summary;
        moments[i] = bill->role_bytes[PLM_ROLE_OPTIMIZER];
        parameters = bill->role_bytes[PLM_ROLE_PARAMETER];
        plm_bill_destroy(bill);
        small_run_close(&run);
    }
    assert_int_equal(summary[PLM_OPTIMIZER_SGD].optimizer, PLM_OPTIMIZER_SGD);
    assert_int_equal(moments[PLM_OPTIMIZER_ADAMW], 2 * parameters);
    assert_int_equal(moments[PLM_OPTIMIZER_SGD], parameters);
    size_t less =
        summary[PLM_OPTIMIZER_ADAMW].persistent_bytes - summary[PLM_OPTIMIZER_SGD].persistent_bytes;
    assert_true(less >= parameters && less < parameters + 2 * 64 * 16);
    assert_int_equal(
        summary[PLM_OPTIMIZER_ADAMW].peak_bytes - summary[PLM_OPTIMIZER_SGD].peak_bytes, less);
}

static void a_moment_that_is_not_held_cannot_be_read(void **state)
{
    (void)state;
    small_run run;
    small_shape shape = shape_with(PLM_OPTIMIZER_SGD);
    float values[128 * 16];
    small_run_open(&run, &shape);
    assert_ok(plm_session_read(run.session, "embedding.token.weight", PLM_PART_MOMENT1, 128 * 16,
                               values));
    assert_int_equal(
        plm_session_read(run.session, "embedding.token.weight", PLM_PART_MOMENT2, 128 * 16, values),
        PLM_ERROR_ARGUMENT);
    small_run_close(&run);
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

enum { TEXT_BYTES = 600 };

typedef struct place {
    char folder[64], text[80], out[80];
} place;

static int make_place(void **state)
{
    static place made;
    snprintf(made.folder, sizeof made.folder, "/tmp/plimsoll-optimizer-XXXXXX");
    if (!mkdtemp(made.folder))
        return -1;
    snprintf(made.text, sizeof made.text, "%s/text", made.folder);
    snprintf(made.out, sizeof made.out, "%s/out", made.folder);
    FILE *file = fopen(made.text, "wb");
    for (uint32_t i = 0; file && i < TEXT_BYTES; i++)
        fputc('a' + (int)(small_hash(5, i) % 8), file);
    *state = &made;
    return file && fclose(file) == 0 ? 0 : -1;
}

static int remove_place(void **state)
{
    const place *made = *state;
    char path[128];
    for (int step = 1; step <= 8; step++) {
        snprintf(path, sizeof path, "%s/step-%08d.safetensors", made->out, step);
        unlink(path);
    }
    rmdir(made->out);
    unlink(made->text);
    rmdir(made->folder);
    return 0;
}

static plm_train_settings settings_in(const place *in, plm_optimizer optimizer, int64_t steps)
{
    plm_train_settings settings = {.data_path = in->text,
                                   .budget_bytes = (size_t)16 << 20,
                                   .strategy = plm_strategy_default(),
                                   .batch = 4,
                                   .sequence = 8,
                                   .steps = steps,
                                   .warmup = 100, /* the same rates however long the run is */
                                   .optimizer = optimizer,
                                   .hyper = plm_hyper_default(),
                                   .seed = 3,
                                   .eval_sequences = 1,
                                   .keep = 1};
    assert_ok(
        plm_model_parse("gpt:layers=1,width=16,heads=2,context=8,vocab=128", &settings.model));
    return settings;
}

static plm_status train(const plm_train_settings *wanted, plm_train_result *result)
{
    plm_trainer *trainer = NULL;
    plm_train_settings settings = *wanted;
    PLM_TRY(plm_device_open("cpu", 1, 0, &settings.device));
    plm_status status = plm_trainer_create(&settings, &trainer);
    if (status == PLM_OK)
        status = plm_trainer_run(trainer, NULL, result);
    plm_trainer_destroy(trainer);
    plm_device_destroy(settings.device);
    return status;
}

static void a_run_of_sgd_resumes_to_the_same_bits(void **state)
{
    const place *in = *state;
    plm_train_result whole, first, rest;
    plm_train_settings settings = settings_in(in, PLM_OPTIMIZER_SGD, 6);
    assert_ok(train(&settings, &whole));
    settings.steps = 3;
    settings.out_folder = in->out;
    assert_ok(train(&settings, &first));
    settings.steps = 6;
    settings.out_folder = NULL;
    settings.resume_folder = in->out;
    assert_ok(train(&settings, &rest));
    assert_int_equal(rest.resumed_from, 3);
    assert_int_equal(rest.optimizer, PLM_OPTIMIZER_SGD);
    assert_true(rest.last_loss == whole.last_loss);
    assert_true(rest.validation_loss == whole.validation_loss);
    settings.hyper.momentum = 0; /* what was saved matters: without it another loss comes */
    assert_ok(train(&settings, &rest));
    assert_false(rest.last_loss == whole.last_loss);
}

static void a_checkpoint_of_another_optimizer_is_refused(void **state)
{
    const place *in = *state;
    plm_train_result result;
    plm_error error;
    plm_train_settings settings = settings_in(in, PLM_OPTIMIZER_SGD, 2);
    settings.out_folder = in->out;
    assert_ok(train(&settings, &result));
    settings = settings_in(in, PLM_OPTIMIZER_ADAMW, 4);
    settings.resume_folder = in->out;
    assert_int_equal(train(&settings, &result), PLM_ERROR_ARGUMENT);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "optimizer=sgd"));
}

static void a_momentum_out_of_range_is_refused(void **state)
{
    const place *in = *state;
    static const float wrong[] = {1, -0.5f, NAN, INFINITY};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        plm_train_result result;
        plm_train_settings settings = settings_in(in, PLM_OPTIMIZER_SGD, 2);
        settings.hyper.momentum = wrong[i];
        assert_int_equal(train(&settings, &result), PLM_ERROR_ARGUMENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_updates_each_group_with_one_moment),
        cmocka_unit_test(an_optimizer_that_is_none_is_refused),
        cmocka_unit_test(the_optimizers_have_names),
        cmocka_unit_test(sgd_holds_one_moment_less_in_plan_bill_and_run),
        cmocka_unit_test(a_moment_that_is_not_held_cannot_be_read),
        cmocka_unit_test_setup_teardown(a_run_of_sgd_resumes_to_the_same_bits, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(a_checkpoint_of_another_optimizer_is_refused, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(a_momentum_out_of_range_is_refused, make_place,
                                        remove_place),
    };
    return run_test_group(tests);
}
