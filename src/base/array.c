/* SPDX-License-Identifier: MIT */
/*
 * Growth of arrays, with the product checked: doubling while an array is small, by a sixteenth when
 * it is large. The allocator moves large blocks by remapping their pages, so small steps cost
 * little there, and the unused tail of an array of events stays small beside the events.
 */
#include "base/array.h"

#include "base/size.h"

enum { LARGE_BYTES = 64 * 1024 * 1024 };

plm_status plm__array_grow(void *items, int64_t *capacity, int64_t wanted, size_t item_bytes)
{
    if (wanted <= *capacity)
        return PLM_OK;
    int64_t grown = *capacity < 8 ? 8 : *capacity;
    while (grown < wanted)
        grown += (size_t)grown > LARGE_BYTES / item_bytes ? grown / 16 : grown;
    size_t bytes;
    PLM_TRY(plm__mul_bytes((size_t)grown, item_bytes, &bytes));
    PLM_TRY(plm__host_realloc(bytes, items));
    *capacity = grown;
    return PLM_OK;
}
