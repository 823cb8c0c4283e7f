/* SPDX-License-Identifier: MIT */
/* Growth of arrays: doubling, with the product checked. */
#include "base/array.h"

#include "base/size.h"

plm_status plm_array_grow(void *items, int64_t *capacity, int64_t wanted, size_t item_bytes)
{
    if (wanted <= *capacity)
        return PLM_OK;
    int64_t grown = *capacity < 8 ? 8 : *capacity;
    while (grown < wanted)
        grown *= 2;
    size_t bytes;
    PLM_TRY(plm_mul_bytes((size_t)grown, item_bytes, &bytes));
    PLM_TRY(plm_host_realloc(bytes, items));
    *capacity = grown;
    return PLM_OK;
}
