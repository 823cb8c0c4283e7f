/* SPDX-License-Identifier: MIT */
/* Writing a strategy as JSON, with the fields that plm_strategy_read knows. */
#ifndef PLM_GRAPH_STRATEGY_H
#define PLM_GRAPH_STRATEGY_H

#include "base/json.h"
#include "plimsoll/strategy.h"

/* One object under `key` (NULL: the root). */
void plm__strategy_json(plm_json_writer *writer, const char *key, const plm_strategy *strategy);

#endif
