/* SPDX-License-Identifier: MIT */
/*
 * The update: the norm of all gradients with the factor that unscales and clips them, AdamW, and
 * SGD with momentum. The norm is summed in chunks of PLM_NORM_CHUNK elements, whose sums are added
 * in their order, so the same gradients give the same norm on every run. Formulas: graph/ops.def.
 */
#include "graph/step_record.h"
#include "device/cuda/kernel/values.cuh"

enum { CHUNK = 4096 }; /* PLM_NORM_CHUNK */

/* sums[chunk] = sum of squares in double    x [N]; one block a chunk */
template <typename T> __device__ static void squares(const T *x, int64_t count, double *sums)
{
    __shared__ double room[32];
    int64_t first = (int64_t)blockIdx.x * CHUNK;
    double sum = 0.0;
    for (int64_t i = first + threadIdx.x; i < first + CHUNK && i < count; i += blockDim.x)
        sum += (double)get(x[i]) * (double)get(x[i]);
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

/* The sum of `count` chunks in their order: each thread adds up a run of them, then the runs. */
__device__ static double sum_of_chunks(const double *sums, int64_t count)
{
    __shared__ double runs[1024];
    int64_t each = (count + blockDim.x - 1) / blockDim.x, first = threadIdx.x * each;
    double sum = 0.0;
    for (int64_t i = first; i < first + each && i < count; i++)
        sum += sums[i];
    runs[threadIdx.x] = sum;
    __syncthreads();
    double total = 0.0;
    for (int t = 0; threadIdx.x == 0 && t < (int)blockDim.x; t++)
        total += runs[t];
    return total;
}

__device__ static void move_loss_scale(plm_step_record *step, bool is_finite)
{
    step->good_count = is_finite ? step->good_count + 1 : 0;
    if (!is_finite)
        step->loss_scale = fmaxf(1.0f, step->loss_scale / 2.0f);
    if (step->good_count < step->growth_interval)
        return;
    step->loss_scale = fminf(PLM_LOSS_SCALE_MAX, step->loss_scale * 2.0f);
    step->good_count = 0;
}

/* One block. */
extern "C" __global__ void gradient_norm(const double *sums, int64_t count, int early,
                                         plm_step_record *step)
{
    double total = sum_of_chunks(sums, count) + (early ? step->square_sum : 0.0);
    if (threadIdx.x != 0)
        return;
    float norm = (float)(sqrt(total) / (double)step->loss_scale), clip = step->clip_norm;
    bool is_finite = isfinite(norm);
    step->gradient_norm = norm;
    step->clip_scale = is_finite && clip > 0.0f ? fminf(1.0f, clip / (norm + 1e-6f)) : 1.0f;
    step->gradient_factor = step->clip_scale / step->loss_scale;
    step->skip = !is_finite;
    step->update_count += is_finite;
    step->skipped_count += !is_finite;
    if (step->growth_interval > 0)
        move_loss_scale(step, is_finite);
}

/* One block. */
extern "C" __global__ void gradient_part(const double *sums, int64_t count, plm_step_record *step)
{
    double total = sum_of_chunks(sums, count);
    if (threadIdx.x != 0)
        return;
    step->square_sum += total;
    if (!isfinite(step->square_sum))
        step->skip = 1;
}

/* effects p, m, v [N], grad [N] */
template <typename T>
__device__ static void adamw(const T *grad, float *p, float *m, float *v, int64_t count, int early,
                             int decays, const plm_step_record *step)
{
    if (step->skip)
        return;
    uint32_t t = step->update_count + early;
    float factor = step->gradient_factor, beta1 = step->beta1, beta2 = step->beta2;
    float decay = decays ? step->weight_decay : 0.0f, rate = step->learning_rate;
    float mean_scale = (float)(1.0 / (1.0 - pow((double)beta1, (double)t)));
    float square_scale = (float)(1.0 / (1.0 - pow((double)beta2, (double)t)));
    for (int64_t i = thread_of_grid(); i < count; i += threads_of_grid()) {
        float g = factor * get(grad[i]);
        float mean = beta1 * m[i] + (1.0f - beta1) * g;
        float square = beta2 * v[i] + (1.0f - beta2) * g * g;
        float change = mean * mean_scale / (sqrtf(square * square_scale) + step->epsilon);
        m[i] = mean;
        v[i] = square;
        p[i] -= rate * (change + decay * p[i]);
    }
}

/* effects p, m [N], grad [N] */
template <typename T>
__device__ static void sgd(const T *grad, float *p, float *m, int64_t count, int decays,
                           const plm_step_record *step)
{
    if (step->skip)
        return;
    float decay = decays ? step->weight_decay : 0.0f;
    for (int64_t i = thread_of_grid(); i < count; i += threads_of_grid()) {
        float moment =
            step->momentum * m[i] + (step->gradient_factor * get(grad[i]) + decay * p[i]);
        m[i] = moment;
        p[i] -= step->learning_rate * moment;
    }
}

#define SQUARES(T) (const T *x, int64_t count, double *sums)
#define ADAMW(T)                                                                                   \
    (const T *grad, float *p, float *m, float *v, int64_t count, int early, int decays,            \
     const plm_step_record *step)
#define SGD(T)                                                                                     \
    (const T *grad, float *p, float *m, int64_t count, int decays, const plm_step_record *step)
TYPED(squares, SQUARES, (x, count, sums))
TYPED(adamw, ADAMW, (grad, p, m, v, count, early, decays, step))
TYPED(sgd, SGD, (grad, p, m, count, decays, step))
