/* SPDX-License-Identifier: MIT */
/* What a run says whose arena is not to be had, because others took the memory since it was
 * planned. */
#ifndef PLM_TRAIN_OFFER_H
#define PLM_TRAIN_OFFER_H

#include "plimsoll/train.h"

/*
 * Right after `device` refused an arena: sets the failure anew, with its record and the budget
 * of the plan of `job` that would fit now, whatever micro-batch `strategy` fixed. Returns
 * PLM_ERROR_DEVICE_MEMORY.
 */
plm_status plm__offer_smaller(const plm_job *job, const plm_strategy *strategy, plm_device *device);

#endif
