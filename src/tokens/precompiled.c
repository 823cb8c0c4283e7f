/* SPDX-License-Identifier: MIT */
/*
 * As the reference does it, down to what it does strangely: a grapheme of less than six bytes is
 * looked up whole, and the shortest entry that it begins with replaces all of it; otherwise each of
 * its characters is looked up.
 */
#include "tokens/precompiled.h"

#include <string.h>

#include "tokens/normal_form.h"
#include "tokens/unicode.h"

enum { GRAPHEME_BELOW = 6, UNIT_BYTES = 4 };

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static plm_status decode_base64(const plm_part *part, const json_t *value, plm_precompiled *p)
{
    const char *text = json_string_value(value);
    size_t count = json_string_length(value);
    while (count > 0 && text[count - 1] == '=')
        count--;
    PLM_TRY(plm__host_alloc(count / 4 * 3 + 4, &p->bytes));
    uint32_t bits = 0;
    int held = 0;
    for (size_t i = 0; i < count; i++) {
        int digit = base64_digit(text[i]);
        if (digit < 0)
            return plm__part_refuse(part, "precompiled_charsmap", "base64", value);
        bits = bits << 6 | (uint32_t)digit;
        held += 6;
        if (held >= 8) {
            held -= 8;
            p->bytes[p->byte_count++] = (uint8_t)(bits >> held);
        }
    }
    return PLM_OK;
}

static uint32_t little(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

plm_status plm__precompiled_read(const plm_part *part, plm_precompiled *precompiled)
{
    plm_precompiled *p = precompiled;
    const json_t *value = json_object_get(part->object, "precompiled_charsmap");
    if (!json_is_string(value))
        return plm__part_refuse(part, "precompiled_charsmap", "base64", value);
    PLM_TRY(decode_base64(part, value, p));
    uint32_t array_bytes = p->byte_count >= UNIT_BYTES ? little(p->bytes) : UINT32_MAX;
    if (array_bytes % UNIT_BYTES != 0 || array_bytes < UNIT_BYTES ||
        array_bytes > p->byte_count - UNIT_BYTES || p->bytes[p->byte_count - 1] != 0)
        return plm__part_refuse(part, "precompiled_charsmap",
                                "a double array and texts that end with NUL", value);
    p->unit_count = array_bytes / UNIT_BYTES;
    p->texts = (const char *)p->bytes + UNIT_BYTES + array_bytes;
    p->text_count = p->byte_count - UNIT_BYTES - array_bytes;
    return PLM_OK;
}

void plm__precompiled_fini(plm_precompiled *precompiled)
{
    plm__host_free(precompiled->bytes);
    memset(precompiled, 0, sizeof *precompiled);
}

static bool unit_at(const plm_precompiled *p, uint64_t place, uint32_t *unit)
{
    if (place >= (uint64_t)p->unit_count)
        return false;
    *unit = little(p->bytes + UNIT_BYTES + UNIT_BYTES * place);
    return true;
}

static uint64_t offset_of(uint32_t unit)
{
    return (uint64_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* The replacement of the shortest entry that these bytes begin with; NULL: there is none. */
static const char *look_up(const plm_precompiled *p, const char *bytes, int64_t count)
{
    uint32_t unit, leaf;
    if (!unit_at(p, 0, &unit))
        return NULL;
    uint64_t place = offset_of(unit);
    for (int64_t i = 0; i < count && bytes[i]; i++) {
        uint8_t byte = (uint8_t)bytes[i];
        place ^= byte;
        if (!unit_at(p, place, &unit) || (unit & (1u << 31 | 0xffu)) != byte)
            return NULL;
        place ^= offset_of(unit);
        if ((unit >> 8 & 1) == 0)
            continue;
        if (!unit_at(p, place, &leaf))
            return NULL;
        uint32_t text = leaf & ~(1u << 31);
        return text < (uint64_t)p->text_count ? p->texts + text : NULL;
    }
    return NULL;
}

typedef struct output {
    const plm_passage *in;
    plm_passage *out;
    int64_t copied; /* of `in`, up to here */
} output;

/* Replaces a span when it has an entry. */
static bool replace(const plm_precompiled *p, output *o, plm_span span)
{
    const char *text = look_up(p, o->in->bytes + span.start, span.end - span.start);
    if (!text)
        return false;
    plm__passage_copy(o->out, o->in, (plm_span){o->copied, span.start});
    plm__passage_replace(o->out, o->in, span, text, (int64_t)strlen(text));
    o->copied = span.end;
    return true;
}

plm_status plm__precompiled_apply(const plm_precompiled *precompiled, const plm_passage *in,
                                  plm_passage *out)
{
    output o = {.in = in, .out = out};
    int64_t end;
    for (int64_t at = 0; at < in->count; at = end) {
        end = plm__grapheme_end(in->bytes, at, in->count);
        if (end - at < GRAPHEME_BELOW && replace(precompiled, &o, (plm_span){at, end}))
            continue;
        for (int64_t i = at; i < end;) {
            int length = plm__unicode_length(in->bytes[i]);
            replace(precompiled, &o, (plm_span){i, i + length});
            i += length;
        }
    }
    plm__passage_copy(out, in, (plm_span){o.copied, in->count});
    return plm__passage_status(out);
}
