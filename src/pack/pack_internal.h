/* SPDX-License-Identifier: MIT */
/*
 * What the parts of packing share.
 *
 * A *span* is an item made ready: bytes in granules, and time in steps. A step is one largest set
 * of items that live at once: time advances only where a death is followed by a birth, so two spans
 * meet exactly when their steps do, and the sum over a step's spans is a sum over live items.
 *
 * The sum of all granules fits in 63 bits (pack.c sees to it), so no placement
 * overflows.
 */
#ifndef PLM_PACK_INTERNAL_H
#define PLM_PACK_INTERNAL_H

#include "pack/pack.h"

typedef struct plm__pack_span {
    uint64_t granules; /* > 0 */
    uint64_t offset;   /* granules; the answer */
    int32_t first;     /* first step */
    int32_t last;      /* last step, included */
    int32_t item;      /* index in the caller's items */
} plm__pack_span;

static inline int32_t plm__pack_steps(const plm__pack_span *span)
{
    return span->last - span->first + 1;
}

typedef struct plm__pack_problem {
    plm__pack_span *spans; /* by first step, then as the caller gave them */
    int32_t count;
    int32_t step_count;
    uint64_t bound;  /* granules */
    int32_t instant; /* the first that reaches the bound */
} plm__pack_problem;

/* A thing to sort: ascending keys, equal ones keep their order. */
typedef struct plm__pack_key {
    uint64_t key;
    int64_t index;
} plm__pack_key;

/* `scratch` is as long as `keys`. */
void plm__pack_sort(plm__pack_key *keys, plm__pack_key *scratch, int64_t count);

/* Heights over the steps: skyline.c. */
typedef struct plm__skyline_node plm__skyline_node;
typedef struct plm__skyline {
    plm__skyline_node *nodes; /* 1 is the root, 2 i and 2 i + 1 are the halves of i */
    int32_t width;            /* steps covered, a power of two */
} plm__skyline;

PLM_MUST_USE plm_status plm__skyline_init(plm__skyline *skyline, int32_t step_count);
void plm__skyline_fini(plm__skyline *skyline);

/* The lowest and the highest height over first..last. */
void plm__skyline_range(const plm__skyline *skyline, int32_t first, int32_t last, uint64_t *lowest,
                        uint64_t *highest);

/* Makes the height over first..last `height`, which is at least the highest that was there. */
void plm__skyline_raise(plm__skyline *skyline, int32_t first, int32_t last, uint64_t height);

/*
 * The rest: spans that do not belong to the base, and the order in which they take their places.
 * See rest.c. Arrays by span are as long as the problem has spans.
 */
typedef struct plm__rest {
    plm__pack_problem *problem;
    int32_t *spans; /* the `count` spans of the rest, by first step */
    int32_t count;
    uint64_t *floors;      /* by span: the height of the base below it */
    int32_t *order;        /* the spans of the rest as they take their places */
    int32_t *fresh;        /* a part of the order while it is made anew */
    int32_t *ranks;        /* by span: where it stands in the order */
    bool *stale;           /* by span: its place is to be taken again */
    int64_t *meetings_at;  /* by span, and one more: where its part of `meetings` begins */
    int32_t *meetings;     /* spans of the rest that meet a span of the rest */
    int64_t meeting_count; /* each pair counts twice */
    int32_t settled;       /* ranks below this keep their places */
    int32_t *failures;     /* the spans that ended above the bound, by rank */
    int32_t failure_count;
    uint64_t top; /* the highest end among those placed last; of all if above the bound */
    int64_t work; /* meetings and spans looked at so far */
    struct plm__rest_box *boxes;
    int32_t *arrivals;   /* by rank: the first span that moves there, or none */
    int32_t *following;  /* by span: the next that moves to the same rank */
    plm__pack_key *keys; /* twice as many as spans, to sort by */
} plm__rest;

typedef enum plm__rest_order {
    PLM__LARGEST_FIRST,       /* by bytes */
    PLM__LARGE_AND_LONG_FIRST /* by bytes squared times steps */
} plm__rest_order;

/* On failure too the rest is to be ended. */
PLM_MUST_USE plm_status plm__rest_init(plm__rest *rest, plm__pack_problem *problem);
void plm__rest_fini(plm__rest *rest);

/* Finds who meets whom, once `spans` and `floors` are set; *listed = false when they are too many.
 */
PLM_MUST_USE plm_status plm__rest_meet(plm__rest *rest, bool *listed);

void plm__rest_sort(plm__rest *rest, plm__rest_order order);

/*
 * Every span of the rest takes the lowest gap that those before it in the order leave. Without a
 * failure the bound is reached.
 */
void plm__rest_place(plm__rest *rest);

/*
 * Moves the failures, of which there are some, forward in the order. `round` counts the calls since
 * the order was made.
 */
void plm__rest_promote(plm__rest *rest, int round);

/* Places every span; *top = the highest end. */
PLM_MUST_USE plm_status plm__pack_fit(plm__pack_problem *problem, uint64_t *top);

#endif
