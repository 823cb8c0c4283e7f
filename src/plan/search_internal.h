/* SPDX-License-Identifier: MIT */
/*
 * Pricing strategies without planning each of them.
 *
 * A program's live bytes at an operation are what the blocks below it keep for their backward and
 * what is there besides; what a block keeps, and what is there while it runs, depend only on its
 * own recompute. So a few plans, each with one choice for all blocks, price every mixture: with
 * kept[i] of block i, local[i] the most that lives while block i runs (forward or backward) beyond
 * what the blocks before it keep, and outside[l] the same of operations outside of blocks with l
 * blocks below them,
 *
 *     bound = persistent + max over i, l of (kept[0] + .. + kept[i-1] + local[i],
 *                                            kept[0] + .. + kept[l-1] + outside[l])
 *     cost  = rest + cost[0] + .. + cost[L-1]
 *
 * which is exactly the plan's own lower bound and cost. Head chunks change what is outside of
 * blocks only, MLP chunks what is in blocks only.
 *
 * Networks of hundreds of blocks are not built for each price. Where one whole sketch, the frame,
 * shows that all blocks between the first and the last are alike, a price is of the first few: of
 * 1000 blocks, 4 are built, and the second of them counts 997 times. What does not depend on the
 * micro-batch and is not a block's (the persistent region but for its slot, the update) is the
 * frame's.
 */
#ifndef PLM_PLAN_SEARCH_INTERNAL_H
#define PLM_PLAN_SEARCH_INTERNAL_H

#include "plan/plan.h"

/* Where a strategy leaves the precision open, it becomes the device's best. */
void plm__search_settle_precision(const plm_device *device, plm_strategy *strategy);

/* One block under one choice of recompute. */
typedef struct plm__block_price {
    size_t kept;
    size_t local;
    size_t elsewhere; /* the most that lives while it runs in programs without a backward */
    int64_t cost;     /* over the whole schedule of an update */
} plm__block_price;

enum { PLM__BLOCKS_PRICED = 4 }; /* the first, two that are compared, the last */

/* What all prices of a search have in common. */
typedef struct plm__price_frame {
    int32_t blocks;    /* of the network */
    bool alike;        /* those between the first and the last */
    size_t persistent; /* without the slot */
    size_t elsewhere;  /* the most that lives in INITIALIZE and UPDATE */
    int64_t cost;      /* of both */
} plm__price_frame;

/* What one plan tells. */
typedef struct plm__price {
    int32_t blocks;          /* that were built */
    int32_t repeats;         /* how many blocks of the network block[1] stands for, 1 or more */
    plm__block_price *block; /* by block */
    size_t *outside;         /* by how many blocks lie below, blocks + 1 of them */
    size_t elsewhere; /* the most that lives outside of blocks in programs without a backward */
    size_t persistent;
    size_t slot; /* of that */
    size_t overhead;
    int64_t rest; /* cost of everything outside of blocks */
} plm__price;

/* *frame = that of a strategy whose choices are all made, from a sketch of the whole network. As
 * plm_plan_create. */
PLM_MUST_USE plm_status plm__price_frame_make(const plm_job *job, const plm_strategy *strategy,
                                              plm_device *device, plm__price_frame *frame);

/*
 * *price = what a job costs by a strategy whose choices are all made. Nothing is packed. Freed with
 * plm__price_fini. As plm_plan_create. `frame` NULL, or of blocks that are not alike, has the whole
 * network built.
 */
PLM_MUST_USE plm_status plm__price_make(const plm_job *job, const plm_strategy *strategy,
                                        plm_device *device, const plm__price_frame *frame,
                                        plm__price *price);

/* Of the network that the price is of. */
int32_t plm__price_blocks(const plm__price *price);

/* A zeroed struct is allowed. */
void plm__price_fini(plm__price *price);

/* The bound and cost of a mixture: the first `split` blocks as in `first`, the others as in
 * `later`, what is outside as in `head`. No peak of a plan is below the bound. */
void plm__price_mix(const plm__price *head, const plm__price *first, const plm__price *later,
                    int32_t split, size_t *peak_bound, int64_t *cost);

#endif
