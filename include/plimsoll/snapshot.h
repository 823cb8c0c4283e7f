/* SPDX-License-Identifier: MIT */
/*
 * PyTorch's memory snapshots: what torch.cuda.memory._dump_snapshot writes, read without Python.
 *
 * A snapshot is two things. The *state* is the instant it was taken at: segments (memory taken from
 * the driver) cut into blocks. The *history*, when it was recorded, is a trace for each device
 * (plimsoll/trace.h): every event with the call stack that caused it. Pickles of protocols 2 to 5
 * and their JSON form are read, plain or compressed by xz, zstd or gzip; nothing in a file is ever
 * run.
 *
 * What the history cannot say: PyTorch records the bytes that were *asked* for. Rounding, splitting
 * and the reserved peak come out of a replay only, so bytes_taken of an event equals bytes_asked
 * here. The state does give both.
 *
 * Blocks that lived before recording began are known from their frees, and from the state. Each is
 * given an alloc event at the front of the trace, at the time of the first recorded event, so that
 * every view of a trace adds up: the first `carried_in` events. A block whose free was not recorded
 * (a recorder can leave kinds of events out) is given one as late as possible.
 *
 *     plm_snapshot *snapshot = NULL;
 *     PLM_TRY(plm_snapshot_read("rank0.pickle.xz", &snapshot));
 *     int64_t count;
 *     const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &count);
 *     ... devices[0].allocated_bytes, plm_trace_find_peak(devices[0].trace) ...
 *     plm_snapshot_destroy(snapshot);
 *
 * A snapshot does not change once it is read: any number of threads may look at it. Everything that
 * it gives out is borrowed and lives as long as it does.
 */
#ifndef PLIMSOLL_SNAPSHOT_H
#define PLIMSOLL_SNAPSHOT_H

#include <stdbool.h>

#include "plimsoll/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plm_snapshot plm_snapshot;

/* One row a state of a block: name, PyTorch's word. */
#define PLM_BLOCK_STATE_MAP(ROW)                                                                   \
    ROW(ALLOCATED, "active_allocated")       /* a tensor holds it */                               \
    ROW(PENDING_FREE, "active_pending_free") /* let go, but another stream may still use it */     \
    ROW(INACTIVE, "inactive")                /* cached: free to be given again */

typedef enum plm_block_state {
#define PLM_BLOCK_STATE_ROW(name, text) PLM_BLOCK_##name,
    PLM_BLOCK_STATE_MAP(PLM_BLOCK_STATE_ROW)
#undef PLM_BLOCK_STATE_ROW
        PLM_BLOCK_STATE_COUNT
} plm_block_state;

/* "active_allocated", ...; static. */
const char *plm_block_state_text(plm_block_state state);

typedef struct plm_snapshot_block {
    uint64_t address;
    size_t bytes;       /* with rounding */
    size_t bytes_asked; /* by its tensor; 0 when inactive, when what is recorded there is stale */
    int64_t block;      /* its number in the device's trace, -1 when inactive */
    int32_t owner;      /* index into the owners of that trace, PLM_TRACE_NO_OWNER when not known */
    int32_t state;      /* plm_block_state */
} plm_snapshot_block;

typedef struct plm_snapshot_segment {
    uint64_t address;
    size_t bytes;           /* taken from the driver; the mapped bytes of an expandable one */
    size_t allocated_bytes; /* of blocks that tensors hold */
    size_t active_bytes;    /* those and the ones that wait for a stream */
    size_t asked_bytes;     /* what tensors asked for, of the active ones */
    int64_t block;          /* its first block, index into the snapshot's blocks */
    int64_t block_count;    /* by rising address */
    int32_t owner;          /* who made PyTorch take it, like a block's */
    int32_t device;
    uint16_t queue;  /* the stream it serves, as in plm_event.queue */
    uint16_t pool;   /* as in plm_event.pool */
    bool large;      /* of the large pool: blocks above 1 MiB */
    bool expandable; /* one mapped range of an expandable segment */
} plm_snapshot_segment;

/* How much of a device's past the trace tells. */
typedef struct plm_snapshot_history {
    bool recorded;            /* there is at least one event */
    bool complete;            /* no block or segment is older than the trace, nothing is missing */
    bool timed;               /* times are nanoseconds since 1970; otherwise ordinal numbers */
    bool overflowed;          /* the file itself says that older events were overwritten */
    int64_t older_blocks;     /* lived before the first event */
    int64_t older_freed;      /* of them, those that were freed later */
    int64_t older_segments;   /* were there before the first event, as far as can be seen */
    int64_t unrecorded_frees; /* blocks that must have been freed without an event */
} plm_snapshot_history;

/* The instant at which a range that the program named (record_function) began or ended. */
typedef struct plm_snapshot_annotation {
    int64_t time; /* nanoseconds since 1970, 0 when not recorded */
    const char *name;
    int32_t device;
    bool ends;
} plm_snapshot_annotation;

enum { PLM_SNAPSHOT_DIVISIONS = 16 };

/* The allocator's settings as recorded. */
typedef struct plm_snapshot_settings {
    bool recorded;          /* false: the file has none, what follows are PyTorch's defaults */
    const char *text;       /* PYTORCH_CUDA_ALLOC_CONF, "" when not set */
    size_t max_split_bytes; /* SIZE_MAX: unlimited */
    double garbage_collection_threshold; /* 0: off */
    bool expandable_segments;
    bool release_lock_on_malloc;
    uint16_t roundup_power2_divisions[PLM_SNAPSHOT_DIVISIONS]; /* of 1 MiB, 2 MiB, ..., 32 GiB */
} plm_snapshot_settings;

/*
 * One device as recorded. Diagnoses and replays take nothing else, so who reads another program's
 * log fills in one of these: the trace, the segments, and what else is known.
 */
typedef struct plm_snapshot_device {
    int32_t device;
    size_t allocated_bytes;      /* torch.cuda.memory_allocated: blocks that tensors hold */
    size_t active_bytes;         /* and the ones that wait for a stream */
    size_t asked_bytes;          /* what tensors asked for: "requested" */
    size_t reserved_bytes;       /* torch.cuda.memory_reserved: all segments */
    size_t inactive_split_bytes; /* free parts of segments in use, expandable ones not counted */
    size_t largest_free_bytes;   /* the largest inactive block */
    size_t pending_free_bytes;
    int64_t pending_free_blocks;
    const plm_snapshot_segment *segments; /* at the end, by address */
    int64_t segment_count;
    const plm_snapshot_block *blocks; /* of all devices; plm_snapshot_segment.block is an index */
    int64_t block_count;
    const plm_snapshot_annotation *annotations; /* of all devices, in the order of the file */
    int64_t annotation_count;
    const plm_snapshot_settings *settings; /* never NULL */
    const uint64_t *streams; /* behind plm_event.queue: PyTorch's handle, 0: the default stream */
    int64_t stream_count;
    const uint64_t (*pools)[2]; /* behind plm_event.pool: PyTorch's pair, {0, 0} for the default */
    int64_t pool_count;
    int64_t trace_entries; /* events as recorded */
    int64_t oom_events;    /* of them, failed requests */
    int64_t carried_in;    /* events put before them for older blocks */
    plm_snapshot_history history;
    const plm_trace *trace; /* never NULL */
} plm_snapshot_device;

/*
 * *snapshot = what a file says, owned by the caller. PLM_ERROR_IO; PLM_ERROR_FORMAT when it is no
 * snapshot, is cut off or damaged, with the file and the byte; PLM_ERROR_UNSUPPORTED when a named
 * maximum is met; PLM_ERROR_HOST_MEMORY. The file is mapped while it is read: one that another
 * program writes anew meanwhile, cutting it short, ends this program by SIGBUS.
 */
PLM_MUST_USE plm_status plm_snapshot_read(const char *path, plm_snapshot **snapshot);

/* The same from bytes in memory, borrowed for the call; `name` is for messages. */
PLM_MUST_USE plm_status plm_snapshot_read_bytes(const char *name, const void *bytes, size_t count,
                                                plm_snapshot **snapshot);

/* Frees a snapshot and all that it gave out; NULL is allowed. */
void plm_snapshot_destroy(plm_snapshot *snapshot);

/* The devices that have segments or events, by number. */
const plm_snapshot_device *plm_snapshot_devices(const plm_snapshot *snapshot, int64_t *count);

#ifdef __cplusplus
}
#endif
#endif
