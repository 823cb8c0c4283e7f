/* SPDX-License-Identifier: MIT */
/*
 * Post-processors: the special tokens that stand before and behind a text. Templates for pairs of
 * texts are passed over.
 */
#ifndef PLM_TOKENS_POST_PROCESSOR_H
#define PLM_TOKENS_POST_PROCESSOR_H

#include "tokens/part.h"

typedef PLM_ARRAY(int32_t) plm_ids;

typedef struct plm_post_processor {
    plm_ids before, behind;
} plm_post_processor;

/* Reads the value of `post_processor`, null too. A failure leaves what plm__post_processor_fini
 * ends. */
PLM_MUST_USE plm_status plm__post_processor_read(const char *file, const json_t *value,
                                                 plm_post_processor *post_processor);

void plm__post_processor_fini(plm_post_processor *post_processor);

#endif
