/* SPDX-License-Identifier: MIT */
/*
 * JSON texts out of any bytes, for files too large to be built as a tree first (base/json.h builds
 * one).
 */
#ifndef PLM_REPORT_ESCAPE_H
#define PLM_REPORT_ESCAPE_H

#include "base/text.h"

/*
 * Appends `count` bytes as a quoted JSON text. Quotes, backslashes and control characters are
 * escaped; each byte that is no well-formed UTF-8 becomes U+FFFD; '<' is escaped too, so that a
 * text inside a page cannot end the element that it stands in.
 */
void plm__escape_add_bytes(plm_text *out, const char *bytes, int64_t count);

/* The same for a text that ends with a NUL. */
void plm__escape_add(plm_text *out, const char *text);

#endif
