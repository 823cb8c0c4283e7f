/* SPDX-License-Identifier: MIT */
/*
 * The workspaces of the CUDA rows of kernels.def, as pure functions of shape. They hold for the
 * plan and for the backend alike: the plan asks them for a GPU that is not there, and a backend
 * lives within them, dropping what a library would do with more. So a plan for an absent GPU is the
 * plan that the GPU runs.
 */
#ifndef PLM_DEVICE_TARGET_CUDA_WORKSPACE_H
#define PLM_DEVICE_TARGET_CUDA_WORKSPACE_H

#include "device/device.h"

enum {
    PLM_CUDA_ROW_MULTIPLE = 64, /* device.h's row_multiple: rows of whole cache lines in 16 bits */
    PLM_CUDA_GRAPH_BYTES = 256, /* that cuDNN's attention takes at most besides its sums */
    PLM_CUDA_SUMS_MULTIPLE = 8, /* positions that cuDNN rounds up to in sums of its own */
    PLM_CUDA_SORT_TILE = 4096,  /* ids that a block of threads sorts by one digit */
    PLM_CUDA_SORT_DIGITS = 256  /* values of a digit of 8 bits */
};

/* Into how many parts the sums over `rows` rows are cut, each summed by a block of threads. */
int32_t plm__cuda_row_parts(int64_t rows);

/* *bytes = dq [heads, length, size] summed in fp32, `heads` of all sequences. Where the sums are
 * cuDNN's own, the length is rounded up to PLM_CUDA_SUMS_MULTIPLE, and so it is for all: the
 * workspace is one for every GPU. PLM_ERROR_OVERFLOW. */
PLM_MUST_USE plm_status plm__cuda_attention_sums(int64_t heads, int64_t length, int64_t size,
                                                 size_t *bytes);

/* *bytes = workspace of the launch; its data is not looked at. PLM_ERROR_UNSUPPORTED without a row,
 * PLM_ERROR_OVERFLOW. */
PLM_MUST_USE plm_status plm__cuda_workspace(const plm_launch *launch, size_t *bytes);

#endif
