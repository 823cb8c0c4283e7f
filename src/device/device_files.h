/* SPDX-License-Identifier: MIT */
/*
 * The profiles of data/devices as the build embeds them: text with its length, one pair a file. A
 * further file is one row of the list, in the order in which the names are told.
 */
#ifndef PLM_DEVICE_DEVICE_FILES_H
#define PLM_DEVICE_DEVICE_FILES_H

#include "plimsoll/device_profile.h"

/* ROW(name, the file's name as an identifier) */
#define PLM_DEVICE_FILES(ROW)                                                                      \
    ROW("h200", h200)                                                                              \
    ROW("h100", h100)                                                                              \
    ROW("a100-80", a100_80)                                                                        \
    ROW("a100-40", a100_40)                                                                        \
    ROW("l40s", l40s)                                                                              \
    ROW("l4", l4)                                                                                  \
    ROW("rtx4090", rtx4090)                                                                        \
    ROW("rtx3090", rtx3090)                                                                        \
    ROW("rtx4060ti-16", rtx4060ti_16)                                                              \
    ROW("t4", t4)                                                                                  \
    ROW("cpu", cpu)

#define PLM_DEVICE_FILE_ROW(text, identifier)                                                      \
    extern const char plm__##identifier##_json[];                                                  \
    extern const size_t plm__##identifier##_json_bytes;
PLM_DEVICE_FILES(PLM_DEVICE_FILE_ROW)
#undef PLM_DEVICE_FILE_ROW

/* plm_device_profile_load from JSON text; `what` names the input in messages. */
PLM_MUST_USE plm_status plm__device_profile_read(const char *what, const void *text,
                                                 size_t byte_count, plm_device_profile *profile);

/* The name of a profile that travels with the library, static; NULL past the last one. */
const char *plm__device_profile_name(int index);

#endif
