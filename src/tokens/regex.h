/* SPDX-License-Identifier: MIT */
/* Regular expressions in Oniguruma's words, run by PCRE2. The one place that knows PCRE2. */
#ifndef PLM_TOKENS_REGEX_H
#define PLM_TOKENS_REGEX_H

#include "base/text.h"
#include "tokens/pattern.h"

/* Compiles; see plm__pattern_regex. */
PLM_MUST_USE plm_status plm__regex_create(const char *what, const char *expression, int64_t count,
                                          plm_regex **regex);
void plm__regex_destroy(plm_regex *regex);

/* A search needs room of its own. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__regex_searcher_create(plm_regex_searcher **searcher);
void plm__regex_searcher_destroy(plm_regex_searcher *searcher);

/* The first match from `from` on; see plm__searcher_next. What a place takes beyond a few steps is
 * taken from *steps_left. */
PLM_MUST_USE plm_status plm__regex_search(const plm_regex *regex, plm_regex_searcher *searcher,
                                          const char *text, int64_t count, int64_t from,
                                          int64_t *steps_left, plm_span *match, bool *found);

/* An expression in PCRE2's words, appended to `words`; regex_words.c. */
PLM_MUST_USE plm_status plm__regex_words(const char *what, const char *expression, int64_t count,
                                         plm_text *words);

#endif
