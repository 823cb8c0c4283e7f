/* SPDX-License-Identifier: MIT */
/*
 * Memory taken from the driver over time: every mapped range of addresses with its birth and death,
 * and the sum after each change.
 *
 * The final segments, where a source has them, are followed backwards through the trace, so that
 * ranges older than it are found; otherwise the trace's events are followed forwards from nothing.
 * An expandable segment is mapped and unmapped in parts that need not be the same: ranges are cut
 * where an event cuts them.
 */
#ifndef PLM_REPORT_EXTENTS_H
#define PLM_REPORT_EXTENTS_H

#include "base/array.h"
#include "plimsoll/export.h"

typedef struct plm_extent {
    uint64_t address;
    size_t bytes;
    int64_t birth; /* index of an event, -1: older than the trace */
    int64_t death; /* index of an event, -1: at the end of the trace it is still there */
    uint16_t queue;
    uint16_t pool;
    bool expandable;
} plm_extent;

typedef struct plm_reserved_step {
    int64_t event; /* the sum holds right after it; -1 for the first step */
    size_t bytes;
} plm_reserved_step;

typedef struct plm_extents {
    PLM_ARRAY(plm_extent) items;        /* every range, in no order */
    PLM_ARRAY(plm_reserved_step) steps; /* at least the first, by rising event */
    PLM_ARRAY(plm_extent) live; /* while they are built: the ranges of the moment, by address */
} plm_extents;

/* Fills zeroed *extents; plm__extents_fini is needed after a failure too. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__extents_init(const plm_export_source *source, plm_extents *extents);

void plm__extents_fini(plm_extents *extents);

#endif
