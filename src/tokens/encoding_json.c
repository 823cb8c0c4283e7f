/* SPDX-License-Identifier: MIT */
/* An encoding as JSON, written straight: a text may have millions of tokens. */
#include "base/text.h"
#include "plimsoll/tokenizer.h"

static void add_string(plm_text *line, const char *text, size_t count)
{
    size_t plain = 0;
    plm__text_add_bytes(line, "\"", 1);
    for (size_t i = 0; i < count; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= ' ' && c != '"' && c != '\\' && c != 0x7f)
            continue;
        plm__text_add_bytes(line, text + plain, (int64_t)(i - plain));
        plm__text_add(line, "\\u%04x", c);
        plain = i + 1;
    }
    plm__text_add_bytes(line, text + plain, (int64_t)(count - plain));
    plm__text_add_bytes(line, "\"", 1);
}

static void add_number(plm_text *line, uint64_t number)
{
    char digits[24];
    int at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    plm__text_add_bytes(line, digits + at, (int64_t)sizeof digits - at);
}

static void add_pieces(plm_text *line, const plm_encoding *encoding)
{
    plm__text_add(line, ",\"pieces\":[");
    for (int64_t i = 0; i < encoding->count; i++) {
        if (i > 0)
            plm__text_add_bytes(line, ",", 1);
        add_string(line, encoding->pieces[i].text, encoding->pieces[i].byte_count);
    }
    plm__text_add(line, "],\"offsets\":[");
    for (int64_t i = 0; i < encoding->count; i++) {
        plm__text_add_bytes(line, i > 0 ? ",[" : "[", i > 0 ? 2 : 1);
        add_number(line, encoding->pieces[i].start);
        plm__text_add_bytes(line, ",", 1);
        add_number(line, encoding->pieces[i].end);
        plm__text_add_bytes(line, "]", 1);
    }
    plm__text_add(line, "]");
}

static plm_status hand_over(plm_text *text, char **line)
{
    plm_status status = plm__text_status(text);
    if (status == PLM_OK)
        *line = text->items;
    else
        plm__text_fini(text);
    return status;
}

plm_status plm_encoding_json(const plm_encoding *encoding, char **line)
{
    plm_text text = {0};
    plm__text_add(&text, "{\"ids\":[");
    for (int64_t i = 0; i < encoding->count; i++) {
        if (i > 0)
            plm__text_add_bytes(&text, ",", 1);
        add_number(&text, (uint64_t)encoding->ids[i]);
    }
    plm__text_add(&text, "]");
    if (encoding->pieces)
        add_pieces(&text, encoding);
    plm__text_add(&text, "}");
    return hand_over(&text, line);
}

plm_status plm_decoded_json(const char *text, size_t byte_count, char **line)
{
    plm_text made = {0};
    plm__text_add(&made, "{\"text\":");
    add_string(&made, text, byte_count);
    plm__text_add(&made, "}");
    return hand_over(&made, line);
}
