/* SPDX-License-Identifier: MIT */
/* Unicode's normal forms, as far as the reference knows them. The one place that knows utf8proc. */
#ifndef PLM_TOKENS_NORMAL_FORM_H
#define PLM_TOKENS_NORMAL_FORM_H

#include "tokens/passage.h"

typedef enum plm_normal_form {
    PLM_FORM_NFC,
    PLM_FORM_NFD,
    PLM_FORM_NFKC,
    PLM_FORM_NFKD,
    PLM_FORM_COUNT
} plm_normal_form;

/* Fills `out`, which has begun, with the form of `in`. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__normal_form_apply(plm_normal_form form, const plm_passage *in,
                                               plm_passage *out);

/* The end of the grapheme (what a reader takes for one character) that begins at `start`. */
int64_t plm__grapheme_end(const char *bytes, int64_t start, int64_t count);

#endif
