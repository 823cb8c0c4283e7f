/* SPDX-License-Identifier: MIT */
/*
 * The CUDA driver, but for virtual memory (vmm.c). PyTorch reaches it through the runtime, which
 * hands out entry points; those are this library's own. A runtime that is linked statically into
 * another library (the real cuDNN) comes through cuInit: it must find no device, and no table of
 * exports, or it would go on to a GPU that is not there. A program that knows the driver alone
 * (plimsoll_cuda.so) comes the same way and needs its device, so the configuration says which of
 * the two the process is: its key `opens`.
 */
#include "phantom/driver.h"

#include "phantom/copy.h"
#include "phantom/memory.h"
#include "phantom/phantom.h"
#include "phantom/process.h"
#include "phantom/runtime.h"

#include <stdio.h>
#include <string.h>

enum { NO_DEVICE = 100, SYMBOL_NOT_FOUND = 1, MAX_CONTEXTS = 64 };

/* A device's one context is known by this and its number. */
static const uintptr_t contexts = 0x200;

static __thread int outer_devices[MAX_CONTEXTS]; /* what cuCtxPushCurrent covered */
static __thread int outer_count;

PLM_STANDIN(int, cuInit, (unsigned flags))
{
    return plm__phantom_device()->opens ? PLM_CUDA_OK : NO_DEVICE;
}

PLM_STANDIN(int, cuGetExportTable, (const void **table, const void *id))
{
    *table = NULL;
    return PLM_CUDA_NOT_FOUND;
}

PLM_STANDIN(int, cuGetProcAddress_v2,
            (const char *name, void **function, int version, uint64_t flags, int *status))
{
    *function = NULL;
    if (status)
        *status = SYMBOL_NOT_FOUND;
    return PLM_CUDA_NOT_FOUND;
}

static int entry_point(const char *name, void **function, int *status)
{
    *function = plm__driver_find(name);
    if (status)
        *status = *function ? 0 : SYMBOL_NOT_FOUND;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaGetDriverEntryPoint,
            (const char *name, void **function, uint64_t flags, int *status))
{
    return entry_point(name, function, status);
}

PLM_STANDIN(int, cudaGetDriverEntryPointByVersion,
            (const char *name, void **function, unsigned version, uint64_t flags, int *status))
{
    return entry_point(name, function, status);
}

PLM_STANDIN(int, cuGetErrorString, (int status, const char **text))
{
    *text = plm__runtime_error_text(status);
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cuGetErrorName, (int status, const char **name))
{
    *name = plm__runtime_error_name(status);
    return PLM_CUDA_OK;
}

static bool is_there(int device)
{
    return device >= 0 && device < plm__phantom_device()->devices;
}

PLM_STANDIN(int, cuDeviceGet, (int *device, int ordinal))
{
    *device = ordinal;
    return is_there(ordinal) ? PLM_CUDA_OK : PLM_CUDA_INVALID_DEVICE;
}

PLM_STANDIN(int, cuDeviceGetName, (char *text, int room, int device))
{
    snprintf(text, (size_t)room, "%s", plm__phantom_device()->name);
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cuDeviceGetUuid, (char *uuid, int device))
{
    memset(uuid, 0, 16);
    uuid[0] = (char)(device + 1); /* as cudaDeviceProp has it */
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cuDeviceTotalMem_v2, (size_t * bytes, int device))
{
    *bytes = plm__phantom_device()->memory_bytes;
    return PLM_CUDA_OK;
}

/* PyTorch asks before it touches a device's streams; every device has its context from the start.
 */
PLM_STANDIN(int, cuDevicePrimaryCtxGetState, (int device, unsigned *flags, int *active))
{
    if (flags)
        *flags = 0;
    *active = 1;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cuDevicePrimaryCtxRetain, (void **context, int device))
{
    if (!is_there(device))
        return PLM_CUDA_INVALID_DEVICE;
    *context = (void *)(contexts + (uintptr_t)device);
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cuCtxGetCurrent, (void **context))
{
    *context = (void *)(contexts + (uintptr_t)plm__phantom_current());
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cuCtxSetCurrent, (const void *context))
{
    if (context)
        plm__phantom_select((int)((uintptr_t)context - contexts));
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cuCtxPushCurrent_v2, (const void *context))
{
    if (outer_count == MAX_CONTEXTS)
        return PLM_CUDA_INVALID_VALUE;
    outer_devices[outer_count++] = plm__phantom_current();
    return cuCtxSetCurrent(context);
}

PLM_STANDIN(int, cuCtxPopCurrent_v2, (void **context))
{
    if (outer_count == 0)
        return PLM_CUDA_INVALID_VALUE;
    if (context)
        cuCtxGetCurrent(context);
    plm__phantom_select(outer_devices[--outer_count]);
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cuCtxGetDevice, (int *device))
{
    *device = plm__phantom_current();
    return PLM_CUDA_OK;
}

/* Triton asks for the address of every argument of a kernel, and takes INVALID_VALUE for memory of
 * the host. Attributes have different widths. */
PLM_STANDIN(int, cuPointerGetAttribute, (void *value, int attribute, const void *address))
{
    enum { CONTEXT = 1, TYPE = 2, DEVICE_ADDRESS = 3, HOST_ADDRESS = 4, MANAGED = 8, ORDINAL = 9 };
    enum { START = 11, BYTES = 12 };
    struct plm_range range;
    if (!plm__memory_look(address, &range))
        return PLM_CUDA_INVALID_VALUE;
    bool device = plm__memory_is_device(&range);
    if (attribute == CONTEXT)
        *(uintptr_t *)value = contexts + (uintptr_t)range.device;
    else if (attribute == TYPE)
        *(unsigned *)value = device ? 2 : 1;
    else if (attribute == DEVICE_ADDRESS || (attribute == HOST_ADDRESS && !device))
        *(uintptr_t *)value = (uintptr_t)address;
    else if (attribute == MANAGED)
        *(unsigned char *)value = 0;
    else if (attribute == ORDINAL)
        *(int *)value = range.device;
    else if (attribute == START)
        *(uintptr_t *)value = range.address;
    else if (attribute == BYTES)
        *(size_t *)value = range.bytes;
    else
        return PLM_CUDA_INVALID_VALUE;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cuMemGetAddressRange_v2, (uint64_t * start, size_t *bytes, const void *address))
{
    struct plm_range range;
    if (!plm__memory_look(address, &range))
        return PLM_CUDA_NOT_FOUND;
    if (start)
        *start = range.address;
    if (bytes)
        *bytes = range.bytes;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cuMemsetD16_v2, (void *to, unsigned short value, size_t count))
{
    return plm__fill(to, value, 2, count);
}

PLM_STANDIN(int, cuMemsetD32_v2, (void *to, unsigned value, size_t count))
{
    return plm__fill(to, value, 4, count);
}

PLM_STANDIN(int, cuLinkCreate_v2, (unsigned count, int *options, void **values, void **state))
{
    *state = plm__phantom_handle();
    return PLM_CUDA_OK;
}

/* A linker's output: no code, at an address that nobody reads. */
PLM_STANDIN(int, cuLinkComplete, (void *state, void **code, size_t *bytes))
{
    *code = state;
    *bytes = 0;
    return PLM_CUDA_OK;
}
