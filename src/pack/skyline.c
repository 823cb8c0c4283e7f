/* SPDX-License-Identifier: MIT */
/*
 * A skyline: a height over every step, kept in a segment tree, so that a span reads the heights
 * below it and raises them in time logarithmic in the number of steps.
 *
 * A raise sets its whole range to one height that is at least the highest there. So the height of a
 * step is the highest floor among the nodes that cover it, and nothing is ever pushed down.
 */
#include "pack/pack_internal.h"

struct plm__skyline_node {
    uint64_t floor;   /* what the whole node was raised to */
    uint64_t lowest;  /* of the node's steps by the floors in it and below it */
    uint64_t highest; /* likewise */
};

/* A node of the tree and the steps that it covers. */
typedef struct place {
    int64_t index;
    int32_t begin, end;
} place;

/* The question or the change on its way down the tree. */
typedef struct range {
    int32_t begin, end;
    uint64_t lowest, highest;
} range;

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t higher(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static place left_of(place at)
{
    return (place){2 * at.index, at.begin, at.begin + (at.end - at.begin) / 2};
}

static place right_of(place at)
{
    return (place){2 * at.index + 1, at.begin + (at.end - at.begin) / 2, at.end};
}

plm_status plm__skyline_init(plm__skyline *skyline, int32_t step_count)
{
    skyline->width = 1;
    while (skyline->width < step_count)
        skyline->width *= 2;
    return plm__host_alloc(2 * (size_t)skyline->width * sizeof *skyline->nodes, &skyline->nodes);
}

void plm__skyline_fini(plm__skyline *skyline)
{
    plm__host_free(skyline->nodes);
    skyline->nodes = NULL;
}

/* `floor`: the highest of the node's ancestors. */
static void ask(const plm__skyline *skyline, place at, uint64_t floor, range *wanted)
{
    if (at.end <= wanted->begin || wanted->end <= at.begin)
        return;
    const plm__skyline_node *node = &skyline->nodes[at.index];
    if (wanted->begin <= at.begin && at.end <= wanted->end) {
        wanted->lowest = lower(wanted->lowest, higher(floor, node->lowest));
        wanted->highest = higher(wanted->highest, higher(floor, node->highest));
        return;
    }
    floor = higher(floor, node->floor);
    ask(skyline, left_of(at), floor, wanted);
    ask(skyline, right_of(at), floor, wanted);
}

void plm__skyline_range(const plm__skyline *skyline, int32_t first, int32_t last, uint64_t *lowest,
                        uint64_t *highest)
{
    range wanted = {first, last + 1, UINT64_MAX, 0};
    ask(skyline, (place){1, 0, skyline->width}, 0, &wanted);
    *lowest = wanted.lowest;
    *highest = wanted.highest;
}

static void raise_in(plm__skyline *skyline, place at, const range *change)
{
    if (at.end <= change->begin || change->end <= at.begin)
        return;
    plm__skyline_node *node = &skyline->nodes[at.index];
    if (change->begin <= at.begin && at.end <= change->end) {
        *node = (plm__skyline_node){change->highest, change->highest, change->highest};
        return;
    }
    place left = left_of(at), right = right_of(at);
    raise_in(skyline, left, change);
    raise_in(skyline, right, change);
    const plm__skyline_node *nodes = skyline->nodes;
    node->lowest = higher(node->floor, lower(nodes[left.index].lowest, nodes[right.index].lowest));
    node->highest =
        higher(node->floor, higher(nodes[left.index].highest, nodes[right.index].highest));
}

void plm__skyline_raise(plm__skyline *skyline, int32_t first, int32_t last, uint64_t height)
{
    range change = {.begin = first, .end = last + 1, .highest = height};
    raise_in(skyline, (place){1, 0, skyline->width}, &change);
}
