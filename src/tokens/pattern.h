/* SPDX-License-Identifier: MIT */
/*
 * What normalizers, pre-tokenizers and decoders look for: a text, a class of characters, or a
 * regular expression. A pattern is made once and searched by many threads, each with a searcher of
 * its own.
 *
 * Expressions are written for Oniguruma, the reference's engine, and run by PCRE2: they are written
 * anew in PCRE2's words (regex.c). Matching has limits. A pattern that backtracks without end is
 * one clear error.
 */
#ifndef PLM_TOKENS_PATTERN_H
#define PLM_TOKENS_PATTERN_H

#include "tokens/passage.h"

typedef struct plm_regex plm_regex;
typedef struct plm_regex_searcher plm_regex_searcher;

typedef bool plm_character_class(uint32_t point);

typedef struct plm_pattern {
    char *text; /* a literal: NUL-ended, owned; else NULL */
    int64_t text_count;
    plm_character_class *is_member; /* a class: one character a match; else NULL */
    plm_regex *regex;               /* owned; else NULL */
} plm_pattern;

/* `text` is copied; not empty. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__pattern_literal(const char *text, int64_t count, plm_pattern *pattern);

/*
 * Compiles an expression of `count` bytes. PLM_ERROR_FORMAT for one that is malformed or too large,
 * PLM_ERROR_UNSUPPORTED for what PCRE2 has no words for; `what` names it in messages.
 */
PLM_MUST_USE plm_status plm__pattern_regex(const char *what, const char *expression, int64_t count,
                                           plm_pattern *pattern);

void plm__pattern_fini(plm_pattern *pattern);

/* Steps back that expressions may take in all over one text, beyond a few at each place: so many,
 * and so many for each byte, as a run of blanks is given back one by one. */
enum { PLM_SEARCH_STEPS_LEAST = 2 * 1000 * 1000, PLM_SEARCH_STEPS_A_BYTE = 256 };

/* What a thread searches with; zeroed at first. */
typedef struct plm_searcher {
    plm_regex_searcher *regex; /* made when an expression is first searched */
    int64_t steps_left;        /* of the text: plm__searcher_allow */
    bool has_young;            /* texts may hold characters that are PLM_KIND_YOUNG */
    PLM_ARRAY(char) elder;     /* such a text as PCRE2 is to see it */
    const char *text;          /* that is searched, borrowed */
    int64_t count;
    int64_t from;     /* where the next search begins */
    int64_t last_end; /* of the last match, -1: none yet */
} plm_searcher;

void plm__searcher_fini(plm_searcher *searcher);

/* Allows the steps of a text of `count` bytes, whose parts are searched from here on. */
void plm__searcher_allow(plm_searcher *searcher, int64_t count, bool has_young);

/* Begins to search a text of well-formed UTF-8, borrowed, for a pattern. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__searcher_begin(plm_searcher *searcher, const plm_pattern *pattern,
                                            const char *text, int64_t count);

/*
 * The next match: *found says whether there is one, *match where. An empty match directly behind a
 * match does not count. PLM_ERROR_UNSUPPORTED when the expression met its limit,
 * PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm__searcher_next(plm_searcher *searcher, const plm_pattern *pattern,
                                           plm_span *match, bool *found);

#endif
