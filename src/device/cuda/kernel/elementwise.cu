/* SPDX-License-Identifier: MIT */
/*
 * One result an element: sums, activation functions and their gradients, the cast of masters. Each
 * thread works on 16 bytes of neighbours; what an unaligned tensor or the end leaves over goes one
 * element at a time.
 */
#include "device/cuda/kernel/values.cuh"

#define SQRT_2_OVER_PI 0.7978845608028654f
#define SQRT_HALF      0.7071067811865476f
#define SQRT_2_PI      2.5066282746310002f

/* out[i] = f(a[i]) over `count` elements of any shape */
template <typename T, typename F>
__device__ static void map_one(const T *a, T *out, int64_t count, F f)
{
    constexpr int N = pack<T>::COUNT;
    int64_t i = thread_of_grid() * N, step = threads_of_grid() * N;
    for (; is_aligned(a) && is_aligned(out) && i + N <= count; i += step) {
        pack<T> value = *(const pack<T> *)(a + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            value.at[k] = put<T>(f(get(value.at[k])));
        *(pack<T> *)(out + i) = value;
    }
    for (; i < count; i += step)
        for (int k = 0; k < N && i + k < count; k++)
            out[i + k] = put<T>(f(get(a[i + k])));
}

/* out[i] = f(a[i], b[i]) */
template <typename T, typename F>
__device__ static void map_two(const T *a, const T *b, T *out, int64_t count, F f)
{
    constexpr int N = pack<T>::COUNT;
    int64_t i = thread_of_grid() * N, step = threads_of_grid() * N;
    bool aligned = is_aligned(a) && is_aligned(b) && is_aligned(out);
    for (; aligned && i + N <= count; i += step) {
        pack<T> left = *(const pack<T> *)(a + i), right = *(const pack<T> *)(b + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            left.at[k] = put<T>(f(get(left.at[k]), get(right.at[k])));
        *(pack<T> *)(out + i) = left;
    }
    for (; i < count; i += step)
        for (int k = 0; k < N && i + k < count; k++)
            out[i + k] = put<T>(f(get(a[i + k]), get(b[i + k])));
}

template <typename T> __device__ static void gelu(const T *x, T *out, int64_t count)
{
    map_one(x, out, count, [](float v) {
        return 0.5f * v * (1.0f + tanhf(SQRT_2_OVER_PI * (v + 0.044715f * v * v * v)));
    });
}

template <typename T> __device__ static void gelu_exact(const T *x, T *out, int64_t count)
{
    map_one(x, out, count, [](float v) { return 0.5f * v * (1.0f + erff(v * SQRT_HALF)); });
}

template <typename T> __device__ static void add(const T *a, const T *b, T *out, int64_t count)
{
    map_two(a, b, out, count, [](float left, float right) { return left + right; });
}

template <typename T>
__device__ static void gelu_grad(const T *dy, const T *x, T *dx, int64_t count)
{
    map_two(dy, x, dx, count, [](float d, float v) {
        float t = tanhf(SQRT_2_OVER_PI * (v + 0.044715f * v * v * v));
        float slope = SQRT_2_OVER_PI * (1.0f + 3.0f * 0.044715f * v * v);
        return d * (0.5f * (1.0f + t) + 0.5f * v * (1.0f - t * t) * slope);
    });
}

template <typename T>
__device__ static void gelu_exact_grad(const T *dy, const T *x, T *dx, int64_t count)
{
    map_two(dy, x, dx, count, [](float d, float v) {
        float density = expf(-0.5f * v * v) / SQRT_2_PI;
        return d * (0.5f * (1.0f + erff(v * SQRT_HALF)) + v * density);
    });
}

/* weights = masters in the weights' type */
template <typename T> __device__ static void cast(const float *masters, T *weights, int64_t count)
{
    for (int64_t i = thread_of_grid(); i < count; i += threads_of_grid())
        weights[i] = put<T>(masters[i]);
}

#define ONE(T)  (const T *x, T *out, int64_t count)
#define TWO(T)  (const T *a, const T *b, T *out, int64_t count)
#define CAST(T) (const float *masters, T *weights, int64_t count)
TYPED(gelu, ONE, (x, out, count))
TYPED(gelu_exact, ONE, (x, out, count))
TYPED(add, TWO, (a, b, out, count))
TYPED(gelu_grad, TWO, (a, b, out, count))
TYPED(gelu_exact_grad, TWO, (a, b, out, count))
TYPED(cast, CAST, (masters, weights, count))
