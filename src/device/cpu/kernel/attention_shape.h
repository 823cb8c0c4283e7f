/* SPDX-License-Identifier: MIT */
/*
 * Where things lie in attention's tensors: queries, keys and values packed in [B,T,(H+2G)D],
 * results in [B,T,HD]. Each of the G heads of keys and values serves H / G heads of queries in a
 * row.
 */
#ifndef PLM_DEVICE_CPU_ATTENTION_SHAPE_H
#define PLM_DEVICE_CPU_ATTENTION_SHAPE_H

#include <math.h>

#include "device/cpu/kernel/values.h"

typedef struct plm_attention_shape {
    int64_t batch, positions, heads, key_heads, head_width; /* B T H G D */
    int64_t sharers;                                        /* H / G */
    int64_t packed, width; /* (H+2G) D and H D, from one position to the next */
    float scale;           /* 1 / sqrt(D) */
    bool causal, half;
} plm_attention_shape;

static inline plm_attention_shape plm__attention_shape_of(const plm_launch *launch)
{
    const plm_operand *qkv = &launch->in[plm__op_info_of(launch->kind)->flops.qkv];
    int64_t heads = launch->attr.heads, size = plm__head_size(&launch->attr, qkv->shape[2]);
    return (plm_attention_shape){
        .batch = qkv->shape[0],
        .positions = qkv->shape[1],
        .heads = heads,
        .key_heads = launch->attr.key_heads,
        .head_width = size,
        .sharers = heads / launch->attr.key_heads,
        .packed = qkv->shape[2],
        .width = heads * size,
        .scale = 1.0f / sqrtf((float)size),
        .causal = launch->attr.causal,
        .half = plm__is_half(qkv),
    };
}

/* Offset in [B,T,(H+2G)D] of position 0 of a head's queries (part 0), or of the keys (1) or values
 * (2) that it shares. */
static inline int64_t plm__packed_at(const plm_attention_shape *s, int64_t b, int64_t h, int part)
{
    int64_t place = part == 0 ? h : s->heads + (part - 1) * s->key_heads + h / s->sharers;
    return b * s->positions * s->packed + place * s->head_width;
}

/* Offset in [B,T,HD] of position 0 of a head. */
static inline int64_t plm__plain_at(const plm_attention_shape *s, int64_t b, int64_t h)
{
    return b * s->positions * s->width + h * s->head_width;
}

#endif
