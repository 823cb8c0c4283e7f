/* SPDX-License-Identifier: MIT */
/*
 * Matrix products that the library does not take: of 16-bit types without silicon for them, and
 * sums of no terms. A thread makes a block of the result at a time; over k it converts a block of a
 * and one of b, so that no operand is ever whole in fp32, and adds their product in fp32. The
 * result is rounded once. Sums run over k in order: the bits do not depend on the number of
 * threads.
 */
#include <string.h>

#include "device/cpu/kernel/product_block.h"
#include "device/cpu/kernel/small_product.h"
#include "device/cpu/kernel/turn.h"
#include "device/cpu/kernel/values.h"

/* c[m,n] (+)= a[m,k] b[k,n] (+ bias[n]); a turned matrix lies as [k,m] or [n,k]. */
typedef struct job {
    const plm_operand *a, *b, *bias, *c; /* bias NULL: none */
    int64_t m, n, k;
    bool turned_a, turned_b, add;
} job;

enum { SIDE = 64 }; /* of the squares in which b is turned */

_Static_assert(SIDE *SIDE <= PLM_STACK_FLOATS, "the square to be turned lies on the stack");

/* Rows [i, i + rows) of a, columns [p, p + depth). */
static plm_view block_of_a(const job *w, int64_t i, int64_t rows, int64_t p, int64_t depth,
                           float *room)
{
    plm_block block =
        w->turned_a ? plm__block_values(w->a, p * w->m + i, w->m, depth, rows, room, PLM_PRODUCT_M)
                    : plm__block_values(w->a, i * w->k + p, w->k, rows, depth, room, PLM_PRODUCT_K);
    return w->turned_a ? (plm_view){block.data, 1, block.row}
                       : (plm_view){block.data, block.row, 1};
}

/* Rows [p, p + depth) of b, columns [j, j + columns), whose transpose lies in memory. */
static plm_block turned_block_of_b(const job *w, int64_t p, int64_t depth, int64_t j,
                                   int64_t columns, float *room)
{
    float square[SIDE * SIDE];
    for (int64_t column = 0; column < columns; column += SIDE)
        for (int64_t line = 0; line < depth; line += SIDE) {
            int64_t wide = plm__min(SIDE, columns - column), high = plm__min(SIDE, depth - line);
            plm_block block = plm__block_values(w->b, (j + column) * w->k + p + line, w->k, wide,
                                                high, square, SIDE);
            plm__turn(block.data, block.row, wide, high, 1.0f,
                      room + line * PLM_PRODUCT_ROW + column, PLM_PRODUCT_ROW);
        }
    return (plm_block){room, PLM_PRODUCT_ROW};
}

/* What the sum over k begins with: the bias, what is there, or zero. */
static void begin_sums(const job *w, int64_t i, int64_t rows, int64_t j, int64_t columns,
                       plm_result c)
{
    for (int64_t r = 0; r < rows; r++) {
        float *to = c.data + r * c.row, room[PLM_PRODUCT_N];
        if (w->add)
            plm__values(w->c, (i + r) * w->n + j, columns, to);
        else if (w->bias)
            memcpy(to, plm__values(w->bias, j, columns, room), (size_t)columns * sizeof *to);
        else
            memset(to, 0, (size_t)columns * sizeof *to);
    }
}

/* The block of c at row i and column j. */
static void make_block(const job *w, int64_t i, int64_t j, float *workspace)
{
    float *room_a = workspace, *room_b = room_a + PLM_PRODUCT_A, *room_c = room_b + PLM_PRODUCT_B;
    int64_t rows = plm__min(PLM_PRODUCT_M, w->m - i), columns = plm__min(PLM_PRODUCT_N, w->n - j);
    plm_result c = plm__block_place(w->c, i * w->n + j, w->n, room_c, PLM_PRODUCT_ROW);
    begin_sums(w, i, rows, j, columns, c);
    for (int64_t p = 0; p < w->k; p += PLM_PRODUCT_K) {
        int64_t depth = plm__min(PLM_PRODUCT_K, w->k - p);
        plm_view a = block_of_a(w, i, rows, p, depth, room_a);
        plm_block b = w->turned_b ? turned_block_of_b(w, p, depth, j, columns, room_b)
                                  : plm__block_values(w->b, p * w->n + j, w->n, depth, columns,
                                                      room_b, PLM_PRODUCT_ROW);
        plm_small_product(rows, columns, depth, a, b.data, b.row, c.data, c.row, true);
    }
    plm__block_put(w->c, i * w->n + j, w->n, rows, columns, c);
}

static void multiply(const job *w, const plm_launch *launch, int threads)
{
    float *workspace = launch->workspace;
#pragma omp parallel for num_threads(threads) schedule(dynamic) collapse(2)
    for (int64_t j = 0; j < w->n; j += PLM_PRODUCT_N)
        for (int64_t i = 0; i < w->m; i += PLM_PRODUCT_M)
            make_block(w, i, j, workspace + omp_get_thread_num() * (int64_t)PLM_PRODUCT_FLOATS);
}

/* out[R,N] = x[R,K] weight[N,K]^T + bias[N] */
void KERNEL(linear)(const plm_launch *launch, int threads)
{
    const plm_operand *x = &launch->in[0], *weight = &launch->in[1], *bias = &launch->in[2];
    job w = {.a = x,
             .b = weight,
             .bias = plm__operand_is_absent(bias) ? NULL : bias,
             .c = &launch->out[0],
             .m = plm__operand_rows(x),
             .n = weight->shape[0],
             .k = weight->shape[1],
             .turned_b = true};
    multiply(&w, launch, threads);
}

/* dx[R,K] = dy[R,N] weight[N,K] */
void KERNEL(linear_grad_input)(const plm_launch *launch, int threads)
{
    const plm_operand *dy = &launch->in[0], *weight = &launch->in[1];
    job w = {.a = dy,
             .b = weight,
             .c = &launch->out[0],
             .m = plm__operand_rows(dy),
             .n = weight->shape[1],
             .k = weight->shape[0]};
    multiply(&w, launch, threads);
}

/* dweight[N,K] (+)= dy[R,N]^T x[R,K] */
void KERNEL(linear_grad_weight)(const plm_launch *launch, int threads)
{
    const plm_operand *x = &launch->in[0], *dy = &launch->in[1];
    job w = {.a = dy,
             .b = x,
             .c = &launch->effect[0],
             .m = plm__operand_width(dy),
             .n = plm__operand_width(x),
             .k = plm__operand_rows(x),
             .turned_a = true,
             .add = launch->attr.accumulate};
    multiply(&w, launch, threads);
}
