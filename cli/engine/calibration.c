/* SPDX-License-Identifier: MIT */
/* Where what calibration measured lies, and reading it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* "cuda:1" -> "cuda" */
static int kind_length(const char *device)
{
    return (int)strcspn(device, ":");
}

/* The user's cache is where the XDG base directory specification says. */
bool cli_cache_path(const char *device, const char *given, char path[CLI_PATH_TEXT])
{
    const char *cache = plm_environment("XDG_CACHE_HOME"), *home = plm_environment("HOME");
    const int length = kind_length(device);
    if (given)
        snprintf(path, CLI_PATH_TEXT, "%s", given);
    else if (cache)
        snprintf(path, CLI_PATH_TEXT, "%.3000s/plimsoll/%.*s.json", cache, length, device);
    else
        snprintf(path, CLI_PATH_TEXT, "%.3000s%s/plimsoll/%.*s.json", home ? home : ".",
                 home ? "/.cache" : "", length, device);
    return given || cache || home;
}

plm_status cli_profile(const char *given, const char *name, const plm_device *device,
                       plm_device_profile *rates, const plm_device_profile **profile)
{
    char path[CLI_PATH_TEXT];
    bool named = cli_cache_path(name, given, path);
    *profile = NULL;
    if (given || (named && access(path, F_OK) == 0)) {
        plm_status status = plm_device_profile_load(path, rates);
        if (status == PLM_OK)
            *profile = rates;
        if (status == PLM_OK || given)
            return status;
        fprintf(stderr,
                "plimsoll: %s cannot be read and is passed over; plimsoll profile --calibrate "
                "writes it again\n",
                path);
    }
    if (plm_device_profile_known(device, rates))
        *profile = rates;
    return PLM_OK;
}
