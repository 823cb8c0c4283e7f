/* SPDX-License-Identifier: MIT */
/* The BERT network with its masked-language head, built with the public builder only. */
#ifndef PLM_MODEL_BERT_H
#define PLM_MODEL_BERT_H

#include "plimsoll/model.h"

/* plm_network.build with a plm_model as config. In GENERATE: the logits of a token that is hidden
 * at the position asked for. */
void plm__bert_build(plm_graph *graph, const void *config, plm_program program, int64_t batch,
                     int64_t sequence);

#endif
