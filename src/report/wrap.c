/* SPDX-License-Identifier: MIT */
/* Running text for a terminal. */
#include "report/wrap.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "report/table.h"

/* The length of the next word; a number and its unit are one. */
static int64_t word_bytes(const char *words)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "%"};
    size_t bytes = strcspn(words, " ");
    if (bytes == 0 || !isdigit((unsigned char)words[bytes - 1]) || words[bytes] == '\0')
        return (int64_t)bytes;
    const char *next = words + bytes + 1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t unit = strlen(units[i]);
        if (strncmp(next, units[i], unit) == 0 && !isalnum((unsigned char)next[unit]))
            return (int64_t)(bytes + 1 + strcspn(next, " "));
    }
    return (int64_t)bytes;
}

void plm__text_wrap(plm_text *out, const char *words, int64_t columns, int64_t indent)
{
    int64_t column = 0; /* 0: the line has not begun */
    for (words += strspn(words, " "); *words; words += strspn(words, " ")) {
        int64_t bytes = word_bytes(words);
        int64_t cells = plm__text_cells(words, bytes);
        if (column > 0 && column + 1 + cells > columns) {
            plm__text_add(out, "\n");
            column = 0;
        }
        plm__text_repeat(out, " ", column == 0 ? indent : 1);
        column += (column == 0 ? indent : 1) + cells;
        plm__text_add_bytes(out, words, bytes);
        words += bytes;
    }
    if (column > 0)
        plm__text_add(out, "\n");
}

void plm__text_list(plm_text *out, const char *item, int64_t index, int64_t count)
{
    const char *before = index == 0 ? "" : index + 1 == count ? " and " : ", ";
    plm__text_add(out, "%s%s", before, item);
}

void plm__text_count(plm_text *out, int64_t number)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64,
                          number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
    if (number < 0)
        plm__text_add(out, "-");
    for (int i = 0; i < length; i++)
        plm__text_add(out, "%s%c", i > 0 && (length - i) % 3 == 0 ? "," : "", digits[i]);
}
