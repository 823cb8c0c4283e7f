/* SPDX-License-Identifier: MIT */
/* The driver and the libraries, opened at run time: what is missing is said in one line. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "device/cuda/cuda_internal.h"

enum { DRIVER_LEAST = 12000 }; /* CUDA 12.0: virtual memory, graphs and modules as used here */

plm_status plm__cuda_fail(const plm_cuda_driver *driver, CUresult result, const char *what)
{
    const char *name = "an error", *text = "that the driver has no name for";
    driver->cuGetErrorName(result, &name);
    driver->cuGetErrorString(result, &text);
    return plm_fail(result == CUDA_ERROR_OUT_OF_MEMORY ? PLM_ERROR_DEVICE_MEMORY : PLM_ERROR_DEVICE,
                    "the GPU's driver refused %.40s: %s, %s", what, name, text);
}

static plm_status find_calls(plm_cuda_driver *driver)
{
#define FIND(name) FIND_(name)
#define FIND_(name)                                                                                \
    {                                                                                              \
        void *found = dlsym(driver->library, #name);                                               \
        PLM_FAIL_IF(!found, PLM_ERROR_UNSUPPORTED,                                                 \
                    "the GPU's driver lacks %s; wanted one for CUDA 12 or newer", #name);          \
        memcpy(&driver->name, &found, sizeof found);                                               \
    }
    PLM_CUDA_CALLS(FIND)
#undef FIND_
#undef FIND
    return PLM_OK;
}

plm_status plm__cuda_driver_open(plm_cuda_driver *driver)
{
    int version = 0;
    driver->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    PLM_FAIL_IF(!driver->library, PLM_ERROR_UNSUPPORTED,
                "there is no NVIDIA driver on this machine: libcuda.so.1 was not found; install "
                "the driver, or run with the cpu");
    PLM_TRY(find_calls(driver));
    CUresult result = driver->cuInit(0);
    PLM_FAIL_IF(result == CUDA_ERROR_NO_DEVICE, PLM_ERROR_UNSUPPORTED,
                "the NVIDIA driver sees no GPU; look at CUDA_VISIBLE_DEVICES and nvidia-smi");
    if (result != CUDA_SUCCESS)
        return plm__cuda_fail(driver, result, "cuInit");
    driver->cuDriverGetVersion(&version);
    PLM_FAIL_IF(version < DRIVER_LEAST, PLM_ERROR_UNSUPPORTED,
                "the NVIDIA driver is for CUDA %d.%d; wanted one for CUDA 12.0 or newer",
                version / 1000, version % 1000 / 10);
    return PLM_OK;
}

void plm__cuda_driver_close(plm_cuda_driver *driver)
{
    if (driver->library)
        dlclose(driver->library);
    driver->library = NULL;
}

void *plm__cuda_library(const char *const names[], const char *pip_folder)
{
    (void)pip_folder;
    for (int i = 0; names[i]; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    return NULL;
}
