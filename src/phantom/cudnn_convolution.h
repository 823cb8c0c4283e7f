/* SPDX-License-Identifier: MIT */
/*
 * A convolution as a graph describes it: which of the three products, of what image, filter and
 * output. Backward the gradients stand in the places of what they are gradients of.
 */
#ifndef PLM_PHANTOM_CUDNN_CONVOLUTION_H
#define PLM_PHANTOM_CUDNN_CONVOLUTION_H

#include <stdbool.h>
#include <stdint.h>

enum { PLM_CUDNN_RANK = 8 }; /* CUDNN_DIM_MAX: batch, channels and up to six axes of space */

enum plm_cudnn_direction {
    PLM_CUDNN_NO_CONVOLUTION,
    PLM_CUDNN_FORWARD,
    PLM_CUDNN_FILTER_GRADIENT,
    PLM_CUDNN_DATA_GRADIENT,
};

struct plm_cudnn_tensor {
    int rank;                           /* 4 for images; PyTorch makes 4 of 3 */
    int type;                           /* CUDNN_DATA_FLOAT, ... */
    int64_t dimensions[PLM_CUDNN_RANK]; /* [N,C,H,W]; a filter's [K,C,R,S] */
    int64_t strides[PLM_CUDNN_RANK];    /* in elements, of the same axes */
};

struct plm_cudnn_convolution {
    enum plm_cudnn_direction direction;
    struct plm_cudnn_tensor image, filter, output;
    int64_t padding[PLM_CUDNN_RANK], stride[PLM_CUDNN_RANK], dilation[PLM_CUDNN_RANK];
};

/* How many places of space a tensor has: 1024 for [N,C,32,32], 9 for a filter of 3 x 3. */
int64_t plm__cudnn_places(const struct plm_cudnn_tensor *tensor);

/* A tensor of one channel or of one place is in both layouts at once. */
bool plm__cudnn_is_channels_last(const struct plm_cudnn_tensor *tensor);

/* Whether cuDNN takes a tensor as channels last: of one place it may be either, and its strides say
 * which. */
bool plm__cudnn_strides_are_last(const struct plm_cudnn_tensor *tensor);

/* Bytes of an element, 0 for a type that convolutions do not have. */
int plm__cudnn_element_bytes(int type);

/* Bytes that a tensor core's kernel takes to turn tensors in PyTorch's usual layout (channels
 * before space) to channels last: all that have more than one place, and 16. 0: all are so. */
int64_t plm__cudnn_turned_bytes(const struct plm_cudnn_convolution *convolution);

/* Workspaces of the engines that transform to frequencies, which must apply: in tiles, and of whole
 * images (forward and for a filter's gradient; 0 for images that are too large). */
int64_t plm__cudnn_fft_tiled_bytes(const struct plm_cudnn_convolution *convolution);
int64_t plm__cudnn_fft_whole_bytes(const struct plm_cudnn_convolution *convolution);

/* The largest of them, 0 where none applies. */
int64_t plm__cudnn_fft_bytes(const struct plm_cudnn_convolution *convolution);

#endif
