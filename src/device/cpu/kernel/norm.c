/* SPDX-License-Identifier: MIT */
/*
 * Layer normalisation over the last dimension and its gradients, and the gradient of a bias: sums
 * along rows, and sums down columns. A column belongs to one thread and is summed in the order of
 * the rows, PLM_SUM_ROWS at a time.
 */
#include <math.h>

#include "device/cpu/kernel/kernel.h"
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
    float centre = plm_row_sum(x, width) / (float)width;
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
    const float *x = launch->in[0].data;                                  /* [R,C] */
    const float *weight = launch->in[1].data, *bias = launch->in[2].data; /* [C] */
    float *out = launch->out[0].data;                                     /* [R,C] */
    float *mean = launch->out[1].data, *rstd = launch->out[2].data;       /* [R] */
    int64_t rows = plm_operand_rows(&launch->in[0]), width = plm_operand_width(&launch->in[0]);
    float epsilon = launch->attr.epsilon;
#pragma omp parallel for num_threads(threads) if (rows * width > PLM_SERIAL_COUNT)
    for (int64_t r = 0; r < rows; r++)
        normalise_row(x + r * width, weight, bias, epsilon, width, out + r * width, mean + r,
                      rstd + r);
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
    const float *dy = launch->in[0].data, *x = launch->in[1].data;      /* [R,C] */
    const float *weight = launch->in[2].data;                           /* [C] */
    const float *mean = launch->in[3].data, *rstd = launch->in[4].data; /* [R] */
    float *dx = launch->out[0].data;                                    /* [R,C] */
    int64_t rows = plm_operand_rows(&launch->in[0]), width = plm_operand_width(&launch->in[0]);
#pragma omp parallel for num_threads(threads) if (rows * width > PLM_SERIAL_COUNT)
    for (int64_t r = 0; r < rows; r++)
        grad_input_row(dy + r * width, x + r * width, weight, mean[r], rstd[r], width,
                       dx + r * width);
}

/* Moves `count` sums into the effect, or adds them to it. */
static void deliver(float *effect, const float *sum, int64_t count, bool accumulate)
{
    for (int64_t c = 0; c < count; c++)
        effect[c] = accumulate ? effect[c] + sum[c] : sum[c];
}

static void join(float *total, float *part, int64_t count)
{
    for (int64_t c = 0; c < count; c++) {
        total[c] += part[c];
        part[c] = 0.0f;
    }
}

typedef struct grad_weight {
    const float *dy, *x;      /* [R,C] */
    const float *mean, *rstd; /* [R] */
    float *dweight, *dbias;   /* [C] */
    int64_t rows, width;
    bool accumulate;
} grad_weight;

/* dweight = sum_r dy xhat, dbias = sum_r dy, for `count` columns from `first` on. */
static void grad_weight_columns(const grad_weight *job, int64_t first, int64_t count)
{
    float weight_sum[PLM_COLUMN_CHUNK] = {0}, weight_part[PLM_COLUMN_CHUNK] = {0};
    float bias_sum[PLM_COLUMN_CHUNK] = {0}, bias_part[PLM_COLUMN_CHUNK] = {0};
    for (int64_t r = 0; r < job->rows; r++) {
        const float *dy = job->dy + r * job->width + first, *x = job->x + r * job->width + first;
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
    deliver(job->dweight + first, weight_sum, count, job->accumulate);
    deliver(job->dbias + first, bias_sum, count, job->accumulate);
}

void KERNEL(layer_norm_grad_weight)(const plm_launch *launch, int threads)
{
    grad_weight job = {
        .dy = launch->in[0].data,
        .x = launch->in[1].data,
        .mean = launch->in[2].data,
        .rstd = launch->in[3].data,
        .dweight = launch->effect[0].data,
        .dbias = launch->effect[1].data,
        .rows = plm_operand_rows(&launch->in[0]),
        .width = plm_operand_width(&launch->in[0]),
        .accumulate = launch->attr.accumulate,
    };
#pragma omp parallel for num_threads(threads) if (job.rows * job.width > PLM_SERIAL_COUNT)
    for (int64_t c = 0; c < job.width; c += PLM_COLUMN_CHUNK)
        grad_weight_columns(&job, c, plm_min(PLM_COLUMN_CHUNK, job.width - c));
}

/* effect = sum_r dy, for `count` columns from `first` on. */
static void bias_columns(const float *dy, int64_t rows, int64_t width, int64_t count, float *effect,
                         bool accumulate)
{
    float sum[PLM_COLUMN_CHUNK] = {0}, part[PLM_COLUMN_CHUNK] = {0};
    for (int64_t r = 0; r < rows; r++) {
        const float *row = dy + r * width;
#pragma omp simd
        for (int64_t c = 0; c < count; c++)
            part[c] += row[c];
        if (r % PLM_SUM_ROWS == PLM_SUM_ROWS - 1)
            join(sum, part, count);
    }
    join(sum, part, count);
    deliver(effect, sum, count, accumulate);
}

void KERNEL(linear_grad_bias)(const plm_launch *launch, int threads)
{
    const float *dy = launch->in[0].data;  /* [R,N] */
    float *dbias = launch->effect[0].data; /* [N] */
    int64_t rows = plm_operand_rows(&launch->in[0]), width = plm_operand_width(&launch->in[0]);
    bool accumulate = launch->attr.accumulate;
#pragma omp parallel for num_threads(threads) if (rows * width > PLM_SERIAL_COUNT)
    for (int64_t c = 0; c < width; c += PLM_COLUMN_CHUNK)
        bias_columns(dy + c, rows, width, plm_min(PLM_COLUMN_CHUNK, width - c), dbias + c,
                     accumulate);
}
