/* SPDX-License-Identifier: MIT */
/*
 * Code points as the reference's tokenizers see them: its regular expressions stand on Unicode 16,
 * its lower case on a newer one, its punctuation and accents on older ones, and ids depend on each.
 * Texts are well-formed UTF-8: plm__unicode_check says so once, the rest relies on that.
 * Thread-safe.
 */
#ifndef PLM_TOKENS_UNICODE_H
#define PLM_TOKENS_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* General categories, in the order of the table. */
typedef enum plm_category {
    PLM_CATEGORY_CN,
    PLM_CATEGORY_LU,
    PLM_CATEGORY_LL,
    PLM_CATEGORY_LT,
    PLM_CATEGORY_LM,
    PLM_CATEGORY_LO,
    PLM_CATEGORY_MN,
    PLM_CATEGORY_MC,
    PLM_CATEGORY_ME,
    PLM_CATEGORY_ND,
    PLM_CATEGORY_NL,
    PLM_CATEGORY_NO,
    PLM_CATEGORY_PC,
    PLM_CATEGORY_PD,
    PLM_CATEGORY_PS,
    PLM_CATEGORY_PE,
    PLM_CATEGORY_PI,
    PLM_CATEGORY_PF,
    PLM_CATEGORY_PO,
    PLM_CATEGORY_SM,
    PLM_CATEGORY_SC,
    PLM_CATEGORY_SK,
    PLM_CATEGORY_SO,
    PLM_CATEGORY_ZS,
    PLM_CATEGORY_ZL,
    PLM_CATEGORY_ZP,
    PLM_CATEGORY_CC,
    PLM_CATEGORY_CF,
    PLM_CATEGORY_CO,
    PLM_CATEGORY_CS,
    PLM_CATEGORY_COUNT
} plm_category;

/* A kind is a category and these flags. */
enum {
    PLM_KIND_CATEGORY = 0x1f,
    PLM_KIND_PUNCTUATION = 1 << 5, /* to BERT's and the punctuation pre-tokenizer */
    PLM_KIND_ACCENT = 1 << 6,      /* BERT's normalizer strips it */
    PLM_KIND_MARK = 1 << 7,        /* StripAccents strips it */
    PLM_KIND_NUMERIC = 1 << 8,     /* to the digits pre-tokenizer */
    PLM_KIND_CONTROL = 1 << 9,     /* BERT's normalizer drops it */
    PLM_KIND_WORD = 1 << 10,       /* \w of added tokens and of the whitespace pre-tokenizer */
    PLM_KIND_YOUNG = 1 << 11,      /* its category came or changed after Unicode 14 */
    PLM_KIND_STRANGER = 1 << 12    /* the normal forms do not know it: a starter, not decomposed */
};

uint32_t plm__unicode_kind(uint32_t point);

/* The character at the start of well-formed UTF-8; its length goes into *length. */
static inline uint32_t plm__unicode_next(const char *bytes, int *length)
{
    const unsigned char *at = (const unsigned char *)bytes;
    if (at[0] < 0x80) {
        *length = 1;
        return at[0];
    }
    if (at[0] < 0xe0) {
        *length = 2;
        return (at[0] & 0x1fu) << 6 | (at[1] & 0x3fu);
    }
    if (at[0] < 0xf0) {
        *length = 3;
        return (at[0] & 0x0fu) << 12 | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
    }
    *length = 4;
    return (at[0] & 0x07u) << 18 | (at[1] & 0x3fu) << 12 | (at[2] & 0x3fu) << 6 | (at[3] & 0x3fu);
}

/* The length of a character from its first byte. */
static inline int plm__unicode_length(char first)
{
    unsigned char byte = (unsigned char)first;
    return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/* The character that ends at bytes[end], 0 < end; its start goes into *start. */
uint32_t plm__unicode_before(const char *bytes, int64_t end, int64_t *start);

/* Writes a character as UTF-8; returns its length. */
int plm__unicode_put(uint32_t point, char bytes[4]);

/*
 * Whether `count` bytes are well-formed UTF-8: -1, or the place of the first byte that is not.
 * *has_young becomes whether one of the characters is PLM_KIND_YOUNG.
 */
int64_t plm__unicode_check(const char *bytes, int64_t count, bool *has_young);

/* The lower case of a character, 1 or 2 points; returns how many. */
int plm__unicode_lower_case(uint32_t point, uint32_t lower[2]);

/* Classes of characters. */
bool plm__unicode_is_space(uint32_t point);
bool plm__unicode_is_punctuation(uint32_t point);
bool plm__unicode_is_numeric(uint32_t point);
bool plm__unicode_is_word(uint32_t point);
bool plm__unicode_is_ideograph(uint32_t point); /* what BERT's normalizer sets apart */

/*
 * A character of the same length that an old table of categories puts where the new one puts this:
 * for a PCRE2 of Unicode 14 or newer. Of scripts only Han is kept.
 */
uint32_t plm__unicode_elder(uint32_t point);

#endif
