/* SPDX-License-Identifier: MIT */
/*
 * The settings of a caching pool, PyTorch's names and defaults, and the two pure functions of them
 * that size a request: what a block takes, and what segment is asked of the driver for it. The text
 * form of the settings is torch/settings.h. Thread-safe.
 */
#ifndef PLM_POOL_SETTINGS_H
#define PLM_POOL_SETTINGS_H

#include <stdbool.h>

#include "base/status.h"

#define PLM_POOL_BLOCK_BYTES   ((size_t)512)      /* every block is a multiple */
#define PLM_POOL_SMALL_BYTES   ((size_t)1 << 20)  /* blocks up to this come from the small pool */
#define PLM_POOL_PAGE_BYTES    ((size_t)2 << 20)  /* small segment; large ones are multiples */
#define PLM_POOL_MEDIUM_BYTES  ((size_t)10 << 20) /* smaller large blocks share a segment */
#define PLM_POOL_SEGMENT_BYTES ((size_t)20 << 20) /* that segment, unless the settings differ */
#define PLM_POOL_LARGEST_BYTES ((size_t)1 << 60)  /* requests from here on are refused at once */

enum { PLM_POOL_INTERVALS = 16 }; /* 1 MiB, 2 MiB, ..., 32 GiB and up */

typedef enum plm_pool_backend {
    PLM_POOL_BACKEND_NATIVE,
    PLM_POOL_BACKEND_ASYNC /* cudaMallocAsync: the driver's own pool; the rest is ignored */
} plm_pool_backend;

typedef struct plm_pool_settings {
    plm_pool_backend backend;
    size_t max_split_bytes;       /* blocks from here on are not split; SIZE_MAX: no limit */
    size_t max_non_split_bytes;   /* how much larger than its request an unsplit block may be */
    size_t large_segment_bytes;   /* segment of requests in (1 MiB, 10 MiB); page if expandable */
    size_t expandable_page_bytes; /* page of the large pool; 0: large_segment_bytes */
    double garbage_threshold;     /* in (0, 1); 0: off. Acts only with memory_fraction */
    double memory_fraction;       /* of the source's total; 0: not set */
    uint32_t divisions[PLM_POOL_INTERVALS]; /* a power of two; 0 or 1: round to 512 */
    bool expandable_segments;
    bool throw_on_driver_oom;               /* told, not used: nothing here throws */
    bool release_lock_on_malloc;            /* told, not used: pools hold no lock */
    bool pinned_use_host_register;          /* told, not used: host memory */
    bool pinned_use_background_threads;     /* told, not used: host memory */
    bool graph_capture_record_stream_reuse; /* told, not used */
    uint32_t pinned_register_threads;       /* told, not used: a power of two up to 128 */
} plm_pool_settings;

/* PyTorch's defaults. */
plm_pool_settings plm__pool_settings_default(void);

/* PLM_ERROR_ARGUMENT, naming the field, when a setting is outside its range. */
PLM_MUST_USE plm_status plm__pool_settings_check(const plm_pool_settings *settings);

/* The bytes that a block for `bytes` takes (0 counts as 1); `bytes` < PLM_POOL_LARGEST_BYTES. */
size_t plm__pool_round_bytes(const plm_pool_settings *settings, size_t bytes);

/* The segment that a block of `rounded` bytes is cut from when none is cached. */
size_t plm__pool_segment_bytes(const plm_pool_settings *settings, size_t rounded);

/* The page of an expandable segment of the small pool, or of the large one. */
size_t plm__pool_page_bytes(const plm_pool_settings *settings, bool is_small);

/* `bytes` up to whole pages. */
static inline size_t plm__pool_whole_pages(size_t bytes, size_t page_bytes)
{
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

#endif
