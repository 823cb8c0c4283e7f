/* SPDX-License-Identifier: MIT */
/*
 * The update: norm of all gradients with the scale that clips them, AdamW, and SGD with momentum.
 * All work on flat tensors of any length. The norm's chunks are summed in their order, NORM_GROUP
 * at a time, so that it is the same for any number of threads and needs no workspace.
 */
#include <math.h>

#include "device/cpu/kernel/kernel.h"

enum { NORM_GROUP = 512 }; /* chunks whose sums are held at once */

static double squares(const float *x, int64_t count)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

/* total + squares of all elements, chunk by chunk */
static double add_squares(double total, const float *x, int64_t count, int threads)
{
    double sums[NORM_GROUP];
    int64_t chunks = (count + PLM_NORM_CHUNK - 1) / PLM_NORM_CHUNK;
    for (int64_t first = 0; first < chunks; first += NORM_GROUP) {
        int64_t end = plm_min(chunks, first + NORM_GROUP);
#pragma omp parallel for num_threads(threads) if (count > PLM_SERIAL_COUNT)
        for (int64_t i = first; i < end; i++)
            sums[i - first] = squares(x + i * PLM_NORM_CHUNK,
                                      plm_min(PLM_NORM_CHUNK, count - i * PLM_NORM_CHUNK));
        for (int64_t i = first; i < end; i++)
            total += sums[i - first];
    }
    return total;
}

void KERNEL(gradient_norm)(const plm_launch *launch, int threads)
{
    plm_step_record *step = launch->step;
    double total = 0.0;
    for (int i = 0; i < PLM_OP_INPUTS_MAX; i++)
        if (!plm_operand_is_absent(&launch->in[i]))
            total =
                add_squares(total, launch->in[i].data, plm_operand_count(&launch->in[i]), threads);
    float norm = (float)sqrt(total), clip = step->clip_norm;
    bool finite = isfinite(norm);
    step->gradient_norm = norm;
    step->clip_scale = finite && clip > 0.0f ? fminf(1.0f, clip / (norm + 1e-6f)) : 1.0f;
    step->skip = !finite;
    step->update_count += finite;
    step->skipped_count += !finite;
}

/* What an update needs of the step record, worked out once. */
typedef struct adamw {
    float clip, beta1, beta2, rate, epsilon, decay;
    float mean_scale, square_scale; /* 1 / (1 - beta^t) */
} adamw;

static void adamw_chunk(const adamw *job, const float *grad, float *p, float *m, float *v,
                        int64_t count)
{
    adamw s = *job;
    float fresh1 = 1.0f - s.beta1, fresh2 = 1.0f - s.beta2;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float g = s.clip * grad[i];
        float mean = s.beta1 * m[i] + fresh1 * g;
        float square = s.beta2 * v[i] + fresh2 * g * g;
        float step = mean * s.mean_scale / (sqrtf(square * s.square_scale) + s.epsilon);
        m[i] = mean;
        v[i] = square;
        p[i] -= s.rate * (step + s.decay * p[i]);
    }
}

void KERNEL(adamw)(const plm_launch *launch, int threads)
{
    const plm_step_record *step = launch->step;
    const float *grad = launch->in[0].data; /* [N] */
    float *p = launch->effect[0].data, *m = launch->effect[1].data, *v = launch->effect[2].data;
    int64_t count = plm_operand_count(&launch->in[0]);
    adamw job = {
        .clip = step->clip_scale,
        .beta1 = step->beta1,
        .beta2 = step->beta2,
        .rate = step->learning_rate,
        .epsilon = step->epsilon,
        .decay = launch->attr.decay ? step->weight_decay : 0.0f,
        .mean_scale = (float)(1.0 / (1.0 - pow((double)step->beta1, step->update_count))),
        .square_scale = (float)(1.0 / (1.0 - pow((double)step->beta2, step->update_count))),
    };
    if (step->skip)
        return;
#pragma omp parallel for num_threads(threads) if (count > PLM_SERIAL_COUNT)
    for (int64_t i = 0; i < count; i += PLM_CHUNK)
        adamw_chunk(&job, grad + i, p + i, m + i, v + i, plm_min(PLM_CHUNK, count - i));
}

static void sgd_chunk(const plm_step_record *step, float decay, const float *grad, float *p,
                      float *m, int64_t count)
{
    float clip = step->clip_scale, momentum = step->momentum, rate = step->learning_rate;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        m[i] = momentum * m[i] + (clip * grad[i] + decay * p[i]);
        p[i] -= rate * m[i];
    }
}

void KERNEL(sgd)(const plm_launch *launch, int threads)
{
    const plm_step_record *step = launch->step;
    const float *grad = launch->in[0].data; /* [N] */
    float *p = launch->effect[0].data, *m = launch->effect[1].data;
    int64_t count = plm_operand_count(&launch->in[0]);
    float decay = launch->attr.decay ? step->weight_decay : 0.0f;
    if (step->skip)
        return;
#pragma omp parallel for num_threads(threads) if (count > PLM_SERIAL_COUNT)
    for (int64_t i = 0; i < count; i += PLM_CHUNK)
        sgd_chunk(step, decay, grad + i, p + i, m + i, plm_min(PLM_CHUNK, count - i));
}
