/* SPDX-License-Identifier: MIT */
/*
 * Layer normalisation and its gradients, and the gradient of a bias.
 *
 * Along a row: one warp a row, which reads the row as often as it needs; the row stays in the first
 * cache meanwhile. Down a column: blocks take a part of the rows each and leave their sums in the
 * workspace, and a second kernel adds the parts in their order, so the result does not depend on
 * which block came first.
 */
#include "device/cuda/kernel/values.cuh"

/* out = (x - mean) rstd weight + bias    x [R,C], weight, bias [C] -> out [R,C], mean, rstd [R] */
template <typename T>
__device__ static void layer_norm(const T *x, const T *weight, const T *bias, T *out, float *mean,
                                  float *rstd, int64_t rows, int width, float epsilon)
{
    int64_t row = row_of_warp();
    int lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    x += row * width;
    out += row * width;
    float sum = 0.0f, squares = 0.0f;
    for (int c = lane; c < width; c += 32)
        sum += get(x[c]);
    float centre = warp_sum(sum) / (float)width;
    for (int c = lane; c < width; c += 32) {
        float distance = get(x[c]) - centre;
        squares += distance * distance;
    }
    float scale = rsqrtf(warp_sum(squares) / (float)width + epsilon);
    for (int c = lane; c < width; c += 32)
        out[c] = put<T>((get(x[c]) - centre) * scale * get(weight[c]) + get(bias[c]));
    if (lane == 0) {
        mean[row] = centre;
        rstd[row] = scale;
    }
}

/* g = dy weight, xhat = (x - mean) rstd, dx = rstd (g - mean_c(g) - xhat mean_c(g xhat)) */
template <typename T>
__device__ static void layer_norm_grad_input(const T *dy, const T *x, const T *weight,
                                             const float *mean, const float *rstd, T *dx,
                                             int64_t rows, int width)
{
    int64_t row = row_of_warp();
    int lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    dy += row * width;
    x += row * width;
    dx += row * width;
    float centre = mean[row], scale = rstd[row], sum = 0.0f, sum_xhat = 0.0f;
    for (int c = lane; c < width; c += 32) {
        float g = get(dy[c]) * get(weight[c]);
        sum += g;
        sum_xhat += g * ((get(x[c]) - centre) * scale);
    }
    float mean_g = warp_sum(sum) / (float)width, mean_xhat = warp_sum(sum_xhat) / (float)width;
    for (int c = lane; c < width; c += 32) {
        float xhat = (get(x[c]) - centre) * scale;
        dx[c] = put<T>(scale * (get(dy[c]) * get(weight[c]) - mean_g - xhat * mean_xhat));
    }
}

/* The rows that block `part` of `parts` sums. */
__device__ static inline void rows_of_part(int64_t rows, int parts, int part, int64_t *begin,
                                           int64_t *end)
{
    int64_t each = (rows + parts - 1) / parts;
    *begin = part * each < rows ? part * each : rows;
    *end = *begin + each < rows ? *begin + each : rows;
}

/* parts[p,0,:] = sum_r dy xhat, parts[p,1,:] = sum_r dy, over the rows of part p = blockIdx.y
   dy, x [R,C], mean, rstd [R] -> parts [P,2,C] */
template <typename T>
__device__ static void norm_parts(const T *dy, const T *x, const float *mean, const float *rstd,
                                  float *parts, int64_t rows, int width)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int64_t begin, end;
    rows_of_part(rows, gridDim.y, blockIdx.y, &begin, &end);
    if (c >= width)
        return;
    float weight = 0.0f, bias = 0.0f;
    for (int64_t r = begin; r < end; r++) {
        float d = get(dy[r * width + c]);
        weight += d * ((get(x[r * width + c]) - mean[r]) * rstd[r]);
        bias += d;
    }
    parts += (int64_t)blockIdx.y * 2 * width;
    parts[c] = weight;
    parts[width + c] = bias;
}

/* parts[p,:] = sum_r dy over the rows of part p    dy [R,N] -> parts [P,N] */
template <typename T>
__device__ static void bias_parts(const T *dy, float *parts, int64_t rows, int width)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int64_t begin, end;
    rows_of_part(rows, gridDim.y, blockIdx.y, &begin, &end);
    if (c >= width)
        return;
    float sum = 0.0f;
    for (int64_t r = begin; r < end; r++)
        sum += get(dy[r * width + c]);
    parts[(int64_t)blockIdx.y * width + c] = sum;
}

/* effect[c] = or += sum_p parts[p, stride p + c], in the order of p    effect [C] */
template <typename T>
__device__ static void join_parts(const float *parts, int count, int64_t stride, T *effect,
                                  int width, int accumulate)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= width)
        return;
    float sum = 0.0f;
    for (int p = 0; p < count; p++)
        sum += parts[p * stride + c];
    effect[c] = put<T>(accumulate ? get(effect[c]) + sum : sum);
}

#define NORM(T)                                                                                    \
    (const T *x, const T *weight, const T *bias, T *out, float *mean, float *rstd, int64_t rows,   \
     int width, float epsilon)
#define NORM_GRAD(T)                                                                               \
    (const T *dy, const T *x, const T *weight, const float *mean, const float *rstd, T *dx,        \
     int64_t rows, int width)
#define NORM_PARTS(T)                                                                              \
    (const T *dy, const T *x, const float *mean, const float *rstd, float *parts, int64_t rows,    \
     int width)
#define BIAS_PARTS(T) (const T *dy, float *parts, int64_t rows, int width)
#define JOIN_PARTS(T)                                                                              \
    (const float *parts, int count, int64_t stride, T *effect, int width, int accumulate)
TYPED(layer_norm, NORM, (x, weight, bias, out, mean, rstd, rows, width, epsilon))
TYPED(layer_norm_grad_input, NORM_GRAD, (dy, x, weight, mean, rstd, dx, rows, width))
TYPED(norm_parts, NORM_PARTS, (dy, x, mean, rstd, parts, rows, width))
TYPED(bias_parts, BIAS_PARTS, (dy, parts, rows, width))
TYPED(join_parts, JOIN_PARTS, (parts, count, stride, effect, width, accumulate))
