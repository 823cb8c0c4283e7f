/* SPDX-License-Identifier: MIT */
/* The CUDA runtime: each thread's last error, and what errors are called. */
#include "phantom/memory.h"
#include "phantom/phantom.h"
#include "phantom/refused.h"
#include "phantom/runtime.h"

#include <stdio.h>

static __thread int last_error;

static const struct {
    int status;
    const char *name, *text;
} errors[] = {
    {PLM_CUDA_OK, "cudaSuccess", "no error"},
    {PLM_CUDA_INVALID_VALUE, "cudaErrorInvalidValue", "invalid argument"},
    {PLM_CUDA_OUT_OF_MEMORY, "cudaErrorMemoryAllocation", "out of memory"},
    {100, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {PLM_CUDA_INVALID_DEVICE, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {PLM_CUDA_NO_CODE, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {PLM_CUDA_INVALID_HANDLE, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {PLM_CUDA_NOT_FOUND, "cudaErrorSymbolNotFound", "named symbol not found"},
    {PLM_CUDA_ALREADY_REGISTERED, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {PLM_CUDA_NOT_SUPPORTED, "cudaErrorNotSupported", ""}, /* its text names the function */
    {PLM_CUDA_CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {PLM_CUDA_CAPTURE_UNMATCHED, "cudaErrorStreamCaptureUnmatched",
     "capture was not initiated in this stream"},
};

static int find(int status)
{
    int count = (int)(sizeof errors / sizeof errors[0]);
    for (int i = 0; i < count; i++)
        if (errors[i].status == status)
            return i;
    return -1;
}

int plm__runtime_status(int status)
{
    if (status)
        last_error = status;
    return status;
}

const char *plm__runtime_error_name(int status)
{
    int at = find(status);
    return at < 0 ? "cudaErrorUnknown" : errors[at].name;
}

const char *plm__runtime_error_text(int status)
{
    if (status == PLM_CUDA_NOT_SUPPORTED) {
        static __thread char text[160];
        snprintf(text, sizeof text, "%s is not answered by plimsoll's stand-in for the GPU",
                 plm__refused_name());
        return text;
    }
    int at = find(status);
    return at < 0 ? "unknown error" : errors[at].text;
}

PLM_STANDIN(const char *, cudaGetErrorString, (int status))
{
    return plm__runtime_error_text(status);
}

PLM_STANDIN(const char *, cudaGetErrorName, (int status))
{
    return plm__runtime_error_name(status);
}

PLM_STANDIN(int, cudaGetLastError, (void))
{
    int status = last_error;
    last_error = 0;
    return status;
}

PLM_STANDIN(int, cudaPeekAtLastError, (void))
{
    return last_error;
}
