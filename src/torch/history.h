/* SPDX-License-Identifier: MIT */
/*
 * One device's history made whole: events are paired into blocks, and what the recording does not
 * tell (blocks older than it, frees that were left out) is worked out from the events and the final
 * state and put in, so that every block has one birth and at most one death.
 */
#ifndef PLM_TORCH_HISTORY_H
#define PLM_TORCH_HISTORY_H

#include "torch/owners.h"

typedef struct plm_history_events {
    plm_event *items; /* from the host allocator */
    int64_t count;
    int64_t capacity;
} plm_history_events;

/*
 * The final state of the device; segments point into all blocks of the snapshot. The owners of
 * segments and blocks are in the trace already, those of the events are not.
 */
typedef struct plm_history_state {
    uint16_t device;
    const plm_snapshot_segment *segments;
    int64_t segment_count;
    plm_snapshot_block *blocks;
    plm_owner_map *owners;
} plm_history_state;

/*
 * Completes `events` in place: device, owners and texts of the trace, block numbers, times that
 * never fall, events put in. The blocks of
 * the state get their numbers. Fills the counts of `history`, but not `overflowed`, and *carried_in
 * = events put at the front. PLM_ERROR_HOST_MEMORY leaves the events half done but owned.
 */
PLM_MUST_USE plm_status plm__history_complete(plm_history_events *events,
                                              const plm_history_state *state,
                                              plm_snapshot_history *history, int64_t *carried_in);

#endif
