/* SPDX-License-Identifier: MIT */
/*
 * Small matrix products inside a kernel: C[m,n] (+)= A[m,k] B[k,n], where A has any strides (so it
 * may be a transposed view) and the rows of B and C are contiguous. A tile of TILE_ROWS x
 * TILE_VECTORS vectors of C stays in registers while k runs. Single-threaded; the order of the sum
 * over k is fixed.
 */
#ifndef PLM_DEVICE_CPU_SMALL_PRODUCT_H
#define PLM_DEVICE_CPU_SMALL_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* A tile fills the registers: 6 x 4 sums of 32 registers, 6 x 2 or 4 x 2 of 16. */
#if defined(__AVX512F__)
enum { PLM_LANES = 16, TILE_ROWS = 6, TILE_VECTORS = 4 };
#elif defined(__AVX__)
enum { PLM_LANES = 8, TILE_ROWS = 6, TILE_VECTORS = 2 };
#else
enum { PLM_LANES = 4, TILE_ROWS = 4, TILE_VECTORS = 2 };
#endif

typedef float plm_vector __attribute__((vector_size(PLM_LANES * 4)));
/* The same at any address. */
typedef float plm_loose_vector __attribute__((vector_size(PLM_LANES * 4), aligned(4), may_alias));

/* A read-only matrix view. */
typedef struct plm_view {
    const float *data;
    int64_t row;    /* elements from a row to the next */
    int64_t column; /* elements from a column to the next */
} plm_view;

/* `rows` and `vectors` are constants where this is called, so the loops over them unroll. */
static inline __attribute__((always_inline)) void plm_product_tile(int rows, int vectors, int64_t k,
                                                                   plm_view a, const float *b,
                                                                   int64_t b_row, float *c,
                                                                   int64_t c_row, bool add)
{
    plm_vector sum[TILE_ROWS][TILE_VECTORS] = {{{0}}};
    if (add)
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < vectors; v++)
                sum[i][v] = *(const plm_loose_vector *)(c + i * c_row + v * PLM_LANES);
    for (int64_t p = 0; p < k; p++) {
        plm_vector line[TILE_VECTORS];
        for (int v = 0; v < vectors; v++)
            line[v] = *(const plm_loose_vector *)(b + p * b_row + v * PLM_LANES);
        for (int i = 0; i < rows; i++) {
            float factor = a.data[i * a.row + p * a.column];
            for (int v = 0; v < vectors; v++)
                sum[i][v] += factor * line[v];
        }
    }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++)
            *(plm_loose_vector *)(c + i * c_row + v * PLM_LANES) = sum[i][v];
}

/* All rows of a column strip `vectors` wide. */
static inline __attribute__((always_inline)) void
plm_product_strip(int64_t m, int vectors, int64_t k, plm_view a, const float *b, int64_t b_row,
                  float *c, int64_t c_row, bool add)
{
    int64_t i = 0;
    for (; i + TILE_ROWS <= m; i += TILE_ROWS, a.data += TILE_ROWS * a.row)
        plm_product_tile(TILE_ROWS, vectors, k, a, b, b_row, c + i * c_row, c_row, add);
    for (; i + 4 <= m; i += 4, a.data += 4 * a.row)
        plm_product_tile(4, vectors, k, a, b, b_row, c + i * c_row, c_row, add);
    for (; i < m; i++, a.data += a.row)
        plm_product_tile(1, vectors, k, a, b, b_row, c + i * c_row, c_row, add);
}

/* Columns that fill no vector, one by one. */
static inline void plm__product_columns(int64_t m, int64_t n, int64_t k, plm_view a, const float *b,
                                        int64_t b_row, float *c, int64_t c_row, bool add)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = add ? c[i * c_row + j] : 0.0f;
            for (int64_t p = 0; p < k; p++)
                sum += a.data[i * a.row + p * a.column] * b[p * b_row + j];
            c[i * c_row + j] = sum;
        }
}

/* C[m,n] = A[m,k] B[k,n], or += when `add`. Not inlined: callers are many, the tiles are large. */
static __attribute__((noinline, unused)) void plm_small_product(int64_t m, int64_t n, int64_t k,
                                                                plm_view a, const float *b,
                                                                int64_t b_row, float *c,
                                                                int64_t c_row, bool add)
{
    int64_t j = 0, whole = n - n % PLM_LANES;
    for (; j + TILE_VECTORS * PLM_LANES <= whole; j += TILE_VECTORS * PLM_LANES)
        plm_product_strip(m, TILE_VECTORS, k, a, b + j, b_row, c + j, c_row, add);
    for (; j + 2 * PLM_LANES <= whole; j += 2 * PLM_LANES)
        plm_product_strip(m, 2, k, a, b + j, b_row, c + j, c_row, add);
    if (j < whole)
        plm_product_strip(m, 1, k, a, b + j, b_row, c + j, c_row, add);
    plm__product_columns(m, n - whole, k, a, b + whole, b_row, c + whole, c_row, add);
}

#endif
