/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the CUDA device share, on a card (test_cuda.c) and on the stand-in for one
 * (test_standin.c): updates of small models, and strategies that are drawn, the same in every run.
 */
#ifndef PLM_TEST_GPU_KIT_H
#define PLM_TEST_GPU_KIT_H

#include "engine/op_fixture.h"
#include "engine/small_run.h"

enum { STRATEGIES = 40 };

static plm_device *gpu; /* that is tested */

/* Submits an update on a window that is the same for every run with this number. */
static inline plm_status try_submit(small_run *run, const small_shape *shape, int64_t number)
{
    static small_window window;
    plm_hyper hyper = plm_hyper_default();
    small_window_fill(&window, shape->batch * shape->sequence, shape->vocab, (uint32_t)number + 7);
    if (shape->update == PLM_UPDATE_EARLY)
        hyper.clip_norm = 0;
    return plm_session_submit(run->session, number, &hyper, shape->batch, window.tokens,
                              window.targets);
}

static inline void submit(small_run *run, const small_shape *shape, int64_t number)
{
    assert_ok(try_submit(run, shape, number));
}

static inline plm_status try_step(small_run *run, const small_shape *shape, int64_t number,
                                  plm_step_result *result)
{
    PLM_TRY(try_submit(run, shape, number));
    return plm_session_collect(run->session, result);
}

static inline void step(small_run *run, const small_shape *shape, int64_t number,
                        plm_step_result *result)
{
    assert_ok(try_step(run, shape, number, result));
}

static const small_shape usual = {.layers = 2,
                                  .width = 32,
                                  .heads = 4,
                                  .context = 32,
                                  .vocab = 80,
                                  .batch = 4,
                                  .micro_batch = 2,
                                  .sequence = 32,
                                  .dropout = 0.1f,
                                  .seed = 3};

/* A number below `count`, the same in every run. */
static inline int64_t pick(int64_t strategy, uint32_t salt, int64_t count)
{
    return (int64_t)(small_hash(salt, (uint32_t)strategy) % (uint32_t)count);
}

static inline small_shape random_shape(int64_t i)
{
    static const char *const rungs[] = {"none", "act", "norm", "mlp", "block", "attention"};
    static const plm_dtype types[] = {PLM_DTYPE_F32, PLM_DTYPE_BF16, PLM_DTYPE_F16};
    static const int64_t micro[] = {1, 2, 4};
    small_shape shape = usual;
    shape.precision = types[i % 3];
    shape.micro_batch = micro[pick(i, 1, 3)];
    shape.layers = 1 + pick(i, 2, 3);
    shape.width = 32 + 16 * pick(i, 3, 2);
    shape.vocab = 50 + pick(i, 4, 60);
    shape.sequence = 4 + pick(i, 5, usual.context - 3); /* a row for each chunk */
    shape.recompute = rungs[pick(i, 6, 6)];
    shape.head_chunks = 1 + pick(i, 7, 4);
    shape.attention = pick(i, 8, 3) == 0 ? PLM_ATTENTION_PLAIN : PLM_ATTENTION_FUSED;
    shape.optimizer = pick(i, 9, 3) == 0 ? PLM_OPTIMIZER_SGD : PLM_OPTIMIZER_ADAMW;
    if (shape.precision == PLM_DTYPE_BF16 && shape.micro_batch == shape.batch &&
        pick(i, 10, 2) == 0) {
        shape.gradient = PLM_DTYPE_BF16;
        shape.update = PLM_UPDATE_EARLY;
        shape.head_chunks = 1;
    }
    return shape;
}

#endif
