/* SPDX-License-Identifier: MIT */
/* What the executor tells a profile. */
#ifndef PLM_RUN_PROFILE_H
#define PLM_RUN_PROFILE_H

#include "plimsoll/profile.h"

/* Operation `index` of the plan took `ns`. */
void plm__profile_add(plm_profile *profile, int64_t index, int64_t ns);

/* The fastest whole step over the sum of its operations' fastest runs, 1 or more: no step has all
 * of them at their best. */
double plm__profile_slack(const plm_profile *profile);

/* The fastest whole step whose operations nobody waited for, as graphs; 0 where the device has no
 * graphs. */
double plm__profile_plain_seconds(const plm_profile *profile);

/* The plan that is profiled; borrowed. */
const plm_plan *plm__profile_plan(const plm_profile *profile);

#endif
