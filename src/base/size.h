/* SPDX-License-Identifier: MIT */
/* Checked arithmetic on byte quantities: a product or sum either fits or is a status. */
#ifndef PLM_BASE_SIZE_H
#define PLM_BASE_SIZE_H

#include <stdint.h>

#include "base/status.h"
#include "plimsoll/size.h"

/* *product = a * b, PLM_ERROR_OVERFLOW when it does not fit. */
PLM_MUST_USE plm_status plm__mul_bytes(size_t a, size_t b, size_t *product);

/* *sum = a + b, PLM_ERROR_OVERFLOW when it does not fit. */
PLM_MUST_USE plm_status plm__add_bytes(size_t a, size_t b, size_t *sum);

/* *rounded = bytes rounded up to a multiple of `unit` (a power of two), PLM_ERROR_OVERFLOW
 * likewise. */
PLM_MUST_USE plm_status plm__round_up_bytes(size_t bytes, size_t unit, size_t *rounded);

/* The same for bytes that are known to be far from the end of the type (they belong to a live
 * storage). */
static inline size_t plm__granules(size_t bytes)
{
    return (bytes + PLM_GRANULE_BYTES - 1) & ~(PLM_GRANULE_BYTES - 1);
}

#endif
