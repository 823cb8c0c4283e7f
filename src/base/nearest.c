/* SPDX-License-Identifier: MIT */
/*
 * Nearness of words: the restricted edit distance of Damerau, by dynamic programming over three
 * rows, because a swap looks two rows back.
 */
#include "plimsoll/nearest.h"

#include <string.h>

enum { ROW = PLM_NEAREST_LETTERS_MAX + 1 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Both words fit PLM_NEAREST_LETTERS_MAX. */
static int edit_distance(const char *a, int a_count, const char *b, int b_count)
{
    int rows[3][ROW];
    for (int j = 0; j <= b_count; j++)
        rows[0][j] = j;
    for (int i = 1; i <= a_count; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= b_count; j++) {
            int changed = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least(changed, 1 + least(above[j], row[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[a_count % 3][b_count];
}

void plm_nearest_offer(plm_nearest *nearest, const char *name)
{
    size_t word_count = strlen(nearest->word), name_count = strlen(name);
    if (word_count > PLM_NEAREST_LETTERS_MAX || name_count > PLM_NEAREST_LETTERS_MAX)
        return;
    int longer = (int)(word_count > name_count ? word_count : name_count);
    int distance = edit_distance(nearest->word, (int)word_count, name, (int)name_count);
    if (3 * distance > longer || (nearest->name && distance >= nearest->distance))
        return;
    nearest->name = name;
    nearest->distance = distance;
}
