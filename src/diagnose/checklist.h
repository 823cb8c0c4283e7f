/* SPDX-License-Identifier: MIT */
/* Making checklists: for the modules that answer the questions from traces of another kind. */
#ifndef PLM_DIAGNOSE_CHECKLIST_H
#define PLM_DIAGNOSE_CHECKLIST_H

#include "plimsoll/checklist.h"

/* Appends a figure while there is room; `site` NULL: none. */
void plm__checklist_add_figure(plm_checklist_item *check, const char *what, const char *site,
                               int64_t blocks, size_t bytes);

/* What is known where blocks are not: statistics, a profiler's trace. Texts are borrowed. */
typedef struct plm_totals {
    size_t needed_peak_bytes; /* of blocks */
    size_t reserved_peak_bytes;
    bool same_span;    /* both are since one instant */
    const char *span;  /* in words: what they are since */
    const char *lacks; /* "statistics hold sums and no blocks" */
} plm_totals;

/* *list = what totals answer. */
void plm__checklist_of_totals(const plm_totals *totals, plm_checklist *list);

#endif
