/* SPDX-License-Identifier: MIT */
/*
 * Out-of-memory messages in a text: finding them, reading one, drawing conclusions from it.
 *
 * The text comes in pieces of any size and is looked through once; a message may be broken over
 * lines in any way that a terminal breaks them. Nothing is allocated.
 */
#ifndef PLM_DIAGNOSE_OOM_MESSAGE_H
#define PLM_DIAGNOSE_OOM_MESSAGE_H

#include "base/status.h"
#include "plimsoll/doctor.h"

enum {
    PLM_OOM_MESSAGE_MAX = 4096, /* bytes of one message, its breaks included */
    PLM_OOM_LINE_MAX = 256,     /* bytes before it on its line that may name the rank */
    PLM_OOM_BUFFER_BYTES = 64 * 1024
};

/* Reading a text: what is left of it to look through, and what was found so far. */
typedef struct plm_oom_scan {
    char bytes[PLM_OOM_BUFFER_BYTES];
    size_t count;      /* bytes held */
    size_t next;       /* the first that was not looked at; bytes before it are context */
    int64_t line;      /* of the text, at `next`, from 1 */
    size_t line_begin; /* where that line begins, 0 when that is gone */
    plm_oom_report *report;
} plm_oom_scan;

/* Begins a text; *report is filled as messages are found. */
void plm__oom_scan_begin(plm_oom_scan *scan, plm_oom_report *report);

/* Where to put more bytes, and how many, at least one. */
char *plm__oom_scan_room(plm_oom_scan *scan, size_t *byte_count);

/* Takes `byte_count` bytes that were put there; `last` says that no more will come. */
void plm__oom_scan_take(plm_oom_scan *scan, size_t byte_count, bool last);

/* Fills verdict and findings from report->message. */
void plm__oom_explain(plm_oom_report *report);

#endif
