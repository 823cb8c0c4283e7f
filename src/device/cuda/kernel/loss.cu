/* SPDX-License-Identifier: MIT */
/* Cross entropy and its gradient, one block a row of logits; and the sum of losses. */
#include "graph/step_record.h"
#include "device/cuda/kernel/values.cuh"

/* lse = log sum exp of the row's first `columns`, loss = lse - logits[target], 0 where target < 0
   logits [R,V], targets [R] -> loss, lse [R]. The sum is kept beside a running maximum. */
template <typename T>
__device__ static void cross_entropy(const T *logits, const int32_t *targets, float *loss,
                                     float *lse, int64_t width, int64_t columns)
{
    __shared__ float room[32];
    int64_t row = blockIdx.x;
    logits += row * width;
    float most = -INFINITY, sum = 0.0f;
    for (int64_t v = threadIdx.x; v < columns; v += blockDim.x) {
        float value = get(logits[v]);
        if (value > most) {
            sum *= expf(most - value);
            most = value;
        }
        sum += most == -INFINITY ? 0.0f : expf(value - most);
    }
    float all = block_max(most, room);
    float total = block_sum(most == -INFINITY ? 0.0f : sum * expf(most - all), room);
    if (threadIdx.x != 0)
        return;
    float result = all + logf(total);
    lse[row] = result;
    loss[row] = targets[row] < 0 ? 0.0f : result - get(logits[targets[row]]);
}

/* dlogits = loss_scale inverse_count (softmax(logits) - onehot(target)), 0 where target < 0 and
   from `columns` on    logits [R,V], targets [R], lse [R] -> [R,V], in place too */
template <typename T>
__device__ static void cross_entropy_grad(const T *logits, const int32_t *targets, const float *lse,
                                          T *dlogits, int64_t width, int64_t columns,
                                          const plm_step_record *step)
{
    int64_t row = blockIdx.x;
    int32_t target = targets[row];
    float scale = target < 0 ? 0.0f : step->loss_scale * step->inverse_count, sum = lse[row];
    logits += row * width;
    dlogits += row * width;
    for (int64_t v = threadIdx.x; v < width; v += blockDim.x) {
        bool counts = target >= 0 && v < columns;
        float probability = counts ? expf(get(logits[v]) - sum) : 0.0f;
        dlogits[v] = put<T>(scale * (probability - (v == target ? 1.0f : 0.0f)));
    }
}

/* step.loss_sum += sum of losses, in double    losses [R]; one block */
extern "C" __global__ void loss_sum(const float *losses, int64_t rows, plm_step_record *step)
{
    __shared__ double room[32];
    double sum = 0.0;
    for (int64_t r = threadIdx.x; r < rows; r += blockDim.x)
        sum += (double)losses[r];
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        step->loss_sum += sum;
}

#define LOSS(T)                                                                                    \
    (const T *logits, const int32_t *targets, float *loss, float *lse, int64_t width,              \
     int64_t columns)
#define LOSS_GRAD(T)                                                                               \
    (const T *logits, const int32_t *targets, const float *lse, T *dlogits, int64_t width,         \
     int64_t columns, const plm_step_record *step)
TYPED(cross_entropy, LOSS, (logits, targets, loss, lse, width, columns))
TYPED(cross_entropy_grad, LOSS_GRAD, (logits, targets, lse, dlogits, width, columns, step))
