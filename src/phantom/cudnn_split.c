/* SPDX-License-Identifier: MIT */
/*
 * How Hopper's convolution kernels split the sum, and the workspace that follows.
 *
 * Found by asking cuDNN 9.10 and 9.19 without a card for thousands of configurations (which answer
 * for 18 multiprocessors), and proved on recordings of an H200 (132): a DCGAN's six sizes that
 * differ from the told ones, seven of a small network's gradients, ResNet-50's in bfloat16.
 *
 * A kernel computes tiles of the result, whole clusters of them, as many at once as the device has
 * slots. Tiles that are left over after full rounds (or all, where they are fewer than the slots)
 * would leave slots idle, so their sums are split: each of R tiles into s parts, R s slots at most.
 * Each part keeps its partial tile in 32-bit numbers, and pairs of parts are put together in a tree
 * with a flag of 4 bytes at each node:
 *
 *   R s tile + 32 + 4 R nodes(s) [+ 4, a counter, for more than two rounds] + 127 to align
 *
 * Worked example: the filter's gradient of [128,128,16,16] by [256,128,4,4], stride 2, in 32 bits:
 * 256 x 2048 results in tiles of 128 x 128 are 32 tiles, so 132 slots take 4 parts of each:
 * 32 x 4 x 65,536 = 8,388,608 and 32 + 4 x 32 x (2 + 1) + 127 = 543. Added to the 27,262,992 for
 * turning the tensors to channels last: 35,652,143, as recorded.
 *
 * How many parts: cuDNN weighs steps saved against the cost of a level of the tree. Costs below are
 * the number of steps from which the library splits in two. Only a step's cost is compared, so a
 * part that could as well be left out is: s = ceil(steps / ceil(steps / s)).
 */
#include "phantom/cudnn_split.h"

#include "phantom/cudnn_abi.h"
#include "phantom/cudnn_convolution.h"

#include <stddef.h>

enum {
    STEP_BYTES = 128,  /* of one row of an operand: 32 numbers of 4 bytes, 64 of 2 */
    DEEP_SUM = 1024,   /* elements of the sum: splits that are deeper are always taken */
    MANY_PARTS = 8,    /* more than so many are only made of deep splits */
    TREE_BYTES = 32,   /* before the flags */
    WORD_BYTES = 4,    /* a flag, a counter */
    ALIGN_BYTES = 127, /* so that what follows can start at a multiple of 128 */
    UNALIGNED = 16,    /* all else in a workspace is a multiple of this */
};

/* From how many steps on two parts are better than one: `whole` where all tiles run at once, `rest`
 * for those left over. cuDNN's own costs per type: bfloat16's are not those of half precision. */
struct threshold {
    int whole, rest;
};

struct tile {
    int rows, columns; /* 0: no such tile is known */
    struct threshold single, half, bfloat;
};

/* By CUDNN_KNOB_TYPE_TILE_SIZE. Shapes come from the counter: with 18 multiprocessors a workspace
 * without splits is 131 from the 37th tile on. {0, 0}: the type has no kernel of that tile. */
static const struct tile tiles[] = {
    [0] = {128, 128, {28, 14}, {14, 7}, {106, 54}}, [1] = {128, 64, {40, 17}, {18, 8}, {138, 64}},
    [2] = {128, 32, {0, 0}, {25, 11}, {0, 0}},      [3] = {256, 128, {24, 12}, {12, 6}, {90, 48}},
    [4] = {256, 64, {28, 14}, {14, 7}, {106, 54}},  [5] = {64, 64, {50, 22}, {26, 11}, {200, 85}},
    [6] = {128, 256, {0, 0}, {12, 6}, {90, 48}},    [7] = {64, 128, {36, 16}, {18, 8}, {138, 64}},
    [8] = {64, 32, {0, 0}, {0, 0}, {0, 0}},         [9] = {64, 256, {28, 14}, {14, 7}, {106, 54}},
    [16] = {256, 32, {0, 0}, {18, 8}, {0, 0}},      [18] = {64, 192, {30, 15}, {15, 8}, {0, 0}},
    [19] = {128, 192, {24, 13}, {12, 7}, {0, 0}},
};
enum { TILE_COUNT = sizeof tiles / sizeof tiles[0] };

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static const struct threshold *threshold_of(const struct tile *tile, int type)
{
    switch (type) {
    case CUDNN_DATA_FLOAT:
        return &tile->single;
    case CUDNN_DATA_HALF:
        return &tile->half;
    case CUDNN_DATA_BFLOAT16:
        return &tile->bfloat;
    default:
        return NULL;
    }
}

/* Rows and columns of tiles in the result, and steps along the sum. Channels are laid into tiles
 * and steps anew for each place of the filter. */
static void lay_out(const struct plm_cudnn_convolution *c, const struct tile *tile, int64_t step,
                    int64_t *rows, int64_t *columns, int64_t *steps)
{
    const int64_t *image = c->image.dimensions, *filter = c->filter.dimensions;
    int64_t places = plm__cudnn_places(&c->filter);
    int64_t outputs = c->output.dimensions[0] * plm__cudnn_places(&c->output);
    if (c->direction == PLM_CUDNN_FORWARD) {
        *rows = divide_up(outputs, tile->rows);
        *columns = divide_up(filter[0], tile->columns);
        *steps = places * divide_up(filter[1], step);
    } else if (c->direction == PLM_CUDNN_FILTER_GRADIENT) {
        *rows = divide_up(filter[0], tile->rows);
        *columns = places * divide_up(filter[1], tile->columns);
        *steps = divide_up(outputs, step);
    } else {
        *rows = divide_up(image[0] * plm__cudnn_places(&c->image), tile->rows);
        *columns = divide_up(image[1], tile->columns);
        *steps = places * divide_up(filter[0], step);
    }
}

bool plm__cudnn_work_of(const struct plm_cudnn_convolution *c, const struct plm_cudnn_knobs *knobs,
                        struct plm_cudnn_work *work)
{
    if (c->direction == PLM_CUDNN_NO_CONVOLUTION || knobs->no_workspace < 0 ||
        knobs->cluster_rows < 1 || knobs->cluster_columns < 1 || knobs->tile < 0 ||
        knobs->tile >= TILE_COUNT || !tiles[knobs->tile].rows ||
        c->image.dimensions[1] != c->filter.dimensions[1]) /* groups: other kernels, not known */
        return false;
    const struct tile *tile = &tiles[knobs->tile];
    const struct threshold *threshold = threshold_of(tile, c->image.type);
    if (!threshold)
        return false;
    int64_t step = STEP_BYTES / plm__cudnn_element_bytes(c->image.type);
    int64_t rows, columns, steps;
    lay_out(c, tile, step, &rows, &columns, &steps);
    rows = divide_up(rows, knobs->cluster_rows) * knobs->cluster_rows;
    columns = divide_up(columns, knobs->cluster_columns) * knobs->cluster_columns;
    *work = (struct plm_cudnn_work){
        .tiles = rows * columns,
        .cluster = knobs->cluster_rows * knobs->cluster_columns,
        .steps = steps,
        .deep_steps = DEEP_SUM / step + 1,
        .tile_bytes = (int64_t)tile->rows * tile->columns * 4,
        /* At the threshold the costs of one part and of two are equal, and the library splits. */
        .level = threshold->whole / 2.0 - 0.25,
        .rest_level = threshold->rest / 2.0 - 0.25,
        .may_split = !knobs->no_workspace && threshold->whole,
    };
    return true;
}

static int levels(int64_t parts)
{
    int levels = 0;
    for (; parts > 1; parts = divide_up(parts, 2))
        levels++;
    return levels;
}

/* The inner nodes of the tree that puts parts together in pairs: 9 -> 5 -> 3 -> 2 -> 1 has 11. */
static int64_t nodes(int64_t parts)
{
    int64_t nodes = 0;
    while (parts > 1) {
        parts = divide_up(parts, 2);
        nodes += parts;
    }
    return nodes;
}

/* The cost of parts for tiles left over, in levels; read off where the library's choice changes
 * (2 to 3 parts at 28.5 steps where a level costs 6.75, and so on). */
static double rest_cost(int64_t parts)
{
    static const double costs[] = {0, 0, 1, 1.71, 2, 2.35, 2.54, 2.65, 2.77, 2.89};
    if (parts < 10)
        return costs[parts];
    return 2.89 + 0.5 * (levels(parts) - 4) + 0.5 * (double)(parts - 9) / (double)parts;
}

static double cost(const struct plm_cudnn_work *work, int64_t parts, bool rest)
{
    if (rest)
        return (double)work->steps / (double)parts + work->rest_level * rest_cost(parts);
    return (double)divide_up(work->steps, parts) + work->level * levels(parts);
}

int64_t plm__cudnn_parts(const struct plm_cudnn_work *work, int64_t most, bool rest)
{
    int64_t deep = work->steps / work->deep_steps;
    if (!work->may_split || most < 2)
        return 1;
    if (!rest && most > MANY_PARTS && deep > MANY_PARTS)
        return deep < most ? deep : most;
    int64_t best = 1;
    for (int64_t parts = 2; parts <= most && parts <= work->steps; parts++)
        if (cost(work, parts, rest) <= cost(work, best, rest))
            best = parts;
    return divide_up(work->steps, divide_up(work->steps, best));
}

int64_t plm__cudnn_slots(int multiprocessors, int64_t cluster)
{
    int64_t usable = multiprocessors;
    if (cluster > 2 && multiprocessors > PLM_CUDNN_TOLD_MULTIPROCESSORS)
        usable -= multiprocessors / 11;
    return usable / cluster * cluster;
}

static int64_t bytes_of_parts(const struct plm_cudnn_work *work, int64_t split_tiles, int64_t parts,
                              bool counted)
{
    int64_t bytes = counted ? WORD_BYTES : 0;
    if (parts > 1)
        bytes += split_tiles * parts * work->tile_bytes + TREE_BYTES +
                 WORD_BYTES * split_tiles * nodes(parts);
    return bytes ? bytes + ALIGN_BYTES : 0;
}

/* Tiles that are split where any are: all of less than a round, or what full rounds leave. */
static int64_t tiles_left(const struct plm_cudnn_work *work, int64_t slots_count)
{
    return work->tiles % slots_count;
}

int64_t plm__cudnn_split_bytes(const struct plm_cudnn_work *work, int multiprocessors)
{
    int64_t at_once = plm__cudnn_slots(multiprocessors, work->cluster);
    if (at_once < 1)
        return 0;
    int64_t left = tiles_left(work, at_once);
    int64_t parts = left ? plm__cudnn_parts(work, at_once / left, work->tiles > at_once) : 1;
    return bytes_of_parts(work, left, parts, work->tiles > 2 * at_once);
}

/* How many parts on 18 multiprocessors leave, of a told size, just the bytes that turning the
 * tensors takes; 0: none. The weighing above is not the library's to the last step, so any number
 * of parts that explains the size will do. */
static int64_t told_parts(const struct plm_cudnn_work *work, int64_t told, int64_t turned)
{
    int64_t at_once = plm__cudnn_slots(PLM_CUDNN_TOLD_MULTIPROCESSORS, work->cluster);
    bool counted = work->tiles > 2 * at_once;
    for (int64_t parts = 1; parts <= at_once; parts++)
        if (told - turned == bytes_of_parts(work, tiles_left(work, at_once), parts, counted))
            return parts;
    return 0;
}

bool plm__cudnn_move_split(const struct plm_cudnn_convolution *convolution,
                           const struct plm_cudnn_knobs *knobs, int64_t told, int multiprocessors,
                           int64_t *bytes)
{
    struct plm_cudnn_work work;
    *bytes = told;
    if (!plm__cudnn_work_of(convolution, knobs, &work) ||
        work.cluster > PLM_CUDNN_TOLD_MULTIPROCESSORS)
        return false;
    int64_t turned = plm__cudnn_turned_bytes(convolution);
    if (!told_parts(&work, told, turned)) {
        /* Tensors whose channels are padded take other bytes to turn, a multiple of 16 all the
         * same, which no split leaves. */
        turned = told - plm__cudnn_split_bytes(&work, PLM_CUDNN_TOLD_MULTIPROCESSORS);
        if (turned < 0 || turned % UNALIGNED)
            return false;
    }
    *bytes = turned + plm__cudnn_split_bytes(&work, multiprocessors);
    return true;
}
