/* SPDX-License-Identifier: MIT */
/*
 * cuDNN's older interface where sizes come out of it: recurrent networks, dropout and batch norm.
 * The real library answers, given a handle of zeros. It writes the size and only then asks for
 * the device, so its status is of no account (5003 from cudnnGetRNNTempSpaceSizes); what counts is
 * that it wrote. Descriptors are made, set and read by the real library itself: the stand-in has no
 * functions for that.
 *
 * CTC's workspace and all of convolutions' older interface, which PyTorch uses only under
 * TORCH_CUDNN_V8_API_DISABLED, are not told so (3000, and nothing written): rows of functions.def
 * let them fail by name.
 */
#include "phantom/cudnn_abi.h"
#include "phantom/cudnn_real.h"
#include "phantom/phantom.h"

/* No size is so large: what the real library did not write stays so. */
static const size_t UNWRITTEN = SIZE_MAX;

/* The status after a call that should have written `bytes`. */
static int written(const char *name, bool *asked, size_t *bytes)
{
    if (*bytes != UNWRITTEN)
        return CUDNN_STATUS_SUCCESS;
    *bytes = 0;
    plm__phantom_size_unknown(name, asked);
    return CUDNN_STATUS_NOT_SUPPORTED;
}

/* The head of a function whose one size, its last parameter `bytes`, the real library writes. */
#define PLM_REAL_SIZE(name, parameters, arguments)                                                 \
    PLM_STANDIN(int, name, parameters)                                                             \
    {                                                                                              \
        static bool asked;                                                                         \
        int(*real) parameters = (int(*) parameters)(uintptr_t)plm__cudnn_function(#name);          \
        *bytes = UNWRITTEN;                                                                        \
        real arguments;                                                                            \
        return written(#name, &asked, bytes);                                                      \
    }

/* States of the generator: 24 bytes for each thread that the device holds, 6,488,064 on an H200. */
PLM_STANDIN(int, cudnnDropoutGetStatesSize, (void *handle, size_t *bytes))
{
    const struct plm_phantom_device *device = plm__phantom_device();
    *bytes = (size_t)device->multiprocessors * (size_t)device->threads_per_multiprocessor * 24;
    return CUDNN_STATUS_SUCCESS;
}

/* Setting would run a kernel that seeds the states; restoring describes the same and runs none. */
PLM_STANDIN(int, cudnnSetDropoutDescriptor,
            (void *dropout, void *handle, float rate, void *states, size_t bytes,
             unsigned long long seed))
{
    int (*restore)(void *, void *, float, void *, size_t, unsigned long long) =
        (int (*)(void *, void *, float, void *, size_t, unsigned long long))(
            uintptr_t)plm__cudnn_function("cudnnRestoreDropoutDescriptor");
    return restore(dropout, handle, rate, states, bytes, seed);
}

PLM_REAL_SIZE(cudnnGetRNNWeightSpaceSize, (void *handle, void *rnn, size_t *bytes),
              (handle, rnn, bytes))

PLM_STANDIN(int, cudnnGetRNNTempSpaceSizes,
            (void *handle, void *rnn, int mode, void *data, size_t *work, size_t *reserve))
{
    static bool asked;
    int (*real)(void *, void *, int, void *, size_t *, size_t *) =
        (int (*)(void *, void *, int, void *, size_t *, size_t *))(uintptr_t)plm__cudnn_function(
            "cudnnGetRNNTempSpaceSizes");
    size_t unused = UNWRITTEN;
    size_t *reserved = reserve ? reserve : &unused; /* inference has no need of a reserve */
    *work = *reserved = UNWRITTEN;
    real(handle, rnn, mode, data, work, reserved);
    if (*reserved == UNWRITTEN && *work != UNWRITTEN)
        *reserved = 0;
    return written("cudnnGetRNNTempSpaceSizes", &asked, work);
}

PLM_REAL_SIZE(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize,
              (void *handle, int mode, int operations, void *x, void *z, void *y, void *scale,
               void *activation, size_t *bytes),
              (handle, mode, operations, x, z, y, scale, activation, bytes))

PLM_REAL_SIZE(cudnnGetBatchNormalizationBackwardExWorkspaceSize,
              (void *handle, int mode, int operations, void *x, void *y, void *dy, void *dz,
               void *dx, void *scale, void *activation, size_t *bytes),
              (handle, mode, operations, x, y, dy, dz, dx, scale, activation, bytes))

PLM_REAL_SIZE(cudnnGetBatchNormalizationTrainingExReserveSpaceSize,
              (void *handle, int mode, int operations, void *activation, void *x, size_t *bytes),
              (handle, mode, operations, activation, x, bytes))
