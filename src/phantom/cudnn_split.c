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
 * How many parts: cuDNN weighs steps saved against the cost of putting parts together. Costs below
 * were fitted to an H200's answers for 31,977 convolutions, each with up to 140 configurations
 * forced on it. Only a step's cost is compared, so a part that could as well be left out is:
 * s = ceil(steps / ceil(steps / s)).
 *
 * So 99.0 % of what was forced is right to the byte, and 99.4 % of 41,341 first choices that the
 * card made itself.
 */
#include "phantom/cudnn_split.h"

#include "phantom/cudnn_abi.h"
#include "phantom/cudnn_convolution.h"

#include <stddef.h>

enum {
    STEP_ELEMENTS = 32, /* of the sum, where the knob TILEK is 0; twice as many where it is 1 */
    DEPTH_MAX = 2,      /* of that knob; no more is known */
    DEEP_SUM = 1024,    /* elements of the sum: splits that are deeper are always taken */
    SHORT_SUM = 128,    /* a part of tiles left over has no fewer */
    MANY_PARTS = 8,     /* more than so many are only made of deep splits */
    PARTS_MAX = 128,    /* of such */
    TREE_BYTES = 32,    /* before the flags */
    WORD_BYTES = 4,     /* a flag, a counter */
    ALIGN_BYTES = 127,  /* so that what follows can start at a multiple of 128 */
    UNALIGNED = 16,     /* all else in a workspace is a multiple of this */
    GROUPS = 8,         /* of multiprocessors (GPC) on an H200 */
    GROUPED = 132,      /* multiprocessors of the cards whose groups are known */
};

/* cuDNN takes bfloat16's partial results to cost eight times as many steps. */
static const double BFLOAT_COST = 8;

/* Rows and columns by CUDNN_KNOB_TYPE_TILE_SIZE; 0: no such tile is known. Shapes come from the
 * counter: with 18 multiprocessors a workspace without splits is 131 from the 37th tile on. */
static const struct tile {
    int rows, columns;
} tiles[] = {
    [0] = {128, 128}, [1] = {128, 64},  [2] = {128, 32},   [3] = {256, 128}, [4] = {256, 64},
    [5] = {64, 64},   [6] = {128, 256}, [7] = {64, 128},   [8] = {64, 32},   [9] = {64, 256},
    [16] = {256, 32}, [18] = {64, 192}, [19] = {128, 192}, [20] = {256, 96},
};
enum { TILE_COUNT = sizeof tiles / sizeof tiles[0] };

/* What putting two partial results together costs, in steps of 32 elements, by elements of a tile:
 * `whole` for each level of the tree where all tiles run at once, `rest` for tiles left over. */
static const struct price {
    int elements;
    double whole, rest;
} prices[] = {
    {2048, 41, 18.3},    {4096, 24.75, 11.75}, {8192, 17.4, 8.45},   {12288, 14.6, 7.25},
    {16384, 13.2, 6.75}, {24576, 11.8, 6.2},   {32768, 11.2, 5.875},
};
enum { PRICE_COUNT = sizeof prices / sizeof prices[0] };

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static bool is_split(int type)
{
    return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
}

static const struct price *price_of(const struct tile *tile)
{
    int last = 0;
    while (last < PRICE_COUNT - 1 && prices[last].elements < tile->rows * tile->columns)
        last++;
    return &prices[last];
}

/* Rows and columns of tiles in the result, and steps along the sum. Channels are laid into tiles
 * and steps anew for each place of the filter. Of groups, results are laid into tiles together;
 * what is summed, and a filter's channels, are those of one group. */
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
        *steps = places * divide_up(filter[0] * filter[1] / image[1], step);
    }
}

bool plm__cudnn_work_of(const struct plm_cudnn_convolution *c, const struct plm_cudnn_knobs *knobs,
                        struct plm_cudnn_work *work)
{
    if (c->direction == PLM_CUDNN_NO_CONVOLUTION || knobs->no_workspace < 0 ||
        knobs->cluster_rows < 1 || knobs->cluster_columns < 1 || knobs->tile < 0 ||
        knobs->tile >= TILE_COUNT || !tiles[knobs->tile].rows || knobs->depth < 0 ||
        knobs->depth >= DEPTH_MAX || !is_split(c->image.type) || c->filter.dimensions[1] < 1)
        return false;
    const struct tile *tile = &tiles[knobs->tile];
    const struct price *price = price_of(tile);
    double scale = c->image.type == CUDNN_DATA_BFLOAT16 ? BFLOAT_COST : 1;
    int64_t step = STEP_ELEMENTS << knobs->depth;
    int64_t rows, columns, steps;
    lay_out(c, tile, step, &rows, &columns, &steps);
    rows = divide_up(rows, knobs->cluster_rows) * knobs->cluster_rows;
    columns = divide_up(columns, knobs->cluster_columns) * knobs->cluster_columns;
    *work = (struct plm_cudnn_work){
        .tiles = rows * columns,
        .cluster = knobs->cluster_rows * knobs->cluster_columns,
        .steps = steps,
        .deep_steps = DEEP_SUM / step + 1,
        .short_steps = SHORT_SUM / step,
        .tile_bytes = (int64_t)tile->rows * tile->columns * 4,
        .level = price->whole * scale * STEP_ELEMENTS / (double)step,
        .rest_level = price->rest * scale * STEP_ELEMENTS / (double)step,
        .may_split = !knobs->no_workspace,
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

/* What it costs to put so many parts of tiles left over together, where two cost 6.75: each part
 * beyond the 18th adds `more` to the sum over all, and each level of the tree a little. */
static double rest_cost(int64_t parts)
{
    static const double costs[] = {0,     0,     6.75,  11.5, 13.37, 15.6,  16.99,
                                   17.82, 18.56, 19.37, 20,   20.52, 20.91, 21.28,
                                   21.59, 21.86, 22.09, 22.3, 22.48};
    static const struct {
        int64_t until;
        double more;
    } beyond[] = {{32, 25.05}, {64, 25.32}, {INT64_MAX, 25.46}};
    enum { FEW = sizeof costs / sizeof costs[0] };
    if (parts < FEW)
        return costs[parts];
    double sum = 385.46;
    int64_t from = FEW - 1;
    for (size_t i = 0; from < parts; i++) {
        int64_t until = beyond[i].until < parts ? beyond[i].until : parts;
        sum += (double)(until - from) * beyond[i].more;
        from = until;
    }
    return sum / (double)parts + 0.35 * levels(parts) - 0.685;
}

static double cost(const struct plm_cudnn_work *work, int64_t parts, bool rest)
{
    if (rest)
        return (double)work->steps / (double)parts + work->rest_level * rest_cost(parts) / 6.75;
    return (double)divide_up(work->steps, parts) + work->level * levels(parts);
}

int64_t plm__cudnn_parts(const struct plm_cudnn_work *work, int64_t most, bool rest)
{
    const double equal = 1e-9; /* of two costs that are the same but for rounding */
    int64_t deep = work->steps / work->deep_steps;
    if (!work->may_split || most < 2)
        return 1;
    if (!rest && most > MANY_PARTS && deep > MANY_PARTS) {
        int64_t parts = deep < most ? deep : most;
        return parts < PARTS_MAX ? parts : PARTS_MAX;
    }
    int64_t longest = work->steps / (rest ? work->short_steps : 1), best = 1;
    for (int64_t parts = 2; parts <= most && parts <= longest; parts++)
        if (cost(work, parts, rest) <= cost(work, best, rest) + equal)
            best = parts;
    return divide_up(work->steps, divide_up(work->steps, best));
}

/* Multiprocessors of an H200's groups: what clusters of 3 to 16 leave idle is explained by these.
 * Eight more stand in no group. */
static int64_t grouped_slots(int64_t cluster)
{
    static const int groups[GROUPS] = {18, 18, 16, 16, 16, 16, 16, 8};
    int64_t slots = 0;
    for (int i = 0; i < GROUPS; i++)
        slots += groups[i] / cluster * cluster;
    return slots;
}

int64_t plm__cudnn_slots(int multiprocessors, int64_t cluster)
{
    int64_t usable = multiprocessors;
    if (cluster > 2 && multiprocessors == GROUPED)
        return grouped_slots(cluster);
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
