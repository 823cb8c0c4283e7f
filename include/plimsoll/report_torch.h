/* SPDX-License-Identifier: MIT */
/*
 * Reports of PyTorch's memory: replays and findings written out for people and for programs. Like
 * plimsoll/report.h: pure functions, texts are freed with plm_free.
 *
 * Thread-safe.
 */
#ifndef PLIMSOLL_REPORT_TORCH_H
#define PLIMSOLL_REPORT_TORCH_H

#include "plimsoll/checklist.h"
#include "plimsoll/findings.h"
#include "plimsoll/torch_profile.h"
#include "plimsoll/report.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What was replayed. Texts are borrowed. */
typedef struct plm_replay_report {
    const char *name; /* of the file */
    const plm_snapshot_device *device;
    size_t capacity_bytes; /* 0: no limit */
    const plm_replay_result *results;
    int64_t count;
} plm_replay_report;

/* *text = a table of the results in their order, with what limits them said. */
PLM_MUST_USE plm_status plm_report_replay_text(const plm_replay_report *report,
                                               plm_report_style style, char **text);

/* *line = {"device", "capacity_bytes", "policies": [{"name", "reserved_peak_bytes", ...}]}. */
PLM_MUST_USE plm_status plm_report_replay_json(const plm_replay_report *report, char **line);

/* One rank of a run: a file and what it says. Borrowed. */
typedef struct plm_rank {
    const char *name; /* of the file */
    int64_t rank;
    const plm_findings *findings;
    const plm_checklist *checklist; /* of them; NULL: not asked for */
} plm_rank;

/*
 * *text = the findings as pages: of several ranks, a table with the odd one first, then each rank's
 * page when there is but one, and otherwise the odd rank's.
 */
PLM_MUST_USE plm_status plm_report_snapshot_text(const plm_rank *ranks, int64_t count,
                                                 plm_report_style style, char **text);

/* *line = {"devices": [{...}], "odd_rank": {...} or null}, sizes in bytes. */
PLM_MUST_USE plm_status plm_report_snapshot_json(const plm_rank *ranks, int64_t count, char **line);

/* *text = what changed from the first to the second: totals, peaks, and sites. */
PLM_MUST_USE plm_status plm_report_difference_text(const plm_rank *before, const plm_rank *after,
                                                   plm_report_style style, char **text);
PLM_MUST_USE plm_status plm_report_difference_json(const plm_rank *before, const plm_rank *after,
                                                   char **line);

/* *text = what torch.cuda.memory_stats() says, and what it cannot. */
PLM_MUST_USE plm_status plm_report_stats_text(const char *name, const plm_memory_stats *stats,
                                              plm_report_style style, char **text);
PLM_MUST_USE plm_status plm_report_stats_json(const char *name, const plm_memory_stats *stats,
                                              char **line);

/* *text = what a trace of torch.profiler says: totals, and which operations hold its peak. */
PLM_MUST_USE plm_status plm_report_torch_profile_text(const char *name,
                                                      const plm_torch_profile *profile,
                                                      plm_report_style style, char **text);
PLM_MUST_USE plm_status plm_report_torch_profile_json(const char *name,
                                                      const plm_torch_profile *profile,
                                                      char **line);

#ifdef __cplusplus
}
#endif
#endif
