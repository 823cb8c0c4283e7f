/* SPDX-License-Identifier: MIT */
/*
 * Any bytes given as a config.json end in a model whose tensors are named, have lengths over 0 and
 * come to the same sum in files and in memory, or in a refusal that is told in one line and leaves
 * the config as it was. Serves libFuzzer, and run_corpus.c, which gives it the kept inputs.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/memory.h"
#include "fuzz/told.h"
#include "plimsoll/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Three bytes of JSON can be an empty object in an array, each with a table of its own. */
enum { MEMORY_MULTIPLE = 256, MEMORY_BASE_BYTES = 64 * 1024 };

enum { EXPERTS_WALKED_MAX = 1 << 14 }; /* one by one, or a second passes */

static plm_status add(const plm_weight *weight, void *user)
{
    if (!memchr(weight->name, '\0', sizeof weight->name) || weight->elements <= 0 ||
        weight->rank < 1 || weight->rank > PLM_WEIGHT_RANK_MAX)
        abort();
    if (weight->form != PLM_WEIGHT_BUFFER)
        *(int64_t *)user += weight->elements;
    return PLM_OK;
}

static void check(const plm_config *config)
{
    plm_config_counts counts;
    int64_t in_memory = 0, in_files = 0;
    if (plm_config_count(config, &counts) != PLM_OK ||
        plm_config_weights(config, PLM_WEIGHTS_IN_MEMORY, add, &in_memory) != PLM_OK ||
        in_memory != counts.parameters || counts.active_parameters > counts.parameters ||
        counts.active_parameters < 1)
        abort();
    if (config->experts * config->layers > EXPERTS_WALKED_MAX)
        return;
    if (plm_config_weights(config, PLM_WEIGHTS_IN_FILES, add, &in_files) != PLM_OK ||
        in_files != in_memory)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    plm_fuzz_memory_begin();
    plm_config config, before;
    memset(&before, 0x5a, sizeof before);
    memcpy(&config, &before, sizeof before);
    plm_status status = plm_config_read("input", bytes, count, &config);
    if (status == PLM_OK)
        check(&config);
    else if ((status != PLM_ERROR_FORMAT && status != PLM_ERROR_UNSUPPORTED) ||
             !is_told_in_one_line(status) || memcmp(&config, &before, sizeof before) != 0)
        abort();
    plm_fuzz_memory_end(MEMORY_BASE_BYTES, MEMORY_MULTIPLE, count);
    return 0;
}
