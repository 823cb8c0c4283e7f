/* SPDX-License-Identifier: MIT */
/*
 * Packing: intervals of time with sizes become offsets in one arena (dynamic storage allocation).
 *
 * Two items may share bytes only if their lifetimes do not meet. The bound is the largest sum of
 * bytes live at one instant; no packing is smaller, and for the lifetimes of a training step one
 * exactly that large nearly always exists. Deterministic: the same items in the same order give the
 * same offsets. Pure functions; thread-safe.
 */
#ifndef PLM_PACK_PACK_H
#define PLM_PACK_PACK_H

#include "base/host.h"

/* An item lives at the instants birth, birth + 1, ..., death (both included; birth <= death, both
 * >= 0). */
typedef struct plm_pack_item {
    int32_t birth;
    int32_t death;
    size_t bytes; /* a multiple of PLM_GRANULE_BYTES; 0 is allowed and gets offset 0 */
} plm_pack_item;

/*
 * offsets[i] becomes the place of items[i], a multiple of PLM_GRANULE_BYTES, and *total the end of
 * the highest item. `offsets` is the caller's, `count` long. PLM_ERROR_HOST_MEMORY;
 * PLM_ERROR_OVERFLOW when sums do not fit.
 */
PLM_MUST_USE plm_status plm__pack(const plm_pack_item *items, int64_t count, size_t *offsets,
                                  size_t *total);

/*
 * Whether `offsets` is a packing of the items that ends at `total`: each on a granule, none beyond
 * the end, no two that live at one instant sharing a byte. Quadratic; for tests and check builds.
 */
bool plm__pack_is_valid(const plm_pack_item *items, int64_t count, const size_t *offsets,
                        size_t total);

/* *bound = the largest live sum; *instant (NULL allowed) = the first instant that reaches it. */
PLM_MUST_USE plm_status plm__pack_bound(const plm_pack_item *items, int64_t count, size_t *bound,
                                        int32_t *instant);

#endif
