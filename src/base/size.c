/* SPDX-License-Identifier: MIT */
/* Sizes: checked arithmetic, reading and writing. */
#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"

/* A number without a unit is bytes from here on; below, a person left the unit out. */
#define BARE_BYTES_MIN 0x1p20

static const struct {
    const char *name;
    double bytes;
} units[] = {
    {"", 1.0},     {"b", 1.0},      {"k", 0x1p10},   {"m", 0x1p20},   {"g", 0x1p30},
    {"t", 0x1p40}, {"kib", 0x1p10}, {"mib", 0x1p20}, {"gib", 0x1p30}, {"tib", 0x1p40},
    {"kb", 1e3},   {"mb", 1e6},     {"gb", 1e9},     {"tb", 1e12},
};

plm_status plm__mul_bytes(size_t a, size_t b, size_t *product)
{
    PLM_FAIL_IF(a != 0 && b > SIZE_MAX / a, PLM_ERROR_OVERFLOW,
                "a size overflows: %zu times %zu bytes; use smaller dimensions", a, b);
    *product = a * b;
    return PLM_OK;
}

plm_status plm__add_bytes(size_t a, size_t b, size_t *sum)
{
    PLM_FAIL_IF(b > SIZE_MAX - a, PLM_ERROR_OVERFLOW,
                "a size overflows: %zu plus %zu bytes; use smaller dimensions", a, b);
    *sum = a + b;
    return PLM_OK;
}

plm_status plm__round_up_bytes(size_t bytes, size_t unit, size_t *rounded)
{
    size_t sum;
    PLM_TRY(plm__add_bytes(bytes, unit - 1, &sum));
    *rounded = sum & ~(unit - 1);
    return PLM_OK;
}

static plm_status parse_failed(const char *text)
{
    return plm_fail(PLM_ERROR_ARGUMENT,
                    "wanted a size such as 512MiB, 12GiB or 12GB, found '%.40s'", text);
}

plm_status plm_size_parse(const char *text, size_t *bytes)
{
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return parse_failed(text);
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        return parse_failed(text);
    double number = plm__number_read(text, &end);
    while (*end == ' ')
        end++;
    double unit = 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(end, units[i].name) == 0)
            unit = units[i].bytes;
    if (unit == 0 || !isfinite(number))
        return parse_failed(text);
    double value = number * unit;
    PLM_FAIL_IF(end[0] == '\0' && value >= 1 && value < BARE_BYTES_MIN, PLM_ERROR_ARGUMENT,
                "wanted a size with its unit, found '%.40s': is it %.40sGiB, %.40sMiB or %.40sB?",
                text, text, text, text);
    PLM_FAIL_IF(value < 1, PLM_ERROR_ARGUMENT, "wanted a size of at least one byte, found '%.40s'",
                text);
    PLM_FAIL_IF(value >= 0x1p63, PLM_ERROR_OVERFLOW,
                "the size '%.40s' is beyond what can be counted", text);
    *bytes = (size_t)value;
    return PLM_OK;
}

const char *plm_size_format(size_t bytes, char text[PLM_SIZE_TEXT])
{
    double value = (double)bytes;
    if (bytes < 1024)
        plm__print(text, PLM_SIZE_TEXT, "%zu B", bytes);
    else if (value < 0x1p20)
        plm__print(text, PLM_SIZE_TEXT, "%.1f KiB", value / 0x1p10);
    else if (value < 0x1p30)
        plm__print(text, PLM_SIZE_TEXT, "%.1f MiB", value / 0x1p20);
    else
        plm__print(text, PLM_SIZE_TEXT, "%.2f GiB", value / 0x1p30);
    return text;
}
