/* SPDX-License-Identifier: MIT */
/*
 * NVML: what PyTorch's own error messages, torch.cuda.utilization and loggers ask. A device is
 * known by its number + 1; this process is the only one on every device.
 */
#include "phantom/memory.h"
#include "phantom/phantom.h"
#include "phantom/process.h"
#include "phantom/runtime.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NVML_OK = 0, NVML_INVALID_ARGUMENT = 2, NVML_NOT_FOUND = 6, NVML_NO_ROOM = 7 };

static int device_of(const void *handle)
{
    return (int)((uintptr_t)handle - 1);
}

static int give_handle(int device, void **handle)
{
    if (device < 0 || device >= plm__phantom_device()->devices)
        return NVML_NOT_FOUND;
    *handle = (void *)((uintptr_t)device + 1);
    return NVML_OK;
}

PLM_STANDIN(const char *, nvmlErrorString, (int status))
{
    return status ? "not answered by plimsoll's stand-in for NVML" : "Success";
}

PLM_STANDIN(int, nvmlDeviceGetCount_v2, (unsigned *count))
{
    *count = (unsigned)plm__phantom_device()->devices;
    return NVML_OK;
}

PLM_STANDIN(int, nvmlDeviceGetHandleByIndex_v2, (unsigned index, void **handle))
{
    return give_handle((int)index, handle) ? NVML_INVALID_ARGUMENT : NVML_OK;
}

/* "GPU-01000000-...": the first byte of the uuid is the device's number + 1. */
PLM_STANDIN(int, nvmlDeviceGetHandleByUUID, (const char *text, void **handle))
{
    bool known = !strncmp(text, "GPU-", 4);
    return known ? give_handle(plm__phantom_hex(text + 4) - 1, handle) : NVML_NOT_FOUND;
}

/* "00000000:01:00.0": the bus is the device's number + 1. */
PLM_STANDIN(int, nvmlDeviceGetHandleByPciBusId_v2, (const char *text, void **handle))
{
    return give_handle(plm__phantom_bus_device(text), handle);
}

PLM_STANDIN(int, nvmlDeviceGetIndex, (const void *handle, unsigned *index))
{
    *index = (unsigned)device_of(handle);
    return NVML_OK;
}

PLM_STANDIN(int, nvmlDeviceGetName, (const void *handle, char *text, unsigned room))
{
    int length = snprintf(text, room, "%s", plm__phantom_device()->name);
    return (unsigned)length < room ? NVML_OK : NVML_NO_ROOM;
}

PLM_STANDIN(int, nvmlDeviceGetUUID, (const void *handle, char *text, unsigned room))
{
    int length = snprintf(text, room, "GPU-%02x000000-0000-0000-0000-000000000000",
                          (unsigned)device_of(handle) + 1);
    return (unsigned)length < room ? NVML_OK : NVML_NO_ROOM;
}

static size_t used_bytes(const void *handle)
{
    return plm__phantom_device()->memory_bytes - plm__memory_free_bytes(device_of(handle));
}

PLM_STANDIN(int, nvmlDeviceGetMemoryInfo, (const void *handle, uint64_t *bytes))
{
    bytes[0] = plm__phantom_device()->memory_bytes; /* total, free, used */
    bytes[2] = used_bytes(handle);
    bytes[1] = bytes[0] - bytes[2];
    return NVML_OK;
}

struct memory_v2 {
    unsigned version;
    uint64_t total, reserved, free, used;
};

PLM_STANDIN(int, nvmlDeviceGetMemoryInfo_v2, (const void *handle, struct memory_v2 *memory))
{
    memory->total = plm__phantom_device()->memory_bytes;
    memory->reserved = 0;
    memory->used = used_bytes(handle);
    memory->free = memory->total - memory->used;
    return NVML_OK;
}

/* A process of the first form has 16 bytes, later ones 24: after the bytes two numbers of a part of
 * a card, -1 for none. */
struct process_v1 {
    unsigned id;
    uint64_t bytes;
};

struct process_v3 {
    unsigned id;
    uint64_t bytes;
    unsigned instance, compute_instance;
};

PLM_STANDIN(int, nvmlDeviceGetComputeRunningProcesses,
            (const void *handle, unsigned *count, struct process_v1 *processes))
{
    bool room = *count > 0 && processes;
    *count = 1;
    if (room)
        processes[0] = (struct process_v1){(unsigned)getpid(), used_bytes(handle)};
    return room ? NVML_OK : NVML_NO_ROOM;
}

PLM_STANDIN(int, nvmlDeviceGetComputeRunningProcesses_v3,
            (const void *handle, unsigned *count, struct process_v3 *processes))
{
    bool room = *count > 0 && processes;
    *count = 1;
    if (room)
        processes[0] = (struct process_v3){(unsigned)getpid(), used_bytes(handle), ~0u, ~0u};
    return room ? NVML_OK : NVML_NO_ROOM;
}

PLM_STANDIN(int, nvmlDeviceGetGraphicsRunningProcesses_v3,
            (const void *handle, unsigned *count, void *processes))
{
    *count = 0;
    return NVML_OK;
}

/* What loggers draw: an idle device. */
PLM_STANDIN(int, nvmlDeviceGetUtilizationRates, (const void *handle, unsigned *percent))
{
    percent[0] = percent[1] = 0; /* kernels, memory */
    return NVML_OK;
}

PLM_STANDIN(int, nvmlDeviceGetTemperature, (const void *handle, int sensor, unsigned *degrees))
{
    *degrees = 40;
    return NVML_OK;
}

PLM_STANDIN(int, nvmlDeviceGetPowerUsage, (const void *handle, unsigned *milliwatts))
{
    *milliwatts = 100000;
    return NVML_OK;
}

PLM_STANDIN(int, nvmlDeviceGetEnforcedPowerLimit, (const void *handle, unsigned *milliwatts))
{
    *milliwatts = 700000;
    return NVML_OK;
}

PLM_STANDIN(int, nvmlDeviceGetClockInfo, (const void *handle, int clock, unsigned *mhz))
{
    *mhz = (unsigned)plm__phantom_device()->clock_khz / 1000;
    return NVML_OK;
}

PLM_STANDIN(int, nvmlSystemGetDriverVersion, (char *text, unsigned room))
{
    int driver = plm__phantom_device()->driver;
    snprintf(text, room, "CUDA %d.%d", driver / 1000, driver % 1000 / 10);
    return NVML_OK;
}

PLM_STANDIN(int, nvmlSystemGetCudaDriverVersion_v2, (int *version))
{
    *version = plm__phantom_device()->driver;
    return NVML_OK;
}

PLM_STANDIN(int, nvmlDeviceGetCudaComputeCapability, (const void *handle, int *major, int *minor))
{
    *major = plm__phantom_device()->capability / 10;
    *minor = plm__phantom_device()->capability % 10;
    return NVML_OK;
}
