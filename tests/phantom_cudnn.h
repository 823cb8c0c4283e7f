/* SPDX-License-Identifier: MIT */
/*
 * What both tests of the stand-in's cuDNN share: a convolution's description, and the stand-in
 * library loaded into the test with an H200's description, in front of one cuDNN or another. Kept
 * in a header: each test is one program. The test names PLM_PHANTOM_LIBRARY.
 */
#ifndef PLM_TESTS_PHANTOM_CUDNN_H
#define PLM_TESTS_PHANTOM_CUDNN_H

#include "phantom/cudnn_convolution.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum plm__test_library { PLM_TEST_CUDNN, PLM_TEST_STANDIN };

static void *plm__test_libraries[2];
static char plm__test_folder[] = "/tmp/plm_cudnn_XXXXXX", plm__test_device[64], plm__test_log[64];

static inline struct plm_cudnn_tensor plm__test_tensor(int type, bool channels_last, int64_t n,
                                                       int64_t c, int64_t side)
{
    struct plm_cudnn_tensor first = {
        4, type, {n, c, side, side}, {c * side * side, side * side, side, 1}};
    struct plm_cudnn_tensor last = {4, type, {n, c, side, side}, {c * side * side, 1, c * side, c}};
    return channels_last ? last : first;
}

static inline struct plm_cudnn_convolution plm__test_convolution(enum plm_cudnn_direction direction,
                                                                 int type, bool channels_last,
                                                                 int64_t n, int64_t c, int64_t k,
                                                                 int64_t side, int64_t filter,
                                                                 int64_t padding, int64_t stride)
{
    return (struct plm_cudnn_convolution){
        .direction = direction,
        .image = plm__test_tensor(type, channels_last, n, c, side),
        .filter = plm__test_tensor(type, channels_last, k, c, filter),
        .output =
            plm__test_tensor(type, channels_last, n, k, (side + 2 * padding - filter) / stride + 1),
        .padding = {padding, padding},
        .stride = {stride, stride},
        .dilation = {1, 1},
    };
}

static inline void plm__test_require(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "wanted %s\n", what);
        exit(3);
    }
}

/* Writes the H200's description and loads the stand-in; a cuDNN must have been loaded before. */
static inline void plm__test_load_standin(void)
{
    plm__test_require(mkdtemp(plm__test_folder), "a temporary folder");
    snprintf(plm__test_device, sizeof plm__test_device, "%s/device", plm__test_folder);
    snprintf(plm__test_log, sizeof plm__test_log, "%s/log", plm__test_folder);
    FILE *file = fopen(plm__test_device, "w");
    plm__test_require(file, "a file for the device");
    fprintf(file,
            "name NVIDIA H200\nmemory_bytes 150109880320\ncontext_bytes 0\nmultiprocessors 132\n"
            "capability 90\nthreads_per_multiprocessor 2048\nblocks_per_multiprocessor 32\n"
            "shared_bytes_per_multiprocessor 233472\nshared_bytes_per_block_optin 232448\n"
            "registers_per_multiprocessor 65536\nl2_bytes 62914560\nclock_khz 1980000\n"
            "memory_clock_khz 3201000\nbus_bits 6144\ndevices 1\ndriver 13000\nlog %s\n",
            plm__test_log);
    fclose(file);
    setenv("PLIMSOLL_PHANTOM", plm__test_device, 1);
    plm__test_libraries[PLM_TEST_STANDIN] = dlopen(PLM_PHANTOM_LIBRARY, RTLD_LAZY);
    plm__test_require(plm__test_libraries[PLM_TEST_STANDIN], "the stand-in library");
}

/* Loads a cuDNN, and the stand-in in front of it. False: there is no such cuDNN. */
static inline bool plm__test_load(const char *cudnn)
{
    plm__test_libraries[PLM_TEST_CUDNN] = dlopen(cudnn, RTLD_LAZY | RTLD_GLOBAL);
    if (!plm__test_libraries[PLM_TEST_CUDNN])
        return false;
    plm__test_load_standin();
    return true;
}

static inline void plm__test_unload(void)
{
    unlink(plm__test_device);
    unlink(plm__test_log);
    rmdir(plm__test_folder);
}

static inline void *plm__test_symbol(enum plm__test_library library, const char *name)
{
    void *symbol = dlsym(plm__test_libraries[library], name);
    plm__test_require(symbol, name);
    return symbol;
}

/* Whether the stand-in's log has that line. */
static inline bool plm__test_log_has(const char *line)
{
    char read[512];
    bool has = false;
    FILE *file = fopen(plm__test_log, "r");
    while (file && fgets(read, sizeof read, file)) {
        read[strcspn(read, "\n")] = '\0';
        has |= !strcmp(read, line);
    }
    if (file)
        fclose(file);
    return has;
}

#endif
