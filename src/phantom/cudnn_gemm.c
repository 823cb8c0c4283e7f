/* SPDX-License-Identifier: MIT */
/*
 * What the engines of matrix products take. Which of three settings of its engine cuDNN prefers (no
 * workspace, a little, any) and how cuBLAS then splits are choices of both libraries that nothing
 * tells without a card: of 60,491 convolutions an H200 was asked for them, and the trees of
 * cudnn_gemm.def are fitted to the answers.
 *
 * Forward and for an image's gradient most products take nothing or a few flags (272 bytes in 16
 * bits, 400 in 32), a block of 512 bytes at most. A filter's gradient sums over images. Where
 * channels come before space, each image is a product of its own, and its K x C results are kept in
 * 32-bit numbers whatever the type: N K C 4 bytes. Worked example: [32,256,56,56] by 64 filters:
 * 32 x 64 x 256 x 4 = 2,097,152, as recorded. With channels last all is one product, whose sum over
 * N H W places is split into parts of K C 4 bytes.
 */
#include "phantom/cudnn_gemm.h"

#include "phantom/cudnn_abi.h"
#include "phantom/cudnn_convolution.h"

enum { FORWARD_ENGINE = 58, FILTER_ENGINE = 62, DATA_ENGINE = 63 };
enum {
    PART_BYTES = 4, /* of a number of a partial result */
    TILE_SIDE = 128,
    STEP = 64,      /* of a sum */
    GRAIN_MAX = 16, /* alignments are told apart up to so many elements */
};

/* What is asked of a product: rows x columns results, each a sum, `images` of such at once. */
enum question {
    ROWS,
    COLUMNS,
    SUM,
    IMAGES,
    ROW_GRAIN, /* the largest power of two that divides it */
    COLUMN_GRAIN,
    SUM_GRAIN,
    TILES,       /* of 128 x 128 results */
    FLAT_TILES,  /* of 64 x 128 */
    TALL_TILES,  /* of 128 x 64 */
    LARGE_TILES, /* of 256 x 128 */
    RESULTS,
    STEPS_PER_TILE,
    IS_IMAGE, /* 1: the gradient of an image */
    IS_BFLOAT,
    QUESTIONS,
};

enum kind { ASKS, TAKES_PARTS, TAKES_WAVES };

static const struct node {
    int kind, what; /* the question, or how many parts or waves */
    int64_t number; /* the bound, or bytes */
    int above;
} nodes[] = {
#define ASK(question, bound, above) {ASKS, question, bound, above},
#define PARTS(parts, bytes)         {TAKES_PARTS, parts, bytes, 0},
#define WAVES(waves, bytes)         {TAKES_WAVES, waves, bytes, 0},
#include "phantom/cudnn_gemm.def"
#undef ASK
#undef PARTS
#undef WAVES
};

/* By type (16 bits, 32), layout (channels before space, last), and whether it is a filter's. */
static const int roots[2][2][2] = {{{0, 41}, {78, 185}}, {{576, 595}, {658, 737}}};

int plm__cudnn_gemm_engine(const struct plm_cudnn_convolution *c)
{
    if (plm__cudnn_places(&c->filter) != 1)
        return 0;
    switch (c->direction) {
    case PLM_CUDNN_FORWARD:
        return FORWARD_ENGINE;
    case PLM_CUDNN_FILTER_GRADIENT:
        return FILTER_ENGINE;
    case PLM_CUDNN_DATA_GRADIENT:
        return DATA_ENGINE;
    default:
        return 0;
    }
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t grain(int64_t count)
{
    int64_t grain = count & -count;
    return grain < GRAIN_MAX ? grain : GRAIN_MAX;
}

static int64_t tiles_of(const int64_t *answers, int64_t rows, int64_t columns)
{
    return divide_up(answers[ROWS], rows) * divide_up(answers[COLUMNS], columns) * answers[IMAGES];
}

static void answer(const struct plm_cudnn_convolution *c, bool one, int64_t answers[QUESTIONS])
{
    int64_t filters = c->filter.dimensions[0], channels = c->filter.dimensions[1];
    int64_t images = c->image.dimensions[0], places = plm__cudnn_places(&c->output);
    bool is_image = c->direction == PLM_CUDNN_DATA_GRADIENT;
    int64_t made = is_image ? channels : filters, summed = is_image ? filters : channels;
    int64_t merged = one ? images * places : places;
    bool is_filter = c->direction == PLM_CUDNN_FILTER_GRADIENT;
    answers[ROWS] = is_filter ? channels : one ? made : merged;
    answers[COLUMNS] = is_filter ? filters : one ? merged : made;
    answers[SUM] = is_filter ? merged : summed;
    answers[IMAGES] = one ? 1 : images;
    answers[ROW_GRAIN] = grain(answers[ROWS]);
    answers[COLUMN_GRAIN] = grain(answers[COLUMNS]);
    answers[SUM_GRAIN] = grain(answers[SUM]);
    answers[TILES] = tiles_of(answers, TILE_SIDE, TILE_SIDE);
    answers[FLAT_TILES] = tiles_of(answers, TILE_SIDE / 2, TILE_SIDE);
    answers[TALL_TILES] = tiles_of(answers, TILE_SIDE, TILE_SIDE / 2);
    answers[LARGE_TILES] = tiles_of(answers, 2 * TILE_SIDE, TILE_SIDE);
    answers[RESULTS] = answers[ROWS] * answers[COLUMNS] * answers[IMAGES];
    answers[STEPS_PER_TILE] = divide_up(answers[SUM], STEP) / answers[TILES];
    answers[IS_IMAGE] = is_image;
    answers[IS_BFLOAT] = c->image.type == CUDNN_DATA_BFLOAT16;
}

int64_t plm__cudnn_gemm_bytes(const struct plm_cudnn_convolution *c, int multiprocessors)
{
    bool single = c->image.type == CUDNN_DATA_FLOAT, one = plm__cudnn_strides_are_last(&c->image);
    bool is_filter = c->direction == PLM_CUDNN_FILTER_GRADIENT;
    int64_t answers[QUESTIONS];
    answer(c, one, answers);
    const struct node *node = &nodes[roots[single][one][is_filter]];
    while (node->kind == ASKS)
        node = answers[node->what] <= node->number ? node + 1 : &nodes[node->above];
    int64_t parts = node->what;
    if (node->kind == TAKES_WAVES) {
        parts = node->what * (int64_t)multiprocessors / answers[TILES];
        if (parts < 2)
            return 0;
    }
    int64_t result = answers[RESULTS] * PART_BYTES;
    return parts * result + node->number + (is_filter && !one ? result : 0);
}
