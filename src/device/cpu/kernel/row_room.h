/* SPDX-License-Identifier: MIT */
/*
 * Room for whole rows in fp32, which kernels that pass over a row more than once need when its
 * values are 16-bit. It is the declared workspace: some rows that all threads share, then some for
 * each thread. fp32 needs none.
 */
#ifndef PLM_DEVICE_CPU_ROW_ROOM_H
#define PLM_DEVICE_CPU_ROW_ROOM_H

#include "device/cpu/kernel/values.h"

typedef struct plm_row_need {
    int shared, each;
} plm_row_need;

/* In rows of the width of input 0. */
static inline plm_row_need plm__row_need_of(plm_op_kind kind)
{
    static const plm_row_need needs[PLM_OP_COUNT] = {
        [PLM_OP_LAYER_NORM] = {2, 1},            /* weight, bias; x */
        [PLM_OP_LAYER_NORM_GRAD_INPUT] = {1, 2}, /* weight; dy, x */
        [PLM_OP_SOFTMAX] = {0, 1},
        [PLM_OP_SOFTMAX_GRAD] = {0, 2}, /* dprobs, probs */
        [PLM_OP_CROSS_ENTROPY] = {0, 1},
        [PLM_OP_CROSS_ENTROPY_GRAD] = {0, 1},
    };
    return needs[kind];
}

/* A row's place in floats: rows begin at multiples of the granule. */
static inline int64_t plm__row_floats(int64_t width)
{
    return (width + 15) / 16 * 16;
}

/* The shared row number `index`. */
static inline float *plm__shared_room(const plm_launch *launch, int64_t width, int index)
{
    return launch->workspace ? (float *)launch->workspace + index * plm__row_floats(width) : NULL;
}

/* The calling thread's row number `index`. */
static inline float *plm__thread_room(const plm_launch *launch, int64_t width, int index)
{
    plm_row_need need = plm__row_need_of(launch->kind);
    return plm__shared_room(launch, width, need.shared + need.each * omp_get_thread_num() + index);
}

#endif
