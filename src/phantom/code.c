/* SPDX-License-Identifier: MIT */
/*
 * The CUDA runtime: what programs register of their kernels as they are loaded. Registering only
 * notes two addresses, because a library registers tens of thousands of kernels; they are sorted
 * when somebody first asks, and the module's fat binary is read then.
 *
 * A fat binary is a header and entries, one for each architecture; only these fields are read:
 *
 *     header  0: u32 magic   6: u16 its own bytes   8: u64 bytes of all entries
 *     entry   0: u16 kind (1 PTX, 2 machine code)   4: u32 its own bytes   8: u64 bytes of the code
 *            28: u32 architecture (90 is sm_90)
 */
#include "phantom/code.h"

#include "phantom/phantom.h"
#include "phantom/process.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_KERNELS = 1 << 22, MAX_ENTRIES = 4096, TEXT = 1, MACHINE_CODE = 2 };

static const uint32_t magic = 0xba55ed50;

/* What a compiler's start-up code hands to __cudaRegisterFatBinary. */
struct wrapper {
    int magic, version;
    const unsigned char *binary;
    void *name;
};

struct kernel {
    const void *function;
    const struct wrapper *module;
    const char *name; /* in the module's code; the library's own */
};

static struct kernel *kernels; /* the first sorted_count are sorted by function */
static int kernel_count, sorted_count;

PLM_STANDIN(void **, __cudaRegisterFatBinary, (void *wrapper))
{
    return wrapper; /* the handle that comes back with every kernel of the module */
}

PLM_STANDIN(void, __cudaRegisterFatBinaryEnd, (void **module)) {}

PLM_STANDIN(char, __cudaInitModule, (void **module))
{
    return 1;
}

PLM_STANDIN(void, __cudaRegisterFunction,
            (void **module, const void *function, char *device_function, const char *name,
             int threads, void *thread, void *block, void *block_dim, void *grid_dim, int *warp))
{
    plm__phantom_lock();
    if (!kernels)
        kernels = plm__phantom_table(MAX_KERNELS * sizeof *kernels);
    if (kernel_count < MAX_KERNELS)
        kernels[kernel_count++] =
            (struct kernel){.function = function, .module = (const void *)module, .name = name};
    plm__phantom_unlock();
}

/* A library goes away: its kernels are forgotten, as the memory of its module will be. */
PLM_STANDIN(void, __cudaUnregisterFatBinary, (void **module))
{
    int kept = 0;
    plm__phantom_lock();
    for (int i = 0; i < kernel_count; i++)
        if (kernels[i].module != (const void *)module)
            kernels[kept++] = kernels[i];
    if (kept != kernel_count)
        sorted_count = 0;
    kernel_count = kept;
    plm__phantom_unlock();
}

static int compare(const void *left, const void *right)
{
    uintptr_t a = (uintptr_t)((const struct kernel *)left)->function;
    uintptr_t b = (uintptr_t)((const struct kernel *)right)->function;
    return a < b ? -1 : a > b;
}

/* Of no module where nobody registered it. */
static struct kernel find_kernel(const void *function)
{
    struct kernel wanted = {.function = function};
    plm__phantom_lock();
    if (sorted_count != kernel_count) {
        qsort(kernels, (size_t)kernel_count, sizeof *kernels, compare);
        sorted_count = kernel_count;
    }
    const struct kernel *found =
        kernel_count ? bsearch(&wanted, kernels, (size_t)kernel_count, sizeof *kernels, compare)
                     : NULL;
    struct kernel kernel = found ? *found : wanted;
    plm__phantom_unlock();
    return kernel;
}

static uint64_t read_field(const unsigned char *at, size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

/* Code runs on devices of its own major version, from its own minor version on. */
static bool runs(int architecture, int capability)
{
    return architecture / 10 == capability / 10 && architecture <= capability;
}

bool plm__code_choose(const void *binary, struct plm_code *code)
{
    const unsigned char *head = binary;
    int capability = plm__phantom_device()->capability;
    *code = (struct plm_code){0};
    if (!binary || read_field(head, 4) != magic)
        return false;
    const unsigned char *entry = head + read_field(head + 6, 2);
    const unsigned char *end = entry + read_field(head + 8, 8);
    for (int i = 0; i < MAX_ENTRIES && entry + 32 <= end; i++) {
        int architecture = (int)read_field(entry + 28, 4);
        uint64_t kind = read_field(entry, 2), own_bytes = read_field(entry + 4, 4);
        size_t bytes = read_field(entry + 8, 8);
        code->has_text |= kind == TEXT && architecture <= capability;
        if (kind == MACHINE_CODE && runs(architecture, capability) &&
            architecture > code->architecture) {
            code->architecture = architecture;
            code->image = entry + own_bytes;
            code->image_bytes = bytes;
        }
        entry += own_bytes + bytes;
    }
    return true;
}

/* The module's code that the device runs; none where the kernel is of no module. */
static struct plm_code code_of(const struct kernel *kernel)
{
    struct plm_code code = {0};
    if (kernel->module)
        plm__code_choose(kernel->module->binary, &code);
    return code;
}

int plm__code_version(const void *function)
{
    struct kernel kernel = find_kernel(function);
    struct plm_code code = code_of(&kernel);
    return code.architecture ? code.architecture : plm__phantom_device()->capability;
}

bool plm__code_use(const void *function, struct plm_kernel_use *use)
{
    struct kernel kernel = find_kernel(function);
    struct plm_code code = code_of(&kernel);
    struct plm_image image = {code.image, code.image_bytes};
    return plm__cubin_is(image) && plm__cubin_find(image, kernel.name, use);
}
