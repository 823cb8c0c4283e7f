/* SPDX-License-Identifier: MIT */
/*
 * How Plimsoll says no.
 *
 * Every function that can fail returns a plm_status, which must be looked at. PLM_OK is 0. What
 * went wrong in detail (what was wanted, what was found, what to try) is kept for the calling
 * thread in one record until the next failure on that thread; plm_error_get copies it out. Results
 * come through out-parameters, which a failing function leaves as they were.
 *
 * The library never prints and never exits. Two things stop the program: a broken contract of the
 * caller, in debug builds only, and a broken invariant of ours, always.
 *
 *     plm_snapshot *snapshot = NULL;
 *     if (plm_snapshot_read("rank0.pickle", &snapshot) != PLM_OK) {
 *         plm_error error;
 *         plm_error_get(&error);
 *         fprintf(stderr, "%s\n", error.message);
 *     }
 */
#ifndef PLIMSOLL_STATUS_H
#define PLIMSOLL_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include "plimsoll/hint.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PLM_MUST_USE __attribute__((warn_unused_result))
#else
#define PLM_MUST_USE
#endif

/* One row a status: name, what it means in a few words. */
#define PLM_STATUS_MAP(ROW)                                                                        \
    ROW(OK, "done")                                                                                \
    ROW(ERROR_ARGUMENT, "wrong argument")                                                          \
    ROW(ERROR_OVERFLOW, "a size does not fit its type")                                            \
    ROW(ERROR_HOST_MEMORY, "out of host memory")                                                   \
    ROW(ERROR_DEVICE_MEMORY, "out of device memory")                                               \
    ROW(ERROR_BUDGET, "does not fit the budget")                                                   \
    ROW(ERROR_FORMAT, "malformed input")                                                           \
    ROW(ERROR_UNSUPPORTED, "not supported here")                                                   \
    ROW(ERROR_IO, "a file operation failed")                                                       \
    ROW(ERROR_DEVICE, "the device or a library on it failed")                                      \
    ROW(ERROR_STATE, "called in the wrong state")

typedef enum plm_status {
#define PLM_STATUS_ROW(name, text) PLM_##name,
    PLM_STATUS_MAP(PLM_STATUS_ROW)
#undef PLM_STATUS_ROW
        PLM_STATUS_COUNT
} plm_status;

/* Out of memory, told whole. All figures are bytes; a figure that is not known is 0. */
typedef struct plm_oom_record {
    size_t asked_bytes;        /* what was asked for */
    size_t rounded_bytes;      /* what that takes, rounded to the granule */
    size_t live_bytes;         /* handed out and in use */
    size_t cached_bytes;       /* held free by the pool */
    size_t reserved_bytes;     /* taken from the device: live + cached + slack */
    size_t budget_bytes;       /* the cap that was met */
    size_t largest_free_bytes; /* the largest single request that would have succeeded */
    char op[64];               /* operation that asked, "" when none */
    char tensor[64];           /* tensor that it was for, "" when none */
} plm_oom_record;

typedef struct plm_error {
    plm_status status;
    char message[512];  /* one line, no newline, lower case start */
    plm_oom_record oom; /* of PLM_ERROR_HOST_MEMORY, _DEVICE_MEMORY and _BUDGET, else zero */
    int system_error; /* errno of the call to the system that failed, 0 when none did: says whether
                         a path is wrong (ENOENT, EACCES) or the machine fails (ENOSPC, EIO) */
    plm_hint hint;    /* what would help, for the program to put in its words */
    const char *file; /* where it was found, debug builds only, else NULL */
    int line;
} plm_error;

/* The name of a status without its prefix, "OK" or "ERROR_IO"; "UNKNOWN" outside the range. Static.
 */
const char *plm_status_name(plm_status status);

/* What a status means in a few words. Static. */
const char *plm_status_text(plm_status status);

/* Copies the calling thread's last failure into *error; status PLM_OK and an empty message when
 * there was none. */
void plm_error_get(plm_error *error);

/* Frees a text, a line or a list that a function of this library handed over as one block. NULL is
 * allowed. Thread-safe. */
void plm_free(void *block);

#ifdef __cplusplus
}
#endif
#endif
