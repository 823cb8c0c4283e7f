/* SPDX-License-Identifier: MIT */
/*
 * Pools: they take memory from a source (pool/source.h) in large pieces and hand it out in blocks.
 *
 *   segment   memory taken from the driver: a range of addresses with memory behind all of it, or,
 *             where pages are mapped one by one, behind parts of it
 *   block     a part of a segment: live (given out), pending (freed, but another stream may still
 *             use it), free, or unmapped (addresses only)
 *   reserved = live + slack + cached
 *             memory of the source that the pool holds = what owners asked for + what their blocks
 *             hold beyond that + what could be given out
 *
 * Policies:
 *   caching   PyTorch's CUDA caching allocator, rule for rule, so that a replay of a recording
 * makes the recorded decisions mapped    Plimsoll's own: pages of 2 MiB move to where they are
 * wanted, so reserved memory follows live memory instead of the history of sizes
 *
 *     plm_pool *pool = NULL;
 *     PLM_TRY(plm__pool_create(PLM_POOL_CACHING, source, &settings, &pool));
 *     plm_pool_grant grant;
 *     PLM_TRY(plm__pool_alloc(pool, &(plm_pool_request){.bytes = 4096}, &grant));
 *     PLM_TRY(plm__pool_free(pool, grant.address, NULL));
 *     plm__pool_destroy(pool);
 *
 * A pool belongs to one thread at a time; whoever shares one holds a lock.
 */
#ifndef PLM_POOL_POOL_H
#define PLM_POOL_POOL_H

#include "plimsoll/trace.h"
#include "pool/settings.h"
#include "pool/source.h"
#include "pool/stats.h"

typedef struct plm_pool plm_pool;

typedef enum plm_pool_policy {
    PLM_POOL_CACHING,
    PLM_POOL_MAPPED,
    PLM_POOL_POLICY_COUNT
} plm_pool_policy;

/*
 * *pool = an empty pool over `source` (borrowed, outlives the pool), owned by the caller. Settings
 * are copied; NULL means the defaults. PLM_ERROR_ARGUMENT for settings out of range,
 * PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm__pool_create(plm_pool_policy policy, plm_source *source,
                                         const plm_pool_settings *settings, plm_pool **pool);

/*
 * Gives everything back to the source, live blocks too, and ends the pool; NULL is allowed. The
 * caller sees to it that no stream uses them.
 */
void plm__pool_destroy(plm_pool *pool);

typedef struct plm_pool_request {
    size_t bytes;
    uint64_t stream;       /* blocks never move between streams */
    uint32_t private_pool; /* 0: the default pool; others share nothing with it */
    bool capturing;        /* a graph is being captured: nothing may wait or be given back */
} plm_pool_request;

typedef struct plm_pool_grant {
    uint64_t address; /* 0 for a request of 0 bytes, which takes nothing and tells nothing */
    size_t bytes;     /* what the block takes, at least what was asked */
} plm_pool_grant;

/*
 * Gives out a block. PLM_ERROR_DEVICE_MEMORY with the record filled after every step that could
 * find memory was tried; the pool goes on working. PLM_ERROR_HOST_MEMORY, or a status of the source
 * itself: nothing was given, the pool is whole.
 */
PLM_MUST_USE plm_status plm__pool_alloc(plm_pool *pool, const plm_pool_request *request,
                                        plm_pool_grant *grant);

/*
 * Its owner lets go of the block at `address`; 0 is allowed. Where other streams were recorded on
 * it, the block stays pending (*pending, NULL allowed) until plm__pool_complete or the next fence.
 * PLM_ERROR_ARGUMENT when no live block begins there. Takes no host memory.
 */
PLM_MUST_USE plm_status plm__pool_free(plm_pool *pool, uint64_t address, bool *pending);

/* Tells that `stream` uses the live block at `address`. PLM_ERROR_ARGUMENT when there is none. */
PLM_MUST_USE plm_status plm__pool_record_stream(plm_pool *pool, uint64_t address, uint64_t stream);

/*
 * Tells that the other streams are done with the pending block at `address`, which becomes free.
 * PLM_ERROR_ARGUMENT when no pending block begins there.
 */
PLM_MUST_USE plm_status plm__pool_complete(plm_pool *pool, uint64_t address);

/*
 * Waits for all streams, then gives back to the source what is wholly free. On a failure part of
 * it may have been given back; the pool is whole.
 */
PLM_MUST_USE plm_status plm__pool_empty_cache(plm_pool *pool);

/*
 * Nobody will allocate from this private pool again: from now on plm__pool_empty_cache and the
 * retry give its free segments back too. An allocation from it takes that back.
 */
void plm__pool_release_private(plm_pool *pool, uint32_t private_pool);

/* Changes the settings of a pool in use. PLM_ERROR_ARGUMENT when one is out of range. */
PLM_MUST_USE plm_status plm__pool_change_settings(plm_pool *pool,
                                                  const plm_pool_settings *settings);

/* Borrowed; valid until the pool ends, and changing with it. */
plm_pool_stats *plm__pool_statistics(plm_pool *pool);

/* What happened, for a recorder or for a replay that compares it with what was recorded. */
typedef struct plm_pool_event {
    plm_event_kind kind; /* BLOCK_*, SEGMENT_* or OUT_OF_MEMORY */
    bool is_small;       /* small pool or large */
    uint32_t private_pool;
    uint64_t stream;
    uint64_t address; /* OUT_OF_MEMORY: 0 */
    size_t bytes;     /* block: asked; segment: taken or given back; OUT_OF_MEMORY: rounded */
} plm_pool_event;

typedef void (*plm_pool_listener)(void *context, const plm_pool_event *event);

/*
 * Every event from now on goes to `listener` (NULL: none) as it happens, in PyTorch's order: a
 * segment's before the block's that it was taken for. The listener must not call the pool.
 */
void plm__pool_listen(plm_pool *pool, plm_pool_listener listener, void *context);

typedef enum plm_pool_block_state {
    PLM_POOL_BLOCK_FREE, /* mapped policy: with memory behind all, some or none of it */
    PLM_POOL_BLOCK_LIVE,
    PLM_POOL_BLOCK_PENDING,
    PLM_POOL_BLOCK_UNMAPPED /* caching policy: addresses without memory */
} plm_pool_block_state;

/* A block as a walk shows it. */
typedef struct plm_pool_block {
    uint64_t segment_address;
    size_t segment_bytes;
    uint64_t address;
    size_t bytes;
    size_t asked_bytes; /* 0 unless live or pending */
    uint64_t stream;
    uint32_t private_pool;
    plm_pool_block_state state;
    bool is_small;
    bool is_expandable; /* memory comes and goes page by page */
} plm_pool_block;

/*
 * Calls visit for every block, by segment address, then block address. The visitor must not call
 * the pool. PLM_ERROR_HOST_MEMORY before the first call.
 */
PLM_MUST_USE plm_status plm__pool_walk(const plm_pool *pool,
                                       void (*visit)(void *context, const plm_pool_block *block),
                                       void *context);

/*
 * Puts an empty caching pool into a state that a walk, or a recording, shows: `blocks` (borrowed)
 * in the order of a walk, covering each of their segments without a gap. The source must give each
 * segment its address (pool/space.h lets a chooser do so). No events are told; free blocks count as
 * just freed. PLM_ERROR_ARGUMENT when the blocks make no sense, with the pool still empty;
 * PLM_ERROR_UNSUPPORTED for another policy; PLM_ERROR_STATE when the pool is not empty. After any
 * failure of the source or of host memory the pool is good for nothing but plm__pool_destroy.
 */
PLM_MUST_USE plm_status plm__pool_adopt(plm_pool *pool, const plm_pool_block *blocks,
                                        int64_t count);

/* Where the reserved bytes are. */
typedef struct plm_pool_totals {
    size_t live_bytes;     /* asked by the owners of live and pending blocks */
    size_t slack_bytes;    /* held by those blocks beyond that */
    size_t cached_bytes;   /* the rest of what is reserved */
    size_t reserved_bytes; /* the sum */
} plm_pool_totals;

plm_pool_totals plm__pool_sum(const plm_pool *pool);

/*
 * Walks every structure of the pool and recomputes every sum from the blocks: false, with the
 * thread's record saying which invariant is broken, when anything disagrees. For tests; linear.
 */
bool plm__pool_is_valid(const plm_pool *pool);

#endif
