/* SPDX-License-Identifier: MIT */
/*
 * The functions of functions.def that no other file has, made row by row, and the search by name.
 * They are called with any arguments: on x86-64 the caller clears those away, and what a function
 * does not declare it does not see.
 */
#include "phantom/driver.h"

#include "phantom/phantom.h"
#include "phantom/process.h"
#include "phantom/refused.h"

#include <stdio.h>
#include <string.h>

/* "Not supported", as each library has it. */
enum {
    NOT_SUPPORTED_runtime = 801,
    NOT_SUPPORTED_driver = 801,
    NOT_SUPPORTED_cublas = 15,
    NOT_SUPPORTED_cublaslt = 15,
    NOT_SUPPORTED_cudnn = 3000,
    NOT_SUPPORTED_cufft = 16,
    NOT_SUPPORTED_curand = 202,
    NOT_SUPPORTED_cusolver = 9,
    NOT_SUPPORTED_cusparse = 10,
    NOT_SUPPORTED_cusparselt = 10,
    NOT_SUPPORTED_nccl = 5,
    NOT_SUPPORTED_nvml = 3,
};

static __thread const char *last_refused;

const char *plm__refused_name(void)
{
    return last_refused ? last_refused : "this function";
}

#define OWN(library, name)
#define NOTHING(library, name)                                                                     \
    PLM_STANDIN(int, name, (void))                                                                 \
    {                                                                                              \
        static bool asked;                                                                         \
        plm__phantom_note(#name, &asked);                                                          \
        return 0;                                                                                  \
    }
#define HANDLE(library, name)                                                                      \
    PLM_STANDIN(int, name, (void **handle))                                                        \
    {                                                                                              \
        *handle = plm__phantom_handle();                                                           \
        return 0;                                                                                  \
    }
#define INT_HANDLE(library, name)                                                                  \
    PLM_STANDIN(int, name, (int *handle))                                                          \
    {                                                                                              \
        *handle = (int)(uintptr_t)plm__phantom_handle();                                           \
        return 0;                                                                                  \
    }
#define ZERO(library, name)                                                                        \
    PLM_STANDIN(int, name, (void *handle, int *value))                                             \
    {                                                                                              \
        *value = 0;                                                                                \
        return 0;                                                                                  \
    }
#define NULL2(library, name)                                                                       \
    PLM_STANDIN(int, name, (void *handle, void **value))                                           \
    {                                                                                              \
        *value = NULL;                                                                             \
        return 0;                                                                                  \
    }
#define SIZE(library, name)                                                                        \
    PLM_STANDIN(int, name, (void))                                                                 \
    {                                                                                              \
        static bool asked;                                                                         \
        last_refused = #name;                                                                      \
        plm__phantom_size_unknown(#name, &asked);                                                  \
        return NOT_SUPPORTED_##library;                                                            \
    }
#define REFUSES(library, name)                                                                     \
    PLM_STANDIN(int, name, (void))                                                                 \
    {                                                                                              \
        static bool asked;                                                                         \
        last_refused = #name;                                                                      \
        plm__phantom_refused(#name, &asked);                                                       \
        return NOT_SUPPORTED_##library;                                                            \
    }
#define PLM_PHANTOM(library, name, what) what(library, name)
#define PLM_PHANTOM_AS(library, name, other)                                                       \
    __asm__(".pushsection .text\n.globl " #name "\n.type " #name ", @function\n" #name             \
            ":\n\tendbr64\n\tjmp " #other "@PLT\n.size " #name ", .-" #name "\n.popsection");

/* clang-format off */
#include "phantom/functions.def"
/* clang-format on */

#undef PLM_PHANTOM
#undef PLM_PHANTOM_AS

/* The same rows as names and addresses. The types are not those of the functions: only addresses
 * are taken. */
#define PLM_PHANTOM(library, name, what)     extern char plm__address_##name[] __asm__(#name);
#define PLM_PHANTOM_AS(library, name, other) extern char plm__address_##name[] __asm__(#name);
#include "phantom/functions.def"
#undef PLM_PHANTOM
#undef PLM_PHANTOM_AS

enum library {
    LIBRARY_runtime,
    LIBRARY_driver,
    LIBRARY_cublas,
    LIBRARY_cublaslt,
    LIBRARY_cudnn,
    LIBRARY_cufft,
    LIBRARY_curand,
    LIBRARY_cusolver,
    LIBRARY_cusparse,
    LIBRARY_cusparselt,
    LIBRARY_nccl,
    LIBRARY_nvml,
};

#define PLM_PHANTOM(library, name, what)     {LIBRARY_##library, #name, plm__address_##name},
#define PLM_PHANTOM_AS(library, name, other) {LIBRARY_##library, #name, plm__address_##name},

static const struct row {
    enum library library;
    const char *name;
    void *function;
} rows[] = {
#include "phantom/functions.def"
};

static void *find(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].library == LIBRARY_driver && !strcmp(rows[i].name, name))
            return rows[i].function;
    return NULL;
}

void *plm__driver_find(const char *name)
{
    char newest[128];
    snprintf(newest, sizeof newest, "%s_v2", name);
    void *function = find(newest);
    return function ? function : find(name);
}
