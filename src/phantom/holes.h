/* SPDX-License-Identifier: MIT */
/*
 * Free stretches of addresses, lowest first; neighbours are one. The caller holds the process's
 * lock. A set of holes starts as zeros.
 *
 *     [0x00, 0x40) [0x60, 0x80)    take 0x20 -> 0x00    give [0x40, 0x60) -> one hole [0x20, 0x80)
 */
#ifndef PLM_PHANTOM_HOLES_H
#define PLM_PHANTOM_HOLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plm_hole {
    uintptr_t address;
    size_t bytes;
};

struct plm_holes {
    struct plm_hole *items; /* ascending, never touching each other */
    int count;
};

enum { PLM_PHANTOM_MAX_HOLES = 1 << 18 };

/* Takes `bytes` from the start of the lowest hole that is large enough; false where none is. */
bool plm__holes_take(struct plm_holes *holes, size_t bytes, uintptr_t *address);

/* Takes [address, address + bytes), which lies within one hole. */
void plm__holes_cut(struct plm_holes *holes, uintptr_t address, size_t bytes);

void plm__holes_give(struct plm_holes *holes, uintptr_t address, size_t bytes);

#endif
