/* SPDX-License-Identifier: MIT */
/*
 * What was held when recording began, as a pool can take it over: the segments of that moment, each
 * covered by its blocks.
 *
 * The history already knows which blocks and plain segments are older than it, and puts them in
 * front of the trace. Three things are left to work out. Blocks that are still there at the end
 * have their size in the state; of those that were freed only the request is known, and it is
 * rounded as the allocator rounds. In segments of the large pool a rest of at most 1 MiB is never
 * split off, so such a gap behind a block belongs to it. Pages of expandable segments are followed
 * backwards from the end through every map and unmap.
 *
 * What cannot be seen: a block that was freed in the recording, with a free block behind it that
 * nobody was served from meanwhile. Where the one ends and the other begins is a guess, the
 * smallest size; a replay that is then served from that free block, and should not have been, knows
 * better and gives `sizes`.
 */
#ifndef PLM_REPLAY_START_H
#define PLM_REPLAY_START_H

#include "base/array.h"
#include "plimsoll/snapshot.h"
#include "pool/pool.h"

typedef struct plm_start {
    PLM_ARRAY(plm_pool_block) blocks; /* in the order of plm__pool_adopt */
    PLM_ARRAY(plm_event) held;        /* alloc events of the blocks held, by address */
    uint8_t *pending;                 /* by block number: freed before recording, not completed */
    /* By block number: the block may take up to 1 MiB more, at the cost of a free block. */
    uint8_t *unsure;
    bool infers_pools; /* events do not name private pools, final segments do */
    int64_t *births; /* by final segment, when pools are inferred: the event that took it, or -1 */
} plm_start;

/*
 * *start = the state at the first recorded event of a device, under `settings`, owned by the
 * caller. `total_bytes` is the source's, which sizes the reservations of expandable segments;
 * `sizes`, by block number, what is known of blocks' bytes from elsewhere (0: nothing; NULL).
 * PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm__start_create(const plm_snapshot_device *device,
                                          const plm_pool_settings *settings, size_t total_bytes,
                                          const size_t *sizes, plm_start *start);

void plm__start_fini(plm_start *start);

/* The private pool that an event of the device's trace, or a held one, belongs to; 0: the default.
 * A segment that was given back before the end is taken to be of the default pool. */
uint32_t plm__start_pool(const plm_start *start, const plm_snapshot_device *device,
                         const plm_event *event);

#endif
