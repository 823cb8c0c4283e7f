/* SPDX-License-Identifier: MIT */
/* What the executor tells a profile. */
#ifndef PLM_RUN_PROFILE_H
#define PLM_RUN_PROFILE_H

#include "plimsoll/profile.h"

/* Operation `index` of the plan took `ns`. */
void plm__profile_add(plm_profile *profile, int64_t index, int64_t ns);

#endif
