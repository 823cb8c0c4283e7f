/* SPDX-License-Identifier: MIT */
/* What every bill of a config says in JSON. */
#ifndef PLM_FIT_BILL_JSON_H
#define PLM_FIT_BILL_JSON_H

#include "base/json.h"
#include "plimsoll/config.h"

/* The model, its family and its counts. */
void plm__bill_model_json(plm_json_writer *json, const plm_config *config,
                          const plm_config_counts *counts, int64_t trainable);

/* Round `count` bills that are objects: one stands by itself, several are {"bills": [...]}. *line
 * as plm__json_finish's. */
void plm__bill_list_begin(plm_json_writer *json, int64_t count);
PLM_MUST_USE plm_status plm__bill_list_finish(plm_json_writer *json, int64_t count, char **line);

#endif
