/* SPDX-License-Identifier: MIT */
/* Where what calibration measured lies, and reading it. */
#include <stdio.h>
#include <unistd.h>

#include "cli.h"

/* The user's cache is where the XDG base directory specification says. */
bool cli_cache_path(const char *given, char path[CLI_PATH_TEXT])
{
    const char *cache = plm_environment("XDG_CACHE_HOME"), *home = plm_environment("HOME");
    if (given)
        snprintf(path, CLI_PATH_TEXT, "%s", given);
    else if (cache)
        snprintf(path, CLI_PATH_TEXT, "%.3000s/plimsoll/cpu.json", cache);
    else
        snprintf(path, CLI_PATH_TEXT, "%.3000s%s/plimsoll/cpu.json", home ? home : ".",
                 home ? "/.cache" : "");
    return given || cache || home;
}

plm_status cli_profile(const char *given, plm_device_profile *rates,
                       const plm_device_profile **profile)
{
    char path[CLI_PATH_TEXT];
    *profile = NULL;
    bool named = cli_cache_path(given, path);
    if (!given && (!named || access(path, F_OK) != 0))
        return PLM_OK;
    plm_status status = plm_device_profile_load(path, rates);
    if (status == PLM_OK)
        *profile = rates;
    if (status == PLM_OK || given)
        return status;
    fprintf(stderr,
            "plimsoll: %s cannot be read and is passed over; plimsoll profile --calibrate writes "
            "it again\n",
            path);
    return PLM_OK;
}
