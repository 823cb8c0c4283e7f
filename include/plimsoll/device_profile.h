/* SPDX-License-Identifier: MIT */
/*
 * Device profiles: what a device has and how fast it is, as data. A plan's step time comes from
 * one; a profile is measured on the machine at hand, or read from a file for a machine that is not:
 *
 *     {"name": "cpu", "kind": "cpu", "threads": 2, "memory_bytes": 8589934592, "overhead_bytes": 0,
 *      "product_flops": {"fp32": 9.1e10}, "bandwidth": 1.2e10, "launch_seconds": 2e-6,
 *      "efficiency": {"linear": 0.9, "gelu": 0.4, "bf16": {"linear": 0.8}},
 *      "sources": {"bandwidth": "measured here"}}
 *
 * An operation takes max(flops / rate, bytes / bandwidth) / efficiency + launch seconds, the rate
 * being product_flops of its dtype. Efficiencies are named as the operations of graph/ops.def, in
 * small letters; one that is not given is 1. Those under a type's name go before the others where
 * the operation works in that type. `sources` says of any figure where it comes from. `kind` is
 * "cpu", as where it is not given, or "cuda". `gpu` is what sizes depend on in programs of others
 * (plimsoll/gpu.h).
 *
 * Profiles of common devices travel with the library and are found by name. A plan for one of them
 * is made without it:
 *
 *     plm_device_profile profile;
 *     plm_device *device;
 *     plm_device_profile_find("h200", &profile);
 *     plm_device_create_target(&profile, &device);
 */
#ifndef PLIMSOLL_DEVICE_PROFILE_H
#define PLIMSOLL_DEVICE_PROFILE_H

#include "plimsoll/device.h"
#include "plimsoll/dtype.h"
#include "plimsoll/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PLM_DEVICE_PROFILE_OPS_MAX = 128, /* operations with an efficiency */
    PLM_DEVICE_PROFILE_SOURCE_TEXT = 160
};

typedef enum plm_device_kind { PLM_DEVICE_CPU, PLM_DEVICE_CUDA } plm_device_kind;

typedef struct plm_device_profile {
    char name[64];
    plm_device_kind kind;
    char source[PLM_DEVICE_PROFILE_SOURCE_TEXT]; /* of the rates, when they are measured here */
    int32_t threads;                             /* that the rates hold for; 0: no matter */
    size_t memory_bytes;                         /* of the device; 0: not known */
    size_t overhead_bytes;
    double product_flops[PLM_DTYPE_COUNT];         /* a second; 0: this dtype is not known to run */
    double bandwidth;                              /* bytes a second, read and written */
    double launch_seconds;                         /* of an operation that does nothing */
    double efficiency[PLM_DEVICE_PROFILE_OPS_MAX]; /* by operation, over 0; 0: not given */
    /* Of operations that work in one type; 0: as the others. */
    double efficiency_of[PLM_DTYPE_COUNT][PLM_DEVICE_PROFILE_OPS_MAX];
    plm_gpu gpu; /* capability 0: not told */
} plm_device_profile;

/*
 * *profile = what a JSON file says. PLM_ERROR_IO, PLM_ERROR_FORMAT for malformed text,
 * PLM_ERROR_ARGUMENT for an unknown or missing field, a wrong type, a figure out of range;
 * *profile is then as it was.
 */
PLM_MUST_USE plm_status plm_device_profile_load(const char *path, plm_device_profile *profile);

/*
 * *profile = the one of that name, or of the file when `target` holds a slash or ends in ".json".
 * PLM_ERROR_ARGUMENT for an unknown name, with those that are known; else as
 * plm_device_profile_load.
 */
PLM_MUST_USE plm_status plm_device_profile_find(const char *target, plm_device_profile *profile);

/* *profile = the one of those that travel with the library whose GPU has the device's name; false,
 * and *profile as it was: there is none, or the device is a CPU. */
bool plm_device_profile_known(const plm_device *device, plm_device_profile *profile);

/* *line = the profile as such text on one line, owned by the caller, freed with
 * plm_free. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm_device_profile_json(const plm_device_profile *profile, char **line);

/* Writes a profile as such a file, whole or not at all; folders on its way are made. PLM_ERROR_IO.
 */
PLM_MUST_USE plm_status plm_device_profile_save(const plm_device_profile *profile,
                                                const char *path);

/*
 * Plans for the device are timed by *profile from here on, which is borrowed as long as the device
 * lives; NULL, as at first: times are relative only.
 */
void plm_device_use_profile(plm_device *device, const plm_device_profile *profile);

/*
 * *device = what plans for a device are made with where it is not: it answers what planning asks,
 * timed by the profile, and refuses to reserve or run anything (PLM_ERROR_UNSUPPORTED). A CPU is
 * this machine's with the profile's threads and times, borrowed as above; of a GPU's profile a copy
 * is kept. Owned by the caller. As plm_device_open.
 */
PLM_MUST_USE plm_status plm_device_create_target(const plm_device_profile *profile,
                                                 plm_device **device);

#ifdef __cplusplus
}
#endif
#endif
