/* SPDX-License-Identifier: MIT */
/*
 * Sizes that follow from a convolution's shape alone.
 *
 * The engines of Fourier transforms are not offered to a graph without a real handle (status 3000),
 * though they take the largest workspace of all, which PyTorch's cudnn.benchmark allocates in a
 * model's first step. Their formulas were found from the blocks that PyTorch took on an H200
 * (cuDNN 9.19; cnn_benchmark, 16 of 16 where such an engine is the largest):
 *
 *   whole images: every plane of 32-bit numbers becomes P x (P/2 + 1) complex ones of 8 bytes, P
 *   the power of two that holds an image's longer side with its padding, at most 256. Image, filter
 * and output have N C, K C and N K planes; twice the larger of what goes in and what comes out is
 *   held, and the result's filter or output besides.
 *   tiles of 32 x 32, 32 x 17 x 8 = 4352 bytes a plane: one tile where an image fits, else two.
 *
 * Worked example: [32,64,96,96] by 64 filters of 3 x 3, forward. 98 needs P = 128, so a plane is
 * 128 x 65 x 8 = 66,560 bytes; in go 32 x 64 + 64 x 64 = 6,144 planes, out come 2,048;
 * 2 x 6,144 x 66,560 + 147,456 bytes of filter = 818,036,736.
 */
#include "phantom/cudnn_convolution.h"

#include "phantom/cudnn_abi.h"

enum { WHOLE_IMAGE_MAX = 256, TILE_SIDE = 32, FILTER_MAX = 32, TILE_BYTES = 32 * 17 * 8 };

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t plm__cudnn_places(const struct plm_cudnn_tensor *tensor)
{
    int64_t places = 1;
    for (int i = 2; i < tensor->rank; i++)
        places *= tensor->dimensions[i];
    return places;
}

int plm__cudnn_element_bytes(int type)
{
    switch (type) {
    case CUDNN_DATA_FLOAT:
        return 4;
    case CUDNN_DATA_DOUBLE:
        return 8;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
        return 2;
    default:
        return 0;
    }
}

static int64_t tensor_bytes(const struct plm_cudnn_tensor *tensor)
{
    return tensor->dimensions[0] * tensor->dimensions[1] * plm__cudnn_places(tensor) *
           plm__cudnn_element_bytes(tensor->type);
}

bool plm__cudnn_is_channels_last(const struct plm_cudnn_tensor *tensor)
{
    return plm__cudnn_places(tensor) == 1 || tensor->strides[1] == 1;
}

bool plm__cudnn_strides_are_last(const struct plm_cudnn_tensor *tensor)
{
    return tensor->strides[1] == 1 && tensor->strides[tensor->rank - 1] == tensor->dimensions[1];
}

int64_t plm__cudnn_turned_bytes(const struct plm_cudnn_convolution *convolution)
{
    const struct plm_cudnn_tensor *all[] = {&convolution->image, &convolution->filter,
                                            &convolution->output};
    int64_t bytes = 0;
    for (int i = 0; i < 3; i++)
        if (!plm__cudnn_is_channels_last(all[i]))
            bytes += tensor_bytes(all[i]);
    return bytes ? bytes + 16 : 0;
}

static int64_t power_of_two(int64_t least)
{
    int64_t power = 1;
    while (power < least)
        power *= 2;
    return power;
}

/* The transforms know 32-bit images, one group, neither stride nor dilation, and filters that reach
 * into the padding. */
static bool transforms(const struct plm_cudnn_convolution *c)
{
    if (c->direction == PLM_CUDNN_NO_CONVOLUTION || c->image.rank != 4 ||
        c->image.type != CUDNN_DATA_FLOAT || c->image.strides[3] != 1 ||
        c->image.dimensions[1] != c->filter.dimensions[1])
        return false;
    for (int axis = 0; axis < 2; axis++) {
        int64_t filter = c->filter.dimensions[2 + axis];
        if (c->stride[axis] != 1 || c->dilation[axis] != 1 || filter <= c->padding[axis] ||
            filter > FILTER_MAX)
            return false;
    }
    return true;
}

/* Planes of an image, a filter and an output. */
static void count_planes(const struct plm_cudnn_convolution *c, int64_t *image, int64_t *filter,
                         int64_t *output)
{
    *image = c->image.dimensions[0] * c->image.dimensions[1];
    *filter = c->filter.dimensions[0] * c->filter.dimensions[1];
    *output = c->image.dimensions[0] * c->filter.dimensions[0];
}

/* The longer side of an image with its padding. */
static int64_t padded_side(const struct plm_cudnn_convolution *c)
{
    return larger(c->image.dimensions[2] + 2 * c->padding[0],
                  c->image.dimensions[3] + 2 * c->padding[1]);
}

int64_t plm__cudnn_fft_tiled_bytes(const struct plm_cudnn_convolution *c)
{
    int64_t image, filter, output;
    count_planes(c, &image, &filter, &output);
    int64_t tiles = padded_side(c) <= TILE_SIDE ? 1 : 2;
    return (filter + tiles * (image + output)) * TILE_BYTES;
}

int64_t plm__cudnn_fft_whole_bytes(const struct plm_cudnn_convolution *c)
{
    int64_t image, filter, output, side = power_of_two(padded_side(c));
    count_planes(c, &image, &filter, &output);
    if (c->direction == PLM_CUDNN_DATA_GRADIENT || side > WHOLE_IMAGE_MAX)
        return 0;
    int64_t plane = side * (side / 2 + 1) * 8;
    if (c->direction == PLM_CUDNN_FORWARD)
        return 2 * larger(output, image + filter) * plane + tensor_bytes(&c->filter);
    return 2 * larger(filter, image + output) * plane + tensor_bytes(&c->output);
}

int64_t plm__cudnn_fft_bytes(const struct plm_cudnn_convolution *c)
{
    if (!transforms(c))
        return 0;
    return larger(plm__cudnn_fft_tiled_bytes(c), plm__cudnn_fft_whole_bytes(c));
}
