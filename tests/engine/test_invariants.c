/* SPDX-License-Identifier: MIT */
/*
 * What saving memory must not change. Each test is one sentence about training that trainers have
 * got wrong; most compare runs that differ only in how the window was cut up.
 *
 * Sums in another order differ by rounding: a gradient's difference is asked to be under 2e-6 of
 * its norm, about 30 roundings of fp32.
 */
#include "graph/graph.h"
#include "engine/small_run.h"

#define CLOSE 2e-6

static const small_shape usual = {.layers = 2,
                                  .width = 24,
                                  .heads = 3,
                                  .context = 16,
                                  .vocab = 37,
                                  .batch = 4,
                                  .micro_batch = 4,
                                  .sequence = 16,
                                  .seed = 5};

static plm_hyper still(void)
{
    plm_hyper hyper = plm_hyper_default();
    hyper.learning_rate = 0; /* the parameters stay */
    return hyper;
}

static plm_step_result step(const small_run *run, int64_t index, const plm_hyper *hyper,
                            int64_t sequences, const small_window *window)
{
    plm_step_result result;
    assert_ok(plm_session_step(run->session, index, hyper, sequences, window->tokens,
                               window->targets, &result));
    return result;
}

/* One still step of a fresh run; its gradients. */
static plm_step_result gradients_of(const small_shape *shape, int64_t sequences,
                                    const small_window *window, small_values *gradients)
{
    small_run run;
    plm_hyper hyper = still();
    small_run_open_lively(&run, shape);
    plm_step_result result = step(&run, 0, &hyper, sequences, window);
    small_values_read(&run, shape, PLM_PART_GRADIENT, gradients);
    small_run_close(&run);
    return result;
}

static small_shape with_micro_batch(int64_t micro_batch)
{
    small_shape shape = usual;
    shape.micro_batch = micro_batch;
    return shape;
}

/* A window whose sequences count very different numbers of targets: 1, 5, 9 and 13 of 16. */
static void fill_unequal(small_window *window)
{
    small_window_fill(window, usual.batch * usual.sequence, usual.vocab, 31);
    for (int32_t b = 0; b < usual.batch; b++)
        for (int32_t t = 0; t < usual.sequence; t++)
            window->targets[b * usual.sequence + t] =
                t < 1 + 4 * b ? (int32_t)(small_hash(77, (uint32_t)(b * 16 + t)) % usual.vocab)
                              : -1;
}

/* ---- accumulation -------------------------------------------------------------------------- */

static void accumulation_with_unequal_counts_equals_the_large_batch(void **state)
{
    (void)state;
    static small_values whole, parts;
    small_window window;
    fill_unequal(&window);
    plm_step_result large = gradients_of(&usual, 4, &window, &whole);
    assert_int_equal(large.counted, 1 + 5 + 9 + 13);
    for (int64_t micro_batch = 1; micro_batch <= 2; micro_batch++) {
        small_shape shape = with_micro_batch(micro_batch);
        plm_step_result cut = gradients_of(&shape, 4, &window, &parts);
        assert_int_equal(cut.counted, large.counted);
        assert_true(fabs(cut.loss - large.loss) < 1e-6 * large.loss);
        assert_true(small_difference(&parts, &whole) < CLOSE);
    }
}

static void the_window_above_tells_a_mean_of_means_from_the_right_loss(void **state)
{
    (void)state;
    small_run run;
    small_window window;
    double means = 0, sum, all = 0;
    int64_t counted, count = 0;
    fill_unequal(&window);
    small_run_open_lively(&run, &usual);
    for (int32_t b = 0; b < 4; b++) {
        assert_ok(plm_session_evaluate(run.session, 1, window.tokens + b * usual.sequence,
                                       window.targets + b * usual.sequence, &sum, &counted));
        means += sum / (double)counted / 4;
        all += sum;
        count += counted;
    }
    plm_hyper hyper = still();
    plm_step_result result = step(&run, 0, &hyper, 4, &window);
    assert_true(fabs(result.loss - all / (double)count) < 1e-6 * result.loss);
    assert_true(fabs(result.loss - means) > 1e-2 * result.loss);
    small_run_close(&run);
}

static void a_window_of_two_of_four_is_divided_by_its_own_count(void **state)
{
    (void)state;
    static small_values alone, short_window;
    small_window window;
    fill_unequal(&window);
    small_shape two = usual;
    two.batch = two.micro_batch = 2;
    plm_step_result right = gradients_of(&two, 2, &window, &alone);
    assert_int_equal(right.counted, 1 + 5);
    for (int64_t micro_batch = 1; micro_batch <= 4; micro_batch *= 2) {
        small_shape shape = with_micro_batch(micro_batch);
        plm_step_result found = gradients_of(&shape, 2, &window, &short_window);
        assert_int_equal(found.counted, right.counted);
        assert_true(fabs(found.loss - right.loss) < 1e-6 * right.loss);
        assert_true(small_difference(&short_window, &alone) < CLOSE);
    }
}

static void a_window_of_three_with_a_micro_batch_of_two_is_filled_up_without_effect(void **state)
{
    (void)state;
    static small_values ones, filled;
    small_window window;
    fill_unequal(&window);
    small_shape one = with_micro_batch(1), two = with_micro_batch(2);
    one.dropout = two.dropout = 0.1f;
    plm_step_result right = gradients_of(&one, 3, &window, &ones);
    plm_step_result found = gradients_of(&two, 3, &window, &filled);
    assert_int_equal(found.counted, right.counted);
    assert_true(fabs(found.loss - right.loss) < 1e-6 * right.loss);
    assert_true(small_difference(&filled, &ones) < CLOSE);
}

/* ---- what does not count -------------------------------------------------------------------- */

static void a_sequence_of_ignored_targets_adds_no_loss_no_gradient_no_token(void **state)
{
    (void)state;
    static small_values without, with;
    small_window window;
    small_window_fill(&window, usual.batch * usual.sequence, usual.vocab, 3);
    plm_step_result right = gradients_of(&usual, 3, &window, &without);
    for (int64_t t = 3 * usual.sequence; t < 4 * usual.sequence; t++)
        window.targets[t] = t % 2 ? -1 : INT32_MIN;
    plm_step_result found = gradients_of(&usual, 4, &window, &with);
    assert_int_equal(found.counted, right.counted);
    assert_true(found.loss == right.loss);
    assert_true(small_difference(&with, &without) < CLOSE);
}

/* A token that only ignored targets come after may be any token. */
static void tokens_behind_the_last_counted_target_do_not_matter(void **state)
{
    (void)state;
    static small_values one, other;
    small_window window;
    fill_unequal(&window);
    plm_step_result first = gradients_of(&usual, 4, &window, &one);
    for (int32_t b = 0; b < usual.batch; b++)
        for (int32_t t = 1 + 4 * b; t < usual.sequence; t++)
            window.tokens[b * usual.sequence + t] =
                (window.tokens[b * usual.sequence + t] + 1) % (int32_t)usual.vocab;
    plm_step_result second = gradients_of(&usual, 4, &window, &other);
    assert_true(first.loss == second.loss);
    assert_true(small_same_bits(&one, &other));
}

static void a_window_that_counts_nothing_has_no_loss_and_no_gradient(void **state)
{
    (void)state;
    static small_values gradients;
    for (int64_t micro_batch = 1; micro_batch <= 4; micro_batch *= 2) {
        small_shape shape = with_micro_batch(micro_batch);
        small_window window;
        small_window_fill(&window, usual.batch * usual.sequence, usual.vocab, 3);
        memset(window.targets, -1, sizeof window.targets);
        plm_step_result result = gradients_of(&shape, 4, &window, &gradients);
        assert_int_equal(result.counted, 0);
        assert_true(result.loss == 0 && result.gradient_norm == 0 && !result.skipped);
        assert_true(small_norm(&gradients) == 0);
    }
}

/* ---- weight decay ---------------------------------------------------------------------------- */

typedef struct decay_check {
    const float *before, *after;
    float factor;
    int64_t at, decayed, kept;
} decay_check;

static void check_decay(const char *name, int64_t elements, bool matrix, void *user)
{
    decay_check *check = user;
    for (int64_t e = 0; e < elements; e++, check->at++) {
        float wanted = check->before[check->at] * (matrix ? check->factor : 1);
        if (fabsf(check->after[check->at] - wanted) > 1e-7f * fabsf(wanted)) {
            print_error("%s[%d]: wanted %.9g, found %.9g\n", name, (int)e, (double)wanted,
                        (double)check->after[check->at]);
            fail();
        }
    }
    *(matrix ? &check->decayed : &check->kept) += elements;
}

/* With nothing counted the gradient is zero, and decay is all that an update does. */
static void decay_skips_vectors_and_takes_the_tied_weight_once(void **state)
{
    (void)state;
    static small_values before, after;
    small_run run;
    small_window window;
    plm_hyper hyper = plm_hyper_default();
    hyper.learning_rate = 0.5f;
    hyper.weight_decay = 0.25f;
    small_window_fill(&window, usual.batch * usual.sequence, usual.vocab, 3);
    memset(window.targets, -1, sizeof window.targets);
    small_run_open_lively(&run, &usual);
    small_values_read(&run, &usual, PLM_PART_VALUE, &before);
    step(&run, 0, &hyper, 4, &window);
    small_values_read(&run, &usual, PLM_PART_VALUE, &after);
    decay_check check = {.before = before.items, .after = after.items, .factor = 1 - 0.5f * 0.25f};
    small_each_parameter(&usual, check_decay, &check);
    assert_int_equal(check.decayed + check.kept, run.summary.parameter_count);
    assert_int_equal(check.kept, 2 * (3 + 1 + 4 + 1 + 4) * 24 + 2 * 24);
    small_run_close(&run);
}

static void gpt2_has_124439808_parameters(void **state)
{
    (void)state;
    small_run run = {.strategy = plm_strategy_default()};
    run.strategy.micro_batch = 1;
    assert_ok(plm_model_parse("gpt2", &run.model));
    run.job = (plm_job){
        .network = plm_model_network(&run.model), .batch = 1, .sequence = 64, .trains = true};
    assert_ok(plm_device_open("cpu", 1, 0, &run.device));
    assert_ok(plm_plan_create(&run.job, &run.strategy, run.device, &run.plan));
    assert_int_equal(plm_plan_summarize(run.plan).parameter_count, 124439808);
    small_run_close(&run);
}

/* ---- the micro-batch ------------------------------------------------------------------------- */

static void losses_and_gradients_do_not_depend_on_the_micro_batch_dropout_on(void **state)
{
    (void)state;
    static small_values whole, cut;
    for (int form = 0; form < 2; form++) {
        small_window window;
        small_window_fill(&window, usual.batch * usual.sequence, usual.vocab, 3);
        small_shape shape = usual;
        shape.dropout = 0.1f;
        shape.attention = (plm_attention_form)form;
        plm_step_result large = gradients_of(&shape, 4, &window, &whole);
        for (int64_t micro_batch = 1; micro_batch <= 2; micro_batch++) {
            shape.micro_batch = micro_batch;
            plm_step_result small = gradients_of(&shape, 4, &window, &cut);
            assert_true(fabs(small.loss - large.loss) < 1e-6 * large.loss);
            assert_true(small_difference(&cut, &whole) < CLOSE);
        }
    }
}

/* Dropout is really on above: it changes the loss, and each step has masks of its own. */
static void dropout_drops_in_steps_alone_and_anew_in_each(void **state)
{
    (void)state;
    small_run run;
    small_window window;
    small_shape shape = usual;
    double sum;
    int64_t counted;
    plm_hyper hyper = still();
    shape.dropout = 0.1f;
    small_window_fill(&window, usual.batch * usual.sequence, usual.vocab, 3);
    small_run_open_lively(&run, &shape);
    double first = step(&run, 0, &hyper, 4, &window).loss;
    double second = step(&run, 1, &hyper, 4, &window).loss;
    double again = step(&run, 0, &hyper, 4, &window).loss;
    assert_ok(plm_session_evaluate(run.session, 4, window.tokens, window.targets, &sum, &counted));
    double evaluated = sum / (double)counted;
    assert_true(fabs(first - second) > 1e-4 * first);
    assert_true(fabs(first - evaluated) > 1e-4 * first);
    assert_true(first == again);
    small_run_close(&run);
}

/* The loss of one sequence of the window, the others' targets ignored. */
static double loss_of_sequence(const small_shape *shape, const small_window *window, int32_t b)
{
    small_run run;
    small_window one = *window;
    plm_hyper hyper = still();
    for (int32_t i = 0; i < shape->batch * shape->sequence; i++)
        if (i / shape->sequence != b)
            one.targets[i] = -1;
    small_run_open_lively(&run, shape);
    double loss = step(&run, 0, &hyper, shape->batch, &one).loss;
    small_run_close(&run);
    return loss;
}

static void the_loss_of_a_sequence_has_the_same_bits_in_every_micro_batch(void **state)
{
    (void)state;
    small_window window;
    small_shape shape = usual;
    shape.dropout = 0.1f;
    small_window_fill(&window, usual.batch * usual.sequence, usual.vocab, 3);
    for (int32_t b = 0; b < usual.batch; b++) {
        shape.micro_batch = 4;
        double large = loss_of_sequence(&shape, &window, b);
        for (shape.micro_batch = 1; shape.micro_batch <= 2; shape.micro_batch++)
            assert_true(loss_of_sequence(&shape, &window, b) == large);
    }
}

static void plain_and_fused_attention_agree(void **state)
{
    (void)state;
    static small_values fused, plain;
    small_window window;
    small_shape shape = usual;
    shape.dropout = 0.1f;
    small_window_fill(&window, usual.batch * usual.sequence, usual.vocab, 3);
    plm_step_result one = gradients_of(&shape, 4, &window, &fused);
    shape.attention = PLM_ATTENTION_PLAIN;
    plm_step_result other = gradients_of(&shape, 4, &window, &plain);
    assert_true(fabs(one.loss - other.loss) < 1e-6 * one.loss);
    assert_true(small_difference(&fused, &plain) < CLOSE);
}

/* ---- repeatable -------------------------------------------------------------------------------
 */

/* Parameters after five updates. */
static double train(const small_shape *shape, small_values *values)
{
    small_run run;
    small_window window;
    double loss = 0;
    plm_hyper hyper = plm_hyper_default();
    small_run_open(&run, shape);
    for (int i = 0; i < 5; i++) {
        small_window_fill(&window, usual.batch * usual.sequence, usual.vocab, 10u * (uint32_t)i);
        loss = step(&run, i, &hyper, 4, &window).loss;
    }
    small_values_read(&run, shape, PLM_PART_VALUE, values);
    small_run_close(&run);
    return loss;
}

static void two_runs_with_one_seed_are_the_same_bits_and_another_seed_is_not(void **state)
{
    (void)state;
    static small_values one, other;
    small_shape shape = usual;
    shape.dropout = 0.1f;
    shape.micro_batch = 2;
    double first = train(&shape, &one);
    assert_true(train(&shape, &other) == first);
    assert_true(small_same_bits(&one, &other));
    shape.seed++;
    train(&shape, &other);
    assert_false(small_same_bits(&one, &other));
}

/* Gradients of a step and parameters after its update, with `threads` threads. */
static double step_with_threads(int32_t threads, plm_attention_form form, small_values *gradients,
                                small_values *values)
{
    small_run run;
    small_window window;
    plm_hyper hyper = plm_hyper_default();
    small_shape shape = usual; /* larger, so that there is work for both */
    shape.layers = 1;
    shape.width = 60;
    shape.context = shape.sequence = 64;
    shape.dropout = 0.1f;
    shape.attention = form;
    shape.threads = threads;
    small_window_fill(&window, shape.batch * shape.sequence, shape.vocab, 3);
    small_run_open_lively(&run, &shape);
    double loss = step(&run, 0, &hyper, 4, &window).loss;
    small_values_read(&run, &shape, PLM_PART_GRADIENT, gradients);
    small_values_read(&run, &shape, PLM_PART_VALUE, values);
    small_run_close(&run);
    return loss;
}

static void one_thread_and_two_agree(void **state)
{
    (void)state;
    static small_values gradients[2], values[2];
    for (int form = 0; form < 2; form++) {
        double loss[2];
        for (int i = 0; i < 2; i++)
            loss[i] = step_with_threads(i + 1, (plm_attention_form)form, &gradients[i], &values[i]);
        double gradient = small_difference(&gradients[1], &gradients[0]);
        double value = small_difference(&values[1], &values[0]);
        print_message("%s: losses differ by %.1e, gradients by %.1e, parameters by %.1e\n",
                      plm_attention_text((plm_attention_form)form), fabs(loss[1] - loss[0]),
                      gradient, value);
        assert_true(fabs(loss[1] - loss[0]) < 1e-6 * loss[0]);
        assert_true(gradient < CLOSE);
        assert_true(value < CLOSE);
    }
}

/* ---- clipping ---------------------------------------------------------------------------------
 */

/*
 * The first update by hand, from the gradients that the session tells: one scale for all of them.
 * AdamW's first step divides the gradient by its own size, so that no clipping would show; a large
 * epsilon makes it show.
 */
static void check_first_update(int64_t micro_batch, float clip_norm)
{
    static small_values before, gradient, after, moment1, moment2;
    small_shape shape = with_micro_batch(micro_batch);
    small_run run;
    small_window window;
    plm_hyper hyper = {.learning_rate = 0.5f,
                       .beta1 = 0.875f,
                       .beta2 = 0.9375f,
                       .epsilon = 0.25f,
                       .clip_norm = clip_norm};
    fill_unequal(&window);
    small_run_open_lively(&run, &shape);
    small_values_read(&run, &shape, PLM_PART_VALUE, &before);
    plm_step_result result = step(&run, 0, &hyper, 4, &window);
    small_values_read(&run, &shape, PLM_PART_GRADIENT, &gradient);
    small_values_read(&run, &shape, PLM_PART_VALUE, &after);
    small_values_read(&run, &shape, PLM_PART_MOMENT1, &moment1);
    small_values_read(&run, &shape, PLM_PART_MOMENT2, &moment2);
    double norm = small_norm(&gradient);
    assert_true(fabs((double)result.gradient_norm - norm) < 1e-6 * norm);
    double scale = clip_norm > 0 ? fmin(1, (double)clip_norm / (norm + 1e-6)) : 1;
    for (int64_t i = 0; i < before.count; i++) {
        double g = scale * (double)gradient.items[i];
        double wanted = (double)before.items[i] - 0.5 * g / (fabs(g) + 0.25);
        assert_true(fabs((double)moment1.items[i] - 0.125 * g) <= 1e-6 * fabs(g));
        assert_true(fabs((double)moment2.items[i] - 0.0625 * g * g) <= 1e-6 * g * g + 1e-44);
        assert_true(fabs((double)after.items[i] - wanted) <= 1e-6 * (fabs(wanted) + fabs(g)));
    }
    small_run_close(&run);
}

static void clipping_is_by_the_global_norm_once_a_window(void **state)
{
    (void)state;
    for (int64_t micro_batch = 1; micro_batch <= 4; micro_batch *= 2) {
        check_first_update(micro_batch, 0.25f); /* far below the norm: everything shrinks */
        check_first_update(micro_batch, 1e6f);  /* far above: nothing does */
        check_first_update(micro_batch, 0);     /* off */
    }
}

/* ---- a gradient that is not finite -------------------------------------------------------------
 */

static void a_gradient_that_is_not_finite_skips_the_update_and_leaves_no_trace(void **state)
{
    (void)state;
    static small_values values[2], moments1[2], moments2[2], never, hurt;
    static const float bad[] = {NAN, INFINITY};
    const char *name = "block.1.mlp.down.bias";
    for (size_t kind = 0; kind < sizeof bad / sizeof *bad; kind++) {
        small_run run;
        small_window window;
        float kept[24], broken[24];
        plm_hyper hyper = plm_hyper_default();
        small_window_fill(&window, usual.batch * usual.sequence, usual.vocab, 3);

        small_run_open_lively(&run, &usual); /* two updates and nothing between them */
        step(&run, 0, &hyper, 4, &window);
        step(&run, 1, &hyper, 4, &window);
        small_values_read(&run, &usual, PLM_PART_VALUE, &never);
        small_run_close(&run);

        small_run_open_lively(&run, &usual);
        step(&run, 0, &hyper, 4, &window);
        assert_ok(plm_session_read(run.session, name, PLM_PART_VALUE, 24, kept));
        memcpy(broken, kept, sizeof kept);
        broken[7] = bad[kind];
        assert_ok(plm_session_write(run.session, name, PLM_PART_VALUE, 24, broken));
        for (int after = 0; after < 2; after++) {
            if (after)
                assert_true(step(&run, 1, &hyper, 4, &window).skipped);
            small_values_read(&run, &usual, PLM_PART_VALUE, &values[after]);
            small_values_read(&run, &usual, PLM_PART_MOMENT1, &moments1[after]);
            small_values_read(&run, &usual, PLM_PART_MOMENT2, &moments2[after]);
        }
        assert_true(small_same_bits(&values[0], &values[1]));
        assert_true(small_same_bits(&moments1[0], &moments1[1]));
        assert_true(small_same_bits(&moments2[0], &moments2[1]));

        /* with the parameter mended, the next update is what it would have been: the counter of the
         * bias correction stood still too */
        assert_ok(plm_session_write(run.session, name, PLM_PART_VALUE, 24, kept));
        assert_false(step(&run, 1, &hyper, 4, &window).skipped);
        small_values_read(&run, &usual, PLM_PART_VALUE, &hurt);
        assert_true(small_same_bits(&hurt, &never));
        small_run_close(&run);
    }
}

/* ---- what does not learn -------------------------------------------------------------------- */

enum { FROZEN_WIDTH = 8, FROZEN_VOCAB = 10 };

static const char *const frozen_names[] = {"table", "below", "frozen", "above"};

/* Three products over a table, the one in the middle frozen. */
static void build_frozen(plm_graph *g, const void *config, plm_program program, int64_t batch,
                         int64_t sequence)
{
    (void)config, (void)program;
    const int64_t ids[2] = {batch, sequence}, square[2] = {FROZEN_WIDTH, FROZEN_WIDTH};
    plm_tensor tokens = plm_input(g, "tokens", 2, ids), targets = plm_input(g, "targets", 2, ids);
    plm_tensor table = plm_parameter(g, "table", 2, (int64_t[]){FROZEN_VOCAB, FROZEN_WIDTH},
                                     plm_init_normal(0.5f), true);
    plm_tensor x = plm_embedding(g, tokens, table);
    for (int i = 1; i < 4; i++) {
        plm_tensor weight =
            plm_parameter(g, frozen_names[i], 2, square, plm_init_normal(0.5f), true);
        if (i == 2)
            g->tensors.items[weight].trainable = g->tensors.items[weight].needs_gradient = false;
        x = plm_linear(g, x, weight, PLM_TENSOR_NONE);
    }
    plm_cross_entropy(g, plm_linear(g, x, table, PLM_TENSOR_NONE), targets);
}

static void read_frozen(plm_session *session, float values[4][FROZEN_VOCAB * FROZEN_WIDTH])
{
    for (int i = 0; i < 4; i++)
        assert_ok(plm_session_read(session, frozen_names[i], PLM_PART_VALUE,
                                   (i ? FROZEN_WIDTH : FROZEN_VOCAB) * FROZEN_WIDTH, values[i]));
}

static void check_frozen(plm_dtype precision, plm_update_time update, plm_optimizer optimizer)
{
    float before[4][FROZEN_VOCAB * FROZEN_WIDTH] = {{0}};
    float after[4][FROZEN_VOCAB * FROZEN_WIDTH] = {{0}};
    int32_t ids[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    plm_job job = {.network = {.build = build_frozen},
                   .batch = 2,
                   .sequence = 4,
                   .trains = true,
                   .optimizer = optimizer};
    plm_strategy strategy = plm_strategy_default();
    plm_hyper hyper = plm_hyper_default();
    plm_device *device = NULL;
    plm_plan *plan = NULL;
    plm_session *session = NULL;
    plm_step_result result;
    strategy.micro_batch = 2;
    strategy.precision = precision;
    strategy.update = update;
    hyper.clip_norm = 0;
    assert_ok(plm_device_open("cpu", 1, 0, &device));
    assert_ok(plm_plan_create(&job, &strategy, device, &plan));
    assert_ok(plm_session_create(plan, device, 3, &session));
    read_frozen(session, before);
    assert_ok(plm_session_step(session, 0, &hyper, 2, ids, ids, &result));
    read_frozen(session, after);
    for (int i = 0; i < 4; i++)
        assert_true((memcmp(before[i], after[i], sizeof before[i]) == 0) == (i == 2));
    plm_session_destroy(session);
    plm_plan_destroy(plan);
    plm_device_destroy(device);
}

static void what_is_frozen_is_not_decayed(void **state)
{
    (void)state;
    for (int optimizer = 0; optimizer < PLM_OPTIMIZER_COUNT; optimizer++)
        for (int early = 0; early < 2; early++)
            for (int half = 0; half < 2; half++)
                check_frozen(half ? PLM_DTYPE_BF16 : PLM_DTYPE_F32, (plm_update_time)early,
                             (plm_optimizer)optimizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accumulation_with_unequal_counts_equals_the_large_batch),
        cmocka_unit_test(the_window_above_tells_a_mean_of_means_from_the_right_loss),
        cmocka_unit_test(a_window_of_two_of_four_is_divided_by_its_own_count),
        cmocka_unit_test(a_window_of_three_with_a_micro_batch_of_two_is_filled_up_without_effect),
        cmocka_unit_test(a_sequence_of_ignored_targets_adds_no_loss_no_gradient_no_token),
        cmocka_unit_test(tokens_behind_the_last_counted_target_do_not_matter),
        cmocka_unit_test(a_window_that_counts_nothing_has_no_loss_and_no_gradient),
        cmocka_unit_test(decay_skips_vectors_and_takes_the_tied_weight_once),
        cmocka_unit_test(gpt2_has_124439808_parameters),
        cmocka_unit_test(losses_and_gradients_do_not_depend_on_the_micro_batch_dropout_on),
        cmocka_unit_test(dropout_drops_in_steps_alone_and_anew_in_each),
        cmocka_unit_test(the_loss_of_a_sequence_has_the_same_bits_in_every_micro_batch),
        cmocka_unit_test(plain_and_fused_attention_agree),
        cmocka_unit_test(two_runs_with_one_seed_are_the_same_bits_and_another_seed_is_not),
        cmocka_unit_test(one_thread_and_two_agree),
        cmocka_unit_test(clipping_is_by_the_global_norm_once_a_window),
        cmocka_unit_test(a_gradient_that_is_not_finite_skips_the_update_and_leaves_no_trace),
        cmocka_unit_test(what_is_frozen_is_not_decayed),
    };
    return run_test_group(tests);
}
