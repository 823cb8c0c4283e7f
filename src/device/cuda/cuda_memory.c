/* SPDX-License-Identifier: MIT */
/*
 * The arena on a GPU: address space reserved once, physical memory made once and mapped into it,
 * both rounded to the page that the driver maps. The hard cap and the counters are here and nowhere
 * else, apart from everything that predicts. What the rounding adds, at most a page, is part of the
 * declared overhead.
 */
#include <string.h>

#include "base/size.h"
#include "device/cuda/cuda_host.h"
#include "device/cuda/cuda_internal.h"

static CUmemAllocationProp properties_of(const plm_cuda *cuda)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cuda->number}};
}

/* Refuses `bytes`; `largest` would have been possible. */
static plm_status refuse(const plm_cuda *cuda, size_t bytes, size_t largest, const char *why)
{
    const plm_device_usage *usage = &cuda->base.usage;
    char asked[PLM_SIZE_TEXT], live[PLM_SIZE_TEXT], left[PLM_SIZE_TEXT];
    plm_status status = plm_fail(
        PLM_ERROR_DEVICE_MEMORY, "out of memory on the GPU: wanted %s, %s: %s handed out, %s left",
        plm_size_format(bytes, asked), why, plm_size_format(usage->live_bytes, live),
        plm_size_format(largest, left));
    plm__fail_oom(&(plm_oom_record){
        .asked_bytes = bytes,
        .rounded_bytes = bytes,
        .live_bytes = usage->live_bytes,
        .reserved_bytes = usage->live_bytes,
        .budget_bytes = usage->cap_bytes,
        .largest_free_bytes = largest,
    });
    return status;
}

/* Makes the memory and maps it at *address; nothing is left of a failure. */
static plm_status map(plm_cuda *cuda, size_t bytes, CUdeviceptr *address)
{
    CUmemAllocationProp properties = properties_of(cuda);
    CUmemAccessDesc access = {.location = properties.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    PLM_CUDA_TRY(cuda, cuMemAddressReserve(address, bytes, 0, 0, 0));
    CUresult result = cuda->driver.cuMemCreate(&cuda->memory, bytes, &properties, 0);
    bool made = result == CUDA_SUCCESS, mapped = false;
    if (made) {
        result = cuda->driver.cuMemMap(*address, bytes, 0, cuda->memory, 0);
        mapped = result == CUDA_SUCCESS;
    }
    if (mapped)
        result = cuda->driver.cuMemSetAccess(*address, bytes, &access, 1);
    if (result == CUDA_SUCCESS)
        return PLM_OK;
    if (mapped)
        cuda->driver.cuMemUnmap(*address, bytes);
    if (made)
        cuda->driver.cuMemRelease(cuda->memory);
    cuda->driver.cuMemAddressFree(*address, bytes);
    return plm__cuda_fail(&cuda->driver, result, "memory for the arena");
}

/* 0 where the driver does not say: what is told of a refusal, not what decides. */
static size_t free_on_device(plm_cuda *cuda)
{
    size_t free = 0, total = 0;
    cuda->driver.cuMemGetInfo(&free, &total);
    return free;
}

static void unmap(plm_cuda *cuda, CUdeviceptr address)
{
    cuda->driver.cuMemUnmap(address, cuda->mapped_bytes);
    cuda->driver.cuMemRelease(cuda->memory);
    cuda->driver.cuMemAddressFree(address, cuda->mapped_bytes);
    cuda->mapped_bytes = 0;
}

plm_status plm__cuda_reserve(plm_device *device, size_t bytes, void **region)
{
    plm_cuda *cuda = (plm_cuda *)device;
    plm_device_usage *usage = &device->usage;
    size_t mapped_bytes, free, total;
    PLM_FAIL_IF(bytes == 0 || bytes % PLM_GRANULE_BYTES != 0, PLM_ERROR_ARGUMENT,
                "wanted a positive multiple of %zu bytes, found %zu", PLM_GRANULE_BYTES, bytes);
    PLM_FAIL_IF(usage->live_bytes > 0, PLM_ERROR_UNSUPPORTED, "a GPU holds one arena at a time");
    if (usage->cap_bytes && bytes > usage->cap_bytes)
        return refuse(cuda, bytes, usage->cap_bytes, "over the cap");
    PLM_TRY(plm__round_up_bytes(bytes, cuda->page_bytes, &mapped_bytes));
    PLM_CUDA_TRY(cuda, cuMemGetInfo(&free, &total));
    if (mapped_bytes > free)
        return refuse(cuda, bytes, free, "more than the device has free");
    CUdeviceptr address = 0;
    plm_status status = map(cuda, mapped_bytes, &address);
    if (status == PLM_ERROR_DEVICE_MEMORY)
        return refuse(cuda, bytes, free_on_device(cuda), "refused by the driver");
    PLM_TRY(status);
    cuda->mapped_bytes = mapped_bytes;
    status = device->table->fill(device, (char *)address + bytes - PLM_GRANULE_BYTES,
                                 PLM_ARENA_PATTERN, PLM_GRANULE_BYTES);
    if (status != PLM_OK) {
        unmap(cuda, address);
        return status;
    }
    usage->live_bytes = bytes;
    if (usage->live_bytes > usage->peak_bytes)
        usage->peak_bytes = usage->live_bytes;
    *region = (void *)address;
    return PLM_OK;
}

void plm__cuda_release(plm_device *device, void *region, size_t bytes)
{
    plm_cuda *cuda = (plm_cuda *)device;
    if (!region)
        return;
    PLM_BUG_IF(bytes != device->usage.live_bytes, "released %zu bytes of %zu", bytes,
               device->usage.live_bytes);
    cuda->driver.cuStreamSynchronize(cuda->copies); /* a driver that fails runs nothing any more */
    cuda->driver.cuStreamSynchronize(cuda->stream);
    unmap(cuda, (CUdeviceptr)region);
    device->usage.live_bytes = 0;
}

plm_status plm__cuda_process_bytes(plm_cuda *cuda, size_t *bytes)
{
    char bus_id[32] = "";
    PLM_CUDA_TRY(cuda, cuDeviceGetPCIBusId(bus_id, sizeof bus_id, cuda->number));
    return plm__cuda_process_bytes_of(bus_id, bytes);
}
