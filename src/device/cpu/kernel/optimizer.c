/* SPDX-License-Identifier: MIT */
/*
 * The update: norm of all gradients with the factor that unscales and clips them, AdamW, SGD with
 * momentum, and the cast of masters into weights.
 * All work on flat tensors of any length. The norm's chunks are summed in their order, NORM_GROUP
 * at a time, so that it is the same for any number of threads and needs no workspace.
 */
#include <math.h>
#include <string.h>

#include "device/cpu/kernel/values.h"

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
static double add_squares(double total, const plm_operand *x, int threads)
{
    double sums[NORM_GROUP];
    int64_t count = plm__operand_count(x);
    int64_t chunks = (count + PLM_NORM_CHUNK - 1) / PLM_NORM_CHUNK;
    for (int64_t first = 0; first < chunks; first += NORM_GROUP) {
        int64_t end = plm__min(chunks, first + NORM_GROUP);
#pragma omp parallel for num_threads(threads) if (count > PLM_SERIAL_COUNT)
        for (int64_t i = first; i < end; i++) {
            float room[PLM_NORM_CHUNK];
            int64_t at = i * PLM_NORM_CHUNK, each = plm__min(PLM_NORM_CHUNK, count - at);
            sums[i - first] = squares(plm__values(x, at, each, room), each);
        }
        for (int64_t i = first; i < end; i++)
            total += sums[i - first];
    }
    return total;
}

static void move_loss_scale(plm_step_record *step, bool finite)
{
    step->good_count = finite ? step->good_count + 1 : 0;
    if (!finite)
        step->loss_scale = fmaxf(1.0f, step->loss_scale / 2.0f);
    if (step->good_count < step->growth_interval)
        return;
    step->loss_scale = fminf(PLM_LOSS_SCALE_MAX, step->loss_scale * 2.0f);
    step->good_count = 0;
}

void KERNEL(gradient_norm)(const plm_launch *launch, int threads)
{
    plm_step_record *step = launch->step;
    double total = launch->attr.early ? step->square_sum : 0.0;
    for (int i = 0; i < PLM_OP_INPUTS_MAX; i++)
        if (!plm__operand_is_absent(&launch->in[i]))
            total = add_squares(total, &launch->in[i], threads);
    float norm = (float)(sqrt(total) / (double)step->loss_scale), clip = step->clip_norm;
    bool finite = isfinite(norm);
    step->gradient_norm = norm;
    step->clip_scale = finite && clip > 0.0f ? fminf(1.0f, clip / (norm + 1e-6f)) : 1.0f;
    step->gradient_factor = step->clip_scale / step->loss_scale;
    step->skip = !finite;
    step->update_count += finite;
    step->skipped_count += !finite;
    if (step->growth_interval > 0)
        move_loss_scale(step, finite);
}

void KERNEL(gradient_part)(const plm_launch *launch, int threads)
{
    plm_step_record *step = launch->step;
    step->square_sum += add_squares(0.0, &launch->in[0], threads);
    if (!isfinite(step->square_sum))
        step->skip = 1;
}

/* What an update needs of the step record, worked out once. */
typedef struct adamw {
    float factor, beta1, beta2, rate, epsilon, decay;
    float mean_scale, square_scale; /* 1 / (1 - beta^t) */
} adamw;

static void adamw_chunk(const adamw *job, const float *grad, float *p, float *m, float *v,
                        int64_t count)
{
    adamw s = *job;
    float fresh1 = 1.0f - s.beta1, fresh2 = 1.0f - s.beta2;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float g = s.factor * grad[i];
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
    const plm_operand *grad = &launch->in[0]; /* [N] */
    float *p = launch->effect[0].data, *m = launch->effect[1].data, *v = launch->effect[2].data;
    int64_t count = plm__operand_count(grad);
    uint32_t t = step->update_count + launch->attr.early;
    adamw job = {
        .factor = step->gradient_factor,
        .beta1 = step->beta1,
        .beta2 = step->beta2,
        .rate = step->learning_rate,
        .epsilon = step->epsilon,
        .decay = launch->attr.decay ? step->weight_decay : 0.0f,
        .mean_scale = (float)(1.0 / (1.0 - pow((double)step->beta1, t))),
        .square_scale = (float)(1.0 / (1.0 - pow((double)step->beta2, t))),
    };
    if (step->skip)
        return;
#pragma omp parallel for num_threads(threads) if (count > PLM_SERIAL_COUNT)
    for (int64_t i = 0; i < count; i += PLM_CHUNK) {
        float room[PLM_CHUNK];
        int64_t each = plm__min(PLM_CHUNK, count - i);
        adamw_chunk(&job, plm__values(grad, i, each, room), p + i, m + i, v + i, each);
    }
}

static void sgd_chunk(const plm_step_record *step, float decay, const float *grad, float *p,
                      float *m, int64_t count)
{
    float factor = step->gradient_factor, momentum = step->momentum, rate = step->learning_rate;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        m[i] = momentum * m[i] + (factor * grad[i] + decay * p[i]);
        p[i] -= rate * m[i];
    }
}

void KERNEL(sgd)(const plm_launch *launch, int threads)
{
    const plm_step_record *step = launch->step;
    const plm_operand *grad = &launch->in[0]; /* [N] */
    float *p = launch->effect[0].data, *m = launch->effect[1].data;
    int64_t count = plm__operand_count(grad);
    float decay = launch->attr.decay ? step->weight_decay : 0.0f;
    if (step->skip)
        return;
#pragma omp parallel for num_threads(threads) if (count > PLM_SERIAL_COUNT)
    for (int64_t i = 0; i < count; i += PLM_CHUNK) {
        float room[PLM_CHUNK];
        int64_t each = plm__min(PLM_CHUNK, count - i);
        sgd_chunk(step, decay, plm__values(grad, i, each, room), p + i, m + i, each);
    }
}

static void cast_chunk(const float *masters, const plm_operand *weights, int64_t first,
                       int64_t count)
{
    if (plm__is_half(weights))
        plm__put(weights, first, count, masters);
    else
        memcpy(plm__value_at(weights, first), masters, (size_t)count * sizeof(float));
}

void KERNEL(cast)(const plm_launch *launch, int threads)
{
    const float *masters = launch->in[0].data; /* [N] */
    int64_t count = plm__operand_count(&launch->in[0]);
#pragma omp parallel for num_threads(threads) if (count > PLM_SERIAL_COUNT)
    for (int64_t i = 0; i < count; i += PLM_CHUNK)
        cast_chunk(masters + i, &launch->effect[0], i, plm__min(PLM_CHUNK, count - i));
}
