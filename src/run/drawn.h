/* SPDX-License-Identifier: MIT */
/* A window of drawn ids, for runs that are timed and whose losses nobody reads. */
#ifndef PLM_RUN_DRAWN_H
#define PLM_RUN_DRAWN_H

#include "run/session.h"

/*
 * *ids = tokens [batch, T], then targets [batch, T], the same in every run, all within the
 * session's tables. Owned by the caller, freed with plm__host_free. PLM_ERROR_HOST_MEMORY,
 * PLM_ERROR_OVERFLOW.
 */
PLM_MUST_USE plm_status plm__drawn_window(const plm_session *session, const plm_plan *plan,
                                          int32_t **ids);

/* What such a run trains with: the defaults, without clipping where the plan updates early. */
plm_hyper plm__drawn_hyper(const plm_plan *plan);

#endif
