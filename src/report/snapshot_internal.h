/* SPDX-License-Identifier: MIT */
/* What the reports of a snapshot share. */
#ifndef PLM_REPORT_SNAPSHOT_INTERNAL_H
#define PLM_REPORT_SNAPSHOT_INTERNAL_H

#include "plimsoll/report_torch.h"
#include "report/terminal.h"

/* The page of one rank, appended. */
void plm__snapshot_page(plm_page *page, const plm_rank *rank);

/* Of it, the table of who holds memory, with a gap behind; nothing where nobody does. */
void plm__snapshot_sites(plm_page *page, const plm_findings *findings);

/* The whole stack of a site, "forward model.py:41 < step train.py:9"; returns `text`. */
enum { PLM__STACK_TEXT = 256 };
const char *plm__stack_text(const plm_findings *findings, int32_t owner,
                            char text[PLM__STACK_TEXT]);

/* Which rank is odd; -1 as index when there are fewer than two. */
plm_odd_rank plm__odd_rank(const plm_rank *ranks, int64_t count);

#endif
