/* SPDX-License-Identifier: MIT */
/* What the four questions of the checklist share: facts of the trace, worked out once. */
#ifndef PLM_DIAGNOSE_CHECKLIST_INTERNAL_H
#define PLM_DIAGNOSE_CHECKLIST_INTERNAL_H

#include "base/intern.h"
#include "diagnose/checklist.h"
#include "diagnose/origins.h"

/* What a block is for, as far as stacks, sizes and instants tell. */
typedef enum plm_block_role {
    PLM_BLOCK_OTHER,
    PLM_BLOCK_PARAMETER,
    PLM_BLOCK_STATE,    /* of the optimizer */
    PLM_BLOCK_GRADIENT, /* lives at the end of a step of the optimizer */
    PLM_BLOCK_COPY      /* half of a parameter's size, made by the program in the peak's step */
} plm_block_role;

typedef struct plm_facts {
    const plm_findings *findings;
    const plm_event *events;
    int64_t event_count;
    plm_origin *origins; /* by owner */
    int64_t *births;     /* by block: its alloc event + 1, 0 without one */
    int64_t *deaths;     /* by block: its free event, event_count while it lives */
    size_t peak_bytes;
    /* Events, -1 when the recording does not show them: */
    int64_t first_work;             /* the first after which an optimizer was called at all */
    int64_t first_begin, first_end; /* around the first step of the optimizer */
    int64_t last_begin, last_end;   /* around the last one that ended */
    int64_t cycle;                  /* behind the last step that ended before the peak */
    int64_t failure;                /* the first failed request from the peak on */
    int64_t backward;               /* where backward begins in the cycle that holds the peak */
    bool is_late;                   /* an optimizer was called before the history begins */
    bool trains;                    /* an optimizer or a backward was seen */
    PLM_ARRAY(int64_t) ends;        /* of the optimizer's steps, rising */
    PLM_ARRAY(int64_t) backwards;   /* where backward begins, or goes on; rising */
    uint8_t *roles;                 /* by block: plm_block_role */
    int64_t parameter_sizes;        /* how many sizes parameters have */
    int64_t copied_sizes;           /* of them, those of which a copy was seen */
    size_t whole_bytes;             /* parameters that were made, asked */
    size_t copied_bytes;            /* of them, those of which a copy was seen */
} plm_facts;

/* The origin of a block by its alloc event. */
plm_origin plm__origin_of(const plm_facts *facts, int64_t birth);

/* The block lives right after event `at`. */
static inline bool plm__lives_at(const plm_facts *facts, int64_t block, int64_t at)
{
    return facts->births[block] > 0 && facts->births[block] - 1 <= at && facts->deaths[block] > at;
}

/* The block's request was recorded, not carried in from before. */
static inline bool plm__is_recorded(const plm_facts *facts, int64_t birth)
{
    return birth >= facts->findings->device->carried_in &&
           facts->events[birth].kind == PLM_EVENT_BLOCK_ALLOC;
}

/* How many blocks have a size. */
typedef struct plm_sizes {
    plm_intern keys; /* bytes of a size_t; number n is counts.items[n - 1] */
    PLM_ARRAY(int64_t) counts;
} plm_sizes;

PLM_MUST_USE plm_status plm__sizes_init(plm_sizes *sizes);
void plm__sizes_fini(plm_sizes *sizes);

/* *count = where this size is counted, 0 at first; valid until the next call. */
PLM_MUST_USE plm_status plm__sizes_find(plm_sizes *sizes, size_t bytes, int64_t **count);

/* Fills roles and what stands behind it. */
PLM_MUST_USE plm_status plm__find_roles(plm_facts *facts);

/* The first end of a step of the optimizer behind `birth`, event_count when there is none; and the
 * first event of a backward: of the one that a block of a forward is kept for. */
int64_t plm__end_behind(const plm_facts *facts, int64_t birth);
int64_t plm__backward_behind(const plm_facts *facts, int64_t birth);

/*
 * *peak = the trace's peak when each block counts only up to event from[block]; event_count: all
 * its life, 0: never. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm__peak_until(const plm_facts *facts, const int64_t *from, size_t *peak);

/* So much more is reserved than needed that another setting is worth a try. */
bool plm__is_waste(size_t reserved_bytes, size_t needed_bytes);

PLM_MUST_USE plm_status plm__answer_state(const plm_facts *facts, plm_checklist_item *check);
PLM_MUST_USE plm_status plm__answer_activations(const plm_facts *facts, plm_checklist_item *check);
PLM_MUST_USE plm_status plm__answer_lifetimes(const plm_facts *facts, plm_checklist_item *check);
PLM_MUST_USE plm_status plm__answer_allocator(const plm_facts *facts, plm_checklist_item *check);

#endif
