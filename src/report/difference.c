/* SPDX-License-Identifier: MIT */
/* What changed from one snapshot to another: totals, and the sites that hold more or less. */
#include <stdio.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "plimsoll/size.h"
#include "report/snapshot_internal.h"

/* One line of the comparison. */
typedef struct change {
    char name[PLM_CALL_SITE_TEXT];
    size_t before, after;
} change;

typedef PLM_ARRAY(change) change_list;

static int64_t growth(const change *item)
{
    return (int64_t)item->after - (int64_t)item->before;
}

static int largest_first(const void *left, const void *right)
{
    int64_t a = growth(left), b = growth(right);
    uint64_t size_a = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
    uint64_t size_b = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    if (size_a != size_b)
        return size_a < size_b ? 1 : -1;
    return strcmp(((const change *)left)->name, ((const change *)right)->name);
}

static int by_name(const void *left, const void *right)
{
    return strcmp(((const change *)left)->name, ((const change *)right)->name);
}

static plm_status add_sites(const plm_findings *findings, bool is_after, change_list *changes)
{
    for (int64_t i = 0; i < findings->site_count; i++) {
        change item = {.before = is_after ? 0 : findings->sites[i].peak_bytes,
                       .after = is_after ? findings->sites[i].peak_bytes : 0};
        plm_call_site_text(findings, i, item.name);
        PLM_TRY(PLM_ARRAY_PUSH(changes, item));
    }
    return PLM_OK;
}

/* *changes = the sites of both by name, those that differ, the largest difference first. */
static plm_status compare_sites(const plm_findings *before, const plm_findings *after,
                                change_list *changes)
{
    plm_status status = add_sites(before, false, changes);
    if (status == PLM_OK)
        status = add_sites(after, true, changes);
    if (status != PLM_OK) {
        PLM_ARRAY_FREE(changes);
        return status;
    }
    PLM_ARRAY_SORT(changes, by_name);
    int64_t kept = 0;
    for (int64_t i = 0; i < changes->count; i++) {
        if (kept > 0 && strcmp(changes->items[kept - 1].name, changes->items[i].name) == 0) {
            changes->items[kept - 1].before += changes->items[i].before;
            changes->items[kept - 1].after += changes->items[i].after;
        } else {
            changes->items[kept++] = changes->items[i];
        }
    }
    changes->count = 0;
    for (int64_t i = 0; i < kept; i++)
        if (growth(&changes->items[i]) != 0)
            changes->items[changes->count++] = changes->items[i];
    PLM_ARRAY_SORT(changes, largest_first);
    return PLM_OK;
}

enum { TOTALS = 5 };

static void list_totals(const plm_findings *before, const plm_findings *after,
                        change totals[TOTALS])
{
    static const char *const names[TOTALS] = {"allocated", "reserved", "cached, pinned",
                                              "allocated peak", "reserved peak"};
    const plm_findings *both[2] = {before, after};
    for (int i = 0; i < TOTALS; i++)
        snprintf(totals[i].name, sizeof totals[i].name, "%s", names[i]);
    for (int side = 0; side < 2; side++) {
        const size_t bytes[TOTALS] = {
            both[side]->device->allocated_bytes, both[side]->device->reserved_bytes,
            both[side]->fragments.pinned_bytes, both[side]->allocated_peak_bytes,
            both[side]->reserved_peak_bytes};
        for (int i = 0; i < TOTALS; i++)
            *(side ? &totals[i].after : &totals[i].before) = bytes[i];
    }
}

static void add_change(const plm_page *page, plm_table *table, const change *item)
{
    char text[PLM_SIZE_TEXT];
    int64_t more = growth(item);
    plm__table_row(table, PLM_TABLE_PLAIN);
    plm__page_cut_cell(table, item->name, page->columns - 46);
    plm__page_size_cell(table, item->before);
    plm__page_size_cell(table, item->after);
    plm__table_cell(table, "%s%s",
                    more > 0   ? "+"
                    : more < 0 ? "-"
                               : "",
                    plm_size_format((size_t)(more < 0 ? -more : more), text));
}

plm_status plm_report_difference_text(const plm_rank *before, const plm_rank *after,
                                      plm_report_style style, char **text)
{
    static const plm_table_column columns[] = {
        {.title = "at the peak, by line"},
        {.title = "before", .right = true},
        {.title = "after", .right = true},
        {.title = "change", .right = true},
    };
    plm_table_column total_columns[] = {columns[0], columns[1], columns[2], columns[3]};
    change totals[TOTALS];
    change_list changes = {0};
    plm_table table;
    plm_page page = plm__page_begin(style);
    total_columns[0].title = "in all";
    PLM_TRY(compare_sites(before->findings, after->findings, &changes));
    plm__page_heading(&page, "%s to %s", before->name, after->name);
    plm__page_gap(&page);
    list_totals(before->findings, after->findings, totals);
    plm__table_init(&table, total_columns, 4);
    for (int i = 0; i < TOTALS; i++)
        add_change(&page, &table, &totals[i]);
    plm__page_section(&page, &table);
    plm__table_init(&table, columns, 4);
    for (int64_t i = 0; i < changes.count && i < page.rows; i++)
        add_change(&page, &table, &changes.items[i]);
    if (changes.count > 0)
        plm__page_table(&page, &table);
    else
        plm__table_fini(&table);
    PLM_ARRAY_FREE(&changes);
    return plm__page_end(&page, text);
}

plm_status plm_report_difference_json(const plm_rank *before, const plm_rank *after, char **line)
{
    static const char *const keys[TOTALS] = {"allocated_bytes", "reserved_bytes", "pinned_bytes",
                                             "allocated_peak_bytes", "reserved_peak_bytes"};
    change totals[TOTALS];
    change_list changes = {0};
    plm_json_writer json = {0};
    PLM_TRY(compare_sites(before->findings, after->findings, &changes));
    list_totals(before->findings, after->findings, totals);
    plm__json_begin_object(&json, NULL);
    plm__json_text(&json, "before", before->name);
    plm__json_text(&json, "after", after->name);
    for (int i = 0; i < TOTALS; i++) {
        plm__json_begin_object(&json, keys[i]);
        plm__json_bytes(&json, "before", totals[i].before);
        plm__json_bytes(&json, "after", totals[i].after);
        plm__json_end(&json);
    }
    plm__json_begin_array(&json, "sites");
    for (int64_t i = 0; i < changes.count; i++) {
        plm__json_begin_object(&json, NULL);
        plm__json_text(&json, "site", changes.items[i].name);
        plm__json_bytes(&json, "before", changes.items[i].before);
        plm__json_bytes(&json, "after", changes.items[i].after);
        plm__json_end(&json);
    }
    PLM_ARRAY_FREE(&changes);
    return plm__json_finish(&json, line);
}
