/* SPDX-License-Identifier: MIT */
/*
 * cuDNN's handle: zeros, long enough for whatever the real library reads of one. It answers for
 * sizes and descriptors before it looks at the device that a handle is for. What the stand-in
 * itself keeps, the stream, comes after what the real library may read.
 */
#include "phantom/cudnn_abi.h"
#include "phantom/phantom.h"
#include "phantom/process.h"

enum { ZEROS_BYTES = 1 << 20 };

struct handle {
    char zeros[ZEROS_BYTES];
    void *stream;
};

PLM_STANDIN(int, cudnnCreate, (void **handle))
{
    *handle = plm__phantom_table(sizeof(struct handle));
    return CUDNN_STATUS_SUCCESS;
}

/* PyTorch keeps its few handles to the end; one that goes leaves its address space behind. */
PLM_STANDIN(int, cudnnDestroy, (void *handle))
{
    return CUDNN_STATUS_SUCCESS;
}

PLM_STANDIN(int, cudnnSetStream, (void *handle, void *stream))
{
    ((struct handle *)handle)->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

PLM_STANDIN(int, cudnnGetStream, (void *handle, void **stream))
{
    *stream = ((struct handle *)handle)->stream;
    return CUDNN_STATUS_SUCCESS;
}
