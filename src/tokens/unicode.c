/* SPDX-License-Identifier: MIT */
/* Looks characters up in the tables of unicode_table.c. */
#include "tokens/unicode.h"

#include <string.h>

#include "base/utf8.h"
#include "tokens/unicode_internal.h"

uint32_t plm__unicode_kind(uint32_t point)
{
    if (point >= PLM_UNICODE_POINTS)
        return PLM_CATEGORY_CN;
    int block = plm__unicode_blocks[point / PLM_UNICODE_BLOCK];
    return plm__unicode_kinds[plm__unicode_points[block][point % PLM_UNICODE_BLOCK]];
}

uint32_t plm__unicode_before(const char *bytes, int64_t end, int64_t *start)
{
    int length;
    int64_t at = end - 1;
    while (((unsigned char)bytes[at] & 0xc0) == 0x80)
        at--;
    *start = at;
    return plm__unicode_next(bytes + at, &length);
}

int plm__unicode_put(uint32_t point, char bytes[4])
{
    if (point < 0x80) {
        bytes[0] = (char)point;
        return 1;
    }
    int length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, point >>= 6)
        bytes[i] = (char)(0x80 | (point & 0x3f));
    bytes[0] = (char)(0xf00u >> length | point);
    return length;
}

/* How many of the bytes from `at` on are ASCII, a multiple of 8. */
static int64_t ascii_ahead(const char *bytes, int64_t at, int64_t count)
{
    int64_t start = at;
    for (uint64_t eight; at + 8 <= count; at += 8) {
        memcpy(&eight, bytes + at, sizeof eight);
        if (eight & 0x8080808080808080u)
            break;
    }
    return at - start;
}

int64_t plm__unicode_check(const char *bytes, int64_t count, bool *has_young)
{
    *has_young = false;
    for (int64_t at = 0; at < count;) {
        if ((unsigned char)bytes[at] < 0x80) {
            int64_t ahead = ascii_ahead(bytes, at, count);
            at += ahead ? ahead : 1;
            continue;
        }
        uint32_t point = 0;
        int length = plm__utf8_decode(bytes + at, count - at, &point);
        if (length == 0)
            return at;
        if (length > 2 && plm__unicode_kind(point) & PLM_KIND_YOUNG)
            *has_young = true;
        at += length;
    }
    return -1;
}

int plm__unicode_lower_case(uint32_t point, uint32_t lower[2])
{
    lower[0] = point;
    if (point < 0x80) {
        lower[0] += point >= 'A' && point <= 'Z' ? 'a' - 'A' : 0;
        return 1;
    }
    if (point == 0x130) { /* the one whose lower case is two: i and a dot above */
        lower[0] = 'i';
        lower[1] = 0x307;
        return 2;
    }
    int low = 0, high = plm__unicode_lower_count; /* the last run that begins at or before */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        *(plm__unicode_lower[middle].first <= point ? &low : &high) = middle;
    }
    const plm_unicode_run *run = &plm__unicode_lower[low];
    if (point >= run->first && point <= run->last &&
        (point - run->first) % (uint32_t)run->step == 0)
        lower[0] = (uint32_t)((int32_t)point + run->distance);
    return 1;
}

bool plm__unicode_is_space(uint32_t point)
{
    return point == ' ' || (point >= 9 && point <= 13) || point == 0x85 || point == 0xa0 ||
           point == 0x1680 || (point >= 0x2000 && point <= 0x200a) || point == 0x2028 ||
           point == 0x2029 || point == 0x202f || point == 0x205f || point == 0x3000;
}

bool plm__unicode_is_punctuation(uint32_t point)
{
    return plm__unicode_kind(point) & PLM_KIND_PUNCTUATION;
}

bool plm__unicode_is_numeric(uint32_t point)
{
    return plm__unicode_kind(point) & PLM_KIND_NUMERIC;
}

bool plm__unicode_is_word(uint32_t point)
{
    return plm__unicode_kind(point) & PLM_KIND_WORD;
}

bool plm__unicode_is_ideograph(uint32_t point)
{
    static const uint32_t ranges[][2] = {
        {0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
        {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (point >= ranges[i][0] && point <= ranges[i][1])
            return true;
    return false;
}

uint32_t plm__unicode_elder(uint32_t point)
{
    /* By category: a character of three bytes and one of four, both older than Unicode 14. */
    static const uint32_t elders[PLM_CATEGORY_COUNT][2] = {
        [PLM_CATEGORY_LU] = {0xa640, 0x10400}, [PLM_CATEGORY_LL] = {0xa641, 0x10428},
        [PLM_CATEGORY_LM] = {0x1d2c, 0x16b40}, [PLM_CATEGORY_LO] = {0x0904, 0x10000},
        [PLM_CATEGORY_MN] = {0x0900, 0x101fd}, [PLM_CATEGORY_MC] = {0x0903, 0x11000},
        [PLM_CATEGORY_ND] = {0x0966, 0x104a0}, [PLM_CATEGORY_NO] = {0x2460, 0x10107},
        [PLM_CATEGORY_PD] = {0x2010, 0x10ead}, [PLM_CATEGORY_PO] = {0x2016, 0x10100},
        [PLM_CATEGORY_SM] = {0x2200, 0x1d6c1}, [PLM_CATEGORY_SO] = {0x2400, 0x1f000},
        [PLM_CATEGORY_CF] = {0x200b, 0x110bd},
    };
    bool is_han = (point >= 0x2b739 && point <= 0x2ee5d) || (point >= 0x31350 && point <= 0x323af);
    uint32_t elder = elders[plm__unicode_kind(point) & PLM_KIND_CATEGORY][point > 0xffff];
    return is_han ? 0x20000 : elder ? elder : point;
}
