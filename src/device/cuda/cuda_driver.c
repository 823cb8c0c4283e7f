/* SPDX-License-Identifier: MIT */
/* The driver and the libraries, opened at run time: what is missing is said in one line. */
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "device/cuda/cuda_internal.h"
#include "plimsoll/options.h"

enum { PATH_TEXT = 4096 };

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
    result = driver->cuDriverGetVersion(&version);
    if (result != CUDA_SUCCESS)
        return plm__cuda_fail(driver, result, "cuDriverGetVersion");
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

/* The first library of these that a pattern of folders holds. */
static void *open_in(const char *pattern, const char *const names[])
{
    glob_t found;
    void *library = NULL;
    if (glob(pattern, 0, NULL, &found) != 0)
        return NULL;
    for (size_t i = 0; i < found.gl_pathc && !library; i++)
        for (int k = 0; names[k] && !library; k++) {
            char path[PATH_TEXT];
            snprintf(path, sizeof path, "%s/%s", found.gl_pathv[i], names[k]);
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        }
    globfree(&found);
    return library;
}

/* Where pip puts NVIDIA's libraries: beside each python3 on the path, and in the user's folder. */
static void *open_of_pip(const char *const names[])
{
    static const char *const inside = "lib/python3*/site-packages/nvidia/*/lib";
    char pattern[PATH_TEXT];
    void *library = NULL;
    const char *path = plm_environment("PATH"), *home = plm_environment("HOME");
    for (const char *at = path; at && *at && !library; at += *at == ':') {
        size_t length = strcspn(at, ":");
        snprintf(pattern, sizeof pattern, "%.*s/../%s", (int)length, at, inside);
        library = open_in(pattern, names);
        at += length;
    }
    snprintf(pattern, sizeof pattern, "%s/.local/%s", home ? home : "", inside);
    return library ? library : open_in(pattern, names);
}

void *plm__cuda_library(const char *const names[])
{
    for (int i = 0; names[i]; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    void *library = open_in("/usr/local/cuda*/lib64", names);
    return library ? library : open_of_pip(names);
}
