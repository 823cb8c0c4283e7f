/* SPDX-License-Identifier: MIT */
/*
 * Training with weights and activations of 16 bits and fp32 masters: what it keeps of the fp32 run,
 * what a gradient that is not finite does, and the forms of gradient and update that save memory.
 */
#include "engine/small_run.h"

#include "base/half.h"
#include "plan/search_internal.h"
#include "plan/search.h"
#include "run/session.h"
#include "train/checkpoint.h"
#include "unit/scratch.h"
#include "graph/strategy.h"

enum { STEPS = 20 };

/* Unit roundoff of 16 bits: a value is off by this share of itself once it is stored. */
#define BF16_ROUNDOFF 0x1p-9
#define FP16_ROUNDOFF 0x1p-12

static const plm_dtype halves[] = {PLM_DTYPE_BF16, PLM_DTYPE_F16};

static const small_shape usual = {.layers = 2,
                                  .width = 32,
                                  .heads = 2,
                                  .context = 16,
                                  .vocab = 61,
                                  .batch = 4,
                                  .micro_batch = 4,
                                  .sequence = 16,
                                  .dropout = 0.1f,
                                  .seed = 7};

/* Losses of the first updates, each from a window of its own. */
static void train(const small_run *run, const small_shape *shape, const plm_hyper *hyper,
                  double losses[STEPS])
{
    small_window window;
    for (uint32_t i = 0; i < STEPS; i++) {
        plm_step_result result;
        small_window_fill(&window, shape->batch * shape->sequence, shape->vocab, 10 * i);
        assert_ok(plm_session_step(run->session, i, hyper, shape->batch, window.tokens,
                                   window.targets, &result));
        assert_false(result.skipped);
        losses[i] = result.loss;
    }
}

typedef struct outcome {
    double losses[STEPS];
    small_values values; /* the masters, where there are any */
    size_t persistent_bytes;
} outcome;

static void train_without_clipping(const small_shape *shape, outcome *seen)
{
    small_run run;
    plm_session_measure measured;
    plm_hyper hyper = plm_hyper_default();
    hyper.clip_norm = 0;
    small_run_open(&run, shape);
    train(&run, shape, &hyper, seen->losses);
    small_values_read(&run, shape, PLM_PART_VALUE, &seen->values);
    assert_ok(plm_session_measure_memory(run.session, &measured));
    assert_int_equal(measured.peak_bytes, run.summary.peak_bytes);
    seen->persistent_bytes = run.summary.persistent_bytes;
    small_run_close(&run);
}

/* An early update sees every gradient whole and nothing of the others: without clipping, that is
 * what a late one sees. In 16 bits the losses after the first tell that weights follow masters. */
static void an_early_update_gives_the_same_bits_as_a_late_one(void **state)
{
    (void)state;
    static outcome late, early;
    static const char *const recompute[] = {"none", "block"};
    for (int i = 0; i < 2 * 2 * PLM_OPTIMIZER_COUNT; i++) {
        small_shape shape = usual;
        shape.optimizer = (plm_optimizer)(i / 4);
        shape.recompute = recompute[i % 2];
        shape.head_chunks = i % 2 ? 3 : 1;
        shape.precision = i / 2 % 2 ? PLM_DTYPE_BF16 : PLM_DTYPE_F32;
        train_without_clipping(&shape, &late);
        shape.update = PLM_UPDATE_EARLY;
        train_without_clipping(&shape, &early);
        assert_memory_equal(late.losses, early.losses, sizeof late.losses);
        assert_true(small_same_bits(&late.values, &early.values));
        assert_true(early.persistent_bytes < late.persistent_bytes);
    }
}

static void an_early_update_refuses_to_clip(void **state)
{
    (void)state;
    small_shape shape = usual;
    small_run run;
    small_window window;
    plm_step_result result;
    shape.update = PLM_UPDATE_EARLY;
    small_run_open(&run, &shape);
    small_window_fill(&window, shape.batch * shape.sequence, shape.vocab, 1);
    plm_hyper hyper = plm_hyper_default();
    assert_int_equal(plm_session_step(run.session, 0, &hyper, shape.batch, window.tokens,
                                      window.targets, &result),
                     PLM_ERROR_ARGUMENT);
    small_run_close(&run);
}

/* ---- 16 bits ------------------------------------------------------------------------------- */

static plm_step_result step(const small_run *run, const small_shape *shape, int64_t index,
                            const plm_hyper *hyper)
{
    small_window window;
    plm_step_result result;
    small_window_fill(&window, shape->batch * shape->sequence, shape->vocab, (uint32_t)index * 10);
    assert_ok(plm_session_step(run->session, index, hyper, shape->batch, window.tokens,
                               window.targets, &result));
    return result;
}

static void a_16_bit_run_uses_exactly_the_predicted_bytes(void **state)
{
    (void)state;
    static const char *const recompute[] = {"none", "norm", "block"};
    for (int half = 0; half < 2; half++) {
        for (int form = 0; form < 2; form++) {
            for (int rung = 0; rung < 3; rung++) {
                for (int64_t micro_batch = 1; micro_batch <= 4; micro_batch *= 2) {
                    small_shape shape = usual;
                    small_run run;
                    plm_session_measure measured;
                    plm_hyper hyper = plm_hyper_default();
                    shape.precision = halves[half];
                    shape.attention = (plm_attention_form)form;
                    shape.recompute = recompute[rung];
                    shape.micro_batch = micro_batch;
                    shape.head_chunks = rung + 1;
                    small_run_open(&run, &shape);
                    assert_false(step(&run, &shape, 0, &hyper).skipped);
                    assert_ok(plm_session_measure_memory(run.session, &measured));
                    assert_int_equal(measured.peak_bytes, run.summary.peak_bytes);
                    assert_true(measured.last_granule_written);
                    small_run_close(&run);
                }
            }
        }
    }
}

/*
 * A logit has gone through about 8 roundings a block and 4 more, each off by at most the roundoff
 * of its type; taken as independent they add up as a root: sqrt(8 x 2 + 4) = 4.5 roundoffs of a
 * logit. A loss is the difference of logarithms of sums of logits, which here stay under 4: twice
 * that. Twenty updates add to it, as the runs walk apart: they are allowed as much again.
 */
static void losses_over_20_updates_stay_with_those_of_fp32(void **state)
{
    (void)state;
    const double roundoff[] = {BF16_ROUNDOFF, FP16_ROUNDOFF};
    double plain[STEPS], losses[STEPS];
    plm_hyper hyper = plm_hyper_default();
    small_run run;
    small_run_open(&run, &usual);
    train(&run, &usual, &hyper, plain);
    small_run_close(&run);
    for (int half = 0; half < 2; half++) {
        small_shape shape = usual;
        shape.precision = halves[half];
        small_run_open(&run, &shape);
        train(&run, &shape, &hyper, losses);
        small_run_close(&run);
        double worst = 0;
        for (int i = 0; i < STEPS; i++)
            worst = fmax(worst, fabs(losses[i] - plain[i]));
        print_message("%s: at most %.5f from fp32\n", plm_dtype_text(halves[half]), worst);
        assert_true(worst > 0); /* it was computed in another type */
        assert_true(worst <= 2 * 2 * 4.5 * 4 * roundoff[half]);
    }
}

static void recompute_gives_the_same_bits_in_16_bits_with_dropout(void **state)
{
    (void)state;
    static const char *const recompute[] = {"none", "act", "norm", "mlp", "mlp+attention", "block"};
    for (int half = 0; half < 2; half++) {
        static small_values plain, value;
        double wanted[STEPS], losses[STEPS];
        plm_hyper hyper = plm_hyper_default();
        for (int rung = 0; rung < 6; rung++) {
            small_shape shape = usual;
            small_run run;
            shape.precision = halves[half];
            shape.recompute = recompute[rung];
            small_run_open(&run, &shape);
            train(&run, &shape, &hyper, rung ? losses : wanted);
            small_values_read(&run, &shape, PLM_PART_VALUE, rung ? &value : &plain);
            small_run_close(&run);
            assert_true(rung == 0 || memcmp(losses, wanted, sizeof losses) == 0);
            assert_true(rung == 0 || small_same_bits(&value, &plain));
        }
    }
}

/* A step of bf16 near 1 is 2^-8; normalisation weights begin at 1 and move by the learning rate at
 * first, 2^-12 an update. In 16 bits alone they would stay where they are. */
static void updates_under_a_step_of_bf16_add_up_in_the_master(void **state)
{
    (void)state;
    small_shape shape = usual;
    small_run run;
    double losses[STEPS];
    float weight[32];
    plm_hyper hyper = plm_hyper_default();
    hyper.learning_rate = 0x1p-12f;
    hyper.weight_decay = 0;
    shape.precision = PLM_DTYPE_BF16;
    small_run_open(&run, &shape);
    train(&run, &shape, &hyper, losses);
    assert_ok(plm_session_read(run.session, "head.ln.weight", PLM_PART_VALUE, 32, weight));
    int moved = 0, between = 0;
    for (int i = 0; i < 32; i++) {
        moved += fabsf(weight[i] - 1) > 0x1p-9f;
        between += plm__bits_of(plm__from_bf16(plm__to_bf16(weight[i]))) != plm__bits_of(weight[i]);
    }
    assert_true(moved > 0);
    assert_true(between > 16);
    small_run_close(&run);
}

/* ---- the loss scale ------------------------------------------------------------------------ */

static void set_loss_scale(const small_run *run, float loss_scale)
{
    plm_session_counters counters = plm__session_counters(run->session);
    counters.loss_scale = loss_scale;
    assert_ok(plm__session_set_counters(run->session, counters));
}

/* With a clip norm far under the norm, clipping before unscaling would show by the scale. */
static void gradients_are_unscaled_once_and_then_clipped(void **state)
{
    (void)state;
    static small_values value[3];
    plm_step_result result[3];
    for (int i = 0; i < 3; i++) { /* fp32, and two scales */
        small_shape shape = usual;
        small_run run;
        plm_hyper hyper = plm_hyper_default();
        hyper.clip_norm = 0.25f;
        hyper.epsilon = 0.25f; /* else AdamW's first update does not know a gradient's size */
        hyper.learning_rate = 0.5f;
        shape.dropout = 0;
        shape.precision = i ? PLM_DTYPE_F16 : PLM_DTYPE_F32;
        small_run_open_lively(&run, &shape);
        if (i)
            set_loss_scale(&run, i == 1 ? 1024 : 8192);
        result[i] = step(&run, &shape, 0, &hyper);
        assert_false(result[i].skipped);
        small_values_read(&run, &shape, PLM_PART_VALUE, &value[i]);
        small_run_close(&run);
    }
    assert_true(result[1].loss_scale == 1024 && result[2].loss_scale == 8192);
    for (int i = 1; i < 3; i++) {
        double off = fabs((double)result[i].gradient_norm / (double)result[0].gradient_norm - 1);
        assert_true(off < 40 * FP16_ROUNDOFF);
        assert_true(small_difference(&value[i], &value[0]) < 40 * FP16_ROUNDOFF);
    }
}

/* 65,536 times a gradient of a loss of 4 nats is beyond 65,504, fp16's largest, when the window
 * counts one target; the scale falls until it is not. */
static void
a_gradient_beyond_fp16_skips_the_update_halves_the_scale_and_changes_nothing(void **state)
{
    (void)state;
    static const plm_parameter_part parts[] = {PLM_PART_VALUE, PLM_PART_MOMENT1, PLM_PART_MOMENT2};
    static small_values before[3], after;
    small_shape shape = usual;
    small_run run;
    plm_hyper hyper = plm_hyper_default();
    shape.precision = PLM_DTYPE_F16;
    small_run_open_lively(&run, &shape);
    assert_true(step(&run, &shape, 0, &hyper).loss_scale == 65536);
    for (int p = 0; p < 3; p++)
        small_values_read(&run, &shape, parts[p], &before[p]);
    const plm_session_counters counted = plm__session_counters(run.session);
    set_loss_scale(&run, 0x1p30f);
    float scale = 0x1p30f;
    int skips = 0;
    for (plm_step_result result; (result = step(&run, &shape, 1, &hyper)).skipped; skips++) {
        assert_true(result.loss_scale == scale);
        scale /= 2;
        for (int p = 0; p < 3; p++) {
            small_values_read(&run, &shape, parts[p], &after);
            assert_true(small_same_bits(&after, &before[p]));
        }
        plm_session_counters now = plm__session_counters(run.session);
        assert_int_equal(now.updates, counted.updates);
        assert_int_equal(now.skipped, counted.skipped + (uint32_t)skips + 1);
        assert_int_equal(now.good, 0);
        assert_true(now.loss_scale == scale);
    }
    assert_true(skips > 0);
    assert_int_equal(plm__session_counters(run.session).updates, counted.updates + 1);
    small_run_close(&run);
}

static void as_many_good_updates_as_the_interval_double_the_scale(void **state)
{
    (void)state;
    small_shape shape = usual;
    small_run run;
    plm_hyper hyper = plm_hyper_default();
    assert_int_equal(hyper.scale_growth_interval, 2000);
    hyper.scale_growth_interval = 3;
    shape.precision = PLM_DTYPE_F16;
    small_run_open(&run, &shape);
    set_loss_scale(&run, 64);
    for (int i = 0; i < 7; i++)
        assert_true(step(&run, &shape, i, &hyper).loss_scale == (i < 3 ? 64 : i < 6 ? 128 : 256));
    hyper.scale_growth_interval = 0;
    for (int i = 7; i < 12; i++)
        assert_true(step(&run, &shape, i, &hyper).loss_scale == 256);
    small_run_close(&run);
}

static void other_precisions_have_no_loss_scale(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        small_shape shape = usual;
        small_run run;
        plm_hyper hyper = plm_hyper_default();
        hyper.scale_growth_interval = 1;
        shape.precision = i ? PLM_DTYPE_BF16 : PLM_DTYPE_F32;
        small_run_open(&run, &shape);
        for (int k = 0; k < 3; k++)
            assert_true(step(&run, &shape, k, &hyper).loss_scale == 1);
        assert_true(plm__session_counters(run.session).loss_scale == 0);
        small_run_close(&run);
    }
}

/* ---- gradients in bf16 --------------------------------------------------------------------- */

/* A gradient that is rounded once is off by at most the roundoff of each element. A tied table is
 * rounded twice: by the head, and by the positions that hold a token, which are summed before. */
static void bf16_gradients_are_those_of_fp32_rounded(void **state)
{
    (void)state;
    static small_values gradient[2], value[2];
    for (int i = 0; i < 2; i++) {
        small_shape shape = usual;
        small_run run;
        plm_session_measure measured;
        plm_hyper hyper = plm_hyper_default();
        shape.precision = PLM_DTYPE_BF16;
        shape.gradient = i ? PLM_DTYPE_BF16 : PLM_DTYPE_F32;
        small_run_open_lively(&run, &shape);
        assert_false(step(&run, &shape, 0, &hyper).skipped);
        small_values_read(&run, &shape, PLM_PART_GRADIENT, &gradient[i]);
        small_values_read(&run, &shape, PLM_PART_VALUE, &value[i]);
        assert_ok(plm_session_measure_memory(run.session, &measured));
        assert_int_equal(measured.peak_bytes, run.summary.peak_bytes);
        small_run_close(&run);
    }
    assert_true(small_difference(&gradient[1], &gradient[0]) < 2 * BF16_ROUNDOFF);
    assert_false(small_same_bits(&gradient[1], &gradient[0]));
    for (int64_t i = 0; i < gradient[1].count; i++)
        assert_true(plm__from_bf16(plm__to_bf16(gradient[1].items[i])) == gradient[1].items[i]);
}

/* ---- the smallest budget ------------------------------------------------------------------- */

/* GPT-2 in bf16, one sequence: what is always there, the most that lives while one block is made
 * again and runs backward, and the logits of 128 tokens. What other blocks keep is in the 3 %. */
static void the_smallest_budget_is_state_one_block_and_one_piece_of_the_head(void **state)
{
    (void)state;
    plm_model model;
    plm_device *device = NULL;
    plm_search *search = NULL;
    plm__price price;
    size_t smallest, block = 0;
    assert_ok(plm_model_parse("gpt2", &model));
    plm_job job = {.network = plm_model_network(&model),
                   .batch = 1,
                   .sequence = 1024,
                   .trains = true,
                   .evaluates = true,
                   .generates = true};
    plm_strategy strategy = plm_strategy_default();
    strategy.precision = PLM_DTYPE_BF16;
    strategy.micro_batch = 1;
    strategy.recompute = PLM_RECOMPUTE_AUTO;
    strategy.head_chunks = 0;
    assert_ok(plm_device_open("cpu", 1, 0, &device));
    assert_ok(plm__search_create(&job, &strategy, device, &search));
    assert_ok(plm__search_smallest(search, &smallest));
    strategy.head_chunks = 8; /* of 1024 tokens */
    assert_ok(plm__recompute_parse("block", &strategy.recompute));
    assert_ok(plm__price_make(&job, &strategy, device, NULL, &price));
    for (int32_t i = 0; i < price.blocks; i++)
        block = price.block[i].local > block ? price.block[i].local : block;
    size_t bound = price.persistent + price.overhead + block + (size_t)128 * 50257 * 2;
    print_message("smallest %zu, %.4f of state + block + piece\n", smallest,
                  (double)smallest / (double)bound);
    assert_true((double)smallest <= 1.03 * (double)bound);
    assert_true(smallest > price.persistent);
    plm__price_fini(&price);
    plm__search_destroy(search);
    plm_device_destroy(device);
}

/* ---- checkpoints --------------------------------------------------------------------------- */

/* 6 updates, against 3, a save, a new session, a load and 3: the same bits, loss scale and all. */
static void resuming_in_16_bits_is_exact(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++) {
        static small_values whole, resumed;
        small_shape shape = usual;
        small_run run;
        char folder[SCRATCH_BYTES], path[128];
        const plm_corpus_counts text = {0};
        plm_hyper hyper = plm_hyper_default();
        hyper.scale_growth_interval = 4;
        shape.precision = halves[half];
        small_run_open(&run, &shape);
        for (int i = 0; i < 6; i++)
            step(&run, &shape, i, &hyper);
        small_values_read(&run, &shape, PLM_PART_VALUE, &whole);
        const plm_session_counters counters = plm__session_counters(run.session);
        small_run_close(&run);

        small_run_open(&run, &shape);
        for (int i = 0; i < 3; i++)
            step(&run, &shape, i, &hyper);
        plm_train_settings settings = {.model = run.model,
                                       .batch = shape.batch,
                                       .sequence = shape.sequence,
                                       .seed = shape.seed};
        assert_true(scratch_folder(folder));
        assert_ok(plm__checkpoint_save(folder, 1, &settings, &text, 3, run.session));
        small_run_close(&run);

        int64_t at;
        small_run_open(&run, &shape);
        settings.model = run.model;
        assert_ok(plm__checkpoint_load(folder, &settings, &text, run.session, &at));
        for (int i = 3; i < 6; i++)
            step(&run, &shape, i, &hyper);
        small_values_read(&run, &shape, PLM_PART_VALUE, &resumed);
        const plm_session_counters again = plm__session_counters(run.session);
        small_run_close(&run);
        assert_true(small_same_bits(&resumed, &whole));
        assert_true(again.loss_scale == counters.loss_scale && again.good == counters.good);
        assert_true((counters.loss_scale > 65536) == (halves[half] == PLM_DTYPE_F16));
        snprintf(path, sizeof path, "%s/step-%08d.safetensors", folder, 3);
        unlink(path);
        assert_int_equal(rmdir(folder), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_early_update_gives_the_same_bits_as_a_late_one),
        cmocka_unit_test(an_early_update_refuses_to_clip),
        cmocka_unit_test(a_16_bit_run_uses_exactly_the_predicted_bytes),
        cmocka_unit_test(losses_over_20_updates_stay_with_those_of_fp32),
        cmocka_unit_test(recompute_gives_the_same_bits_in_16_bits_with_dropout),
        cmocka_unit_test(updates_under_a_step_of_bf16_add_up_in_the_master),
        cmocka_unit_test(gradients_are_unscaled_once_and_then_clipped),
        cmocka_unit_test(
            a_gradient_beyond_fp16_skips_the_update_halves_the_scale_and_changes_nothing),
        cmocka_unit_test(as_many_good_updates_as_the_interval_double_the_scale),
        cmocka_unit_test(other_precisions_have_no_loss_scale),
        cmocka_unit_test(bf16_gradients_are_those_of_fp32_rounded),
        cmocka_unit_test(the_smallest_budget_is_state_one_block_and_one_piece_of_the_head),
        cmocka_unit_test(resuming_in_16_bits_is_exact),
    };
    return run_test_group(tests);
}
