/* SPDX-License-Identifier: MIT */
/*
 * Address space as NVIDIA's driver hands it out: reservations in multiples of 32 MiB, each below
 * the last. Where memory lies decides which of two equal free blocks PyTorch's allocator takes, so
 * how its pool breaks into pieces, so what it reserves. The caller holds the process's lock.
 *
 * Opened space reads as zeros and takes host memory only for the pages (4 KiB) that are written.
 * The one limit is the system's own: a process that gets no address space is stopped, because that
 * must not look like a GPU that is full.
 */
#ifndef PLM_PHANTOM_SPACE_H
#define PLM_PHANTOM_SPACE_H

#include <stddef.h>
#include <stdint.h>

#define PLM_SPACE_GRANULE_BYTES     ((size_t)2 << 20)
#define PLM_SPACE_RESERVATION_BYTES ((size_t)32 << 20)

/* `bytes` as a multiple of `unit`, a power of two. */
static inline size_t plm__space_round(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) & ~(unit - 1);
}

/* A new reservation of a multiple of 32 MiB, closed: touching it is a fault. */
uintptr_t plm__space_reserve(size_t bytes);

void plm__space_open(uintptr_t address, size_t bytes);

/* Closes space and gives its pages back to the system. */
void plm__space_close(uintptr_t address, size_t bytes);

/* Makes [address, address + bytes) zeros. Whole pages go back to the system where it allows that,
 * so that gigabytes of zeros cost nothing. */
void plm__space_zero(void *address, size_t bytes);

#endif
