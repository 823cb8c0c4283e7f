/* SPDX-License-Identifier: MIT */
/*
 * The range that a card's own addresses make. The stand-in hands out addresses by the driver's
 * rules, but a real process has holes between its libraries, which other machines have elsewhere,
 * and segments that land in them change which of two equal free blocks is taken. A replay of the
 * recording shows what that moves, in milliseconds.
 */
#include "base/status.h"
#include "plimsoll/forecast.h"
#include "plimsoll/replay.h"

static bool moves(const plm_replay_spread *spread)
{
    return spread->low_allocated_bytes < spread->high_allocated_bytes ||
           spread->low_reserved_bytes < spread->high_reserved_bytes;
}

static void add_range(plm_forecast_rank *rank, const plm_replay_spread *spread)
{
    if (spread->allocated_bytes != rank->allocated_bytes ||
        spread->reserved_bytes != rank->reserved_bytes || !moves(spread))
        return;
    rank->ranges[rank->range_count++] =
        (plm_forecast_range){.what = "addresses: where the driver finds room for segments",
                             .low_allocated_bytes = spread->low_allocated_bytes,
                             .high_allocated_bytes = spread->high_allocated_bytes,
                             .low_reserved_bytes = spread->low_reserved_bytes,
                             .high_reserved_bytes = spread->high_reserved_bytes};
}

/* A rank uses one device; the one whose replay comes to the rank's figures is meant. */
static plm_status find_for_rank(plm_forecast_rank *rank)
{
    plm_snapshot *snapshot = NULL;
    int64_t count = 0;
    const int64_t before = rank->range_count;
    plm_status status = plm_snapshot_read(rank->recording, &snapshot);
    const plm_snapshot_device *devices =
        status == PLM_OK ? plm_snapshot_devices(snapshot, &count) : NULL;
    for (int64_t i = 0; i < count && rank->range_count == before; i++) {
        plm_replay_spread spread;
        status = plm_replay_spread_run(&devices[i], &spread);
        if (status == PLM_OK)
            add_range(rank, &spread);
        if (status == PLM_ERROR_HOST_MEMORY)
            break;
    }
    plm_snapshot_destroy(snapshot);
    /* A recording that cannot be read or replayed has no range; the command says so elsewhere. */
    return status == PLM_ERROR_HOST_MEMORY ? status : PLM_OK;
}

plm_status plm_forecast_find_addresses(plm_forecast_result *result)
{
    for (int64_t i = 0; i < result->rank_count; i++) {
        plm_forecast_rank *rank = &result->ranks[i];
        if (rank->recording && rank->ended != PLM_FORECAST_OUT_OF_MEMORY)
            PLM_TRY(find_for_rank(rank));
    }
    return PLM_OK;
}
