/* SPDX-License-Identifier: MIT */
/*
 * What the tests of attention's plans share, of GPUs that are described (test_attention_plans.c)
 * and of the card (test_cuda.c): cuDNN opened as the module opens cuDNN, and launches of attention
 * by their sizes. The test names PLM_CUDA_ROOT.
 */
#ifndef PLM_TEST_ATTENTION_KIT_H
#define PLM_TEST_ATTENTION_KIT_H

#include "unit/test.h"

#include <dlfcn.h>

#include "device/cuda/cuda_attention_graph.h"
#include "device/target/cuda_workspace.h"

static plm_cudnn dnn;

/* PLM_TEST_CUDNN's, the loader's or the toolkit's; dnn.library is NULL without one. */
static inline void open_cudnn(void)
{
    const char *const paths[] = {getenv("PLM_TEST_CUDNN"), "libcudnn.so.9",
                                 PLM_CUDA_ROOT "/lib64/libcudnn.so.9"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths && !dnn.library; i++)
        if (paths[i])
            dnn.library = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL);
    if (dnn.library)
        assert_ok(plm__cudnn_find(&dnn));
}

/* Attention as the engine launches it, but for the data. `key_heads` of `heads`. */
static inline plm_launch attention_launch(const plm_attention_graph *shape, int64_t key_heads)
{
    int64_t packed = (shape->heads + 2 * key_heads) * shape->size;
    int64_t width = shape->heads * shape->size;
    const plm_operand qkv = {
        .dtype = shape->dtype, .rank = 3, .shape = {shape->batch, shape->length, packed}};
    plm_operand out = qkv;
    out.shape[2] = width;
    plm_launch launch = {.attr = {.heads = (int32_t)shape->heads,
                                  .key_heads = (int32_t)key_heads,
                                  .causal = shape->causal}};
    if (shape->is_backward) {
        launch.kind = PLM_OP_ATTENTION_GRAD;
        launch.in[0] = out;
        launch.in[1] = qkv;
        launch.in[2] = out;
    } else {
        launch.kind = PLM_OP_ATTENTION;
        launch.in[0] = qkv;
    }
    return launch;
}

static inline size_t formula_of(const plm_launch *launch)
{
    size_t bytes = 0;
    assert_ok(plm__cuda_workspace(launch, &bytes));
    return bytes;
}

/* The sum of each row of dout out, which the backward has in fp32 whoever computes. */
static inline size_t row_sums_of(const plm_attention_graph *shape)
{
    return shape->is_backward ? (size_t)(shape->batch * shape->heads * shape->length) * 4 : 0;
}

/* A launch's workspace when cuDNN's own part is `bytes`. */
static inline size_t needed_bytes(const plm_attention_graph *shape, plm_attention_sums sums,
                                  size_t bytes)
{
    bool is_given = shape->is_backward && sums == PLM_ATTENTION_SUMS_GIVEN;
    size_t row = (size_t)shape->size * 4 * is_given;
    return bytes + (size_t)(shape->batch * shape->heads * shape->length) * row + row_sums_of(shape);
}

static inline void fail_at_shape(const char *card, const plm_attention_graph *s, const char *what)
{
    fail_msg("%s, cuDNN %zu, %s of %s attention, %lld x %lld tokens, %lld heads of %lld, %s: %s",
             card, dnn.version, s->is_backward ? "backward" : "forward",
             s->causal ? "causal" : "full", (long long)s->batch, (long long)s->length,
             (long long)s->heads, (long long)s->size, plm_dtype_text(s->dtype), what);
}

#endif
