/* SPDX-License-Identifier: MIT */
/*
 * Where things lie in attention's tensors: queries, keys and values packed in [B,T,3C], results in
 * [B,T,C], H heads of D = C / H columns each.
 */
#ifndef PLM_DEVICE_CPU_ATTENTION_SHAPE_H
#define PLM_DEVICE_CPU_ATTENTION_SHAPE_H

#include <math.h>

#include "device/cpu/kernel/kernel.h"

typedef struct plm_attention_shape {
    int64_t batch, positions, heads, head_width, width; /* B T H D C */
    float scale;                                        /* 1 / sqrt(D) */
    bool causal;
} plm_attention_shape;

/* From the operand [B,T,3C]. */
static inline plm_attention_shape plm__attention_shape_of(const plm_launch *launch,
                                                          const plm_operand *packed)
{
    int64_t width = packed->shape[2] / 3, heads = launch->attr.heads;
    return (plm_attention_shape){
        .batch = packed->shape[0],
        .positions = packed->shape[1],
        .heads = heads,
        .head_width = width / heads,
        .width = width,
        .scale = 1.0f / sqrtf((float)(width / heads)),
        .causal = launch->attr.causal,
    };
}

/* Offset in [B,T,3C] of position 0 of a head's queries (part 0), keys (1) or values (2). */
static inline int64_t plm__packed_at(const plm_attention_shape *s, int64_t b, int64_t h, int part)
{
    return b * s->positions * 3 * s->width + part * s->width + h * s->head_width;
}

/* Offset in [B,T,C] of position 0 of a head. */
static inline int64_t plm__plain_at(const plm_attention_shape *s, int64_t b, int64_t h)
{
    return b * s->positions * s->width + h * s->head_width;
}

#endif
