/* SPDX-License-Identifier: MIT */
/*
 * Models: a word becomes tokens. A kind of model is a row of models[] in model.c and one file: bpe,
 * unigram, wordpiece (which has the plain list of words too). Read once, asked by many threads,
 * each with work of its own.
 */
#ifndef PLM_TOKENS_MODEL_H
#define PLM_TOKENS_MODEL_H

#include "tokens/part.h"
#include "tokens/vocabulary.h"
#include "tokens/word_cache.h"

/* A symbol of a word while BPE merges. */
typedef struct plm_symbol {
    int32_t id;
    int32_t previous, next; /* -1: none */
    int32_t count;          /* bytes; 0: merged into the one before */
} plm_symbol;

/* The best way to an end of a part of a word, as unigram sees it. */
typedef struct plm_path {
    double score;
    int32_t start; /* of its last token, -1: no way yet */
    int32_t id;
} plm_path;

/* What a thread works with; zeroed at first. */
typedef struct plm_model_work {
    plm_model_tokens tokens; /* results, appended */
    plm_word_cache cache;
    PLM_ARRAY(plm_symbol) symbols;
    PLM_ARRAY(uint64_t) heap; /* rank and place of merges that may be made */
    PLM_ARRAY(plm_path) paths;
    PLM_ARRAY(char) text;
} plm_model_work;

typedef struct plm_model plm_model;

typedef struct plm_model_kind {
    const char *type;
    plm_status (*read)(const plm_part *part, plm_model *model);
    plm_status (*encode)(const plm_model *model, plm_model_work *work, const char *word,
                         int64_t count);
    void (*destroy)(void *own);
} plm_model_kind;

struct plm_model {
    const plm_model_kind *kind; /* NULL: nothing to end */
    plm_vocabulary vocabulary;
    int32_t unknown;       /* the id for what has none, or PLM_TOKEN_NONE */
    bool names_unknown;    /* the file names a token for that, perhaps one that is not there */
    bool falls_back;       /* a character without a token becomes its bytes, if they have some */
    int32_t byte_ids[256]; /* of <0x00> to <0xFF>, or PLM_TOKEN_NONE */
    void *own;             /* the kind's, owned */
};

extern const plm_model_kind plm__model_bpe, plm__model_unigram, plm__model_wordpiece,
    plm__model_wordlevel;

/* Reads the value of `model`. A failure leaves what plm__model_fini ends. */
PLM_MUST_USE plm_status plm__model_read(const char *file, const json_t *value, plm_model *model);

void plm__model_fini(plm_model *model);
void plm__model_work_fini(plm_model_work *work);

/* Appends the tokens of a word, at least one byte of well-formed UTF-8, to work->tokens.
 * PLM_ERROR_FORMAT for what has no token where the model has none for that either. */
PLM_MUST_USE plm_status plm__model_encode(const plm_model *model, plm_model_work *work,
                                          const char *word, int64_t count);

/* For the kinds. */

/* Reads `vocab`, an object of texts and ids. */
PLM_MUST_USE plm_status plm__model_read_vocabulary(const plm_part *part, plm_model *model);

/* Reads `unk_token` and finds its id, behind the vocabulary. Some files name one that they do not
 * have, and never need it. */
PLM_MUST_USE plm_status plm__model_read_unknown(const plm_part *part, plm_model *model);

/* Finds the ids of bytes, behind the vocabulary. */
void plm__model_find_bytes(plm_model *model);

/* Appends a token that stands for `count` bytes of the word. */
PLM_MUST_USE plm_status plm__model_push(plm_model_work *work, int32_t id, int64_t start,
                                        int64_t count);

/* Whether every byte of a text has a token. */
bool plm__model_has_bytes(const plm_model *model, const char *bytes, int64_t count);

/* PLM_ERROR_FORMAT, for a text that has no token. */
plm_status plm__model_lacks(const char *text, int64_t count);

#endif
