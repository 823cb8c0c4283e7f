/* SPDX-License-Identifier: MIT */
/*
 * A session: a plan bound to a device. Creating one takes the arena, exactly as large as the plan
 * says, and makes every operation ready; after that this library allocates nothing. On the CPU
 * oneDNN still does, while it executes a product: small blocks of the host's memory that are free
 * again when the product is done, measured at under 2 kB at once and never kept from one step to
 * the next. One thread uses a session.
 *
 * A loop that reads a loss when its device has gone on already never lets the device wait:
 *
 *     plm_session_submit(session, 0, &hyper, sequences, tokens, targets);
 *     for (int64_t step = 0; step < steps; step++) {
 *         if (step + 1 < steps)
 *             plm_session_submit(session, step + 1, &hyper, sequences, tokens, targets);
 *         plm_session_collect(session, &result); // of `step`
 *     }
 */
#ifndef PLIMSOLL_SESSION_H
#define PLIMSOLL_SESSION_H

#include "plimsoll/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plm_session plm_session;

/* The scalars of one update. */
typedef struct plm_hyper {
    float learning_rate;
    float weight_decay;             /* of the parameters that decay */
    float beta1, beta2, epsilon;    /* AdamW's */
    float clip_norm;                /* largest global norm of the gradient, 0: no clipping */
    float momentum;                 /* SGD's, in [0, 1) */
    uint32_t scale_growth_interval; /* fp16: good updates in a row that double the loss scale, which
                                       a gradient that is not finite halves; 0: neither */
} plm_hyper;

/* AdamW as GPT-2 is trained: learning rate 6e-4, decay 0.1, betas 0.9 and 0.95, epsilon 1e-8,
 * clipping at 1; momentum 0.9; the loss scale doubles after 2000 good updates. */
plm_hyper plm_hyper_default(void);

typedef struct plm_step_result {
    double loss;         /* sum of token losses / counted targets, nats; 0 when none was counted */
    int64_t counted;     /* targets counted in the window */
    float gradient_norm; /* unscaled, before clipping */
    float loss_scale;    /* by which the window's gradients were scaled: over 1 with fp16 only */
    bool skipped;        /* the gradient was not finite: nothing was changed */
} plm_step_result;

/*
 * *session = the plan on the device, parameters at their first values for `seed`. Plan and device
 * are borrowed until the session ends. PLM_ERROR_DEVICE_MEMORY when the device does not hand out
 * the arena: nothing is taken then.
 */
PLM_MUST_USE plm_status plm_session_create(const plm_plan *plan, plm_device *device, uint64_t seed,
                                           plm_session **session);

/* Gives the arena back. NULL is allowed. */
void plm_session_destroy(plm_session *session);

/*
 * Token types of the windows that follow, for a network with an input "types": [sequences, T] ids,
 * borrowed and read when a step is submitted and at each evaluation. NULL, as at first: every token
 * is of type 0, as in generation always.
 */
void plm_session_use_types(plm_session *session, const int32_t *types);

enum { PLM_STEPS_IN_FLIGHT_MAX = 2 }; /* that were submitted and not collected */

/*
 * Begins one update from a window of `sequences` sequences, 1 to the plan's batch: tokens and
 * targets [sequences, T] int32, the caller's again on return; negative targets not counted. The
 * window is cut into micro-batches, the last filled up with sequences that do not count; gradients
 * are those of the sum of token losses over the number of counted targets of the whole window.
 * `step` counts updates from 0, up to 32 bits, and keys the dropout masks. Steps run in the order
 * in which they were submitted, with the bits that they have one at a time: what one decides (a
 * gradient that is not finite, a loss scale), the next finds decided. On the CPU the update is done
 * on return.
 *
 * PLM_ERROR_ARGUMENT for ids outside the model's tables or another step, PLM_ERROR_STATE when
 * PLM_STEPS_IN_FLIGHT_MAX are in flight: nothing is changed then. After PLM_ERROR_DEVICE this step
 * is not in flight, but may have been begun: those submitted before can be collected, and no
 * further result of this session is to be relied on.
 */
PLM_MUST_USE plm_status plm_session_submit(plm_session *session, int64_t step,
                                           const plm_hyper *hyper, int64_t sequences,
                                           const int32_t *tokens, const int32_t *targets);

/*
 * *result = that of the oldest step in flight, for which it waits. A failure on the device while
 * that step ran, or one after it, is told here at the latest: PLM_ERROR_DEVICE, and the step is
 * still in flight. PLM_ERROR_STATE when none is.
 */
PLM_MUST_USE plm_status plm_session_collect(plm_session *session, plm_step_result *result);

/* Steps in flight, 0 to PLM_STEPS_IN_FLIGHT_MAX. */
int32_t plm_session_in_flight(const plm_session *session);

/* Submits a step and collects it. After a failure of either none is in flight: what the step would
 * have told is lost, and how much of it was done is not known. PLM_ERROR_STATE when others are in
 * flight. */
PLM_MUST_USE plm_status plm_session_step(plm_session *session, int64_t step, const plm_hyper *hyper,
                                         int64_t sequences, const int32_t *tokens,
                                         const int32_t *targets, plm_step_result *result);

/* *loss_sum and *counted = token losses of any number of sequences, without dropout or gradients.
 * PLM_ERROR_STATE when steps are in flight. */
PLM_MUST_USE plm_status plm_session_evaluate(plm_session *session, int64_t sequences,
                                             const int32_t *tokens, const int32_t *targets,
                                             double *loss_sum, int64_t *counted);

/*
 * logits [V] = scores of the token that follows tokens[0..count-1], 1 <= count <= T. `logits` is
 * the caller's, `vocab` long: PLM_ERROR_ARGUMENT when that is not the model's,
 * PLM_ERROR_STATE when steps are in flight.
 */
PLM_MUST_USE plm_status plm_session_generate(plm_session *session, int64_t count,
                                             const int32_t *tokens, int64_t vocab, float *logits);

/* What is read or written of a parameter. */
typedef enum plm_parameter_part {
    PLM_PART_VALUE,    /* the fp32 master, which the weight follows, where weights have 16 bits */
    PLM_PART_GRADIENT, /* of the last window, before clipping, times its loss scale */
    PLM_PART_MOMENT1,
    PLM_PART_MOMENT2
} plm_parameter_part;

/* Copies a parameter by its full name, `count` elements, as the steps in flight leave it, for which
 * it waits; PLM_ERROR_ARGUMENT for an unknown name or another count. */
PLM_MUST_USE plm_status plm_session_read(plm_session *session, const char *name,
                                         plm_parameter_part part, int64_t count, float *values);
PLM_MUST_USE plm_status plm_session_write(plm_session *session, const char *name,
                                          plm_parameter_part part, int64_t count,
                                          const float *values);

/* What the run used, counted by the device when it handed memory out. */
typedef struct plm_session_measure {
    size_t peak_bytes;         /* high water of what the device handed out, and its overhead */
    bool last_granule_written; /* the arena's last granule no longer holds what the device put there
                                */
    size_t driver_bytes; /* what this process holds of the device by its driver's word; 0: not said
                          */
} plm_session_measure;

PLM_MUST_USE plm_status plm_session_measure_memory(plm_session *session,
                                                   plm_session_measure *measure);

#ifdef __cplusplus
}
#endif
#endif
