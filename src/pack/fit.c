/* SPDX-License-Identifier: MIT */
/*
 * Finding places for spans: a base, and the rest above it.
 *
 * The lifetimes of a training step are a tall stack of kept activations, nearly all nested, with
 * short temporaries running along its outside. Long spans make the *base*: longest first, each is
 * laid on the skyline of those before it where that is flat, so that no byte is lost below it;
 * nested spans always find it flat. The *rest* is fitted in above (rest.c).
 *
 * Several ways to part the two and to order the rest are tried until one reaches the bound; else
 * the lowest packing met is the answer. What is tried is limited by counts, never by a clock, so
 * the answer depends on the items alone.
 *
 * Example, steps 0 to 9: A lives in 0-9 and takes 4 granules, B in 1-8 takes 3, C in 2-7 takes 2, D
 * in 0-1 takes 2. The bound is 9, for A, B and C live at once.
 *   base   spans of 8 steps or more: A at 0; B on it at 4, for the skyline is flat from 1 to 8
 *   rest   C at 7 and D at 7: the base is 7 high below both, and the two do not meet
 */
#include "pack/pack_internal.h"

/* Meetings and ranks looked at over all ways, but for one last round: some ten milliseconds. */
enum { WORK_MAX = 1 << 21 };

enum { NO_BASE = INT32_MAX };

/* How often each way may place the rest: a short look at every way, then a long one. */
static const int rounds_max[] = {64, 512};

/* A way to pack: the spans of at least `base_steps` steps may belong to the base. */
typedef struct fit_way {
    int32_t base_steps;
    plm__rest_order order;
} fit_way;

/* The first reaches the bound for nearly all plans; the smaller the base, the wider the search. */
static const fit_way ways[] = {
    {8, PLM__LARGEST_FIRST},       {8, PLM__LARGE_AND_LONG_FIRST},
    {16, PLM__LARGEST_FIRST},      {16, PLM__LARGE_AND_LONG_FIRST},
    {32, PLM__LARGEST_FIRST},      {32, PLM__LARGE_AND_LONG_FIRST},
    {NO_BASE, PLM__LARGEST_FIRST}, {NO_BASE, PLM__LARGE_AND_LONG_FIRST},
};

typedef struct fit_state {
    plm__pack_problem *problem;
    int32_t *by_length; /* every span, longest first */
    uint64_t *best;     /* by span: its offset in the lowest packing met */
    uint64_t best_top;
    plm__rest rest;
} fit_state;

/* Longest first; of one length the largest first. */
static void sort_by_length(fit_state *fit)
{
    const plm__pack_span *spans = fit->problem->spans;
    int32_t count = fit->problem->count;
    plm__pack_key *keys = fit->rest.keys;
    for (int32_t s = 0; s < count; s++)
        keys[s] = (plm__pack_key){UINT64_MAX - spans[s].granules, s};
    plm__pack_sort(keys, keys + count, count);
    for (int32_t i = 0; i < count; i++)
        keys[i].key = (uint64_t)(INT32_MAX - plm__pack_steps(&spans[keys[i].index]));
    plm__pack_sort(keys, keys + count, count);
    for (int32_t i = 0; i < count; i++)
        fit->by_length[i] = (int32_t)keys[i].index;
}

/* On failure too the caller ends it. */
static plm_status fit_init(fit_state *fit, plm__pack_problem *problem)
{
    size_t count = (size_t)problem->count;
    *fit = (fit_state){.problem = problem, .best_top = UINT64_MAX};
    PLM_TRY(plm__rest_init(&fit->rest, problem));
    PLM_TRY(plm__host_alloc(count * sizeof *fit->by_length, &fit->by_length));
    PLM_TRY(plm__host_alloc(count * sizeof *fit->best, &fit->best));
    sort_by_length(fit);
    return PLM_OK;
}

static void fit_fini(fit_state *fit)
{
    plm__host_free(fit->best);
    plm__host_free(fit->by_length);
    plm__rest_fini(&fit->rest);
}

/* Remembers the packing that the spans now have if it is the lowest met. */
static void keep_best(fit_state *fit, uint64_t top)
{
    if (top >= fit->best_top)
        return;
    fit->best_top = top;
    for (int32_t s = 0; s < fit->problem->count; s++)
        fit->best[s] = fit->problem->spans[s].offset;
}

/* Lays the base; what is left becomes the rest, with the heights below it. */
static plm_status lay_base(fit_state *fit, int32_t base_steps)
{
    plm__pack_problem *problem = fit->problem;
    plm__rest *rest = &fit->rest;
    plm__skyline skyline;
    uint64_t lowest, highest;
    PLM_TRY(plm__skyline_init(&skyline, problem->step_count));
    for (int32_t s = 0; s < problem->count; s++)
        rest->stale[s] = true;
    for (int32_t i = 0; i < problem->count; i++) {
        plm__pack_span *span = &problem->spans[fit->by_length[i]];
        if (plm__pack_steps(span) < base_steps)
            break;
        plm__skyline_range(&skyline, span->first, span->last, &lowest, &highest);
        if (lowest != highest)
            continue;
        span->offset = lowest;
        plm__skyline_raise(&skyline, span->first, span->last, lowest + span->granules);
        rest->stale[fit->by_length[i]] = false;
    }
    rest->count = 0;
    for (int32_t s = 0; s < problem->count; s++) {
        if (!rest->stale[s])
            continue;
        const plm__pack_span *span = &problem->spans[s];
        plm__skyline_range(&skyline, span->first, span->last, &lowest, &rest->floors[s]);
        rest->spans[rest->count++] = s;
    }
    plm__skyline_fini(&skyline);
    return PLM_OK;
}

/* For when too many spans meet to list them: all of them on a skyline, waste and all. */
static plm_status lay_all(fit_state *fit)
{
    plm__pack_problem *problem = fit->problem;
    plm__skyline skyline;
    uint64_t lowest, highest, top = 0;
    PLM_TRY(plm__skyline_init(&skyline, problem->step_count));
    for (int32_t i = 0; i < problem->count; i++) {
        plm__pack_span *span = &problem->spans[fit->by_length[i]];
        plm__skyline_range(&skyline, span->first, span->last, &lowest, &highest);
        plm__skyline_raise(&skyline, span->first, span->last, highest + span->granules);
        span->offset = highest;
        if (highest + span->granules > top)
            top = highest + span->granules;
    }
    plm__skyline_fini(&skyline);
    keep_best(fit, top);
    return PLM_OK;
}

/* *done = whether trying another way would be in vain. */
static plm_status try_way(fit_state *fit, const fit_way *way, int rounds, bool *done)
{
    bool listed;
    PLM_TRY(lay_base(fit, way->base_steps));
    PLM_TRY(plm__rest_meet(&fit->rest, &listed));
    if (!listed) {
        *done = true; /* a smaller base leaves more to list */
        return fit->best_top == UINT64_MAX ? lay_all(fit) : PLM_OK;
    }
    plm__rest_sort(&fit->rest, way->order);
    for (int round = 0; round < rounds && !*done; round++) {
        plm__rest_place(&fit->rest);
        bool reached = fit->rest.failure_count == 0;
        keep_best(fit, reached ? fit->problem->bound : fit->rest.top);
        *done = reached || fit->rest.work > WORK_MAX;
        if (!*done)
            plm__rest_promote(&fit->rest, round);
    }
    return PLM_OK;
}

plm_status plm__pack_fit(plm__pack_problem *problem, uint64_t *top)
{
    fit_state fit;
    bool done = false;
    plm_status status;
    PLM_TRY_DONE(fit_init(&fit, problem));
    for (size_t look = 0; look < sizeof rounds_max / sizeof *rounds_max; look++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways && !done; w++)
            PLM_TRY_DONE(try_way(&fit, &ways[w], rounds_max[look], &done));
    for (int32_t s = 0; s < problem->count; s++)
        problem->spans[s].offset = fit.best[s];
    *top = fit.best_top;
done:
    fit_fini(&fit);
    return status;
}
