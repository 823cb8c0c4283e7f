/* SPDX-License-Identifier: MIT */
/*
 * Tokens beside the model's: found in the text as they stand, before the rest is normalized, or,
 * those that are `normalized`, in the normalized text. Read once, asked by many threads.
 */
#ifndef PLM_TOKENS_ADDED_TOKENS_H
#define PLM_TOKENS_ADDED_TOKENS_H

#include "tokens/normalizer.h"
#include "tokens/trie.h"
#include "tokens/vocabulary.h"

typedef struct plm_added_token {
    int32_t id;
    bool is_special;   /* left out by whoever decodes for a reader */
    bool is_word;      /* found only where no letter stands before or behind */
    bool strips_left;  /* takes the blanks before along */
    bool strips_right; /* and those behind */
    bool is_normalized;
} plm_added_token;

typedef struct plm_added_tokens {
    PLM_ARRAY(plm_added_token) tokens; /* in the file's order; the tries' ids are places here */
    plm_vocabulary texts;              /* texts and ids, in the same order */
    plm_trie raw, normalized;
} plm_added_tokens;

/*
 * Reads the value of `added_tokens`; a text that the model has keeps the model's id. A failure
 * leaves what plm__added_tokens_fini ends.
 */
PLM_MUST_USE plm_status plm__added_tokens_read(const char *file, const json_t *value,
                                               const plm_vocabulary *model,
                                               const plm_normalizer *normalizer,
                                               plm_added_tokens *added);

void plm__added_tokens_fini(plm_added_tokens *added);

/* The token of an id, NULL: none of these. */
const plm_added_token *plm__added_tokens_by_id(const plm_added_tokens *added, int32_t id);

/* A stretch of a text: a token, or what lies between two. */
typedef struct plm_stretch {
    plm_span span;
    const plm_added_token *token; /* NULL: none */
} plm_stretch;

/* A way through a text; zeroed at first. */
typedef struct plm_added_walk {
    int64_t from;        /* what has no stretch yet begins here */
    int64_t searched;    /* tokens are looked for from here on: blanks that one took along may begin
                            the next, as in the reference */
    plm_stretch pending; /* a token that was found behind the last stretch */
} plm_added_walk;

/* *stretch becomes the next stretch of a text; false at its end. */
bool plm__added_tokens_next(const plm_added_tokens *added, bool is_normalized, const char *text,
                            int64_t count, plm_added_walk *walk, plm_stretch *stretch);

#endif
