/* SPDX-License-Identifier: MIT */
/*
 * Any bytes given to the reader of device profiles end in rates that a plan can be priced with and
 * that are written as a text which reads back as the same, or in a status that leaves the profile
 * as it was. Serves libFuzzer, and run_corpus.c, which gives it the kept inputs.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "fuzz/memory.h"
#include "fuzz/told.h"
#include "plimsoll/device_profile.h"
#include "device/device_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Three bytes of JSON can be an empty object in an array, each with a table of its own. */
enum { MEMORY_MULTIPLE = 256, MEMORY_BASE_BYTES = 64 * 1024 };

static bool can_be_priced_with(const plm_device_profile *p)
{
    bool good = p->bandwidth > 0 && p->bandwidth < 1e19 && p->launch_seconds >= 0 &&
                p->launch_seconds <= 1 && p->product_flops[PLM_DTYPE_F32] > 0 && p->threads >= 0 &&
                p->memory_bytes <= (size_t)1 << 50 && p->overhead_bytes <= (size_t)1 << 50;
    for (int dtype = 0; dtype < PLM_DTYPE_COUNT; dtype++) {
        good = good && isfinite(p->product_flops[dtype]) && p->product_flops[dtype] >= 0;
        for (int op = 0; op < PLM_DEVICE_PROFILE_OPS_MAX; op++)
            good =
                good && isfinite(p->efficiency_of[dtype][op]) && p->efficiency_of[dtype][op] >= 0;
    }
    return good && (p->memory_bytes == 0 || p->overhead_bytes < p->memory_bytes);
}

static void round_trip(const plm_device_profile *profile)
{
    char *line = NULL, *again = NULL;
    plm_device_profile read;
    if (!can_be_priced_with(profile) || !plm__utf8_is_valid(profile->source) ||
        plm_device_profile_json(profile, &line) != PLM_OK ||
        plm__device_profile_read("again", line, strlen(line), &read) != PLM_OK ||
        plm_device_profile_json(&read, &again) != PLM_OK || strcmp(line, again) != 0)
        abort();
    plm_free(line);
    plm_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    plm_fuzz_memory_begin();
    plm_device_profile profile, before;
    memset(&before, 0x5a, sizeof before);
    memcpy(&profile, &before, sizeof before);
    plm_status status = plm__device_profile_read("input", bytes, count, &profile);
    if (status == PLM_OK)
        round_trip(&profile);
    else if ((status != PLM_ERROR_FORMAT && status != PLM_ERROR_ARGUMENT) ||
             !is_told_in_one_line(status) || memcmp(&profile, &before, sizeof before) != 0)
        abort();
    plm_fuzz_memory_end(MEMORY_BASE_BYTES, MEMORY_MULTIPLE, count);
    return 0;
}
