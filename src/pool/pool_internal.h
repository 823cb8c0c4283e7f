/* SPDX-License-Identifier: MIT */
/*
 * What the policies share: blocks and where they are kept.
 *
 * A block is in exactly one place: live blocks in the map from addresses, pending blocks in the map
 * and in the list of pending ones, free blocks on their shelf. A shelf is the free blocks of one
 * (private pool, small or large, stream), for blocks never move between those.
 *
 * The shelf answers "smallest block of at least so many bytes, lowest address first" exactly. Sizes
 * fall into bins, 32 to each power of two; a bitmap finds the next bin that holds anything; inside
 * a bin, blocks are a treap ordered by (bytes, address) whose priorities are a hash of the address,
 * so a bin of thousands of equal blocks is still shallow, and the shape is the same in every run.
 */
#ifndef PLM_POOL_INTERNAL_H
#define PLM_POOL_INTERNAL_H

#include "base/array.h"
#include "pool/pool.h"

enum {
    PLM__SHELF_STEPS = 32,   /* bins to a power of two */
    PLM__SHELF_BINS = 1632,  /* 512-byte units below 2^55 */
    PLM__SHELF_WORDS = 26,   /* of the bitmap, ceil(1632 / 64); one summary word covers them */
    PLM__SHELVES_MAX = 4096, /* (private pool, side, stream) in one pool */
    PLM__SLAB_BLOCKS = 256   /* blocks to a chunk of the slab */
};

typedef struct plm__segment plm__segment;
typedef struct plm__shelf plm__shelf;

typedef struct plm__block {
    uint64_t address;
    size_t bytes;
    size_t asked_bytes;
    struct plm__block *previous, *next; /* neighbours in the segment, by address */
    struct plm__block *left, *right;    /* in the treap, the pending list or the unmapped list */
    plm__segment *segment;
    int64_t shelved_at;  /* the pool's clock of requests when the block became free */
    uint8_t state;       /* plm_pool_block_state */
    bool used_by_others; /* another stream was recorded on it */
} plm__block;

/* A page of 2 MiB with memory behind it (mapped policy). */
typedef struct plm__page {
    plm__segment *segment;
    size_t index;                    /* in the segment */
    int64_t users;                   /* live and pending blocks that touch it */
    struct plm__page *older, *newer; /* among the idle pages; newer chains the spare ones */
} plm__page;

struct plm__segment {
    uint64_t address;
    size_t bytes;
    size_t page_bytes; /* unit of mapping; 0: memory behind all of it */
    plm__shelf *shelf;
    plm__block *first;             /* lowest block */
    plm__segment *previous, *next; /* among the pool's segments */
    PLM_ARRAY(plm__page *) pages;  /* by index, NULL where unmapped (mapped policy) */
};

struct plm__shelf {
    uint64_t stream;
    uint32_t private_pool;
    bool is_small;
    bool is_released; /* its private pool is not used any more */
    int64_t count;    /* free blocks */
    uint32_t summary; /* bit w: words[w] is not 0 */
    uint64_t words[PLM__SHELF_WORDS];
    plm__block *roots[PLM__SHELF_BINS];
    plm__block *unmapped; /* unmapped blocks by address (caching policy) */
};

void plm__shelf_insert(plm__shelf *shelf, plm__block *block);

/* The block's bytes and address are those that it was inserted with. */
void plm__shelf_remove(plm__shelf *shelf, plm__block *block);

/* The first block at or after (bytes, address) in order of bytes, then address; NULL. */
plm__block *plm__shelf_at_least(const plm__shelf *shelf, size_t bytes, uint64_t address);

/* The last block before (bytes, address); NULL. */
plm__block *plm__shelf_before(const plm__shelf *shelf, size_t bytes, uint64_t address);

/* The block after this one; NULL. */
static inline plm__block *plm__shelf_next(const plm__shelf *shelf, const plm__block *block)
{
    return plm__shelf_at_least(shelf, block->bytes, block->address + 1);
}

/* Whether bins, bitmaps, order and count agree; *bytes = the sum of the blocks. */
bool plm__shelf_is_valid(const plm__shelf *shelf, size_t *bytes);

/* Live and pending blocks by address: open addressing, at most half full. */
typedef struct plm__map_slot {
    uint64_t address; /* 0: free */
    plm__block *block;
} plm__map_slot;

typedef struct plm__map {
    plm__map_slot *slots;
    int64_t slot_count; /* a power of two */
    int64_t count;
    int shift; /* 64 - log2(slot_count) */
} plm__map;

/* Makes room for `more` blocks. PLM_ERROR_HOST_MEMORY leaves the map whole. */
PLM_MUST_USE plm_status plm__map_reserve(plm__map *map, int64_t more);
void plm__map_insert(plm__map *map, plm__block *block);
/* The slot of the block that begins at `address`, valid until the map changes; NULL. */
plm__map_slot *plm__map_find(const plm__map *map, uint64_t address);
void plm__map_remove(plm__map *map, plm__map_slot *slot);

/* Blocks that are not in use, in chunks. */
typedef struct plm__slab {
    plm__block *spare; /* chained by next */
    int64_t spare_count;
    PLM_ARRAY(plm__block *) chunks;
} plm__slab;

/* Makes `count` blocks available to plm__slab_take. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__slab_reserve(plm__slab *slab, int64_t count);
plm__block *plm__slab_take(plm__slab *slab);
void plm__slab_give(plm__slab *slab, plm__block *block);
void plm__slab_fini(plm__slab *slab);

/* A policy. */
typedef struct plm__pool_table {
    const char *name;
    size_t pool_bytes;  /* of the policy's own struct, whose head is plm_pool */
    bool uses_settings; /* rounds by the settings; else to 512 bytes */
    /* `rounded` is what the block must hold; host memory was reserved. */
    plm_status (*alloc)(plm_pool *pool, plm__shelf *shelf, const plm_pool_request *request,
                        size_t rounded, plm_pool_grant *grant);
    /* The block is free and in no place: join it to its neighbours and shelve it. */
    void (*reclaim)(plm_pool *pool, plm__block *block);
    plm_status (*empty_cache)(plm_pool *pool);
    /* The blocks were checked, host memory was reserved; NULL where it is not supported. */
    plm_status (*adopt_segment)(plm_pool *pool, plm__shelf *shelf, const plm_pool_block *blocks,
                                int64_t count);
    size_t (*page_bytes)(const plm_pool *pool, bool is_small); /* of an expandable segment */
    bool (*is_valid)(const plm_pool *pool);
    void (*fini)(plm_pool *pool); /* gives segments back; the common part is ended after it */
} plm__pool_table;

struct plm_pool {
    const plm__pool_table *table;
    plm_source *source;
    plm_pool_settings settings;
    plm_pool_stats stats;
    plm_pool_listener listener;
    void *listener_context;
    plm__map map;
    plm__slab slab;
    plm__shelf *last[2];             /* the shelf used last, large and small */
    PLM_ARRAY(plm__shelf *) shelves; /* in PyTorch's order of release */
    plm__segment *segments;
    plm__block *pending_first, *pending_last; /* chained by right, oldest first */
};

extern const plm__pool_table plm__caching_table;
extern const plm__pool_table plm__mapped_table;

static inline plm_pool_side plm__side(const plm__shelf *shelf)
{
    return shelf->is_small ? PLM_POOL_SMALL : PLM_POOL_LARGE;
}

static inline void plm__pool_tell(const plm_pool *pool, plm_event_kind kind,
                                  const plm__shelf *shelf, uint64_t address, size_t bytes)
{
    if (pool->listener)
        pool->listener(pool->listener_context,
                       &(plm_pool_event){kind, shelf->is_small, shelf->private_pool, shelf->stream,
                                         address, bytes});
}

/* *shelf = the shelf of this request, made when there is none. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__pool_shelf(plm_pool *pool, const plm_pool_request *request,
                                        bool is_small, plm__shelf **shelf);

/* Room for the blocks and the map entry that one allocation can need. */
PLM_MUST_USE plm_status plm__pool_reserve_host(plm_pool *pool);

/* The block, in no place and of its final size, becomes live: map and statistics. */
void plm__pool_make_live(plm_pool *pool, plm__block *block, size_t asked_bytes);

/* The owner's half of a free: statistics and event. */
void plm__pool_let_go(plm_pool *pool, const plm__block *block);

/* The block that was let go becomes pending. */
void plm__pool_make_pending(plm_pool *pool, plm__block *block);

/* The block becomes live, is told and granted. */
void plm__pool_hand_out(plm_pool *pool, plm__block *block, size_t asked_bytes,
                        plm_pool_grant *grant);

/* Cuts `bytes` off the front: returns the front, of a spare block; `block` becomes the rest. */
plm__block *plm__pool_cut(plm_pool *pool, plm__block *block, size_t bytes);

/* Joins `other`, a neighbour that is in no place, to `block`; `other` is spare then. */
void plm__pool_join(plm_pool *pool, plm__block *block, plm__block *other);

/* Waits for all streams; every pending block becomes free. */
PLM_MUST_USE plm_status plm__pool_complete_all(plm_pool *pool);

/* The most that may be reserved under the memory fraction; SIZE_MAX without one. */
size_t plm__pool_allowed(const plm_pool *pool);

/* Counts, tells and reports a request that failed for good. */
PLM_MUST_USE plm_status plm__pool_out_of_memory(plm_pool *pool, const plm__shelf *shelf,
                                                size_t asked_bytes, size_t rounded_bytes,
                                                size_t wanted_bytes, size_t largest_free_bytes);

/* *segment = reserved addresses, nothing committed, linked into the pool, no blocks. */
PLM_MUST_USE plm_status plm__segment_create(plm_pool *pool, plm__shelf *shelf, size_t bytes,
                                            size_t page_bytes, plm__segment **segment);

/* Unlinks a segment with nothing committed, releases its addresses and frees it, not its blocks. */
PLM_MUST_USE plm_status plm__segment_destroy(plm_pool *pool, plm__segment *segment);

/* Walkers that both policies' is_valid use: each says what is wrong in the record. */
bool plm__segment_is_valid(const plm__segment *segment);
bool plm__pool_maps_are_valid(const plm_pool *pool);

/* For is_valid: false, with the broken condition in the thread's record. */
#define PLM__REQUIRE(condition)                                                                    \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return (void)plm_fail(PLM_ERROR_STATE, "pool broken: %s", #condition), false;          \
    } while (0)

#endif
