/* SPDX-License-Identifier: MIT */
/*
 * Any bytes given to the reader of out-of-memory messages end in a report that can be written out,
 * or in a status. Serves libFuzzer, and run_corpus.c, which gives it the kept inputs.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/memory.h"
#include "plimsoll/doctor.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* A report has a fixed size, whatever the log's, and is written out twice. */
enum { MEMORY_MULTIPLE = 4, MEMORY_BASE_BYTES = 512 * 1024 };

static void read_and_write(const char *bytes, size_t count)
{
    plm_oom_report report;
    char *text = NULL, *line = NULL;
    plm_status status = plm_oom_read_text(bytes, count, &report);
    if (status == PLM_ERROR_FORMAT)
        return;
    if (status != PLM_OK || report.message_count < 1 || report.source_count < 1 ||
        report.finding_count < 1)
        abort();
    for (int32_t i = 0; i < report.finding_count; i++) {
        const char *finding = report.findings[i].text;
        if (!finding[0] || strlen(finding) + 1 >= sizeof report.findings[i].text)
            abort(); /* nothing said, or cut off */
    }
    if (plm_oom_report_text(&report, (plm_report_style){0}, &text) != PLM_OK ||
        plm_oom_report_json(&report, &line) != PLM_OK)
        abort();
    plm_free(text);
    plm_free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    plm_fuzz_memory_begin();
    read_and_write((const char *)bytes, count);
    plm_fuzz_memory_end(MEMORY_BASE_BYTES, MEMORY_MULTIPLE, count);
    return 0;
}
