/* SPDX-License-Identifier: MIT */
/*
 * The views that findings are made of, each in a file of its own: it reads what earlier ones found
 * and fills its part. All are linear in the events, two passes at most; PLM_ERROR_HOST_MEMORY is
 * the one failure.
 */
#ifndef PLM_DIAGNOSE_VIEWS_H
#define PLM_DIAGNOSE_VIEWS_H

#include "plimsoll/findings.h"
#include "replay/replay.h"

/* Sites: fills sites, site_of_block, block_count, peak_event, has_stacks. */
PLM_MUST_USE plm_status plm__find_sites(plm_findings *findings);

/* Steps: fills steps, step_count, step_source. */
PLM_MUST_USE plm_status plm__find_steps(plm_findings *findings);

/* Leaks; needs sites and steps. */
PLM_MUST_USE plm_status plm__find_leaks(plm_findings *findings);

/* Fragments of the final state. */
PLM_MUST_USE plm_status plm__find_fragments(plm_findings *findings);

/* Fragments of a pool; `births`, by block number, are alloc events + 1. */
PLM_MUST_USE plm_status plm__fragments_of_pool(const plm_replay_moment *moment,
                                               const int64_t *births, plm_fragments *fragments);

/* Spikes; needs sites and steps. */
PLM_MUST_USE plm_status plm__find_spikes(plm_findings *findings);

/* Waits; needs sites. */
PLM_MUST_USE plm_status plm__find_waits(plm_findings *findings);

/* Failures and their verdicts; needs sites. */
PLM_MUST_USE plm_status plm__find_failures(plm_findings *findings);

/* *births = by block number, its alloc event + 1, 0 without one; from the host allocator. */
PLM_MUST_USE plm_status plm__find_births(const plm_findings *findings, int64_t **births);

#endif
