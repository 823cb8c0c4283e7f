/* SPDX-License-Identifier: MIT */
/* What is done to all statistics of a pool at once. */
#include "pool/stats.h"

void plm__pool_stats_reset_peaks(plm_pool_stats *stats)
{
    for (int family = 0; family < PLM_POOL_STAT_COUNT; family++)
        for (int side = 0; side < PLM_POOL_SIDE_COUNT; side++)
            stats->of[family][side].peak = stats->of[family][side].current;
    stats->oversize_allocations.peak = stats->oversize_allocations.current;
    stats->oversize_segments.peak = stats->oversize_segments.current;
}
