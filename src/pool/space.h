/* SPDX-License-Identifier: MIT */
/*
 * The abstract address space: a memory source that hands out addresses with no memory behind them.
 * A pool over it makes exactly the decisions that it makes over a device, so a replay or a dry run
 * is the real policy and not an estimator beside it.
 *
 * It has a capacity, counts every call, and checks the contract of pool/source.h strictly: a broken
 * one is a bug that stops the program. Addresses are given upwards and never again, unless a
 * chooser says which one the driver gave.
 *
 *     plm_space space;
 *     plm__space_init(&space, (size_t)80 << 30);
 *     ... pools over &space.source ...
 *     plm__space_fini(&space);
 */
#ifndef PLM_POOL_SPACE_H
#define PLM_POOL_SPACE_H

#include "base/array.h"
#include "pool/source.h"

/* A range of addresses. */
typedef struct plm_space_range {
    uint64_t address;
    size_t bytes;
} plm_space_range;

typedef PLM_ARRAY(plm_space_range) plm_space_ranges;

/*
 * Chooses the address of a reservation of `bytes`: true and *address, or false to let the space
 * take the next of its own. An address that meets a reserved range is refused with
 * PLM_ERROR_ARGUMENT.
 */
typedef bool (*plm_space_chooser)(void *context, size_t bytes, uint64_t *address);

typedef struct plm_space {
    plm_source source;           /* first: the space is a source */
    size_t committed_bytes;      /* now; at most source.total_bytes */
    size_t committed_peak_bytes; /* the most at one time */
    int64_t reserve_calls;       /* calls of each kind, failed ones included */
    int64_t commit_calls;
    int64_t decommit_calls;
    int64_t release_calls;
    int64_t fence_calls;
    plm_space_chooser chooser; /* NULL: addresses are the space's own */
    void *chooser_context;     /* borrowed */
    uint64_t next_address;
    plm_space_ranges reserved;  /* by address */
    plm_space_ranges committed; /* by address; ranges that touch are one */
} plm_space;

/* Makes an empty space that can commit `capacity_bytes`, in pages of 2 MiB. Cannot fail. */
void plm__space_init(plm_space *space, size_t capacity_bytes);

/* Ends the space, whatever is still reserved. */
void plm__space_fini(plm_space *space);

#endif
