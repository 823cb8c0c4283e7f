/* SPDX-License-Identifier: MIT */
/* The tables behind unicode.h, made by scripts/tokenizer_tables.py. */
#ifndef PLM_TOKENS_UNICODE_INTERNAL_H
#define PLM_TOKENS_UNICODE_INTERNAL_H

#include <stdint.h>

enum { PLM_UNICODE_BLOCK = 128, PLM_UNICODE_POINTS = 0x110000 };

/* Points from `first` to `last`, `step` apart, whose lower case lies `distance` away. */
typedef struct plm_unicode_run {
    uint32_t first, last;
    int32_t step, distance;
} plm_unicode_run;

extern const uint16_t plm__unicode_kinds[];                    /* category and flags */
extern const uint16_t plm__unicode_blocks[];                   /* by point / block */
extern const uint8_t plm__unicode_points[][PLM_UNICODE_BLOCK]; /* kinds, by block */
extern const plm_unicode_run plm__unicode_lower[];             /* in order of `first` */
extern const int plm__unicode_lower_count;

#endif
