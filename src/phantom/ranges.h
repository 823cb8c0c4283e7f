/* SPDX-License-Identifier: MIT */
/*
 * Which memory an address lies in: ranges that do not overlap, found by bisection, because a
 * training run holds thousands and asks at every copy. The caller holds the process's lock. A set
 * of ranges starts as zeros; what a call returns is good until the next change.
 */
#ifndef PLM_PHANTOM_RANGES_H
#define PLM_PHANTOM_RANGES_H

#include <stddef.h>
#include <stdint.h>

enum plm_range_kind {
    PLM_RANGE_DEVICE,     /* cudaMalloc: whole granules of one device */
    PLM_RANGE_SMALL,      /* a part of a granule that small requests share */
    PLM_RANGE_POOL,       /* cudaMallocAsync: a part of the pool's memory */
    PLM_RANGE_RESERVED,   /* cuMemAddressReserve: addresses, memory only where it is mapped */
    PLM_RANGE_MAPPED,     /* cuMemMap: memory within such a reservation (a set of its own) */
    PLM_RANGE_PINNED,     /* cudaHostAlloc */
    PLM_RANGE_REGISTERED, /* cudaHostRegister: the caller's own memory */
};

struct plm_range {
    uintptr_t address;
    size_t bytes;
    enum plm_range_kind kind;
    int device;
    int physical; /* MAPPED: which physical memory, as vmm.c numbers it */
};

struct plm_ranges {
    struct plm_range *items; /* ascending */
    int count;
};

enum { PLM_PHANTOM_MAX_RANGES = 1 << 20 };

void plm__ranges_add(struct plm_ranges *ranges, struct plm_range range);

/* The range that holds `address`, or NULL. */
struct plm_range *plm__ranges_find(const struct plm_ranges *ranges, uintptr_t address);

/* Removes a range that find returned. */
void plm__ranges_remove(struct plm_ranges *ranges, struct plm_range *range);

#endif
