/* SPDX-License-Identifier: MIT */
/*
 * The CUDA runtime: which devices there are and what they are. cudaDeviceProp has 1032 bytes in
 * CUDA 12 and 1008 in CUDA 13, with most fields at other offsets; a table says where each lies and
 * which attribute has the same value. scripts/check-phantom-abi compares the offsets with a
 * toolkit's headers. CUDA_VISIBLE_DEVICES is not looked at: the devices are those of the
 * configuration, whatever the machine at hand hides.
 */
#include "phantom/runtime.h"

#include "phantom/memory.h"
#include "phantom/phantom.h"
#include "phantom/process.h"
#include "phantom/properties.h"

#include <stdio.h>
#include <string.h>

static uint64_t value_of(const struct plm_property *property, int device)
{
    const struct plm_phantom_device *here = plm__phantom_device();
    switch (property->source) {
    case PLM_PROPERTY_FIXED:
        return property->value;
    case PLM_PROPERTY_NUMBER:
        return (uint64_t) * (const int *)(const void *)((const char *)here + property->value);
    case PLM_PROPERTY_BYTES:
        return *(const size_t *)(const void *)((const char *)here + property->value);
    case PLM_PROPERTY_MAJOR:
        return (uint64_t)here->capability / 10;
    case PLM_PROPERTY_MINOR:
        return (uint64_t)here->capability % 10;
    case PLM_PROPERTY_BUS:
        return (uint64_t)device + 1;
    case PLM_PROPERTY_FROM:
        return (uint64_t)here->capability >= property->value;
    case PLM_PROPERTY_RESERVED_SHARED:
        return here->capability >= 80 ? 1024 : 0;
    }
    return 0;
}

int plm__runtime_attribute(int attribute, int device)
{
    for (int i = 0; i < plm__property_count; i++)
        if (plm__properties[i].attribute == attribute)
            return (int)value_of(&plm__properties[i], device);
    return 0;
}

static int describe(char *properties, int device, bool twelve)
{
    if (device < 0 || device >= plm__phantom_device()->devices)
        return plm__runtime_status(PLM_CUDA_INVALID_DEVICE);
    memset(properties, 0, twelve ? PLM_PROPERTIES_12_BYTES : PLM_PROPERTIES_13_BYTES);
    snprintf(properties, 256, "%s", plm__phantom_device()->name);
    properties[PLM_PROPERTIES_UUID_OFFSET] = (char)(device + 1);
    for (int i = 0; i < plm__property_count; i++) {
        const struct plm_property *property = &plm__properties[i];
        int offset = twelve ? property->offset_12 : property->offset_13;
        uint64_t value = value_of(property, device);
        if (offset >= 0) /* little-endian: the low bytes come first */
            memcpy(properties + offset, &value, (size_t)property->bytes);
    }
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaGetDeviceProperties, (void *properties, int device))
{
    return describe(properties, device, plm__phantom_cuda() == 12);
}

/* CUDA 12's name for the structure that CUDA 12 has. */
PLM_STANDIN(int, cudaGetDeviceProperties_v2, (void *properties, int device))
{
    return describe(properties, device, true);
}

PLM_STANDIN(int, cudaDeviceGetAttribute, (int *value, int attribute, int device))
{
    if (device < 0 || device >= plm__phantom_device()->devices)
        return plm__runtime_status(PLM_CUDA_INVALID_DEVICE);
    *value = plm__runtime_attribute(attribute, device);
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaGetDeviceCount, (int *count))
{
    *count = plm__phantom_device()->devices;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaGetDevice, (int *device))
{
    *device = plm__phantom_current();
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaSetDevice, (int device))
{
    return plm__phantom_select(device) ? PLM_CUDA_OK : plm__runtime_status(PLM_CUDA_INVALID_DEVICE);
}

PLM_STANDIN(int, cudaInitDevice, (int device, unsigned device_flags, unsigned flags))
{
    bool there = device >= 0 && device < plm__phantom_device()->devices;
    return there ? PLM_CUDA_OK : plm__runtime_status(PLM_CUDA_INVALID_DEVICE);
}

PLM_STANDIN(int, cudaDriverGetVersion, (int *version))
{
    *version = plm__phantom_device()->driver;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaRuntimeGetVersion, (int *version))
{
    *version = plm__phantom_runtime_version();
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaDeviceGetStreamPriorityRange, (int *least, int *greatest))
{
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaDeviceCanAccessPeer, (int *can, int device, int peer))
{
    *can = device != peer;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaDeviceGetPCIBusId, (char *text, int room, int device))
{
    snprintf(text, (size_t)room, "0000:%02x:00.0", (unsigned)device + 1);
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaDeviceGetByPCIBusId, (int *device, const char *text))
{
    int found = plm__phantom_bus_device(text);
    if (found < 0)
        return plm__runtime_status(PLM_CUDA_INVALID_VALUE);
    *device = found;
    return PLM_CUDA_OK;
}

/* Stack, heap and their like: nothing of a kernel's needs them. */
PLM_STANDIN(int, cudaDeviceGetLimit, (size_t * value, int limit))
{
    *value = 1024;
    return PLM_CUDA_OK;
}
