/* SPDX-License-Identifier: MIT */
/* What a tokenizer is made of. Nothing changes after it was read but the idle work. */
#ifndef PLM_TOKENS_TOKENIZER_INTERNAL_H
#define PLM_TOKENS_TOKENIZER_INTERNAL_H

#include <pthread.h>

#include "plimsoll/tokenizer.h"
#include "tokens/added_tokens.h"
#include "tokens/decoder.h"
#include "tokens/model.h"
#include "tokens/normalizer.h"
#include "tokens/post_processor.h"
#include "tokens/pre_tokenizer.h"

/* What one call of encode works with. */
typedef struct plm_encoder {
    plm_passage passages[2];
    plm_searcher searcher;
    plm_words words;
    plm_model_work model;
    struct plm_encoder *next; /* in the list of idle ones */
} plm_encoder;

struct plm_tokenizer {
    plm_normalizer normalizer;
    plm_pre_tokenizer pre_tokenizer;
    plm_added_tokens added;
    plm_model model;
    plm_post_processor post_processor;
    plm_decoder decoder;
    int32_t special[PLM_SPECIAL_COUNT]; /* -1: not known */
    bool wants_sources;                 /* cutting asks where a word came from */
    pthread_mutex_t lock;               /* of the list */
    plm_encoder *idle;
};

/* Reads a file's bytes into a zeroed tokenizer. A failure leaves what plm__tokenizer_fini ends. */
PLM_MUST_USE plm_status plm__tokenizer_read(const char *name, const void *bytes, size_t byte_count,
                                            plm_tokenizer *tokenizer);

/* Reads which special tokens are what from a tokenizer_config.json's bytes. */
PLM_MUST_USE plm_status plm__tokenizer_read_config(const char *name, const void *bytes,
                                                   size_t byte_count, plm_tokenizer *tokenizer);

/* Ends the parts that were read. */
void plm__tokenizer_fini(plm_tokenizer *tokenizer);

#endif
