/* SPDX-License-Identifier: MIT */
/*
 * What an out-of-memory message says, and what it does not.
 *
 * Such a message is often all that is left of a run. It holds a handful of figures, rounded for
 * people; from them some causes follow and others are ruled out, and for the rest one can only say
 * what to record next. This reads the wordings of PyTorch 1.x and 2.x for CUDA, HIP and XPU, of its
 * asynchronous allocator and of MPS, and tells apart what comes from a library or the host. The
 * text may be the message alone or a log of any length with many messages from many ranks.
 *
 *     plm_oom_report report;
 *     if (plm_oom_read_file("train.log", &report) == PLM_OK)
 *         for (int i = 0; i < report.finding_count; i++)
 *             puts(report.findings[i].text);
 *
 * A report is plain data of the caller's. Thread-safe.
 */
#ifndef PLIMSOLL_DOCTOR_H
#define PLIMSOLL_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plimsoll/report.h"
#include "plimsoll/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The wordings that are known: name, what it is. */
#define PLM_OOM_FORM_MAP(ROW)                                                                      \
    ROW(PYTORCH_1, "pytorch-1", "PyTorch's caching allocator, as 0.4 to 2.0 word it")              \
    ROW(PYTORCH_2, "pytorch-2", "PyTorch's caching allocator, as 2.1 and later word it")           \
    ROW(ASYNC, "async", "PyTorch over cudaMallocAsync")                                            \
    ROW(MPS, "mps", "PyTorch on Apple's Metal")                                                    \
    ROW(BARE, "bare", "a message without figures")                                                 \
    ROW(LIBRARY, "library", "the driver or a library, outside PyTorch's allocator")                \
    ROW(HOST, "host", "the host's memory, not the GPU's")

typedef enum plm_oom_form {
#define PLM_OOM_FORM_ROW(name, key, text) PLM_OOM_FORM_##name,
    PLM_OOM_FORM_MAP(PLM_OOM_FORM_ROW)
#undef PLM_OOM_FORM_ROW
        PLM_OOM_FORM_COUNT
} plm_oom_form;

/* The figures that a message may hold: name, JSON key, what it is. */
#define PLM_OOM_FIGURE_MAP(ROW)                                                                    \
    ROW(ASKED, "asked_bytes", "asked for")                                                         \
    ROW(CAPACITY, "capacity_bytes", "capacity of the device")                                      \
    ROW(FREE, "free_bytes", "free on the device")                                                  \
    ROW(ALLOWED, "allowed_bytes", "allowed to this process")                                       \
    ROW(THIS_PROCESS, "this_process_bytes", "held by this process")                                \
    ROW(LISTED, "listed_processes_bytes", "held by the processes it lists")                        \
    ROW(ALLOCATED, "allocated_bytes", "in PyTorch's tensors")                                      \
    ROW(PRIVATE, "private_pools_bytes", "of that, in private pools")                               \
    ROW(RESERVED, "reserved_bytes", "reserved by PyTorch")                                         \
    ROW(UNALLOCATED, "unallocated_bytes", "reserved but unallocated")

typedef enum plm_oom_figure_kind {
#define PLM_OOM_FIGURE_ROW(name, key, text) PLM_OOM_##name,
    PLM_OOM_FIGURE_MAP(PLM_OOM_FIGURE_ROW)
#undef PLM_OOM_FIGURE_ROW
        PLM_OOM_FIGURE_COUNT
} plm_oom_figure_kind;

typedef struct plm_oom_figure {
    bool known;
    size_t bytes;     /* as printed; SIZE_MAX: beyond what the type holds */
    size_t precision; /* the true figure lies within this of it: half the last digit printed */
} plm_oom_figure;

typedef struct plm_oom_message {
    plm_oom_form form;
    char backend[8];   /* "CUDA", "HIP", "XPU", "MPS"; "" when the text does not say */
    int32_t device;    /* -1: the text does not say */
    int32_t rank;      /* from a launcher's mark on the line; -1: none */
    int64_t line;      /* of the text, from 1 */
    int32_t listed;    /* "Process N has ..." entries */
    bool split_advice; /* it recommends max_split_size_mb */
    plm_oom_figure figures[PLM_OOM_FIGURE_COUNT];
} plm_oom_message;

typedef enum plm_oom_finding_kind {
    PLM_OOM_PROVES, /* follows from the figures */
    PLM_OOM_CANNOT, /* no such message can tell */
    PLM_OOM_NEXT    /* what to do or to record */
} plm_oom_finding_kind;

typedef struct plm_oom_finding {
    plm_oom_finding_kind kind;
    char text[400]; /* a sentence or two, no newline */
} plm_oom_finding;

enum { PLM_OOM_FINDINGS_MAX = 24, PLM_OOM_SOURCES_MAX = 64 };

/* Where messages came from. */
typedef struct plm_oom_source {
    int32_t rank;       /* -1: not marked */
    int32_t device;     /* -1: not said */
    int64_t count;      /* messages */
    int64_t first_line; /* of the text */
} plm_oom_source;

typedef struct plm_oom_report {
    int64_t message_count;
    plm_oom_message message;                     /* the last one; what follows speaks of it */
    plm_oom_source sources[PLM_OOM_SOURCES_MAX]; /* in order of first sight */
    int32_t source_count;
    bool sources_left_out; /* there were more */
    plm_verdict verdict;
    bool proven; /* false: the figures allow it, and rule out less */
    plm_oom_finding findings[PLM_OOM_FINDINGS_MAX];
    int32_t finding_count;
} plm_oom_report;

/*
 * Reads a text, any bytes. PLM_ERROR_FORMAT when no out-of-memory message is in it.
 */
PLM_MUST_USE plm_status plm_oom_read_text(const char *bytes, size_t byte_count,
                                          plm_oom_report *report);

/*
 * Reads a file of any length in constant memory; "-" is standard input. PLM_ERROR_IO when it cannot
 * be read, PLM_ERROR_FORMAT as above, PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_oom_read_file(const char *path, plm_oom_report *report);

/*
 * *text = the report as a page: where the message stands, its figures, the verdict, the findings.
 * Owned by the caller, freed with plm_free. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_oom_report_text(const plm_oom_report *report, plm_report_style style,
                                            char **text);

/* *line = the same as one JSON object on one line; figures that are not known are null. Likewise.
 */
PLM_MUST_USE plm_status plm_oom_report_json(const plm_oom_report *report, char **line);

#ifdef __cplusplus
}
#endif
#endif
