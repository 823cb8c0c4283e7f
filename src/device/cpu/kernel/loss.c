/* SPDX-License-Identifier: MIT */
/*
 * Rows of probabilities: softmax and its gradient, cross-entropy and its gradient, the sum of the
 * losses. A row's maximum is taken off before any exponential, so nothing overflows.
 */
#include <string.h>

#include "device/cpu/kernel/row_room.h"
#include "device/cpu/kernel/sums.h"
#include "device/cpu/kernel/vector_math.h"

/* sum_i e^(x_i - top) */
static float sum_of_exponentials(const float *x, float top, int64_t count)
{
    double sum = 0.0;
    for (int64_t start = 0; start < count; start += PLM_SUM_PIECE) {
        int64_t end = plm__min(count, start + PLM_SUM_PIECE);
        float piece = 0.0f;
#pragma omp simd reduction(+ : piece)
        for (int64_t i = start; i < end; i++)
            piece += plm__exp(x[i] - top);
        sum += (double)piece;
    }
    return (float)sum;
}

static void softmax_row(const float *scores, float *out, int64_t count)
{
    float top = plm__row_max(scores, count);
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        out[i] = plm__exp(scores[i] - top);
    float scale = 1.0f / plm__row_sum(out, count);
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        out[i] *= scale;
}

void KERNEL(softmax)(const plm_launch *launch, int threads)
{
    const plm_operand *scores = &launch->in[0], *out = &launch->out[0]; /* [R,N] */
    int64_t rows = plm__operand_rows(scores), width = plm__operand_width(scores);
#pragma omp parallel for num_threads(threads) if (rows * width > PLM_SERIAL_COUNT)
    for (int64_t r = 0; r < rows; r++) {
        float *room = plm__thread_room(launch, width, 0), *to = plm__place(out, r * width, room);
        softmax_row(plm__values(scores, r * width, width, room), to, width);
        plm__put(out, r * width, width, to);
    }
}

/* dscores = probs (dprobs - sum(dprobs probs)) */
static void softmax_grad_row(const float *dprobs, const float *probs, float *dscores, int64_t count)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += dprobs[i] * probs[i];
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        dscores[i] = probs[i] * (dprobs[i] - sum);
}

void KERNEL(softmax_grad)(const plm_launch *launch, int threads)
{
    const plm_operand *dprobs = &launch->in[0], *probs = &launch->in[1]; /* [R,N] */
    const plm_operand *dscores = &launch->out[0];                        /* [R,N] */
    int64_t rows = plm__operand_rows(probs), width = plm__operand_width(probs);
#pragma omp parallel for num_threads(threads) if (rows * width > PLM_SERIAL_COUNT)
    for (int64_t r = 0; r < rows; r++) {
        float *room = plm__thread_room(launch, width, 0),
              *to = plm__place(dscores, r * width, room);
        softmax_grad_row(plm__values(dprobs, r * width, width, room),
                         plm__values(probs, r * width, width, plm__thread_room(launch, width, 1)),
                         to, width);
        plm__put(dscores, r * width, width, to);
    }
}

void KERNEL(cross_entropy)(const plm_launch *launch, int threads)
{
    const plm_operand *logits = &launch->in[0];                    /* [R,V] */
    const int32_t *targets = launch->in[1].data;                   /* [R], negative: not counted */
    float *loss = launch->out[0].data, *lse = launch->out[1].data; /* [R] */
    int64_t rows = plm__operand_rows(logits), width = plm__operand_width(logits);
    int64_t columns = launch->attr.columns;
#pragma omp parallel for num_threads(threads) if (rows * width > PLM_SERIAL_COUNT)
    for (int64_t r = 0; r < rows; r++) {
        PLM_ASSERT(targets[r] < columns);
        const float *row =
            plm__values(logits, r * width, columns, plm__thread_room(launch, width, 0));
        float top = plm__row_max(row, columns);
        lse[r] = top + logf(sum_of_exponentials(row, top, columns));
        loss[r] = targets[r] < 0 ? 0.0f : lse[r] - row[targets[r]];
    }
}

/* dlogits = scale (e^(logits - lse) - onehot(target)), 0 where the target is not counted */
static void cross_entropy_grad_row(const float *logits, int32_t target, float lse, float scale,
                                   float *dlogits, int64_t width)
{
    if (target < 0) {
        memset(dlogits, 0, (size_t)width * sizeof *dlogits);
        return;
    }
#pragma omp simd
    for (int64_t v = 0; v < width; v++)
        dlogits[v] = scale * plm__exp(logits[v] - lse);
    dlogits[target] -= scale;
}

void KERNEL(cross_entropy_grad)(const plm_launch *launch, int threads)
{
    const plm_operand *logits = &launch->in[0], *dlogits = &launch->out[0]; /* [R,V] */
    const int32_t *targets = launch->in[1].data;                            /* [R] */
    const float *lse = launch->in[2].data;                                  /* [R] */
    float scale = launch->step->loss_scale * launch->step->inverse_count;
    int64_t columns = launch->attr.columns;
    int64_t rows = plm__operand_rows(logits), width = plm__operand_width(logits);
#pragma omp parallel for num_threads(threads) if (rows * width > PLM_SERIAL_COUNT)
    for (int64_t r = 0; r < rows; r++) {
        float *room = plm__thread_room(launch, width, 0),
              *to = plm__place(dlogits, r * width, room);
        cross_entropy_grad_row(plm__values(logits, r * width, columns, room), targets[r], lse[r],
                               scale, to, columns);
        memset(to + columns, 0, (size_t)(width - columns) * sizeof *to);
        plm__put(dlogits, r * width, width, to);
    }
}

/* One loss after the other, so that the sum does not depend on how a window is cut. */
void KERNEL(loss_sum)(const plm_launch *launch, int threads)
{
    (void)threads;
    const float *losses = launch->in[0].data; /* [R] */
    int64_t count = plm__operand_count(&launch->in[0]);
    double sum = launch->step->loss_sum;
    for (int64_t r = 0; r < count; r++)
        sum += (double)losses[r];
    launch->step->loss_sum = sum;
}
