/* SPDX-License-Identifier: MIT */
/*
 * The recorded driver: a memory source that answers as the driver did while a history was
 * recorded.
 *
 * Between two events of blocks a recording tells what the allocator did to the driver. A segment
 * that was taken there is given, at its address. Memory that was given back there, before a segment
 * was taken, says that the driver had first refused; so does the failure that followed. The
 * recording is the truth about addresses, so nothing of the contract of pool/source.h is checked.
 * What the pool asks for and no event tells of is given at an address of its own.
 */
#ifndef PLM_REPLAY_DRIVER_H
#define PLM_REPLAY_DRIVER_H

#include "plimsoll/trace.h"
#include "pool/pool.h"

typedef struct plm_recorded_driver {
    plm_source source; /* first: the driver is a source */
    const plm_event *events;
    int64_t next, end;           /* the recorded events that the next calls are answered by */
    bool refuses;                /* when they are used up: the request failed */
    bool was_asked;              /* for memory, since the last look */
    const plm_pool_block *start; /* while a state is taken over: its blocks */
    int64_t start_count, start_next;
    uint64_t own_address; /* for what was not recorded */
} plm_recorded_driver;

/* `total_bytes` as the pool should see it. Cannot fail, and has nothing to end. */
void plm__recorded_driver_init(plm_recorded_driver *driver, const plm_event *events,
                               size_t total_bytes);

/* From here on the events [first, end) answer; `refuses` when the request failed after them. */
void plm__recorded_driver_look(plm_recorded_driver *driver, int64_t first, int64_t end,
                               bool refuses);

/* Whether the next event gives memory back. */
bool plm__recorded_driver_releases(plm_recorded_driver *driver);

#endif
