/* SPDX-License-Identifier: MIT */
/* The learning rate over a run. */
#ifndef PLM_TRAIN_SCHEDULE_H
#define PLM_TRAIN_SCHEDULE_H

#include <stdint.h>

/*
 * The rate of update `step` (from 0) of `steps`: rises linearly over `warmup` updates to `peak`,
 * then falls along half a cosine to a tenth of it at the last update. A warm-up as long as the run
 * never falls.
 */
float plm__schedule_rate(float peak, int64_t step, int64_t warmup, int64_t steps);

#endif
