/* SPDX-License-Identifier: MIT */
/* Snapshots as pages: one device, several ranks, or what changed between two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "plimsoll/size.h"
#include "report/snapshot_internal.h"

enum { RANKS_COMPARED_MAX = 4096 };

plm_odd_rank plm__odd_rank(const plm_rank *ranks, int64_t count)
{
    static const plm_odd_rank none = {.odd = -1, .reference = -1, .place = -1};
    const plm_findings **list = NULL;
    if (count < 2 || count > RANKS_COMPARED_MAX ||
        plm__host_alloc((size_t)count * sizeof *list, &list) != PLM_OK)
        return none;
    for (int64_t i = 0; i < count; i++)
        list[i] = ranks[i].findings;
    plm_odd_rank odd = plm_find_odd_rank(list, count);
    plm__host_free(list);
    return odd;
}

static void add_ranks(plm_page *page, const plm_rank *ranks, int64_t count, int64_t odd)
{
    static const plm_table_column columns[] = {
        {.title = "rank", .right = true},
        {.title = "device", .right = true},
        {.title = "allocated peak", .right = true},
        {.title = "reserved peak", .right = true},
        {.title = "reserved", .right = true},
        {.title = "verdict"},
        {.title = "file"},
    };
    plm_table table;
    plm__table_init(&table, columns, sizeof columns / sizeof *columns);
    for (int64_t i = 0; i < count; i++) {
        const plm_findings *findings = ranks[i].findings;
        plm__table_row(&table, i == odd ? PLM_TABLE_BOLD : PLM_TABLE_PLAIN);
        plm__table_cell(&table, "%lld", (long long)ranks[i].rank);
        plm__table_cell(&table, "%d", (int)findings->device->device);
        if (findings->allocated_peak_bytes > 0) {
            plm__page_size_cell(&table, findings->allocated_peak_bytes);
            plm__page_size_cell(&table, findings->reserved_peak_bytes);
        } else {
            plm__table_cell(&table, "%s", "not known");
            plm__table_cell(&table, "%s", "not known");
        }
        plm__page_size_cell(&table, findings->device->reserved_bytes);
        plm__table_cell(&table, "%s", plm_verdict_title(findings->verdict));
        plm__page_cut_cell(&table, ranks[i].name, page->columns - 76);
    }
    plm__page_section(page, &table);
}

static void say_odd(plm_page *page, const plm_rank *ranks, const plm_odd_rank *odd)
{
    char bytes[PLM_SIZE_TEXT], other[PLM_SIZE_TEXT], site[PLM_CALL_SITE_TEXT];
    if (odd->odd < 0) {
        plm__page_say(page, 0, "The ranks agree: their peaks differ by less than 2 %%.");
        plm__page_gap(page);
        return;
    }
    const plm_rank *rank = &ranks[odd->odd];
    plm__page_say(page, 0, "Rank %lld is the odd one: it peaks at %s, rank %lld at %s.",
                  (long long)rank->rank, plm_size_format(odd->odd_bytes, bytes),
                  (long long)ranks[odd->reference].rank,
                  plm_size_format(odd->reference_bytes, other));
    if (odd->place >= 0)
        plm__page_say(page, 0, "The largest difference is at %s: %s here, %s there.",
                      plm_call_site_text(rank->findings, odd->place, site),
                      plm_size_format(odd->site_bytes, bytes),
                      plm_size_format(odd->site_reference_bytes, other));
    if (odd->sites_larger >= 3 && odd->sites_larger > 4 * odd->sites_smaller)
        plm__page_say(page, 0,
                      "%lld of its lines hold more, %.2f to %.2f times as much, and %lld less: a "
                      "larger batch or longer sequences.",
                      (long long)odd->sites_larger, odd->least_factor, odd->most_factor,
                      (long long)odd->sites_smaller);
    plm__page_gap(page);
}

plm_status plm_report_snapshot_text(const plm_rank *ranks, int64_t count, plm_report_style style,
                                    char **text)
{
    plm_page page = plm__page_begin(style);
    if (count > 1) {
        plm_odd_rank odd = plm__odd_rank(ranks, count);
        add_ranks(&page, ranks, count, odd.odd);
        say_odd(&page, ranks, &odd);
        plm__snapshot_page(&page, &ranks[odd.odd >= 0 ? odd.odd : 0]);
    } else if (count == 1) {
        plm__snapshot_page(&page, &ranks[0]);
    }
    return plm__page_end(&page, text);
}
