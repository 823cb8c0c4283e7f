/* SPDX-License-Identifier: MIT */
/*
 * The fold of a snapshot: dictionaries of known shape become compact records as soon as they are
 * read, told by the keys they have.
 *
 *     action            an event of the history
 *     name, filename    a frame; a list of frames becomes a stack
 *     state, size       a block
 *     blocks, and more  a segment
 *     stage, name       an annotation
 *
 * Frames, stacks and owners are interned: equal ones are the same number. Records refer to each
 * other, and to texts, by these numbers. Whether a record stands where it belongs is seen later,
 * from the document that holds its number.
 */
#ifndef PLM_TORCH_FOLD_H
#define PLM_TORCH_FOLD_H

#include "plimsoll/snapshot.h"
#include "torch/document.h"

/* The keys and words of a snapshot, which the document interns first: row n is text n + 1. */
#define PLM_WORD_MAP(ROW)                                                                          \
    ROW(ACTION, "action")                                                                          \
    ROW(ADDR, "addr")                                                                              \
    ROW(DEVICE_FREE, "device_free")                                                                \
    ROW(SIZE, "size")                                                                              \
    ROW(STREAM, "stream")                                                                          \
    ROW(TIME_US, "time_us")                                                                        \
    ROW(COMPILE_CONTEXT, "compile_context")                                                        \
    ROW(USER_METADATA, "user_metadata")                                                            \
    ROW(POOL_ID, "pool_id")                                                                        \
    ROW(FRAMES, "frames")                                                                          \
    ROW(NAME, "name")                                                                              \
    ROW(FILENAME, "filename")                                                                      \
    ROW(LINE, "line")                                                                              \
    ROW(ADDRESS, "address")                                                                        \
    ROW(REQUESTED_SIZE, "requested_size")                                                          \
    ROW(STATE, "state")                                                                            \
    ROW(HISTORY, "history")                                                                        \
    ROW(REAL_SIZE, "real_size")                                                                    \
    ROW(DEVICE, "device")                                                                          \
    ROW(TOTAL_SIZE, "total_size")                                                                  \
    ROW(ALLOCATED_SIZE, "allocated_size")                                                          \
    ROW(ACTIVE_SIZE, "active_size")                                                                \
    ROW(SEGMENT_TYPE, "segment_type")                                                              \
    ROW(SEGMENT_POOL_ID, "segment_pool_id")                                                        \
    ROW(IS_EXPANDABLE, "is_expandable")                                                            \
    ROW(BLOCKS, "blocks")                                                                          \
    ROW(STAGE, "stage")                                                                            \
    /* Keys end here: the rows above have numbers below 64 and stand in a bit mask. */             \
    ROW(ALLOC, "alloc")                                                                            \
    ROW(FREE_REQUESTED, "free_requested")                                                          \
    ROW(FREE_COMPLETED, "free_completed")                                                          \
    ROW(SEGMENT_ALLOC, "segment_alloc")                                                            \
    ROW(SEGMENT_FREE, "segment_free")                                                              \
    ROW(SEGMENT_MAP, "segment_map")                                                                \
    ROW(SEGMENT_UNMAP, "segment_unmap")                                                            \
    ROW(OOM, "oom")                                                                                \
    ROW(SNAPSHOT, "snapshot")                                                                      \
    /* Actions end here. */                                                                        \
    ROW(ACTIVE_ALLOCATED, "active_allocated")                                                      \
    ROW(ACTIVE_PENDING_FREE, "active_pending_free")                                                \
    ROW(ACTIVE_AWAITING_FREE, "active_awaiting_free")                                              \
    ROW(INACTIVE, "inactive")                                                                      \
    ROW(SMALL, "small")                                                                            \
    ROW(LARGE, "large")                                                                            \
    ROW(START, "START")                                                                            \
    ROW(END, "END")                                                                                \
    ROW(NOT_AVAILABLE, "N/A")                                                                      \
    ROW(SEGMENTS, "segments")                                                                      \
    ROW(DEVICE_TRACES, "device_traces")                                                            \
    ROW(ALLOCATOR_SETTINGS, "allocator_settings")                                                  \
    ROW(EXTERNAL_ANNOTATIONS, "external_annotations")                                              \
    ROW(TRACE_ALLOC_OVERFLOWED, "trace_alloc_overflowed")                                          \
    ROW(ALLOC_CONF, "PYTORCH_CUDA_ALLOC_CONF")                                                     \
    ROW(ALLOC_CONF_NEW, "PYTORCH_ALLOC_CONF")                                                      \
    ROW(MAX_SPLIT_SIZE, "max_split_size")                                                          \
    ROW(GC_THRESHOLD, "garbage_collection_threshold")                                              \
    ROW(EXPANDABLE_SEGMENTS, "expandable_segments")                                                \
    ROW(RELEASE_LOCK, "release_lock_on_cudamalloc")                                                \
    ROW(DIVISIONS, "roundup_power2_divisions")

typedef enum plm_word {
    PLM_WORD_EMPTY, /* "" */
#define PLM_WORD_ROW(name, text) PLM_WORD_##name,
    PLM_WORD_MAP(PLM_WORD_ROW)
#undef PLM_WORD_ROW
        PLM_WORD_COUNT
} plm_word;

/* The words as the document wants them: texts[0] is word 1. */
extern const char *const plm__fold_words[PLM_WORD_COUNT - 1];

typedef enum plm_folded {
    PLM_FOLDED_EVENT = PLM_VALUE_FOLDED,
    PLM_FOLDED_FRAME,
    PLM_FOLDED_STACK,
    PLM_FOLDED_BLOCK,
    PLM_FOLDED_SEGMENT,
    PLM_FOLDED_ANNOTATION
} plm_folded;

typedef struct plm_fold_frame {
    uint32_t name; /* texts of the document */
    uint32_t file;
    int32_t line;
} plm_fold_frame;

/* Who caused an event, as far as the recording says. */
typedef struct plm_fold_owner {
    uint32_t stack;    /* number in stacks, 0 for none */
    uint32_t metadata; /* texts of the document */
    uint32_t context;
} plm_fold_owner;

typedef struct plm_fold_segment {
    plm_snapshot_segment segment; /* block and block_count are filled at the end */
    plm_value blocks;             /* the list, or EMPTY_LIST */
} plm_fold_segment;

typedef struct plm_fold_annotation {
    int64_t time;
    uint32_t name; /* text of the document */
    int32_t device;
    bool ends;
} plm_fold_annotation;

/*
 * Events are plm_event as far as they are known: block -1, device 0, owner a number in owners,
 * label a text of the document. Blocks and segments have owners of the same kind.
 */
typedef struct plm_fold_store {
    plm_document *document;
    PLM_ARRAY(plm_event) events;
    PLM_ARRAY(plm_snapshot_block) blocks;
    PLM_ARRAY(plm_fold_segment) segments;
    PLM_ARRAY(plm_fold_annotation) annotations;
    plm_intern frames;  /* bytes of a plm_fold_frame; number 0 is unused */
    plm_intern stacks;  /* uint32_t numbers of frames, innermost first; number 0 is the empty one */
    plm_intern owners;  /* bytes of a plm_fold_owner; number 0 is unused */
    plm_intern streams; /* bytes of a uint64_t; number 0 is unused */
    plm_intern pools;   /* bytes of two uint64_t; number 0 is unused */
    uint64_t last_stream; /* the stream last seen and its number: nearly always the next one */
    uint32_t last_stream_number;
    PLM_ARRAY(uint32_t) scratch; /* frames of the stack being made */
} plm_fold_store;

/* Makes an empty store whose fold can be given to `document`. On failure nothing is left to end. */
PLM_MUST_USE plm_status plm__fold_init(plm_fold_store *store, plm_document *document);

void plm__fold_fini(plm_fold_store *store);

/* The fold that fills this store. */
plm_fold plm__fold_into(plm_fold_store *store);

/* Copies of what numbers stand for. */
plm_fold_frame plm__fold_get_frame(const plm_fold_store *store, uint32_t number);
plm_fold_owner plm__fold_get_owner(const plm_fold_store *store, uint32_t number);

/* The frames of a stack: their numbers, to be copied out with memcpy, and how many. */
const char *plm__fold_get_stack(const plm_fold_store *store, uint32_t number, int64_t *count);

#endif
