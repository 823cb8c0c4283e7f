/* SPDX-License-Identifier: MIT */
/* Where what calibration measured lies, and reading it. */
#include <stdio.h>
#include <unistd.h>

#include "cli.h"

/* The folder of the user's cache, by the XDG base directory specification; "" when the environment
 * names none. */
static plm_status find_cache(char folder[CLI_PATH_TEXT])
{
    static const plm_option table[] = {
        {.name = "cache", .kind = PLM_OPTION_TEXT, .offset = 0, .environment = "XDG_CACHE_HOME"},
        {.name = "home",
         .kind = PLM_OPTION_TEXT,
         .offset = sizeof(const char *),
         .environment = "HOME"},
    };
    static const plm_syntax syntax = {.command = "plimsoll", .options = table, .option_count = 2};
    const char *found[2];
    plm_operands operands;
    char *const argv[] = {NULL};
    plm_status status = plm_options_parse(&syntax, 1, argv, found, &operands);
    folder[0] = 0;
    if (status == PLM_OK && found[0])
        snprintf(folder, CLI_PATH_TEXT, "%.3000s", found[0]);
    else if (status == PLM_OK && found[1])
        snprintf(folder, CLI_PATH_TEXT, "%.3000s/.cache", found[1]);
    return status;
}

plm_status cli_cache_path(const char *given, char path[CLI_PATH_TEXT])
{
    char folder[CLI_PATH_TEXT];
    if (given) {
        snprintf(path, CLI_PATH_TEXT, "%s", given);
        return PLM_OK;
    }
    plm_status status = find_cache(folder);
    if (status != PLM_OK)
        return status;
    snprintf(path, CLI_PATH_TEXT, "%s%.3000s/plimsoll/cpu.json", folder[0] ? "" : ".", folder);
    return PLM_OK;
}

plm_status cli_profile(const char *given, plm_device_profile *rates,
                       const plm_device_profile **profile)
{
    char folder[CLI_PATH_TEXT], path[CLI_PATH_TEXT];
    *profile = NULL;
    plm_status status = given ? plm_device_profile_load(given, rates) : find_cache(folder);
    if (status != PLM_OK)
        return status;
    if (!given) {
        snprintf(path, sizeof path, "%.3000s/plimsoll/cpu.json", folder);
        if (!folder[0] || access(path, F_OK) != 0)
            return PLM_OK;
        if (plm_device_profile_load(path, rates) != PLM_OK) {
            fprintf(stderr,
                    "plimsoll: %s cannot be read and is passed over; plimsoll profile "
                    "--calibrate writes it again\n",
                    path);
            return PLM_OK;
        }
    }
    *profile = rates;
    return PLM_OK;
}
