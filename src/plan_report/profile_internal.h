/* SPDX-License-Identifier: MIT */
/* The profile's rows gathered for people: alike operations of alike blocks in one, and by layer. */
#ifndef PLM_PLAN_REPORT_PROFILE_INTERNAL_H
#define PLM_PLAN_REPORT_PROFILE_INTERNAL_H

#include "base/array.h"
#include "plimsoll/profile.h"
#include "plimsoll/plan_report.h"

/* Rows that count as one: over an update, all micro-batches together. */
typedef struct plm__profile_sum {
    const plm_profile_row *row; /* the first of them */
    int64_t blocks;             /* different layers among them */
    double ns;                  /* measured */
    double predicted_ns;
    double floor_ns; /* each row's floor, but no more than it took */
    double flops, bytes;
    size_t made_bytes, kept_bytes, freed_bytes; /* of one micro-batch */
    size_t live_bytes;                          /* the most while one of them runs */
} plm__profile_sum;

typedef struct plm__profile_sums {
    PLM_ARRAY(plm__profile_sum) list;
} plm__profile_sums;

/* Gathers operations that are alike but for their block, or layers; sorted, the most first.
 * PLM_ERROR_HOST_MEMORY leaves nothing. */
PLM_MUST_USE plm_status plm__profile_gather(const plm_profile *profile, bool by_layer,
                                            plm_profile_order order, plm__profile_sums *sums);
void plm__profile_sums_free(plm__profile_sums *sums);

#endif
