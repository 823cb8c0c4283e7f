/* SPDX-License-Identifier: MIT */
/*
 * What descriptors tell when they are read: the convolution that an operation describes, and the
 * workspace of a plan that is never made.
 */
#ifndef PLM_PHANTOM_CUDNN_PLAN_H
#define PLM_PHANTOM_CUDNN_PLAN_H

#include "phantom/cudnn_book.h"

/* Takes attribute `name` of a convolution's operation into the entry; `value` is what is set. */
void plm__cudnn_note_operand(struct plm_cudnn_entry *operation, int name,
                             plm_cudnn_descriptor value);

/* Takes into the plan what a plan of the configuration has on the device: its workspace and its
 * rank (cudnn_choice.h). Returns the real library's status; without success the plan is as it
 * was. */
int plm__cudnn_configure(struct plm_cudnn_entry *plan, const struct plm_cudnn_entry *configuration);

#endif
