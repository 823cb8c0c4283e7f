/* SPDX-License-Identifier: MIT */
/*
 * Any bytes given to the reader of what a forecast's rank left end in figures that can be told, or
 * in a status that leaves the result as it was. Serves libFuzzer, and run_corpus.c, which gives it
 * the kept inputs.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "fuzz/memory.h"
#include "fuzz/told.h"
#include "plimsoll/forecast.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Three bytes of JSON can be an empty object in an array, each with a table of its own. */
enum { MEMORY_MULTIPLE = 256, MEMORY_BASE_BYTES = 64 * 1024 };

static bool can_be_told(const plm_forecast_rank *rank)
{
    bool good = rank->torch && rank->rank >= 0 && rank->ranks >= 0 &&
                (unsigned)rank->ended < PLM_FORECAST_END_COUNT &&
                (int64_t)rank->reserved_bytes >= 0;
    for (int64_t i = 0; i < rank->step_count; i++)
        good = good && rank->steps[i].step >= 0 && (int64_t)rank->steps[i].reserved_bytes >= 0;
    for (int64_t i = 0; i < rank->skipped_count; i++)
        good = good && plm__utf8_is_valid(rank->skipped[i]);
    for (int64_t i = 0; i < rank->warning_count; i++)
        good = good && rank->warnings[i].what;
    for (int64_t i = 0; i < rank->range_count; i++)
        good = good && rank->ranges[i].what;
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    plm_fuzz_memory_begin();
    plm_forecast_rank rank, before;
    memset(&before, 0x5a, sizeof before);
    memcpy(&rank, &before, sizeof before);
    plm_status status = plm_forecast_rank_read("input", bytes, count, &rank);
    if (status == PLM_OK) {
        if (!can_be_told(&rank))
            abort();
        plm_forecast_rank_fini(&rank);
    } else if (status != PLM_ERROR_FORMAT || !is_told_in_one_line(status) ||
               memcmp(&rank, &before, sizeof before) != 0) {
        abort();
    }
    plm_fuzz_memory_end(MEMORY_BASE_BYTES, MEMORY_MULTIPLE, count);
    return 0;
}
