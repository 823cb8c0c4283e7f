/* SPDX-License-Identifier: MIT */
/*
 * Statistics of a pool, kept and named as PyTorch names them in torch.cuda.memory_stats(): for each
 * family and each of all, large_pool, small_pool, what is current, the peak, and all that was ever
 * allocated and freed. Peaks of two families happen at different instants: do not subtract them.
 *
 * What is easily taken for another thing: allocated_bytes counts whole blocks, requested_bytes what
 * their owners asked for; active is allocated and the blocks whose free still waits for a stream;
 * inactive_split are free blocks that are part of a segment in use, expandable segments left out.
 */
#ifndef PLM_POOL_STATS_H
#define PLM_POOL_STATS_H

#include "base/status.h"

typedef enum plm_pool_stat_family {
    PLM_POOL_ACTIVE,
    PLM_POOL_ACTIVE_BYTES,
    PLM_POOL_ALLOCATED_BYTES,
    PLM_POOL_ALLOCATION,
    PLM_POOL_INACTIVE_SPLIT,
    PLM_POOL_INACTIVE_SPLIT_BYTES,
    PLM_POOL_REQUESTED_BYTES,
    PLM_POOL_RESERVED_BYTES,
    PLM_POOL_SEGMENT,
    PLM_POOL_STAT_COUNT
} plm_pool_stat_family;

typedef enum plm_pool_side {
    PLM_POOL_ALL,
    PLM_POOL_LARGE,
    PLM_POOL_SMALL,
    PLM_POOL_SIDE_COUNT
} plm_pool_side;

/* What was ever freed is allocated - current. */
typedef struct plm_pool_stat {
    int64_t current;
    int64_t peak;
    int64_t allocated;
} plm_pool_stat;

typedef struct plm_pool_stats {
    plm_pool_stat of[PLM_POOL_STAT_COUNT][PLM_POOL_SIDE_COUNT];
    plm_pool_stat oversize_allocations; /* blocks of max_split_size or more */
    plm_pool_stat oversize_segments;
    int64_t num_alloc_retries;    /* requests that had to release the whole cache first */
    int64_t num_ooms;             /* requests that failed for good */
    int64_t num_sync_all_streams; /* waits for every stream */
    int64_t num_device_alloc;     /* segments or mappings taken from the driver */
    int64_t num_device_free;      /* given back to it */
    int64_t max_split_size;       /* the setting, -1 without limit */
} plm_pool_stats;

static inline void plm__pool_stat_add(plm_pool_stat *stat, int64_t amount)
{
    stat->current += amount;
    stat->allocated += amount;
    if (stat->current > stat->peak)
        stat->peak = stat->current;
}

/* Counts on a side and in all. */
static inline void plm__pool_stats_add(plm_pool_stats *stats, plm_pool_stat_family family,
                                       plm_pool_side side, size_t amount)
{
    plm__pool_stat_add(&stats->of[family][PLM_POOL_ALL], (int64_t)amount);
    plm__pool_stat_add(&stats->of[family][side], (int64_t)amount);
}

static inline void plm__pool_stats_subtract(plm_pool_stats *stats, plm_pool_stat_family family,
                                            plm_pool_side side, size_t amount)
{
    stats->of[family][PLM_POOL_ALL].current -= (int64_t)amount;
    stats->of[family][side].current -= (int64_t)amount;
}

/* Adds or subtracts, by the sign. */
static inline void plm__pool_stats_change(plm_pool_stats *stats, plm_pool_stat_family family,
                                          plm_pool_side side, int64_t amount)
{
    if (amount > 0)
        plm__pool_stats_add(stats, family, side, (size_t)amount);
    else
        plm__pool_stats_subtract(stats, family, side, (size_t)-amount);
}

/* The current value of a family over both sides. */
static inline size_t plm__pool_stats_current(const plm_pool_stats *stats,
                                             plm_pool_stat_family family)
{
    return (size_t)stats->of[family][PLM_POOL_ALL].current;
}

/* Every peak becomes the current value. */
void plm__pool_stats_reset_peaks(plm_pool_stats *stats);

#endif
