/* SPDX-License-Identifier: MIT */
/*
 * The stand-in library under a C client that makes PyTorch's calls. Each test runs in a process of
 * its own, because a process reads one configuration and has one CUDA: the test forks, the child
 * loads a runtime (libcudart.so.12 or .13, tests/phantom/cudart.c), then the library, and checks.
 * What a failed check wanted is printed; what the library prints is caught.
 */
#include "unit/fake_cubin.h"
#include "unit/phantom_call.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* ---- addresses, capacity ----------------------------------------------------------------------
 */

/* Segments of own_gpt's recording on an H200 from the first of 48 MiB on, in MiB and as they lay.
 */
static const struct {
    size_t mib;
    uint64_t address;
} recorded[] = {
    {48, 0x7f4b00000000}, {48, 0x7f4afc000000}, {20, 0x7f4afa000000},
    {24, 0x7f4af8000000}, {36, 0x7f4af4000000}, {12, 0x7f4af6400000},
    {12, 0x7f4af7000000}, {24, 0x7f4af2000000}, {12, 0x7f4afb400000},
};

static void take_as_recorded(void)
{
    uint64_t first = 0;
    for (size_t i = 0; i < sizeof recorded / sizeof recorded[0]; i++) {
        uint64_t address = (uint64_t)(uintptr_t)take(recorded[i].mib * MIB);
        if (i == 0)
            first = address;
        CHECK_EQUAL(address - first, recorded[i].address - recorded[0].address);
    }
}

static void segments_lie_as_the_driver_laid_them_in_a_recording(void **state)
{
    (void)state;
    run_child(H200, 13, take_as_recorded);
}

static void take_and_give(void)
{
    char *first = take(90 * MIB), *second = take(2 * MIB);
    CHECK(second == first + 90 * MIB); /* 0x7f3458000000 and 0x7f345da00000 in a recording */
    CALL(cudaFree, int, (void *), (first));
    CHECK(take(88 * MIB) == first);
    CHECK(take(2 * MIB) == first + 88 * MIB); /* the lowest hole that fits */
    CHECK(take(20 * MIB) == first - 32 * MIB);
}

static void a_request_takes_the_lowest_hole_that_fits(void **state)
{
    (void)state;
    run_child(H200, 13, take_and_give);
}

/* A device of 10 granules, of which the context has one and one byte of another. */
#define TINY DEVICE("20971520", "2097153", "1")

static void fill_up(void)
{
    size_t free_bytes, total_bytes;
    void *most = take(16 * MIB); /* the context's one byte costs no granule, but the last one */
    CHECK_EQUAL(free_info(&total_bytes), 20 * MIB - 2 * MIB - 1 - 16 * MIB);
    CHECK_EQUAL(total_bytes, 20 * MIB);
    CHECK(!try_take(2 * MIB));
    CHECK_EQUAL(CALL(cudaGetLastError, int, (void), ()), 2);
    CHECK_EQUAL(CALL(cudaGetLastError, int, (void), ()), 0);
    CALL(cudaFree, int, (void *), (most));
    free_bytes = free_info(&total_bytes);
    CHECK_EQUAL(free_bytes, 20 * MIB - 2 * MIB - 1);
    CHECK(!try_take(18 * MIB));
    CHECK(!try_take(SIZE_MAX));
    CHECK(try_take(16 * MIB));
}

static void memory_is_full_at_the_granule_that_the_context_leaves(void **state)
{
    (void)state;
    run_child(TINY, 13, fill_up);
}

static void fill_to_the_byte(void)
{
    void *whole = take(20 * MIB);
    CHECK_EQUAL(free_info(NULL), 0);
    CHECK(!try_take(1));
    CALL(cudaFree, int, (void *), (whole));
    CHECK(!try_take(20 * MIB + 1)); /* a granule more */
    CHECK(try_take(20 * MIB - 1));
    CHECK_EQUAL(free_info(NULL), 0); /* whole granules are counted */
}

static void memory_takes_exactly_what_the_device_has(void **state)
{
    (void)state;
    run_child(DEVICE("20971520", "0", "1"), 13, fill_to_the_byte);
}

static void take_small(void)
{
    char *first = take(1), *second = take(513), *third = take(512);
    CHECK(second == first + 512 && third == second + 1024);
    CHECK_EQUAL(used(0), 2 * MIB);
    CHECK_EQUAL(CALL(cudaFree, int, (void *), (second + 1)), 1); /* not a start */
    give(first), give(second), give(third);
    CHECK_EQUAL(used(0), 0);
    CHECK_EQUAL(CALL(plm_phantom_peak_bytes, size_t, (int), (0)), 2 * MIB);
    CHECK_EQUAL(CALL(cudaFree, int, (void *), (first)), 1); /* twice */
    CHECK_EQUAL(CALL(cudaFree, int, (void *), (NULL)), 0);
}

static void small_requests_share_a_granule_and_give_it_back(void **state)
{
    (void)state;
    run_child(H200, 13, take_small);
}

static void use_two_devices(void)
{
    int count, current;
    CALL(cudaGetDeviceCount, int, (int *), (&count));
    CHECK_EQUAL(count, 2);
    char *zero = take(16 * MIB);
    CHECK_EQUAL(CALL(cudaSetDevice, int, (int), (1)), 0);
    char *one = take(20 * MIB);
    CHECK_EQUAL(used(0), 16 * MIB);
    CHECK_EQUAL(used(1), 20 * MIB);
    CHECK(!try_take(2 * MIB));
    CHECK_EQUAL(CALL(cudaSetDevice, int, (int), (2)), 101);
    CALL(cudaGetDevice, int, (int *), (&current));
    CHECK_EQUAL(current, 1);
    CHECK(one + 32 * MIB == zero); /* the devices share the process's addresses */
    give(zero);                    /* also from the other device */
    CHECK_EQUAL(used(0), 0);
}

static void each_device_has_its_own_count(void **state)
{
    (void)state;
    run_child(DEVICE("20971520", "0", "2"), 13, use_two_devices);
}

static void touch_little(void)
{
    size_t before = resident_bytes();
    char *memory = take((size_t)100 << 30);
    for (size_t i = 0; i < 1000; i++)
        memory[i * 64 * MIB] = 1;
    CHECK(resident_bytes() - before < 16 * MIB);
    CALL(cudaMemset, int, (void *, int, size_t), (memory, 0, (size_t)100 << 30));
    CHECK(memory[64 * MIB] == 0);
}

static void memory_that_nobody_writes_takes_none_of_the_host(void **state)
{
    (void)state;
    run_child(H200, 13, touch_little);
}

/* The flags that the system shows of the mapping at `address`, in /proc/self/smaps. */
static void flags_of(const void *address, char flags[256])
{
    char line[256];
    bool here = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            here = (uintptr_t)address >= start && (uintptr_t)address < end;
        else if (here && sscanf(line, "VmFlags: %255[^\n]", flags) == 1)
            break;
    }
    fclose(file);
}

static void take_flags(void)
{
    char flags[256] = "";
    char *memory = take(2 * MIB);
    memory[0] = 1;
    flags_of(memory, flags);
    CHECK(strstr(flags, "nh")); /* no huge page, whatever the system's default */
    CHECK(strstr(flags, "dd")); /* no part of a core dump */
}

static void one_written_byte_takes_one_small_page(void **state)
{
    (void)state;
    run_child(H200, 13, take_flags);
}

/* ---- copies ------------------------------------------------------------------------------------
 */

typedef int copy_function(void *, const void *, size_t, int, void *);

static int copy(void *to, const void *from, size_t bytes)
{
    return CALL(cudaMemcpyAsync, int, (void *, const void *, size_t, int, void *),
                (to, from, bytes, 4, NULL));
}

static void copy_both_ways(void)
{
    static char host[2 << 20], back[2 << 20];
    char *device = take(2 * MIB);
    memset(host, 7, sizeof host);
    copy(device, host, MIB); /* the limit itself is made */
    copy(back, device, MIB);
    CHECK(!memcmp(back, host, MIB));
    copy(device, host, MIB + 1); /* one byte more is not */
    CHECK(device[MIB] == 0);
    memset(back, 1, sizeof back);
    copy(back + 3, device, MIB + 1);
    CHECK(back[2] == 1 && back[3] == 0 && back[3 + MIB] == 0 && back[4 + MIB] == 1);
    CHECK_EQUAL(copy(device + 2 * MIB - 4, host, 5), 1); /* past the end */
    CHECK_EQUAL(copy(device + 2 * MIB - 4, host, 4), 0);
    copy(back, host, sizeof host); /* between two places of the host, always */
    CHECK(!memcmp(back, host, sizeof host));
}

static void copies_are_made_up_to_the_limit_and_not_beyond(void **state)
{
    (void)state;
    run_child(H200, 13, copy_both_ways);
}

static void copy_a_column(void)
{
    char host[4][8], *device = take(2 * MIB);
    memset(host, 5, sizeof host);
    CHECK_EQUAL(CALL(cudaMemcpy2DAsync, int,
                     (void *, size_t, const void *, size_t, size_t, size_t, int, void *),
                     (device, 2, host, 8, 2, 4, 1, NULL)),
                0);
    CHECK(device[7] == 5 && device[8] == 0);
    CALL(cudaMemset2D, int, (void), ()); /* is refused, and says by its name that it was */
    const char *text = CALL(cudaGetErrorString, const char *, (int), (801));
    CHECK(strstr(text, "cudaMemset2D"));
    CALL(cuMemsetD32_v2, int, (void *, unsigned, size_t), (device, 0x01020304, 3));
    CHECK(device[11] == 1 && device[8] == 4 && device[12] == 0);
}

/* Rows of 4 KiB of the device's, 8 KiB apart: beyond the limit the host reads zeros, between the
 * rows nothing. */
static void read_large_rows(void)
{
    enum { ROWS = 257, ROW = 4096, PITCH = 8192 };
    static char host[ROWS * PITCH];
    char *device = take(4 * MIB);
    memset(host, 5, sizeof host);
    CHECK_EQUAL(CALL(cudaMemcpy2DAsync, int,
                     (void *, size_t, const void *, size_t, size_t, size_t, int, void *),
                     (host, PITCH, device, PITCH, ROW, ROWS, 2, NULL)),
                0);
    CHECK(host[0] == 0 && host[ROW - 1] == 0 && host[ROW] == 5);
    CHECK(host[(ROWS - 1) * PITCH] == 0 && host[ROWS * PITCH - 1] == 5);
}

static void rows_and_patterns_are_copied_too(void **state)
{
    (void)state;
    run_child(H200, 13, copy_a_column);
    run_child(H200, 13, read_large_rows);
}

static void read_counts(void)
{
    int64_t known[] = {5, 1l << 40}, value = 0;
    int left, small = 0;
    char *device = take(2 * MIB);
    CALL(plm_phantom_counts, void, (const int64_t *, int), (known, 2));
    copy(device, &value, 8); /* no read */
    copy(&small, device, 4);
    CHECK_EQUAL(small, 5);
    left = CALL(plm_phantom_counts_left, int, (void), ());
    CHECK_EQUAL(left, 1);
    char nine[9] = {1};
    copy(nine, device, 9); /* too large for a count */
    CHECK(nine[0] == 0);
    copy(&value, device, 8);
    CHECK_EQUAL(value, 1l << 40);
    copy(&value, device, 8);
    CHECK_EQUAL(value, 0);
    CALL(plm_phantom_counts, void, (const int64_t *, int), (known, 2));
    CALL(plm_phantom_counts, void, (const int64_t *, int), (NULL, 0));
    copy(&value, device, 8);
    CHECK_EQUAL(value, 0);
}

static void small_reads_return_the_counts_that_data_decides(void **state)
{
    (void)state;
    run_child(H200, 13, read_counts);
}

/* ---- structures --------------------------------------------------------------------------------
 */

static unsigned char guarded[2048];

/* How many bytes the last call wrote, counted to the last that is not the guard. */
static size_t written(void)
{
    size_t bytes = sizeof guarded;
    while (bytes > 0 && guarded[bytes - 1] == 0xa5)
        bytes--;
    memset(guarded, 0xa5, sizeof guarded);
    return bytes;
}

static int int_at(size_t offset)
{
    int value;
    memcpy(&value, guarded + offset, sizeof value);
    return value;
}

static void describe(size_t pointer_bytes, size_t property_bytes, size_t processors_at)
{
    void *device = take(2 * MIB);
    written();
    CALL(cudaPointerGetAttributes, int, (void *, const void *), (guarded, device));
    CHECK_EQUAL(int_at(0), 2);
    CHECK_EQUAL(written(), pointer_bytes);
    CALL(cudaGetDeviceProperties, int, (void *, int), (guarded, 0));
    CHECK(!strcmp((char *)guarded, "NVIDIA H200"));
    CHECK_EQUAL(int_at(processors_at), 132);
    CHECK_EQUAL(int_at(360), 9);
    CHECK_EQUAL(written(), property_bytes);
    CALL(cudaFuncGetAttributes, int, (void *, const void *), (guarded, NULL));
    CHECK_EQUAL(int_at(24), 1024);
    CHECK_EQUAL(written(), 144);
}

static void describe_12(void)
{
    int version;
    describe(24, 1032, 388);
    CALL(cudaRuntimeGetVersion, int, (int *), (&version));
    CHECK_EQUAL(version, 12040);
}

static void describe_13(void)
{
    int version;
    describe(88, 1008, 384);
    CALL(cudaRuntimeGetVersion, int, (int *), (&version));
    CHECK_EQUAL(version, 13000);
}

static void structures_have_the_size_of_the_cuda_that_is_loaded(void **state)
{
    (void)state;
    run_child(H200, 12, describe_12);
    run_child(H200, 13, describe_13);
}

static void ask_libraries(void)
{
    int count = 0;
    written();
    CALL(cublasLtMatmulAlgoGetHeuristic, int,
         (void *, void *, void *, void *, void *, void *, void *, int, void *, int *),
         (NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, guarded, &count));
    CHECK_EQUAL(count, 1);
    CHECK_EQUAL(written(), 96);
    CALL(ncclGetUniqueId, int, (void *), (guarded));
    CHECK_EQUAL(written(), 128);
    CALL(cufftCreate, int, (void *), (guarded)); /* its handle is an int, not a pointer */
    CHECK(written() <= 4);
    CALL(cublasCreate_v2, int, (void *), (guarded));
    CHECK_EQUAL(written(), 8);
}

static void libraries_write_no_more_than_their_structures(void **state)
{
    (void)state;
    run_child(H200, 13, ask_libraries);
}

/* ---- kernels -----------------------------------------------------------------------------------
 */

static void ask_kernels(void)
{
    int value = -1;
    for (int attribute = 0; attribute < 16; attribute++) {
        value = -1;
        CALL(cuFuncGetAttribute, int, (int *, int, void *), (&value, attribute, NULL));
        CHECK(value >= 0);
    }
    CALL(cuFuncGetAttribute, int, (int *, int, void *), (&value, 3, NULL)); /* spilled bytes */
    CHECK_EQUAL(value, 0);
    CALL(cuFuncGetAttribute, int, (int *, int, void *), (&value, 0, NULL));
    CHECK_EQUAL(value, 1024);
    CALL(cuFuncGetAttribute, int, (int *, int, void *), (&value, 4, NULL));
    CHECK_EQUAL(value, 32);
    CALL(cudaDeviceGetAttribute, int, (int *, int, int),
         (&value, 38, 0)); /* l2: autotuning's buffer */
    CHECK_EQUAL(value, 62914560);
    CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor, int, (int *, const void *, int, size_t),
         (&value, NULL, 96, 0));
    CHECK_EQUAL(value, 21); /* 2048 threads */
    CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor, int, (int *, const void *, int, size_t),
         (&value, NULL, 32, 0));
    CHECK_EQUAL(value, 32); /* 32 blocks */
}

static void kernels_answer_what_triton_and_reductions_ask(void **state)
{
    (void)state;
    run_child(H200, 13, ask_kernels);
}

/* A fat binary of PTX and machine code for the architectures, with nothing in the entries. */
static unsigned char binary[16 + 4 * 64];

static void add_entry(int index, int kind, int architecture)
{
    unsigned char *entry = binary + 16 + index * 64;
    int own_bytes = 64;
    memcpy(entry, &kind, 2);
    memcpy(entry + 4, &own_bytes, 4);
    memcpy(entry + 28, &architecture, 4);
}

static int code_of(const void *function)
{
    int attributes[36];
    CALL(cudaFuncGetAttributes, int, (void *, const void *), (attributes, function));
    return attributes[9]; /* binaryVersion, at 36 */
}

static void register_kernels(void)
{
    static struct {
        int magic, version;
        void *data, *name;
    } wrapper = {0x466243b1, 1, binary, NULL};
    static const unsigned char head[] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 0, 1};
    memcpy(binary, head, sizeof head);
    add_entry(0, 2, 80);
    add_entry(1, 2, 86);
    add_entry(2, 2, 89);
    add_entry(3, 1, 87);
    void **module = CALL(__cudaRegisterFatBinary, void **, (void *), (&wrapper));
    CALL(__cudaRegisterFunction, void,
         (void **, const void *, char *, const char *, int, void *, void *, void *, void *, int *),
         (module, binary + 1, NULL, "kernel", -1, NULL, NULL, NULL, NULL, NULL));
    CHECK_EQUAL(code_of(binary + 1), 86);
    CHECK_EQUAL(code_of(binary + 2), 87); /* nobody registered that */
    CALL(__cudaUnregisterFatBinary, void, (void **), (module));
    CHECK_EQUAL(code_of(binary + 1), 87);
}

static void a_kernel_has_the_newest_code_that_the_device_runs(void **state)
{
    (void)state;
    run_child(CAPABILITY("87"), 13, register_kernels);
}

/* Machine code with one kernel and one function that is none: a head, two sections, and what they
 * describe. */
enum { ELF_SECTIONS = 64, ELF_SYMBOLS = 256, ELF_NAMES = 384, ELF_BYTES = 512 };

static void put(unsigned char *at, uint64_t value, size_t bytes)
{
    memcpy(at, &value, bytes);
}

static void describe_section(unsigned char *at, int type, int offset, int bytes, int names)
{
    put(at + 0x04, (uint64_t)type, 4);
    put(at + 0x18, (uint64_t)offset, 8);
    put(at + 0x20, (uint64_t)bytes, 8);
    put(at + 0x28, (uint64_t)names, 4);
}

static void make_code(unsigned char code[ELF_BYTES])
{
    static const char names[] = "\0kernel\0helper";
    memset(code, 0, ELF_BYTES);
    memcpy(code, "\177ELF", 4);
    put(code + 0x28, ELF_SECTIONS, 8);
    put(code + 0x3c, 2, 2);
    describe_section(code + ELF_SECTIONS, 2, ELF_SYMBOLS, 48, 1);
    describe_section(code + ELF_SECTIONS + 64, 3, ELF_NAMES, sizeof names, 0);
    put(code + ELF_SYMBOLS, 1, 4);
    code[ELF_SYMBOLS + 4] = 0x12; /* a global function */
    code[ELF_SYMBOLS + 5] = 0x10; /* that hosts may launch */
    put(code + ELF_SYMBOLS + 24, 8, 4);
    code[ELF_SYMBOLS + 28] = 0x12;
    memcpy(code + ELF_NAMES, names, sizeof names);
}

/* A fat binary of one entry; `code` of ELF_BYTES. */
static const void *fat_binary(int kind, int architecture, const unsigned char *code)
{
    static unsigned char fat[16 + 64 + ELF_BYTES];
    static const unsigned char head[] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0};
    memset(fat, 0, sizeof fat);
    memcpy(fat, head, sizeof head);
    put(fat + 8, 64 + ELF_BYTES, 8);
    put(fat + 16, (uint64_t)kind, 2);
    put(fat + 16 + 4, 64, 4);
    put(fat + 16 + 8, ELF_BYTES, 8);
    put(fat + 16 + 28, (uint64_t)architecture, 4);
    memcpy(fat + 16 + 64, code, ELF_BYTES);
    return fat;
}

static int load_module(void **module, const void *image)
{
    return CALL(cuModuleLoadData, int, (void **, const void *), (module, image));
}

static int find_kernel(void *module, const char *name)
{
    void *function = NULL;
    int status =
        CALL(cuModuleGetFunction, int, (void **, void *, const char *), (&function, module, name));
    CHECK_EQUAL(status == 0, function != NULL);
    return status;
}

static void load_modules(void)
{
    unsigned char code[ELF_BYTES];
    void *module = NULL, *other = NULL;
    make_code(code);
    CHECK_EQUAL(load_module(&module, fat_binary(2, 80, code)), 0);
    memset(code, 0, sizeof code); /* what was loaded stays */
    CHECK_EQUAL(load_module(&other, fat_binary(2, 80, code)), 0);
    CHECK_EQUAL(find_kernel(module, "kernel"), 0);
    CHECK_EQUAL(find_kernel(module, "helper"), 500);
    CHECK_EQUAL(find_kernel(module, "kerne"), 500);
    CHECK_EQUAL(find_kernel(other, "anything"), 0); /* no ELF file: compressed, for all we know */
    CHECK_EQUAL(CALL(cuModuleUnload, int, (void *), (module)), 0);
    CHECK_EQUAL(find_kernel(module, "helper"), 0); /* its names are gone */
    CHECK_EQUAL(load_module(&module, fat_binary(2, 90, code)), 209);
    CHECK_EQUAL(load_module(&module, fat_binary(2, 87, code)), 209);
    CHECK_EQUAL(load_module(&module, fat_binary(1, 87, code)), 209); /* PTX for a newer one */
    CHECK_EQUAL(load_module(&module, fat_binary(1, 86, code)), 0);
    CHECK_EQUAL(find_kernel(module, "anything"), 0);
    CHECK_EQUAL(load_module(&module, ".version 8.0"), 0);
    CHECK_EQUAL(find_kernel(module, "anything"), 0);
}

static void a_module_has_the_kernels_of_its_code_and_no_others(void **state)
{
    (void)state;
    run_child(CAPABILITY("86"), 13, load_modules);
}

/* Each field of a section or a symbol that leads out of the image. */
static void load_broken_modules(void)
{
    static const int fields[] = {0x28,
                                 ELF_SECTIONS + 0x18,
                                 ELF_SECTIONS + 0x20,
                                 ELF_SECTIONS + 0x28,
                                 ELF_SECTIONS + 64 + 0x18,
                                 ELF_SECTIONS + 64 + 0x20,
                                 ELF_SYMBOLS};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        unsigned char code[ELF_BYTES];
        void *module = NULL;
        make_code(code);
        put(code + fields[i], 0x7fffffff, 4);
        CHECK_EQUAL(load_module(&module, fat_binary(2, 80, code)), 0);
        CHECK_EQUAL(find_kernel(module, "kernel"), 500);
    }
}

static void code_that_leads_out_of_its_image_has_no_kernels(void **state)
{
    (void)state;
    run_child(CAPABILITY("86"), 13, load_broken_modules);
}

/* The first five attributes: threads, shared, constant and local bytes, registers. */
static void check_use(const void *function, const int wanted[5])
{
    for (int attribute = 0; attribute < 5; attribute++) {
        int value = -1;
        CALL(cuFuncGetAttribute, int, (int *, int, const void *), (&value, attribute, function));
        CHECK_EQUAL(value, wanted[attribute]);
    }
}

static const void *kernel_of(void *module, const char *name)
{
    const void *function = NULL;
    CALL(cuModuleGetFunction, int, (const void **, void *, const char *),
         (&function, module, name));
    return function;
}

static const int of_small_kernels[] = {1024, 0, 0, 0, 32};
static const int of_big[] = {128, 1200, 256, 200, 40};
static const struct fake_kernel big = {.registers = 40,
                                       .stack_bytes = 200,
                                       .shared_bytes = 1200,
                                       .constant_bytes = 256,
                                       .bound = {128, 1, 1}};

static void ask_what_kernels_take(void)
{
    struct fake_cubin cubin = fake_cubin_make(&big);
    void *module = NULL, *other = NULL;
    CHECK_EQUAL(load_module(&module, cubin.bytes), 0);
    CHECK_EQUAL(load_module(&other, cubin.bytes), 0);
    memset(&cubin, 0, sizeof cubin); /* what was loaded stays */
    const void *function = kernel_of(module, "big");
    check_use(function, of_big);
    CHECK(kernel_of(module, "big") == function);
    CHECK(kernel_of(other, "big") != function);
    CHECK(kernel_of(module, "small") != function);
    CHECK(!kernel_of(module, "helper"));
    CHECK_EQUAL(CALL(cuModuleUnload, int, (void *), (module)), 0);
    check_use(function, of_small_kernels); /* nothing is known of it any more */
    check_use(kernel_of(other, "big"), of_big);
}

static void a_kernel_takes_what_its_code_says(void **state)
{
    (void)state;
    run_child(H200, 13, ask_what_kernels_take);
}

/* A warp of 32 takes its registers in lots of 256, a multiprocessor has 65536 in four parts. */
static void ask_for_threads(void)
{
    static const int pairs[][2] = {{64, 1024}, {65, 896},  {72, 896},  {73, 768},
                                   {80, 768},  {81, 640},  {128, 512}, {129, 384},
                                   {168, 384}, {169, 256}, {255, 256}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct fake_cubin cubin =
            fake_cubin_make(&(struct fake_kernel){.registers = (unsigned)pairs[i][0]});
        const int wanted[] = {pairs[i][1], 0, 0, 0, pairs[i][0]};
        void *module = NULL;
        CHECK_EQUAL(load_module(&module, cubin.bytes), 0);
        check_use(kernel_of(module, "big"), wanted);
    }
}

static void a_block_has_the_threads_whose_registers_there_are(void **state)
{
    (void)state;
    run_child(H200, 13, ask_for_threads);
}

static int load_file(void **module, const char *path)
{
    return CALL(cuModuleLoad, int, (void **, const char *), (module, path));
}

static void load_files(void)
{
    struct fake_cubin cubin = fake_cubin_make(&big);
    const char *path = path_in_folder("log"); /* a file that end_folder removes */
    void *module = NULL;
    CHECK_EQUAL(load_file(&module, path), 301);
    CHECK(!module);
    FILE *file = fopen(path, "w");
    CHECK(file);
    fclose(file);
    CHECK_EQUAL(load_file(&module, path), 0); /* of which nothing is known */
    check_use(kernel_of(module, "anything"), of_small_kernels);
    file = fopen(path, "w");
    CHECK(file && fwrite(cubin.bytes, 1, cubin.count, file) == cubin.count && !fclose(file));
    CHECK_EQUAL(load_file(&module, path), 0);
    CHECK_EQUAL(truncate(path, 0), 0); /* what was loaded stays */
    check_use(kernel_of(module, "big"), of_big);
    CHECK(!kernel_of(module, "helper"));
}

static void a_module_in_a_file_is_read_as_one_in_memory(void **state)
{
    (void)state;
    run_child(H200, 13, load_files);
}

/* The runtime: sizes at 0, 8 and 16, threads at 24, registers at 28 of cudaFuncAttributes. */
static void ask_what_registered_kernels_take(void)
{
    static unsigned char fat[16 + 64 + FAKE_CUBIN_BYTES];
    static struct {
        int magic, version;
        void *data, *name;
    } wrapper = {0x466243b1, 1, fat, NULL};
    static const unsigned char head[] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0};
    struct fake_cubin cubin = fake_cubin_make(&big);
    memcpy(fat, head, sizeof head);
    put(fat + 8, 64 + cubin.count, 8);
    put(fat + 16, 2, 2);
    put(fat + 16 + 4, 64, 4);
    put(fat + 16 + 8, cubin.count, 8);
    put(fat + 16 + 28, 90, 4);
    memcpy(fat + 16 + 64, cubin.bytes, cubin.count);
    void **module = CALL(__cudaRegisterFatBinary, void **, (void *), (&wrapper));
    CALL(__cudaRegisterFunction, void,
         (void **, const void *, char *, const char *, int, void *, void *, void *, void *, int *),
         (module, fat + 1, NULL, "big", -1, NULL, NULL, NULL, NULL, NULL));
    unsigned char attributes[144];
    CALL(cudaFuncGetAttributes, int, (void *, const void *), (attributes, fat + 1));
    size_t sizes[3];
    int counts[2];
    memcpy(sizes, attributes, sizeof sizes);
    memcpy(counts, attributes + sizeof sizes, sizeof counts);
    CHECK_EQUAL(sizes[0], 1200);
    CHECK_EQUAL(sizes[1], 256);
    CHECK_EQUAL(sizes[2], 200);
    CHECK_EQUAL(counts[0], 128);
    CHECK_EQUAL(counts[1], 40);
    check_use(fat + 1, of_big); /* cudaGetFuncBySymbol gives the same address to the driver */
    put(fat + 16 + 64, 0, 4);   /* compressed, for all we know */
    check_use(fat + 1, of_small_kernels);
}

static void a_registered_kernel_takes_what_its_code_says(void **state)
{
    (void)state;
    run_child(H200, 13, ask_what_registered_kernels_take);
}

static int launch(const unsigned size[6], unsigned shared_bytes)
{
    return CALL(cuLaunchKernel, int,
                (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                 void *, void **, void **),
                (&library, size[0], size[1], size[2], size[3], size[4], size[5], shared_bytes, NULL,
                 NULL, NULL));
}

static int allow_shared(int bytes)
{
    return CALL(cuFuncSetAttribute, int, (void *, int, int), (&library, 8, bytes));
}

static void launch_up_to_the_limits(void)
{
    static const unsigned most[6] = {2147483647, 65535, 65535, 1024, 1024, 64};
    unsigned size[6];
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 6; k++)
            size[k] = 1;
        size[i] = most[i];
        CHECK_EQUAL(launch(size, 0), 0);
        size[i]++;
        CHECK_EQUAL(launch(size, 0), 1);
        size[i] = 0;
        CHECK_EQUAL(launch(size, 0), 1);
    }
    CHECK_EQUAL(launch((const unsigned[6]){1, 1, 1, 32, 32, 1}, 232448), 0);
    CHECK_EQUAL(launch((const unsigned[6]){1, 1, 1, 32, 32, 1}, 232449), 1);
    CHECK_EQUAL(launch((const unsigned[6]){1, 1, 1, 32, 33, 1}, 0), 1);
    CHECK_EQUAL(allow_shared(232448), 0);
    CHECK_EQUAL(allow_shared(232449), 1);
    CHECK_EQUAL(allow_shared(-1), 1);
}

static void a_launch_that_no_device_would_run_is_refused(void **state)
{
    (void)state;
    run_child(H200, 13, launch_up_to_the_limits);
}

/* ---- streams -----------------------------------------------------------------------------------
 */

static uint64_t capture_of(void *stream)
{
    int status = 0;
    uint64_t id = 0;
    CALL(cudaStreamGetCaptureInfo_v2, int, (void *, int *, uint64_t *, void *, void *, void *),
         (stream, &status, &id, NULL, NULL, NULL));
    CHECK_EQUAL(status != 0, id != 0);
    return id;
}

static void begin(void *stream)
{
    CALL(cudaStreamBeginCapture, int, (void *, int), (stream, 0));
}

static void end(void *stream)
{
    void *graph = NULL;
    CHECK_EQUAL(CALL(cudaStreamEndCapture, int, (void *, void **), (stream, &graph)), 0);
    CHECK(graph);
}

static void capture(void)
{
    char a[1], b[1], c[1], event[1];
    void *graph;
    begin(a);
    uint64_t first = capture_of(a);
    CHECK(first && !capture_of(b) && !capture_of(NULL));
    CALL(cudaStreamWaitEvent, int, (void *, void *, unsigned), (b, event, 0));
    CHECK(!capture_of(b)); /* the event was not recorded in the capture */
    CALL(cudaEventRecord, int, (void *, void *), (event, a));
    CALL(cudaStreamWaitEvent, int, (void *, void *, unsigned), (b, event, 0));
    CHECK_EQUAL(capture_of(b), first);
    begin(c);
    CHECK(capture_of(c) && capture_of(c) != first);
    CHECK_EQUAL(CALL(cuStreamSynchronize, int, (void *), (b)), 900);
    end(a);
    CHECK_EQUAL(CALL(cuStreamSynchronize, int, (void *), (b)), 0);
    CHECK(!capture_of(a) && !capture_of(b) && capture_of(c));
    end(c);
    CHECK_EQUAL(CALL(cudaStreamEndCapture, int, (void *, void **), (c, &graph)), 903);
    begin(a);
    CHECK(capture_of(a) > first + 1); /* ids are never used twice */
}

static void each_stream_knows_its_own_capture(void **state)
{
    (void)state;
    run_child(H200, 13, capture);
}

static void ask_with_seven(bool twelve)
{
    char stream[1];
    int status = 0;
    uint64_t id = 0;
    void *graph = stream, *dependencies = stream, *edges = stream;
    size_t count = 99;
    begin(stream);
    CALL(cudaStreamGetCaptureInfo, int,
         (void *, int *, uint64_t *, void **, void **, void **, size_t *),
         (stream, &status, &id, &graph, &dependencies, &edges, &count));
    CHECK(status == 1 && id != 0);
    CHECK_EQUAL(count, twelve ? 99 : 0);
    CHECK((edges == stream) == twelve && (dependencies == stream) == twelve);
}

static void ask_in_12(void)
{
    ask_with_seven(true);
}

static void ask_in_13(void)
{
    ask_with_seven(false);
}

static void capture_info_writes_through_the_arguments_that_its_cuda_has(void **state)
{
    (void)state;
    run_child(H200, 12, ask_in_12);
    run_child(H200, 13, ask_in_13);
}

static int calls;

static void count_call(void *argument)
{
    calls += *(int *)argument;
}

static void use_streams(void)
{
    float ms = 0;
    int two = 2;
    char stream[1];
    CALL(cudaEventElapsedTime, int, (float *, void *, void *), (&ms, NULL, NULL));
    CHECK(ms > 0.019f && ms < 0.021f);
    CALL(cudaLaunchHostFunc, int, (void *, void (*)(void *), void *), (stream, count_call, &two));
    CHECK_EQUAL(calls, 2);
    begin(stream);
    CALL(cudaLaunchHostFunc, int, (void *, void (*)(void *), void *), (stream, count_call, &two));
    CHECK_EQUAL(calls, 2); /* captured, not run */
}

static void time_is_short_and_functions_of_the_host_run(void **state)
{
    (void)state;
    run_child(H200, 13, use_streams);
}

/* ---- pinned, virtual and pooled memory --------------------------------------------------------
 */

static int type_of(const void *address)
{
    CALL(cudaPointerGetAttributes, int, (void *, const void *), (guarded, address));
    return int_at(0);
}

static void pin(void)
{
    static char own[64];
    char *pinned;
    CALL(cudaHostAlloc, int, (char **, size_t, unsigned), (&pinned, 4 * MIB, 0));
    CHECK_EQUAL(type_of(pinned + 4 * MIB - 1), 1);
    pinned[4 * MIB - 1] = 1;
    CHECK_EQUAL(used(0), 0);
    CHECK_EQUAL(type_of(own), 0);
    CALL(cudaHostRegister, int, (void *, size_t, unsigned), (own, sizeof own, 0));
    CHECK_EQUAL(type_of(own + 63), 1);
    CHECK_EQUAL(CALL(cudaHostRegister, int, (void *, size_t, unsigned), (own, 64, 0)), 712);
    CALL(cudaHostUnregister, int, (void *), (own));
    CHECK_EQUAL(type_of(own), 0);
    CALL(cudaFreeHost, int, (void *), (pinned));
    CHECK_EQUAL(type_of(pinned), 0);
}

static void pinned_memory_is_the_hosts_and_costs_the_device_nothing(void **state)
{
    (void)state;
    run_child(H200, 13, pin);
}

static int create(uint64_t *handle, size_t bytes)
{
    int properties[8] = {1, 0, 1, 0}; /* pinned, no handle type, on device 0 */
    return CALL(cuMemCreate, int, (uint64_t *, size_t, void *, uint64_t),
                (handle, bytes, properties, 0));
}

static int reserve(char **address, size_t bytes)
{
    return CALL(cuMemAddressReserve, int, (char **, size_t, size_t, uint64_t, uint64_t),
                (address, bytes, 0, 0, 0));
}

static int map_from(char *address, size_t bytes, uint64_t handle, size_t offset)
{
    return CALL(cuMemMap, int, (void *, size_t, size_t, uint64_t, uint64_t),
                (address, bytes, offset, handle, 0));
}

static int map(char *address, size_t bytes, uint64_t handle)
{
    return map_from(address, bytes, handle, 0);
}

static int unmap(char *address, size_t bytes)
{
    return CALL(cuMemUnmap, int, (void *, size_t), (address, bytes));
}

static int release(uint64_t handle)
{
    return CALL(cuMemRelease, int, (uint64_t), (handle));
}

/* What ExpandableSegment of PyTorch's allocator does: grows twice, shrinks, goes. */
static void expand(void)
{
    size_t granularity, reserved = (size_t)160 << 30;
    uint64_t first, second, third;
    char *base, byte = 3;
    CALL(cuMemGetAllocationGranularity, int, (size_t *, void *, int), (&granularity, NULL, 0));
    CHECK_EQUAL(granularity, 2 * MIB);
    CHECK_EQUAL(reserve(&base, (size_t)-1 - 2 * MIB + 1), 2); /* more addresses than there are */
    CHECK_EQUAL(reserve(&base, reserved), 0);
    CHECK_EQUAL(used(0), 0);
    CHECK_EQUAL(create(&first, 20 * MIB), 0);
    CHECK_EQUAL(used(0), 20 * MIB); /* at creation */
    CHECK_EQUAL(create(&third, 2 * MIB), 2);
    CHECK_EQUAL(map_from(base, 20 * MIB, first, (size_t)-1 - 20 * MIB + 1), 1); /* beyond its end */
    CHECK_EQUAL(map(base, 20 * MIB, first), 0);
    CHECK_EQUAL(map(base, 20 * MIB, first), 1); /* there is something already */
    CHECK_EQUAL(used(0), 20 * MIB);             /* not at mapping */
    CALL(cuMemSetAccess, int, (char *, size_t, void *, size_t), (base, 20 * MIB, NULL, 1));
    CHECK_EQUAL(copy(base + 20 * MIB - 1, &byte, 1), 0);
    CHECK_EQUAL(type_of(base), 2);
    CHECK_EQUAL(type_of(base + 20 * MIB), 0); /* reserved, not mapped */
    CHECK_EQUAL(unmap(base, 20 * MIB), 0);
    CHECK_EQUAL(used(0), 20 * MIB); /* the handle still holds the memory */
    CHECK_EQUAL(map(base, 20 * MIB, first), 0);
    CHECK_EQUAL(release(first), 0);
    CHECK_EQUAL(release(first), 1);
    CHECK_EQUAL(used(0), 20 * MIB); /* the mapping does */
    CHECK_EQUAL(unmap(base, 20 * MIB), 0);
    CHECK_EQUAL(used(0), 0);
    CHECK_EQUAL(create(&second, 2 * MIB), 0);
    CHECK_EQUAL(map(base + 2 * MIB, 2 * MIB, second), 0);
    CHECK_EQUAL(release(second), 0);
    CHECK_EQUAL(unmap(base + 2 * MIB, 2 * MIB), 0);
    CHECK_EQUAL(CALL(cuMemAddressFree, int, (char *, size_t), (base, reserved)), 0);
    CHECK_EQUAL(used(0), 0);
}

static void expandable_segments_count_memory_from_creation_to_release(void **state)
{
    (void)state;
    run_child(DEVICE("20971520", "0", "1"), 13, expand);
}

static uint64_t pool_bytes(void *pool, int attribute)
{
    uint64_t bytes = 0;
    CALL(cudaMemPoolGetAttribute, int, (void *, int, void *), (pool, attribute, &bytes));
    return bytes;
}

static void reset_pool(void *pool, int attribute)
{
    uint64_t zero = 0;
    CHECK_EQUAL(CALL(cudaMemPoolSetAttribute, int, (void *, int, void *), (pool, attribute, &zero)),
                0);
}

static void use_pool(void)
{
    char *first, *second;
    void *pool;
    CALL(cudaDeviceGetDefaultMemPool, int, (void **, int), (&pool, 0));
    CALL(cudaMallocAsync, int, (char **, size_t, void *), (&first, 1000, NULL));
    CALL(cudaMallocAsync, int, (char **, size_t, void *), (&second, 3 * MIB, NULL));
    CHECK(second == first + 1024);
    CHECK_EQUAL(used(0), 32 * MIB);
    CHECK_EQUAL(pool_bytes(pool, 5), 32 * MIB);
    CHECK_EQUAL(pool_bytes(pool, 7), 3 * MIB + 1024);
    CALL(cudaFreeAsync, int, (void *, void *), (second, NULL));
    CHECK_EQUAL(pool_bytes(pool, 7), 1024);
    CHECK_EQUAL(used(0), 32 * MIB);
    CALL(cudaMemPoolTrimTo, int, (void *, size_t), (pool, 0));
    CHECK_EQUAL(used(0), 2 * MIB); /* the granule of the first */
    CHECK_EQUAL(pool_bytes(pool, 8), 3 * MIB + 1024);
    reset_pool(pool, 8);
    CHECK_EQUAL(pool_bytes(pool, 8), 1024);
    CHECK_EQUAL(pool_bytes(pool, 6), 32 * MIB); /* each is reset by itself */
    reset_pool(pool, 6);
    CHECK_EQUAL(pool_bytes(pool, 6), 2 * MIB);
}

static void the_pool_keeps_what_it_took_until_it_is_trimmed(void **state)
{
    (void)state;
    run_child(H200, 13, use_pool);
}

/* ---- the driver, names --------------------------------------------------------------------------
 */

static void ask_driver(void)
{
    void *table = &table, *function = NULL;
    int active = 0, status = -1;
    CHECK_EQUAL(CALL(cuInit, int, (unsigned), (0)), 100);
    CHECK_EQUAL(CALL(cuGetExportTable, int, (void **, void *), (&table, NULL)), 500);
    CHECK(!table);
    CALL(cuDevicePrimaryCtxGetState, int, (int, unsigned *, int *), (0, NULL, &active));
    CHECK_EQUAL(active, 1);
    CALL(cudaGetDriverEntryPointByVersion, int, (const char *, void **, unsigned, uint64_t, int *),
         ("cuMemAlloc", &function, 12000, 0, &status));
    CHECK(function == symbol("cuMemAlloc_v2") && status == 0);
    CALL(cudaGetDriverEntryPointByVersion, int, (const char *, void **, unsigned, uint64_t, int *),
         ("cuNoSuchThing", &function, 12000, 0, &status));
    CHECK(!function && status == 1);
    void *device = take(2 * MIB), *seen = NULL;
    CALL(cuPointerGetAttribute, int, (void *, int, void *), (&seen, 3, device));
    CHECK(seen == device); /* a kernel's argument, for Triton */
    CHECK_EQUAL(CALL(cuPointerGetAttribute, int, (void *, int, void *), (&seen, 3, &seen)), 1);
}

static void the_driver_has_no_device_for_static_runtimes(void **state)
{
    (void)state;
    run_child(H200, 13, ask_driver);
}

static void open_driver(void)
{
    int count = 0;
    CHECK_EQUAL(CALL(cuInit, int, (unsigned), (0)), 0);
    CALL(cuDeviceGetCount, int, (int *), (&count));
    CHECK_EQUAL(count, 1);
}

static void the_driver_opens_where_the_configuration_says_so(void **state)
{
    (void)state;
    run_child(H200 "opens 1\n", 13, open_driver);
    run_child(H200 "opens 0\n", 13, ask_driver);
}

static void look_up_every_name(void)
{
    static const char *const names[] = {
#define PLM_PHANTOM(library, name, what)     #name,
#define PLM_PHANTOM_AS(library, name, other) #name,
#include "phantom/functions.def"
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK(symbol(names[i]));
}

static void every_row_of_the_table_is_a_function(void **state)
{
    (void)state;
    run_child(H200, 13, look_up_every_name);
}

static void say_nothing(void)
{
    CALL(cublasSgemm_v2, int, (void), ());
    CALL(cudaStreamSynchronize, int, (void *), (NULL));
    CALL(cudaIpcGetMemHandle, int, (void), ());
}

static void nothing_is_printed_that_nobody_asked_for(void **state)
{
    (void)state;
    char *said = run_child(H200, 13, say_nothing);
    assert_string_equal(said, "");
}

static void ask_for_a_size(void)
{
    int bytes = 0;
    for (int i = 0; i < 2; i++)
        CHECK(CALL(cusolverDnSgeqrf_bufferSize, int, (int *), (&bytes)) != 0);
    CALL(cublasSgemm_v2, int, (void), ());
    CHECK_EQUAL(CALL(cudaIpcGetMemHandle, int, (void), ()), 801);
}

static void a_size_that_is_not_known_fails_by_its_name(void **state)
{
    (void)state;
    struct child child = run_logged(H200, true, 13, ask_for_a_size);
    char *first = strstr(child.said, "cusolverDnSgeqrf_bufferSize");
    assert_non_null(first);
    assert_null(strstr(first + 1, "cusolverDnSgeqrf_bufferSize")); /* once */
    assert_string_equal(child.log, "size cusolverDnSgeqrf_bufferSize\nnothing cublasSgemm_v2\n"
                                   "refused cudaIpcGetMemHandle\n");
}

/* ---- the configuration --------------------------------------------------------------------------
 */

static void ask_for_the_device(void)
{
    take(1);
}

static void a_configuration_that_is_not_whole_stops_the_process(void **state)
{
    (void)state;
    assert_non_null(strstr(run_stopped(H200 "colour green\n", ask_for_the_device), "\"colour\""));
    assert_non_null(strstr(run_stopped("name H200\n", ask_for_the_device), "memory_bytes"));
    assert_non_null(strstr(run_stopped(NULL, ask_for_the_device), "PLIMSOLL_PHANTOM"));
    assert_non_null(strstr(run_stopped(DEVICE("many", "0", "1"), ask_for_the_device), "\"many\""));
    assert_non_null(strstr(run_stopped(DEVICE("9", "0", "65"), ask_for_the_device), "1 to 64"));
    assert_non_null(strstr(run_stopped(H200 "opens 2\n", ask_for_the_device), "0 to 1"));
    run_child(DEVICE("20971520", "0", "64"), 13, ask_for_the_device);
}

/* ---- threads and processes ----------------------------------------------------------------------
 */

enum { THREADS = 4, ROUNDS = 2000, WORKER_SECONDS = 10 };

static void *work(void *argument)
{
    int64_t number = (int64_t)(intptr_t)argument, back;
    for (int i = 0; i < ROUNDS; i++) {
        void *memory = take((size_t)(1 + i % 7) * MIB), *small = take(8);
        copy(small, &number, 8);
        copy(&back, small, 8);
        CHECK_EQUAL(back, number);
        give(memory), give(small);
    }
    return NULL;
}

static void work_in_threads(void)
{
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(used(0), 0);
}

static void threads_take_and_give_at_once(void **state)
{
    (void)state;
    run_child(H200, 13, work_in_threads);
}

/* A worker of a DataLoader: forked while other threads are in the library. */
static int fork_worker(void)
{
    pid_t worker = fork();
    if (worker == 0) {
        alarm(WORKER_SECONDS);
        char *memory = take(2 * MIB);
        memory[0] = 1;
        give(memory);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(worker, &status, 0) == worker);
    return status;
}

static void fork_among_threads(void)
{
    pthread_t threads[2];
    for (intptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 50; i++)
        CHECK_EQUAL(fork_worker(), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void a_forked_process_goes_on(void **state)
{
    (void)state;
    run_child(H200, 13, fork_among_threads); /* a lock that nobody opens ends by the alarm */
}

/* ---- ranks, NVML
 * ---------------------------------------------------------------------------------- */

struct id {
    char bytes[128];
};

static void reduce(void)
{
    struct id id;
    void *communicator;
    int ranks, values[2] = {3, 4}, *device = take(2 * MIB), all[8] = {0};
    CALL(ncclGetUniqueId, int, (struct id *), (&id));
    CALL(ncclCommInitRank, int, (void **, int, struct id, int), (&communicator, 4, id, 1));
    CALL(ncclCommCount, int, (void *, int *), (communicator, &ranks));
    CHECK_EQUAL(ranks, 4);
    copy(device, values, sizeof values);
    CALL(ncclAllGather, int, (void *, void *, size_t, int, void *, void *),
         (device, device + 16, 2, 2, communicator, NULL));
    copy(all, device + 16, sizeof all);
    CHECK(all[0] == 3 && all[1] == 4 && all[6] == 3 && all[7] == 4);
    CALL(ncclAllReduce, int, (void *, void *, size_t, int, int, void *, void *),
         (device, device, 2, 2, 0, communicator, NULL));
    copy(values, device, sizeof values);
    CHECK(values[0] == 12 && values[1] == 16); /* the sum over four ranks that hold the same */
    CALL(ncclCommSplit, int, (void *, int, int, void **, void *),
         (communicator, 0, 0, &communicator, NULL));
    CHECK(CALL(ncclCommCount, int, (void *, int *), (communicator, &ranks)) != 0);
}

static void ranks_are_taken_to_hold_the_same(void **state)
{
    (void)state;
    run_child(H200, 13, reduce);
}

static void ask_nvml(void)
{
    uint64_t bytes[3];
    void *handle = NULL;
    unsigned count = 4, index;
    struct {
        unsigned id;
        uint64_t bytes;
    } processes[4];
    take(4 * MIB);
    CALL(nvmlInit_v2, int, (void), ());
    CHECK_EQUAL(CALL(nvmlDeviceGetHandleByPciBusId_v2, int, (const char *, void **),
                     ("00000000:01:00.0", &handle)),
                0);
    CALL(nvmlDeviceGetIndex, int, (void *, unsigned *), (handle, &index));
    CHECK_EQUAL(index, 0);
    CHECK(CALL(nvmlDeviceGetHandleByIndex_v2, int, (unsigned, void **), (1, &handle)) != 0);
    CALL(nvmlDeviceGetMemoryInfo, int, (void *, uint64_t *), (handle, bytes));
    CHECK(bytes[0] == 150109880320 && bytes[2] == 4 * MIB && bytes[1] == bytes[0] - bytes[2]);
    CALL(nvmlDeviceGetComputeRunningProcesses, int, (void *, unsigned *, void *),
         (handle, &count, processes));
    CHECK(count == 1 && processes[0].id == (unsigned)getpid() && processes[0].bytes == 4 * MIB);
}

static void nvml_tells_this_process_on_the_device(void **state)
{
    (void)state;
    run_child(H200, 13, ask_nvml);
}

/* ---- cuFFT -------------------------------------------------------------------------------------
 */

enum { REAL, DOUBLE_REAL, COMPLEX = 4 }; /* CUDA_R_32F, CUDA_R_64F, CUDA_C_32F */

/* What cuFFT 12 said on an H200. Real numbers of an even length, and complex ones, to the byte but
 * for its rounding; an odd length holds up to a KiB more. */
static const struct {
    int dimensions;
    long long lengths[3], batch;
    int type;
    size_t bytes, slack;
} transforms[] = {
    {1, {400}, 10016, REAL, 0, 0},
    {1, {512}, 10016, REAL, 0, 0},
    {1, {2048}, 1000, REAL, 0, 0},
    {1, {480}, 1000, REAL, 0, 0},
    {1, {500}, 1000, REAL, 2000000, 0},
    {1, {500}, 5530, REAL, 11060000, 0},
    {1, {500}, 5531, REAL, 22124272, 512},
    {1, {500}, 10016, REAL, 40064512, 512},
    {1, {1200}, 64, REAL, 307200, 0},
    {1, {2400}, 10016, REAL, 192307200, 0},
    {1, {44100}, 7, REAL, 1234856, 56},
    {1, {251}, 7, REAL, 16224, 1024},
    {1, {1103}, 1000, REAL, 8824416, 1024},
    {1, {2205}, 1, REAL, 36072, 1024},
    {1, {2205}, 1000, DOUBLE_REAL, 35280448, 1024},
    {1, {32768}, 100, REAL, 13107200, 0},
    {1, {32768}, 128, REAL, 0, 0},
    {1, {65536}, 128, REAL, 0, 0},
    {1, {1000}, 1000, DOUBLE_REAL, 0, 0},
    {2, {224, 224}, 192, REAL, 0, 0},
    {2, {64, 65}, 192, REAL, 6389760, 0},
    {2, {720, 1280}, 192, REAL, 707788800, 0},
    {3, {30, 40, 50}, 12, REAL, 0, 0},
    {1, {4096}, 1000, COMPLEX, 0, 0},
    {1, {12000}, 64, COMPLEX, 6144000, 0},
    {1, {32768}, 64, COMPLEX, 16777216, 0},
    {1, {32768}, 1000, COMPLEX, 0, 0},
};

static int make_plan(int dimensions, const long long *lengths, long long batch, int type,
                     size_t *bytes)
{
    int into = type < COMPLEX ? type + COMPLEX : type;
    return CALL(cufftXtMakePlanMany, int,
                (int, int, const long long *, void *, long long, long long, int, void *, long long,
                 long long, int, long long, size_t *, int),
                (1, dimensions, lengths, NULL, 1, 1, type, NULL, 1, 1, into, batch, bytes, into));
}

static void ask_for_transforms(void)
{
    for (size_t i = 0; i < sizeof transforms / sizeof *transforms; i++) {
        size_t bytes = 1;
        CHECK_EQUAL(make_plan(transforms[i].dimensions, transforms[i].lengths, transforms[i].batch,
                              transforms[i].type, &bytes),
                    0);
        CHECK(bytes <= transforms[i].bytes && bytes + transforms[i].slack >= transforms[i].bytes);
    }
    const long long most = (long long)1 << 62, none = 0;
    size_t bytes = 7;
    CHECK(make_plan(1, &most, 1000, REAL, &bytes) != 0);
    CHECK(make_plan(1, &none, 1, REAL, &bytes) != 0);
    CHECK(make_plan(4, &most, 1, REAL, &bytes) != 0);
    CHECK_EQUAL(bytes, 7);
}

static void workspaces_of_fourier_transforms_are_the_cards(void **state)
{
    (void)state;
    run_child(H200, 13, ask_for_transforms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workspaces_of_fourier_transforms_are_the_cards),
        cmocka_unit_test(segments_lie_as_the_driver_laid_them_in_a_recording),
        cmocka_unit_test(a_request_takes_the_lowest_hole_that_fits),
        cmocka_unit_test(memory_is_full_at_the_granule_that_the_context_leaves),
        cmocka_unit_test(memory_takes_exactly_what_the_device_has),
        cmocka_unit_test(small_requests_share_a_granule_and_give_it_back),
        cmocka_unit_test(each_device_has_its_own_count),
        cmocka_unit_test(memory_that_nobody_writes_takes_none_of_the_host),
        cmocka_unit_test(one_written_byte_takes_one_small_page),
        cmocka_unit_test(copies_are_made_up_to_the_limit_and_not_beyond),
        cmocka_unit_test(rows_and_patterns_are_copied_too),
        cmocka_unit_test(small_reads_return_the_counts_that_data_decides),
        cmocka_unit_test(structures_have_the_size_of_the_cuda_that_is_loaded),
        cmocka_unit_test(libraries_write_no_more_than_their_structures),
        cmocka_unit_test(kernels_answer_what_triton_and_reductions_ask),
        cmocka_unit_test(a_kernel_has_the_newest_code_that_the_device_runs),
        cmocka_unit_test(a_module_has_the_kernels_of_its_code_and_no_others),
        cmocka_unit_test(code_that_leads_out_of_its_image_has_no_kernels),
        cmocka_unit_test(a_kernel_takes_what_its_code_says),
        cmocka_unit_test(a_block_has_the_threads_whose_registers_there_are),
        cmocka_unit_test(a_module_in_a_file_is_read_as_one_in_memory),
        cmocka_unit_test(a_registered_kernel_takes_what_its_code_says),
        cmocka_unit_test(a_launch_that_no_device_would_run_is_refused),
        cmocka_unit_test(each_stream_knows_its_own_capture),
        cmocka_unit_test(capture_info_writes_through_the_arguments_that_its_cuda_has),
        cmocka_unit_test(time_is_short_and_functions_of_the_host_run),
        cmocka_unit_test(pinned_memory_is_the_hosts_and_costs_the_device_nothing),
        cmocka_unit_test(expandable_segments_count_memory_from_creation_to_release),
        cmocka_unit_test(the_pool_keeps_what_it_took_until_it_is_trimmed),
        cmocka_unit_test(the_driver_has_no_device_for_static_runtimes),
        cmocka_unit_test(the_driver_opens_where_the_configuration_says_so),
        cmocka_unit_test(every_row_of_the_table_is_a_function),
        cmocka_unit_test(nothing_is_printed_that_nobody_asked_for),
        cmocka_unit_test(a_size_that_is_not_known_fails_by_its_name),
        cmocka_unit_test(a_configuration_that_is_not_whole_stops_the_process),
        cmocka_unit_test(threads_take_and_give_at_once),
        cmocka_unit_test(a_forked_process_goes_on),
        cmocka_unit_test(ranks_are_taken_to_hold_the_same),
        cmocka_unit_test(nvml_tells_this_process_on_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
