/* SPDX-License-Identifier: MIT */
/*
 * Elementwise kernels: gelu in both forms, their gradients, and the sum of two tensors. Any
 * contiguous shape; work is cut into chunks of PLM_CHUNK elements. The output may be either input.
 */
#include "device/cpu/kernel/kernel.h"
#include "device/cpu/kernel/vector_math.h"

/* gelu(x) = x/2 (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3). As (1 + tanh u) / 2 is the
 * sigmoid of 2u, it is x sigmoid(2u), which keeps its precision for negative x. */
#define GELU_SLOPE 1.5957691216f /* 2 sqrt(2/pi) */
#define GELU_CUBE  0.044715f

#define NORMAL_PEAK 0.3989422804f /* density of the normal distribution at 0: 1 / sqrt(2 pi) */

static void gelu_chunk(const float *x, float *out, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float twice_u = GELU_SLOPE * x[i] * (1.0f + GELU_CUBE * x[i] * x[i]);
        out[i] = x[i] * plm_sigmoid(twice_u);
    }
}

void KERNEL(gelu)(const plm_launch *launch, int threads)
{
    const float *x = launch->in[0].data; /* any shape */
    float *out = launch->out[0].data;
    int64_t count = plm_operand_count(&launch->in[0]);
#pragma omp parallel for num_threads(threads) if (count > PLM_SERIAL_COUNT)
    for (int64_t i = 0; i < count; i += PLM_CHUNK)
        gelu_chunk(x + i, out + i, plm_min(PLM_CHUNK, count - i));
}

/* With s = sigmoid(2u): d gelu / dx = s + x s (1 - s) d(2u)/dx. */
static void gelu_grad_chunk(const float *dy, const float *x, float *dx, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float square = x[i] * x[i];
        float s = plm_sigmoid(GELU_SLOPE * x[i] * (1.0f + GELU_CUBE * square));
        float slope = GELU_SLOPE * (1.0f + 3.0f * GELU_CUBE * square);
        dx[i] = dy[i] * (s + x[i] * s * (1.0f - s) * slope);
    }
}

void KERNEL(gelu_grad)(const plm_launch *launch, int threads)
{
    const float *dy = launch->in[0].data; /* any shape */
    const float *x = launch->in[1].data;
    float *dx = launch->out[0].data;
    int64_t count = plm_operand_count(&launch->in[0]);
#pragma omp parallel for num_threads(threads) if (count > PLM_SERIAL_COUNT)
    for (int64_t i = 0; i < count; i += PLM_CHUNK)
        gelu_grad_chunk(dy + i, x + i, dx + i, plm_min(PLM_CHUNK, count - i));
}

static void gelu_exact_chunk(const float *x, float *out, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        out[i] = x[i] * plm_normal_below(x[i], plm_exp(-0.5f * x[i] * x[i]));
}

void KERNEL(gelu_exact)(const plm_launch *launch, int threads)
{
    const float *x = launch->in[0].data; /* any shape */
    float *out = launch->out[0].data;
    int64_t count = plm_operand_count(&launch->in[0]);
#pragma omp parallel for num_threads(threads) if (count > PLM_SERIAL_COUNT)
    for (int64_t i = 0; i < count; i += PLM_CHUNK)
        gelu_exact_chunk(x + i, out + i, plm_min(PLM_CHUNK, count - i));
}

/* With gelu(x) = x below(x), where below' is the normal density: d gelu / dx = below + x density.
 */
static void gelu_exact_grad_chunk(const float *dy, const float *x, float *dx, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float power = plm_exp(-0.5f * x[i] * x[i]);
        dx[i] = dy[i] * (plm_normal_below(x[i], power) + x[i] * power * NORMAL_PEAK);
    }
}

void KERNEL(gelu_exact_grad)(const plm_launch *launch, int threads)
{
    const float *dy = launch->in[0].data; /* any shape */
    const float *x = launch->in[1].data;
    float *dx = launch->out[0].data;
    int64_t count = plm_operand_count(&launch->in[0]);
#pragma omp parallel for num_threads(threads) if (count > PLM_SERIAL_COUNT)
    for (int64_t i = 0; i < count; i += PLM_CHUNK)
        gelu_exact_grad_chunk(dy + i, x + i, dx + i, plm_min(PLM_CHUNK, count - i));
}

static void add_chunk(const float *a, const float *b, float *out, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
}

void KERNEL(add)(const plm_launch *launch, int threads)
{
    const float *a = launch->in[0].data; /* any shape */
    const float *b = launch->in[1].data;
    float *out = launch->out[0].data;
    int64_t count = plm_operand_count(&launch->in[0]);
#pragma omp parallel for num_threads(threads) if (count > PLM_SERIAL_COUNT)
    for (int64_t i = 0; i < count; i += PLM_CHUNK)
        add_chunk(a + i, b + i, out + i, plm_min(PLM_CHUNK, count - i));
}
