/* SPDX-License-Identifier: MIT */
/*
 * Groupings: ways to part live memory into a few named groups, for a stacked picture. A grouping
 * gives each site a key (its role, its layer, its call site, ...); the keys that ever hold most
 * become groups, all others one group together, the last.
 *
 * Groups are stacked from the steadiest up: what moves lies on what does not, and the picture stays
 * readable.
 */
#ifndef PLM_REPORT_GROUPS_H
#define PLM_REPORT_GROUPS_H

#include "report/holders.h"

enum {
    PLM_GROUPS_MAX = 12, /* groups of a grouping, the one for all others included */
    PLM_GROUP_LABEL_MAX = 400
};

/* One row a grouping: name, title for a trace of ours, title for a recording with call stacks. */
#define PLM_GROUPING_MAP(ROW)                                                                      \
    ROW(ROLE, "role", "role")                                                                      \
    ROW(LAYER, "layer", "layer")                                                                   \
    ROW(OP, "operation", "call site")                                                              \
    ROW(NAME, "tensor", "annotation")                                                              \
    ROW(QUEUE, "queue", "stream")                                                                  \
    ROW(POOL, "pool", "pool")

typedef enum plm_grouping_kind {
#define PLM_GROUPING_ROW(name, ours, recorded) PLM_GROUPING_##name,
    PLM_GROUPING_MAP(PLM_GROUPING_ROW)
#undef PLM_GROUPING_ROW
        PLM_GROUPING_COUNT
} plm_grouping_kind;

const char *plm__grouping_title(plm_grouping_kind kind, bool recorded);

typedef struct plm_group_key {
    size_t live_bytes;
    size_t largest_bytes;
    double area;     /* sum of live_bytes over events */
    int64_t changed; /* event at which live_bytes last changed */
    uint8_t group;   /* once chosen */
} plm_group_key;

typedef struct plm_grouping {
    plm_intern labels;             /* a key is the number of its label */
    PLM_ARRAY(plm_group_key) keys; /* by that number */
    PLM_ARRAY(uint32_t) key_of_site;
    uint32_t key_of_group[PLM_GROUPS_MAX]; /* from the bottom up; not of the others */
    int group_count;                       /* the others included, when there are any */
    bool has_others;
    int used_keys; /* keys that ever held a byte */
} plm_grouping;

PLM_MUST_USE plm_status plm__grouping_init(plm_grouping *grouping);

void plm__grouping_fini(plm_grouping *grouping);

/* Gives a new site, the next one, its key. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__grouping_add_site(plm_grouping *grouping, plm_grouping_kind kind,
                                               const plm_trace *trace, const plm_holder_key *site);

/* Tells that the site's live bytes change by `bytes` (wrapping for a loss) at this event. */
void plm__grouping_change(plm_grouping *grouping, uint32_t site, size_t bytes, int64_t event);

/* Chooses the groups, after the last event of `event_count`. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__grouping_choose(plm_grouping *grouping, int64_t event_count);

static inline uint8_t plm__grouping_of_site(const plm_grouping *grouping, uint32_t site)
{
    return grouping->keys.items[grouping->key_of_site.items[site]].group;
}

/* The label of a group; borrowed. */
const char *plm__grouping_label(const plm_grouping *grouping, int group);

#endif
