/* SPDX-License-Identifier: MIT */
/*
 * Reports: how what the views of a trace say is written out for people. The headers report_torch.h,
 * plan_report.h and doctor.h have the reports; all are pure functions of what they are given, which
 * neither print nor look at the terminal. Thread-safe.
 */
#ifndef PLIMSOLL_REPORT_H
#define PLIMSOLL_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "plimsoll/status.h"

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
    const char *const *hints; /* the program's words, by plm_hint; NULL: those of the map */
} plm_report_style;

#ifdef __cplusplus
}
#endif
#endif
