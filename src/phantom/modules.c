/* SPDX-License-Identifier: MIT */
/*
 * The driver: modules. Of a fat binary with machine code for the device, the names of its kernels
 * are noted, so that one which is not there is not found here either. Any other image (PTX,
 * compressed code, what a compiler linked at run time) is taken as it is, and any name is found in
 * it.
 *
 * Machine code is an ELF file of 64 bits. Only these fields are read:
 *
 *     header    0x28: u64 where the sections are described   0x3c: u16 how many there are
 *     section   64 bytes. 4: u32 type (2 symbols)   0x18: u64 offset   0x20: u64 bytes
 *                         0x28: u32 the section of its names
 *     symbol    24 bytes. 0: u32 name   4: low 4 bits type (2 function)   5: bit 4 a kernel
 */
#include "phantom/code.h"
#include "phantom/memory.h"
#include "phantom/phantom.h"
#include "phantom/process.h"

#include <string.h>
#include <sys/mman.h>

enum { MAX_MODULES = 4096, SECTION_BYTES = 64, SYMBOL_BYTES = 24 };
enum { SYMBOLS = 2, FUNCTION = 2, KERNEL = 0x10 };

/* A part of what the caller has in memory. */
struct image {
    const unsigned char *at;
    size_t bytes;
};

struct module {
    const void *handle;
    char *names; /* each ended by a NUL */
    size_t bytes;
};

static struct module modules[MAX_MODULES]; /* those whose names are known */
static int module_count;

static uint64_t field(struct image image, uint64_t offset, size_t bytes)
{
    uint64_t value = 0;
    if (offset <= image.bytes && bytes <= image.bytes - offset)
        memcpy(&value, image.at + offset, bytes);
    return value;
}

/* The part of the image that a section is; none where it does not lie within. */
static struct image section(struct image image, uint64_t described_at)
{
    uint64_t offset = field(image, described_at + 0x18, 8);
    uint64_t bytes = field(image, described_at + 0x20, 8);
    bool within = offset <= image.bytes && bytes <= image.bytes - offset;
    return within ? (struct image){image.at + offset, bytes} : (struct image){NULL, 0};
}

/* The name at `offset` of the section of names, with its NUL; none where that has no end. */
static struct image name_at(struct image names, uint64_t offset)
{
    const unsigned char *start = names.at + offset;
    const unsigned char *end =
        offset < names.bytes ? memchr(start, '\0', names.bytes - offset) : NULL;
    return end ? (struct image){start, (size_t)(end - start) + 1} : (struct image){NULL, 0};
}

/* Copies the names of all kernels to `names`, if that is not NULL. Their bytes. */
static size_t gather_names(struct image image, char *names)
{
    uint64_t table = field(image, 0x28, 8), count = field(image, 0x3c, 2);
    size_t bytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = table + i * SECTION_BYTES;
        if (field(image, at + 4, 4) != SYMBOLS)
            continue;
        struct image symbols = section(image, at);
        struct image texts = section(image, table + field(image, at + 0x28, 4) * SECTION_BYTES);
        for (uint64_t s = 0; s + SYMBOL_BYTES <= symbols.bytes; s += SYMBOL_BYTES) {
            bool is_kernel =
                (field(symbols, s + 4, 1) & 15) == FUNCTION && (field(symbols, s + 5, 1) & KERNEL);
            if (!is_kernel)
                continue;
            struct image name = name_at(texts, field(symbols, s, 4));
            if (names)
                memcpy(names + bytes, name.at, name.bytes);
            bytes += name.bytes;
        }
    }
    return bytes;
}

static bool has_kernel(const struct module *module, const char *name)
{
    size_t length;
    for (size_t at = 0; at < module->bytes; at += length + 1) {
        length = strlen(module->names + at);
        if (!strcmp(module->names + at, name))
            return true;
    }
    return false;
}

/* With the lock held. */
static struct module *find(const void *handle)
{
    for (int i = 0; i < module_count; i++)
        if (modules[i].handle == handle)
            return &modules[i];
    return NULL;
}

static void keep(const void *handle, struct image image)
{
    size_t bytes = gather_names(image, NULL);
    struct module made = {handle, plm__phantom_table(bytes + 1), bytes};
    gather_names(image, made.names);
    plm__phantom_lock();
    if (module_count == MAX_MODULES)
        plm__phantom_stop("wanted at most %d modules of kernels at once, found more", MAX_MODULES);
    modules[module_count++] = made;
    plm__phantom_unlock();
}

PLM_STANDIN(int, cuModuleLoadData, (void **module, const void *image))
{
    static const char elf[] = {0x7f, 'E', 'L', 'F'};
    struct plm_code code;
    bool fat = plm__code_choose(image, &code);
    if (fat && !code.image && !code.has_text)
        return PLM_CUDA_NO_CODE;
    *module = plm__phantom_handle();
    if (code.image_bytes >= sizeof elf && !memcmp(code.image, elf, sizeof elf))
        keep(*module, (struct image){code.image, code.image_bytes});
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cuModuleUnload, (const void *module))
{
    struct module gone = {0};
    plm__phantom_lock();
    struct module *known = find(module);
    if (known) {
        gone = *known;
        *known = modules[--module_count];
    }
    plm__phantom_unlock();
    if (gone.names)
        munmap(gone.names, gone.bytes + 1);
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cuModuleGetFunction, (void **function, const void *module, const char *name))
{
    plm__phantom_lock();
    const struct module *known = find(module);
    bool found = !known || has_kernel(known, name);
    plm__phantom_unlock();
    if (found)
        *function = plm__phantom_handle();
    return found ? PLM_CUDA_OK : PLM_CUDA_NOT_FOUND;
}
