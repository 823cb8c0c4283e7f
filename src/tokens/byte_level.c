/* SPDX-License-Identifier: MIT */
/* The bytes that have no character of their own are counted in order. */
#include "tokens/byte_level.h"

#include <stdbool.h>

/* Below 0x21, 0x7f to 0xa0, and 0xad. */
enum { LOW = 0x21, MIDDLE = 0x7f, HIGH = 0xa1, SOFT_HYPHEN = 0xad, FIRST = 0x100 };

static bool is_itself(uint32_t byte)
{
    return (byte >= LOW && byte < MIDDLE) || (byte >= HIGH && byte != SOFT_HYPHEN);
}

uint32_t plm__byte_level_point(uint8_t byte)
{
    if (is_itself(byte))
        return byte;
    if (byte < LOW)
        return FIRST + byte;
    return byte == SOFT_HYPHEN ? FIRST + LOW + HIGH - MIDDLE : FIRST + LOW + byte - MIDDLE;
}

int plm__byte_level_byte(uint32_t point)
{
    if (point < FIRST)
        return is_itself(point) ? (int)point : -1;
    uint32_t place = point - FIRST;
    if (place < LOW)
        return (int)place;
    if (place < LOW + HIGH - MIDDLE)
        return (int)(place - LOW + MIDDLE);
    return place == LOW + HIGH - MIDDLE ? SOFT_HYPHEN : -1;
}
