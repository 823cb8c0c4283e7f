/* SPDX-License-Identifier: MIT */
/*
 * The trace: what happened to memory, as births and deaths of blocks on a timeline, each with its
 * owner.
 *
 * A plan yields one without running, a run yields one, a PyTorch snapshot yields one. Bills, peaks,
 * timelines, leaks and replays are views of a trace and do not care where it came from.
 *
 * A trace is in order of time and is read linearly. Names are interned: an event is a fixed record
 * that holds small numbers, so that tens of millions of events fit in memory. A trace that was
 * handed out no longer changes: any number of threads may read one.
 */
#ifndef PLIMSOLL_TRACE_H
#define PLIMSOLL_TRACE_H

#include "plimsoll/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plm_trace plm_trace;

/* What an event tells. One row a kind: name, text. */
#define PLM_EVENT_MAP(ROW)                                                                         \
    ROW(BLOCK_ALLOC, "alloc") /* a block is given to an owner */                                   \
    ROW(BLOCK_FREE_REQUESTED,                                                                      \
        "free_requested")               /* its owner let go; another queue may still use it */     \
    ROW(BLOCK_FREE, "free_completed")   /* its bytes can be given again */                         \
    ROW(SEGMENT_ALLOC, "segment_alloc") /* memory taken from the driver */                         \
    ROW(SEGMENT_FREE, "segment_free")   /* memory given back to the driver */                      \
    ROW(SEGMENT_MAP, "segment_map")     /* pages mapped into an expandable segment */              \
    ROW(SEGMENT_UNMAP, "segment_unmap") /* pages unmapped from it */                               \
    ROW(OUT_OF_MEMORY, "oom")           /* a request failed: bytes asked, bytes taken = free */    \
    ROW(MARK, "mark")                   /* a named instant: a program or a step begins */          \
    ROW(SNAPSHOT, "snapshot")           /* the recorder looked at the state */

typedef enum plm_event_kind {
#define PLM_EVENT_ROW(name, text) PLM_EVENT_##name,
    PLM_EVENT_MAP(PLM_EVENT_ROW)
#undef PLM_EVENT_ROW
        PLM_EVENT_COUNT
} plm_event_kind;

/* "alloc", "free_completed", ...; static. */
const char *plm_event_text(plm_event_kind kind);

enum {
    PLM_TRACE_RANK_MAX = 6,  /* dimensions of an owner's shape */
    PLM_TRACE_KEPT_MAX = 4,  /* consumers named in kept_for */
    PLM_TRACE_NO_OWNER = -1, /* plm_event.owner of a block without one */
    PLM_TRACE_NO_FRAMES = -1 /* plm_owner.frames of an owner without a stack */
};

/*
 * Who holds a block. Names are indices into the trace's interned strings, 0 being the empty string.
 */
typedef struct plm_owner {
    uint32_t name;                         /* the tensor: "block.3/attention/probabilities" */
    uint32_t layer;                        /* "block.3", "head", "" */
    uint32_t op;                           /* operation that the block belongs to: "softmax" */
    uint32_t made_by;                      /* what wrote it first, with its layer */
    uint32_t kept_for[PLM_TRACE_KEPT_MAX]; /* later readers in order, 0 when fewer */
    int32_t role;                          /* plm_role, -1 when not known */
    int32_t dtype;                         /* plm_dtype, -1 when not known */
    int32_t rank;                          /* dimensions of shape, 0 when not known */
    int32_t frames; /* index of an interned stack, PLM_TRACE_NO_FRAMES when none */
    int64_t shape[PLM_TRACE_RANK_MAX];
} plm_owner;

typedef struct plm_event {
    int64_t time;       /* instant of a plan, or nanoseconds of a run or recording; never falls */
    uint64_t address;   /* of the block or segment, device address or offset in the arena */
    size_t bytes_asked; /* what the owner wanted */
    size_t bytes_taken; /* with rounding: what is not available to others */
    int64_t block;      /* pairs an alloc with its frees, unique within the trace; -1 for others */
    int32_t owner;      /* index into the owners, PLM_TRACE_NO_OWNER when none */
    uint32_t label;     /* MARK: interned name; else 0 */
    uint16_t kind;      /* plm_event_kind */
    uint16_t device;
    uint16_t queue; /* compute, copy, communication; a recording's interned stream */
    uint16_t pool;  /* 0: the default pool; a recording's interned (pool id, small or large) */
} plm_event;

/* One call of a stack: where a program was. */
typedef struct plm_frame {
    uint32_t function; /* interned strings */
    uint32_t file;
    int32_t line; /* 0 when not known */
} plm_frame;

/* Frees the trace and every string that it gave out; NULL is allowed. */
void plm_trace_destroy(plm_trace *trace);

/* The text of an interned string; borrowed, valid until the trace is destroyed. */
const char *plm_trace_text(const plm_trace *trace, uint32_t id);

/* The number of frames of a stack; 0 for PLM_TRACE_NO_FRAMES. */
int64_t plm_trace_stack_depth(const plm_trace *trace, int32_t stack);

/* A frame of it, depth 0 being the innermost. */
plm_frame plm_trace_stack_frame(const plm_trace *trace, int32_t stack, int64_t depth);

/* The events in order of time, and the owners; borrowed, valid until the trace is destroyed. */
const plm_event *plm_trace_events(const plm_trace *trace, int64_t *count);
const plm_owner *plm_trace_owners(const plm_trace *trace, int64_t *count);

/*
 * The peak: the first instant at which the sum of bytes_taken of live blocks is largest. A block
 * lives from its alloc event to its free event; frees at a time take effect before allocs at the
 * same time only when they stand before them in the trace.
 */
typedef struct plm_trace_peak {
    int64_t event; /* index of the alloc event that reaches it, -1 for an empty trace */
    int64_t time;
    size_t bytes_asked; /* of the blocks live then */
    size_t bytes_taken;
} plm_trace_peak;

plm_trace_peak plm_trace_find_peak(const plm_trace *trace);

/*
 * *indices = the alloc events of the blocks that live right after event `at`, largest bytes_asked
 * first, ties in order of birth; *count how many. Owned by the caller, freed with plm_free.
 * PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_trace_live_at(const plm_trace *trace, int64_t at, int64_t **indices,
                                          int64_t *count);

#ifdef __cplusplus
}
#endif
#endif
