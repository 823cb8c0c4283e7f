/* SPDX-License-Identifier: MIT */
/* JSON texts (RFC 8259). */
#include "report/escape.h"

#include <string.h>

#include "base/utf8.h"

/* A byte that cannot stand in a JSON text of ours as it is. */
static bool is_special(uint8_t byte)
{
    return byte < 0x20 || byte == 0x7F || byte == '"' || byte == '\\' || byte == '<';
}

void plm__escape_add_bytes(plm_text *out, const char *bytes, int64_t count)
{
    plm__text_add_bytes(out, "\"", 1);
    int64_t plain = 0; /* bytes before `i` that are not yet written */
    for (int64_t i = 0; i < count;) {
        int length = plm__utf8_decode(bytes + i, count - i, NULL);
        if (length > 0 && !is_special((uint8_t)bytes[i])) {
            i += length;
            plain += length;
            continue;
        }
        plm__text_add_bytes(out, bytes + i - plain, plain);
        plain = 0;
        plm__text_add(out, "\\u%04x", length > 0 ? (unsigned)(uint8_t)bytes[i] : 0xFFFDu);
        i++;
    }
    if (plain > 0)
        plm__text_add_bytes(out, bytes + count - plain, plain);
    plm__text_add_bytes(out, "\"", 1);
}

void plm__escape_add(plm_text *out, const char *text)
{
    plm__escape_add_bytes(out, text, (int64_t)strlen(text));
}
