/* SPDX-License-Identifier: MIT */
/*
 * Device memory in whole granules, and two shelves that cut granules into parts of 512 bytes: one
 * for small requests, as the driver shares a granule among them, and one for the pool of
 * cudaMallocAsync, which takes 32 MiB at a time. PyTorch's own allocator asks for multiples of
 * 2 MiB, so for PyTorch only the granules matter; where exactly the driver draws the line between
 * small and large is not known, and half a granule is taken.
 *
 * Within the device's reservations a request takes the lowest hole that fits; a new reservation
 * lies below all others, of every device (space.h).
 *
 *     90 MiB -> [R, R + 90 MiB) of a reservation of 96 MiB; then 2 MiB -> R + 90 MiB
 */
#include "phantom/memory.h"

#include "phantom/holes.h"
#include "phantom/phantom.h"
#include "phantom/process.h"
#include "phantom/space.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define PART_BYTES      ((size_t)512)
#define SMALL_BYTES     (PLM_SPACE_GRANULE_BYTES / 2) /* smaller requests share a granule */
#define POOL_STEP_BYTES ((size_t)32 << 20)

struct shelf {
    struct plm_holes holes; /* opened memory, counted as used, that nobody holds */
    size_t step_bytes;      /* taken from the device at a time, at least */
};

struct device {
    size_t used_bytes, peak_bytes;
    struct plm_holes holes; /* closed space of our reservations, in whole granules */
    struct shelf small, pool;
    struct plm_pool_use pool_use;
};

static struct device devices[PLM_PHANTOM_MAX_DEVICES];
struct plm_ranges plm__memory_ranges, plm__memory_mapped;

bool plm__memory_count(int device, size_t bytes)
{
    const struct plm_phantom_device *limits = plm__phantom_device();
    struct device *here = &devices[device];
    size_t taken = limits->context_bytes + here->used_bytes;
    if (taken > limits->memory_bytes || bytes > limits->memory_bytes - taken)
        return false;
    here->used_bytes += bytes;
    if (here->used_bytes > here->peak_bytes)
        here->peak_bytes = here->used_bytes;
    return true;
}

void plm__memory_uncount(int device, size_t bytes)
{
    devices[device].used_bytes -= bytes;
}

/* Granules that are counted and opened; false where the device is full. */
static bool take_granules(int device, size_t bytes, uintptr_t *address)
{
    struct plm_holes *holes = &devices[device].holes;
    if (!plm__memory_count(device, bytes))
        return false;
    if (!plm__holes_take(holes, bytes, address)) {
        size_t reservation_bytes = plm__space_round(bytes, PLM_SPACE_RESERVATION_BYTES);
        uintptr_t start = plm__space_reserve(reservation_bytes);
        plm__holes_give(holes, start, reservation_bytes);
        plm__holes_cut(holes, start, bytes);
        *address = start;
    }
    plm__space_open(*address, bytes);
    return true;
}

static void give_granules(int device, uintptr_t address, size_t bytes)
{
    plm__space_close(address, bytes);
    plm__holes_give(&devices[device].holes, address, bytes);
    plm__memory_uncount(device, bytes);
}

static bool take_part(int device, struct shelf *shelf, size_t bytes, uintptr_t *address)
{
    if (plm__holes_take(&shelf->holes, bytes, address))
        return true;
    uintptr_t start;
    size_t step_bytes = plm__space_round(bytes, shelf->step_bytes);
    if (!take_granules(device, step_bytes, &start))
        return false;
    plm__holes_give(&shelf->holes, start, step_bytes);
    return plm__holes_take(&shelf->holes, bytes, address);
}

/* Gives every granule on the shelf that is free as a whole back to the device. What they were. */
static size_t trim(int device, struct shelf *shelf)
{
    size_t given_bytes = 0;
    for (int i = shelf->holes.count - 1; i >= 0; i--) {
        struct plm_hole hole = shelf->holes.items[i];
        uintptr_t start = plm__space_round(hole.address, PLM_SPACE_GRANULE_BYTES);
        uintptr_t end = (hole.address + hole.bytes) & ~(PLM_SPACE_GRANULE_BYTES - 1);
        if (start >= end)
            continue;
        plm__holes_cut(&shelf->holes, start, end - start);
        give_granules(device, start, end - start);
        given_bytes += end - start;
    }
    return given_bytes;
}

static void note_range(uintptr_t address, size_t bytes, enum plm_range_kind kind, int device)
{
    plm__ranges_add(
        &plm__memory_ranges,
        (struct plm_range){.address = address, .bytes = bytes, .kind = kind, .device = device});
}

int plm__memory_take(int device, size_t bytes, void **address)
{
    *address = NULL;
    if (bytes == 0)
        return PLM_CUDA_OK;
    if (bytes > plm__phantom_device()->memory_bytes)
        return PLM_CUDA_OUT_OF_MEMORY;
    struct device *here = &devices[device];
    bool small = bytes < SMALL_BYTES, taken;
    uintptr_t start;
    bytes = plm__space_round(bytes, small ? PART_BYTES : PLM_SPACE_GRANULE_BYTES);
    plm__phantom_lock();
    here->small.step_bytes = PLM_SPACE_GRANULE_BYTES;
    taken = small ? take_part(device, &here->small, bytes, &start)
                  : take_granules(device, bytes, &start);
    if (taken)
        note_range(start, bytes, small ? PLM_RANGE_SMALL : PLM_RANGE_DEVICE, device);
    plm__phantom_unlock();
    if (taken)
        *address = (void *)start;
    return taken ? PLM_CUDA_OK : PLM_CUDA_OUT_OF_MEMORY;
}

static void grow(size_t *now, size_t *high, size_t bytes)
{
    *now += bytes;
    if (*now > *high)
        *high = *now;
}

int plm__memory_take_pooled(int device, size_t bytes, void **address)
{
    *address = NULL;
    if (bytes == 0)
        return PLM_CUDA_OK;
    if (bytes > plm__phantom_device()->memory_bytes)
        return PLM_CUDA_OUT_OF_MEMORY;
    struct device *here = &devices[device];
    struct plm_pool_use *use = &here->pool_use;
    uintptr_t start;
    bytes = plm__space_round(bytes, PART_BYTES);
    plm__phantom_lock();
    here->pool.step_bytes = POOL_STEP_BYTES;
    size_t before = here->used_bytes;
    bool taken = take_part(device, &here->pool, bytes, &start);
    if (taken) {
        grow(&use->reserved_bytes, &use->reserved_high_bytes, here->used_bytes - before);
        grow(&use->used_bytes, &use->used_high_bytes, bytes);
        note_range(start, bytes, PLM_RANGE_POOL, device);
    }
    plm__phantom_unlock();
    if (taken)
        *address = (void *)start;
    return taken ? PLM_CUDA_OK : PLM_CUDA_OUT_OF_MEMORY;
}

static void give_range(struct plm_range range)
{
    struct device *here = &devices[range.device];
    if (range.kind == PLM_RANGE_DEVICE) {
        give_granules(range.device, range.address, range.bytes);
        return;
    }
    plm__space_zero((void *)range.address, range.bytes);
    if (range.kind == PLM_RANGE_SMALL) {
        plm__holes_give(&here->small.holes, range.address, range.bytes);
        trim(range.device, &here->small);
    } else {
        plm__holes_give(&here->pool.holes, range.address, range.bytes);
        here->pool_use.used_bytes -= range.bytes;
    }
}

int plm__memory_give(void *address)
{
    if (!address)
        return PLM_CUDA_OK;
    plm__phantom_lock();
    struct plm_range *range = plm__ranges_find(&plm__memory_ranges, (uintptr_t)address);
    bool ours = range && range->address == (uintptr_t)address && range->kind <= PLM_RANGE_POOL;
    if (ours) {
        struct plm_range given = *range;
        plm__ranges_remove(&plm__memory_ranges, range);
        give_range(given);
    }
    plm__phantom_unlock();
    return ours ? PLM_CUDA_OK : PLM_CUDA_INVALID_VALUE;
}

void plm__memory_trim_pool(int device)
{
    plm__phantom_lock();
    devices[device].pool_use.reserved_bytes -= trim(device, &devices[device].pool);
    plm__phantom_unlock();
}

struct plm_pool_use plm__memory_pool_use(int device)
{
    plm__phantom_lock();
    struct plm_pool_use use = devices[device].pool_use;
    plm__phantom_unlock();
    return use;
}

void plm__memory_forget_pool_high(int device, bool reserved)
{
    struct plm_pool_use *use = &devices[device].pool_use;
    plm__phantom_lock();
    if (reserved)
        use->reserved_high_bytes = use->reserved_bytes;
    else
        use->used_high_bytes = use->used_bytes;
    plm__phantom_unlock();
}

int plm__memory_take_pinned(size_t bytes, void **address)
{
    *address = NULL;
    if (bytes == 0)
        return PLM_CUDA_OK;
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return PLM_CUDA_OUT_OF_MEMORY; /* pinned memory is the host's: the host is full */
    plm__phantom_lock();
    note_range((uintptr_t)start, bytes, PLM_RANGE_PINNED, 0);
    plm__phantom_unlock();
    *address = start;
    return PLM_CUDA_OK;
}

int plm__memory_register(void *address, size_t bytes)
{
    if (!address || bytes == 0)
        return PLM_CUDA_INVALID_VALUE;
    plm__phantom_lock();
    bool known = plm__ranges_find(&plm__memory_ranges, (uintptr_t)address);
    if (!known)
        note_range((uintptr_t)address, bytes, PLM_RANGE_REGISTERED, 0);
    plm__phantom_unlock();
    return known ? PLM_CUDA_ALREADY_REGISTERED : PLM_CUDA_OK;
}

int plm__memory_give_pinned(void *address)
{
    if (!address)
        return PLM_CUDA_OK;
    struct plm_range given = {0};
    plm__phantom_lock();
    struct plm_range *range = plm__ranges_find(&plm__memory_ranges, (uintptr_t)address);
    bool ours = range && range->address == (uintptr_t)address && range->kind >= PLM_RANGE_PINNED;
    if (ours) {
        given = *range;
        plm__ranges_remove(&plm__memory_ranges, range);
    }
    plm__phantom_unlock();
    if (ours && given.kind == PLM_RANGE_PINNED)
        munmap(address, given.bytes);
    return ours ? PLM_CUDA_OK : PLM_CUDA_INVALID_VALUE;
}

/* The mapped piece that holds the address, with those that follow it without a gap. */
static bool look_mapped(uintptr_t address, struct plm_range *range)
{
    const struct plm_ranges *mapped = &plm__memory_mapped;
    const struct plm_range *piece = plm__ranges_find(mapped, address);
    if (!piece)
        return false;
    *range = *piece;
    const struct plm_range *end = mapped->items + mapped->count;
    while (++piece < end && piece->address == range->address + range->bytes)
        range->bytes += piece->bytes;
    return true;
}

bool plm__memory_look(const void *address, struct plm_range *range)
{
    plm__phantom_lock();
    const struct plm_range *found = plm__ranges_find(&plm__memory_ranges, (uintptr_t)address);
    bool is_memory = found;
    if (found && found->kind == PLM_RANGE_RESERVED)
        is_memory = look_mapped((uintptr_t)address, range);
    else if (found)
        *range = *found;
    plm__phantom_unlock();
    return is_memory;
}

bool plm__memory_is_device(const struct plm_range *range)
{
    return range->kind <= PLM_RANGE_MAPPED;
}

size_t plm__memory_free_bytes(int device)
{
    const struct plm_phantom_device *limits = plm__phantom_device();
    plm__phantom_lock();
    size_t taken = limits->context_bytes + devices[device].used_bytes;
    plm__phantom_unlock();
    return taken < limits->memory_bytes ? limits->memory_bytes - taken : 0;
}

static size_t bytes_of(int device, size_t offset)
{
    if (device < 0 || device >= PLM_PHANTOM_MAX_DEVICES)
        return 0;
    plm__phantom_lock();
    size_t bytes = *(const size_t *)(const void *)((const char *)&devices[device] + offset);
    plm__phantom_unlock();
    return bytes;
}

/* What the devices hold and have held at most, without the context: for Python, by ctypes. */
PLM_STANDIN(size_t, plm_phantom_used_bytes, (int device))
{
    return bytes_of(device, offsetof(struct device, used_bytes));
}

PLM_STANDIN(size_t, plm_phantom_peak_bytes, (int device))
{
    return bytes_of(device, offsetof(struct device, peak_bytes));
}
