/* SPDX-License-Identifier: MIT */
/*
 * The few functions of NVML that are used, declared here: their names, numbers and structures are
 * part of NVML's stable interface, and its header is not there where nothing of CUDA is installed.
 */
#include "nvml/nvml.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

typedef struct nvml_device *nvml_handle;

/* nvmlProcessInfo_t, as version 2 and 3 of the lists fill it. */
typedef struct process_info {
    unsigned pid;
    unsigned long long used_bytes; /* all ones: not available */
    unsigned gpu_instance, compute_instance;
} process_info;

enum { NVML_OK = 0, PROCESSES_MAX = 256 };

struct plm_nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*find)(const char *bus_id, nvml_handle *device);
    int (*processes)(nvml_handle device, unsigned *count, process_info *infos);
};

static plm_status find_calls(plm_nvml *nvml)
{
    const struct {
        const char *name;
        void *to;
    } calls[] = {
        {"nvmlInit_v2", &nvml->init},
        {"nvmlShutdown", &nvml->shutdown},
        {"nvmlDeviceGetHandleByPciBusId_v2", &nvml->find},
        {"nvmlDeviceGetComputeRunningProcesses_v3", &nvml->processes},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *found = dlsym(nvml->library, calls[i].name);
        PLM_FAIL_IF(!found, PLM_ERROR_UNSUPPORTED, "libnvidia-ml.so.1 lacks %s; wanted a newer one",
                    calls[i].name);
        memcpy(calls[i].to, &found, sizeof found);
    }
    return PLM_OK;
}

plm_status plm__nvml_open(plm_nvml **nvml)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    PLM_FAIL_IF(!library, PLM_ERROR_UNSUPPORTED,
                "libnvidia-ml.so.1 was not found: there is no NVIDIA driver on this machine");
    plm_nvml *made = NULL;
    plm_status status = plm__host_alloc(sizeof *made, &made);
    if (status != PLM_OK) {
        dlclose(library);
        return status;
    }
    made->library = library;
    status = find_calls(made);
    if (status == PLM_OK && made->init() != NVML_OK)
        status =
            plm_fail(PLM_ERROR_UNSUPPORTED, "NVML refuses to begin: no GPU, or no right to it");
    if (status != PLM_OK) {
        dlclose(library);
        plm__host_free(made);
        return status;
    }
    *nvml = made;
    return PLM_OK;
}

void plm__nvml_close(plm_nvml *nvml)
{
    if (!nvml)
        return;
    nvml->shutdown();
    dlclose(nvml->library);
    plm__host_free(nvml);
}

plm_status plm__nvml_process_bytes(plm_nvml *nvml, const char *bus_id, int64_t pid, size_t *bytes)
{
    nvml_handle device = NULL;
    process_info infos[PROCESSES_MAX];
    unsigned count = PROCESSES_MAX;
    memset(infos, 0, sizeof infos);
    PLM_FAIL_IF(nvml->find(bus_id, &device) != NVML_OK, PLM_ERROR_UNSUPPORTED,
                "NVML knows no GPU %s", bus_id);
    PLM_FAIL_IF(nvml->processes(device, &count, infos) != NVML_OK, PLM_ERROR_UNSUPPORTED,
                "NVML does not list the processes of GPU %s", bus_id);
    if (pid == 0)
        pid = getpid();
    for (unsigned i = 0; i < count && i < PROCESSES_MAX; i++)
        if ((int64_t)infos[i].pid == pid && infos[i].used_bytes != ~0ULL) {
            *bytes = (size_t)infos[i].used_bytes;
            return PLM_OK;
        }
    return plm_fail(PLM_ERROR_UNSUPPORTED, "NVML lists %u processes on GPU %s, not this one", count,
                    bus_id);
}
