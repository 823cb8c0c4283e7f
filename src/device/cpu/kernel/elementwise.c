/* SPDX-License-Identifier: MIT */
/*
 * Elementwise kernels: gelu in both forms, their gradients, and the sum of two tensors. Any
 * contiguous shape; work is cut into chunks of PLM_CHUNK elements. The output may be either input.
 */
#include "device/cpu/kernel/values.h"
#include "device/cpu/kernel/vector_math.h"

typedef void one_input(const float *x, float *out, int64_t count);
typedef void two_inputs(const float *a, const float *b, float *out, int64_t count);

/* out = f(x), chunk by chunk */
static void map_one(const plm_launch *launch, int threads, one_input *chunk)
{
    const plm_operand *x = &launch->in[0], *out = &launch->out[0]; /* any shape */
    int64_t elements = plm__operand_count(x);
#pragma omp parallel for num_threads(threads) if (elements > PLM_SERIAL_COUNT)
    for (int64_t i = 0; i < elements; i += PLM_CHUNK) {
        float room[PLM_CHUNK];
        int64_t count = plm__min(PLM_CHUNK, elements - i);
        float *to = plm__place(out, i, room);
        chunk(plm__values(x, i, count, room), to, count);
        plm__put(out, i, count, to);
    }
}

/* out = f(a, b), chunk by chunk */
static void map_two(const plm_launch *launch, int threads, two_inputs *chunk)
{
    const plm_operand *a = &launch->in[0], *b = &launch->in[1], *out = &launch->out[0];
    int64_t elements = plm__operand_count(a); /* any shape, all the same */
#pragma omp parallel for num_threads(threads) if (elements > PLM_SERIAL_COUNT)
    for (int64_t i = 0; i < elements; i += PLM_CHUNK) {
        float room[PLM_CHUNK], room_b[PLM_CHUNK];
        int64_t count = plm__min(PLM_CHUNK, elements - i);
        float *to = plm__place(out, i, room);
        chunk(plm__values(a, i, count, room), plm__values(b, i, count, room_b), to, count);
        plm__put(out, i, count, to);
    }
}

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
        out[i] = x[i] * plm__sigmoid(twice_u);
    }
}

void KERNEL(gelu)(const plm_launch *launch, int threads)
{
    map_one(launch, threads, gelu_chunk);
}

/* With s = sigmoid(2u): d gelu / dx = s + x s (1 - s) d(2u)/dx. */
static void gelu_grad_chunk(const float *dy, const float *x, float *dx, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float square = x[i] * x[i];
        float s = plm__sigmoid(GELU_SLOPE * x[i] * (1.0f + GELU_CUBE * square));
        float slope = GELU_SLOPE * (1.0f + 3.0f * GELU_CUBE * square);
        dx[i] = dy[i] * (s + x[i] * s * (1.0f - s) * slope);
    }
}

void KERNEL(gelu_grad)(const plm_launch *launch, int threads)
{
    map_two(launch, threads, gelu_grad_chunk);
}

static void gelu_exact_chunk(const float *x, float *out, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        out[i] = x[i] * plm__normal_below(x[i], plm__exp(-0.5f * x[i] * x[i]));
}

void KERNEL(gelu_exact)(const plm_launch *launch, int threads)
{
    map_one(launch, threads, gelu_exact_chunk);
}

/* With gelu(x) = x below(x), where below' is the normal density: d gelu / dx = below + x density.
 */
static void gelu_exact_grad_chunk(const float *dy, const float *x, float *dx, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float power = plm__exp(-0.5f * x[i] * x[i]);
        dx[i] = dy[i] * (plm__normal_below(x[i], power) + x[i] * power * NORMAL_PEAK);
    }
}

void KERNEL(gelu_exact_grad)(const plm_launch *launch, int threads)
{
    map_two(launch, threads, gelu_exact_grad_chunk);
}

static void add_chunk(const float *a, const float *b, float *out, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
}

void KERNEL(add)(const plm_launch *launch, int threads)
{
    map_two(launch, threads, add_chunk);
}
