/* SPDX-License-Identifier: MIT */
/*
 * Kernels that draw random numbers, four from each block of Philox: dropout, and the initial values
 * of parameters. A number depends on seed, step, site and the element's index alone, so nothing
 * depends on threads, on the micro-batch or on the order.
 */
#include <math.h>

#include "base/philox.h"
#include "device/cpu/kernel/values.h"

enum { BLOCKS = 64 }; /* blocks of Philox that are made at once */

#define TWO_PI 6.28318530718f

typedef struct stream {
    uint64_t seed;
    uint32_t step, site;
} stream;

/* words[4 i + w] = word w of block first + i */
static void draw(stream from, uint64_t first, uint32_t words[4 * BLOCKS])
{
#pragma omp simd
    for (int i = 0; i < BLOCKS; i++) {
        plm_philox block = plm__philox_at(from.seed, from.step, from.site, first + (uint64_t)i);
        words[4 * i] = block.word[0];
        words[4 * i + 1] = block.word[1];
        words[4 * i + 2] = block.word[2];
        words[4 * i + 3] = block.word[3];
    }
}

typedef struct dropout {
    stream from;
    const plm_operand *x, *out; /* [B,T,C] */
    uint64_t first;             /* global index of element 0 */
    uint64_t end;               /* global index of the end */
    float probability;
    float scale; /* 1 / (1 - probability) */
} dropout;

/* The elements among the 4 BLOCKS numbers that start at block `block`. */
static void dropout_blocks(const dropout *job, uint64_t block)
{
    uint32_t words[4 * BLOCKS];
    draw(job->from, block, words);
    uint64_t base = block * 4, begin = base < job->first ? job->first : base;
    uint64_t end = base + 4 * BLOCKS > job->end ? job->end : base + 4 * BLOCKS;
    float room[4 * BLOCKS];
    const uint32_t *word = words + (begin - base);
    int64_t count = (int64_t)(end - begin), at = (int64_t)(begin - job->first);
    const float *x = plm__values(job->x, at, count, room);
    float *out = plm__place(job->out, at, room);
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        out[i] = plm__philox_unit(word[i]) >= job->probability ? x[i] * job->scale : 0.0f;
    plm__put(job->out, at, count, out);
}

void KERNEL(dropout)(const plm_launch *launch, int threads)
{
    const plm_operand *x = &launch->in[0];
    const plm_step_record *step = launch->step;
    uint64_t sample = (uint64_t)x->shape[1] * (uint64_t)x->shape[2];
    uint64_t first = step->sample_offset * sample;
    dropout job = {
        .from = {step->seed, step->step, launch->attr.site},
        .x = x,
        .out = &launch->out[0],
        .first = first,
        .end = first + (uint64_t)x->shape[0] * sample,
        .probability = launch->attr.probability,
        .scale = 1.0f / (1.0f - launch->attr.probability),
    };
    int64_t begin = (int64_t)(job.first / 4), end = (int64_t)((job.end + 3) / 4);
#pragma omp parallel for num_threads(threads) if (4 * (end - begin) > PLM_SERIAL_COUNT)
    for (int64_t block = begin; block < end; block += BLOCKS)
        dropout_blocks(&job, (uint64_t)block);
}

/* Box and Muller: two numbers in [0, 1) become two normal ones. */
static void normal_pair(uint32_t first, uint32_t second, float scale, float pair[2])
{
    float radius = sqrtf(-2.0f * logf(1.0f - plm__philox_unit(first)));
    float angle = TWO_PI * plm__philox_unit(second);
    pair[0] = scale * (radius * cosf(angle));
    pair[1] = scale * (radius * sinf(angle));
}

static void normal_blocks(stream from, int64_t block, int64_t count, float scale, float *p)
{
    uint32_t words[4 * BLOCKS];
    float normal[4 * BLOCKS];
    draw(from, (uint64_t)block, words);
    for (int i = 0; i < 4 * BLOCKS; i += 2)
        normal_pair(words[i], words[i + 1], scale, normal + i);
    for (int64_t e = 4 * block; e < plm__min(count, 4 * (block + BLOCKS)); e++)
        p[e] = normal[e - 4 * block];
}

void KERNEL(init_normal)(const plm_launch *launch, int threads)
{
    float *p = launch->effect[0].data; /* any shape */
    int64_t count = plm__operand_count(&launch->effect[0]);
    stream from = {launch->step->seed, 0, launch->attr.site};
    float scale = launch->attr.scale;
#pragma omp parallel for num_threads(threads) if (count > PLM_SERIAL_COUNT)
    for (int64_t block = 0; block < (count + 3) / 4; block += BLOCKS)
        normal_blocks(from, block, count, scale, p);
}

void KERNEL(init_constant)(const plm_launch *launch, int threads)
{
    float *p = launch->effect[0].data; /* any shape */
    int64_t count = plm__operand_count(&launch->effect[0]);
    float value = launch->attr.scale;
#pragma omp parallel for simd num_threads(threads) if (parallel : count > PLM_SERIAL_COUNT)
    for (int64_t i = 0; i < count; i++)
        p[i] = value;
}
