/* SPDX-License-Identifier: MIT */
/*
 * The driver: virtual memory management, which PyTorch's expandable segments live on. Addresses are
 * reserved, physical memory is created, and the one is mapped to the other. Physical memory counts
 * against the device from its creation until it is released and mapped nowhere; addresses cost
 * nothing.
 *
 *     reserve 160 GiB -> A;  create 20 MiB -> h (counted);  map h at A;  allow access;
 *     unmap A;  release h (counted no longer)
 */
#include "phantom/memory.h"
#include "phantom/phantom.h"
#include "phantom/process.h"
#include "phantom/space.h"

#include <string.h>

enum { MAX_PHYSICAL = 1 << 18, LOCATION_OFFSET = 12 };

/* More addresses than all that a process has: x86-64's 47 bits. */
#define RESERVATION_MAX_BYTES ((size_t)1 << 46)

static const uintptr_t handles = 0x10000; /* the first handle; the next are one higher each */

struct physical {
    size_t bytes; /* 0: free */
    int device;
    int open;      /* how often the handle was given and not yet released */
    int mapped;    /* how many mappings there are */
    int next_free; /* of a free one: the next + 1, or 0 */
    unsigned char properties[64];
};

static struct physical *physicals;
static int physical_count, first_free;

static struct physical *physical_of(uint64_t handle)
{
    uint64_t number = handle - handles;
    return number < (uint64_t)physical_count && physicals[number].bytes ? &physicals[number] : NULL;
}

/* Forgets memory that is neither held by a handle nor mapped. */
static void let_go(struct physical *physical)
{
    if (physical->open || physical->mapped)
        return;
    plm__memory_uncount(physical->device, physical->bytes);
    *physical = (struct physical){.next_free = first_free};
    first_free = (int)(physical - physicals) + 1;
}

static struct physical *new_physical(void)
{
    if (!physicals)
        physicals = plm__phantom_table(MAX_PHYSICAL * sizeof *physicals);
    if (first_free) {
        struct physical *physical = &physicals[first_free - 1];
        first_free = physical->next_free;
        return physical;
    }
    if (physical_count == MAX_PHYSICAL)
        plm__phantom_stop("wanted at most %d pieces of physical memory, found more", MAX_PHYSICAL);
    return &physicals[physical_count++];
}

PLM_STANDIN(int, cuMemGetAllocationGranularity, (size_t * bytes, const void *properties, int kind))
{
    *bytes = PLM_SPACE_GRANULE_BYTES;
    return PLM_CUDA_OK;
}

/* CUmemAllocationProp: 32 bytes, the device's number at 12. */
PLM_STANDIN(int, cuMemCreate,
            (uint64_t * handle, size_t bytes, const unsigned char *properties, uint64_t flags))
{
    enum { PROPERTIES_BYTES = 32 };
    int device;
    memcpy(&device, properties + LOCATION_OFFSET, sizeof device);
    if (bytes == 0 || bytes % PLM_SPACE_GRANULE_BYTES)
        return PLM_CUDA_INVALID_VALUE;
    if (device < 0 || device >= plm__phantom_device()->devices)
        return PLM_CUDA_INVALID_DEVICE;
    plm__phantom_lock();
    bool counted = plm__memory_count(device, bytes);
    if (counted) {
        struct physical *physical = new_physical();
        *physical = (struct physical){.bytes = bytes, .device = device, .open = 1};
        memcpy(physical->properties, properties, PROPERTIES_BYTES);
        *handle = handles + (uint64_t)(physical - physicals);
    }
    plm__phantom_unlock();
    return counted ? PLM_CUDA_OK : PLM_CUDA_OUT_OF_MEMORY;
}

PLM_STANDIN(int, cuMemRelease, (uint64_t handle))
{
    plm__phantom_lock();
    struct physical *physical = physical_of(handle);
    bool good = physical && physical->open;
    if (good) {
        physical->open--;
        let_go(physical);
    }
    plm__phantom_unlock();
    return good ? PLM_CUDA_OK : PLM_CUDA_INVALID_VALUE;
}

PLM_STANDIN(int, cuMemGetAllocationPropertiesFromHandle, (void *properties, uint64_t handle))
{
    enum { PROPERTIES_BYTES = 32 };
    plm__phantom_lock();
    const struct physical *physical = physical_of(handle);
    if (physical)
        memcpy(properties, physical->properties, PROPERTIES_BYTES);
    plm__phantom_unlock();
    return physical ? PLM_CUDA_OK : PLM_CUDA_INVALID_VALUE;
}

PLM_STANDIN(int, cuMemAddressReserve,
            (uint64_t * address, size_t bytes, size_t alignment, uint64_t hint, uint64_t flags))
{
    if (bytes == 0 || bytes % PLM_SPACE_GRANULE_BYTES)
        return PLM_CUDA_INVALID_VALUE;
    if (bytes > RESERVATION_MAX_BYTES)
        return PLM_CUDA_OUT_OF_MEMORY;
    plm__phantom_lock();
    uintptr_t start = plm__space_reserve(plm__space_round(bytes, PLM_SPACE_RESERVATION_BYTES));
    plm__ranges_add(&plm__memory_ranges, (struct plm_range){.address = start,
                                                            .bytes = bytes,
                                                            .kind = PLM_RANGE_RESERVED,
                                                            .device = -1});
    plm__phantom_unlock();
    *address = start;
    return PLM_CUDA_OK;
}

/* The reservation that holds the whole of [address, address + bytes), or NULL. */
static struct plm_range *reservation_of(uint64_t address, size_t bytes)
{
    struct plm_range *range = plm__ranges_find(&plm__memory_ranges, address);
    bool holds = range && range->kind == PLM_RANGE_RESERVED &&
                 bytes <= range->bytes - (address - range->address);
    return holds ? range : NULL;
}

/* The addresses are used up: the driver's next reservation lies elsewhere anyway. */
PLM_STANDIN(int, cuMemAddressFree, (uint64_t address, size_t bytes))
{
    plm__phantom_lock();
    struct plm_range *range = reservation_of(address, bytes);
    bool whole = range && range->address == address && range->bytes == bytes;
    if (whole)
        plm__ranges_remove(&plm__memory_ranges, range);
    plm__phantom_unlock();
    return whole ? PLM_CUDA_OK : PLM_CUDA_INVALID_VALUE;
}

static bool is_mapped(uint64_t address, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PLM_SPACE_GRANULE_BYTES)
        if (plm__ranges_find(&plm__memory_mapped, address + at))
            return true;
    return false;
}

PLM_STANDIN(int, cuMemMap,
            (uint64_t address, size_t bytes, size_t offset, uint64_t handle, uint64_t flags))
{
    plm__phantom_lock();
    struct physical *physical = physical_of(handle);
    bool good = physical && bytes > 0 && offset <= physical->bytes &&
                bytes <= physical->bytes - offset && reservation_of(address, bytes) &&
                !is_mapped(address, bytes);
    if (good) {
        physical->mapped++;
        plm__ranges_add(&plm__memory_mapped,
                        (struct plm_range){.address = address,
                                           .bytes = bytes,
                                           .kind = PLM_RANGE_MAPPED,
                                           .device = physical->device,
                                           .physical = (int)(physical - physicals)});
    }
    plm__phantom_unlock();
    return good ? PLM_CUDA_OK : PLM_CUDA_INVALID_VALUE;
}

PLM_STANDIN(int, cuMemSetAccess,
            (uint64_t address, size_t bytes, const void *descriptions, size_t count))
{
    plm__phantom_lock();
    bool good = reservation_of(address, bytes) && plm__ranges_find(&plm__memory_mapped, address);
    if (good)
        plm__space_open(address, bytes);
    plm__phantom_unlock();
    return good ? PLM_CUDA_OK : PLM_CUDA_INVALID_VALUE;
}

/* Unmaps every piece within [address, address + bytes). */
PLM_STANDIN(int, cuMemUnmap, (uint64_t address, size_t bytes))
{
    plm__phantom_lock();
    bool good = reservation_of(address, bytes) && bytes > 0;
    uint64_t at = address, end = address + bytes;
    while (good && at < end) {
        struct plm_range *piece = plm__ranges_find(&plm__memory_mapped, at);
        if (!piece || piece->address != at || piece->bytes > end - at) {
            good = false;
            break;
        }
        struct plm_range gone = *piece;
        plm__ranges_remove(&plm__memory_mapped, piece);
        plm__space_close(gone.address, gone.bytes);
        physicals[gone.physical].mapped--;
        let_go(&physicals[gone.physical]);
        at += gone.bytes;
    }
    plm__phantom_unlock();
    return good ? PLM_CUDA_OK : PLM_CUDA_INVALID_VALUE;
}

PLM_STANDIN(int, cuMemRetainAllocationHandle, (uint64_t * handle, void *address))
{
    plm__phantom_lock();
    const struct plm_range *piece = plm__ranges_find(&plm__memory_mapped, (uintptr_t)address);
    if (piece) {
        physicals[piece->physical].open++;
        *handle = handles + (uint64_t)piece->physical;
    }
    plm__phantom_unlock();
    return piece ? PLM_CUDA_OK : PLM_CUDA_INVALID_VALUE;
}
