/* SPDX-License-Identifier: MIT */
/*
 * Engines of cuDNN that a card lists and a machine without one does not. Which of them a card would
 * put first the library's log tells (cudnn_rejected.h); their workspaces are worked out here.
 */
#ifndef PLM_PHANTOM_CUDNN_ABSENT_H
#define PLM_PHANTOM_CUDNN_ABSENT_H

#include <stdbool.h>
#include <stdint.h>

struct plm_cudnn_convolution;

/* Whether such an engine can come first at all: asking the library takes a millisecond or more. */
bool plm__cudnn_may_be_absent(const struct plm_cudnn_convolution *convolution);

/* The workspace of the engine of that number (of cuDNN 9.10 to 9.19); -1: not known, or a card
 * turns the engine away too. */
int64_t plm__cudnn_absent_bytes(const struct plm_cudnn_convolution *convolution, int engine,
                                int multiprocessors);

#endif
