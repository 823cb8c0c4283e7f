/* SPDX-License-Identifier: MIT */
/* The part of a device profile that says what sizes depend on: plimsoll/gpu.h. */
#ifndef PLM_DEVICE_GPU_H
#define PLM_DEVICE_GPU_H

#include "base/json.h"
#include "plimsoll/gpu.h"

/* Reads the object under "gpu" of a profile: its name and every number of PLM_GPU_FIELD_MAP.
 * PLM_ERROR_ARGUMENT for a missing or unknown field, a wrong type, a figure out of range; *gpu may
 * then be written in part. */
PLM_MUST_USE plm_status plm__gpu_read(const char *what, const json_t *object, plm_gpu *gpu);

/* Writes such an object under the key "gpu". */
void plm__gpu_write(plm_json_writer *json, const plm_gpu *gpu);

#endif
