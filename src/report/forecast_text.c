/* SPDX-License-Identifier: MIT */
/*
 * Forecasts as pages. The first words are that nothing ran on a GPU; every figure that follows is
 * of PyTorch's own allocator, with the context, which no allocator sees, in a column of its own.
 */
#include <stdio.h>
#include <string.h>

#include "plimsoll/report_forecast.h"
#include "plimsoll/size.h"
#include "report/snapshot_internal.h"
#include "report/wrap.h"

enum { PARAGRAPH = 2, WRITES_SHOWN = 6, MARGIN_TEXT = PLM_SIZE_TEXT + 1 };

static const char whole_run[] = "the whole run";

/* "-1.2 GiB" or "12.3 GiB" */
static const char *margin_text(const plm_forecast_result *result, char text[MARGIN_TEXT])
{
    char size[PLM_SIZE_TEXT];
    const int64_t margin = result->margin_bytes;
    if (!result->needs_known)
        return "not known";
    snprintf(text, MARGIN_TEXT, "%s%s", margin < 0 ? "-" : "",
             plm_size_format((size_t)(margin < 0 ? -margin : margin), size));
    return text;
}

static const char *attention_text(const plm_forecast_rank *rank)
{
    return rank->attention ? rank->attention : "none";
}

static const plm_forecast_rank *largest_rank(const plm_forecast_result *result)
{
    return &result->ranks[result->largest];
}

/* ---- one target: phases ---- */

/* The larger of several steps, figure by figure. */
static plm_forecast_step largest_of(const plm_forecast_step *steps, int64_t count)
{
    plm_forecast_step most = {0};
    for (int64_t i = 0; i < count; i++) {
        if (steps[i].allocated_bytes > most.allocated_bytes)
            most.allocated_bytes = steps[i].allocated_bytes;
        if (steps[i].reserved_bytes > most.reserved_bytes)
            most.reserved_bytes = steps[i].reserved_bytes;
    }
    return most;
}

static void add_phase(plm_table *table, const char *name, size_t allocated, size_t reserved,
                      size_t context)
{
    if (reserved == 0)
        return;
    plm__table_row(table, strcmp(name, whole_run) == 0 ? PLM_TABLE_BOLD : PLM_TABLE_PLAIN);
    plm__table_cell(table, "%s", name);
    plm__page_size_cell(table, allocated);
    plm__page_size_cell(table, reserved);
    plm__page_size_cell(table, context);
    plm__page_size_cell(table, reserved + context);
}

static void add_phases(plm_page *page, const plm_forecast_result *result)
{
    static const plm_table_column columns[] = {
        {.title = "peak of"},
        {.title = "allocated", .right = true},
        {.title = "reserved", .right = true},
        {.title = "context", .right = true},
        {.title = "reserved + context", .right = true},
    };
    const plm_forecast_rank *rank = largest_rank(result);
    const size_t context = result->context_bytes;
    const plm_forecast_step first = largest_of(rank->steps, rank->step_count > 0);
    const plm_forecast_step later = rank->step_count > 1
                                        ? largest_of(rank->steps + 1, rank->step_count - 1)
                                        : (plm_forecast_step){0};
    const plm_forecast_step evaluation = largest_of(rank->evaluations, rank->evaluation_count);
    plm_table table;
    plm__table_init(&table, columns, sizeof columns / sizeof *columns);
    add_phase(&table, "the first step", first.allocated_bytes, first.reserved_bytes, context);
    add_phase(&table, "the steady state", later.allocated_bytes, later.reserved_bytes, context);
    add_phase(&table, "evaluation", evaluation.allocated_bytes, evaluation.reserved_bytes, context);
    add_phase(&table, "the end", rank->end.allocated_bytes, rank->end.reserved_bytes, context);
    plm__table_rule(&table);
    add_phase(&table, whole_run, rank->allocated_bytes, rank->reserved_bytes, context);
    plm__page_table(page, &table);
    plm__page_gap(page);
}

/* ---- one target: ranks ---- */

static void add_ranks(plm_page *page, const plm_forecast_result *result)
{
    static const plm_table_column columns[] = {
        {.title = "rank", .right = true},
        {.title = "allocated", .right = true},
        {.title = "reserved", .right = true},
        {.title = "context", .right = true},
        {.title = "of both", .right = true},
        {.title = "attention"},
        {.title = "ended by"},
    };
    static const char *const ends[] = {"its steps", "its own end", "an error", "a refusal",
                                       "no memory"};
    plm_table table;
    plm__table_init(&table, columns, sizeof columns / sizeof *columns);
    for (int64_t i = 0; i < result->rank_count; i++) {
        const plm_forecast_rank *rank = &result->ranks[i];
        const size_t context =
            (size_t)(rank->cudnn ? result->gpu.context_cudnn_bytes : result->gpu.context_bytes);
        plm__table_row(&table, i == result->largest ? PLM_TABLE_BOLD : PLM_TABLE_PLAIN);
        plm__table_cell(&table, "%lld", (long long)rank->rank);
        plm__page_size_cell(&table, rank->allocated_bytes);
        plm__page_size_cell(&table, rank->reserved_bytes);
        plm__page_size_cell(&table, context);
        plm__page_size_cell(&table, rank->reserved_bytes + context);
        plm__table_cell(&table, "%s", attention_text(rank));
        plm__table_cell(&table, "%s", ends[rank->ended]);
    }
    plm__page_table(page, &table);
    plm__page_gap(page);
    plm__page_say(page, 0, "Rank %lld needs most; what follows is of that rank.",
                  (long long)largest_rank(result)->rank);
    plm__page_gap(page);
}

/* ---- one target: what is to be known ---- */

static void say_search(plm_page *page, int64_t indent, const plm_forecast_report *report)
{
    if (report->argument)
        plm__page_say(page, indent,
                      "Found by bisection: what is below a value of %s that fits is taken to fit.",
                      report->argument);
}

/* Beside the verdict, which is of what the script came to. */
static void say_status(plm_page *page, int64_t indent, const char *target,
                       const plm_forecast_result *result)
{
    if (result && result->script_status)
        plm__page_say(page, indent,
                      "%s%sthe script ended with status %d by itself, before the steps asked for; "
                      "what it would have held later is not in the figures.",
                      target, *target ? ": " : "But ", result->script_status);
}

static void say_verdict(plm_page *page, const plm_forecast_report *report,
                        const plm_forecast_result *result)
{
    char margin[MARGIN_TEXT], capacity[PLM_SIZE_TEXT];
    plm_size_format(result->capacity_bytes, capacity);
    if (report->argument && result->value < report->most && result->fits)
        plm__page_heading(page, "Fits up to %s = %lld: %s of %s are left then; %lld does not fit",
                          report->argument, (long long)result->value, margin_text(result, margin),
                          capacity, (long long)result->value + 1);
    else if (report->argument && result->fits)
        plm__page_heading(page,
                          "Fits up to %s = %lld, the largest that was asked for: %s of %s are "
                          "left then",
                          report->argument, (long long)result->value, margin_text(result, margin),
                          capacity);
    else if (result->fits)
        plm__page_heading(page, "Fits: %s of %s are left", margin_text(result, margin), capacity);
    else if (result->needs_known)
        plm__page_heading(page, "Does not fit%s: %s are missing of %s",
                          report->argument ? ", not even the least value" : "",
                          margin_text(result, margin) + 1, capacity);
    else
        plm__page_heading(page, "Does not fit: memory ran out within %s", capacity);
    say_status(page, PARAGRAPH, "", result);
    if (result->fits)
        say_search(page, PARAGRAPH, report);
    if (result->out_of_memory && result->needs_known)
        plm__page_say(
            page, PARAGRAPH,
            "Memory ran out%s%s. The figures are of a second run on a device without an "
            "end; under pressure PyTorch gives back what is cached, so that somewhat less "
            "would do.",
            result->line[0] ? " at " : "", result->line);
    plm__page_gap(page);
}

static void say_holders(plm_page *page, const plm_forecast_row *row)
{
    if (!row->findings)
        return;
    if (row->result->out_of_memory)
        plm__page_say(page, 0, "When memory ran out:");
    const int64_t rows = page->rows;
    page->rows = rows < 8 ? rows : 8;
    plm__snapshot_sites(page, row->findings);
    page->rows = rows;
}

static void say_ranges(plm_page *page, const plm_forecast_rank *rank)
{
    char low[PLM_SIZE_TEXT], high[PLM_SIZE_TEXT], least[PLM_SIZE_TEXT], most[PLM_SIZE_TEXT];
    for (int64_t i = 0; i < rank->range_count; i++) {
        const plm_forecast_range *range = &rank->ranges[i];
        plm_size_format(range->low_allocated_bytes, low);
        plm_size_format(range->high_allocated_bytes, high);
        plm_size_format(range->low_reserved_bytes, least);
        plm_size_format(range->high_reserved_bytes, most);
        if (strcmp(low, high) != 0 || strcmp(least, most) != 0) /* else less than is printed */
            plm__page_say(page, 0, "A range: %s. Allocated %s to %s, reserved %s to %s.",
                          range->what, low, high, least, most);
    }
}

static void say_warnings(plm_page *page, const plm_forecast_result *result,
                         const plm_forecast_rank *rank)
{
    for (int64_t i = 0; i < rank->warning_count; i++)
        plm__page_say(page, 0, "Not sure: %s%s%s.",
                      rank->warnings[i].line ? rank->warnings[i].line : "",
                      rank->warnings[i].line ? ": " : "", rank->warnings[i].what);
    for (int64_t i = 0; i < result->unknown_count; i++)
        plm__page_say(page, 0,
                      "Not known: %s was asked for a size that only a card tells; what it takes is "
                      "missing here.",
                      result->unknown[i]);
}

static void list_writes(plm_text *list, char *const *names, int64_t count, int64_t *shown)
{
    for (int64_t i = 0; i < count && *shown < WRITES_SHOWN; i++, (*shown)++)
        plm__text_add(list, "%s%s", *shown ? ", " : "", names[i]);
}

/* What the view kept, and what Python did not even try. */
static void say_writes(plm_page *page, const plm_forecast_report *report,
                       const plm_forecast_result *result, const plm_forecast_rank *rank)
{
    char size[PLM_SIZE_TEXT];
    int64_t shown = 0;
    const int64_t listed = result->written_count < PLM_FORECAST_WRITES_MAX
                               ? result->written_count
                               : PLM_FORECAST_WRITES_MAX;
    const int64_t count = rank->skipped_count + result->written_count;
    plm_text list = {0};
    if (!report->has_view)
        plm__page_say(
            page, 0,
            "The script ran in the real file system, for want of a private view or because that "
            "was asked for: what saves in known ways was caught in Python, and other writes of "
            "the script are real.");
    list_writes(&list, (char *const *)rank->skipped, rank->skipped_count, &shown);
    list_writes(&list, result->written, listed, &shown);
    if (count > 0)
        plm__page_say(page, 0,
                      "Nothing was saved; the script would have written %lld file%s%s%s%s: "
                      "%s%s.",
                      (long long)count, count == 1 ? "" : "s", result->written_bytes ? " (" : "",
                      result->written_bytes ? plm_size_format(result->written_bytes, size) : "",
                      result->written_bytes ? ")" : "", list.items ? list.items : "",
                      count > shown ? ", ..." : "");
    plm__text_fini(&list);
}

static void say_recordings(plm_page *page, const plm_forecast_report *report)
{
    plm_text list = {0};
    int64_t count = 0;
    for (int64_t i = 0; i < report->count; i++) {
        const plm_forecast_result *result = report->rows[i].result;
        const char *path = result ? largest_rank(result)->recording : NULL;
        if (path)
            plm__text_add(&list, "%s%s", count++ ? ", " : "", path);
    }
    if (count > 0)
        plm__page_say(page, 0, "Recording%s for plimsoll snapshot, replay --sweep and report: %s.",
                      count == 1 ? "" : "s", list.items ? list.items : "");
    plm__text_fini(&list);
}

static void add_target(plm_page *page, const plm_forecast_report *report,
                       const plm_forecast_row *row)
{
    const plm_forecast_result *result = row->result;
    const plm_forecast_rank *rank = largest_rank(result);
    plm__page_heading(page, "%s, %s, PyTorch %s", result->target, result->gpu.name, rank->torch);
    plm__page_gap(page);
    if (result->rank_count > 1)
        add_ranks(page, result);
    add_phases(page, result);
    say_verdict(page, report, result);
    say_holders(page, row);
    plm__page_say(page, 0, "Attention: %s.", attention_text(rank));
    say_ranges(page, rank);
    say_warnings(page, result, rank);
    say_writes(page, report, result, rank);
    if (result->gpu.source[0])
        plm__page_say(page, 0, "What is known of the device: %s.", result->gpu.source);
    say_recordings(page, report);
}

/* ---- several targets ---- */

static void add_row(plm_table *table, const plm_forecast_report *report,
                    const plm_forecast_row *row)
{
    const plm_forecast_result *result = row->result;
    char margin[MARGIN_TEXT];
    plm__table_row(table, PLM_TABLE_PLAIN);
    plm__table_cell(table, "%s", row->target);
    if (!result) {
        plm__table_cell(table, "%s", "failed");
        return;
    }
    if (report->argument)
        plm__table_cell(table, result->fits ? "%lld" : "none", (long long)result->value);
    else
        plm__table_cell(table, "%s", result->fits ? "yes" : "no");
    plm__table_cell(table, "%s", margin_text(result, margin));
    plm__page_size_cell(table, result->capacity_bytes);
    plm__page_size_cell(table, largest_rank(result)->reserved_bytes);
    plm__page_size_cell(table, largest_rank(result)->allocated_bytes);
    plm__table_cell(table, "%s", attention_text(largest_rank(result)));
}

static void add_targets(plm_page *page, const plm_forecast_report *report)
{
    const plm_table_column columns[] = {
        {.title = "target"},
        {.title = report->argument ? report->argument : "fits", .right = report->argument != NULL},
        {.title = "margin", .right = true},
        {.title = "memory", .right = true},
        {.title = "reserved", .right = true},
        {.title = "allocated", .right = true},
        {.title = "attention"},
    };
    plm_table table;
    plm__table_init(&table, columns, sizeof columns / sizeof *columns);
    for (int64_t i = 0; i < report->count; i++)
        add_row(&table, report, &report->rows[i]);
    plm__page_table(page, &table);
    plm__page_gap(page);
    for (int64_t i = 0; i < report->count; i++)
        if (!report->rows[i].result)
            plm__page_say(page, 0, "%s failed: %s.", report->rows[i].target, report->rows[i].error);
    for (int64_t i = 0; i < report->count; i++)
        say_status(page, 0, report->rows[i].target, report->rows[i].result);
    plm__page_say(page, 0,
                  "The margin is what is left of the memory beside reserved memory and the "
                  "context.");
    say_search(page, 0, report);
    say_recordings(page, report);
}

plm_status plm_report_forecast_text(const plm_forecast_report *report, plm_report_style style,
                                    char **text)
{
    plm_page page = plm__page_begin(style);
    if (report->count == 1 && report->rows[0].result)
        add_target(&page, report, &report->rows[0]);
    else
        add_targets(&page, report);
    return plm__page_end(&page, text);
}
