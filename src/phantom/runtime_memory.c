/* SPDX-License-Identifier: MIT */
/* The CUDA runtime: memory of devices and of the host, pools, copies and fills. */
#include "phantom/copy.h"
#include "phantom/memory.h"
#include "phantom/phantom.h"
#include "phantom/process.h"
#include "phantom/runtime.h"

#include <string.h>

PLM_STANDIN(int, cudaMalloc, (void **address, size_t bytes))
{
    return plm__runtime_status(plm__memory_take(plm__phantom_current(), bytes, address));
}

PLM_STANDIN(int, cudaMallocManaged, (void **address, size_t bytes, unsigned flags))
{
    return plm__runtime_status(plm__memory_take(plm__phantom_current(), bytes, address));
}

PLM_STANDIN(int, cudaMallocPitch, (void **address, size_t *pitch, size_t width, size_t height))
{
    *pitch = (width + 511) & ~(size_t)511;
    return plm__runtime_status(plm__memory_take(plm__phantom_current(), *pitch * height, address));
}

PLM_STANDIN(int, cudaFree, (void *address))
{
    return plm__runtime_status(plm__memory_give(address));
}

PLM_STANDIN(int, cudaMallocAsync, (void **address, size_t bytes, void *stream))
{
    return plm__runtime_status(plm__memory_take_pooled(plm__phantom_current(), bytes, address));
}

PLM_STANDIN(int, cudaMallocFromPoolAsync, (void **address, size_t bytes, void *pool, void *stream))
{
    return cudaMallocAsync(address, bytes, stream);
}

PLM_STANDIN(int, cudaFreeAsync, (void *address, void *stream))
{
    return plm__runtime_status(plm__memory_give(address));
}

PLM_STANDIN(int, cudaHostAlloc, (void **address, size_t bytes, unsigned flags))
{
    return plm__runtime_status(plm__memory_take_pinned(bytes, address));
}

PLM_STANDIN(int, cudaMallocHost, (void **address, size_t bytes))
{
    return plm__runtime_status(plm__memory_take_pinned(bytes, address));
}

PLM_STANDIN(int, cudaFreeHost, (void *address))
{
    return plm__runtime_status(plm__memory_give_pinned(address));
}

PLM_STANDIN(int, cudaHostRegister, (void *address, size_t bytes, unsigned flags))
{
    return plm__runtime_status(plm__memory_register(address, bytes));
}

PLM_STANDIN(int, cudaHostUnregister, (void *address))
{
    return plm__runtime_status(plm__memory_give_pinned(address));
}

PLM_STANDIN(int, cudaHostGetDevicePointer, (void **device_address, void *address, unsigned flags))
{
    *device_address = address;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaHostGetFlags, (unsigned *flags, void *address))
{
    *flags = 0;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaMemGetInfo, (size_t * free_bytes, size_t *total_bytes))
{
    *free_bytes = plm__memory_free_bytes(plm__phantom_current());
    *total_bytes = plm__phantom_device()->memory_bytes;
    return PLM_CUDA_OK;
}

/* cudaPointerAttributes. CUDA 13 adds eight longs, which a caller of CUDA 12 has no room for. */
struct pointer_attributes {
    int type, device;
    void *device_address, *host_address;
    long reserved[8];
};

enum { UNREGISTERED = 0, HOST = 1, DEVICE = 2, ATTRIBUTES_12_BYTES = 24 };

_Static_assert(offsetof(struct pointer_attributes, reserved) == ATTRIBUTES_12_BYTES,
               "CUDA 12 has what comes before");
_Static_assert(sizeof(struct pointer_attributes) == 88, "CUDA 13 has 88 bytes");

PLM_STANDIN(int, cudaPointerGetAttributes, (void *attributes, const void *address))
{
    struct pointer_attributes answer = {.type = UNREGISTERED, .device = -2};
    struct plm_range range;
    if (plm__memory_look(address, &range)) {
        bool device = plm__memory_is_device(&range);
        answer.type = device ? DEVICE : HOST;
        answer.device = range.device;
        answer.device_address = (void *)(uintptr_t)address;
        answer.host_address = device ? NULL : (void *)(uintptr_t)address;
    }
    bool twelve = plm__phantom_cuda() == 12;
    memcpy(attributes, &answer, twelve ? ATTRIBUTES_12_BYTES : sizeof answer);
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaMemcpy, (void *to, const void *from, size_t bytes, int kind))
{
    return plm__runtime_status(plm__copy(to, from, bytes));
}

PLM_STANDIN(int, cudaMemcpyAsync,
            (void *to, const void *from, size_t bytes, int kind, void *stream))
{
    return plm__runtime_status(plm__copy(to, from, bytes));
}

PLM_STANDIN(int, cudaMemcpyPeer,
            (void *to, int to_device, const void *from, int from_device, size_t bytes))
{
    return plm__runtime_status(plm__copy(to, from, bytes));
}

PLM_STANDIN(int, cudaMemcpyPeerAsync,
            (void *to, int to_device, const void *from, int from_device, size_t bytes,
             void *stream))
{
    return plm__runtime_status(plm__copy(to, from, bytes));
}

PLM_STANDIN(int, cudaMemcpy2D,
            (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
             size_t height, int kind))
{
    return plm__runtime_status(plm__copy_rows(to, to_pitch, from, from_pitch, width, height));
}

PLM_STANDIN(int, cudaMemcpy2DAsync,
            (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
             size_t height, int kind, void *stream))
{
    return plm__runtime_status(plm__copy_rows(to, to_pitch, from, from_pitch, width, height));
}

PLM_STANDIN(int, cudaMemset, (void *to, int value, size_t bytes))
{
    return plm__runtime_status(plm__fill(to, (unsigned)value, 1, bytes));
}

PLM_STANDIN(int, cudaMemsetAsync, (void *to, int value, size_t bytes, void *stream))
{
    return plm__runtime_status(plm__fill(to, (unsigned)value, 1, bytes));
}

/* A variable of a module: what kernels would write there nobody reads, but there must be memory. */
PLM_STANDIN(int, cudaGetSymbolAddress, (void **address, const void *symbol))
{
    enum { SYMBOL_BYTES = 1 << 20 };
    static void *memory;
    plm__phantom_lock();
    if (!memory)
        memory = plm__phantom_table(SYMBOL_BYTES);
    *address = memory;
    plm__phantom_unlock();
    return PLM_CUDA_OK;
}

/* Each device has one pool: its handle is the device's number and an offset. */
static const uintptr_t pools = 0x100;

static int pool_device(const void *pool)
{
    uintptr_t device = (uintptr_t)pool - pools;
    return device < (uintptr_t)plm__phantom_device()->devices ? (int)device
                                                              : plm__phantom_current();
}

PLM_STANDIN(int, cudaDeviceGetDefaultMemPool, (void **pool, int device))
{
    if (device < 0 || device >= plm__phantom_device()->devices)
        return plm__runtime_status(PLM_CUDA_INVALID_DEVICE);
    *pool = (void *)(pools + (uintptr_t)device);
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaDeviceGetMemPool, (void **pool, int device))
{
    return cudaDeviceGetDefaultMemPool(pool, device);
}

PLM_STANDIN(int, cudaMemPoolTrimTo, (void *pool, size_t kept_bytes))
{
    plm__memory_trim_pool(pool_device(pool));
    return PLM_CUDA_OK;
}

/* Attributes 1 to 3 are ints about reuse, on by default; 4 is the threshold of release; 5 to 8 are
 * reserved and used bytes, now and at most. */
PLM_STANDIN(int, cudaMemPoolGetAttribute, (void *pool, int attribute, void *value))
{
    struct plm_pool_use use = plm__memory_pool_use(pool_device(pool));
    const uint64_t bytes[] = {UINT64_MAX, use.reserved_bytes, use.reserved_high_bytes,
                              use.used_bytes, use.used_high_bytes};
    if (attribute >= 1 && attribute <= 3)
        *(int *)value = 1;
    else if (attribute >= 4 && attribute <= 8)
        *(uint64_t *)value = bytes[attribute - 4];
    else
        return plm__runtime_status(PLM_CUDA_INVALID_VALUE);
    return PLM_CUDA_OK;
}

/* PyTorch resets its peaks so: a highest figure can be set to 0 alone. All else stays. */
PLM_STANDIN(int, cudaMemPoolSetAttribute, (void *pool, int attribute, const void *value))
{
    enum { RESERVED_HIGH = 6, USED_HIGH = 8 };
    if (attribute == RESERVED_HIGH || attribute == USED_HIGH)
        plm__memory_forget_pool_high(pool_device(pool), attribute == RESERVED_HIGH);
    return PLM_CUDA_OK;
}
