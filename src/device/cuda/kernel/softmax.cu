/* SPDX-License-Identifier: MIT */
/* Softmax along rows and its gradient, and the mask of plain attention. One warp a row. */
#include "device/cuda/kernel/values.cuh"

/* out = softmax over the last dimension    scores [R,N] -> [R,N], in place too */
template <typename T>
__device__ static void softmax(const T *scores, T *out, int64_t rows, int width)
{
    int64_t row = row_of_warp();
    int lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    scores += row * width;
    out += row * width;
    float most = -INFINITY, sum = 0.0f;
    for (int c = lane; c < width; c += 32)
        most = fmaxf(most, get(scores[c]));
    most = warp_max(most);
    for (int c = lane; c < width; c += 32)
        sum += expf(get(scores[c]) - most);
    float scale = 1.0f / warp_sum(sum);
    for (int c = lane; c < width; c += 32)
        out[c] = put<T>(expf(get(scores[c]) - most) * scale);
}

/* dscores = probs (dprobs - rowsum(dprobs probs))    dprobs, probs [R,N] -> [R,N] */
template <typename T>
__device__ static void softmax_grad(const T *dprobs, const T *probs, T *dscores, int64_t rows,
                                    int width)
{
    int64_t row = row_of_warp();
    int lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    dprobs += row * width;
    probs += row * width;
    dscores += row * width;
    float sum = 0.0f;
    for (int c = lane; c < width; c += 32)
        sum += get(dprobs[c]) * get(probs[c]);
    sum = warp_sum(sum);
    for (int c = lane; c < width; c += 32)
        dscores[c] = put<T>(get(probs[c]) * (get(dprobs[c]) - sum));
}

/* scores[m,i,j] = value where j > i    scores [M,T,T] */
template <typename T>
__device__ static void mask_future(T *scores, int64_t rows, int width, float value)
{
    int64_t row = row_of_warp();
    int lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    scores += row * width;
    for (int c = (int)(row % width) + 1 + lane; c < width; c += 32)
        scores[c] = put<T>(value);
}

#define SOFTMAX(T)      (const T *scores, T *out, int64_t rows, int width)
#define SOFTMAX_GRAD(T) (const T *dprobs, const T *probs, T *dscores, int64_t rows, int width)
#define MASK(T)         (T * scores, int64_t rows, int width, float value)
TYPED(softmax, SOFTMAX, (scores, out, rows, width))
TYPED(softmax_grad, SOFTMAX_GRAD, (dprobs, probs, dscores, rows, width))
TYPED(mask_future, MASK, (scores, rows, width, value))
