/* SPDX-License-Identifier: MIT */
/* Texts of other people's files made fit for ours: valid UTF-8 without NUL bytes. */
#ifndef PLM_TORCH_CLEAN_H
#define PLM_TORCH_CLEAN_H

#include "base/text.h"

/*
 * Appends `count` bytes to `text`; whatever is no well-formed UTF-8, and NUL, becomes U+FFFD, one
 * for each byte. A failure sticks to the text.
 */
void plm_clean_add(plm_text *text, const char *bytes, int64_t count);

#endif
