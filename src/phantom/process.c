/* SPDX-License-Identifier: MIT */
/*
 * The lock, handles, the loaded CUDA and the current device. The runtime is known by its file's
 * name: libcudart.so.12 or libcudart.so.13, which PyTorch's wheels load before they call it. An
 * answer is kept only once a runtime was found.
 */
#include "phantom/process.h"

#include "phantom/loader.h"
#include "phantom/phantom.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread int current;

void plm__phantom_lock(void)
{
    pthread_mutex_lock(&mutex);
}

void plm__phantom_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

/* The thread that forks has the lock in the child too, and opens it there. */
__attribute__((constructor)) static void hold_lock_over_fork(void)
{
    pthread_atfork(plm__phantom_lock, plm__phantom_unlock, plm__phantom_unlock);
}

void *plm__phantom_handle(void)
{
    static uintptr_t last = 0x1000;
    return (void *)__atomic_add_fetch(&last, 0x10, __ATOMIC_RELAXED);
}

static void *loaded_runtime(int major)
{
    return dlopen(major == 12 ? "libcudart.so.12" : "libcudart.so.13", RTLD_LAZY | RTLD_NOLOAD);
}

int plm__phantom_cuda(void)
{
    static int known;
    int major = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (major)
        return major;
    for (major = 13; major >= 12; major--)
        if (loaded_runtime(major)) {
            __atomic_store_n(&known, major, __ATOMIC_RELAXED);
            return major;
        }
    return 13;
}

void *plm__phantom_real(const char *library, const char *name)
{
    void *loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    return loaded ? dlsym(loaded, name) : NULL;
}

int plm__phantom_runtime_version(void)
{
    int major = plm__phantom_cuda(), version = major * 1000, found = 0;
    const char *library = major == 12 ? "libcudart.so.12" : "libcudart.so.13";
    int (*ask)(int *);
    *(void **)(void *)&ask = plm__phantom_real(library, "cudaRuntimeGetVersion");
    if (ask && !ask(&found) && found / 1000 == major)
        version = found;
    return version;
}

int plm__phantom_current(void)
{
    return current;
}

bool plm__phantom_select(int device)
{
    if (device < 0 || device >= plm__phantom_device()->devices)
        return false;
    current = device;
    return true;
}

void *plm__phantom_table(size_t bytes)
{
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        plm__phantom_stop("wanted %zu bytes of address space for a table, found none: %s; "
                          "raise the limit (ulimit -v)",
                          bytes, strerror(errno));
    return table;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 'a' ^ 'A';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int plm__phantom_hex(const char *text)
{
    int high = digit(text[0]);
    int low = high < 0 ? -1 : digit(text[1]);
    return low < 0 ? high : high * 16 + low;
}

int plm__phantom_bus_device(const char *address)
{
    const char *colon = strchr(address, ':');
    int bus = colon ? plm__phantom_hex(colon + 1) : -1;
    return bus >= 1 && bus <= plm__phantom_device()->devices ? bus - 1 : -1;
}
