/* SPDX-License-Identifier: MIT */
/*
 * The functions of faults.h. Each name is a few instructions that keep the arguments of the call,
 * whatever they are, and ask `enter` where it goes on. None that the module calls takes a
 * floating-point number by value, so the registers of these are not kept.
 */
#include "phantom/faults.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_OF_MEMORY = 2, ARGUMENTS = 6 };

typedef enum library { DRIVER, CUBLASLT, CUDNN, NVML } library;

/* A failure that says nothing, as each library has it. */
static const int failures[] = {[DRIVER] = 999, [CUBLASLT] = 14, [CUDNN] = 5000, [NVML] = 999};

typedef struct row {
    const char *name;
    library library;
    bool tells;       /* and has no status */
    bool makes, ends; /* something: `pairs` */
    void *target;
    int64_t calls, done; /* asked; and gone well, of what makes or ends something */
} row;

/* Where a call goes on; nowhere: it returns the status. */
typedef struct way {
    void *to;
    int64_t status;
} way;

way plm_faults_enter(row *called, const uintptr_t arguments[ARGUMENTS]);

__asm__(".pushsection .text\n"
        "plm_faults_pass:\n" /* r11: the row */
        "    pushq %r9\n    pushq %r8\n    pushq %rcx\n    pushq %rdx\n    pushq %rsi\n"
        "    pushq %rdi\n    movq %r11, %rdi\n    movq %rsp, %rsi\n"
        "    subq $8, %rsp\n    call plm_faults_enter@PLT\n    addq $8, %rsp\n"
        "    testq %rax, %rax\n    jz 1f\n"
        "    popq %rdi\n    popq %rsi\n    popq %rdx\n    popq %rcx\n    popq %r8\n    popq %r9\n"
        "    jmp *%rax\n"
        "1:  movl %edx, %eax\n    addq $48, %rsp\n    ret\n"
        ".popsection\n");

#define ENTRY(name)                                                                                \
    __asm__(".pushsection .text\n.globl " #name "\n.type " #name ", @function\n" #name             \
            ":\n    endbr64\n    leaq plm_row_" #name "(%rip), %r11\n    jmp plm_faults_pass\n"    \
            ".size " #name ", .-" #name "\n.popsection\n");

/* ---- the functions ---- */

#define ROWS_runtime(ROW, name)
#define ROWS_driver(ROW, name) ROW(DRIVER, name, NULL)
#define ROWS_cublas(ROW, name)
#define ROWS_cublaslt(ROW, name) ROW(CUBLASLT, name, NULL)
#define ROWS_cudnn(ROW, name)
#define ROWS_cufft(ROW, name)
#define ROWS_curand(ROW, name)
#define ROWS_cusolver(ROW, name)
#define ROWS_cusparse(ROW, name)
#define ROWS_cusparselt(ROW, name)
#define ROWS_nccl(ROW, name)
#define ROWS_nvml(ROW, name) ROW(NVML, name, NULL)

/* Of cuDNN what tests/phantom/attention.c has. */
#define CUDNN_ROWS(ROW)                                                                            \
    ROW(CUDNN, cudnnCreate, fake_cudnnCreate)                                                      \
    ROW(CUDNN, cudnnDestroy, fake_cudnnDestroy)                                                    \
    ROW(CUDNN, cudnnSetStream, fake_cudnnSetStream)                                                \
    ROW(CUDNN, cudnnGetVersion, fake_cudnnGetVersion)                                              \
    ROW(CUDNN, cudnnGetErrorString, fake_cudnnGetErrorString)                                      \
    ROW(CUDNN, cudnnBackendCreateDescriptor, fake_cudnnBackendCreateDescriptor)                    \
    ROW(CUDNN, cudnnBackendDestroyDescriptor, fake_cudnnBackendDestroyDescriptor)                  \
    ROW(CUDNN, cudnnBackendSetAttribute, fake_cudnnBackendSetAttribute)                            \
    ROW(CUDNN, cudnnBackendGetAttribute, fake_cudnnBackendGetAttribute)                            \
    ROW(CUDNN, cudnnBackendFinalize, fake_cudnnBackendFinalize)                                    \
    ROW(CUDNN, cudnnBackendExecute, fake_cudnnBackendExecute)

#define DECLARE(library, name, function) extern char function[]; /* its address alone is taken */
CUDNN_ROWS(DECLARE)
#undef DECLARE

#define DEFINE(of, called, function)                                                               \
    static row row_##called __asm__("plm_row_" #called) = {                                        \
        .name = #called, .library = (of), .target = (function)};                                   \
    ENTRY(called)
#define PLM_PHANTOM(library, name, what)     ROWS_##library(DEFINE, name)
#define PLM_PHANTOM_AS(library, name, other) ROWS_##library(DEFINE, name)
CUDNN_ROWS(DEFINE)
#include "phantom/functions.def"
#undef PLM_PHANTOM
#undef PLM_PHANTOM_AS

#define ADDRESS(library, name, function)     &row_##name,
#define PLM_PHANTOM(library, name, what)     ROWS_##library(ADDRESS, name)
#define PLM_PHANTOM_AS(library, name, other) ROWS_##library(ADDRESS, name)
static row *const rows[] = {CUDNN_ROWS(ADDRESS)
#include "phantom/functions.def"
};
#undef PLM_PHANTOM
#undef PLM_PHANTOM_AS

enum { ROW_COUNT = sizeof rows / sizeof *rows };

/* ---- what belongs together ---- */

static const struct pair {
    const char *made, *ended;
} pairs[] = {
    {"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2"},
    {"cuModuleLoadData", "cuModuleUnload"},
    {"cuStreamCreate", "cuStreamDestroy_v2"},
    {"cuStreamBeginCapture_v2", "cuStreamEndCapture"},
    {"cuStreamEndCapture", "cuGraphDestroy"},
    {"cuGraphInstantiateWithFlags", "cuGraphExecDestroy"},
    {"cuEventCreate", "cuEventDestroy_v2"},
    {"cuMemAddressReserve", "cuMemAddressFree"},
    {"cuMemCreate", "cuMemRelease"},
    {"cuMemMap", "cuMemUnmap"},
    {"cuMemHostAlloc", "cuMemFreeHost"},
    {"cublasLtCreate", "cublasLtDestroy"},
    {"cublasLtMatmulDescCreate", "cublasLtMatmulDescDestroy"},
    {"cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceDestroy"},
    {"cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutDestroy"},
    {"cudnnCreate", "cudnnDestroy"},
    {"cudnnBackendCreateDescriptor", "cudnnBackendDestroyDescriptor"},
    {"nvmlInit_v2", "nvmlShutdown"},
};

enum { PAIR_COUNT = sizeof pairs / sizeof *pairs };

/* What has no status. */
static const char *const tellers[] = {"cublasLtGetVersion", "cublasLtGetStatusString",
                                      "cudnnGetVersion", "cudnnGetErrorString", "nvmlErrorString"};

static row *find(const char *name)
{
    for (int i = 0; i < ROW_COUNT; i++)
        if (!strcmp(rows[i]->name, name))
            return rows[i];
    fprintf(stderr, "tests/phantom/faults.c has no %s\n", name);
    abort();
}

static int64_t count(const char *name)
{
    return find(name)->calls;
}

static const char *first_open(void)
{
    for (int i = 0; i < PAIR_COUNT; i++)
        if (find(pairs[i].made)->done != find(pairs[i].ended)->done)
            return pairs[i].made;
    return NULL;
}

__attribute__((visibility("default")))
plm_faults plm_all_faults = {.count = count, .open = first_open};

__attribute__((constructor)) static void find_targets(void)
{
    void *standin = dlopen(PLM_PHANTOM_LIBRARY, RTLD_NOW);
    if (!standin) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
    for (int i = 0; i < ROW_COUNT; i++)
        if (!rows[i]->target)
            rows[i]->target = dlsym(standin, rows[i]->name);
    for (size_t i = 0; i < sizeof tellers / sizeof *tellers; i++)
        find(tellers[i])->tells = true;
    for (int i = 0; i < PAIR_COUNT; i++) {
        find(pairs[i].made)->makes = true;
        find(pairs[i].ended)->ends = true;
    }
}

/* ---- a call ---- */

static int call(const row *called, const uintptr_t a[ARGUMENTS])
{
    int (*target)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
    memcpy(&target, &called->target, sizeof target);
    return target(a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* What ends something does so; a graph that a failed capture gives is nobody's. */
static int fail(row *called, const uintptr_t a[ARGUMENTS])
{
    static void *nobodys;
    const uintptr_t instead[ARGUMENTS] = {
        a[0], called->makes ? (uintptr_t)&nobodys : a[1], a[2], a[3], a[4], a[5]};
    if (!plm_all_faults.failed)
        plm_all_faults.failed = called->name;
    if (called->ends && call(called, instead) == 0) {
        called->done++;
        if (called->makes)
            find("cuGraphDestroy")->done++;
    }
    return called->library == DRIVER && plm_all_faults.out_of_memory ? OUT_OF_MEMORY
                                                                     : failures[called->library];
}

way plm_faults_enter(row *called, const uintptr_t arguments[ARGUMENTS])
{
    plm_faults *faults = &plm_all_faults;
    called->calls++;
    if (called->tells)
        return (way){called->target, 0};
    faults->calls++;
    if (faults->fail_at > 0 && (faults->calls == faults->fail_at ||
                                (faults->persistent && faults->calls > faults->fail_at)))
        return (way){NULL, fail(called, arguments)};
    if (!called->makes && !called->ends)
        return (way){called->target, 0};
    int status = call(called, arguments);
    called->done += status == 0;
    return (way){NULL, status};
}
