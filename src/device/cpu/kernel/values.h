/* SPDX-License-Identifier: MIT */
/*
 * Operands of any floating point type as fp32, for kernels that are written in fp32 alone.
 *
 * A kernel asks for a piece of an operand and gives room for it. fp32 is used where it lies and the
 * room stays empty; 16-bit values are converted into the room, which the first-level cache holds,
 * or from the room when a result is put. So each value is read and rounded once, the arithmetic
 * between is the same for every type, and fp32 pays nothing.
 *
 *     const float *x = plm__values(&launch->in[0], at, count, room);
 *     float *out = plm__place(&launch->out[0], at, room);   the room of x, which is done with by
 * then for (...) out[i] = 2 * x[i]; plm__put(&launch->out[0], at, count, out);
 */
#ifndef PLM_DEVICE_CPU_VALUES_H
#define PLM_DEVICE_CPU_VALUES_H

#include <string.h>

#include "base/half.h"
#include "device/cpu/kernel/kernel.h"

#if defined(__AVX512F__) || defined(__F16C__)
#include <immintrin.h>
#endif

/* The instructions for fp16 where the compiler may use them: 16 or 8 values. What they leave over,
 * and every value elsewhere, is converted by base/half.h, to the same bits but for those of NaN. */
#if defined(__AVX512F__)
enum { PLM_HALVES = 16 };
static inline void plm__halves_to_floats(const uint16_t *from, float *to)
{
    _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)from)));
}
static inline void plm__floats_to_halves(const float *from, uint16_t *to)
{
    _mm256_storeu_si256((void *)to, _mm512_cvtps_ph(_mm512_loadu_ps(from), 0));
}
#elif defined(__F16C__)
enum { PLM_HALVES = 8 };
static inline void plm__halves_to_floats(const uint16_t *from, float *to)
{
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const void *)from)));
}
static inline void plm__floats_to_halves(const float *from, uint16_t *to)
{
    _mm_storeu_si128((void *)to, _mm256_cvtps_ph(_mm256_loadu_ps(from), 0));
}
#else
enum { PLM_HALVES = 1 };
static inline void plm__halves_to_floats(const uint16_t *from, float *to)
{
    *to = plm__from_fp16(*from);
}
static inline void plm__floats_to_halves(const float *from, uint16_t *to)
{
    *to = plm__to_fp16(*from);
}
#endif

static __attribute__((noinline, unused)) void
plm_widen(plm_dtype dtype, const uint16_t *restrict from, int64_t count, float *restrict to)
{
    int64_t i = 0;
    if (dtype == PLM_DTYPE_BF16) {
#pragma omp simd
        for (i = 0; i < count; i++)
            to[i] = plm__from_bf16(from[i]);
        return;
    }
    for (; i + PLM_HALVES <= count; i += PLM_HALVES)
        plm__halves_to_floats(from + i, to + i);
    for (; i < count; i++)
        to[i] = plm__from_fp16(from[i]);
}

static __attribute__((noinline, unused)) void
plm_narrow(plm_dtype dtype, const float *restrict from, int64_t count, uint16_t *restrict to)
{
    int64_t i = 0;
    if (dtype == PLM_DTYPE_BF16) {
#pragma omp simd
        for (i = 0; i < count; i++)
            to[i] = plm__to_bf16(from[i]);
        return;
    }
    for (; i + PLM_HALVES <= count; i += PLM_HALVES)
        plm__floats_to_halves(from + i, to + i);
    for (; i < count; i++)
        to[i] = plm__to_fp16(from[i]);
}

static inline bool plm__is_half(const plm_operand *x)
{
    return x->dtype != PLM_DTYPE_F32;
}

static inline size_t plm__value_bytes(const plm_operand *x)
{
    return plm__is_half(x) ? sizeof(uint16_t) : sizeof(float);
}

/* Where element `at` lies. */
static inline void *plm__value_at(const plm_operand *x, int64_t at)
{
    return (char *)x->data + (size_t)at * plm__value_bytes(x);
}

/* `count` elements of x from `at` on; room for as many. */
static inline const float *plm__values(const plm_operand *x, int64_t at, int64_t count, float *room)
{
    if (!plm__is_half(x))
        return (const float *)x->data + at;
    plm_widen(x->dtype, (const uint16_t *)x->data + at, count, room);
    return room;
}

/* Where results for x from element `at` on are made, to be put when they are done. */
static inline float *plm__place(const plm_operand *x, int64_t at, float *room)
{
    return plm__is_half(x) ? room : (float *)x->data + at;
}

/* The same, with what x holds there. */
static inline float *plm__place_filled(const plm_operand *x, int64_t at, int64_t count, float *room)
{
    float *place = plm__place(x, at, room);
    plm__values(x, at, count, room);
    return place;
}

/* `values` are at plm_place of the same operand and element. */
static inline void plm__put(const plm_operand *x, int64_t at, int64_t count, const float *values)
{
    if (plm__is_half(x))
        plm_narrow(x->dtype, values, count, (uint16_t *)x->data + at);
}

/* A block of a matrix whose rows are `row` elements apart. */
typedef struct plm_block {
    const float *data;
    int64_t row;
} plm_block;

/* Rows of `columns` elements, `row` apart, the first one at element `at`; the room's rows are
 * `room_row` floats apart. */
static inline plm_block plm__block_values(const plm_operand *x, int64_t at, int64_t row,
                                          int64_t rows, int64_t columns, float *room,
                                          int64_t room_row)
{
    if (!plm__is_half(x))
        return (plm_block){(const float *)x->data + at, row};
    for (int64_t r = 0; r < rows; r++)
        plm__values(x, at + r * row, columns, room + r * room_row);
    return (plm_block){room, room_row};
}

/* A block that is made. */
typedef struct plm_result {
    float *data;
    int64_t row;
} plm_result;

static inline plm_result plm__block_place(const plm_operand *x, int64_t at, int64_t row,
                                          float *room, int64_t room_row)
{
    return (plm_result){plm__place(x, at, room), plm__is_half(x) ? room_row : row};
}

/* `made` is plm__block_place of the same operand, element and row. */
static inline void plm__block_put(const plm_operand *x, int64_t at, int64_t row, int64_t rows,
                                  int64_t columns, plm_result made)
{
    for (int64_t r = 0; plm__is_half(x) && r < rows; r++)
        plm__put(x, at + r * row, columns, made.data + r * made.row);
}

#endif
