/* SPDX-License-Identifier: MIT */
/*
 * Training with weights and activations of 16 bits and fp32 masters: what it keeps of the fp32 run,
 * what a gradient that is not finite does, and the forms of gradient and update that save memory.
 */
#include "unit/small_run.h"

enum { STEPS = 20 };

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

/* An early update sees every gradient whole and nothing of the others: without clipping, that is
 * what a late one sees. */
static void an_early_update_gives_the_same_bits_as_a_late_one(void **state)
{
    (void)state;
    static const char *const recompute[] = {"none", "block"};
    for (int optimizer = 0; optimizer < PLM_OPTIMIZER_COUNT; optimizer++) {
        for (int rung = 0; rung < 2; rung++) {
            static small_values value[2];
            double losses[2][STEPS];
            size_t peak[2];
            for (int early = 0; early < 2; early++) {
                small_shape shape = usual;
                small_run run;
                shape.optimizer = (plm_optimizer)optimizer;
                shape.recompute = recompute[rung];
                shape.head_chunks = rung ? 3 : 1;
                shape.update = early ? PLM_UPDATE_EARLY : PLM_UPDATE_LATE;
                plm_hyper hyper = plm_hyper_default();
                hyper.clip_norm = 0;
                small_run_open(&run, &shape);
                train(&run, &shape, &hyper, losses[early]);
                small_values_read(&run, &shape, PLM_PART_VALUE, &value[early]);
                plm_session_measure measured;
                assert_ok(plm_session_measure_memory(run.session, &measured));
                assert_int_equal(measured.peak_bytes, run.summary.peak_bytes);
                peak[early] = run.summary.persistent_bytes;
                small_run_close(&run);
            }
            assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
            assert_true(small_same_bits(&value[0], &value[1]));
            assert_true(peak[1] < peak[0]);
        }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_early_update_gives_the_same_bits_as_a_late_one),
        cmocka_unit_test(an_early_update_refuses_to_clip),
    };
    return run_test_group(tests);
}
