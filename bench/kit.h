/* SPDX-License-Identifier: MIT */
/* What the benchmarks share: ending at a failure, telling time, the fastest of several. */
#ifndef PLM_BENCH_KIT_H
#define PLM_BENCH_KIT_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "plimsoll/status.h"

/* Ends the benchmark with the failure's message. */
static inline void check(plm_status status)
{
    if (status == PLM_OK)
        return;
    plm_error error;
    plm_error_get(&error);
    fprintf(stderr, "bench: %s\n", error.message);
    exit(3);
}

/* With one thread processor time, else the clock. */
static inline double seconds_now(int threads)
{
    struct timespec used;
    if (threads > 1 || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) != 0)
        return (double)plm__clock_ns() * 1e-9;
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

/* For qsort of doubles. */
static inline int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

#endif
