/* SPDX-License-Identifier: MIT */
/* Holes in an array that is sorted by address: found by bisection, taken by the first that fits. */
#include "phantom/holes.h"

#include "phantom/phantom.h"
#include "phantom/process.h"

#include <string.h>

static void open_at(struct plm_holes *holes, int at)
{
    if (holes->count == PLM_PHANTOM_MAX_HOLES)
        plm__phantom_stop("wanted at most %d free stretches of device memory, found more",
                          PLM_PHANTOM_MAX_HOLES);
    size_t after = (size_t)(holes->count - at);
    memmove(holes->items + at + 1, holes->items + at, after * sizeof *holes->items);
    holes->count++;
}

static void close_at(struct plm_holes *holes, int at)
{
    size_t after = (size_t)(holes->count - at - 1);
    memmove(holes->items + at, holes->items + at + 1, after * sizeof *holes->items);
    holes->count--;
}

/* The first hole that starts after `address`. */
static int first_after(const struct plm_holes *holes, uintptr_t address)
{
    int low = 0, high = holes->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (holes->items[middle].address > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool plm__holes_take(struct plm_holes *holes, size_t bytes, uintptr_t *address)
{
    int at = 0;
    while (at < holes->count && holes->items[at].bytes < bytes)
        at++;
    if (at == holes->count)
        return false;
    struct plm_hole *hole = &holes->items[at];
    *address = hole->address;
    hole->address += bytes;
    hole->bytes -= bytes;
    if (hole->bytes == 0)
        close_at(holes, at);
    return true;
}

static bool touch(const struct plm_holes *holes, int left)
{
    return left >= 0 && left + 1 < holes->count &&
           holes->items[left].address + holes->items[left].bytes == holes->items[left + 1].address;
}

static void join(struct plm_holes *holes, int left)
{
    holes->items[left].bytes += holes->items[left + 1].bytes;
    close_at(holes, left + 1);
}

void plm__holes_give(struct plm_holes *holes, uintptr_t address, size_t bytes)
{
    if (!holes->items)
        holes->items = plm__phantom_table(PLM_PHANTOM_MAX_HOLES * sizeof *holes->items);
    int at = first_after(holes, address);
    open_at(holes, at);
    holes->items[at] = (struct plm_hole){.address = address, .bytes = bytes};
    if (touch(holes, at))
        join(holes, at);
    if (touch(holes, at - 1))
        join(holes, at - 1);
}

void plm__holes_cut(struct plm_holes *holes, uintptr_t address, size_t bytes)
{
    int at = first_after(holes, address) - 1;
    struct plm_hole hole = holes->items[at];
    close_at(holes, at);
    uintptr_t end = address + bytes, hole_end = hole.address + hole.bytes;
    if (address > hole.address)
        plm__holes_give(holes, hole.address, address - hole.address);
    if (hole_end > end)
        plm__holes_give(holes, end, hole_end - end);
}
