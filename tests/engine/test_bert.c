/* SPDX-License-Identifier: MIT */
/*
 * BERT: that it sees both sides of a token and the types of a pair, and that saving memory changes
 * nothing of it: not the micro-batch, not the form of attention, not recompute; what is predicted
 * is what a run takes. That it computes the right numbers stands in test_model.c.
 *
 * Sums in another order differ by rounding: a gradient's difference is asked to be under 2e-6 of
 * its norm, about 30 roundings of fp32.
 */
#include "engine/small_run.h"

#define CLOSE 2e-6

static const small_shape usual = {.family = "bert",
                                  .layers = 2,
                                  .width = 24,
                                  .heads = 3,
                                  .context = 16,
                                  .vocab = 37,
                                  .batch = 4,
                                  .micro_batch = 4,
                                  .sequence = 16,
                                  .seed = 5};

typedef struct outcome {
    plm_step_result result;
    small_values gradients, values;
} outcome;

/* One update of a fresh run with the window's types; what the device counted is the plan's. */
static void run_step(const small_shape *shape, int64_t sequences, const small_window *window,
                     outcome *found)
{
    small_run run;
    plm_session_measure measure;
    plm_hyper hyper = plm_hyper_default();
    small_run_open(&run, shape);
    plm_session_use_types(run.session, window->types);
    assert_ok(plm_session_step(run.session, 0, &hyper, sequences, window->tokens, window->targets,
                               &found->result));
    assert_ok(plm_session_measure_memory(run.session, &measure));
    assert_int_equal(measure.peak_bytes, run.summary.peak_bytes);
    small_values_read(&run, shape, PLM_PART_GRADIENT, &found->gradients);
    small_values_read(&run, shape, PLM_PART_VALUE, &found->values);
    assert_int_equal(found->values.count, run.summary.parameter_count);
    small_run_close(&run);
}

static double evaluated_loss(const small_run *run, const small_window *window)
{
    double sum;
    int64_t counted;
    assert_ok(
        plm_session_evaluate(run->session, 4, window->tokens, window->targets, &sum, &counted));
    return sum / (double)counted;
}

/* ---- what it sees --------------------------------------------------------------------------- */

static void a_token_sees_both_sides(void **state)
{
    (void)state;
    static const int64_t changed[] = {0, 7, 15};
    for (int form = 0; form < 2; form++) {
        small_run run;
        small_window window, other;
        small_shape shape = usual;
        shape.attention = (plm_attention_form)form;
        small_window_fill(&window, 4 * 16, 37, 3);
        memset(window.targets, -1, sizeof window.targets);
        window.targets[8] = 3; /* one target, in the middle of the first sequence */
        small_run_open(&run, &shape);
        double loss = evaluated_loss(&run, &window);
        for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
            other = window;
            other.tokens[changed[i]] = (other.tokens[changed[i]] + 1) % 37;
            assert_true(evaluated_loss(&run, &other) != loss);
        }
        other = window;
        other.tokens[16] = (other.tokens[16] + 1) % 37; /* of the next sequence */
        assert_true(evaluated_loss(&run, &other) == loss);
        small_run_close(&run);
    }
}

static void types_are_seen_and_all_are_0_unless_given(void **state)
{
    (void)state;
    small_run run;
    small_window window;
    small_shape shape = usual;
    int32_t zeros[4 * 16] = {0};
    small_window_fill(&window, 4 * 16, 37, 3);
    for (shape.micro_batch = 1; shape.micro_batch <= 4; shape.micro_batch *= 2) {
        small_run_open(&run, &shape);
        double without = evaluated_loss(&run, &window);
        plm_session_use_types(run.session, zeros);
        assert_true(evaluated_loss(&run, &window) == without);
        plm_session_use_types(run.session, window.types);
        assert_true(evaluated_loss(&run, &window) != without);
        plm_session_use_types(run.session, NULL);
        assert_true(evaluated_loss(&run, &window) == without);
        small_run_close(&run);
    }
}

static void a_type_beyond_the_table_is_refused(void **state)
{
    (void)state;
    static const int32_t wrong[] = {2, -1, INT32_MAX};
    small_run run;
    small_window window;
    plm_step_result result;
    plm_hyper hyper = plm_hyper_default();
    small_window_fill(&window, 4 * 16, 37, 3);
    window.tokens[5] = 36; /* tokens are not held to the two rows of types */
    small_run_open(&run, &usual);
    plm_session_use_types(run.session, window.types);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int32_t kept = window.types[63];
        window.types[63] = wrong[i];
        assert_int_equal(
            plm_session_step(run.session, 0, &hyper, 4, window.tokens, window.targets, &result),
            PLM_ERROR_ARGUMENT);
        window.types[63] = kept;
    }
    assert_ok(plm_session_step(run.session, 0, &hyper, 4, window.tokens, window.targets, &result));
    small_run_close(&run);
}

/* The loss of the hidden last token of a full sequence, from its logits. */
static void logits_of_the_position_asked_for_give_its_loss(void **state)
{
    (void)state;
    small_run run;
    small_window window;
    float logits[37];
    double sum = 0, largest = -INFINITY;
    small_window_fill(&window, 4 * 16, 37, 3);
    memset(window.targets, -1, sizeof window.targets);
    window.targets[15] = 9;
    small_run_open(&run, &usual);
    assert_ok(plm_session_generate(run.session, 16, window.tokens, 37, logits));
    for (int i = 0; i < 37; i++)
        largest = fmax(largest, logits[i]);
    for (int i = 0; i < 37; i++)
        sum += exp(logits[i] - largest);
    double loss = log(sum) + largest - logits[9];
    assert_true(fabs(evaluated_loss(&run, &window) - loss) < 1e-6 * loss);
    small_run_close(&run);
}

/* ---- what does not change it ---------------------------------------------------------------- */

static outcome whole, other; /* too large for a stack */

static void gradients_do_not_depend_on_micro_batch_or_attention_dropout_on(void **state)
{
    (void)state;
    small_window window;
    small_shape shape = usual;
    shape.dropout = 0.1f;
    small_window_fill(&window, 4 * 16, 37, 3);
    run_step(&shape, 4, &window, &whole);
    for (int form = 0; form < 2; form++)
        for (int64_t micro_batch = 1; micro_batch <= 4; micro_batch *= 2) {
            shape.attention = (plm_attention_form)form;
            shape.micro_batch = micro_batch;
            run_step(&shape, 4, &window, &other);
            assert_true(fabs(other.result.loss - whole.result.loss) < 1e-6 * whole.result.loss);
            assert_true(small_difference(&other.gradients, &whole.gradients) < CLOSE);
        }
}

/* Three sequences in micro-batches of two: the last is filled up, its types too. */
static void a_short_window_is_filled_up_without_effect(void **state)
{
    (void)state;
    small_window window;
    small_shape shape = usual;
    shape.dropout = 0.1f;
    small_window_fill(&window, 4 * 16, 37, 3);
    shape.micro_batch = 1;
    run_step(&shape, 3, &window, &whole);
    shape.micro_batch = 2;
    run_step(&shape, 3, &window, &other);
    assert_int_equal(other.result.counted, whole.result.counted);
    assert_true(small_difference(&other.gradients, &whole.gradients) < CLOSE);
}

static void recompute_gives_the_same_bits(void **state)
{
    (void)state;
    static const char *const rungs[] = {"act",   "norm",      "mlp",
                                        "block", "attention", "mlp+attention"};
    small_window window;
    small_shape shape = usual;
    shape.dropout = 0.1f;
    shape.micro_batch = 2;
    small_window_fill(&window, 4 * 16, 37, 3);
    for (int form = 0; form < 2; form++) {
        shape.attention = (plm_attention_form)form;
        shape.recompute = NULL;
        run_step(&shape, 4, &window, &whole);
        for (size_t i = 0; i < sizeof rungs / sizeof *rungs; i++) {
            shape.recompute = rungs[i];
            run_step(&shape, 4, &window, &other);
            assert_true(other.result.loss == whole.result.loss);
            assert_true(small_same_bits(&other.gradients, &whole.gradients));
            assert_true(small_same_bits(&other.values, &whole.values));
        }
    }
}

/* ---- weight decay --------------------------------------------------------------------------- */

typedef struct decay_check {
    const float *before, *after;
    int64_t at, kept;
} decay_check;

static void check_decay(const char *name, int64_t elements, bool matrix, void *user)
{
    decay_check *check = user;
    for (int64_t e = 0; e < elements; e++, check->at++) {
        float wanted = check->before[check->at] * (matrix ? 0.875f : 1);
        if (fabsf(check->after[check->at] - wanted) > 1e-7f * fabsf(wanted))
            fail_msg("%s[%d]: wanted %.9g, found %.9g", name, (int)e, (double)wanted,
                     (double)check->after[check->at]);
    }
    check->kept += matrix ? 0 : elements;
}

/* With nothing counted the gradient is zero, and decay is all that an update does. */
static void decay_skips_biases_and_normalisations_and_takes_the_tied_table_once(void **state)
{
    (void)state;
    static small_values before, after;
    for (int optimizer = 0; optimizer < PLM_OPTIMIZER_COUNT; optimizer++) {
        small_run run;
        small_window window;
        plm_step_result result;
        small_shape shape = usual;
        plm_hyper hyper = plm_hyper_default();
        shape.optimizer = (plm_optimizer)optimizer;
        hyper.learning_rate = 0.5f;
        hyper.weight_decay = 0.25f;
        small_window_fill(&window, 4 * 16, 37, 3);
        memset(window.targets, -1, sizeof window.targets);
        small_run_open(&run, &shape);
        small_values_read(&run, &shape, PLM_PART_VALUE, &before);
        assert_ok(
            plm_session_step(run.session, 0, &hyper, 4, window.tokens, window.targets, &result));
        small_values_read(&run, &shape, PLM_PART_VALUE, &after);
        decay_check check = {.before = before.items, .after = after.items};
        small_each_parameter(&shape, check_decay, &check);
        assert_int_equal(check.at, run.summary.parameter_count);
        assert_int_equal(check.kept, 2 * (3 + 1 + 2 + 4 + 1 + 2) * 24 + 2 * 24 + (1 + 2) * 24 + 37);
        small_run_close(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_sees_both_sides),
        cmocka_unit_test(types_are_seen_and_all_are_0_unless_given),
        cmocka_unit_test(a_type_beyond_the_table_is_refused),
        cmocka_unit_test(logits_of_the_position_asked_for_give_its_loss),
        cmocka_unit_test(gradients_do_not_depend_on_micro_batch_or_attention_dropout_on),
        cmocka_unit_test(a_short_window_is_filled_up_without_effect),
        cmocka_unit_test(recompute_gives_the_same_bits),
        cmocka_unit_test(decay_skips_biases_and_normalisations_and_takes_the_tied_table_once),
    };
    return run_test_group(tests);
}
