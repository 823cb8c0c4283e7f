/* SPDX-License-Identifier: MIT */
/*
 * A trace made small enough to be looked at: sums over time in at most PLM_TIMELINE_BINS_MAX bins,
 * the largest blocks one by one, and what each site held.
 *
 * Two passes over the events. A bin is a run of events, the same number for each; it keeps the
 * instant in it at which most was live, and what every group of every grouping held at that very
 * instant, so a stack always adds up to something that was. The least sum of the bin stands beside
 * it. The peak of the trace is the largest of these instants.
 *
 * Host memory: 4 bytes a block of the trace twice, 56 bytes a block that is kept (at most
 * PLM_EXPORT_BLOCKS_MAX), 200 bytes a site, 600 bytes a bin at the most.
 */
#ifndef PLM_REPORT_TIMELINE_H
#define PLM_REPORT_TIMELINE_H

#include "plimsoll/export.h"
#include "report/extents.h"
#include "report/groups.h"

enum {
    PLM_TIMELINE_BINS_MAX = 16384,
    PLM_TIMELINE_BIN_EVENTS_MIN = 32,      /* of a bin, for traces of some length */
    PLM_TIMELINE_SHORT_TRACE_EVENTS = 512, /* shorter ones have one event a bin */
    PLM_TIMELINE_SIZE_CLASSES = 64 * 8     /* of block sizes: an eighth of a power of two each */
};

typedef struct plm_timeline_bin {
    int64_t event;   /* the instant at which most was live: right after this event */
    size_t bytes;    /* live then */
    size_t least;    /* the smallest sum after any event of the bin */
    size_t reserved; /* the largest of the bin */
} plm_timeline_bin;

typedef struct plm_timeline_block {
    int64_t birth;  /* index of its alloc event */
    int64_t death;  /* of its free event, -1: lives at the end */
    int64_t let_go; /* of the event by which its owner let go of it, -1: none */
    uint64_t address;
    size_t asked;
    size_t taken;
    uint32_t site;
} plm_timeline_block;

typedef struct plm_timeline {
    const plm_trace *trace;
    const plm_event *events;
    int64_t event_count;
    bool recorded; /* owners have call stacks */
    bool has_roles;
    plm_holders sites;
    plm_grouping groupings[PLM_GROUPING_COUNT];
    plm_extents extents;
    int64_t bin_events; /* a power of two */
    PLM_ARRAY(plm_timeline_bin) bins;
    size_t *group_bytes[PLM_GROUPING_COUNT]; /* [bin][PLM_GROUPS_MAX] */
    PLM_ARRAY(plm_timeline_block) blocks;    /* by birth */
    int64_t block_count;                     /* of the whole trace */
    size_t smallest_kept_bytes;              /* blocks below it are told in sums only; 0: none */
    plm_trace_peak peak;                     /* as plm_trace_find_peak tells it */
    int64_t peak_blocks;                     /* that live then */
    size_t reserved_at_peak;
    size_t reserved_peak;
    size_t end_bytes;
    int64_t end_blocks;
    int64_t oom_count;
    int64_t mark_count;
    /* while it is built */
    uint32_t *site_of_block; /* + 1 while the block lives */
    uint32_t *kept_of_block; /* place in blocks + 1, 0: not kept */
    int64_t block_ids;
    int64_t *size_classes;
} plm_timeline;

/* Fills zeroed *timeline; plm__timeline_fini is needed after a failure too. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm__timeline_init(const plm_export_source *source, plm_timeline *timeline);

void plm__timeline_fini(plm_timeline *timeline);

/* Of a bin: what this group held at its instant. */
static inline size_t plm__timeline_group_bytes(const plm_timeline *timeline, int grouping,
                                               int64_t bin, int group)
{
    return timeline->group_bytes[grouping][bin * PLM_GROUPS_MAX + group];
}

/* The grouping that says most: call sites of a recording, roles of a trace of ours. */
static inline int plm__timeline_first_grouping(const plm_timeline *timeline)
{
    return timeline->recorded ? PLM_GROUPING_OP : PLM_GROUPING_ROLE;
}

#endif
