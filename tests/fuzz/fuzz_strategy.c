/* SPDX-License-Identifier: MIT */
/*
 * Any bytes given to the reader of strategies end in a strategy that is written as a text which
 * reads back as the same, or in a status that leaves the strategy as it was. Serves libFuzzer, and
 * run_corpus.c, which gives it the kept inputs.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/memory.h"
#include "fuzz/told.h"
#include "plimsoll/strategy.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Three bytes of JSON can be an empty object in an array, each with a table of its own. */
enum { MEMORY_MULTIPLE = 256, MEMORY_BASE_BYTES = 64 * 1024 };

/* What is open is chosen before a strategy is written. */
static void round_trip(plm_strategy *strategy)
{
    char *line = NULL, *again = NULL, text[PLM_RECOMPUTE_LIST_TEXT];
    plm_strategy read;
    if (strategy->micro_batch == 0)
        strategy->micro_batch = 1;
    if (strlen(plm_strategy_recompute_format(strategy, text)) >= sizeof text)
        abort();
    if (plm_strategy_json(strategy, &line) != PLM_OK ||
        plm_strategy_read("again", line, strlen(line), &read) != PLM_OK ||
        plm_strategy_json(&read, &again) != PLM_OK || strcmp(line, again) != 0)
        abort();
    plm_free(line);
    plm_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    plm_fuzz_memory_begin();
    plm_strategy strategy, before;
    memset(&before, 0x5a, sizeof before);
    memcpy(&strategy, &before, sizeof before);
    plm_status status = plm_strategy_read("input", bytes, count, &strategy);
    if (status == PLM_OK)
        round_trip(&strategy);
    else if ((status != PLM_ERROR_FORMAT && status != PLM_ERROR_ARGUMENT) ||
             !is_told_in_one_line(status) || memcmp(&strategy, &before, sizeof before) != 0)
        abort();
    plm_fuzz_memory_end(MEMORY_BASE_BYTES, MEMORY_MULTIPLE, count);
    return 0;
}
