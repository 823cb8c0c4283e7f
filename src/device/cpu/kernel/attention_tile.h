/* SPDX-License-Identifier: MIT */
/*
 * Attention works on square tiles of PLM_TILE queries by PLM_TILE keys. What a thread needs for
 * them, and for the blocks of 16-bit tensors that it converts, lies in the declared workspace; its
 * size is here, beside its layout, for the kernel and for the planner alike.
 */
#ifndef PLM_DEVICE_CPU_ATTENTION_TILE_H
#define PLM_DEVICE_CPU_ATTENTION_TILE_H

#include <stdbool.h>
#include <stdint.h>

enum { PLM_TILE = 64 };

/* Floats a thread, forward: queries turned [D,64], scores [64,64]; of 16-bit tensors queries, keys
 * or values, and the output [64,D] too. A multiple of 16. */
static inline int64_t plm__attention_floats(int64_t head_width, bool half)
{
    return PLM_TILE * head_width * (half ? 3 : 1) + PLM_TILE * PLM_TILE;
}

/* Floats a thread, backward: queries and output gradients turned [D,64], probabilities and their
 * gradients [64,64], delta [T rounded up]; of 16-bit tensors queries, output gradients, keys,
 * values and the queries' gradients [64,D], and the gradients of keys and values [T,D], rounded up
 * too. A multiple of 16. */
static inline int64_t plm__attention_grad_floats(int64_t head_width, int64_t positions, bool half)
{
    int64_t rounded = (positions + PLM_TILE - 1) / PLM_TILE * PLM_TILE;
    int64_t plain = 2 * PLM_TILE * head_width + 2 * PLM_TILE * PLM_TILE + rounded;
    return plain + (half ? (5 * PLM_TILE + 2 * rounded) * head_width : 0);
}

/* Floats a thread of plain attention with 16-bit tensors: a tile [64,64] of a tensor [T,T], and two
 * blocks of rows [64,D]. A multiple of 16. */
static inline int64_t plm__attention_plain_floats(int64_t head_width)
{
    return PLM_TILE * (PLM_TILE + 2 * head_width);
}

#endif
