/* SPDX-License-Identifier: MIT */
/*
 * Traces of torch.profiler with memory events (profile_memory=True), read as far as they go: which
 * operation allocated what, and what was live at the peak. They name no call stacks and no
 * segments, so a replay needs a snapshot.
 *
 * An event's owner is the outermost operation of its thread at that instant. Blocks from before the
 * trace are in its totals, not among its blocks.
 */
#ifndef PLIMSOLL_TORCH_PROFILE_H
#define PLIMSOLL_TORCH_PROFILE_H

#include "plimsoll/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a file of PyTorch's is. */
typedef enum plm_torch_file {
    PLM_TORCH_SNAPSHOT,
    PLM_TORCH_STATS,  /* torch.cuda.memory_stats() as JSON */
    PLM_TORCH_PROFILE /* a trace of torch.profiler */
} plm_torch_file;

/* *kind = what the beginning of a file looks like; a snapshot when nothing else fits.
 * PLM_ERROR_IO; PLM_ERROR_FORMAT when it cannot be decompressed; PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm_torch_file_kind(const char *path, plm_torch_file *kind);

typedef struct plm_torch_profile {
    plm_trace *trace; /* of one device, the one with the most memory events */
    int32_t device;
    int64_t events;         /* memory events of it */
    int64_t older_frees;    /* of blocks that were allocated before */
    size_t capacity_bytes;  /* 0: not told */
    size_t allocated_bytes; /* after the last event */
    size_t reserved_bytes;
    size_t allocated_peak_bytes; /* of the totals that events tell */
    size_t reserved_peak_bytes;
    size_t traced_peak_bytes; /* of the blocks that the trace saw born */
} plm_torch_profile;

/* *profile = what a trace says, owned by the caller. PLM_ERROR_IO; PLM_ERROR_FORMAT when it is no
 * trace, or has no memory events; PLM_ERROR_UNSUPPORTED beyond 1 GiB; PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm_torch_profile_read(const char *path, plm_torch_profile **profile);

/* Frees a profile and its trace; NULL is allowed. */
void plm_torch_profile_destroy(plm_torch_profile *profile);

#ifdef __cplusplus
}
#endif
#endif
