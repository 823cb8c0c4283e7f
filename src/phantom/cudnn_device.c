/* SPDX-License-Identifier: MIT */
/*
 * Writes the JSON that tells cuDNN of the device. What the configuration does not tell is the same
 * on every card from Volta on: grids, blocks and warps, 48 KiB of shared memory without asking, of
 * which the driver keeps 1 KiB back from compute capability 8.0 on.
 */
#include "phantom/cudnn_device.h"

#include "phantom/phantom.h"

#include <stdio.h>

/* A name goes into the text without what would end its string. */
static void quote(const char *name, char *quoted)
{
    for (; *name; name++)
        if (*name != '"' && *name != '\\' && (unsigned char)*name >= ' ')
            *quoted++ = *name;
    *quoted = '\0';
}

void plm__cudnn_device_json(const struct plm_phantom_device *device, char *json)
{
    char name[sizeof device->name];
    quote(device->name, name);
    snprintf(json, PLM_CUDNN_DEVICE_BYTES,
             "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], "
             "\"regsPerBlock\": %d, \"multiProcessorCount\": %d, \"warpSize\": 32, "
             "\"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": %zu, "
             "\"reservedSharedMemoryPerBlock\": %d, \"maxRegistersPerSM\": %d, "
             "\"maxCtasPerSM\": %d, \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": %d, "
             "\"pciDeviceId\": 0, \"isTccDriver\": 0, \"supportCoopLaunch\": 1, "
             "\"totalGlobalMem\": %zu, \"smClockRateKHz\": %d, \"memClockRateKHz\": %d, "
             "\"l2CacheSize\": %zu, \"cudaDeviceId\": 0, \"deviceVer\": %d, \"driverVer\": %d, "
             "\"deviceName\": \"%s\"}",
             device->registers_per_multiprocessor, device->multiprocessors,
             device->shared_bytes_per_block_optin, device->capability >= 80 ? 1024 : 0,
             device->registers_per_multiprocessor, device->blocks_per_multiprocessor,
             device->threads_per_multiprocessor, device->memory_bytes, device->clock_khz,
             device->memory_clock_khz, device->l2_bytes, device->capability * 10, device->driver,
             name);
}
