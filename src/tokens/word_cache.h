/* SPDX-License-Identifier: MIT */
/*
 * What a model made of the words it has seen: texts repeat few of them often. Of a fixed size; when
 * its room is used up it forgets everything. One thread.
 */
#ifndef PLM_TOKENS_WORD_CACHE_H
#define PLM_TOKENS_WORD_CACHE_H

#include "base/array.h"

enum {
    PLM_WORD_CACHE_SLOTS = 1 << 16,
    PLM_WORD_CACHE_TOKENS = 1 << 19, /* in all */
    PLM_WORD_CACHE_BYTES = 4 << 20,  /* of words in all */
    PLM_WORD_CACHE_WORD_BYTES = 128  /* longer ones are not kept */
};

/* One token of a word. */
typedef struct plm_model_token {
    int32_t id;
    int32_t start, count; /* the bytes of the word that it stands for */
    bool is_text;         /* its piece is those bytes, not the text of the id */
} plm_model_token;

typedef struct plm_model_tokens {
    plm_model_token *items;
    int64_t count;
    int64_t capacity;
} plm_model_tokens;

typedef struct plm_word_slot {
    uint32_t mark;  /* of the hash; 0: free */
    uint32_t start; /* of the word, in bytes */
    uint32_t first; /* of its tokens */
    uint16_t word_count, token_count;
} plm_word_slot;

typedef struct plm_word_cache {
    plm_word_slot *slots; /* NULL until the first word is kept */
    int64_t used;         /* slots */
    PLM_ARRAY(char) bytes;
    plm_model_tokens tokens;
} plm_word_cache;

/* Appends the tokens of a word to `tokens` when it is known; *known says so.
 * PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__word_cache_find(const plm_word_cache *cache, uint64_t hash,
                                             const char *word, int64_t count,
                                             plm_model_tokens *tokens, bool *known);

/* Keeps the tokens from `first` on as those of a word. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__word_cache_keep(plm_word_cache *cache, uint64_t hash, const char *word,
                                             int64_t count, const plm_model_tokens *tokens,
                                             int64_t first);

void plm__word_cache_fini(plm_word_cache *cache);

#endif
