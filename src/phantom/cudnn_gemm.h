/* SPDX-License-Identifier: MIT */
/*
 * cuDNN's engines that leave a convolution of 1 x 1 filters to cuBLAS, as a product of matrices.
 * Without a card they are turned away (cudnn_rejected.h), so their workspace is worked out here.
 */
#ifndef PLM_PHANTOM_CUDNN_GEMM_H
#define PLM_PHANTOM_CUDNN_GEMM_H

#include <stdint.h>

struct plm_cudnn_convolution;

/* The engine's number in cuDNN 9.10 to 9.19, 0 where the filter has more than one place. */
int plm__cudnn_gemm_engine(const struct plm_cudnn_convolution *convolution);

/* The workspace, on a device of so many multiprocessors: fitted to an H200's answers, of which
 * three quarters are met to the byte. Elsewhere off by flags (400 bytes) as a rule where channels
 * come before space; an estimate for a filter's gradient with channels last. */
int64_t plm__cudnn_gemm_bytes(const struct plm_cudnn_convolution *convolution, int multiprocessors);

#endif
