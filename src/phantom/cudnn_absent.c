/* SPDX-License-Identifier: MIT */
/*
 * Found by asking an H200 (cuDNN 9.19) for 152,459 convolutions. Where the library's log tells such
 * an engine first, so often is the card's workspace the one that follows here:
 *
 *     forward 5, an image's gradient 6     nothing (groups)                        1,159 of 1,162
 *     filter 19                            nothing (groups)                          217 of 217
 *     filter 16    channels last: 32 bytes a place of the filter, channel and image, channels
 *                  in blocks of 32; channels before space: nothing (groups)          166 of 169
 *     filter 17    Winograd's transforms of 3 x 3 filters to 6 x 6, in 32 bits       160 of 164
 *     filter 18    transforms of whole images                                         30 of 30
 *     image 50     transforms of tiles                                                23 of 23
 *
 * Worked example of 17: [8,256,32,32] by 128 filters has 8 x 8 tiles of 4 x 4 an image: 8 x 64 x
 * (256 + 128) + 256 x 128 blocks of 36 numbers of 4 bytes are 33,030,144.
 */
#include "phantom/cudnn_absent.h"

#include "phantom/cudnn_abi.h"
#include "phantom/cudnn_convolution.h"
#include "phantom/cudnn_gemm.h"

enum { IMAGE = 4, UNKNOWN = -1 }; /* the rank of images */
enum { CHANNEL_BLOCK = 32, PLACE_BYTES = 32, FILTER_MAX = 7 };
enum { WINOGRAD_FILTER = 3, WINOGRAD_TILE = 4, WINOGRAD_BYTES = 36 * 4 };

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static bool has_groups(const struct plm_cudnn_convolution *c)
{
    return c->filter.dimensions[1] < c->image.dimensions[1];
}

static bool is_dense(const struct plm_cudnn_convolution *c)
{
    return c->image.rank == IMAGE && c->stride[0] == 1 && c->stride[1] == 1 &&
           c->dilation[0] == 1 && c->dilation[1] == 1;
}

static int64_t nothing(const struct plm_cudnn_convolution *c)
{
    (void)c;
    return 0;
}

static int64_t nothing_of_groups(const struct plm_cudnn_convolution *c)
{
    return has_groups(c) ? 0 : UNKNOWN;
}

static int64_t by_channels(const struct plm_cudnn_convolution *c)
{
    for (int i = 2; i < c->filter.rank; i++)
        if (c->filter.dimensions[i] > FILTER_MAX)
            return UNKNOWN;
    if (!has_groups(c))
        return UNKNOWN;
    if (!plm__cudnn_strides_are_last(&c->image))
        return 0;
    return c->image.dimensions[0] * PLACE_BYTES * plm__cudnn_places(&c->filter) *
           divide_up(c->filter.dimensions[0], CHANNEL_BLOCK) * CHANNEL_BLOCK;
}

static int64_t winograd(const struct plm_cudnn_convolution *c)
{
    const int64_t *filter = c->filter.dimensions, *output = c->output.dimensions;
    if (!is_dense(c) || filter[2] != WINOGRAD_FILTER || filter[3] != WINOGRAD_FILTER)
        return UNKNOWN;
    int64_t tiles =
        output[0] * divide_up(output[2], WINOGRAD_TILE) * divide_up(output[3], WINOGRAD_TILE);
    return WINOGRAD_BYTES * (tiles * (c->image.dimensions[1] + filter[0]) + filter[0] * filter[1]);
}

static bool transforms(const struct plm_cudnn_convolution *c)
{
    return is_dense(c) && !has_groups(c) && !plm__cudnn_strides_are_last(&c->image) &&
           c->image.type != CUDNN_DATA_BFLOAT16;
}

static int64_t whole_images(const struct plm_cudnn_convolution *c)
{
    int64_t bytes = transforms(c) ? plm__cudnn_fft_whole_bytes(c) : 0;
    return bytes ? bytes : UNKNOWN;
}

static int64_t tiled_images(const struct plm_cudnn_convolution *c)
{
    return transforms(c) ? plm__cudnn_fft_tiled_bytes(c) : UNKNOWN;
}

static const struct absent {
    enum plm_cudnn_direction direction;
    int engine;
    int64_t (*bytes)(const struct plm_cudnn_convolution *c);
} absent[] = {
    {PLM_CUDNN_FORWARD, 5, nothing},
    {PLM_CUDNN_DATA_GRADIENT, 6, nothing},
    {PLM_CUDNN_DATA_GRADIENT, 50, tiled_images},
    {PLM_CUDNN_FILTER_GRADIENT, 16, by_channels},
    {PLM_CUDNN_FILTER_GRADIENT, 17, winograd},
    {PLM_CUDNN_FILTER_GRADIENT, 18, whole_images},
    {PLM_CUDNN_FILTER_GRADIENT, 19, nothing_of_groups},
};

bool plm__cudnn_may_be_absent(const struct plm_cudnn_convolution *c)
{
    if (c->direction == PLM_CUDNN_NO_CONVOLUTION)
        return false;
    return plm__cudnn_gemm_engine(c) || has_groups(c) ||
           (c->direction != PLM_CUDNN_FORWARD && is_dense(c) &&
            !plm__cudnn_strides_are_last(&c->image));
}

int64_t plm__cudnn_absent_bytes(const struct plm_cudnn_convolution *c, int engine,
                                int multiprocessors)
{
    if (engine && engine == plm__cudnn_gemm_engine(c))
        return plm__cudnn_gemm_bytes(c, multiprocessors);
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        if (absent[i].direction == c->direction && absent[i].engine == engine)
            return absent[i].bytes(c);
    return UNKNOWN;
}
