/* SPDX-License-Identifier: MIT */
/* UTF-8 as Unicode defines it: shortest forms only, no surrogates, nothing above U+10FFFF. */
#include "torch/clean.h"

/* Bytes of the well-formed character at `at`, 0 when there is none. */
static int64_t character_bytes(const uint8_t *at, int64_t left)
{
    static const struct {
        uint8_t first, last; /* lead bytes of this row */
        uint8_t second_first, second_last;
        uint8_t bytes;
    } rows[] = {{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
                {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
                {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
                {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    if (*at < 0x80)
        return *at != 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (*at < rows[i].first || *at > rows[i].last)
            continue;
        if (left < rows[i].bytes || at[1] < rows[i].second_first || at[1] > rows[i].second_last)
            return 0;
        for (int64_t k = 2; k < rows[i].bytes; k++)
            if ((at[k] & 0xc0) != 0x80)
                return 0;
        return rows[i].bytes;
    }
    return 0;
}

void plm_clean_add(plm_text *text, const char *bytes, int64_t count)
{
    int64_t clean = 0; /* well-formed bytes not yet appended, before `i` */
    for (int64_t i = 0; i < count;) {
        int64_t good = character_bytes((const uint8_t *)bytes + i, count - i);
        clean += good;
        i += good ? good : 1;
        if (good == 0) {
            plm_text_add_bytes(text, bytes + i - 1 - clean, clean);
            plm_text_add_bytes(text, "\xef\xbf\xbd", 3);
            clean = 0;
        }
    }
    plm_text_add_bytes(text, bytes + count - clean, clean);
}
