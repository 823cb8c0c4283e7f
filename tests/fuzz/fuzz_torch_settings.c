/* SPDX-License-Identifier: MIT */
/*
 * Any bytes given as settings of PyTorch's training, as JSON and as an accelerate config in YAML,
 * end in a job that is billed or refused for the config that it was read for, or in a refusal that
 * is told in one line and leaves the job as it was. Serves libFuzzer, and run_corpus.c, which gives
 * it the kept inputs.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/memory.h"
#include "fuzz/told.h"
#include "plimsoll/torch_bill.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Three bytes of JSON can be an empty object in an array, each with a table of its own. */
enum { MEMORY_MULTIPLE = 256, MEMORY_BASE_BYTES = 64 * 1024 };

static void read(const char *name, const plm_config *config, const uint8_t *bytes, size_t count)
{
    plm_torch_job job = plm_torch_job_default(), before;
    plm_torch_bill bill;
    memcpy(&before, &job, sizeof job);
    plm_status status = plm_torch_settings_read(name, bytes, count, config, &job);
    if (status == PLM_OK) {
        status = plm_torch_bill_make(config, &job, &bill);
        if (status != PLM_OK && !is_told_in_one_line(status))
            abort();
    } else if (status != PLM_ERROR_FORMAT || !is_told_in_one_line(status) ||
               memcmp(&job, &before, sizeof job) != 0) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char text[] = "{\"model_type\":\"llama\",\"num_hidden_layers\":2}";
    plm_config config;
    plm_fuzz_memory_begin();
    if (plm_config_read("config", text, sizeof text - 1, &config) != PLM_OK)
        abort();
    read("input.json", &config, bytes, count);
    read("input.yaml", &config, bytes, count);
    plm_fuzz_memory_end(MEMORY_BASE_BYTES, MEMORY_MULTIPLE, count);
    return 0;
}
