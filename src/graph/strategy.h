/* SPDX-License-Identifier: MIT */
/* Writing a strategy as JSON, with the fields that plm_strategy_read knows. */
#ifndef PLM_GRAPH_STRATEGY_H
#define PLM_GRAPH_STRATEGY_H

#include "base/json.h"
#include "plimsoll/strategy.h"

/* One object under `key` (NULL: the root). */
void plm__strategy_json(plm_json_writer *writer, const char *key, const plm_strategy *strategy);

/*
 * Reads "none", "act", "norm", "mlp", "block", "attention" and combinations such as
 * "mlp+attention", or "auto". PLM_ERROR_ARGUMENT otherwise.
 */
PLM_MUST_USE plm_status plm__recompute_parse(const char *text, uint32_t *bits);

/* The shortest text that reads as these bits of a strategy, into the caller's buffer, which is
 * returned. */
const char *plm__recompute_format(const plm_strategy *strategy, uint32_t bits,
                                  char text[PLM_RECOMPUTE_TEXT]);

/* The bits that hold for block `block`. */
uint32_t plm__strategy_recompute(const plm_strategy *strategy, int32_t block);

#endif
