/* SPDX-License-Identifier: MIT */
/* Replays as a table and as JSON. */
#include "base/json.h"
#include "plimsoll/report_torch.h"
#include "plimsoll/size.h"
#include "report/terminal.h"
#include "report/wrap.h"

static void say_head(plm_page *page, const plm_replay_report *report)
{
    const plm_snapshot_history *history = &report->device->history;
    char size[PLM_SIZE_TEXT];
    plm_text count = {0};
    plm__text_count(&count, report->device->trace_entries);
    plm__page_heading(page, "%s, device %d", report->name, (int)report->device->device);
    plm__page_say(page, 0, "%s events replayed; %s", count.items ? count.items : "",
                  report->capacity_bytes ? "memory up to" : "memory without a limit");
    plm__text_fini(&count);
    if (report->capacity_bytes > 0) {
        page->text.count--; /* the end of the line: it goes on */
        plm__text_add(&page->text, " %s\n", plm_size_format(report->capacity_bytes, size));
    }
    if (history->older_blocks > 0)
        plm__page_say(page, 0,
                      "%lld blocks were held when recording began. Under the recorded settings "
                      "their places are worked out; elsewhere they are placed first, by address, "
                      "and what else was cached then is not there.",
                      (long long)history->older_blocks);
    plm__page_gap(page);
}

static void add_result(const plm_page *page, plm_table *table, const plm_replay_result *result)
{
    bool is_bound = result->policy == PLM_REPLAY_BOUND;
    size_t waste = result->reserved_peak_bytes - result->allocated_peak_bytes;
    plm__table_row(table, result->as_recorded ? PLM_TABLE_BOLD : PLM_TABLE_PLAIN);
    plm__page_cut_cell(table, result->name, page->columns - 65);
    plm__page_size_cell(table, result->reserved_peak_bytes);
    plm__page_size_cell(table, result->allocated_peak_bytes);
    if (is_bound)
        return;
    if (result->reserved_peak_bytes >= result->allocated_peak_bytes)
        plm__table_cell(table, "%.1f %%",
                        result->reserved_peak_bytes
                            ? 100.0 * (double)waste / (double)result->reserved_peak_bytes
                            : 0.0);
    else
        plm__table_cell(table, "%s", "");
    plm__table_cell(table, "%lld", (long long)result->retries);
    plm__table_cell(table, "%lld", (long long)result->oom);
    if (result->as_recorded)
        plm__table_cell(table, "%lld/%lld", (long long)result->addresses_reproduced,
                        (long long)result->addresses_total);
}

plm_status plm_report_replay_text(const plm_replay_report *report, plm_report_style style,
                                  char **text)
{
    static const plm_table_column columns[] = {
        {.title = "policy or setting"},        {.title = "reserved", .right = true},
        {.title = "allocated", .right = true}, {.title = "waste", .right = true},
        {.title = "retries", .right = true},   {.title = "oom", .right = true},
        {.title = "addresses", .right = true},
    };
    plm_page page = plm__page_begin(style);
    plm_table table;
    say_head(&page, report);
    plm__table_init(&table, columns, sizeof columns / sizeof *columns);
    for (int64_t i = 0; i < report->count; i++)
        add_result(&page, &table, &report->results[i]);
    plm__page_section(&page, &table);
    plm__page_say(
        &page, 0,
        "Peaks. waste: the part of the reserved peak that tensors never took; retries: the "
        "whole cache given back to make room; oom: requests that failed. A request that "
        "failed in the recording is made again, so allocated can be higher elsewhere.");
    return plm__page_end(&page, text);
}

plm_status plm_report_replay_json(const plm_replay_report *report, char **line)
{
    plm_json_writer json = {0};
    plm__json_begin_object(&json, NULL);
    plm__json_text(&json, "file", report->name);
    plm__json_int(&json, "device", report->device->device);
    if (report->capacity_bytes > 0)
        plm__json_bytes(&json, "capacity_bytes", report->capacity_bytes);
    else
        plm__json_text(&json, "capacity_bytes", NULL);
    plm__json_int(&json, "older_blocks", report->device->history.older_blocks);
    plm__json_begin_array(&json, "policies");
    for (int64_t i = 0; i < report->count; i++) {
        const plm_replay_result *result = &report->results[i];
        plm__json_begin_object(&json, NULL);
        plm__json_text(&json, "name", result->name);
        plm__json_text(&json, "policy", plm_replay_policy_text(result->policy));
        plm__json_bool(&json, "as_recorded", result->as_recorded);
        plm__json_bytes(&json, "reserved_peak_bytes", result->reserved_peak_bytes);
        plm__json_bytes(&json, "allocated_peak_bytes", result->allocated_peak_bytes);
        plm__json_int(&json, "retries", result->retries);
        plm__json_int(&json, "oom", result->oom);
        plm__json_int(&json, "addresses_reproduced", result->addresses_reproduced);
        plm__json_int(&json, "addresses_total", result->addresses_total);
        plm__json_int(&json, "placed_first", result->placed_first);
        plm__json_end(&json);
    }
    return plm__json_finish(&json, line);
}
