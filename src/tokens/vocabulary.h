/* SPDX-License-Identifier: MIT */
/*
 * The tokens of a model: texts and their ids, found both ways. Filled while the file is read, then
 * only looked at, by any number of threads. Of a text that is added twice the later id counts; of
 * an id the later text.
 */
#ifndef PLM_TOKENS_VOCABULARY_H
#define PLM_TOKENS_VOCABULARY_H

#include "base/array.h"

enum {
    PLM_TOKEN_ID_MAX = 1 << 28,    /* ids are smaller */
    PLM_TOKEN_BYTES_MAX = 1 << 16, /* of one token */
    PLM_TOKEN_NONE = -1            /* no id */
};

/* A well mixed hash of some bytes. */
uint64_t plm__token_hash(const char *bytes, int64_t count);

typedef struct plm_token_entry {
    int64_t start; /* in bytes */
    int32_t count; /* without the NUL behind it */
    int32_t id;
} plm_token_entry;

typedef struct plm_vocabulary {
    PLM_ARRAY(char) bytes; /* the texts one behind the other, each ended by a NUL */
    PLM_ARRAY(plm_token_entry) entries;
    PLM_ARRAY(int32_t) by_id; /* entries, by id in order; made by plm__vocabulary_finish */
    int32_t *slots;           /* open addressing: entry + 1, 0 is free */
    int64_t slot_count;       /* a power of two */
    int32_t longest;          /* bytes of the longest token */
} plm_vocabulary;

/* Room for `count` tokens. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__vocabulary_reserve(plm_vocabulary *vocabulary, int64_t count);

/* `id` is from 0 to below PLM_TOKEN_ID_MAX, `count` at most PLM_TOKEN_BYTES_MAX.
 * PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__vocabulary_add(plm_vocabulary *vocabulary, const char *bytes,
                                            int64_t count, int32_t id);

/* Sorts by id; behind the last add. */
PLM_MUST_USE plm_status plm__vocabulary_finish(plm_vocabulary *vocabulary);

void plm__vocabulary_fini(plm_vocabulary *vocabulary);

/* The id of a text, or PLM_TOKEN_NONE. */
int32_t plm__vocabulary_find(const plm_vocabulary *vocabulary, const char *bytes, int64_t count);

/* The text of an id, NUL-ended, *count its bytes; NULL for an id that names none. */
const char *plm__vocabulary_text(const plm_vocabulary *vocabulary, int32_t id, int64_t *count);

/* The place among the entries of an id, in the order in which texts were added; -1: none. */
int32_t plm__vocabulary_place(const plm_vocabulary *vocabulary, int32_t id);

/* How many texts there are, and one more than the greatest id. */
int64_t plm__vocabulary_count(const plm_vocabulary *vocabulary);
int32_t plm__vocabulary_limit(const plm_vocabulary *vocabulary);

#endif
