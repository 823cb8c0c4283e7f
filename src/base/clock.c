/* SPDX-License-Identifier: MIT */
/* Monotonic time from POSIX. */
#include "base/clock.h"

#include <time.h>

int64_t plm__clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
