/* SPDX-License-Identifier: MIT */
/*
 * Any bytes given to the reader of JSON end in a document that is written as a line which reads
 * back as the same, or in a status that leaves the result as it was. Serves libFuzzer, and
 * run_corpus.c, which gives it the kept inputs.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "fuzz/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* "{}," is three bytes of input and an object of jansson's, with eight buckets, in the tree. */
enum { MEMORY_MULTIPLE = 200, MEMORY_BASE_BYTES = 16 * 1024 };

static void round_trip(json_t *root)
{
    plm_json_writer writer = {0};
    char *line = NULL;
    json_t *again = NULL;
    plm__json_value(&writer, NULL, root);
    if (plm__json_finish(&writer, &line) != PLM_OK ||
        plm__json_read("the line", line, strlen(line), &again) != PLM_OK ||
        !json_equal(root, again))
        abort();
    json_decref(again);
    plm__host_free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    plm_fuzz_memory_begin();
    json_t *root = NULL;
    plm_status status = plm__json_read("the input", bytes, count, &root);
    if (status == PLM_OK)
        round_trip(root);
    else if (status != PLM_ERROR_FORMAT || root)
        abort();
    json_decref(root);
    plm_fuzz_memory_end(MEMORY_BASE_BYTES, MEMORY_MULTIPLE, count);
    return 0;
}
