/* SPDX-License-Identifier: MIT */
/*
 * Kernels that draw random numbers: dropout and the first values of parameters. They draw the
 * numbers that the CPU draws (base/philox.h), so that a mask is the same on every device.
 */
#include "graph/step_record.h"
#include "device/cuda/kernel/values.cuh"

#define TWO_PI 6.28318530718f

struct four {
    uint32_t word[4];
};

/* The four words at `index` of the stream (seed, step, site): Philox4x32-10, as in base/philox.h.
 */
__device__ static four philox_at(uint64_t seed, uint32_t step, uint32_t site, uint64_t index)
{
    four c = {{(uint32_t)index, (uint32_t)(index >> 32), site, step}};
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint32_t high0 = __umulhi(0xD2511F53u, c.word[0]), low0 = 0xD2511F53u * c.word[0];
        uint32_t high1 = __umulhi(0xCD9E8D57u, c.word[2]), low1 = 0xCD9E8D57u * c.word[2];
        c = {{high1 ^ c.word[1] ^ key0, low1, high0 ^ c.word[3] ^ key1, low0}};
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

__device__ static float unit_of(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* out = keep ? x / (1 - probability) : 0; an element's number is its place in the whole window.
   x [B,T,C]; `sample` = T C. A thread takes the elements of one block of four words. */
template <typename T>
__device__ static void dropout(const T *x, T *out, int64_t count, int64_t sample, uint32_t site,
                               float probability, const plm_step_record *step)
{
    int64_t first = (int64_t)step->sample_offset * sample, end = first + count;
    float scale = 1.0f / (1.0f - probability);
    for (int64_t block = first / 4 + thread_of_grid(); 4 * block < end;
         block += threads_of_grid()) {
        four drawn = philox_at(step->seed, step->step, site, (uint64_t)block);
        for (int k = 0; k < 4; k++) {
            int64_t i = 4 * block + k - first;
            if (i >= 0 && i < count)
                out[i] = put<T>(unit_of(drawn.word[k]) >= probability ? get(x[i]) * scale : 0.0f);
        }
    }
}

/* p[e] = scale * normal, by Box and Muller */
extern "C" __global__ void init_normal(float *p, int64_t count, uint32_t site, float scale,
                                       const plm_step_record *step)
{
    for (int64_t block = thread_of_grid(); 4 * block < count; block += threads_of_grid()) {
        four drawn = philox_at(step->seed, 0, site, (uint64_t)block);
        for (int k = 0; k < 4 && 4 * block + k < count; k++) {
            float radius = sqrtf(-2.0f * logf(1.0f - unit_of(drawn.word[k & 2])));
            float angle = TWO_PI * unit_of(drawn.word[(k & 2) + 1]);
            p[4 * block + k] = scale * (radius * (k & 1 ? sinf(angle) : cosf(angle)));
        }
    }
}

/* p[e] = value */
extern "C" __global__ void init_constant(float *p, int64_t count, float value)
{
    for (int64_t i = thread_of_grid(); i < count; i += threads_of_grid())
        p[i] = value;
}

#define DROPOUT(T)                                                                                 \
    (const T *x, T *out, int64_t count, int64_t sample, uint32_t site, float probability,          \
     const plm_step_record *step)
TYPED(dropout, DROPOUT, (x, out, count, sample, site, probability, step))
