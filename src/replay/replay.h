/* SPDX-License-Identifier: MIT */
/* The replay as the views use it: with a look at each failed request, and the bytes of each block.
 */
#ifndef PLM_REPLAY_REPLAY_H
#define PLM_REPLAY_REPLAY_H

#include "plimsoll/replay.h"
#include "pool/pool.h"

/* The moment after a request failed. Everything is borrowed for the call. */
typedef struct plm_replay_moment {
    const plm_pool *pool;
    int64_t event;             /* the out-of-memory event, index into the trace */
    const uint64_t *addresses; /* by block number: where it lives in the pool, 0: nowhere */
    int64_t block_count;
} plm_replay_moment;

typedef struct plm_replay_job {
    const plm_snapshot_device *device;
    plm_pool_policy policy;
    plm_pool_settings settings;
    bool as_recorded;       /* start from the recorded state, with the recorded driver */
    size_t capacity_bytes;  /* 0: no limit */
    uint32_t address_order; /* not as recorded: one of the orders in which a driver may find room
                               for segments; 0: upwards, one behind the other */
    uint32_t without_site;  /* plm_owner.op whose blocks and requests are left out; 0: none */
    size_t *taken;          /* by block number: filled with the bytes of each block; NULL */
    plm_status (*failed)(void *context, const plm_replay_moment *moment); /* NULL */
    void (*restarts)(void *context); /* what was told was of a run that proved wrong; NULL */
    void *context;
} plm_replay_job;

/* *settings = what was in force, from the settings and the segments of the recording. */
plm_pool_settings plm__replay_recorded_settings(const plm_snapshot_device *device);

/* Runs a job; *result is filled but for its name. Fails like plm_replay_run. */
PLM_MUST_USE plm_status plm__replay_job_run(const plm_replay_job *job, plm_replay_result *result);

#endif
