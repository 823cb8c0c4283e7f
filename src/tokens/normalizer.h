/* SPDX-License-Identifier: MIT */
/*
 * Normalizers: what is done to a text before it is cut: a list of steps, each of which writes the
 * passage anew. Read once, applied by many threads.
 */
#ifndef PLM_TOKENS_NORMALIZER_H
#define PLM_TOKENS_NORMALIZER_H

#include "tokens/part.h"
#include "tokens/passage.h"

typedef struct plm_normalizer_step plm_normalizer_step;

typedef struct plm_normalizer {
    PLM_ARRAY(plm_normalizer_step) steps;
} plm_normalizer;

/* Reads the value of `normalizer`, null too. A failure leaves what plm__normalizer_fini ends. */
PLM_MUST_USE plm_status plm__normalizer_read(const char *file, const json_t *value,
                                             plm_normalizer *normalizer);

void plm__normalizer_fini(plm_normalizer *normalizer);

/*
 * Applies every step: *passage is read, and *passage and *spare are exchanged as often as need be,
 * so that *passage is the result.
 */
PLM_MUST_USE plm_status plm__normalizer_apply(const plm_normalizer *normalizer,
                                              plm_searcher *searcher, bool keeps_sources,
                                              int64_t limit, plm_passage **passage,
                                              plm_passage **spare);

#endif
