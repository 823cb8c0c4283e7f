/* SPDX-License-Identifier: MIT */
/*
 * Elements of the three types as kernels work on them: read to fp32, reckoned with in fp32, rounded
 * once where they are stored. A *pack* is 16 bytes of neighbours, which one thread moves at once.
 *
 * TYPED(name, ...) makes a kernel for each type: name_fp32, name_bf16, name_fp16, found by these
 * names when the module is loaded.
 */
#ifndef PLM_CUDA_VALUES_CUH
#define PLM_CUDA_VALUES_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;
typedef __half fp16;

__device__ static inline float get(float x)
{
    return x;
}
__device__ static inline float get(bf16 x)
{
    return __bfloat162float(x);
}
__device__ static inline float get(fp16 x)
{
    return __half2float(x);
}

template <typename T> __device__ static inline T put(float x);
template <> __device__ inline float put<float>(float x)
{
    return x;
}
template <> __device__ inline bf16 put<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}
template <> __device__ inline fp16 put<fp16>(float x)
{
    return __float2half_rn(x);
}

template <typename T> struct alignas(16) pack {
    enum { COUNT = 16 / sizeof(T) };
    T at[COUNT];
};

__device__ static inline bool is_aligned(const void *pointer)
{
    return ((uintptr_t)pointer & 15) == 0;
}

/* The place of this thread among all of a one-dimensional grid, and how many there are. */
__device__ static inline int64_t thread_of_grid(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ static inline int64_t threads_of_grid(void)
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* The row that this thread's warp works on, in a grid of one warp a row. */
__device__ static inline int64_t row_of_warp(void)
{
    return ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;
}

__device__ static inline float warp_sum(float value)
{
    for (int lane = 16; lane > 0; lane /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, lane);
    return value;
}

__device__ static inline float warp_max(float value)
{
    for (int lane = 16; lane > 0; lane /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lane));
    return value;
}

/* The sum over a block of at most 1024 threads, the same in every thread, in a fixed order. */
template <typename S> __device__ static inline S block_sum(S value, S *room /* 32 */)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
    __syncthreads();
    if (lane == 0)
        room[warp] = value;
    __syncthreads();
    S sum = 0;
    for (int i = 0; i < warps; i++)
        sum += room[i];
    return sum;
}

__device__ static inline float block_max(float value, float *room /* 32 */)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    value = warp_max(value);
    __syncthreads();
    if (lane == 0)
        room[warp] = value;
    __syncthreads();
    float most = room[0];
    for (int i = 1; i < warps; i++)
        most = fmaxf(most, room[i]);
    return most;
}

#define TYPED(name, parameters, ...)                                                               \
    extern "C" __global__ void name##_fp32 parameters(float)                                       \
    {                                                                                              \
        name<float> __VA_ARGS__;                                                                   \
    }                                                                                              \
    extern "C" __global__ void name##_bf16 parameters(bf16)                                        \
    {                                                                                              \
        name<bf16> __VA_ARGS__;                                                                    \
    }                                                                                              \
    extern "C" __global__ void name##_fp16 parameters(fp16)                                        \
    {                                                                                              \
        name<fp16> __VA_ARGS__;                                                                    \
    }

#endif
