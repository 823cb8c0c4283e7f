/* SPDX-License-Identifier: MIT */
/*
 * Sites: who allocates, told once each. Owners of a trace may be equal, and a block's queue and
 * pool stand in its event; a site is one owner on one queue and pool, with what it holds over time.
 * Blocks of which nothing is known but their size are parted by that.
 */
#ifndef PLM_REPORT_HOLDERS_H
#define PLM_REPORT_HOLDERS_H

#include "base/intern.h"
#include "plimsoll/trace.h"

/* What makes a site: compared byte by byte, so never with stray padding. */
typedef struct plm_holder_key {
    plm_owner owner; /* role -1 and all else empty for blocks without one */
    uint16_t queue;
    uint16_t pool;
    uint32_t size_class; /* of the block, for owners of which nothing is known; else 0 */
} plm_holder_key;

/* One row a size class from 1 on: bytes from which it begins, text. */
#define PLM_HOLDER_SIZE_MAP(ROW)                                                                   \
    ROW(0, "under 1 MiB")                                                                          \
    ROW((size_t)1 << 20, "1 to 10 MiB")                                                            \
    ROW((size_t)10 << 20, "10 to 100 MiB")                                                         \
    ROW((size_t)100 << 20, "100 MiB to 1 GiB")                                                     \
    ROW((size_t)1 << 30, "1 GiB and more")

enum {
    PLM_HOLDER_SIZE_CLASSES = 0
#define PLM_HOLDER_SIZE_ROW(from, text) +1
    PLM_HOLDER_SIZE_MAP(PLM_HOLDER_SIZE_ROW)
#undef PLM_HOLDER_SIZE_ROW
};

/* "unknown owner, 1 to 10 MiB"; "unknown owner" for class 0. Static. */
const char *plm__holder_unknown_text(uint32_t size_class);

/* Bytes are bytes taken. */
typedef struct plm_holder {
    plm_holder_key key;
    size_t live_bytes;
    size_t largest_bytes; /* its own maximum of live_bytes */
    size_t total_bytes;   /* of all its blocks together */
    size_t peak_bytes;    /* live at the peak of the trace */
    int64_t live_count;
    int64_t total_count;
    int64_t peak_count;
} plm_holder;

typedef struct plm_holders {
    PLM_ARRAY(plm_holder) items; /* in order of first sight */
    plm_intern keys;             /* bytes of plm_holder_key; number 0 is unused */
    uint32_t *site_of_owner;     /* by owner + 1: the site that was found last, + 1 */
} plm_holders;

/* Begins an empty table for the owners of this trace; fini is needed after a failure too. */
PLM_MUST_USE plm_status plm__holders_init(plm_holders *sites, const plm_trace *trace);

void plm__holders_fini(plm_holders *sites);

/* *site = the number of the site of an alloc event; a new one is the last. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm__holders_find(plm_holders *sites, const plm_trace *trace,
                                          const plm_event *event, uint32_t *site);

#endif
