/* SPDX-License-Identifier: MIT */
/*
 * The driver: modules and their functions. Of machine code for the device (a cubin, alone or in a
 * fat binary) the image is kept, so that a kernel which is not there is not found here either, and
 * what a kernel takes is told truly. Any other image (PTX, compressed code, what a compiler linked
 * at run time) is taken as it is, and any name is found in it.
 */
#include "phantom/modules.h"

#include "phantom/code.h"
#include "phantom/memory.h"
#include "phantom/phantom.h"
#include "phantom/process.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_MODULES = 4096, MAX_FUNCTIONS = 1 << 16 };

struct module {
    const void *handle;
    struct plm_image image; /* our own copy */
};

/* A kernel of a module whose image is known. */
struct function {
    const void *handle, *module;
    const char *name; /* within the module's image: one kernel, one address */
    struct plm_kernel_use use;
};

static struct module modules[MAX_MODULES]; /* those whose image is known */
static int module_count;
static struct function *functions; /* of MAX_FUNCTIONS */
static int function_count;

/* With the lock held. */
static struct module *find(const void *handle)
{
    for (int i = 0; i < module_count; i++)
        if (modules[i].handle == handle)
            return &modules[i];
    return NULL;
}

static void keep(const void *handle, struct plm_image image)
{
    unsigned char *copy = plm__phantom_table(image.bytes);
    memcpy(copy, image.at, image.bytes);
    plm__phantom_lock();
    if (module_count == MAX_MODULES)
        plm__phantom_stop("wanted at most %d modules of kernels at once, found more", MAX_MODULES);
    modules[module_count++] = (struct module){handle, {copy, image.bytes}};
    plm__phantom_unlock();
}

PLM_STANDIN(int, cuModuleLoadData, (void **module, const void *image))
{
    struct plm_code code;
    bool fat = plm__code_choose(image, &code);
    if (fat && !code.image && !code.has_text)
        return PLM_CUDA_NO_CODE;
    struct plm_image cubin =
        fat ? (struct plm_image){code.image, code.image_bytes} : plm__cubin_at(image);
    *module = plm__phantom_handle();
    if (plm__cubin_is(cubin))
        keep(*module, cubin);
    return PLM_CUDA_OK;
}

/* Inductor loads the cubin that Triton left in a file. */
PLM_STANDIN(int, cuModuleLoad, (void **module, const char *path))
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return PLM_CUDA_FILE_NOT_FOUND;
    off_t end = lseek(file, 0, SEEK_END);
    size_t bytes = end < 0 ? 0 : (size_t)end;
    void *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    *module = plm__phantom_handle();
    if (at == MAP_FAILED)
        return PLM_CUDA_OK; /* an empty file, a pipe: nothing is known of it */
    if (plm__cubin_is((struct plm_image){at, bytes}))
        keep(*module, (struct plm_image){at, bytes});
    munmap(at, bytes);
    return PLM_CUDA_OK;
}

/* With the lock held. */
static void forget_functions(const void *module)
{
    int kept = 0;
    for (int i = 0; i < function_count; i++)
        if (functions[i].module != module)
            functions[kept++] = functions[i];
    function_count = kept;
}

PLM_STANDIN(int, cuModuleUnload, (const void *module))
{
    struct plm_image gone = {NULL, 0};
    plm__phantom_lock();
    struct module *known = find(module);
    if (known) {
        gone = known->image;
        *known = modules[--module_count];
        forget_functions(module);
    }
    plm__phantom_unlock();
    if (gone.at)
        munmap((void *)(uintptr_t)gone.at, gone.bytes);
    return PLM_CUDA_OK;
}

/* The kernel's handle, the same each time; NULL where the module has no such kernel. With the lock
 * held. */
static const void *function_of(const struct module *module, const char *name)
{
    struct plm_kernel_use use;
    const char *found = plm__cubin_find(module->image, name, &use);
    if (!found)
        return NULL;
    for (int i = 0; i < function_count; i++)
        if (functions[i].name == found)
            return functions[i].handle;
    if (!functions)
        functions = plm__phantom_table(MAX_FUNCTIONS * sizeof *functions);
    if (function_count == MAX_FUNCTIONS)
        plm__phantom_stop("wanted at most %d kernels of modules at once, found more",
                          MAX_FUNCTIONS);
    const void *handle = plm__phantom_handle();
    functions[function_count++] = (struct function){handle, module->handle, found, use};
    return handle;
}

PLM_STANDIN(int, cuModuleGetFunction, (const void **function, const void *module, const char *name))
{
    plm__phantom_lock();
    const struct module *known = find(module);
    const void *found = known ? function_of(known, name) : plm__phantom_handle();
    plm__phantom_unlock();
    if (found)
        *function = found;
    return found ? PLM_CUDA_OK : PLM_CUDA_NOT_FOUND;
}

bool plm__module_use(const void *function, struct plm_kernel_use *use)
{
    bool known = false;
    plm__phantom_lock();
    for (int i = 0; i < function_count && !known; i++) {
        known = functions[i].handle == function;
        if (known)
            *use = functions[i].use;
    }
    plm__phantom_unlock();
    return known;
}
