/* SPDX-License-Identifier: MIT */
/*
 * The memory that the CPU device hands out: anonymous pages, committed at once, followed by a page
 * that cannot be touched. The region ends where that page begins. The hard cap and the counters
 * are here and nowhere else, apart from everything that predicts.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/size.h"
#include "device/cpu/cpu_internal.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Refuses `bytes`; `largest` would have been possible. */
static plm_status refuse(const plm_device *device, size_t bytes, size_t largest, const char *why)
{
    const plm_device_usage *usage = &device->usage;
    char asked[PLM_SIZE_TEXT], live[PLM_SIZE_TEXT], left[PLM_SIZE_TEXT];
    plm_status status = plm_fail(
        PLM_ERROR_DEVICE_MEMORY, "out of memory on the cpu: wanted %s, %s: %s handed out, %s left",
        plm_size_format(bytes, asked), why, plm_size_format(usage->live_bytes, live),
        plm_size_format(largest, left));
    plm__fail_oom(&(plm_oom_record){
        .asked_bytes = bytes,
        .rounded_bytes = bytes,
        .live_bytes = usage->live_bytes,
        .reserved_bytes = usage->live_bytes,
        .budget_bytes = usage->cap_bytes,
        .largest_free_bytes = largest,
    });
    return status;
}

/* Makes every page present. Where the kernel cannot do it in one call, each page is written. */
static bool commit(char *pages, size_t bytes, size_t page_bytes)
{
    madvise(pages, bytes, MADV_HUGEPAGE); /* fewer translation misses; no matter if refused */
    int failed;
    do
        failed = madvise(pages, bytes, MADV_POPULATE_WRITE);
    while (failed && errno == EINTR);
    if (!failed)
        return true;
    if (errno != EINVAL)
        return false;
    for (size_t at = 0; at < bytes; at += page_bytes)
        *(volatile char *)(pages + at) = 0;
    return true;
}

/* *pages = `bytes` committed bytes with an inaccessible page behind them; false when the system
 * refuses. */
static bool map_committed(size_t bytes, size_t page_bytes, char **pages)
{
    char *mapped = mmap(NULL, bytes + page_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return false;
    if (mprotect(mapped + bytes, page_bytes, PROT_NONE) != 0 ||
        !commit(mapped, bytes, page_bytes)) {
        munmap(mapped, bytes + page_bytes);
        return false;
    }
    *pages = mapped;
    return true;
}

plm_status plm__cpu_reserve(plm_device *device, size_t bytes, void **region)
{
    plm_device_usage *usage = &device->usage;
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), mapped_bytes, whole_bytes;
    PLM_FAIL_IF(bytes == 0 || bytes % PLM_GRANULE_BYTES != 0, PLM_ERROR_ARGUMENT,
                "wanted a positive multiple of %zu bytes, found %zu", PLM_GRANULE_BYTES, bytes);
    PLM_TRY(plm__round_up_bytes(bytes, page_bytes, &mapped_bytes));
    PLM_TRY(plm__add_bytes(mapped_bytes, page_bytes, &whole_bytes));
    size_t left = usage->cap_bytes ? usage->cap_bytes - usage->live_bytes : SIZE_MAX;
    if (bytes > left)
        return refuse(device, bytes, left, "over the cap");
    size_t available = SIZE_MAX; /* where the system does not say, the kernel has the last word */
    if (plm__memory_available(&available) == PLM_OK)
        available &= ~(page_bytes - 1);
    if (whole_bytes > available) /* one page goes to the end that cannot be touched */
        return refuse(device, bytes, available > page_bytes ? available - page_bytes : 0,
                      "more than the machine has free");
    char *pages;
    if (!map_committed(mapped_bytes, page_bytes, &pages))
        return refuse(device, bytes, 0, "refused by the system");
    char *end = pages + mapped_bytes;
    memset(end - PLM_GRANULE_BYTES, PLM_ARENA_PATTERN, PLM_GRANULE_BYTES);
    usage->live_bytes += bytes;
    if (usage->live_bytes > usage->peak_bytes)
        usage->peak_bytes = usage->live_bytes;
    *region = end - bytes;
    return PLM_OK;
}

void plm__cpu_release(plm_device *device, void *region, size_t bytes)
{
    if (!region)
        return;
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    size_t mapped_bytes = (bytes + page_bytes - 1) & ~(page_bytes - 1);
    PLM_BUG_IF(bytes > device->usage.live_bytes, "released %zu bytes of %zu", bytes,
               device->usage.live_bytes);
    char *pages = (char *)region + bytes - mapped_bytes;
    PLM_BUG_IF(munmap(pages, mapped_bytes + page_bytes) != 0, "a region could not be unmapped");
    device->usage.live_bytes -= bytes;
}
