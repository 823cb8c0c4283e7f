/* SPDX-License-Identifier: MIT */
/*
 * Reports of forecasts, for people and for programs. Like plimsoll/report.h: pure functions, texts
 * are freed with plm_free. Thread-safe.
 */
#ifndef PLIMSOLL_REPORT_FORECAST_H
#define PLIMSOLL_REPORT_FORECAST_H

#include "plimsoll/findings.h"
#include "plimsoll/forecast.h"
#include "plimsoll/report.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One target, and what came of it. Borrowed. */
typedef struct plm_forecast_row {
    const char *target;                /* as it was asked for */
    const plm_forecast_result *result; /* NULL: it failed */
    const char *error;                 /* why, where it failed */
    const plm_findings *findings;      /* of the recording of the rank that holds most; NULL */
} plm_forecast_row;

typedef struct plm_forecast_report {
    const plm_forecast_row *rows;
    int64_t count;
    const char *argument; /* that was varied; NULL */
    int64_t most;         /* of the values that were allowed */
    bool has_view;        /* the script ran over a private view of the file system */
} plm_forecast_report;

/*
 * *text = of one target a page: a row a rank, peaks by phase, the verdict, who holds the peak, and
 * what is to be known of it; of several targets a table. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_report_forecast_text(const plm_forecast_report *report,
                                                 plm_report_style style, char **text);

/* *line = one target as one JSON object on one line, sizes in bytes. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm_report_forecast_json(const plm_forecast_report *report, int64_t row,
                                                 char **line);

#ifdef __cplusplus
}
#endif
#endif
