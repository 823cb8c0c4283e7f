/* SPDX-License-Identifier: MIT */
/*
 * Rows by index: token and position embedding, the selection of one position, and the gradients of
 * the first two. The gradients cut the columns between threads, so that each element of the table
 * is summed by one thread in the order of the positions.
 */
#include "device/cpu/kernel/kernel.h"

#include <string.h>

void KERNEL(embedding)(const plm_launch *launch, int threads)
{
    const int32_t *ids = launch->in[0].data; /* [B,T] */
    const float *table = launch->in[1].data; /* [V,C] */
    float *out = launch->out[0].data;        /* [B,T,C] */
    int64_t count = plm_operand_count(&launch->in[0]);
    int64_t width = plm_operand_width(&launch->in[1]);
#pragma omp parallel for num_threads(threads) if (count * width > PLM_SERIAL_COUNT)
    for (int64_t r = 0; r < count; r++) {
        PLM_ASSERT(ids[r] >= 0 && ids[r] < launch->in[1].shape[0]);
        memcpy(out + r * width, table + ids[r] * width, (size_t)width * sizeof *out);
    }
}

void KERNEL(position)(const plm_launch *launch, int threads)
{
    const float *x = launch->in[0].data;     /* [B,T,C] */
    const float *table = launch->in[1].data; /* [P,C], P >= T */
    float *out = launch->out[0].data;        /* [B,T,C] */
    int64_t positions = launch->in[0].shape[1], width = launch->in[0].shape[2];
    int64_t rows = launch->in[0].shape[0] * positions;
#pragma omp parallel for num_threads(threads) if (rows * width > PLM_SERIAL_COUNT)
    for (int64_t r = 0; r < rows; r++) {
        const float *from = x + r * width, *line = table + r % positions * width;
        float *to = out + r * width;
#pragma omp simd
        for (int64_t c = 0; c < width; c++)
            to[c] = from[c] + line[c];
    }
}

void KERNEL(select)(const plm_launch *launch, int threads)
{
    (void)threads;                       /* one row a sequence: too little to share */
    const float *x = launch->in[0].data; /* [B,T,C] */
    float *out = launch->out[0].data;    /* [B,C] */
    int64_t batch = launch->in[0].shape[0], positions = launch->in[0].shape[1];
    int64_t width = launch->in[0].shape[2], position = launch->step->position;
    PLM_ASSERT(batch * width == 0 || (position >= 0 && position < positions));
    for (int64_t b = 0; b < batch; b++)
        memcpy(out + b * width, x + (b * positions + position) * width,
               (size_t)width * sizeof *out);
}

static void add_row(float *sum, const float *row, int64_t count)
{
#pragma omp simd
    for (int64_t c = 0; c < count; c++)
        sum[c] += row[c];
}

void KERNEL(embedding_grad)(const plm_launch *launch, int threads)
{
    const int32_t *ids = launch->in[0].data; /* [B,T] */
    const float *dy = launch->in[1].data;    /* [B,T,C] */
    float *dtable = launch->effect[0].data;  /* [V,C] */
    int64_t count = plm_operand_count(&launch->in[0]);
    int64_t vocabulary = launch->effect[0].shape[0], width = launch->effect[0].shape[1];
    if (!launch->attr.accumulate) {
#pragma omp parallel for num_threads(threads) if (vocabulary * width > PLM_SERIAL_COUNT)
        for (int64_t v = 0; v < vocabulary; v++)
            memset(dtable + v * width, 0, (size_t)width * sizeof *dtable);
    }
#pragma omp parallel for num_threads(threads) if (count * width > PLM_SERIAL_COUNT)
    for (int64_t c = 0; c < width; c += PLM_COLUMN_CHUNK)
        for (int64_t r = 0; r < count; r++) {
            PLM_ASSERT(ids[r] >= 0 && ids[r] < vocabulary);
            add_row(dtable + ids[r] * width + c, dy + r * width + c,
                    plm_min(PLM_COLUMN_CHUNK, width - c));
        }
}

void KERNEL(position_grad)(const plm_launch *launch, int threads)
{
    const float *dy = launch->in[0].data;   /* [B,T,C] */
    float *dtable = launch->effect[0].data; /* [P,C] */
    int64_t batch = launch->in[0].shape[0], positions = launch->in[0].shape[1];
    int64_t width = launch->in[0].shape[2], table_rows = launch->effect[0].shape[0];
    bool accumulate = launch->attr.accumulate;
#pragma omp parallel for num_threads(threads) if (batch * positions * width > PLM_SERIAL_COUNT)
    for (int64_t t = 0; t < table_rows; t++) {
        float *to = dtable + t * width;
        if (!accumulate)
            memset(to, 0, (size_t)width * sizeof *to);
        for (int64_t b = 0; t < positions && b < batch; b++)
            add_row(to, dy + (b * positions + t) * width, width);
    }
}
