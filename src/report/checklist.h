/* SPDX-License-Identifier: MIT */
/* The checklist as a section of other reports. */
#ifndef PLM_REPORT_CHECKLIST_H
#define PLM_REPORT_CHECKLIST_H

#include "base/json.h"
#include "plimsoll/checklist.h"
#include "report/terminal.h"

/* Appends the section to a page. */
void plm__checklist_page(plm_page *page, const plm_checklist *list);

/* "checklist": [{"question", "answer", "reason", "action", "gain_bytes", ...}] */
void plm__checklist_json(plm_json_writer *json, const plm_checklist *list);

#endif
