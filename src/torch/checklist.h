/* SPDX-License-Identifier: MIT */
/* Making checklists: for the modules that answer the questions from traces of another kind. */
#ifndef PLM_TORCH_CHECKLIST_H
#define PLM_TORCH_CHECKLIST_H

#include "plimsoll/checklist.h"

/* Appends a figure while there is room; `site` NULL: none. */
void plm__check_add_figure(plm_check *check, const char *what, const char *site, int64_t blocks,
                           size_t bytes);

#endif
