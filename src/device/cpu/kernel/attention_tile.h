/* SPDX-License-Identifier: MIT */
/*
 * Fused attention works on square tiles of PLM_TILE queries by PLM_TILE keys. What a thread needs
 * for them lies in the declared workspace; its size is here, beside its layout, for the kernel and
 * for the planner alike.
 */
#ifndef PLM_DEVICE_CPU_ATTENTION_TILE_H
#define PLM_DEVICE_CPU_ATTENTION_TILE_H

#include <stdint.h>

enum { PLM_TILE = 64 };

/* Floats a thread, forward: queries turned [D,64], scores [64,64]. A multiple of 16. */
static inline int64_t plm_attention_floats(int64_t head_width)
{
    return PLM_TILE * head_width + PLM_TILE * PLM_TILE;
}

/* Floats a thread, backward: queries and output gradients turned [D,64], probabilities and their
 * gradients [64,64], delta [T rounded up]. A multiple of 16. */
static inline int64_t plm_attention_grad_floats(int64_t head_width, int64_t positions)
{
    int64_t rounded = (positions + PLM_TILE - 1) / PLM_TILE * PLM_TILE;
    return 2 * PLM_TILE * head_width + 2 * PLM_TILE * PLM_TILE + rounded;
}

#endif
