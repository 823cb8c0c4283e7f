/* SPDX-License-Identifier: MIT */
/*
 * Pre-tokenizers: a passage is cut into words, of which each is given to the model by itself. A
 * list of steps, which cut words further or write them anew. Read once, applied by many threads.
 */
#ifndef PLM_TOKENS_PRE_TOKENIZER_H
#define PLM_TOKENS_PRE_TOKENIZER_H

#include "tokens/part.h"
#include "tokens/passage.h"

typedef struct plm_cut plm_cut;

typedef struct plm_pre_tokenizer {
    PLM_ARRAY(plm_cut) cuts;
} plm_pre_tokenizer;

/* Reads the value of `pre_tokenizer`, null too. A failure leaves what plm__pre_tokenizer_fini ends.
 */
PLM_MUST_USE plm_status plm__pre_tokenizer_read(const char *file, const json_t *value,
                                                plm_pre_tokenizer *pre_tokenizer);

void plm__pre_tokenizer_fini(plm_pre_tokenizer *pre_tokenizer);

/* Whether what is cut must know where it came from. */
bool plm__pre_tokenizer_wants_sources(const plm_pre_tokenizer *pre_tokenizer);

/* What cutting works on. */
typedef struct plm_words {
    const plm_passage *passage; /* borrowed at first, then one of: */
    plm_passage written[2];     /* in turns */
    int turn;
    plm_spans words, next; /* of the passage, none empty */
    plm_spans pieces;      /* of one word: matches and what lies between */
    plm_searcher *searcher;
    bool keeps_sources;
    int64_t limit; /* of bytes in a passage */
} plm_words;

void plm__words_fini(plm_words *words);

/* Cuts words->words, which holds what is to be cut. */
PLM_MUST_USE plm_status plm__pre_tokenizer_apply(const plm_pre_tokenizer *pre_tokenizer,
                                                 plm_words *words);

#endif
