/* SPDX-License-Identifier: MIT */
/* Device profiles by name: those that travel with the library, else a file. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "device/device.h"
#include "device/device_files.h"
#include "plimsoll/device_profile.h"

/* Lengths are objects of another file, so the table holds their addresses. */
static const struct {
    const char *name, *text;
    const size_t *byte_count;
} shipped[] = {
#define SHIPPED_ROW(text, identifier)                                                              \
    {(text), plm__##identifier##_json, &plm__##identifier##_json_bytes},
    PLM_DEVICE_FILES(SHIPPED_ROW)
#undef SHIPPED_ROW
};

enum { SHIPPED_COUNT = sizeof shipped / sizeof *shipped, KNOWN_TEXT = 256 };

const char *plm__device_profile_name(int index)
{
    return index >= 0 && index < SHIPPED_COUNT ? shipped[index].name : NULL;
}

static bool is_path(const char *target)
{
    size_t length = strlen(target);
    return strchr(target, '/') || (length > 5 && strcmp(target + length - 5, ".json") == 0);
}

static plm_status refuse(const char *target)
{
    char known[KNOWN_TEXT];
    size_t length = 0;
    for (int i = 0; i < SHIPPED_COUNT && length < sizeof known; i++)
        length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "",
                                   shipped[i].name);
    return plm_fail(PLM_ERROR_ARGUMENT,
                    "unknown target '%.60s'; known are %s, or a file such as ./my.json", target,
                    known);
}

bool plm_device_profile_known(const plm_device *device, plm_device_profile *profile)
{
    plm_device_profile read;
    for (int i = 0; i < SHIPPED_COUNT && device->name[0]; i++) {
        plm_status status = plm__device_profile_read(shipped[i].name, shipped[i].text,
                                                     *shipped[i].byte_count, &read);
        if (status == PLM_OK && strcmp(read.gpu.name, device->name) == 0) {
            *profile = read;
            return true;
        }
    }
    return false;
}

plm_status plm_device_profile_find(const char *target, plm_device_profile *profile)
{
    for (int i = 0; i < SHIPPED_COUNT; i++)
        if (strcmp(target, shipped[i].name) == 0)
            return plm__device_profile_read(target, shipped[i].text, *shipped[i].byte_count,
                                            profile);
    return is_path(target) ? plm_device_profile_load(target, profile) : refuse(target);
}
