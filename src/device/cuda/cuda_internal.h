/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the CUDA device share. The device speaks to the driver alone: libcuda is opened
 * at run time, kernels are loaded as a module, and no CUDA runtime is linked. cuBLASLt and cuDNN
 * are opened likewise. One thread drives a device, on one stream, and copies on another.
 */
#ifndef PLM_DEVICE_CUDA_CUDA_INTERNAL_H
#define PLM_DEVICE_CUDA_CUDA_INTERNAL_H

#include <cuda.h>

#include "base/status.h"
#include "device/cuda_module.h"
#include "device/device.h"

/* The driver's functions that are used. cuda.h turns some names into others (cuMemAlloc_v2), here
 * and where they are called alike. */
#define PLM_CUDA_CALLS(ROW)                                                                        \
    ROW(cuInit)                                                                                    \
    ROW(cuDriverGetVersion)                                                                        \
    ROW(cuGetErrorName)                                                                            \
    ROW(cuGetErrorString)                                                                          \
    ROW(cuDeviceGetCount)                                                                          \
    ROW(cuDeviceGet)                                                                               \
    ROW(cuDeviceGetName)                                                                           \
    ROW(cuDeviceGetAttribute)                                                                      \
    ROW(cuDeviceGetPCIBusId)                                                                       \
    ROW(cuDevicePrimaryCtxRetain)                                                                  \
    ROW(cuDevicePrimaryCtxRelease)                                                                 \
    ROW(cuCtxSetCurrent)                                                                           \
    ROW(cuModuleLoadData)                                                                          \
    ROW(cuModuleUnload)                                                                            \
    ROW(cuModuleGetFunction)                                                                       \
    ROW(cuFuncSetAttribute)                                                                        \
    ROW(cuFuncGetAttribute)                                                                        \
    ROW(cuLaunchKernel)                                                                            \
    ROW(cuStreamCreate)                                                                            \
    ROW(cuStreamDestroy)                                                                           \
    ROW(cuStreamSynchronize)                                                                       \
    ROW(cuStreamWaitEvent)                                                                         \
    ROW(cuStreamBeginCapture)                                                                      \
    ROW(cuStreamEndCapture)                                                                        \
    ROW(cuGraphInstantiate)                                                                        \
    ROW(cuGraphLaunch)                                                                             \
    ROW(cuGraphExecDestroy)                                                                        \
    ROW(cuGraphDestroy)                                                                            \
    ROW(cuEventCreate)                                                                             \
    ROW(cuEventDestroy)                                                                            \
    ROW(cuEventRecord)                                                                             \
    ROW(cuEventSynchronize)                                                                        \
    ROW(cuEventElapsedTime)                                                                        \
    ROW(cuMemcpyAsync)                                                                             \
    ROW(cuMemcpyHtoDAsync)                                                                         \
    ROW(cuMemcpyDtoHAsync)                                                                         \
    ROW(cuMemsetD8Async)                                                                           \
    ROW(cuMemGetInfo)                                                                              \
    ROW(cuMemGetAllocationGranularity)                                                             \
    ROW(cuMemAddressReserve)                                                                       \
    ROW(cuMemAddressFree)                                                                          \
    ROW(cuMemCreate)                                                                               \
    ROW(cuMemRelease)                                                                              \
    ROW(cuMemMap)                                                                                  \
    ROW(cuMemUnmap)                                                                                \
    ROW(cuMemSetAccess)                                                                            \
    ROW(cuMemHostAlloc)                                                                            \
    ROW(cuMemFreeHost)

typedef struct plm_cuda_driver {
#define PLM_CUDA_FIELD(name)  PLM_CUDA_FIELD_(name)
#define PLM_CUDA_FIELD_(name) __typeof__(name) *name;
    PLM_CUDA_CALLS(PLM_CUDA_FIELD)
#undef PLM_CUDA_FIELD_
#undef PLM_CUDA_FIELD
    void *library;
} plm_cuda_driver;

typedef struct plm_cuda_kernels plm_cuda_kernels;
typedef struct plm_cuda_products plm_cuda_products;
typedef struct plm_cuda_graphs plm_cuda_graphs; /* cuDNN's, of attention */

typedef struct plm_cuda {
    plm_device base;
    plm_cuda_driver driver;
    CUdevice number;
    CUcontext context;
    CUstream stream; /* of PLM_QUEUE_COMPUTE */
    CUstream copies; /* of PLM_QUEUE_COPY */
    plm_cuda_kernels *kernels;
    plm_cuda_products *products;
    plm_cuda_graphs *graphs;
    size_t overhead_bytes;               /* this process's on the device before the arena */
    size_t page_bytes;                   /* what the driver maps at once */
    CUmemGenericAllocationHandle memory; /* of the arena */
    size_t mapped_bytes;
    bool deterministic;   /* the same bits on every run, whatever it costs */
    int32_t processors;   /* multiprocessors */
    int32_t shared_bytes; /* that a block may have */
} plm_cuda;

/* The head of what a launch is prepared into. */
typedef struct plm_cuda_prepared {
    void (*forget)(plm_cuda *cuda, void *prepared);
} plm_cuda_prepared;

/* Fails with the driver's own word for what happened, and what was being done. */
#define PLM_CUDA_TRY(cuda, call)                                                                   \
    do {                                                                                           \
        CUresult result_ = (cuda)->driver.call;                                                    \
        if (result_ != CUDA_SUCCESS)                                                               \
            return plm__cuda_fail(&(cuda)->driver, result_, #call);                                \
    } while (0)

/* PLM_ERROR_DEVICE, or PLM_ERROR_DEVICE_MEMORY where the driver has none left. */
PLM_MUST_USE plm_status plm__cuda_fail(const plm_cuda_driver *driver, CUresult result,
                                       const char *what);

/* Opens libcuda and finds every function. PLM_ERROR_UNSUPPORTED says what to install. */
PLM_MUST_USE plm_status plm__cuda_driver_open(plm_cuda_driver *driver);
void plm__cuda_driver_close(plm_cuda_driver *driver);

/* The arena: see cuda_memory.c. */
PLM_MUST_USE plm_status plm__cuda_reserve(plm_device *device, size_t bytes, void **region);
void plm__cuda_release(plm_device *device, void *region, size_t bytes);
PLM_MUST_USE plm_status plm__cuda_process_bytes(plm_cuda *cuda, size_t *bytes);

/* Our own kernels: all are loaded at once. */
PLM_MUST_USE plm_status plm__cuda_kernels_load(plm_cuda *cuda);
void plm__cuda_kernels_unload(plm_cuda *cuda);
bool plm__cuda_kernels_take(const plm_launch *launch);
PLM_MUST_USE plm_status plm__cuda_kernels_check(plm_cuda *cuda, const plm_launch *launch);
PLM_MUST_USE plm_status plm__cuda_kernels_launch(plm_cuda *cuda, const plm_launch *launch);

/* scores[m,i,j] = value where j > i, on `rows` rows of `width` */
PLM_MUST_USE plm_status plm__cuda_mask_future(plm_cuda *cuda, void *scores, plm_dtype dtype,
                                              int64_t rows, int32_t width, float value);

/* Products through cuBLASLt: cuda_product.c. */
PLM_MUST_USE plm_status plm__cuda_products_open(plm_cuda *cuda);
void plm__cuda_products_close(plm_cuda *cuda);
bool plm__cuda_products_take(const plm_launch *launch);
PLM_MUST_USE plm_status plm__cuda_products_prepare(plm_cuda *cuda, const plm_launch *launch,
                                                   void **prepared);
void plm__cuda_products_forget(plm_cuda *cuda, void *prepared);
PLM_MUST_USE plm_status plm__cuda_products_launch(plm_cuda *cuda, const plm_launch *launch,
                                                  void *prepared);

/* Attention through cuDNN's graph interface: cuda_attention.c. */
PLM_MUST_USE plm_status plm__cuda_graphs_open(plm_cuda *cuda);
void plm__cuda_graphs_close(plm_cuda *cuda);
bool plm__cuda_graphs_take(const plm_cuda *cuda, const plm_launch *launch);
PLM_MUST_USE plm_status plm__cuda_graphs_prepare(plm_cuda *cuda, const plm_launch *launch,
                                                 void **prepared);
void plm__cuda_graphs_forget(plm_cuda *cuda, void *prepared);
PLM_MUST_USE plm_status plm__cuda_graphs_launch(plm_cuda *cuda, const plm_launch *launch,
                                                void *prepared);

/* Opens a library by one of its names, ended by NULL: where the loader finds it, in CUDA's folders,
 * where pip puts it. NULL where it is not. */
void *plm__cuda_library(const char *const names[]);

#endif
