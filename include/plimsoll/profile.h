/* SPDX-License-Identifier: MIT */
/*
 * The profile of a step: what each operation of a plan takes, in time as measured and in memory as
 * planned.
 *
 *     plm_profile *profile = NULL;
 *     status = plm_profile_create(plan, device, &profile);
 *     status = plm_profile_run(profile, device, 3, 1.0);   // steps on ids that are drawn
 *     rows = plm_profile_rows(profile, &count);
 *
 * A run of one's own is profiled by plm_session_profile.
 *
 * A session that is not profiled pays one branch for each program that it runs.
 *
 * One thread uses a profile: the one that runs its session.
 */
#ifndef PLIMSOLL_PROFILE_H
#define PLIMSOLL_PROFILE_H

#include "plimsoll/device_profile.h"
#include "plimsoll/session.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PLM_PROFILE_SHAPE_TEXT = 112 };

/* One operation of one program. */
typedef struct plm_profile_row {
    plm_program program;
    int32_t block;     /* -1 outside of blocks */
    const char *layer; /* "block.3", "head"; borrowed from the plan, as the next two */
    const char *label; /* the weight or the operation: "attention.qkv" */
    const char *op;    /* "linear" */
    char shape[PLM_PROFILE_SHAPE_TEXT]; /* of its result, or of what it changes */
    int64_t runs;                       /* in one update, 0: not part of one */
    int64_t timed;                      /* runs that were timed */
    int64_t best_ns;                    /* the fastest of them; others may have held the machine */
    int64_t total_ns;                   /* all of them together */
    double flops, bytes;                /* its work in one run */
    double predicted_ns;                /* by the device's profile; 0 without one */
    double floor_ns;    /* of one run at the profile's full rates, whichever of products and memory
                         * takes longer; 0 without a profile */
    size_t made_bytes;  /* that begin to live here, workspace not counted */
    size_t kept_bytes;  /* of those, what waits for the backward */
    size_t freed_bytes; /* that die here */
    size_t workspace_bytes;
    size_t live_bytes; /* in the transient region while it runs, workspace included */
    bool is_peak;      /* the largest live_bytes of all, the first of equals */
} plm_profile_row;

typedef struct plm_profile plm_profile;

/*
 * *profile = a row for each operation of the plan, not timed yet. The plan is borrowed as long as
 * the profile lives; `device` gives the predictions, borrowed for the call. Owned by the caller.
 * PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_profile_create(const plm_plan *plan, const plm_device *device,
                                           plm_profile **profile);

/* No session may time into it any more. NULL is allowed. */
void plm_profile_destroy(plm_profile *profile);

/*
 * What the session runs from here on is timed into *profile, which was made for its plan; the
 * device is waited for after every operation, and where launches are checked (sanitize and debug
 * builds) the checks are timed with them. NULL: no more. Borrowed.
 */
void plm_session_profile(plm_session *session, plm_profile *profile);

/*
 * Trains on drawn ids: one update that is not timed, for it touches everything once, then at least
 * `steps` that are, and on until `seconds` are over. PLM_ERROR_ARGUMENT for fewer than 1 step; else
 * as plm_session_create and plm_session_step.
 */
PLM_MUST_USE plm_status plm_profile_run(plm_profile *profile, plm_device *device, int64_t steps,
                                        double seconds);

/* The rows in order of running, program by program; borrowed. */
const plm_profile_row *plm_profile_rows(const plm_profile *profile, int64_t *count);

/* Seconds of one update: each operation's fastest run, as often as an update runs it. */
double plm_profile_step_seconds(const plm_profile *profile);

#ifdef __cplusplus
}
#endif
#endif
