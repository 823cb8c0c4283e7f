/* SPDX-License-Identifier: MIT */
/*
 * UTF-8 as RFC 3629 has it: shortest forms, no surrogates, up to U+10FFFF. The one place that knows
 * it; names out of other people's files need not be.
 */
#ifndef PLM_BASE_UTF8_H
#define PLM_BASE_UTF8_H

#include "base/text.h"

/*
 * The length of the well-formed sequence at the start of `bytes`, 1 to 4, and its code point
 * (`point` may be NULL); 0 when there is none. `count` is at least 1. A NUL is a character.
 */
int plm__utf8_decode(const char *bytes, int64_t count, uint32_t *point);

/* Whether a text that ends with a NUL is well-formed throughout. */
bool plm__utf8_is_valid(const char *text);

/*
 * Appends `count` bytes to `text`; whatever is no well-formed UTF-8, and NUL, becomes U+FFFD, one
 * for each byte. A failure sticks to the text.
 */
void plm__utf8_add_clean(plm_text *text, const char *bytes, int64_t count);

#endif
