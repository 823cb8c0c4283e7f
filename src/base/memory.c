/* SPDX-License-Identifier: MIT */
/* Resident and available memory from /proc and the control group's files. */
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

plm_status plm_memory_resident(size_t *bytes)
{
    char text[128];
    unsigned long long whole, resident;
    PLM_FAIL_IF(!plm_file_read_start("/proc/self/statm", text, sizeof text) ||
                    sscanf(text, "%llu %llu", &whole, &resident) != 2,
                PLM_ERROR_IO, "cannot read this program's resident memory from /proc/self/statm");
    *bytes = (size_t)resident * (size_t)sysconf(_SC_PAGESIZE);
    return PLM_OK;
}

/* What version 2 control groups leave: memory.max less memory.current; SIZE_MAX without a limit. */
static size_t left_in_group(void)
{
    char limit[64], current[64];
    if (!plm_file_read_start("/sys/fs/cgroup/memory.max", limit, sizeof limit) ||
        !plm_file_read_start("/sys/fs/cgroup/memory.current", current, sizeof current) ||
        strncmp(limit, "max", 3) == 0)
        return SIZE_MAX;
    size_t most = strtoull(limit, NULL, 10), used = strtoull(current, NULL, 10);
    return used < most ? most - used : 0;
}

plm_status plm_memory_available(size_t *bytes)
{
    char text[1024];
    const char *line = NULL;
    if (plm_file_read_start("/proc/meminfo", text, sizeof text))
        line = strstr(text, "MemAvailable:");
    PLM_FAIL_IF(!line, PLM_ERROR_IO,
                "cannot read the available memory from /proc/meminfo; state a budget");
    size_t available = (size_t)strtoull(line + strlen("MemAvailable:"), NULL, 10) * 1024;
    size_t left = left_in_group();
    *bytes = left < available ? left : available;
    return PLM_OK;
}
