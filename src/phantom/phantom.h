/* SPDX-License-Identifier: MIT */
/*
 * What the files of the stand-in library share.
 *
 * libplimsoll_phantom.so is loaded into a user's own Python process (LD_PRELOAD) and answers in
 * place of NVIDIA's libraries on a machine without a GPU. PyTorch's host code then runs as on the
 * card: kernels do nothing, device memory is address space. Which device is not there, a text file
 * tells, named by the environment variable PLIMSOLL_PHANTOM; the file is read at the first call.
 *
 * The library is a guest: no name of its own is visible but plm_phantom_*, nothing is printed
 * unless the library stops loudly, no lock is held while code of others runs, and a process that
 * forks keeps working in the child.
 *
 *     PLM_STANDIN(int, cudaGetDeviceCount, (int *count))
 *     {
 *         *count = plm__phantom_device()->devices;
 *         return 0;
 *     }
 */
#ifndef PLM_PHANTOM_PHANTOM_H
#define PLM_PHANTOM_PHANTOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A name that the process sees. All else is hidden (cmake/phantom.cmake). */
#define PLM_PHANTOM_EXPORT __attribute__((visibility("default")))

/* The head of a function that stands in for one of NVIDIA's; its row is in functions.def. */
#define PLM_STANDIN(result, name, parameters)                                                      \
    PLM_PHANTOM_EXPORT result name parameters;                                                     \
    result name parameters

/* The device that is not there, as the configuration tells it; every field is a key of the file. */
struct plm_phantom_device {
    char name[128];
    size_t memory_bytes;  /* what cudaMemGetInfo calls total */
    size_t context_bytes; /* counted against the capacity, with nobody's name on it; may be 0 */
    int multiprocessors;
    int capability; /* 90 is compute capability 9.0 */
    int threads_per_multiprocessor;
    int blocks_per_multiprocessor;
    size_t shared_bytes_per_multiprocessor;
    size_t shared_bytes_per_block_optin;
    int registers_per_multiprocessor;
    size_t l2_bytes;
    int clock_khz;
    int memory_clock_khz;
    int bus_bits;
    int devices;    /* how many of the kind the process sees, 1 to PLM_PHANTOM_MAX_DEVICES */
    int driver;     /* 13000 is CUDA 13.0 */
    int opens;      /* 1: cuInit finds the devices; 0: none, as static runtimes must (driver.c) */
    char log[4096]; /* the file that asked names are appended to; "" for none */
};

enum { PLM_PHANTOM_MAX_DEVICES = 64 };

/* Reads the configuration at the first call; a process without a good one is stopped, by one line
 * and status 3. Borrowed, never changed afterwards. Any thread, the first time without the
 * process's lock (process.h). */
const struct plm_phantom_device *plm__phantom_device(void);

/* Says one line on standard error, "plimsoll forecast: " first, and ends the process with 3. */
_Noreturn void plm__phantom_stop(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Notes in the log that `name` was asked: as "nothing NAME" where it succeeds without effect, as
 * "refused NAME" where it fails. `asked` is the caller's own flag, false at first: a name is noted
 * once in a process. */
void plm__phantom_note(const char *name, bool *asked);
void plm__phantom_refused(const char *name, bool *asked);

/* Tells that `name` was asked for a size that nobody knows, on standard error and in the log as
 * "size NAME", once in a process; the caller then returns an error of its library. */
void plm__phantom_size_unknown(const char *name, bool *asked);

#endif
