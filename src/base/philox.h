/* SPDX-License-Identifier: MIT */
/*
 * Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3" (SC 2011). A number is a pure function of (key, counter): nothing is
 * stored, so a dropout mask can be made again anywhere, in any order, on any device.
 *
 * The key is the seed; the counter is (index of the block of four, site, step).
 */
#ifndef PLM_BASE_PHILOX_H
#define PLM_BASE_PHILOX_H

#include <stdint.h>

typedef struct plm_philox {
    uint32_t word[4];
} plm_philox;

static inline plm_philox plm__philox_round(plm_philox counter, uint32_t key0, uint32_t key1)
{
    uint64_t product0 = (uint64_t)0xD2511F53u * counter.word[0];
    uint64_t product1 = (uint64_t)0xCD9E8D57u * counter.word[2];
    return (plm_philox){{(uint32_t)(product1 >> 32) ^ counter.word[1] ^ key0, (uint32_t)product1,
                         (uint32_t)(product0 >> 32) ^ counter.word[3] ^ key1, (uint32_t)product0}};
}

/* The four words at `index` of the stream (seed, step, site). */
static inline plm_philox plm__philox_at(uint64_t seed, uint32_t step, uint32_t site, uint64_t index)
{
    plm_philox counter = {{(uint32_t)index, (uint32_t)(index >> 32), site, step}};
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        counter = plm__philox_round(counter, key0, key1);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

/* A word as a float in [0, 1), 24 bits of it. */
static inline float plm__philox_unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

#endif
