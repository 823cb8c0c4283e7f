/* SPDX-License-Identifier: MIT */
/* Reading UTF-8, and putting U+FFFD where there is none. */
#include "base/utf8.h"

#include <string.h>

/* The length that the first byte of a sequence announces, 0 when it begins none. */
static int announced_length(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

int plm__utf8_decode(const char *bytes, int64_t count, uint32_t *point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)bytes;
    int length = announced_length(at[0]);
    if (length == 0 || length > count)
        return 0;
    uint32_t value = length == 1 ? at[0] : at[0] & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (at[i] & 0x3f);
    }
    if (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 0;
    if (point)
        *point = value;
    return length;
}

bool plm__utf8_is_valid(const char *text)
{
    for (int64_t left = (int64_t)strlen(text); left > 0;) {
        int length = plm__utf8_decode(text, left, NULL);
        if (length == 0)
            return false;
        text += length;
        left -= length;
    }
    return true;
}

void plm__utf8_add_clean(plm_text *text, const char *bytes, int64_t count)
{
    int64_t clean = 0; /* well-formed bytes not yet appended, before `i` */
    for (int64_t i = 0; i < count;) {
        int good = bytes[i] == '\0' ? 0 : plm__utf8_decode(bytes + i, count - i, NULL);
        clean += good;
        i += good ? good : 1;
        if (good == 0) {
            plm__text_add_bytes(text, bytes + i - 1 - clean, clean);
            plm__text_add_bytes(text, "\xef\xbf\xbd", 3);
            clean = 0;
        }
    }
    plm__text_add_bytes(text, bytes + count - clean, clean);
}
