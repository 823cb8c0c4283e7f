/* SPDX-License-Identifier: MIT */
/*
 * Decoders: the texts of tokens become one text again: a list of steps, each of which makes a new
 * list of texts of one. Read once, applied by many threads.
 */
#ifndef PLM_TOKENS_DECODER_H
#define PLM_TOKENS_DECODER_H

#include "base/text.h"
#include "tokens/part.h"

typedef struct plm_decoder_step plm_decoder_step;

typedef struct plm_decoder {
    PLM_ARRAY(plm_decoder_step) steps;
    bool is_there; /* without one, tokens are joined by blanks */
} plm_decoder;

/* Texts one behind the other. */
typedef struct plm_texts {
    plm_text bytes;
    plm_spans spans;
} plm_texts;

void plm__texts_fini(plm_texts *texts);

/* Ends the text that was appended to `bytes` since the last; PLM_ERROR_HOST_MEMORY, also of those
 * appends. */
PLM_MUST_USE plm_status plm__texts_end(plm_texts *texts);

/* Reads the value of `decoder`, null too. A failure leaves what plm__decoder_fini ends. */
PLM_MUST_USE plm_status plm__decoder_read(const char *file, const json_t *value,
                                          plm_decoder *decoder);

void plm__decoder_fini(plm_decoder *decoder);

/* Appends to `text` what the tokens' texts come to, well-formed UTF-8; *texts is used up. */
PLM_MUST_USE plm_status plm__decoder_apply(const plm_decoder *decoder, plm_texts *texts,
                                           plm_text *text);

#endif
