/* SPDX-License-Identifier: MIT */
/* What the operating system says of memory. */
#ifndef PLM_BASE_MEMORY_H
#define PLM_BASE_MEMORY_H

#include <stdbool.h>

#include "base/status.h"

/* *bytes = resident set of this process. PLM_ERROR_IO where the system does not say. */
PLM_MUST_USE plm_status plm__memory_resident(size_t *bytes);

/*
 * *bytes = memory that this process can still take without pushing the machine, or the control
 * group that it runs in, out of memory: what the kernel calls available, or what the group's limit
 * leaves, when that is less. PLM_ERROR_IO where the system does not say.
 */
PLM_MUST_USE plm_status plm__memory_available(size_t *bytes);

/* The figure of the line "NAME: 123 kB" or "NAME 123" of a listing as the kernel writes them, times
 * 1024 where it says kB; false when there is none. */
bool plm__memory_find_figure(const char *listing, const char *name, size_t *figure);

#endif
