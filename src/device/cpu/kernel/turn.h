/* SPDX-License-Identifier: MIT */
/* Turning (transposing) a block of a matrix into a tile, four by four elements in registers. */
#ifndef PLM_DEVICE_CPU_TURN_H
#define PLM_DEVICE_CPU_TURN_H

#include <stdint.h>

typedef float plm_four __attribute__((vector_size(16)));
typedef float plm_loose_four __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t plm_four_places __attribute__((vector_size(16)));

#if defined(__clang__)
#define PLM_PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PLM_PICK(a, b, ...) __builtin_shuffle(a, b, (plm_four_places){__VA_ARGS__})
#endif

static inline plm_four plm__four_at(const float *from, float scale)
{
    return scale * *(const plm_loose_four *)from;
}

/* Four rows of four, `row` floats apart, become four rows `to_row` floats apart. */
static inline void plm__turn_four(const float *from, int64_t row, float scale, float *to,
                                  int64_t to_row)
{
    plm_four a = plm__four_at(from, scale), b = plm__four_at(from + row, scale);
    plm_four c = plm__four_at(from + 2 * row, scale), d = plm__four_at(from + 3 * row, scale);
    plm_four ab01 = PLM_PICK(a, b, 0, 4, 1, 5), ab23 = PLM_PICK(a, b, 2, 6, 3, 7);
    plm_four cd01 = PLM_PICK(c, d, 0, 4, 1, 5), cd23 = PLM_PICK(c, d, 2, 6, 3, 7);
    *(plm_loose_four *)to = PLM_PICK(ab01, cd01, 0, 1, 4, 5);
    *(plm_loose_four *)(to + to_row) = PLM_PICK(ab01, cd01, 2, 3, 6, 7);
    *(plm_loose_four *)(to + 2 * to_row) = PLM_PICK(ab23, cd23, 0, 1, 4, 5);
    *(plm_loose_four *)(to + 3 * to_row) = PLM_PICK(ab23, cd23, 2, 3, 6, 7);
}

/* to[c, r] = scale from[r, c] for a block of rows and columns. */
static inline void plm__turn(const float *from, int64_t row, int64_t rows, int64_t columns,
                             float scale, float *to, int64_t to_row)
{
    int64_t whole_rows = rows - rows % 4, whole_columns = columns - columns % 4;
    for (int64_t r = 0; r < whole_rows; r += 4)
        for (int64_t c = 0; c < whole_columns; c += 4)
            plm__turn_four(from + r * row + c, row, scale, to + c * to_row + r, to_row);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; c++)
            to[c * to_row + r] = scale * from[r * row + c];
}

#endif
