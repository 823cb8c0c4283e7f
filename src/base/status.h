/* SPDX-License-Identifier: MIT */
/*
 * Failing from inside the library: PLM_FAIL_IF to fail, PLM_TRY to pass a failure on.
 * Invariant: whoever returns a status other than PLM_OK has set the thread's record with plm_fail.
 */
#ifndef PLM_BASE_STATUS_H
#define PLM_BASE_STATUS_H

#include "plimsoll/status.h"

#if defined(__GNUC__)
#define PLM_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))
#define PLM_NORETURN                    __attribute__((noreturn))
#else
#define PLM_PRINTF(format_index, first)
#define PLM_NORETURN
#endif

/* Sets the thread's record, its out-of-memory part cleared. `status` is not PLM_OK. */
void plm__fail_at(const char *file, int line, plm_status status, const char *format, ...)
    PLM_PRINTF(4, 5);

/* Adds the out-of-memory figures to the record that plm_fail has just set. `oom` is borrowed. */
void plm__fail_oom(const plm_oom_record *oom);

/* Adds the errno of the system's call that failed to that record. */
void plm__fail_system(int error);

/* Adds what would help, likewise. Evaluates to the record's status. */
plm_status plm__fail_hint(plm_hint hint);

/* Puts back what plm_error_get gave: cleaning up after a failure may fail too, and the first is to
 * be told. */
void plm__fail_again(const plm_error *error);

/* Reports a broken invariant of ours on standard error in one line and aborts. */
void plm__bug_at(const char *file, int line, const char *format, ...) PLM_PRINTF(3, 4) PLM_NORETURN;

/* Evaluates to `status`, so that the compiler sees which one. */
#define plm_fail(status, ...) (plm__fail_at(__FILE__, __LINE__, status, __VA_ARGS__), status)

#define PLM_FAIL_IF(condition, ...)                                                                \
    do {                                                                                           \
        if (condition)                                                                             \
            return plm_fail(__VA_ARGS__);                                                          \
    } while (0)

#define PLM_TRY(expression)                                                                        \
    do {                                                                                           \
        plm_status try_status_ = (expression);                                                     \
        if (try_status_ != PLM_OK)                                                                 \
            return try_status_;                                                                    \
    } while (0)

/* For functions that clean up: needs a variable `status` and a label `done`. */
#define PLM_TRY_DONE(expression)                                                                   \
    do {                                                                                           \
        status = (expression);                                                                     \
        if (status != PLM_OK)                                                                      \
            goto done;                                                                             \
    } while (0)

/* For functions that make something: *result = made, or after a failure `destroy` ends what was
 * made. Evaluates to the status. */
#define PLM_HAND_OVER(status, made, destroy, result)                                               \
    ((status) == PLM_OK ? (void)(*(result) = (made)) : (destroy)(made), (status))

/* PLM_BUG_IF: an invariant of ours, always checked. PLM_ASSERT: the caller's contract, debug
 * builds. */
#define PLM_BUG_IF(condition, ...)                                                                 \
    do {                                                                                           \
        if (condition)                                                                             \
            plm__bug_at(__FILE__, __LINE__, __VA_ARGS__);                                          \
    } while (0)

#ifdef NDEBUG
#define PLM_ASSERT(condition) ((void)0)
#else
#define PLM_ASSERT(condition) PLM_BUG_IF(!(condition), "contract broken: %s", #condition)
#endif

#endif
