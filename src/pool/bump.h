/* SPDX-License-Identifier: MIT */
/*
 * The bump bound: what reserved memory a recorded trace would need if every block had been placed
 * with the whole trace known, as a plan places its storages.
 *
 * It is a function over a trace and no policy: a policy decides without knowing when a block will
 * die, and this needs to. It is the bound and not a packing: no placement needs less, for lifetimes
 * that nest as a training step's do one that reaches it nearly always exists, and a trace can hold
 * millions of blocks. As a trace is in order of time, the bound is one pass over it, the same that
 * plm__pack_bound gives for the blocks' lifetimes. Thread-safe.
 */
#ifndef PLM_POOL_BUMP_H
#define PLM_POOL_BUMP_H

#include "plimsoll/trace.h"
#include "pool/settings.h"

/*
 * *bytes = the largest sum of rounded blocks that live at once; a block lives from its alloc event
 * to its free event, or to the end. Frees of blocks that the trace did not see allocated are
 * skipped. Blocks are rounded as `settings` say (NULL: to 512). PLM_ERROR_HOST_MEMORY;
 * PLM_ERROR_ARGUMENT for an alloc event without a block or of an absurd size.
 */
PLM_MUST_USE plm_status plm__pool_bump(const plm_trace *trace, const plm_pool_settings *settings,
                                       size_t *bytes);

#endif
