/* SPDX-License-Identifier: MIT */
/*
 * Reports of plans: the bill, the advice, the profile and the growth curve, written out for people
 * and for programs. Pure functions of what they are given, like those of plimsoll/report.h; texts
 * are freed by plm_free. Thread-safe.
 *
 *     char *text = NULL;
 *     if (plm_report_bill_text(bill, (plm_report_style){.columns = 100}, &text) == PLM_OK)
 *         fputs(text, stdout);
 *     plm_free(text);
 */
#ifndef PLIMSOLL_PLAN_REPORT_H
#define PLIMSOLL_PLAN_REPORT_H

#include "plimsoll/advice.h"
#include "plimsoll/bill.h"
#include "plimsoll/curve.h"
#include "plimsoll/profile.h"
#include "plimsoll/report.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* What a profile's tables are sorted by, the most first. */
/* By the time over the floor, what would gain most by a better kernel; by time; by what is kept. */
typedef enum plm_profile_order {
    PLM_PROFILE_BY_EXCESS,
    PLM_PROFILE_BY_TIME,
    PLM_PROFILE_BY_MEMORY
} plm_profile_order;

/*
 * *text = the profile of an update as a page: the whole, then operations (those of alike blocks
 * together) and layers, each with its time, its share, and what it makes and keeps.
 * `style.rows` bounds each table. Owned by the caller. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_report_profile_text(const plm_profile *profile, const char *model,
                                                plm_profile_order order, plm_report_style style,
                                                char **text);

/* *line = the profile as one JSON object on one line, each operation by itself, and the layers.
 * Owned by the caller. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm_report_profile_json(const plm_profile *profile, const char *model,
                                                plm_profile_order order, char **line);

/*
 * *text = the advice as a page: the strategy, what it costs, what was turned down and what that
 * would have cost; when nothing fits, the smallest budget and what would help. *line = the same as
 * JSON on one line; its changes are told in the words of `hints`, by plm_hint (NULL: the map's).
 * Owned by the caller. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_report_advice_text(const plm_advice *advice, const char *model,
                                               plm_report_style style, char **text);
PLM_MUST_USE plm_status plm_report_advice_json(const plm_advice *advice, const char *model,
                                               const char *const *hints, char **line);

/* *text = a growth curve as a chart with its parts in words; *line = the same as JSON on one line.
 * Owned by the caller. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm_report_curve_text(const plm_curve *curve, const char *model,
                                              plm_report_style style, char **text);
PLM_MUST_USE plm_status plm_report_curve_json(const plm_curve *curve, const char *model,
                                              char **line);

/*
 * Writes the curve as a picture: the peak's parts stacked, the plans and what was run as points on
 * it, the budget and the largest that fits, and the time of a step below; in the colours that the
 * reader prefers, light or dark. Whole or not at all. PLM_ERROR_IO, PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_report_curve_svg(const plm_curve *curve, const char *model,
                                             const char *path);

#ifdef __cplusplus
}
#endif
#endif
