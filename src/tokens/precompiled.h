/* SPDX-License-Identifier: MIT */
/*
 * SentencePiece's compiled replacements: a double array over the bytes that are replaced, whose
 * leaves say where in a block of texts the replacement stands.
 */
#ifndef PLM_TOKENS_PRECOMPILED_H
#define PLM_TOKENS_PRECOMPILED_H

#include "tokens/part.h"
#include "tokens/passage.h"

typedef struct plm_precompiled {
    uint8_t *bytes; /* decoded from the file's base64, owned */
    int64_t byte_count;
    int64_t unit_count; /* of the double array, which begins at byte 4: 4 bytes each */
    const char *texts;  /* behind it, each ended by a NUL */
    int64_t text_count;
} plm_precompiled;

/* Reads `precompiled_charsmap`. PLM_ERROR_FORMAT, PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__precompiled_read(const plm_part *part, plm_precompiled *precompiled);

void plm__precompiled_fini(plm_precompiled *precompiled);

/* Fills `out`, which has begun. */
PLM_MUST_USE plm_status plm__precompiled_apply(const plm_precompiled *precompiled,
                                               const plm_passage *in, plm_passage *out);

#endif
