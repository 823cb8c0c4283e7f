/* SPDX-License-Identifier: MIT */
/* Ranges in an array that is sorted by address. Adding moves what lies above: 40 bytes a range, a
 * few microseconds among thousands. */
#include "phantom/ranges.h"

#include "phantom/phantom.h"
#include "phantom/process.h"

#include <string.h>

/* How many ranges start at or below `address`. */
static int count_up_to(const struct plm_ranges *ranges, uintptr_t address)
{
    int low = 0, high = ranges->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (ranges->items[middle].address > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void plm__ranges_add(struct plm_ranges *ranges, struct plm_range range)
{
    if (!ranges->items)
        ranges->items = plm__phantom_table(PLM_PHANTOM_MAX_RANGES * sizeof *ranges->items);
    if (ranges->count == PLM_PHANTOM_MAX_RANGES)
        plm__phantom_stop("wanted at most %d stretches of memory at once, found more",
                          PLM_PHANTOM_MAX_RANGES);
    int at = count_up_to(ranges, range.address);
    size_t after = (size_t)(ranges->count - at);
    memmove(ranges->items + at + 1, ranges->items + at, after * sizeof range);
    ranges->items[at] = range;
    ranges->count++;
}

struct plm_range *plm__ranges_find(const struct plm_ranges *ranges, uintptr_t address)
{
    int count = count_up_to(ranges, address);
    if (count == 0)
        return NULL;
    struct plm_range *range = &ranges->items[count - 1];
    return address - range->address < range->bytes ? range : NULL;
}

void plm__ranges_remove(struct plm_ranges *ranges, struct plm_range *range)
{
    size_t after = (size_t)(ranges->items + ranges->count - (range + 1));
    memmove(range, range + 1, after * sizeof *range);
    ranges->count--;
}
