/* SPDX-License-Identifier: MIT */
/* Devices by name: the one place that knows which kinds there are. docs/add-a-device.md tells how a
 * row is added. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "device/cpu/cpu.h"
#include "device/cuda_load.h"

typedef plm_status open_kind(int32_t index, int32_t threads, size_t cap_bytes, plm_device **device);

static plm_status open_cpu(int32_t index, int32_t threads, size_t cap_bytes, plm_device **device)
{
    (void)index;
    return plm__cpu_create(threads, cap_bytes, device);
}

static plm_status open_cuda(int32_t index, int32_t threads, size_t cap_bytes, plm_device **device)
{
    (void)threads;
    return plm__cuda_create(index, cap_bytes, device);
}

/* One row a kind. Of a numbered one "cuda:1" is the second; "cuda" is the first. */
static const struct {
    const char *name;
    bool is_numbered;
    open_kind *open;
} kinds[] = {
    {"cpu", false, open_cpu},
    {"cuda", true, open_cuda},
};

/* What stands behind the name of a kind, as a number; -1 for what is none. */
static int32_t read_index(const char *rest, bool is_numbered)
{
    char *end;
    if (!*rest)
        return 0;
    if (!is_numbered || rest[0] != ':' || rest[1] < '0' || rest[1] > '9')
        return -1;
    long index = strtol(rest + 1, &end, 10);
    return *end || index > SHRT_MAX ? -1 : (int32_t)index;
}

plm_status plm_device_open(const char *name, int32_t threads, size_t cap_bytes, plm_device **device)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t length = strlen(kinds[i].name);
        bool is_kind = strncmp(name, kinds[i].name, length) == 0;
        int32_t index = is_kind ? read_index(name + length, kinds[i].is_numbered) : -1;
        if (index >= 0)
            return kinds[i].open(index, threads, cap_bytes, device);
    }
    return plm_fail(
        PLM_ERROR_ARGUMENT,
        "unknown device '%.60s'; known are cpu, and cuda or cuda:N for the GPU number N", name);
}
