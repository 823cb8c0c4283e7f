/* SPDX-License-Identifier: MIT */
/*
 * Calibration: the profile of the device at hand, measured by small training runs on it. It takes
 * some seconds and a few hundred MiB, and wants a machine that does nothing else: of each operation
 * the fastest run counts.
 *
 * The calling thread drives the device for that time; kernels use the device's threads.
 */
#ifndef PLIMSOLL_CALIBRATE_H
#define PLIMSOLL_CALIBRATE_H

#include "plimsoll/device_profile.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * *profile = rates and efficiencies of the device, measured for about `seconds`; in
 * a second or less with smaller models, whose rates hold less well. Every operation
 * that a GPT or a BERT has gets its efficiency, fused and plain attention both, in fp32, bf16 and
 * fp16. A GPU runs larger ones (about 4 GiB, whatever `seconds` is); what a profile that travels
 * with the library says of that GPU's memory and parts is kept. PLM_ERROR_ARGUMENT
 * for no time, PLM_ERROR_DEVICE_MEMORY, PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_calibrate(plm_device *device, double seconds,
                                      plm_device_profile *profile);

#ifdef __cplusplus
}
#endif
#endif
