/* SPDX-License-Identifier: MIT */
/*
 * Which plan cudnn.benchmark takes. On a card PyTorch times every plan and keeps the quickest; here
 * all take no time, so each plan reports a time after its rank: a guess at what the card prefers.
 * Where benchmark is off the order of the real library's list decides, as on the card.
 */
#ifndef PLM_PHANTOM_CUDNN_CHOICE_H
#define PLM_PHANTOM_CUDNN_CHOICE_H

#include "phantom/cudnn_split.h"

/* How a plan ranks, lower before higher, 0 the first. `work`: NULL where the engine is none of
 * Hopper's; `position`: in the library's list, from 0. */
int plm__cudnn_rank(const struct plm_cudnn_work *work, int position, int multiprocessors);

/* A plan of that rank was executed on this thread. */
void plm__cudnn_ran(int rank);

/* What the last plan executed on this thread adds to an event's time: so little that times compared
 * for other reasons (Inductor's) come out as if nothing were added. 0 once it was asked. */
float plm__cudnn_ran_ms(void);

#endif
