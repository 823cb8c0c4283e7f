/* SPDX-License-Identifier: MIT */
/*
 * The CUDA runtime and driver: kernels. None is ever run. What a launch asks of the host is
 * answered: the configuration that <<<>>> pushes and pops, what a kernel may use, how many blocks
 * of it fit on a multiprocessor. Dimensions are three unsigned each, passed by value.
 */
#include "phantom/code.h"
#include "phantom/memory.h"
#include "phantom/modules.h"
#include "phantom/phantom.h"
#include "phantom/runtime.h"

#include <limits.h>
#include <string.h>

enum { WARP = 32, MAX_THREADS = 1024, REGISTERS = 32, MAX_NESTED = 64 };

struct dimensions {
    unsigned x, y, z;
};

/* As every device since 5.0 has it, and as it says in properties.c. */
static const struct dimensions largest_grid = {2147483647, 65535, 65535};
static const struct dimensions largest_block = {1024, 1024, 64};

struct configuration {
    struct dimensions grid, block;
    size_t shared_bytes;
    void *stream;
};

static __thread struct configuration pushed[MAX_NESTED];
static __thread int pushed_count;

PLM_STANDIN(unsigned, __cudaPushCallConfiguration,
            (struct dimensions grid, struct dimensions block, size_t shared_bytes, void *stream))
{
    if (pushed_count == MAX_NESTED)
        return 1; /* the caller then leaves the launch out */
    pushed[pushed_count++] = (struct configuration){grid, block, shared_bytes, stream};
    return 0;
}

PLM_STANDIN(int, __cudaPopCallConfiguration,
            (struct dimensions * grid, struct dimensions *block, size_t *shared_bytes,
             void **stream))
{
    if (pushed_count == 0)
        return plm__runtime_status(PLM_CUDA_INVALID_VALUE);
    const struct configuration *last = &pushed[--pushed_count];
    *grid = last->grid;
    *block = last->block;
    *shared_bytes = last->shared_bytes;
    *stream = last->stream;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, __cudaGetKernel, (const void **kernel, const void *function))
{
    *kernel = function;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaGetFuncBySymbol, (const void **function, const void *symbol))
{
    *function = symbol;
    return PLM_CUDA_OK;
}

/* cudaFuncAttributes: 144 bytes in CUDA 12 and 13. */
struct function_attributes {
    size_t shared_bytes, constant_bytes, local_bytes;
    int max_threads, registers, ptx_version, binary_version, cache_mode, max_dynamic_shared_bytes;
    int rest[24];
};

_Static_assert(sizeof(struct function_attributes) == 144, "as both toolkits have it");

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The largest block whose registers a multiprocessor has: each warp takes whole lots of them, and
 * every one of its four parts takes as many warps. */
static int threads_by_registers(int registers)
{
    enum { LOT = 256, PARTS = 4 };
    int of_warp = (registers * WARP + LOT - 1) / LOT * LOT;
    int warps = plm__phantom_device()->registers_per_multiprocessor / of_warp / PARTS * PARTS;
    return warps * WARP;
}

/* What the kernel takes, by its code; where that is not known, what small kernels take. */
static struct plm_kernel_use use_of(const void *function)
{
    struct plm_kernel_use use = {0};
    if (!plm__module_use(function, &use))
        plm__code_use(function, &use);
    if (!use.registers)
        use.registers = REGISTERS;
    use.max_threads = least(use.max_threads ? use.max_threads : MAX_THREADS,
                            least(MAX_THREADS, threads_by_registers(use.registers)));
    return use;
}

PLM_STANDIN(int, cudaFuncGetAttributes, (void *attributes, const void *function))
{
    int version = plm__code_version(function);
    struct plm_kernel_use use = use_of(function);
    struct function_attributes answer = {
        .shared_bytes = use.shared_bytes,
        .constant_bytes = use.constant_bytes,
        .local_bytes = use.local_bytes,
        .max_threads = use.max_threads,
        .registers = use.registers,
        .ptx_version = version,
        .binary_version = version,
        .max_dynamic_shared_bytes = (int)plm__phantom_device()->shared_bytes_per_block_optin,
    };
    memcpy(attributes, &answer, sizeof answer);
    return PLM_CUDA_OK;
}

/* Blocks that fit on a multiprocessor at once: by threads, in whole warps, and by shared memory,
 * of which each block takes some for CUDA itself. */
static int blocks_at_once(int threads, size_t shared_bytes)
{
    const struct plm_phantom_device *device = plm__phantom_device();
    int warps = threads > 0 ? (threads + WARP - 1) / WARP : 1;
    int blocks = least(device->threads_per_multiprocessor / (warps * WARP),
                       device->blocks_per_multiprocessor);
    if (shared_bytes > 0) {
        size_t each = shared_bytes + (device->capability >= 80 ? 1024 : 0);
        blocks = least(blocks, (int)(device->shared_bytes_per_multiprocessor / each));
    }
    return blocks;
}

PLM_STANDIN(int, cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
            (int *blocks, const void *function, int threads, size_t shared_bytes, unsigned flags))
{
    *blocks = blocks_at_once(threads, shared_bytes);
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaOccupancyMaxActiveBlocksPerMultiprocessor,
            (int *blocks, const void *function, int threads, size_t shared_bytes))
{
    *blocks = blocks_at_once(threads, shared_bytes);
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cuOccupancyMaxActiveBlocksPerMultiprocessor,
            (int *blocks, void *function, int threads, size_t shared_bytes))
{
    *blocks = blocks_at_once(threads, shared_bytes);
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
            (int *blocks, void *function, int threads, size_t shared_bytes, unsigned flags))
{
    *blocks = blocks_at_once(threads, shared_bytes);
    return PLM_CUDA_OK;
}

/* Clusters that run at once: of one block each, as many as there are multiprocessors. */
PLM_STANDIN(int, cudaOccupancyMaxActiveClusters,
            (int *clusters, const void *function, const void *configuration))
{
    *clusters = plm__phantom_device()->multiprocessors;
    return PLM_CUDA_OK;
}

static int as_int(size_t bytes)
{
    return bytes < INT_MAX ? (int)bytes : INT_MAX;
}

/* Triton asks how much a kernel spills (LOCAL_SIZE_BYTES) and Inductor how many registers it takes,
 * and both try other kernels by the answers. Every attribute has one. */
static int kernel_attribute(int attribute, const void *function)
{
    enum { ASKS_MAX_THREADS, ASKS_SHARED, ASKS_CONSTANT, ASKS_LOCAL, ASKS_REGISTERS };
    enum { ASKS_PTX_VERSION = 5, ASKS_BINARY_VERSION = 6 };
    struct plm_kernel_use use = use_of(function);
    switch (attribute) {
    case ASKS_MAX_THREADS:
        return use.max_threads;
    case ASKS_SHARED:
        return as_int(use.shared_bytes);
    case ASKS_CONSTANT:
        return as_int(use.constant_bytes);
    case ASKS_LOCAL:
        return as_int(use.local_bytes);
    case ASKS_REGISTERS:
        return use.registers;
    case ASKS_PTX_VERSION:
    case ASKS_BINARY_VERSION:
        return plm__phantom_device()->capability;
    default:
        return 0;
    }
}

PLM_STANDIN(int, cuFuncGetAttribute, (int *value, int attribute, void *function))
{
    *value = kernel_attribute(attribute, function);
    return PLM_CUDA_OK;
}

/* A kernel's shared memory beyond 48 KiB has to be asked for, up to what a block may have. */
PLM_STANDIN(int, cuFuncSetAttribute, (void *function, int attribute, int value))
{
    enum { ASKS_DYNAMIC_SHARED = 8 };
    size_t most = plm__phantom_device()->shared_bytes_per_block_optin;
    bool good = attribute != ASKS_DYNAMIC_SHARED || (value >= 0 && (size_t)value <= most);
    return good ? PLM_CUDA_OK : PLM_CUDA_INVALID_VALUE;
}

static bool fits(struct dimensions size, struct dimensions most)
{
    return size.x > 0 && size.x <= most.x && size.y > 0 && size.y <= most.y && size.z > 0 &&
           size.z <= most.z;
}

/* Refused where no device would run it. */
PLM_STANDIN(int, cuLaunchKernel,
            (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
             unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream,
             void **parameters, void **extra))
{
    struct dimensions grid = {grid_x, grid_y, grid_z}, block = {block_x, block_y, block_z};
    bool good = function && fits(grid, largest_grid) && fits(block, largest_block) &&
                (uint64_t)block_x * block_y * block_z <= MAX_THREADS &&
                shared_bytes <= plm__phantom_device()->shared_bytes_per_block_optin;
    return good ? PLM_CUDA_OK : PLM_CUDA_INVALID_VALUE;
}

PLM_STANDIN(int, cuKernelGetAttribute, (int *value, int attribute, void *kernel, int device))
{
    *value = kernel_attribute(attribute, kernel);
    return PLM_CUDA_OK;
}
