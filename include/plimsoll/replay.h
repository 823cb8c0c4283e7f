/* SPDX-License-Identifier: MIT */
/*
 * Replay: a recorded history run through an allocator again, so that advice is measured on the run
 * that it is for.
 *
 * Under the recorded settings the replay makes the recorded decisions: the same addresses, the same
 * peaks, the same final segments. What was there before recording began is worked out from the
 * final state and the recorded events; what the driver answered (memory, none, which address) is
 * taken from the recording, so no capacity need be known. Lost with the beginning of a history are
 * peaks and requests of that time; and where several streams had expandable segments, which of them
 * some pages belonged to.
 *
 * Under other settings or another policy nobody knows what would have been held when recording
 * began: blocks of that time are placed first, in the order of their addresses (placed_first says
 * how many), and the driver gives memory up to the capacity. A request that failed in the recording
 * is made again, and given back at once where it succeeds. Where the program emptied the cache
 * itself, the replay does too.
 *
 *     plm_replay_result result;
 *     plm_replay_case wanted = {.settings = "expandable_segments:True"};
 *     PLM_TRY(plm_replay_run(device, &wanted, &result));
 *     ... result.reserved_peak_bytes ...
 *
 * Thread-safe: a device may be replayed by several threads at once.
 */
#ifndef PLIMSOLL_REPLAY_H
#define PLIMSOLL_REPLAY_H

#include <stdbool.h>

#include "plimsoll/snapshot.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum plm_replay_policy {
    PLM_REPLAY_CACHING, /* PyTorch's caching allocator */
    PLM_REPLAY_MAPPED,  /* Plimsoll's: pages move to where they are wanted */
    PLM_REPLAY_BOUND,   /* what no placement can be below: the largest sum of live blocks */
    PLM_REPLAY_POLICY_COUNT
} plm_replay_policy;

/* "caching", "mapped", "bound"; static. */
const char *plm_replay_policy_text(plm_replay_policy policy);

typedef struct plm_replay_case {
    plm_replay_policy policy;
    const char *settings;  /* caching: as PYTORCH_ALLOC_CONF, over the defaults; NULL: recorded */
    size_t capacity_bytes; /* what the driver can give to this process; 0: no limit */
    uint32_t without_site; /* leave out the blocks of this plm_owner.op; 0: none */
} plm_replay_case;

enum { PLM_REPLAY_NAME = 128 };

typedef struct plm_replay_result {
    char name[PLM_REPLAY_NAME]; /* the settings, or the policy; "recorded settings: ..." */
    plm_replay_policy policy;
    bool is_replayed; /* false: nothing could be replayed, and what follows is 0 */
    bool as_recorded; /* recorded settings and the driver's recorded answers */
    size_t reserved_peak_bytes;
    size_t allocated_peak_bytes;
    size_t reserved_bytes; /* at the end */
    size_t allocated_bytes;
    int64_t retries; /* requests for which the whole cache was given back first */
    int64_t oom;     /* requests that failed */
    int64_t addresses_reproduced;
    int64_t addresses_total;  /* recorded requests that succeeded; 0 for the bound */
    int64_t placed_first;     /* blocks held when recording began */
    int64_t segments;         /* at the end */
    bool segments_reproduced; /* as recorded: the final segments are the recorded ones */
} plm_replay_result;

/*
 * *result = what a device's history needs in this case. PLM_ERROR_FORMAT or PLM_ERROR_ARGUMENT for
 * settings that PyTorch would refuse; PLM_ERROR_UNSUPPORTED when no history was recorded or the
 * backend is the driver's; PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_replay_run(const plm_snapshot_device *device,
                                       const plm_replay_case *wanted, plm_replay_result *result);

/* The settings that plm_replay_sweep tries, ended by NULL; static. */
const char *const *plm_replay_useful_settings(void);

/*
 * Sorts results for reading: as recorded first, the bound last, between them by failed requests,
 * then by reserved peak.
 */
void plm_replay_sort(plm_replay_result *results, int64_t count);

/*
 * Gives the block events of a device's trace their true bytes_taken, with rounding and with what a
 * block holds beyond that, by a replay as recorded; *result is that replay's. `device` is an index
 * into the snapshot's devices. Where nothing was recorded, or the history contradicts the state,
 * the trace stays as it is and result->is_replayed is false. Nobody else may use the snapshot
 * meanwhile. PLM_ERROR_ARGUMENT for no such device; PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_replay_fill_taken(plm_snapshot *snapshot, int64_t device,
                                              plm_replay_result *result);

/* The peaks of one history, wherever the driver finds room for its segments. */
typedef struct plm_replay_spread {
    size_t allocated_bytes, reserved_bytes; /* as recorded */
    size_t low_allocated_bytes, high_allocated_bytes;
    size_t low_reserved_bytes, high_reserved_bytes;
} plm_replay_spread;

/*
 * PyTorch serves a request from the lowest of equal free blocks, so peaks depend on the addresses
 * that the driver gives, and those on what else lies in the process: they differ from machine to
 * machine. *spread = the peaks as recorded and in two dozen other orders: what was seen, not what
 * is possible. A recording in which the cache was given back to make room has its own peaks alone.
 * Fails like plm_replay_run.
 */
PLM_MUST_USE plm_status plm_replay_spread_run(const plm_snapshot_device *device,
                                              plm_replay_spread *spread);

#ifdef __cplusplus
}
#endif
#endif
