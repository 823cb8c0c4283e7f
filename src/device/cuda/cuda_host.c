/* SPDX-License-Identifier: MIT */
/*
 * The module's own ends of what src/base gives the rest of the program: failures and host memory go
 * through the functions that the program lent, so there is one record of failures and one count of
 * host memory. These stand in for base/status.c and base/host.c, which the module does not hold.
 */
#include "device/cuda/cuda_host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/host.h"
#include "plimsoll/options.h"

static const plm_cuda_host *lent;

void plm__cuda_use_host(const plm_cuda_host *host)
{
    lent = host;
}

void plm__fail_at(const char *file, int line, plm_status status, const char *format, ...)
{
    char message[512];
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    lent->fail(file, line, status, message);
}

void plm__fail_oom(const plm_oom_record *oom)
{
    lent->fail_oom(oom);
}

void plm__bug_at(const char *file, int line, const char *format, ...)
{
    char message[512];
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    lent->bug(file, line, message);
    abort(); /* the program's has ended it already */
}

plm_status plm__host_alloc(size_t bytes, void *out)
{
    return lent->alloc(bytes, out);
}

plm_status plm__host_realloc(size_t bytes, void *block)
{
    return lent->realloc(bytes, block);
}

void plm__host_free(void *block)
{
    lent->free(block);
}

const char *plm_environment(const char *variable)
{
    return lent->environment(variable);
}

plm_status plm__cuda_process_bytes_of(const char *bus_id, size_t *bytes)
{
    return lent->process_bytes(bus_id, bytes);
}
