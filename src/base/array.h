/* SPDX-License-Identifier: MIT */
/*
 * A growing array of any type:
 *
 *     PLM_ARRAY(int) numbers = {0};
 *     PLM_TRY(PLM_ARRAY_PUSH(&numbers, 7));
 *     ... numbers.items[0], numbers.count ...
 *     PLM_ARRAY_FREE(&numbers);
 *
 * Items are zeroed when the array grows. Pointers to items die when it grows.
 */
#ifndef PLM_BASE_ARRAY_H
#define PLM_BASE_ARRAY_H

#include <stdlib.h>

#include "base/host.h"

#define PLM_ARRAY(type)                                                                            \
    struct {                                                                                       \
        type *items;                                                                               \
        int64_t count;                                                                             \
        int64_t capacity;                                                                          \
    }

/* Room for `wanted` items in all; evaluates to a status. */
#define PLM_ARRAY_RESERVE(array, wanted)                                                           \
    plm__array_grow(&(array)->items, &(array)->capacity, (wanted), sizeof *(array)->items)

/* Appends `value`; evaluates to a status. */
#define PLM_ARRAY_PUSH(array, ...)                                                                 \
    (PLM_ARRAY_RESERVE(array, (array)->count + 1) != PLM_OK                                        \
         ? PLM_ERROR_HOST_MEMORY                                                                   \
         : ((array)->items[(array)->count++] = __VA_ARGS__, PLM_OK))

/* Sorts the items as qsort does; `order` compares two of them. */
#define PLM_ARRAY_SORT(array, order)                                                               \
    do {                                                                                           \
        if ((array)->count > 0)                                                                    \
            qsort((array)->items, (size_t)(array)->count, sizeof *(array)->items, (order));        \
    } while (0)

#define PLM_ARRAY_FREE(array)                                                                      \
    do {                                                                                           \
        plm__host_free((array)->items);                                                            \
        (array)->items = NULL;                                                                     \
        (array)->count = (array)->capacity = 0;                                                    \
    } while (0)

/* Doubles the capacity until it holds `wanted` items. `items` is the address of the item pointer.
 */
PLM_MUST_USE plm_status plm__array_grow(void *items, int64_t *capacity, int64_t wanted,
                                        size_t item_bytes);

#endif
