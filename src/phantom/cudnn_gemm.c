/* SPDX-License-Identifier: MIT */
/*
 * What the engines of matrix products take, read off recordings of an H200 (cuDNN 9.19) whose own
 * log names the engine of each convolution, and off ResNet-50's in bfloat16.
 *
 * Forward and for an image's gradient nothing but a few flags. In 32 bits they are 400 bytes or
 * none: told as 400 where filters do not outnumber channels (right in 19 of 24 with channels before
 * space). In 16 bits 0 or 272, told as 0. Either is a block of 512 bytes at most; two of ten
 * forward products in 32 bits with channels last took over 2 MB, which is not modelled.
 *
 * A filter's gradient sums over images. Where channels come before space, each image is a product
 * of its own, and its K x C results are kept in 32-bit numbers whatever the type: N K C 4 bytes (25
 * of 27; the other two are one shape, with 400 more). Worked example: [32,256,56,56] by 64 filters:
 * 32 x 64 x 256 x 4 = 2,097,152, as recorded.
 *
 * With channels last all is one product, whose sum over N H W places is split; how, cuBLAS weighs
 * in a way that is not known. The number of parts here is a fit. In 32 bits two rounds of tiles of
 * 128 x 128: the recorded number in 8 of 10. In 16 bits 1.6 sqrt(steps / tiles), with steps of 64
 * places, at most one round: for 24 gradients of 0 to 8.7 MB the mean error is 0.9 MB, and 18 are
 * within 1 MB. Worked example: 512 filters over 128 channels at 50,176 places are 784 steps and 4
 * tiles: 1.6 x 14 = 22 parts of 512 x 128 x 4 = 262,144 bytes, 5,767,168; recorded are 272 more.
 */
#include "phantom/cudnn_gemm.h"

#include "phantom/cudnn_abi.h"
#include "phantom/cudnn_convolution.h"

enum { FORWARD_ENGINE = 58, FILTER_ENGINE = 62, DATA_ENGINE = 63 };
enum {
    FLAG_BYTES = 400,
    PART_BYTES = 4, /* of a partial result */
    TILE_SIDE = 128,
    STEP_PLACES = 64,  /* of a sum in 16 bits */
    STEPS_MIN = 65,    /* shorter sums are not split: 64 steps were not, 98 were */
    ROUNDS_SINGLE = 2, /* in 32 bits */
    PARTS_MIN = 8,     /* in 32 bits: 16 parts were made, 4 were not */
};

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

/* 1.6 sqrt(steps / tiles) to the nearest: the largest p with p - 1/2 not above. */
static int64_t half_parts(int64_t steps, int64_t tiles)
{
    int64_t parts = 0;
    while ((2 * parts + 1) * (2 * parts + 1) * 25 * tiles <= 256 * steps)
        parts++;
    return parts;
}

static int64_t parts_of(int type, int64_t places, int64_t tiles, int multiprocessors)
{
    if (type == CUDNN_DATA_FLOAT) {
        int64_t parts = ROUNDS_SINGLE * (int64_t)multiprocessors / tiles;
        return parts < PARTS_MIN ? 1 : parts;
    }
    int64_t steps = divide_up(places, STEP_PLACES);
    if (steps < STEPS_MIN)
        return 1;
    int64_t parts = half_parts(steps, tiles), most = multiprocessors / tiles;
    return parts < most ? parts : most;
}

int64_t plm__cudnn_gemm_bytes(const struct plm_cudnn_convolution *c, int multiprocessors)
{
    int64_t filters = c->filter.dimensions[0], channels = c->filter.dimensions[1];
    if (c->direction != PLM_CUDNN_FILTER_GRADIENT)
        return c->image.type == CUDNN_DATA_FLOAT && filters <= channels ? FLAG_BYTES : 0;
    int64_t result = filters * channels * PART_BYTES;
    if (!plm__cudnn_is_channels_last(&c->image))
        return c->image.dimensions[0] * result;
    int64_t tiles = divide_up(filters, TILE_SIDE) * divide_up(channels, TILE_SIDE);
    int64_t places = c->output.dimensions[0] * plm__cudnn_places(&c->output);
    int64_t parts = parts_of(c->image.type, places, tiles, multiprocessors);
    return parts > 1 ? parts * result : 0;
}
