/* SPDX-License-Identifier: MIT */
/*
 * Reports: what the views of a trace say, written out for people and for programs. Pure functions
 * of what they are given; they neither print nor look at the terminal. Thread-safe.
 *
 *     char *text = NULL;
 *     if (plm_report_bill_text(bill, (plm_report_style){.columns = 100}, &text) == PLM_OK)
 *         fputs(text, stdout);
 *     plm_report_free(text);
 */
#ifndef PLIMSOLL_REPORT_H
#define PLIMSOLL_REPORT_H

#include <stdbool.h>

#include "plimsoll/bill.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PLM_REPORT_COLUMNS_DEFAULT = 100,
    PLM_REPORT_COLUMNS_MIN = 80,
    PLM_REPORT_ROWS_DEFAULT = 12
};

typedef struct plm_report_style {
    bool colour;     /* bold and dim by escape sequences: the caller has seen a terminal */
    int32_t columns; /* width to write for, raised to PLM_REPORT_COLUMNS_MIN; 0: the default */
    int64_t rows;    /* rows of the table of live blocks, the rest in one line; 0: the default */
} plm_report_style;

/*
 * *text = the bill as a page: what is run, bytes by role, the regions against the budget, the
 * peak's story in words, what is live then, the verdict. Every figure but the rounding of its unit
 * is the bill's own, and the column "at the peak" adds up to the peak. Owned by the caller.
 * PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_report_bill_text(const plm_bill *bill, plm_report_style style,
                                             char **text);

/*
 * *line = the bill as one JSON object on one line, with every live block of the peak; sizes in
 * bytes. Owned by the caller. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_report_bill_json(const plm_bill *bill, char **line);

/* Frees what a report gave; NULL is allowed. */
void plm_report_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
