/* SPDX-License-Identifier: MIT */
/* Alternatives of an advice as a table and as JSON, for the reports that hold one. */
#ifndef PLM_PLAN_REPORT_ADVICE_INTERNAL_H
#define PLM_PLAN_REPORT_ADVICE_INTERNAL_H

#include "base/json.h"
#include "plimsoll/advice.h"
#include "report/terminal.h"

/* What each would need and take, against the advice's own plan. On fewer than the default columns
 * what the reader can subtract is left out. */
void plm__advice_add_table(plm_page *page, const plm_advice *advice);

/* An array under `key`, its changes in the words of `hints`. */
void plm__advice_write(plm_json_writer *json, const char *key, const plm_advice *advice,
                       const char *const *hints);

#endif
