/* SPDX-License-Identifier: MIT */
/*
 * A trainer whose devices come from somewhere else than the CPU's own constructor: behind a wrapper
 * that fails on demand, or with less memory than was planned for.
 */
#ifndef PLM_TRAIN_TRAINER_H
#define PLM_TRAIN_TRAINER_H

#include "plimsoll/train.h"

/* Where devices come from: one to plan on, without a cap, and one to run on. */
typedef struct plm_device_source {
    plm_status (*open)(void *user, int32_t threads, size_t cap_bytes, plm_device **device);
    void *user;
} plm_device_source;

/* As plm_trainer_create, with devices from `source`, which is copied. */
PLM_MUST_USE plm_status plm__trainer_create_on(const plm_train_settings *settings,
                                               const plm_device_source *source,
                                               plm_trainer **trainer);

#endif
