/* SPDX-License-Identifier: MIT */
/* What a call of encode works with. */
#ifndef PLM_TOKENS_ENCODE_H
#define PLM_TOKENS_ENCODE_H

typedef struct plm_encoder plm_encoder;

void plm__encoder_destroy(plm_encoder *encoder);

#endif
