/* SPDX-License-Identifier: MIT */
/*
 * Which engines the real cuDNN turned away before the first configuration that it lists. Without a
 * card it does not list engines that work through cuBLAS, though on the card they often come first.
 * Its own log tells of each engine that it tries and turns away, in the order of its preference, as
 * long as one configuration is asked for and no more.
 */
#ifndef PLM_PHANTOM_CUDNN_REJECTED_H
#define PLM_PHANTOM_CUDNN_REJECTED_H

#include "phantom/cudnn_abi.h"

/* The engine that a finalized heuristic turns away before it comes to its first configuration:
 * `wanted` where that is among them, else the first; 0: none. Asks the library once more; 0 also
 * where its log tells nothing. Any thread. */
int plm__cudnn_rejected_first(plm_cudnn_descriptor heuristic, int wanted);

#endif
