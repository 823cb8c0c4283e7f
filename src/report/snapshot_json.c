/* SPDX-License-Identifier: MIT */
/* Snapshots as JSON: sizes in bytes, keys in snake case. Other programs rely on the keys. */
#include "base/json.h"
#include "report/checklist.h"
#include "report/snapshot_internal.h"

enum { TOP_MAX = 32, PINS_MAX = 64 };

static void write_known(plm_json_writer *json, const char *key, size_t bytes)
{
    if (bytes > 0)
        plm__json_bytes(json, key, bytes);
    else
        plm__json_text(json, key, NULL);
}

static void write_site(plm_json_writer *json, const plm_findings *findings, int64_t place)
{
    char text[PLM_CALL_SITE_TEXT];
    plm__json_text(json, "site", plm_call_site_text(findings, place, text));
}

static void write_pins(plm_json_writer *json, const plm_findings *findings,
                       const plm_fragments *fragments)
{
    int64_t count;
    const plm_event *events = plm_trace_events(findings->device->trace, &count);
    plm__json_begin_array(json, "pins");
    for (int64_t i = 0; i < fragments->pin_count && i < PINS_MAX; i++) {
        const plm_pin *pin = &fragments->pins[i];
        plm__json_begin_object(json, NULL);
        plm__json_int(json, "segment_address", (int64_t)pin->segment_address);
        plm__json_bytes(json, "segment_bytes", pin->segment_bytes);
        plm__json_bytes(json, "free_bytes", pin->free_bytes);
        plm__json_bytes(json, "largest_free_bytes", pin->largest_free_bytes);
        plm__json_int(json, "live_blocks", pin->live_blocks);
        plm__json_bytes(json, "pinned_by_bytes", pin->block_bytes);
        write_site(json, findings,
                   pin->event >= 0 ? findings->site_of_block[events[pin->event].block] : -1);
        plm__json_end(json);
    }
    plm__json_end(json);
}

static void write_failures(plm_json_writer *json, const plm_findings *findings)
{
    plm__json_begin_array(json, "oom");
    for (int64_t i = 0; i < findings->failure_count; i++) {
        const plm_failure *failure = &findings->failures[i];
        const char *line = plm_trace_text(findings->device->trace, failure->site);
        char text[PLM_CALL_SITE_TEXT];
        plm__json_begin_object(json, NULL);
        plm__json_text(json, "verdict", plm_verdict_word(failure->verdict));
        plm__json_text(json, "reason", failure->reason);
        plm__json_text(json, "remedy", failure->remedy[0] ? failure->remedy : NULL);
        plm__json_text(json, "site", line[0] ? line : NULL);
        plm__json_bytes(json, "asked_bytes", failure->asked_bytes);
        plm__json_bytes(json, "segment_bytes", failure->segment_bytes);
        plm__json_bytes(json, "device_free_bytes", failure->device_free_bytes);
        plm__json_bytes(json, "allocated_bytes", failure->then.allocated_bytes);
        plm__json_bytes(json, "active_bytes", failure->then.active_bytes);
        plm__json_bytes(json, "reserved_bytes", failure->then.reserved_bytes);
        plm__json_bytes(json, "cached_bytes", failure->then.cached_bytes);
        plm__json_bytes(json, "largest_free_bytes", failure->then.largest_free_bytes);
        plm__json_bool(json, "limited", failure->limited);
        plm__json_bytes(json, "limit_least_bytes", failure->limit_least_bytes);
        plm__json_bytes(json, "limit_most_bytes", failure->limit_most_bytes);
        plm__json_bool(json, "wants_capacity", failure->wants_capacity);
        plm__json_begin_object(json, "top");
        plm__json_text(json, "site", plm_call_site_text(findings, failure->top_place, text));
        plm__json_bytes(json, "bytes", failure->top_bytes);
        plm__json_int(json, "blocks", failure->top_blocks);
        plm__json_end(json);
        write_pins(json, findings, &failure->then);
        plm__json_end(json);
    }
    plm__json_end(json);
}

static void write_leaks(plm_json_writer *json, const plm_findings *findings)
{
    plm__json_begin_array(json, "leaks");
    for (int64_t i = 0; i < findings->leak_count; i++) {
        const plm_leak *leak = &findings->leaks[i];
        plm__json_begin_object(json, NULL);
        write_site(json, findings, leak->place);
        plm__json_bytes(json, "bytes_a_step", leak->bytes_a_step);
        plm__json_bytes(json, "grown_bytes", leak->grown_bytes);
        plm__json_int(json, "since_step", leak->since_step);
        plm__json_int(json, "steps", leak->steps);
        plm__json_end(json);
    }
    plm__json_end(json);
}

static void write_top(plm_json_writer *json, const plm_findings *findings)
{
    plm__json_begin_array(json, "top");
    for (int64_t i = 0; i < findings->site_count && i < TOP_MAX; i++) {
        const plm_call_site *site = &findings->sites[i];
        char stack[PLM__STACK_TEXT];
        plm__json_begin_object(json, NULL);
        write_site(json, findings, i);
        plm__stack_text(findings, site->owner, stack);
        plm__json_text(json, "stack", stack[0] ? stack : NULL);
        plm__json_bytes(json, "peak_bytes", site->peak_bytes);
        plm__json_int(json, "peak_blocks", site->peak_blocks);
        plm__json_bytes(json, "end_bytes", site->end_bytes);
        plm__json_int(json, "end_blocks", site->end_blocks);
        plm__json_int(json, "requests", site->requests);
        plm__json_end(json);
    }
    plm__json_end(json);
}

static void write_spikes(plm_json_writer *json, const plm_findings *findings)
{
    plm__json_begin_array(json, "spikes");
    for (int64_t i = 0; i < findings->spike_count; i++) {
        plm__json_begin_object(json, NULL);
        write_site(json, findings, findings->spikes[i].place);
        plm__json_bytes(json, "bytes", findings->spikes[i].bytes);
        plm__json_bytes(json, "peak_without_bytes", findings->spikes[i].peak_without_bytes);
        plm__json_end(json);
    }
    plm__json_end(json);
    plm__json_begin_array(json, "waits");
    for (int64_t i = 0; i < findings->wait_count; i++) {
        plm__json_begin_object(json, NULL);
        plm__json_int(json, "stream", (int64_t)findings->waits[i].stream);
        plm__json_int(json, "blocks", findings->waits[i].blocks);
        plm__json_bytes(json, "bytes", findings->waits[i].bytes);
        write_site(json, findings, findings->waits[i].place);
        plm__json_end(json);
    }
    plm__json_end(json);
}

static void write_history(plm_json_writer *json, const plm_findings *findings)
{
    const plm_snapshot_history *history = &findings->device->history;
    plm__json_begin_object(json, "history");
    plm__json_bool(json, "recorded", history->recorded);
    plm__json_bool(json, "complete", history->complete);
    plm__json_bool(json, "overflowed", history->overflowed);
    plm__json_bool(json, "stacks", findings->has_stacks);
    plm__json_int(json, "older_blocks", history->older_blocks);
    plm__json_int(json, "addresses_reproduced", findings->replayed.addresses_reproduced);
    plm__json_int(json, "addresses_total", findings->replayed.addresses_total);
    plm__json_end(json);
}

static void write_device(plm_json_writer *json, const plm_rank *rank)
{
    const plm_findings *findings = rank->findings;
    const plm_snapshot_device *device = findings->device;
    char summary[PLM_SUMMARY_TEXT];
    plm__json_begin_object(json, NULL);
    plm__json_text(json, "file", rank->name);
    plm__json_int(json, "rank", rank->rank);
    plm__json_int(json, "device", device->device);
    plm__json_text(json, "verdict", plm_verdict_word(findings->verdict));
    plm__json_text(json, "summary", plm_findings_summary(findings, summary));
    write_known(json, "capacity_bytes", findings->capacity_bytes);
    plm__json_bytes(json, "requested_bytes", device->asked_bytes);
    plm__json_bytes(json, "allocated_bytes", device->allocated_bytes);
    plm__json_bytes(json, "active_bytes", device->active_bytes);
    plm__json_bytes(json, "reserved_bytes", device->reserved_bytes);
    plm__json_bytes(json, "inactive_split_bytes", device->inactive_split_bytes);
    plm__json_bytes(json, "releasable_bytes", findings->fragments.releasable_bytes);
    plm__json_bytes(json, "pinned_bytes", findings->fragments.pinned_bytes);
    plm__json_bytes(json, "pending_free_bytes", device->pending_free_bytes);
    plm__json_int(json, "pending_free_blocks", device->pending_free_blocks);
    write_known(json, "allocated_peak_bytes", findings->allocated_peak_bytes);
    write_known(json, "reserved_peak_bytes", findings->reserved_peak_bytes);
    plm__json_bool(json, "peaks_are_whole", findings->peaks_are_whole);
    plm__json_int(json, "segments", device->segment_count);
    plm__json_int(json, "trace_entries", device->trace_entries);
    plm__json_int(json, "retries", findings->replayed.retries);
    write_history(json, findings);
    plm__json_bytes(json, "largest_free_bytes", device->largest_free_bytes);
    write_failures(json, findings);
    write_leaks(json, findings);
    write_top(json, findings);
    write_spikes(json, findings);
    write_pins(json, findings, &findings->fragments);
    if (rank->checklist)
        plm__checklist_json(json, rank->checklist);
    plm__json_end(json);
}

static void write_odd(plm_json_writer *json, const plm_rank *ranks, int64_t count)
{
    plm_odd_rank odd = plm__odd_rank(ranks, count);
    if (odd.odd < 0) {
        plm__json_text(json, "odd_rank", NULL);
        return;
    }
    plm__json_begin_object(json, "odd_rank");
    plm__json_int(json, "rank", ranks[odd.odd].rank);
    plm__json_int(json, "compared_with", ranks[odd.reference].rank);
    plm__json_bytes(json, "peak_bytes", odd.odd_bytes);
    plm__json_bytes(json, "other_peak_bytes", odd.reference_bytes);
    write_site(json, ranks[odd.odd].findings, odd.place);
    plm__json_bytes(json, "site_bytes", odd.site_bytes);
    plm__json_bytes(json, "other_site_bytes", odd.site_reference_bytes);
    plm__json_int(json, "sites_larger", odd.sites_larger);
    plm__json_int(json, "sites_smaller", odd.sites_smaller);
    plm__json_end(json);
}

plm_status plm_report_snapshot_json(const plm_rank *ranks, int64_t count, char **line)
{
    plm_json_writer json = {0};
    plm__json_begin_object(&json, NULL);
    plm__json_begin_array(&json, "devices");
    for (int64_t i = 0; i < count; i++)
        write_device(&json, &ranks[i]);
    plm__json_end(&json);
    write_odd(&json, ranks, count);
    return plm__json_finish(&json, line);
}
