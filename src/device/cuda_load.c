/* SPDX-License-Identifier: MIT */
/*
 * The module for NVIDIA GPUs, found and loaded at run time: beside the program, in lib/plimsoll
 * next to it, and where PLIMSOLL_CUDA says. What the module needs of the program is lent to it as
 * functions (device/cuda_module.h). Once loaded it stays, for devices run its code.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/host.h"
#include "device/cuda_load.h"
#include "device/cuda_module.h"
#include "nvml/nvml.h"
#include "plimsoll/options.h"

enum { PATH_TEXT = 4096 };

static void fail(const char *file, int line, plm_status status, const char *message)
{
    plm__fail_at(file, line, status, "%s", message);
}

static void bug(const char *file, int line, const char *message)
{
    plm__bug_at(file, line, "%s", message);
}

static plm_status process_bytes(const char *bus_id, size_t *bytes)
{
    plm_nvml *nvml = NULL;
    PLM_TRY(plm__nvml_open(&nvml));
    plm_status status = plm__nvml_process_bytes(nvml, bus_id, 0, bytes);
    plm__nvml_close(nvml);
    return status;
}

static const plm_cuda_host host = {.fail = fail,
                                   .fail_oom = plm__fail_oom,
                                   .bug = bug,
                                   .alloc = plm__host_alloc,
                                   .realloc = plm__host_realloc,
                                   .free = plm__host_free,
                                   .environment = plm_environment,
                                   .process_bytes = process_bytes};

/* The folder of the running program, without the last slash; "" where it cannot be told. */
static void program_folder(char folder[PATH_TEXT])
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_TEXT - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
}

static void *load(void)
{
    char folder[PATH_TEXT], path[PATH_TEXT + 64];
    const char *given = plm_environment("PLIMSOLL_CUDA");
    if (given)
        return dlopen(given, RTLD_NOW | RTLD_LOCAL);
    program_folder(folder);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path,
                 i == 0 ? "%s/plimsoll_cuda.so" : "%s/../lib/plimsoll/plimsoll_cuda.so", folder);
        if (access(path, R_OK) == 0)
            return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return NULL;
}

plm_status plm__cuda_create(int32_t ordinal, size_t cap_bytes, plm_device **device)
{
    void *module = load(), *found = module ? dlsym(module, PLM_CUDA_OPEN) : NULL;
    plm_cuda_open *open;
    PLM_FAIL_IF(!found, PLM_ERROR_UNSUPPORTED,
                "the module for GPUs, plimsoll_cuda.so, was not found beside the program or in "
                "../lib/plimsoll, or cannot be loaded; build where nvcc is, or name the file in "
                "PLIMSOLL_CUDA");
    memcpy(&open, &found, sizeof open);
    return open(&host, &(plm_cuda_wanted){.ordinal = ordinal, .cap_bytes = cap_bytes}, device);
}
