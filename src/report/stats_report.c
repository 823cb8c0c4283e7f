/* SPDX-License-Identifier: MIT */
/* torch.cuda.memory_stats() as a page and as JSON. */
#include <stdio.h>

#include "plimsoll/report_torch.h"
#include "report/checklist.h"
#include "report/terminal.h"
#include "diagnose/checklist.h"

static const struct {
    plm_memory_stat_kind kind;
    const char *name, *remark;
} shown[] = {
    {PLM_MEMORY_STAT_REQUESTED_BYTES, "requested", "what tensors asked for"},
    {PLM_MEMORY_STAT_ALLOCATED_BYTES, "allocated", "with rounding"},
    {PLM_MEMORY_STAT_ACTIVE_BYTES, "active", "and freed blocks that wait for a stream"},
    {PLM_MEMORY_STAT_RESERVED_BYTES, "reserved", "taken from the driver"},
    {PLM_MEMORY_STAT_INACTIVE_SPLIT_BYTES, "inactive split", "cached in segments that are in use"},
};

enum { SHOWN = sizeof shown / sizeof *shown };

static size_t bytes_of(int64_t figure)
{
    return figure > 0 ? (size_t)figure : 0;
}

static plm_checklist ask(const plm_memory_stats *stats)
{
    plm_checklist list;
    plm_memory_stat_kind need = stats->recorded[PLM_MEMORY_STAT_ACTIVE_BYTES]
                                    ? PLM_MEMORY_STAT_ACTIVE_BYTES
                                    : PLM_MEMORY_STAT_ALLOCATED_BYTES;
    plm_totals totals = {
        .needed_peak_bytes = bytes_of(stats->stats[need][PLM_MEMORY_POOL_ALL].peak),
        .reserved_peak_bytes =
            bytes_of(stats->stats[PLM_MEMORY_STAT_RESERVED_BYTES][PLM_MEMORY_POOL_ALL].peak),
        .same_span = true,
        .span = "both peaks since the process began, or since they were last reset",
        .lacks = "statistics hold sums and no blocks"};
    plm__checklist_of_totals(&totals, &list);
    return list;
}

plm_status plm_report_stats_text(const char *name, const plm_memory_stats *stats,
                                 plm_report_style style, char **text)
{
    static const plm_table_column columns[] = {
        {.title = "bytes"}, {.title = "now", .right = true}, {.title = "peak", .right = true}, {0}};
    plm_page page = plm__page_begin(style);
    plm_table table;
    plm__page_heading(&page, "%s: memory statistics of one process", name);
    plm__page_gap(&page);
    plm__table_init(&table, columns, 4);
    for (int i = 0; i < SHOWN; i++) {
        const plm_memory_stat *stat = &stats->stats[shown[i].kind][PLM_MEMORY_POOL_ALL];
        if (!stats->recorded[shown[i].kind])
            continue;
        plm__table_row(&table, PLM_TABLE_PLAIN);
        plm__table_cell(&table, "%s", shown[i].name);
        plm__page_size_cell(&table, bytes_of(stat->current));
        plm__page_size_cell(&table, bytes_of(stat->peak));
        plm__table_cell(&table, "%s", shown[i].remark);
    }
    plm__page_section(&page, &table);
    plm__page_say(&page, 0, "%lld requests failed; the cache was emptied %lld times to make room.",
                  (long long)stats->ooms, (long long)stats->alloc_retries);
    plm__page_say(&page, 0,
                  "Peaks belong to different instants and must not be subtracted. Who held the "
                  "memory is in a snapshot only.");
    plm__page_gap(&page);
    plm_checklist list = ask(stats);
    plm__checklist_page(&page, &list);
    return plm__page_end(&page, text);
}

plm_status plm_report_stats_json(const char *name, const plm_memory_stats *stats, char **line)
{
    plm_json_writer json = {0};
    plm__json_begin_object(&json, NULL);
    plm__json_begin_array(&json, "devices");
    plm__json_begin_object(&json, NULL);
    plm__json_text(&json, "file", name);
    plm__json_text(&json, "kind", "memory_stats");
    for (int kind = 0; kind < PLM_MEMORY_STAT_COUNT; kind++) {
        char key[64];
        if (!stats->recorded[kind])
            continue;
        const plm_memory_stat *stat = &stats->stats[kind][PLM_MEMORY_POOL_ALL];
        plm__json_int(&json, plm_memory_stat_text((plm_memory_stat_kind)kind), stat->current);
        snprintf(key, sizeof key, "%s_peak", plm_memory_stat_text((plm_memory_stat_kind)kind));
        plm__json_int(&json, key, stat->peak);
    }
    plm__json_bytes(
        &json, "allocated_peak_bytes",
        bytes_of(stats->stats[PLM_MEMORY_STAT_ALLOCATED_BYTES][PLM_MEMORY_POOL_ALL].peak));
    plm__json_bytes(
        &json, "reserved_peak_bytes",
        bytes_of(stats->stats[PLM_MEMORY_STAT_RESERVED_BYTES][PLM_MEMORY_POOL_ALL].peak));
    plm__json_int(&json, "retries", stats->alloc_retries);
    plm__json_int(&json, "ooms", stats->ooms);
    plm_checklist list = ask(stats);
    plm__checklist_json(&json, &list);
    return plm__json_finish(&json, line);
}
