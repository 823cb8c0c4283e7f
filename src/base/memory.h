/* SPDX-License-Identifier: MIT */
/* What the operating system says of memory. */
#ifndef PLM_BASE_MEMORY_H
#define PLM_BASE_MEMORY_H

#include <stdbool.h>

#include "base/status.h"

/* *bytes = resident set of this process. PLM_ERROR_IO where the system does not say. */
PLM_MUST_USE plm_status plm_memory_resident(size_t *bytes);

/*
 * *bytes = memory that a program can take now without swapping: what the kernel calls available, or
 * what the process's control group leaves, when that is less. PLM_ERROR_IO where the system does
 * not say.
 */
PLM_MUST_USE plm_status plm_memory_available(size_t *bytes);

#endif
