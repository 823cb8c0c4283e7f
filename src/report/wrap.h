/* SPDX-License-Identifier: MIT */
/* Running text for a terminal: words broken at blanks, sentences joined as people join them. */
#ifndef PLM_REPORT_WRAP_H
#define PLM_REPORT_WRAP_H

#include "base/text.h"

/*
 * Appends `words` to `out` in lines of at most `columns` cells, each behind `indent` blanks and
 * ended by a newline. A number is not parted from its unit; a longer word takes a line of its own.
 * Nothing for an empty text.
 */
void plm__text_wrap(plm_text *out, const char *words, int64_t columns, int64_t indent);

/* Appends item `index` of `count` as in "a, b and c". */
void plm__text_list(plm_text *out, const char *item, int64_t index, int64_t count);

/* Appends a number with its thousands marked: 124,439,808. */
void plm__text_count(plm_text *out, int64_t number);

#endif
