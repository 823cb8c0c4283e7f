/* SPDX-License-Identifier: MIT */
/* A forecast of one target as JSON on one line. */
#include <stdio.h>

#include "base/json.h"
#include "plimsoll/report_forecast.h"

static void add_figures(plm_json_writer *json, size_t allocated, size_t reserved)
{
    plm__json_bytes(json, "allocated_bytes", allocated);
    plm__json_bytes(json, "reserved_bytes", reserved);
}

static void add_steps(plm_json_writer *json, const char *key, const plm_forecast_step *steps,
                      int64_t count)
{
    plm__json_begin_array(json, key);
    for (int64_t i = 0; i < count; i++) {
        plm__json_begin_object(json, NULL);
        plm__json_int(json, "step", steps[i].step);
        add_figures(json, steps[i].allocated_bytes, steps[i].reserved_bytes);
        plm__json_end(json);
    }
    plm__json_end(json);
}

/* What is known of one rank alone. */
static void add_rank(plm_json_writer *json, const plm_forecast_rank *rank)
{
    add_steps(json, "steps", rank->steps, rank->step_count);
    add_steps(json, "evaluation", rank->evaluations, rank->evaluation_count);
    plm__json_begin_object(json, "end");
    add_figures(json, rank->end.allocated_bytes, rank->end.reserved_bytes);
    plm__json_end(json);
    plm__json_begin_object(json, "peak");
    add_figures(json, rank->allocated_bytes, rank->reserved_bytes);
    plm__json_end(json);
    plm__json_text(json, "ended", plm_forecast_end_text(rank->ended));
    plm__json_text(json, "recording", rank->recording);
}

static void add_ranges(plm_json_writer *json, const plm_forecast_rank *rank)
{
    plm__json_begin_array(json, "ranges");
    for (int64_t i = 0; i < rank->range_count; i++) {
        const plm_forecast_range *range = &rank->ranges[i];
        plm__json_begin_object(json, NULL);
        plm__json_text(json, "what", range->what);
        plm__json_bytes(json, "low_allocated_bytes", range->low_allocated_bytes);
        plm__json_bytes(json, "high_allocated_bytes", range->high_allocated_bytes);
        plm__json_bytes(json, "low_reserved_bytes", range->low_reserved_bytes);
        plm__json_bytes(json, "high_reserved_bytes", range->high_reserved_bytes);
        plm__json_end(json);
    }
    plm__json_end(json);
}

static void add_warnings(plm_json_writer *json, const plm_forecast_result *result,
                         const plm_forecast_rank *rank)
{
    char what[PLM_FORECAST_LINE_TEXT];
    plm__json_begin_array(json, "warnings");
    if (result->script_status) {
        snprintf(what, sizeof what,
                 "the script ended with status %d by itself, before the steps asked for",
                 result->script_status);
        plm__json_begin_object(json, NULL);
        plm__json_text(json, "what", what);
        plm__json_text(json, "line", NULL);
        plm__json_end(json);
    }
    for (int64_t i = 0; i < rank->warning_count; i++) {
        plm__json_begin_object(json, NULL);
        plm__json_text(json, "what", rank->warnings[i].what);
        plm__json_text(json, "line", rank->warnings[i].line);
        plm__json_end(json);
    }
    plm__json_end(json);
}

static void add_ranks(plm_json_writer *json, const plm_forecast_result *result)
{
    plm__json_begin_array(json, "ranks");
    for (int64_t i = 0; i < result->rank_count; i++) {
        plm__json_begin_object(json, NULL);
        plm__json_int(json, "rank", result->ranks[i].rank);
        add_rank(json, &result->ranks[i]);
        add_ranges(json, &result->ranks[i]);
        plm__json_end(json);
    }
    plm__json_end(json);
}

static void add_writes(plm_json_writer *json, const plm_forecast_result *result,
                       const plm_forecast_rank *rank)
{
    plm__json_begin_array(json, "skipped_writes");
    for (int64_t i = 0; i < rank->skipped_count; i++)
        plm__json_text(json, NULL, rank->skipped[i]);
    for (int64_t i = 0; i < result->written_count && i < PLM_FORECAST_WRITES_MAX; i++)
        plm__json_text(json, NULL, result->written[i]);
    plm__json_end(json);
    plm__json_begin_array(json, "unknown_sizes");
    for (int64_t i = 0; i < result->unknown_count; i++)
        plm__json_text(json, NULL, result->unknown[i]);
    plm__json_end(json);
}

static void add_result(plm_json_writer *json, const plm_forecast_report *report,
                       const plm_forecast_result *result)
{
    const plm_forecast_rank *rank = &result->ranks[result->largest];
    plm__json_text(json, "device", result->gpu.name);
    plm__json_text(json, "torch", rank->torch);
    plm__json_text(json, "cuda", rank->cuda);
    plm__json_bytes(json, "capacity_bytes", result->capacity_bytes);
    plm__json_bytes(json, "context_bytes", result->context_bytes);
    plm__json_bool(json, "fits", result->fits);
    if (result->needs_known)
        plm__json_int(json, "margin_bytes", result->margin_bytes);
    else
        plm__json_text(json, "margin_bytes", NULL);
    plm__json_bool(json, "out_of_memory", result->out_of_memory);
    plm__json_int(json, "script_status", result->script_status);
    if (report->argument) {
        plm__json_text(json, "argument", report->argument);
        plm__json_int(json, "value", result->value);
    }
    plm__json_text(json, "attention", rank->attention);
    plm__json_text(json, "line", result->line[0] ? result->line : NULL);
    add_rank(json, rank);
    add_ranges(json, rank);
    add_warnings(json, result, rank);
    add_writes(json, result, rank);
    add_ranks(json, result);
    plm__json_real(json, "seconds", result->seconds);
}

plm_status plm_report_forecast_json(const plm_forecast_report *report, int64_t row, char **line)
{
    plm_json_writer json = {0};
    const plm_forecast_row *told = &report->rows[row];
    plm__json_begin_object(&json, NULL);
    plm__json_text(&json, "target", told->target);
    if (told->result)
        add_result(&json, report, told->result);
    else
        plm__json_text(&json, "error", told->error);
    plm__json_end(&json);
    return plm__json_finish(&json, line);
}
