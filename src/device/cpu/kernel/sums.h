/* SPDX-License-Identifier: MIT */
/*
 * Sums inside a kernel, long ones in pieces: a piece in fp32, the pieces in double, so that the
 * error does not grow with the length. The order is fixed by the length alone.
 */
#ifndef PLM_DEVICE_CPU_SUMS_H
#define PLM_DEVICE_CPU_SUMS_H

#include <math.h>

#include "device/cpu/kernel/kernel.h"

enum {
    PLM_SUM_PIECE = 1024, /* elements of a row that are summed in fp32 */
    PLM_SUM_ROWS = 64 /* rows of a column sum that are summed in fp32 before they join the rest */
};

static inline float plm__row_sum(const float *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t start = 0; start < count; start += PLM_SUM_PIECE) {
        int64_t end = plm__min(count, start + PLM_SUM_PIECE);
        float piece = 0.0f;
#pragma omp simd reduction(+ : piece)
        for (int64_t i = start; i < end; i++)
            piece += x[i];
        sum += (double)piece;
    }
    return (float)sum;
}

static inline float plm__row_max(const float *x, int64_t count)
{
    float top = -INFINITY;
#pragma omp simd reduction(max : top)
    for (int64_t i = 0; i < count; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}

#endif
