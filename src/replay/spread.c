/* SPDX-License-Identifier: MIT */
/*
 * One history with its segments at other addresses. Which of two equal free blocks serves a request
 * goes by their addresses, so what is left free in pieces, and with that the reserved peak, moves
 * when the driver's addresses do; and a rest that is not worth a block of its own goes with its
 * neighbour, so the allocated peak moves a little too. Every order is a whole replay.
 */
#include "replay/replay.h"

enum { ORDERS = 24 };

static void widen(plm_replay_spread *spread, const plm_replay_result *result)
{
    const size_t allocated = result->allocated_peak_bytes, reserved = result->reserved_peak_bytes;
    if (allocated < spread->low_allocated_bytes)
        spread->low_allocated_bytes = allocated;
    if (allocated > spread->high_allocated_bytes)
        spread->high_allocated_bytes = allocated;
    if (reserved < spread->low_reserved_bytes)
        spread->low_reserved_bytes = reserved;
    if (reserved > spread->high_reserved_bytes)
        spread->high_reserved_bytes = reserved;
}

plm_status plm_replay_spread_run(const plm_snapshot_device *device, plm_replay_spread *spread)
{
    plm_replay_result result;
    const plm_replay_case recorded = {.policy = PLM_REPLAY_CACHING};
    PLM_TRY(plm_replay_run(device, &recorded, &result));
    const size_t allocated = result.allocated_peak_bytes, reserved = result.reserved_peak_bytes;
    plm_replay_spread found = {allocated, reserved, allocated, allocated, reserved, reserved};
    if (result.retries > 0) { /* how far memory reached decided, not addresses alone */
        *spread = found;
        return PLM_OK;
    }
    for (uint32_t order = 1; order <= ORDERS; order++) {
        const plm_replay_job job = {.device = device,
                                    .policy = PLM_POOL_CACHING,
                                    .settings = plm__replay_recorded_settings(device),
                                    .address_order = order};
        PLM_TRY(plm__replay_job_run(&job, &result));
        widen(&found, &result);
    }
    *spread = found;
    return PLM_OK;
}
