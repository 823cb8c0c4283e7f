/* SPDX-License-Identifier: MIT */
/*
 * How the inputs of micro-batches reach a device that copies beside what it computes, so that the
 * next ones come while the last ones are worked on.
 *
 * The host writes the record and the ids of each micro-batch into memory from which the device
 * copies by itself, and which has room for every step in flight. The copy queue brings them into
 * the plan's slot; the compute queue takes them from there when their turn comes. Two signals order
 * the queues: `arrived`, the slot is full; `taken`, it may be filled again. The host's memory of a
 * step is free when the step was collected, for then it was done.
 */
#ifndef PLM_RUN_FEED_H
#define PLM_RUN_FEED_H

#include "plan/plan.h"

typedef struct plm_feed plm_feed;

/* What a micro-batch needs, at one place: on the host, in the slot, where its program reads it. */
typedef struct plm_load {
    void *parts[PLM_SLOT_PARTS]; /* NULL: the network has no such input */
} plm_load;

/*
 * *feed = that of a plan with a slot, bound to `arena` of the device; all three borrowed, the feed
 * the caller's. PLM_ERROR_HOST_MEMORY, PLM_ERROR_DEVICE.
 */
PLM_MUST_USE plm_status plm__feed_create(const plm_plan *plan, plm_device *device, uint8_t *arena,
                                         plm_feed **feed);

/* When nothing that was enqueued runs any more. NULL is allowed. */
void plm__feed_destroy(plm_feed *feed);

/* The host's place for micro-batch `index` of a step; steps take turns, from 0 on. */
plm_load plm__feed_load(const plm_feed *feed, int64_t step, int64_t index);

/* Enqueues the way of a load to where a program reads it. */
PLM_MUST_USE plm_status plm__feed_bring(plm_feed *feed, const plm_load *from, const plm_load *to);

#endif
