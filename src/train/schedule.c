/* SPDX-License-Identifier: MIT */
/* Linear warm-up, then half a cosine. */
#include "train/schedule.h"

#include <math.h>

#define LAST_SHARE 0.1
#define PI         3.14159265358979323846

float plm__schedule_rate(float peak, int64_t step, int64_t warmup, int64_t steps)
{
    if (step < warmup)
        return (float)(peak * (double)(step + 1) / (double)warmup);
    int64_t falling = steps - 1 - warmup;
    double way = falling > 0 ? (double)(step - warmup) / (double)falling : 0;
    return (float)(peak * (LAST_SHARE + (1 - LAST_SHARE) * 0.5 * (1 + cos(PI * way))));
}
