/* SPDX-License-Identifier: MIT */
/*
 * Layer normalisation over the last dimension and its gradients, and the gradient of a bias: sums
 * along rows, and sums down columns. A column belongs to one thread and is summed in the order of
 * the rows, PLM_SUM_ROWS at a time.
 */
#include <math.h>

#include "device/cpu/kernel/row_room.h"
#include "device/cpu/kernel/sums.h"

static float squared_distance(const float *x, float mean, int64_t count)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < count; c++)
        sum += (x[c] - mean) * (x[c] - mean);
    return sum;
}

static void normalise_row(const float *x, const float *weight, const float *bias, float epsilon,
                          int64_t width, float *out, float *mean, float *rstd)
{
    float centre = plm__row_sum(x, width) / (float)width;
    float variance = squared_distance(x, centre, width) / (float)width;
    float scale = 1.0f / sqrtf(variance + epsilon);
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
        out[c] = (x[c] - centre) * scale * weight[c] + bias[c];
    *mean = centre;
    *rstd = scale;
}

void KERNEL(layer_norm)(const plm_launch *launch, int threads)
{
    const plm_operand *x = &launch->in[0], *out = &launch->out[0];  /* [R,C] */
    float *mean = launch->out[1].data, *rstd = launch->out[2].data; /* [R] */
    int64_t rows = plm__operand_rows(x), width = plm__operand_width(x);
    const float *weight =
        plm__values(&launch->in[1], 0, width, plm__shared_room(launch, width, 0)); /* [C] */
    const float *bias =
        plm__values(&launch->in[2], 0, width, plm__shared_room(launch, width, 1)); /* [C] */
    float epsilon = launch->attr.epsilon;
#pragma omp parallel for num_threads(threads) if (rows * width > PLM_SERIAL_COUNT)
    for (int64_t r = 0; r < rows; r++) {
        float *room = plm__thread_room(launch, width, 0), *to = plm__place(out, r * width, room);
        normalise_row(plm__values(x, r * width, width, room), weight, bias, epsilon, width, to,
                      mean + r, rstd + r);
        plm__put(out, r * width, width, to);
    }
}

/* g = dy weight, xhat = (x - mean) rstd, dx = rstd (g - mean_c(g) - xhat mean_c(g xhat)) */
static void grad_input_row(const float *dy, const float *x, const float *weight, float mean,
                           float rstd, int64_t width, float *dx)
{
    float sum = 0.0f, sum_xhat = 0.0f;
#pragma omp simd reduction(+ : sum, sum_xhat)
    for (int64_t c = 0; c < width; c++) {
        float g = dy[c] * weight[c];
        sum += g;
        sum_xhat += g * ((x[c] - mean) * rstd);
    }
    float mean_g = sum / (float)width, mean_xhat = sum_xhat / (float)width;
#pragma omp simd
    for (int64_t c = 0; c < width; c++) {
        float xhat = (x[c] - mean) * rstd;
        dx[c] = rstd * (dy[c] * weight[c] - mean_g - xhat * mean_xhat);
    }
}

void KERNEL(layer_norm_grad_input)(const plm_launch *launch, int threads)
{
    const plm_operand *dy = &launch->in[0], *x = &launch->in[1], *dx = &launch->out[0]; /* [R,C] */
    const float *mean = launch->in[3].data, *rstd = launch->in[4].data;                 /* [R] */
    int64_t rows = plm__operand_rows(x), width = plm__operand_width(x);
    const float *weight =
        plm__values(&launch->in[2], 0, width, plm__shared_room(launch, width, 0)); /* [C] */
#pragma omp parallel for num_threads(threads) if (rows * width > PLM_SERIAL_COUNT)
    for (int64_t r = 0; r < rows; r++) {
        float *room = plm__thread_room(launch, width, 0), *to = plm__place(dx, r * width, room);
        grad_input_row(plm__values(dy, r * width, width, room),
                       plm__values(x, r * width, width, plm__thread_room(launch, width, 1)), weight,
                       mean[r], rstd[r], width, to);
        plm__put(dx, r * width, width, to);
    }
}

/* Moves `count` sums, at most PLM_COLUMN_CHUNK, into the effect from `first` on, or adds them. */
static void deliver(const plm_operand *effect, int64_t first, const float *sum, int64_t count,
                    bool accumulate)
{
    float room[PLM_COLUMN_CHUNK];
    float *to = plm__place_filled(effect, first, count, room);
    for (int64_t c = 0; c < count; c++)
        to[c] = accumulate ? to[c] + sum[c] : sum[c];
    plm__put(effect, first, count, to);
}

static void join(float *total, float *part, int64_t count)
{
    for (int64_t c = 0; c < count; c++) {
        total[c] += part[c];
        part[c] = 0.0f;
    }
}

typedef struct grad_weight {
    const plm_operand *dy, *x;          /* [R,C] */
    const float *mean, *rstd;           /* [R] */
    const plm_operand *dweight, *dbias; /* [C] */
    int64_t rows, width;
    bool accumulate;
} grad_weight;

/* dweight = sum_r dy xhat, dbias = sum_r dy, for `count` columns from `first` on. */
static void grad_weight_columns(const grad_weight *job, int64_t first, int64_t count)
{
    float weight_sum[PLM_COLUMN_CHUNK] = {0}, weight_part[PLM_COLUMN_CHUNK] = {0};
    float bias_sum[PLM_COLUMN_CHUNK] = {0}, bias_part[PLM_COLUMN_CHUNK] = {0};
    float room[PLM_COLUMN_CHUNK], room_x[PLM_COLUMN_CHUNK];
    for (int64_t r = 0; r < job->rows; r++) {
        const float *dy = plm__values(job->dy, r * job->width + first, count, room);
        const float *x = plm__values(job->x, r * job->width + first, count, room_x);
        float mean = job->mean[r], rstd = job->rstd[r];
#pragma omp simd
        for (int64_t c = 0; c < count; c++) {
            weight_part[c] += dy[c] * ((x[c] - mean) * rstd);
            bias_part[c] += dy[c];
        }
        if (r % PLM_SUM_ROWS == PLM_SUM_ROWS - 1) {
            join(weight_sum, weight_part, count);
            join(bias_sum, bias_part, count);
        }
    }
    join(weight_sum, weight_part, count);
    join(bias_sum, bias_part, count);
    deliver(job->dweight, first, weight_sum, count, job->accumulate);
    deliver(job->dbias, first, bias_sum, count, job->accumulate);
}

void KERNEL(layer_norm_grad_weight)(const plm_launch *launch, int threads)
{
    grad_weight job = {
        .dy = &launch->in[0],
        .x = &launch->in[1],
        .mean = launch->in[2].data,
        .rstd = launch->in[3].data,
        .dweight = &launch->effect[0],
        .dbias = &launch->effect[1],
        .rows = plm__operand_rows(&launch->in[0]),
        .width = plm__operand_width(&launch->in[0]),
        .accumulate = launch->attr.accumulate,
    };
#pragma omp parallel for num_threads(threads) if (job.rows * job.width > PLM_SERIAL_COUNT)
    for (int64_t c = 0; c < job.width; c += PLM_COLUMN_CHUNK)
        grad_weight_columns(&job, c, plm__min(PLM_COLUMN_CHUNK, job.width - c));
}

/* effect = sum_r dy, for `count` columns from `first` on. */
static void bias_columns(const plm_launch *launch, int64_t first, int64_t count)
{
    const plm_operand *dy = &launch->in[0];
    int64_t rows = plm__operand_rows(dy), width = plm__operand_width(dy);
    float sum[PLM_COLUMN_CHUNK] = {0}, part[PLM_COLUMN_CHUNK] = {0}, room[PLM_COLUMN_CHUNK];
    for (int64_t r = 0; r < rows; r++) {
        const float *row = plm__values(dy, r * width + first, count, room);
#pragma omp simd
        for (int64_t c = 0; c < count; c++)
            part[c] += row[c];
        if (r % PLM_SUM_ROWS == PLM_SUM_ROWS - 1)
            join(sum, part, count);
    }
    join(sum, part, count);
    deliver(&launch->effect[0], first, sum, count, launch->attr.accumulate);
}

void KERNEL(linear_grad_bias)(const plm_launch *launch, int threads)
{
    /* dy [R,N]; effect dbias [N] */
    int64_t rows = plm__operand_rows(&launch->in[0]), width = plm__operand_width(&launch->in[0]);
#pragma omp parallel for num_threads(threads) if (rows * width > PLM_SERIAL_COUNT)
    for (int64_t c = 0; c < width; c += PLM_COLUMN_CHUNK)
        bias_columns(launch, c, plm__min(PLM_COLUMN_CHUNK, width - c));
}
