/* SPDX-License-Identifier: MIT */
/* The step record, which kernels read instead of launch arguments: in C and in CUDA C. */
#ifndef PLM_GRAPH_STEP_RECORD_H
#define PLM_GRAPH_STEP_RECORD_H

#include <stddef.h>
#include <stdint.h>

#define PLM_LOSS_SCALE_START 65536.0f /* of fp16, as a run begins */
#define PLM_LOSS_SCALE_MAX   0x1p31f

/*
 * Every scalar of a step, in device memory. Kernels read it, never launch arguments, so that a
 * captured step can be replayed. The host writes the upper part before a program and reads the
 * lower part late.
 */
typedef struct plm_step_record {
    /* written by the host */
    uint64_t seed;
    uint32_t step;          /* index of the update, from 0: part of the key of random numbers */
    uint32_t sample_offset; /* first sample of this micro-batch in the window */
    int32_t position;       /* SELECT: the position wanted */
    float inverse_count;    /* 1 / counted targets of the whole window */
    float learning_rate;
    float weight_decay;
    float beta1;
    float beta2;
    float epsilon;
    float clip_norm; /* 0: no clipping */
    float momentum;
    uint32_t growth_interval; /* good updates in a row that double the loss scale, 0: it stays */
    /* written by operations */
    double loss_sum;       /* of the window; set to 0 by the host before it, as the next two */
    double square_sum;     /* of gradients, where they are updated one by one */
    uint32_t skip;         /* the last gradient was not finite: its update did nothing */
    float loss_scale;      /* of the gradients that are being made; 1 where there is none */
    float gradient_norm;   /* unscaled, before clipping */
    float clip_scale;      /* in (0, 1] */
    float gradient_factor; /* what makes a gradient that of the update: clip_scale / loss_scale */
    uint32_t good_count;   /* updates in a row since the loss scale changed */
    uint32_t update_count; /* updates that were applied: t of the bias correction */
    uint32_t skipped_count;
} plm_step_record;

enum { PLM_STEP_HOST_BYTES = offsetof(plm_step_record, loss_sum) }; /* that the host writes */

#endif
