/* SPDX-License-Identifier: MIT */
/* Monotonic time. */
#ifndef PLM_BASE_CLOCK_H
#define PLM_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds since some fixed instant; never goes back. */
int64_t plm__clock_ns(void);

#endif
