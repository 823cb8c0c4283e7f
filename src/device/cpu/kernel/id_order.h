/* SPDX-License-Identifier: MIT */
/*
 * Positions ordered by their id, and by position where ids are the same: a counting sort in a
 * declared workspace, so that all positions of one id are found together.
 */
#ifndef PLM_DEVICE_CPU_ID_ORDER_H
#define PLM_DEVICE_CPU_ID_ORDER_H

#include <string.h>

#include "device/cpu/kernel/kernel.h"

typedef struct plm_id_order {
    const int32_t *end;   /* [vocabulary], in `order`: where the positions of an id end */
    const int32_t *order; /* [count] */
} plm_id_order;

/* The workspace in int32: both lists. */
static inline int64_t plm__id_order_words(int64_t count, int64_t vocabulary)
{
    return count + vocabulary;
}

/* Ids are from 0 to vocabulary - 1. */
static inline plm_id_order plm__order_ids(const int32_t *ids, int64_t count, int64_t vocabulary,
                                          int32_t *workspace)
{
    int32_t *next = workspace, *order = workspace + vocabulary, sum = 0;
    memset(next, 0, (size_t)vocabulary * sizeof *next);
    for (int64_t r = 0; r < count; r++)
        next[ids[r]]++;
    for (int64_t v = 0; v < vocabulary; v++) {
        int32_t found = next[v];
        next[v] = sum;
        sum += found;
    }
    for (int64_t r = 0; r < count; r++)
        order[next[ids[r]]++] = (int32_t)r;
    return (plm_id_order){.end = next, .order = order};
}

#endif
