/* SPDX-License-Identifier: MIT */
/* JSON texts (RFC 8259) and well-formed UTF-8 (Unicode, table 3-7). */
#include "report/escape.h"

#include <string.h>

/* One row a form: leading bytes, bounds of the second byte, length. */
static const struct {
    uint8_t lead_low, lead_high, second_low, second_high;
    int length;
} utf8_forms[] = {
    {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
    {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
    {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
};

int plm_utf8_length(const char *bytes, int64_t count)
{
    const uint8_t *at = (const uint8_t *)bytes;
    if (at[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof utf8_forms / sizeof *utf8_forms; i++) {
        if (at[0] < utf8_forms[i].lead_low || at[0] > utf8_forms[i].lead_high)
            continue;
        int length = utf8_forms[i].length;
        if (length > count || at[1] < utf8_forms[i].second_low || at[1] > utf8_forms[i].second_high)
            return 0;
        for (int k = 2; k < length; k++)
            if (at[k] < 0x80 || at[k] > 0xBF)
                return 0;
        return length;
    }
    return 0;
}

/* A byte that cannot stand in a JSON text of ours as it is. */
static bool is_special(uint8_t byte)
{
    return byte < 0x20 || byte == 0x7F || byte == '"' || byte == '\\' || byte == '<';
}

void plm_escape_add_bytes(plm_text *out, const char *bytes, int64_t count)
{
    plm_text_add_bytes(out, "\"", 1);
    int64_t plain = 0; /* bytes before `i` that are not yet written */
    for (int64_t i = 0; i < count;) {
        int length = plm_utf8_length(bytes + i, count - i);
        if (length > 0 && !is_special((uint8_t)bytes[i])) {
            i += length;
            plain += length;
            continue;
        }
        plm_text_add_bytes(out, bytes + i - plain, plain);
        plain = 0;
        plm_text_add(out, "\\u%04x", length > 0 ? (unsigned)(uint8_t)bytes[i] : 0xFFFDu);
        i++;
    }
    if (plain > 0)
        plm_text_add_bytes(out, bytes + count - plain, plain);
    plm_text_add_bytes(out, "\"", 1);
}

void plm_escape_add(plm_text *out, const char *text)
{
    plm_escape_add_bytes(out, text, (int64_t)strlen(text));
}
