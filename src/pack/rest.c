/* SPDX-License-Identifier: MIT */
/*
 * The rest: first fit in an order that learns from its failures.
 *
 * Each span takes the lowest gap, above the base, that the spans before it in the order leave among
 * those that it meets. One that ends above the bound came too late, so it moves forward: in the
 * first rounds to before the earliest span that it meets, which is what most plans need; later to
 * before any one of them, chosen by a counter-based generator with a fixed seed, which gets out of
 * the circles that the first rule can run in and is as reproducible.
 *
 * A round costs what changes: only spans whose earlier company changed take their places again, and
 * only the part of the order in between is made anew.
 *
 * Example with a bound of 5 and no base: a lives in step 0 and takes 3, b in 0-1 takes 2, c in 1-2
 * takes 2, d in 2 takes 3.
 *   a d b c   largest first: a and d at 0, b at 3 beside a; c meets d and b, lies at 5, ends at 7
 *   a c d b   c moved before d, the first in the order that it meets: c at 0, d at 2, b at 3
 */
#include <string.h>

#include "base/philox.h"
#include "pack/pack_internal.h"

enum {
    MEETINGS_MAX = 1 << 22, /* 16 MiB of them */
    STEADY_ROUNDS = 8       /* before chance comes in */
};

enum { NONE = -1, STAYS = -2 }; /* beside the spans in `arrivals` and `following` */

/* Bytes taken by a span, in granules. */
typedef struct plm__rest_box {
    uint64_t begin, end;
} plm__rest_box;

plm_status plm__rest_init(plm__rest *rest, plm__pack_problem *problem)
{
    size_t count = (size_t)problem->count;
    *rest = (plm__rest){.problem = problem};
    PLM_TRY(plm__host_alloc(count * sizeof *rest->spans, &rest->spans));
    PLM_TRY(plm__host_alloc(count * sizeof *rest->floors, &rest->floors));
    PLM_TRY(plm__host_alloc(count * sizeof *rest->order, &rest->order));
    PLM_TRY(plm__host_alloc(count * sizeof *rest->fresh, &rest->fresh));
    PLM_TRY(plm__host_alloc(count * sizeof *rest->ranks, &rest->ranks));
    PLM_TRY(plm__host_alloc(count * sizeof *rest->stale, &rest->stale));
    PLM_TRY(plm__host_alloc((count + 1) * sizeof *rest->meetings_at, &rest->meetings_at));
    PLM_TRY(plm__host_alloc(count * sizeof *rest->boxes, &rest->boxes));
    PLM_TRY(plm__host_alloc(count * sizeof *rest->arrivals, &rest->arrivals));
    PLM_TRY(plm__host_alloc(count * sizeof *rest->failures, &rest->failures));
    PLM_TRY(plm__host_alloc(count * sizeof *rest->following, &rest->following));
    return plm__host_alloc(2 * count * sizeof *rest->keys, &rest->keys);
}

void plm__rest_fini(plm__rest *rest)
{
    plm__host_free(rest->keys);
    plm__host_free(rest->following);
    plm__host_free(rest->failures);
    plm__host_free(rest->arrivals);
    plm__host_free(rest->boxes);
    plm__host_free(rest->meetings);
    plm__host_free(rest->meetings_at);
    plm__host_free(rest->stale);
    plm__host_free(rest->ranks);
    plm__host_free(rest->fresh);
    plm__host_free(rest->order);
    plm__host_free(rest->floors);
    plm__host_free(rest->spans);
    *rest = (plm__rest){0};
}

/* meetings_at[s] becomes the number of spans that s meets; false when they are too many in all. */
static bool count_meetings(plm__rest *rest)
{
    const plm__pack_span *spans = rest->problem->spans;
    memset(rest->meetings_at, 0, ((size_t)rest->problem->count + 1) * sizeof *rest->meetings_at);
    rest->meeting_count = 0;
    for (int32_t i = 0; i < rest->count; i++) {
        int32_t s = rest->spans[i], j = i + 1;
        for (; j < rest->count && spans[rest->spans[j]].first <= spans[s].last; j++)
            rest->meetings_at[rest->spans[j]]++;
        rest->meetings_at[s] += j - i - 1;
        rest->meeting_count += 2 * (int64_t)(j - i - 1);
        if (rest->meeting_count > MEETINGS_MAX)
            return false;
    }
    return true;
}

plm_status plm__rest_meet(plm__rest *rest, bool *listed)
{
    const plm__pack_span *spans = rest->problem->spans;
    *listed = count_meetings(rest);
    if (!*listed)
        return PLM_OK;
    plm__host_free(rest->meetings);
    rest->meetings = NULL;
    PLM_TRY(plm__host_alloc((size_t)rest->meeting_count * sizeof *rest->meetings, &rest->meetings));
    /* counts become ends, and ends, as each part is filled from its end, begins */
    for (int32_t s = 0; s < rest->problem->count; s++)
        rest->meetings_at[s + 1] += rest->meetings_at[s];
    for (int32_t i = 0; i < rest->count; i++) {
        int32_t s = rest->spans[i];
        for (int32_t j = i + 1; j < rest->count; j++) {
            int32_t other = rest->spans[j];
            if (spans[other].first > spans[s].last)
                break;
            rest->meetings[--rest->meetings_at[s]] = other;
            rest->meetings[--rest->meetings_at[other]] = s;
        }
    }
    return PLM_OK;
}

/* The bits of a double that is not negative, as a whole number, grow with it. */
static uint64_t bits_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

void plm__rest_sort(plm__rest *rest, plm__rest_order order)
{
    for (int32_t i = 0; i < rest->count; i++) {
        const plm__pack_span *span = &rest->problem->spans[rest->spans[i]];
        double weight = (double)span->granules;
        if (order == PLM__LARGE_AND_LONG_FIRST)
            weight *= weight * plm__pack_steps(span);
        rest->keys[i] = (plm__pack_key){UINT64_MAX - bits_of(weight), rest->spans[i]};
    }
    plm__pack_sort(rest->keys, rest->keys + rest->problem->count, rest->count);
    for (int32_t i = 0; i < rest->count; i++) {
        int32_t s = (int32_t)rest->keys[i].index;
        rest->order[i] = s;
        rest->ranks[s] = i;
        rest->stale[s] = true;
        rest->arrivals[i] = NONE;
        rest->following[s] = STAYS;
    }
    rest->settled = 0;
}

/* Shell's sort, by the low end: the boxes are few, nearly always under 50. */
static void sort_boxes(plm__rest_box *boxes, int32_t count)
{
    static const int32_t gaps[] = {701, 301, 132, 57, 23, 10, 4, 1}; /* Ciura 2001 */
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (int32_t i = gaps[g]; i < count; i++) {
            plm__rest_box moved = boxes[i];
            int32_t at = i;
            for (; at >= gaps[g] && boxes[at - gaps[g]].begin > moved.begin; at -= gaps[g])
                boxes[at] = boxes[at - gaps[g]];
            boxes[at] = moved;
        }
}

/* The lowest gap that the spans before `s` leave it. */
static uint64_t lowest_gap(plm__rest *rest, int32_t s)
{
    const plm__pack_span *spans = rest->problem->spans;
    plm__rest_box *boxes = rest->boxes;
    int32_t count = 0;
    for (int64_t m = rest->meetings_at[s]; m < rest->meetings_at[s + 1]; m++) {
        int32_t other = rest->meetings[m];
        if (rest->ranks[other] < rest->ranks[s])
            boxes[count++] =
                (plm__rest_box){spans[other].offset, spans[other].offset + spans[other].granules};
    }
    sort_boxes(boxes, count);
    uint64_t at = rest->floors[s];
    for (int32_t b = 0; b < count && boxes[b].begin < at + spans[s].granules; b++)
        if (boxes[b].end > at)
            at = boxes[b].end;
    return at;
}

/* The spans that `s` meets are to take their places again, if their rank is at least `from`. */
static void disturb(plm__rest *rest, int32_t s, int32_t from)
{
    for (int64_t m = rest->meetings_at[s]; m < rest->meetings_at[s + 1]; m++)
        if (rest->ranks[rest->meetings[m]] >= from)
            rest->stale[rest->meetings[m]] = true;
}

void plm__rest_place(plm__rest *rest)
{
    plm__pack_span *spans = rest->problem->spans;
    rest->failure_count = 0;
    rest->top = 0;
    for (int32_t i = rest->settled; i < rest->count; i++) {
        int32_t s = rest->order[i];
        if (!rest->stale[s])
            continue;
        uint64_t offset = lowest_gap(rest, s), end = offset + spans[s].granules;
        if (offset != spans[s].offset)
            disturb(rest, s, i);
        spans[s].offset = offset;
        rest->stale[s] = false;
        rest->work += rest->meetings_at[s + 1] - rest->meetings_at[s];
        if (end > rest->problem->bound)
            rest->failures[rest->failure_count++] = s;
        if (end > rest->top)
            rest->top = end;
    }
    rest->work += rest->count - rest->settled;
}

/*
 * The rank to which a span moves that ended above the bound. It meets one before it in the order:
 * its floor is the sum of the base at some instant of its life, so on the floor it is in the bound.
 */
static int32_t earlier_rank(const plm__rest *rest, int32_t s, int round)
{
    int32_t earliest = rest->ranks[s], any = earliest;
    uint32_t before = 0;
    for (int64_t m = rest->meetings_at[s]; m < rest->meetings_at[s + 1]; m++) {
        int32_t rank = rest->ranks[rest->meetings[m]];
        if (rank >= rest->ranks[s])
            continue;
        if (rank < earliest)
            earliest = rank;
        /* the n-th takes over with chance 1 / n, so all are equally likely in the end */
        before++;
        uint32_t chance = plm__philox_at(0, (uint32_t)round, (uint32_t)s, before).word[0];
        if (chance % before == 0)
            any = rank;
    }
    return round < STEADY_ROUNDS ? earliest : any;
}

/*
 * Makes the order anew between two ranks, both included: at each rank its arrivals, then the span
 * that had the rank unless it moved.
 */
static void reorder(plm__rest *rest, int32_t lowest, int32_t highest)
{
    int32_t *fresh = rest->fresh, count = 0;
    for (int32_t i = lowest; i <= highest; i++) {
        for (int32_t s = rest->arrivals[i]; s != NONE; s = rest->following[s])
            fresh[count++] = s;
        if (rest->following[rest->order[i]] == STAYS)
            fresh[count++] = rest->order[i];
        rest->arrivals[i] = NONE;
    }
    for (int32_t i = 0; i < count; i++) {
        rest->order[lowest + i] = fresh[i];
        rest->ranks[fresh[i]] = lowest + i;
        rest->following[fresh[i]] = STAYS;
    }
}

void plm__rest_promote(plm__rest *rest, int round)
{
    int32_t lowest = rest->count, highest = 0;
    for (int32_t f = rest->failure_count - 1; f >= 0; f--) {
        int32_t s = rest->failures[f], rank = earlier_rank(rest, s, round);
        rest->following[s] = rest->arrivals[rank];
        rest->arrivals[rank] = s;
        rest->stale[s] = true;
        disturb(rest, s, rank);
        lowest = rank < lowest ? rank : lowest;
        highest = rest->ranks[s] > highest ? rest->ranks[s] : highest;
    }
    reorder(rest, lowest, highest);
    rest->settled = lowest;
}
