/* SPDX-License-Identifier: MIT */
/*
 * A growing text. Appending never fails at once: the first failure sticks, later appends do
 * nothing, and plm__text_status says it. So a renderer is written without a check on every line.
 *
 *     plm_text text = {0};
 *     plm__text_add(&text, "%d of %d", 3, 4);
 *     PLM_TRY_DONE(plm__text_status(&text));
 *     ... text.items, text.count bytes, always ended by a NUL ...
 *     plm__text_fini(&text);
 */
#ifndef PLM_BASE_TEXT_H
#define PLM_BASE_TEXT_H

#include "base/array.h"

typedef struct plm_text {
    char *items; /* NULL until something was added */
    int64_t count;
    int64_t capacity;
    plm_status status;
} plm_text;

void plm__text_add(plm_text *text, const char *format, ...) PLM_PRINTF(2, 3);

void plm__text_add_bytes(plm_text *text, const char *bytes, int64_t count);

/* `count` times the text `what`. */
void plm__text_repeat(plm_text *text, const char *what, int64_t count);

PLM_MUST_USE plm_status plm__text_status(const plm_text *text);

void plm__text_fini(plm_text *text);

#endif
