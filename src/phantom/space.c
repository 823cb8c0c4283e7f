/* SPDX-License-Identifier: MIT */
/*
 * Reservations are mappings without permission and without a claim on memory (MAP_NORESERVE), at
 * fixed addresses that go down from START; opening and closing changes permissions. Huge pages are
 * refused, because one written byte would take 2 MiB of the host. START lies below everything that
 * Linux maps by itself on x86-64 and above programs and their heaps.
 */
#include "phantom/space.h"

#include "phantom/phantom.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define START ((uintptr_t)0x6e0000000000)

enum { PAGE_BYTES = 4096, MAX_TRIES = 1024 };

static uintptr_t lowest = START;

_Noreturn static void stop(size_t bytes)
{
    plm__phantom_stop("wanted %zu bytes of address space for device memory, found: %s; "
                      "raise the limit (ulimit -v), or allow overcommit (vm.overcommit_memory=0)",
                      bytes, strerror(errno));
}

/* Whether the address was free and is now ours. Linux before 4.17 takes it for a hint. */
static bool claim(uintptr_t address, size_t bytes)
{
    void *got = mmap((void *)address, bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == (void *)address)
        return true;
    if (got != MAP_FAILED)
        munmap(got, bytes);
    else if (errno != EEXIST)
        stop(bytes);
    return false;
}

uintptr_t plm__space_reserve(size_t bytes)
{
    for (int i = 0; i < MAX_TRIES && lowest > bytes; i++) {
        lowest -= bytes;
        if (claim(lowest, bytes)) {
            madvise((void *)lowest, bytes, MADV_NOHUGEPAGE);
            madvise((void *)lowest, bytes, MADV_DONTDUMP);
            return lowest;
        }
    }
    errno = ENOMEM;
    stop(bytes);
}

void plm__space_open(uintptr_t address, size_t bytes)
{
    if (mprotect((void *)address, bytes, PROT_READ | PROT_WRITE))
        stop(bytes);
}

void plm__space_close(uintptr_t address, size_t bytes)
{
    madvise((void *)address, bytes, MADV_DONTNEED);
    if (mprotect((void *)address, bytes, PROT_NONE))
        stop(bytes);
}

void plm__space_zero(void *address, size_t bytes)
{
    char *start = address, *end = start + bytes;
    char *first = (char *)plm__space_round((uintptr_t)start, PAGE_BYTES);
    char *last = (char *)((uintptr_t)end & ~(uintptr_t)(PAGE_BYTES - 1));
    if (first >= last || madvise(first, (size_t)(last - first), MADV_DONTNEED)) {
        memset(start, 0, bytes);
        return;
    }
    memset(start, 0, (size_t)(first - start));
    memset(last, 0, (size_t)(end - last));
}
