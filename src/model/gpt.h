/* SPDX-License-Identifier: MIT */
/* The GPT network, built with the public builder only. */
#ifndef PLM_MODEL_GPT_H
#define PLM_MODEL_GPT_H

#include "plimsoll/model.h"

/* plm_network.build with a plm_model as config. */
void plm__gpt_build(plm_graph *graph, const void *config, plm_program program, int64_t batch,
                    int64_t sequence);

#endif
