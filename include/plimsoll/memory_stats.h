/* SPDX-License-Identifier: MIT */
/*
 * What a PyTorch process says of its own memory: torch.cuda.memory_stats() as JSON, and the small
 * record that a recorder leaves beside a snapshot.
 *
 * Both hold what a snapshot cannot: the true peaks since the process began, and the capacity of the
 * device. Peaks of different quantities belong to different instants and must not be subtracted.
 *
 * Thread-safe.
 */
#ifndef PLIMSOLL_MEMORY_STATS_H
#define PLIMSOLL_MEMORY_STATS_H

#include <stdbool.h>

#include "plimsoll/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One row a quantity: name, PyTorch's key. Counts first, then bytes. */
#define PLM_MEMORY_STAT_MAP(ROW)                                                                   \
    ROW(ALLOCATION, "allocation")                                                                  \
    ROW(SEGMENT, "segment")                                                                        \
    ROW(ACTIVE, "active")                                                                          \
    ROW(INACTIVE_SPLIT, "inactive_split")                                                          \
    ROW(OVERSIZE_ALLOCATIONS, "oversize_allocations")                                              \
    ROW(OVERSIZE_SEGMENTS, "oversize_segments")                                                    \
    ROW(ALLOCATED_BYTES, "allocated_bytes")                                                        \
    ROW(RESERVED_BYTES, "reserved_bytes")                                                          \
    ROW(ACTIVE_BYTES, "active_bytes")                                                              \
    ROW(INACTIVE_SPLIT_BYTES, "inactive_split_bytes")                                              \
    ROW(REQUESTED_BYTES, "requested_bytes")

typedef enum plm_memory_stat_kind {
#define PLM_MEMORY_STAT_ROW(name, text) PLM_MEMORY_STAT_##name,
    PLM_MEMORY_STAT_MAP(PLM_MEMORY_STAT_ROW)
#undef PLM_MEMORY_STAT_ROW
        PLM_MEMORY_STAT_COUNT
} plm_memory_stat_kind;

typedef enum plm_memory_pool {
    PLM_MEMORY_POOL_ALL, /* the only one that the oversize quantities have */
    PLM_MEMORY_POOL_LARGE,
    PLM_MEMORY_POOL_SMALL,
    PLM_MEMORY_POOL_COUNT
} plm_memory_pool;

typedef struct plm_memory_stat {
    int64_t current;
    int64_t peak;      /* since the process began, or the peak was reset */
    int64_t allocated; /* all that ever came */
    int64_t freed;     /* all that ever went */
} plm_memory_stat;

typedef struct plm_memory_stats {
    plm_memory_stat stats[PLM_MEMORY_STAT_COUNT][PLM_MEMORY_POOL_COUNT];
    bool recorded[PLM_MEMORY_STAT_COUNT]; /* older versions lack some */
    int64_t alloc_retries;                /* caches emptied to make room */
    int64_t ooms;
    int64_t sync_all_streams;
    int64_t device_allocs; /* calls of the driver */
    int64_t device_frees;
    size_t max_split_bytes; /* a setting, not a measurement; SIZE_MAX: unlimited */
} plm_memory_stats;

/* PyTorch's key of a quantity; static. */
const char *plm_memory_stat_text(plm_memory_stat_kind kind);

/*
 * Reads the dictionary that torch.cuda.memory_stats() or memory_stats_as_nested_dict() gives,
 * written as JSON. PLM_ERROR_IO; PLM_ERROR_FORMAT when it is no JSON, a figure is no whole number,
 * or none of the keys is there; PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_memory_stats_read(const char *path, plm_memory_stats *stats);

/* What was measured when a snapshot was taken; a figure that was not recorded is 0. */
typedef struct plm_memory_record {
    size_t allocated_bytes;
    size_t allocated_peak_bytes;
    size_t reserved_bytes;
    size_t reserved_peak_bytes;
    size_t driver_used_bytes; /* of the device, by all processes */
    size_t total_bytes;       /* the capacity of the device */
} plm_memory_record;

/*
 * Reads what the record beside a snapshot says of one device: {"devices": [{"device",
 * "total_bytes", "driver_free_bytes", "driver_total_bytes", "memory_stats"}]}, as the recorder
 * writes it, or
 * {"allocated": bytes, "allocated_peak", "reserved", "reserved_peak", "driver_used", "total"};
 * other keys are passed over. A device that the record lacks leaves zeros. Fails like
 * plm_memory_stats_read.
 */
PLM_MUST_USE plm_status plm_memory_record_read(const char *path, int32_t device,
                                               plm_memory_record *record);

#ifdef __cplusplus
}
#endif
#endif
