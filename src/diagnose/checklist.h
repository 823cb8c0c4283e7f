/* SPDX-License-Identifier: MIT */
/* Making checklists: for the modules that answer the questions from traces of another kind. */
#ifndef PLM_DIAGNOSE_CHECKLIST_H
#define PLM_DIAGNOSE_CHECKLIST_H

#include "plimsoll/checklist.h"

/* Appends a figure while there is room; `site` NULL: none. */
void plm__checklist_add_figure(plm_checklist_item *check, const char *what, const char *site,
                               int64_t blocks, size_t bytes);

#endif
