/* SPDX-License-Identifier: MIT */
/*
 * How tests/unit/test_phantom*.c reach the stand-in: run_child forks, writes the configuration,
 * loads a runtime of the wanted major version and the library, and runs the body there. In the
 * body CHECK is for assert_true, because cmocka's own cannot speak for another process.
 *
 *     static void ask(void) { CHECK_EQUAL(CALL(cuInit, int, (unsigned), (0)), 100); }
 *     ... run_child(H200, 13, ask);
 *
 * CALL names a function, its result, its parameters and the arguments. Everything is static: the
 * file is a part of each test program that includes it.
 */
#ifndef PLM_TEST_PHANTOM_CALL_H
#define PLM_TEST_PHANTOM_CALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/scratch.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICE_OF(memory, context, devices, capability)                                            \
    "name NVIDIA H200\nmemory_bytes " memory "\ncontext_bytes " context "\nmultiprocessors 132\n"  \
    "capability " capability "\nthreads_per_multiprocessor 2048\nblocks_per_multiprocessor 32\n"   \
    "shared_bytes_per_multiprocessor 233472\nshared_bytes_per_block_optin 232448\n"                \
    "registers_per_multiprocessor 65536\nl2_bytes 62914560\nclock_khz 1980000\n"                   \
    "memory_clock_khz 3201000\nbus_bits 6144\ndevices " devices "\ndriver 13000\n"
#define DEVICE(memory, context, devices) DEVICE_OF(memory, context, devices, "90")
#define CAPABILITY(capability)           DEVICE_OF("150109880320", "0", "1", capability)
#define H200                             DEVICE("150109880320", "0", "1")

enum { CHILD_SECONDS = 100, FAILED_CHECK = 99 };

static void *library;
static char folder[SCRATCH_BYTES]; /* of the running test; its configuration and log */

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(FAILED_CHECK);                                                                   \
        }                                                                                          \
    } while (0)

#define CHECK_EQUAL(found, wanted)                                                                 \
    do {                                                                                           \
        int64_t found_ = (int64_t)(found), wanted_ = (int64_t)(wanted);                            \
        if (found_ != wanted_) {                                                                   \
            fprintf(stderr, "%s:%d: %s: found %lld, wanted %lld\n", __FILE__, __LINE__, #found,    \
                    (long long)found_, (long long)wanted_);                                        \
            _exit(FAILED_CHECK);                                                                   \
        }                                                                                          \
    } while (0)

static inline void *symbol(const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "the library has no %s\n", name);
        _exit(FAILED_CHECK);
    }
    return found;
}

#define CALL(name, result, parameters, arguments)                                                  \
    (((union {                                                                                     \
         void *address;                                                                            \
         result(*function) parameters;                                                             \
     }){symbol(#name)})                                                                            \
         .function arguments)

static inline bool try_take(size_t bytes)
{
    void *memory = NULL;
    return CALL(cudaMalloc, int, (void **, size_t), (&memory, bytes)) == 0;
}

static inline void *take(size_t bytes)
{
    void *memory = NULL;
    CHECK_EQUAL(CALL(cudaMalloc, int, (void **, size_t), (&memory, bytes)), 0);
    return memory;
}

static inline void give(void *memory)
{
    CHECK_EQUAL(CALL(cudaFree, int, (void *), (memory)), 0);
}

static inline size_t used(int device)
{
    return CALL(plm_phantom_used_bytes, size_t, (int), (device));
}

static inline size_t free_info(size_t *total_bytes)
{
    size_t free_bytes, total;
    CALL(cudaMemGetInfo, int, (size_t *, size_t *),
         (&free_bytes, total_bytes ? total_bytes : &total));
    return free_bytes;
}

static inline size_t resident_bytes(void)
{
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lu %lu", &pages, &resident) == 2);
    fclose(file);
    return resident * 4096;
}

static inline void load(int cuda)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/libcudart.so.%d", PLM_PHANTOM_RUNTIMES, cuda);
    CHECK(dlopen(path, RTLD_NOW));
    library = dlopen(PLM_PHANTOM_LIBRARY, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(FAILED_CHECK);
    }
}

static inline const char *path_in_folder(const char *name)
{
    static char path[SCRATCH_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* The lines of `config`, and where the log goes, if one is wanted; NULL for no configuration. */
static inline void write_config(const char *config, bool with_log)
{
    unsetenv("PLIMSOLL_PHANTOM");
    assert_true(scratch_folder(folder));
    if (!config)
        return;
    FILE *file = fopen(path_in_folder("device.txt"), "w");
    assert_non_null(file);
    fputs(config, file);
    if (with_log)
        fprintf(file, "log %s\n", path_in_folder("log"));
    fclose(file);
    setenv("PLIMSOLL_PHANTOM", path_in_folder("device.txt"), 1);
}

/* Ends the folder; the log's text, "" where there is none. */
static inline char *end_folder(void)
{
    static char text[16384];
    text[0] = '\0';
    FILE *file = fopen(path_in_folder("log"), "r");
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    remove(path_in_folder("log"));
    remove(path_in_folder("device.txt"));
    rmdir(folder);
    return text;
}

/* What came out of a process. */
struct child {
    int status;
    char *said; /* until the next run */
    char *log;
};

/* Runs `body` in a process of its own. */
static inline struct child run(const char *config, bool with_log, int cuda, void (*body)(void))
{
    static char said[16384];
    int ends[2], status = -1;
    write_config(config, with_log);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        alarm(CHILD_SECONDS);
        load(cuda);
        body();
        _exit(0);
    }
    close(ends[1]);
    size_t count = 0;
    ssize_t got;
    while (count < sizeof said - 1 &&
           (got = read(ends[0], said + count, sizeof said - 1 - count)) > 0)
        count += (size_t)got;
    said[count] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return (struct child){.status = status, .said = said, .log = end_folder()};
}

/* The body must go through. */
static inline struct child run_logged(const char *config, bool with_log, int cuda,
                                      void (*body)(void))
{
    struct child child = run(config, with_log, cuda, body);
    if (child.status != 0)
        print_error("%s(status %d)\n", child.said, child.status);
    assert_int_equal(child.status, 0);
    return child;
}

static inline char *run_child(const char *config, int cuda, void (*body)(void))
{
    return run_logged(config, false, cuda, body).said;
}

/* The library must stop the process with 3; what it printed. */
static inline char *run_stopped(const char *config, void (*body)(void))
{
    struct child child = run(config, false, 13, body);
    assert_true(WIFEXITED(child.status));
    assert_int_equal(WEXITSTATUS(child.status), 3);
    return child.said;
}

#endif
