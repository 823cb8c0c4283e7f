/* SPDX-License-Identifier: MIT */
/*
 * A session as checkpoints see it: parameters by index, in the plan's order, which depends on the
 * network only; their parts copied piece by piece; the counters that an update keeps.
 */
#ifndef PLM_RUN_SESSION_H
#define PLM_RUN_SESSION_H

#include "base/host.h"
#include "plimsoll/session.h"

/* As plm_session_create; `checked` lets every launch be checked (run/check.h), whatever the build.
 */
PLM_MUST_USE plm_status plm__session_create_as(const plm_plan *plan, plm_device *device,
                                               uint64_t seed, bool checked, plm_session **session);

int64_t plm__session_parameter_count(const plm_session *session);

/* Ids of tokens and targets that are smaller than this are in the model's tables. */
int64_t plm__session_id_limit(const plm_session *session);

/* The full name of a parameter, its rank and shape without padding; borrowed from the plan. */
const char *plm__session_parameter(const plm_session *session, int64_t index, int32_t *rank,
                                   const int64_t **shape);

/* Whether the plan holds this part: moments are held of what learns, as many as the optimizer
 * wants.
 */
bool plm__session_has_part(const plm_session *session, int64_t index, plm_parameter_part part);

/* Copies `bytes` from `offset` of a part that the plan holds, both within it. */
PLM_MUST_USE plm_status plm__session_copy_out(plm_session *session, int64_t index,
                                              plm_parameter_part part, size_t offset, size_t bytes,
                                              void *to);
PLM_MUST_USE plm_status plm__session_copy_in(plm_session *session, int64_t index,
                                             plm_parameter_part part, size_t offset, size_t bytes,
                                             const void *from);

typedef struct plm_session_counters {
    uint32_t updates; /* that were applied: t of the bias correction */
    uint32_t skipped;
    uint32_t good;    /* in a row since the loss scale changed */
    float loss_scale; /* of fp16; 0: the run has none, and one that has keeps its own */
} plm_session_counters;

plm_session_counters plm__session_counters(const plm_session *session);
PLM_MUST_USE plm_status plm__session_set_counters(plm_session *session,
                                                  plm_session_counters counters);

#endif
