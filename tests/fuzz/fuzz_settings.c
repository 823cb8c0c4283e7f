/* SPDX-License-Identifier: MIT */
/*
 * Any text given to the reader of allocator settings ends in settings inside their ranges, which
 * print to a text that reads back as the same, or in a status that leaves the settings as they
 * were. Serves libFuzzer, and run_corpus.c, which gives it the kept inputs.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/memory.h"
#include "torch/alloc_conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* One word of an input has at most 64 bytes, and messages name one: nothing grows with the input
 * but our copy of it. */
enum { MEMORY_MULTIPLE = 2, MEMORY_BASE_BYTES = 16 * 1024 };

static bool is_same(const plm_pool_settings *a, const plm_pool_settings *b)
{
    return memcmp(a, b, sizeof *a) == 0; /* both are copies of one default: padding is the same */
}

static void round_trip(const plm_pool_settings *settings)
{
    plm_text printed = {0}, again = {0};
    plm_pool_settings read = plm__pool_settings_default();
    plm__torch_settings_print(settings, &printed);
    if (plm__pool_settings_check(settings) != PLM_OK || plm__text_status(&printed) != PLM_OK)
        abort();
    const char *text = printed.items ? printed.items : "";
    if (plm__torch_settings_parse(text, &read) != PLM_OK)
        abort();
    plm__torch_settings_print(&read, &again);
    if (strcmp(text, again.items ? again.items : "") != 0)
        abort();
    plm__text_fini(&printed);
    plm__text_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    plm_fuzz_memory_begin();
    char *text = NULL;
    plm_pool_settings settings = plm__pool_settings_default(), before = settings;
    if (plm__host_alloc(count + 1, &text) != PLM_OK) /* zeroed: ends the text */
        abort();
    if (count > 0)
        memcpy(text, bytes, count);
    plm_status status = plm__torch_settings_parse(text, &settings);
    plm__host_free(text);
    if (status == PLM_OK)
        round_trip(&settings);
    else if ((status != PLM_ERROR_FORMAT && status != PLM_ERROR_ARGUMENT) ||
             !is_same(&settings, &before))
        abort();
    plm_fuzz_memory_end(MEMORY_BASE_BYTES, MEMORY_MULTIPLE, count);
    return 0;
}
