/* SPDX-License-Identifier: MIT */
/*
 * Exports: a trace written to a file, for people and for other programs.
 *
 * Three forms: one self-contained HTML page (no network, opened from a file), Chrome's JSON trace
 * that Perfetto opens, and the pickle that PyTorch's own viewer opens. Each holds any number of
 * sources: the devices of a snapshot, the ranks of a job, a plan and its run side by side.
 *
 *     plm_export_source source = {.trace = trace, .name = "plan of gpt2"};
 *     PLM_TRY(plm_export_page("report.html", "gpt2 under 12 GiB", &source, 1));
 *
 * A file is written whole or not at all. Sources are borrowed and only read.
 *
 * Thread-safe as long as no two threads write one file.
 */
#ifndef PLIMSOLL_EXPORT_H
#define PLIMSOLL_EXPORT_H

#include <stdbool.h>

#include "plimsoll/snapshot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Memory taken from the driver, as it stood after the last event of a trace. */
typedef struct plm_export_segment {
    uint64_t address;
    size_t bytes; /* of an expandable one: what is mapped */
    uint16_t queue;
    uint16_t pool;
    bool large;
    bool expandable;
} plm_export_segment;

/* An operation that ran. */
typedef struct plm_export_slice {
    uint32_t name; /* interned string of the trace */
    int64_t begin; /* in the trace's time */
    int64_t end;
} plm_export_slice;

typedef struct plm_export_source {
    const plm_trace *trace;
    const char *name; /* "plan", "GPU 0", "rank 1"; NULL: none */
    /* The segments at the end: with them, segments older than the trace are worked out backwards.
     * Without (0), they are built up from the trace's own events; a trace without any, a plan for
     * example, is one arena. */
    const plm_export_segment *segments;
    int64_t segment_count;
    int64_t carried_in; /* events at the front that stand for blocks older than the recording */
    int32_t device;
    bool timed; /* times are nanoseconds; else ordinals: a plan's operations */
    /* Operations with times of their own, one after the other, for the Perfetto form. Without (0),
     * they are told by the blocks that they make. */
    const plm_export_slice *slices;
    int64_t slice_count;
    const char *settings;                /* allocator settings as text, NULL when not known */
    const plm_snapshot_device *recorded; /* where the trace comes from: knows streams, pools and the
                                            final blocks to the byte; NULL: none */
} plm_export_source;

/*
 * Writes the page. A million events of a training run make a file of 10 to 12 MB; beyond
 * PLM_EXPORT_BLOCKS_MAX blocks the smallest are told in sums only, and the page says so, so that a
 * file hardly grows further. Two passes over each trace. PLM_ERROR_IO, PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_export_page(const char *path, const char *title,
                                        const plm_export_source *sources, int64_t count);

/* Blocks of a source that the page tells one by one. */
enum { PLM_EXPORT_BLOCKS_MAX = 600000 };

/* Whether a file can come to be at `path`, for whoever works long before it is written. It writes
 * none, and leaves one that is there as it is. PLM_ERROR_IO. */
PLM_MUST_USE plm_status plm_export_check(const char *path);

/*
 * Writes Chrome's JSON trace: counters of allocated and reserved memory, a slice for each operation
 * or mark, an instant for each failed request. Streamed: memory does not grow with the trace.
 * PLM_ERROR_IO, PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_export_perfetto(const char *path, const plm_export_source *sources,
                                            int64_t count);

/*
 * Writes a snapshot in PyTorch's form: a pickle of plain data with the keys segments,
 * device_traces, allocator_settings and external_annotations. Owners without a call stack get one
 * frame that names them. PLM_ERROR_IO, PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_export_snapshot(const char *path, const plm_export_source *sources,
                                            int64_t count);

/*
 * *line = what was written to `path`, as one JSON object on one line: its size, and each source
 * with its events and its peak. Owned by the caller, freed with plm_free. PLM_ERROR_IO when
 * there is no such file, PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_export_json(const char *path, const char *form,
                                        const plm_export_source *sources, int64_t count,
                                        char **line);

/*
 * *sources = the devices of a snapshot, *count of them, borrowed from it; owned by the caller,
 * freed with plm_free. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_export_sources_of(const plm_snapshot *snapshot,
                                              plm_export_source **sources, int64_t *count);

#ifdef __cplusplus
}
#endif
#endif
