/* SPDX-License-Identifier: MIT */
/*
 * A cubin is an ELF file of 64 bits. Only these fields are read:
 *
 *     header    0x28: u64 where the sections are described   0x3c: u16 how many there are
 *               0x3e: u16 the section of their names
 *     section   64 bytes. 0: u32 name   4: u32 type (2 symbols, 8 has no bytes in the file)
 *                         0x18: u64 offset   0x20: u64 bytes   0x28: u32 the section of its names
 *                         0x2c: u32 info
 *     symbol    24 bytes. 0: u32 name   4: low 4 bits type (2 function)   5: bit 4 a kernel
 *                         6: u16 its section, the kernel's text
 *
 * A text's info has the registers in its high 8 bits, up to CUDA 12. The sections .nv.info.NAME and
 * .nv.shared.NAME have the number of the kernel's text as their info. Both .nv.info.NAME and
 * .nv.info, which is about all kernels, are a row of attributes:
 *
 *     0: u8 format   1: u8 attribute   2: u16 a value; in format 4 the bytes of what follows here
 *
 * In .nv.info what follows is u32 the number of a symbol, u32 the value.
 */
#include "phantom/cubin.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HEADER_BYTES = 64, SECTION_BYTES = 64, SYMBOL_BYTES = 24, MAX_CUBIN_BYTES = 1 << 30 };
enum { SYMBOLS = 2, NO_BYTES = 8, FUNCTION = 2, KERNEL = 0x10 };
enum { WITH_BYTES = 4, MAX_THREADS = 0x05, WANTED_THREADS = 0x10 };
enum { FRAME_BYTES = 0x11, LEAST_STACK_BYTES = 0x12, REGISTERS = 0x2f };

/* What CUDA takes of each block from 9.0 on. ptxas counts these bytes as the kernel's own in a file
 * that has the section .nv.shared.reserved.0; a device does not. */
enum { RESERVED_SHARED_BYTES = 1024 };

/* A symbol that is a kernel. */
struct kernel {
    const char *name;
    uint64_t symbol, text;
};

static uint64_t field(struct plm_image image, uint64_t offset, size_t bytes)
{
    uint64_t value = 0;
    if (offset <= image.bytes && bytes <= image.bytes - offset)
        memcpy(&value, image.at + offset, bytes);
    return value;
}

/* Where the section is described. */
static uint64_t described(struct plm_image image, uint64_t index)
{
    return field(image, 0x28, 8) + index * SECTION_BYTES;
}

static uint64_t section_count(struct plm_image image)
{
    return field(image, 0x3c, 2);
}

/* The part of the image that a section is; none where it does not lie within. */
static struct plm_image section(struct plm_image image, uint64_t described_at)
{
    uint64_t offset = field(image, described_at + 0x18, 8);
    uint64_t bytes = field(image, described_at + 0x20, 8);
    bool within = offset <= image.bytes && bytes <= image.bytes - offset;
    return within ? (struct plm_image){image.at + offset, bytes} : (struct plm_image){NULL, 0};
}

/* The name at `offset` of a section of names; "" where that has no end. */
static const char *name_at(struct plm_image names, uint64_t offset)
{
    bool ends = offset < names.bytes && memchr(names.at + offset, '\0', names.bytes - offset);
    return ends ? (const char *)names.at + offset : "";
}

static const char *section_name(struct plm_image image, uint64_t described_at)
{
    struct plm_image names = section(image, described(image, field(image, 0x3e, 2)));
    return name_at(names, field(image, described_at, 4));
}

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

bool plm__cubin_is(struct plm_image image)
{
    static const char elf[] = {0x7f, 'E', 'L', 'F'};
    return image.bytes >= sizeof elf && !memcmp(image.at, elf, sizeof elf);
}

/* How many of the bytes, from the first on, lie in pages that are mapped. */
static size_t mapped(const void *at, uint64_t bytes)
{
    enum { PAGES = 1024 };
    unsigned char resident[PAGES];
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)at, from = start / page;
    uint64_t end = start + (bytes < MAX_CUBIN_BYTES ? bytes : MAX_CUBIN_BYTES);
    uint64_t pages = (end + page - 1) / page - from, good = 0;
    while (good < pages) {
        uint64_t next = pages - good < PAGES ? pages - good : PAGES;
        while (next && mincore((void *)((from + good) * page), next * page, resident))
            next /= 2;
        if (!next)
            break;
        good += next;
    }
    uint64_t reached = (from + good) * page;
    return reached <= start ? 0 : (reached < end ? reached : end) - start;
}

struct plm_image plm__cubin_at(const void *at)
{
    struct plm_image image = {at, mapped(at, HEADER_BYTES)};
    if (!plm__cubin_is(image))
        return (struct plm_image){at, 0};
    uint64_t end = described(image, section_count(image));
    image.bytes = mapped(at, end);
    for (uint64_t i = 0; i < section_count(image); i++) {
        uint64_t place = described(image, i), offset = field(image, place + 0x18, 8);
        uint64_t bytes = field(image, place + 4, 4) == NO_BYTES ? 0 : field(image, place + 0x20, 8);
        if (offset <= MAX_CUBIN_BYTES && bytes <= MAX_CUBIN_BYTES && offset + bytes > end)
            end = offset + bytes;
    }
    image.bytes = mapped(at, end);
    return image;
}

static bool find_in(struct plm_image image, uint64_t described_at, const char *name,
                    struct kernel *kernel)
{
    struct plm_image symbols = section(image, described_at);
    struct plm_image names = section(image, described(image, field(image, described_at + 0x28, 4)));
    for (uint64_t i = 0; (i + 1) * SYMBOL_BYTES <= symbols.bytes; i++) {
        uint64_t at = i * SYMBOL_BYTES;
        if ((field(symbols, at + 4, 1) & 15) != FUNCTION || !(field(symbols, at + 5, 1) & KERNEL))
            continue;
        const char *found = name_at(names, field(symbols, at, 4));
        if (*found && !strcmp(found, name)) {
            *kernel = (struct kernel){found, i, field(symbols, at + 6, 2)};
            return true;
        }
    }
    return false;
}

static bool find(struct plm_image image, const char *name, struct kernel *kernel)
{
    for (uint64_t i = 0; i < section_count(image); i++) {
        uint64_t at = described(image, i);
        if (field(image, at + 4, 4) == SYMBOLS && find_in(image, at, name, kernel))
            return true;
    }
    return false;
}

/* Threads of a block of x by y by z, as a bound. */
static void bound_threads(struct plm_kernel_use *use, struct plm_image sizes)
{
    uint64_t threads = 1, most = 1 << 24; /* more than any device has, and three make no overflow */
    for (uint64_t axis = 0; axis < 3; axis++) {
        threads *= field(sizes, axis * 4, 4);
        threads = threads < most ? threads : most;
    }
    if (threads && (!use->max_threads || threads < (uint64_t)use->max_threads))
        use->max_threads = (int)threads;
}

static void take_attribute(struct plm_kernel_use *use, uint64_t kind, struct plm_image value,
                           const struct kernel *of_all)
{
    if (kind == MAX_THREADS || kind == WANTED_THREADS)
        bound_threads(use, value);
    if (!of_all || value.bytes < 8 || field(value, 0, 4) != of_all->symbol)
        return;
    uint64_t number = field(value, 4, 4);
    if (kind == REGISTERS)
        use->registers = (int)(number & 0xffff);
    else if ((kind == FRAME_BYTES || kind == LEAST_STACK_BYTES) && number > use->local_bytes)
        use->local_bytes = number;
}

/* `of_all`: the kernel, where the attributes are about all of them; NULL where about it alone. */
static void read_attributes(struct plm_kernel_use *use, struct plm_image attributes,
                            const struct kernel *of_all)
{
    uint64_t at = 0, bytes;
    for (; at + 4 <= attributes.bytes; at += 4 + bytes) {
        bool has_bytes = field(attributes, at, 1) == WITH_BYTES;
        bytes = has_bytes ? field(attributes, at + 2, 2) : 0;
        if (bytes > attributes.bytes - at - 4)
            return;
        if (has_bytes)
            take_attribute(use, field(attributes, at + 1, 1),
                           (struct plm_image){attributes.at + at + 4, bytes}, of_all);
    }
}

const char *plm__cubin_find(struct plm_image image, const char *name, struct plm_kernel_use *use)
{
    struct kernel kernel;
    struct plm_kernel_use found = {0};
    bool counts_reserved = false;
    if (!find(image, name, &kernel))
        return NULL;
    found.registers = (int)(field(image, described(image, kernel.text) + 0x2c, 4) >> 24);
    for (uint64_t i = 0; i < section_count(image); i++) {
        uint64_t at = described(image, i);
        const char *called = section_name(image, at);
        bool of_kernel = field(image, at + 0x2c, 4) == kernel.text;
        if (!strcmp(called, ".nv.info"))
            read_attributes(&found, section(image, at), &kernel);
        else if (begins(called, ".nv.info.") && of_kernel)
            read_attributes(&found, section(image, at), NULL);
        else if (!strcmp(called, ".nv.shared.reserved.0"))
            counts_reserved = true;
        else if (begins(called, ".nv.shared.") && of_kernel)
            found.shared_bytes = field(image, at + 0x20, 8);
        else if (!strcmp(called, ".nv.constant3"))
            found.constant_bytes = field(image, at + 0x20, 8);
    }
    if (counts_reserved && found.shared_bytes >= RESERVED_SHARED_BYTES)
        found.shared_bytes -= RESERVED_SHARED_BYTES;
    *use = found;
    return kernel.name;
}
