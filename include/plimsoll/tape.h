/* SPDX-License-Identifier: MIT */
/*
 * A tape: when the operations of a plan ran, each from its begin to its end, as the device's rates
 * predict it or as a run was timed. With the plan's lifetimes it is a trace in real time.
 *
 *     plm_tape *tape = NULL;
 *     status = plm_tape_create(plan, 3, &tape);      // three updates
 *     plm_session_tape(session, tape);               // from here on, until it is full
 *     ...                                            // plm_session_step, at least three times
 *     status = plm_tape_export(tape, "run.json", "gpt2");
 *
 * A session without a tape pays one branch for each program that it runs. A tape is bounded: it
 * takes whole programs until the updates asked for are on it, or PLM_TAPE_LAUNCHES_MAX launches.
 *
 * One thread uses a tape: the one that runs its session.
 */
#ifndef PLIMSOLL_TAPE_H
#define PLIMSOLL_TAPE_H

#include "plimsoll/session.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PLM_TAPE_LAUNCHES_MAX = 1 << 18 };

typedef struct plm_tape plm_tape;

/*
 * *tape = an empty one for `steps` updates of a session of this plan. The plan is borrowed as long
 * as the tape lives. Owned by the caller. PLM_ERROR_ARGUMENT for fewer than 1 step,
 * PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_tape_create(const plm_plan *plan, int64_t steps, plm_tape **tape);

/*
 * *tape = each program of the plan once, one after the other, as long as the device's profile
 * predicts; without a profile an operation is one instant. The device is borrowed for the call.
 */
PLM_MUST_USE plm_status plm_tape_predict(const plm_plan *plan, const plm_device *device,
                                         plm_tape **tape);

/* No session may write on it any more. NULL is allowed. */
void plm_tape_destroy(plm_tape *tape);

/*
 * The updates that the session runs from here on are timed on *tape, which was made for its plan,
 * until it is full; the device is waited for after every operation, which a device with a queue
 * would not do. Evaluation and generation are not on it. NULL: no more. Borrowed.
 */
void plm_session_tape(plm_session *session, plm_tape *tape);

typedef struct plm_tape_summary {
    int64_t steps;    /* whole updates on it */
    int64_t launches; /* operations that ran */
    bool timed;       /* in nanoseconds; else an operation is one instant */
    bool measured;    /* by a run; else predicted */
    bool is_cut;      /* PLM_TAPE_LAUNCHES_MAX did not hold what was asked for */
    double seconds;   /* from the first begin to the last end; 0 when not timed */
} plm_tape_summary;

plm_tape_summary plm_tape_summarize(const plm_tape *tape);

/*
 * *trace = the plan's lifetimes at the tape's times: births when an operation begins, deaths when
 * it has ended. Owned by the caller. PLM_ERROR_STATE for a tape with nothing on it,
 * PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_tape_trace(const plm_tape *tape, plm_trace **trace);

/*
 * Writes that trace as Chrome's JSON (see plimsoll/export.h): what is live and what the device
 * holds as counters, a slice for each operation that ran. `model` is named in it, and so is where
 * the times come from. Fails as plm_tape_trace and plm_export_perfetto.
 */
PLM_MUST_USE plm_status plm_tape_export(const plm_tape *tape, const char *path, const char *model);

#ifdef __cplusplus
}
#endif
#endif
