/* SPDX-License-Identifier: MIT */
/*
 * Memory as the system tells it. What can still be taken is MemAvailable, and what is left under
 * the limit of the control group that the process runs in (version 2 with all its parents, or
 * version 1), less what the group uses and cannot drop.
 */
#include "base/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum { LISTING_MAX = 16384, PATH_TEXT_MAX = 1024 };

bool plm__memory_find_figure(const char *listing, const char *name, size_t *figure)
{
    size_t length = strlen(name);
    for (const char *line = listing; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) != 0 || !strchr(": ", line[length]))
            continue;
        const char *digits = line + length + strspn(line + length, ": \t");
        char *end;
        unsigned long long number = strtoull(digits, &end, 10);
        if (end == digits)
            return false;
        *figure = (size_t)number * (strncmp(end, " kB", 3) == 0 ? 1024 : 1);
        return true;
    }
    return false;
}

/* A file that holds one number; false for "max" and for what cannot be read. */
static bool read_number(const char *directory, const char *name, size_t *number)
{
    char path[PATH_TEXT_MAX + 64], listing[LISTING_MAX], *end;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    plm__file_read_start(path, listing, sizeof listing);
    unsigned long long value = strtoull(listing, &end, 10);
    if (end == listing)
        return false;
    *number = (size_t)value;
    return true;
}

/* What one group leaves: its limit less its use, page cache that can be dropped not counted. */
static size_t left_in_group(const char *directory, const char *limit_name, const char *usage_name,
                            const char *cache_name)
{
    size_t limit, usage, cache = 0;
    if (!read_number(directory, limit_name, &limit) || !read_number(directory, usage_name, &usage))
        return SIZE_MAX;
    char path[PATH_TEXT_MAX + 64], listing[LISTING_MAX];
    snprintf(path, sizeof path, "%s/memory.stat", directory);
    plm__file_read_start(path, listing, sizeof listing);
    plm__memory_find_figure(listing, cache_name, &cache);
    usage -= cache < usage ? cache : usage;
    return usage < limit ? limit - usage : 0;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Version 2: the process's group is the line "0::/path"; every parent limits it too. */
static size_t left_in_groups(void)
{
    char listing[LISTING_MAX], directory[PATH_TEXT_MAX];
    plm__file_read_start("/proc/self/cgroup", listing, sizeof listing);
    const char *own = strstr(listing, "0::");
    snprintf(directory, sizeof directory, "/sys/fs/cgroup%.*s",
             own ? (int)strcspn(own + 3, "\n") : 0, own ? own + 3 : "");
    size_t left = SIZE_MAX, root = strlen("/sys/fs/cgroup");
    for (;;) {
        left = smaller(left,
                       left_in_group(directory, "memory.max", "memory.current", "inactive_file"));
        if (strlen(directory) <= root)
            break;
        *strrchr(directory, '/') = 0;
    }
    return smaller(left, left_in_group("/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                       "memory.usage_in_bytes", "total_inactive_file"));
}

plm_status plm__memory_resident(size_t *bytes)
{
    char listing[LISTING_MAX];
    unsigned long long whole, resident;
    plm__file_read_start("/proc/self/statm", listing, sizeof listing);
    PLM_FAIL_IF(sscanf(listing, "%llu %llu", &whole, &resident) != 2, PLM_ERROR_IO,
                "cannot read this program's resident memory from /proc/self/statm");
    *bytes = (size_t)resident * (size_t)sysconf(_SC_PAGESIZE);
    return PLM_OK;
}

plm_status plm__memory_available(size_t *bytes)
{
    char listing[LISTING_MAX];
    size_t available;
    plm__file_read_start("/proc/meminfo", listing, sizeof listing);
    PLM_FAIL_IF(!plm__memory_find_figure(listing, "MemAvailable", &available), PLM_ERROR_IO,
                "cannot read the available memory from /proc/meminfo; state a budget");
    *bytes = smaller(available, left_in_groups());
    return PLM_OK;
}
