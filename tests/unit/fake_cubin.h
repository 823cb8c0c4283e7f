/* SPDX-License-Identifier: MIT */
/*
 * A file of machine code as ptxas lays one out, with nothing to run in it: two kernels, "big" and
 * "small", and "helper", which is none. Everything is static: the file is a part of each test
 * program that includes it.
 *
 *     struct fake_cubin cubin = fake_cubin_make(&(struct fake_kernel){.registers = 40});
 */
#ifndef PLM_TEST_FAKE_CUBIN_H
#define PLM_TEST_FAKE_CUBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { FAKE_CUBIN_BYTES = 2048, FAKE_SECTIONS = 10, FAKE_SECTIONS_AT = 64 };
enum { FAKE_NAMES = 1, FAKE_SYMBOLS, FAKE_TEXT_BIG, FAKE_TEXT_SMALL, FAKE_INFO, FAKE_INFO_BIG };
enum { FAKE_SHARED_BIG = FAKE_INFO_BIG + 1, FAKE_CONSTANT, FAKE_RESERVED };

/* What the file says of "big"; what is 0 is not in it. */
struct fake_kernel {
    unsigned text_registers; /* as CUDA 12 tells them */
    unsigned registers;      /* as CUDA 13 does */
    unsigned frame_bytes, stack_bytes, constant_bytes;
    uint64_t shared_bytes;
    unsigned bound[3], wanted[3]; /* of a block */
    bool counts_reserved;         /* code for 9.0 and newer */
};

struct fake_cubin {
    unsigned char bytes[FAKE_CUBIN_BYTES];
    size_t count;
};

static inline void fake_put(struct fake_cubin *cubin, size_t at, uint64_t value, size_t bytes)
{
    memcpy(cubin->bytes + at, &value, bytes);
}

static inline void fake_append(struct fake_cubin *cubin, uint64_t value, size_t bytes)
{
    fake_put(cubin, cubin->count, value, bytes);
    cubin->count += bytes;
}

static inline size_t fake_described(int section)
{
    return FAKE_SECTIONS_AT + (size_t)section * 64;
}

/* The section's bytes are those from `start` on. */
static inline void fake_section(struct fake_cubin *cubin, int section, const char *name, int type,
                                size_t start, unsigned info)
{
    size_t at = fake_described(section);
    fake_put(cubin, at + 0x04, (uint64_t)type, 4);
    fake_put(cubin, at + 0x18, start, 8);
    fake_put(cubin, at + 0x20, cubin->count - start, 8);
    fake_put(cubin, at + 0x28, FAKE_NAMES, 4);
    fake_put(cubin, at + 0x2c, info, 4);
    fake_put(cubin, at, cubin->count, 4);
    memcpy(cubin->bytes + cubin->count, name, strlen(name) + 1);
    cubin->count += strlen(name) + 1;
}

static inline void fake_symbol(struct fake_cubin *cubin, size_t name, int other, int section)
{
    fake_append(cubin, name, 4);
    fake_append(cubin, 0x12, 1); /* a global function */
    fake_append(cubin, (uint64_t)other, 1);
    fake_append(cubin, (uint64_t)section, 2);
    cubin->count += 16;
}

static inline void fake_about(struct fake_cubin *cubin, int attribute, unsigned symbol,
                              unsigned value)
{
    fake_append(cubin, 4, 1);
    fake_append(cubin, (uint64_t)attribute, 1);
    fake_append(cubin, 8, 2);
    fake_append(cubin, symbol, 4);
    fake_append(cubin, value, 4);
}

static inline void fake_threads(struct fake_cubin *cubin, int attribute, const unsigned sizes[3])
{
    if (!sizes[0])
        return;
    fake_append(cubin, 4, 1);
    fake_append(cubin, (uint64_t)attribute, 1);
    fake_append(cubin, 12, 2);
    for (int axis = 0; axis < 3; axis++)
        fake_append(cubin, sizes[axis], 4);
}

/* Symbols 1 and 2 are the kernels, 3 the helper, within big's text. */
static inline void fake_symbols(struct fake_cubin *cubin)
{
    size_t names = cubin->count;
    memcpy(cubin->bytes + names, "big\0small\0helper", 17);
    cubin->count = (names + 17 + 7) / 8 * 8;
    size_t start = cubin->count;
    cubin->count += 24;
    fake_symbol(cubin, names, 0x10, FAKE_TEXT_BIG); /* 0x10: that hosts may launch */
    fake_symbol(cubin, names + 4, 0x10, FAKE_TEXT_SMALL);
    fake_symbol(cubin, names + 10, 0, FAKE_TEXT_BIG);
    fake_section(cubin, FAKE_SYMBOLS, ".symtab", 2, start, 0);
}

static inline void fake_info(struct fake_cubin *cubin, const struct fake_kernel *big)
{
    enum { LOPROC = 0x70000000, MAX_THREADS = 0x05, WANTED_THREADS = 0x10 };
    enum { FRAME_BYTES = 0x11, LEAST_STACK_BYTES = 0x12, REGISTERS = 0x2f };
    size_t start = cubin->count;
    fake_about(cubin, FRAME_BYTES, 3, 4096); /* the helper's is not the kernel's */
    fake_about(cubin, REGISTERS, 2, 16);
    if (big->registers)
        fake_about(cubin, REGISTERS, 1, big->registers);
    if (big->frame_bytes)
        fake_about(cubin, FRAME_BYTES, 1, big->frame_bytes);
    if (big->stack_bytes)
        fake_about(cubin, LEAST_STACK_BYTES, 1, big->stack_bytes);
    fake_section(cubin, FAKE_INFO, ".nv.info", LOPROC, start, 0);
    start = cubin->count;
    fake_append(cubin, 0x3501, 4);     /* a format of nothing more, one of a value: 0x0c19 bytes */
    fake_append(cubin, 0x0c191903, 4); /* would be too many */
    fake_threads(cubin, MAX_THREADS, big->bound);
    fake_threads(cubin, WANTED_THREADS, big->wanted);
    fake_section(cubin, FAKE_INFO_BIG, ".nv.info.big", LOPROC, start, FAKE_TEXT_BIG);
}

static inline struct fake_cubin fake_cubin_make(const struct fake_kernel *big)
{
    enum { BITS = 1, NO_BYTES = 8 };
    struct fake_cubin cubin = {.count = FAKE_SECTIONS_AT + FAKE_SECTIONS * 64};
    memcpy(cubin.bytes, "\177ELF", 4);
    fake_put(&cubin, 0x28, FAKE_SECTIONS_AT, 8);
    fake_put(&cubin, 0x3c, FAKE_SECTIONS, 2);
    fake_put(&cubin, 0x3e, FAKE_NAMES, 2);
    fake_symbols(&cubin);
    fake_section(&cubin, FAKE_TEXT_BIG, ".text.big", BITS, cubin.count, big->text_registers << 24);
    fake_section(&cubin, FAKE_TEXT_SMALL, ".text.small", BITS, cubin.count, 0);
    fake_info(&cubin, big);
    fake_section(&cubin, FAKE_SHARED_BIG, ".nv.shared.big", NO_BYTES, cubin.count, FAKE_TEXT_BIG);
    fake_put(&cubin, fake_described(FAKE_SHARED_BIG) + 0x20, big->shared_bytes, 8);
    fake_section(&cubin, FAKE_CONSTANT, ".nv.constant3", NO_BYTES, cubin.count, 0);
    fake_put(&cubin, fake_described(FAKE_CONSTANT) + 0x20, big->constant_bytes, 8);
    fake_section(&cubin, FAKE_RESERVED, big->counts_reserved ? ".nv.shared.reserved.0" : ".other",
                 NO_BYTES, cubin.count, 0);
    fake_section(&cubin, FAKE_NAMES, ".strtab", 3, 0,
                 0); /* of the whole file: offsets are places */
    fake_put(&cubin, fake_described(FAKE_NAMES) + 0x20, cubin.count, 8);
    return cubin;
}

#endif
