/* SPDX-License-Identifier: MIT */
/* The kernels, compiled by nvcc and carried inside the module (cmake/cuda.cmake). */
#ifndef PLM_DEVICE_CUDA_CUDA_FATBIN_H
#define PLM_DEVICE_CUDA_CUDA_FATBIN_H

#include <stddef.h>

extern const char plm__cuda_kernels_fatbin[];
extern const size_t plm__cuda_kernels_fatbin_bytes;

#endif
