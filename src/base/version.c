/* SPDX-License-Identifier: MIT */
/* The version of this library. */
#include "plimsoll/version.h"

const char *plm_version(void)
{
    return PLM_VERSION;
}
