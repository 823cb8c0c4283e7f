/* SPDX-License-Identifier: MIT */
/*
 * The page of one device: what is known of its past, the verdict, totals, failures, leaks, who
 * holds memory, fragments, spikes, waits. A part with nothing to say is left out.
 */
#include <stdio.h>
#include <string.h>

#include "plimsoll/size.h"
#include "base/number.h"
#include "report/checklist.h"
#include "report/snapshot_internal.h"
#include "report/wrap.h"

enum { PARAGRAPH = 2, NUMBER_CELLS = 52 /* of the columns beside a site's name */ };

/* ---- stacks ---- */

static bool is_own_line(const char *file)
{
    size_t bytes = strlen(file);
    bool is_python = bytes > 3 && strcmp(file + bytes - 3, ".py") == 0;
    return is_python && strncmp(file, "torch/", 6) != 0 && !strstr(file, "-packages/torch/") &&
           !strstr(file, "/plimsoll_forecast/");
}

const char *plm__stack_text(const plm_findings *findings, int32_t owner, char text[PLM__STACK_TEXT])
{
    int64_t count;
    const plm_trace *trace = findings->device->trace;
    const plm_owner *owners = plm_trace_owners(trace, &count);
    int32_t stack = owner == PLM_TRACE_NO_OWNER ? PLM_TRACE_NO_FRAMES : owners[owner].frames;
    size_t used = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < plm_trace_stack_depth(trace, stack); i++) {
        plm_frame frame = plm_trace_stack_frame(trace, stack, i);
        if (!is_own_line(plm_trace_text(trace, frame.file)))
            continue;
        int written = snprintf(text + used, PLM__STACK_TEXT - used, "%s%s %s:%d", used ? " < " : "",
                               plm_trace_text(trace, frame.function),
                               plm_trace_text(trace, frame.file), frame.line);
        if (written < 0 || (size_t)written >= PLM__STACK_TEXT - used)
            break;
        used += (size_t)written;
    }
    return text;
}

/* ---- head ---- */

static void say_history(plm_page *page, const plm_findings *findings)
{
    const plm_snapshot_device *device = findings->device;
    const plm_snapshot_history *history = &device->history;
    if (!history->recorded) {
        plm__page_say(
            page, 0,
            "History was never recorded: only the state when the file was written is known. "
            "Call torch.cuda.memory._record_memory_history() before the run.");
        return;
    }
    plm_text count = {0}, when = {0};
    plm__text_count(&count, device->trace_entries);
    int64_t events;
    const plm_event *list = plm_trace_events(device->trace, &events);
    if (history->timed && events > 0)
        plm__text_add(&when, " over %.3f s", (double)(list[events - 1].time - list[0].time) / 1e9);
    plm__page_say(page, 0, "History: %s events%s%s.", count.count ? count.items : "0",
                  when.count ? when.items : "",
                  findings->has_stacks ? "" : ", recorded without stacks: blocks are told by size");
    if (!findings->replayed.is_replayed)
        plm__page_say(
            page, 0,
            "The state contradicts the history, so it could not be replayed: rounding and "
            "reserved peaks are not known.");
    if (history->overflowed)
        plm__page_say(page, 0, "It overflowed: older events were overwritten.");
    if (history->older_blocks > 0)
        plm__page_say(
            page, 0,
            "%s when it began %lld block%s were held already, so recording started late or "
            "the history overflowed; peaks are since then.",
            findings->peaks_are_whole ? "Peaks are the process's own;" : "It is not whole:",
            (long long)history->older_blocks, history->older_blocks == 1 ? "" : "s");
    plm__text_fini(&count);
    plm__text_fini(&when);
}

static void add_totals(plm_page *page, const plm_findings *findings)
{
    static const plm_table_column columns[] = {{.title = "now"}, {.right = true}, {0}};
    const plm_fragments *now = &findings->fragments;
    char text[PLM_SIZE_TEXT], remark[128];
    plm_table table;
    plm__table_init(&table, columns, 3);
    plm__page_size_row(&table, "requested", now->asked_bytes, "what tensors asked for");
    plm__page_size_row(&table, "allocated", now->allocated_bytes, "with rounding");
    plm__page_size_row(&table, "active", now->active_bytes,
                       "and freed blocks that wait for a stream");
    plm__page_size_row(&table, "reserved", now->reserved_bytes, "taken from the driver");
    plm__page_size_row(&table, "cached, releasable", now->releasable_bytes,
                       "empty_cache() gives it back");
    snprintf(remark, sizeof remark, "live blocks hold it; largest piece %s",
             plm_size_format(now->largest_free_bytes, text));
    plm__page_size_row(&table, "cached, pinned", now->pinned_bytes, remark);
    if (findings->allocated_peak_bytes > 0) {
        const char *of = findings->peaks_are_whole ? "" : "since recording began";
        plm__table_rule(&table);
        plm__page_size_row(&table, "allocated peak", findings->allocated_peak_bytes, of);
        plm__page_size_row(&table, "reserved peak", findings->reserved_peak_bytes, of);
    }
    if (findings->capacity_bytes > 0)
        plm__page_size_row(&table, "capacity", findings->capacity_bytes, "of the device");
    plm__page_section(page, &table);
}

/* ---- failures ---- */

static void add_pins(plm_page *page, const plm_findings *findings, const plm_fragments *fragments)
{
    static const plm_table_column columns[] = {
        {.title = "segment", .right = true},   {.title = "free", .right = true},
        {.title = "largest", .right = true},   {.title = "live", .right = true},
        {.title = "pinned by", .right = true}, {.title = "of"},
    };
    int64_t count, shown = fragments->pin_count < page->rows ? fragments->pin_count : page->rows;
    const plm_event *events = plm_trace_events(findings->device->trace, &count);
    char site[PLM_CALL_SITE_TEXT];
    plm_table table;
    if (shown == 0)
        return;
    plm__table_init(&table, columns, sizeof columns / sizeof *columns);
    for (int64_t i = 0; i < shown; i++) {
        const plm_pin *pin = &fragments->pins[i];
        plm__table_row(&table, PLM_TABLE_PLAIN);
        plm__page_size_cell(&table, pin->segment_bytes);
        plm__page_size_cell(&table, pin->free_bytes);
        plm__page_size_cell(&table, pin->largest_free_bytes);
        plm__table_cell(&table, "%lld", (long long)pin->live_blocks);
        plm__page_size_cell(&table, pin->block_bytes);
        int64_t place = pin->event >= 0 ? findings->site_of_block[events[pin->event].block] : -1;
        plm__page_cut_cell(&table, plm_call_site_text(findings, place, site), page->columns - 61);
    }
    if (shown < fragments->pin_count) {
        plm__table_row(&table, PLM_TABLE_DIM);
        for (int i = 0; i < 5; i++)
            plm__table_cell(&table, "%s", "");
        plm__table_cell(&table, "and %lld more segments",
                        (long long)(fragments->pin_count - shown));
    }
    plm__page_table(page, &table);
}

static void add_failure(plm_page *page, const plm_findings *findings, const plm_failure *failure)
{
    char asked[PLM_SIZE_TEXT], wanted[PLM_SIZE_TEXT], free[PLM_SIZE_TEXT], least[PLM_SIZE_TEXT],
        most[PLM_SIZE_TEXT], cached[PLM_SIZE_TEXT], largest[PLM_SIZE_TEXT],
        site[PLM_CALL_SITE_TEXT];
    const char *line = plm_trace_text(findings->device->trace, failure->site);
    plm__page_heading(page, "Out of memory: %s", plm_verdict_title(failure->verdict));
    plm__page_say(page, PARAGRAPH, "%s wanted %s%s%s from the driver, which had %s free.",
                  line[0] ? line : "A request without a stack",
                  plm_size_format(failure->asked_bytes, asked),
                  failure->segment_bytes == failure->asked_bytes ? "" : ", in a segment of ",
                  failure->segment_bytes == failure->asked_bytes
                      ? ""
                      : plm_size_format(failure->segment_bytes, wanted),
                  plm_size_format(failure->device_free_bytes, free));
    plm__page_say(page, PARAGRAPH, "Why: %s.", failure->reason);
    if (failure->limited)
        plm__page_say(page, PARAGRAPH,
                      "The driver had enough: a limit set for this process refused, between %s and "
                      "%s.",
                      plm_size_format(failure->limit_least_bytes, least),
                      plm_size_format(failure->limit_most_bytes, most));
    if (failure->top_place >= 0)
        plm__page_say(page, PARAGRAPH, "Most was held by %s: %s in %lld block%s.",
                      plm_call_site_text(findings, failure->top_place, site),
                      plm_size_format(failure->top_bytes, wanted), (long long)failure->top_blocks,
                      failure->top_blocks == 1 ? "" : "s");
    plm__page_say(page, PARAGRAPH, "Cached then: %s, the largest piece %s.",
                  plm_size_format(failure->then.cached_bytes, cached),
                  plm_size_format(failure->then.largest_free_bytes, largest));
    if (failure->wants_capacity)
        plm__page_say(page, PARAGRAPH,
                      "The device's capacity is not in the file and would make this surer: "
                      "%s, or the record beside it.",
                      plm__hint_text(page->hints, PLM_HINT_CAPACITY));
    if (failure->remedy[0])
        plm__page_say(page, PARAGRAPH, "What helps: %s.", failure->remedy);
    plm__page_gap(page);
    if (failure->verdict == PLM_VERDICT_FRAGMENTATION) {
        add_pins(page, findings, &failure->then);
        plm__page_gap(page);
    }
}

static void add_failures(plm_page *page, const plm_findings *findings)
{
    for (int64_t i = 0; i < findings->failure_count && i < 3; i++)
        add_failure(page, findings, &findings->failures[i]);
    if (findings->device->oom_events > 3)
        plm__page_say(page, 0, "%lld requests failed in all.",
                      (long long)findings->device->oom_events);
}

/* ---- leaks ---- */

static void add_leaks(plm_page *page, const plm_findings *findings)
{
    char site[PLM_CALL_SITE_TEXT], step[PLM_SIZE_TEXT], grown[PLM_SIZE_TEXT],
        stack[PLM__STACK_TEXT];
    if (findings->leak_count == 0)
        return;
    plm__page_heading(page, "Leaks");
    for (int64_t i = 0; i < findings->leak_count && i < page->rows; i++) {
        const plm_leak *leak = &findings->leaks[i];
        plm__page_say(
            page, PARAGRAPH, "%s: %s more each step, %s in the %lld steps since step %lld.",
            plm_call_site_text(findings, leak->place, site),
            plm_size_format(leak->bytes_a_step, step), plm_size_format(leak->grown_bytes, grown),
            (long long)leak->steps, (long long)leak->since_step);
        plm__stack_text(findings, findings->sites[leak->place].owner, stack);
        if (stack[0])
            plm__page_say(page, 2 * PARAGRAPH, "%s", stack);
    }
    plm__page_say(page, PARAGRAPH,
                  "A site leaks when it grows in each quarter of at least %d steps, by at least "
                  "0.1 %% of the allocated peak in all. Steps: %s.",
                  PLM_LEAK_STEPS_MIN,
                  findings->step_source == PLM_STEPS_OPTIMIZER ? "the optimizer's"
                                                               : "by the period of the requests");
    plm__page_gap(page);
}

/* ---- sites ---- */

static void add_site(const plm_page *page, plm_table *table, const plm_findings *findings,
                     int64_t place, size_t peak)
{
    const plm_call_site *site = &findings->sites[place];
    char text[PLM_CALL_SITE_TEXT];
    plm__table_row(table, PLM_TABLE_PLAIN);
    plm__page_cut_cell(table, plm_call_site_text(findings, place, text),
                       page->columns - NUMBER_CELLS);
    plm__table_cell(table, "%lld", (long long)site->peak_blocks);
    plm__page_size_cell(table, site->peak_bytes);
    plm__table_cell(table, "%.1f %%", peak ? 100.0 * (double)site->peak_bytes / (double)peak : 0.0);
    plm__table_cell(table, "%lld", (long long)site->end_blocks);
    plm__page_size_cell(table, site->end_bytes);
}

void plm__snapshot_sites(plm_page *page, const plm_findings *findings)
{
    static const plm_table_column columns[] = {
        {.title = "who holds memory"},           {.title = "×", .right = true},
        {.title = "at the peak", .right = true}, {.title = "share", .right = true},
        {.title = "×", .right = true},           {.title = "at the end", .right = true},
    };
    size_t peak = 0, rest_peak = 0, rest_end = 0;
    int64_t shown = 0, rest_peak_blocks = 0, rest_end_blocks = 0;
    plm_table table;
    if (findings->site_count == 0)
        return;
    for (int64_t i = 0; i < findings->site_count; i++)
        peak += findings->sites[i].peak_bytes;
    plm__table_init(&table, columns, sizeof columns / sizeof *columns);
    for (int64_t i = 0; i < findings->site_count; i++) {
        const plm_call_site *site = &findings->sites[i];
        if (shown < page->rows && (site->peak_bytes > 0 || site->end_bytes > 0)) {
            add_site(page, &table, findings, i, peak);
            shown++;
            continue;
        }
        rest_peak += site->peak_bytes;
        rest_end += site->end_bytes;
        rest_peak_blocks += site->peak_blocks;
        rest_end_blocks += site->end_blocks;
    }
    if (rest_peak > 0 || rest_end > 0) {
        plm__table_row(&table, PLM_TABLE_DIM);
        plm__table_cell(&table, "%lld smaller ones", (long long)(findings->site_count - shown));
        plm__table_cell(&table, "%lld", (long long)rest_peak_blocks);
        plm__page_size_cell(&table, rest_peak);
        plm__table_cell(&table, "%.1f %%", peak ? 100.0 * (double)rest_peak / (double)peak : 0.0);
        plm__table_cell(&table, "%lld", (long long)rest_end_blocks);
        plm__page_size_cell(&table, rest_end);
    }
    plm__page_section(page, &table);
}

/* ---- fragments, spikes, waits ---- */

static void add_fragments(plm_page *page, const plm_findings *findings)
{
    const plm_fragments *fragments = &findings->fragments;
    bool matters = fragments->pinned_bytes > fragments->reserved_bytes / 20;
    if (!matters || findings->failure_count > 0)
        return;
    plm__page_heading(page, "Segments that cannot be given back");
    add_pins(page, findings, fragments);
    plm__page_gap(page);
}

static void add_spikes(plm_page *page, const plm_findings *findings)
{
    char site[PLM_CALL_SITE_TEXT], bytes[PLM_SIZE_TEXT], without[PLM_SIZE_TEXT], lived[48] = "";
    if (findings->spike_count == 0)
        return;
    plm__page_heading(page, "Short-lived blocks at the peak");
    for (int64_t i = 0; i < findings->spike_count; i++) {
        const plm_spike *spike = &findings->spikes[i];
        if (spike->lived_ns > 0)
            plm__print(lived, sizeof lived, ", which lived %.3f ms", (double)spike->lived_ns / 1e6);
        plm__page_say(page, PARAGRAPH, "%s: %s%s; without it the peak is %s.",
                      plm_call_site_text(findings, spike->place, site),
                      plm_size_format(spike->bytes, bytes), lived,
                      plm_size_format(spike->peak_without_bytes, without));
    }
    plm__page_gap(page);
}

static void add_waits(plm_page *page, const plm_findings *findings)
{
    char bytes[PLM_SIZE_TEXT], site[PLM_CALL_SITE_TEXT], stream[32];
    if (findings->wait_count == 0)
        return;
    plm__page_heading(page, "Freed, but waiting for another stream");
    for (int64_t i = 0; i < findings->wait_count && i < page->rows; i++) {
        const plm_wait *wait = &findings->waits[i];
        snprintf(stream, sizeof stream, "stream 0x%llx", (unsigned long long)wait->stream);
        plm__page_say(page, PARAGRAPH, "%lld blocks of %s, %s, most of %s.",
                      (long long)wait->blocks, wait->stream ? stream : "the default stream",
                      plm_size_format(wait->bytes, bytes),
                      plm_call_site_text(findings, wait->place, site));
    }
    plm__page_say(
        page, PARAGRAPH,
        "record_stream() keeps a block until the other stream has passed the free; waiting "
        "for that stream before the free gives it back at once.");
    plm__page_gap(page);
}

void plm__snapshot_page(plm_page *page, const plm_rank *rank)
{
    const plm_findings *findings = rank->findings;
    char summary[PLM_SUMMARY_TEXT];
    plm__page_heading(page, "%s, device %d", rank->name, (int)findings->device->device);
    say_history(page, findings);
    plm__page_gap(page);
    plm__page_heading(page, "Verdict: %s", plm_verdict_title(findings->verdict));
    plm__page_say(page, PARAGRAPH, "%s.", plm_findings_summary(findings, summary));
    plm__page_gap(page);
    add_failures(page, findings);
    add_leaks(page, findings);
    add_totals(page, findings);
    plm__snapshot_sites(page, findings);
    add_spikes(page, findings);
    add_waits(page, findings);
    add_fragments(page, findings);
    if (rank->checklist)
        plm__checklist_page(page, rank->checklist);
}
