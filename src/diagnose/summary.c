/* SPDX-License-Identifier: MIT */
/* One sentence for what a device's memory says. */
#include <stdio.h>
#include <string.h>

#include "plimsoll/findings.h"
#include "plimsoll/size.h"

static void say_leak(const plm_findings *findings, char text[PLM_SUMMARY_TEXT])
{
    char site[PLM_CALL_SITE_TEXT], step[PLM_SIZE_TEXT], grown[PLM_SIZE_TEXT];
    const plm_leak *leak = &findings->leaks[0];
    snprintf(text, PLM_SUMMARY_TEXT,
             "memory leaks: %s keeps %s more each step, %s over the %lld steps since step %lld",
             plm_call_site_text(findings, leak->place, site),
             plm_size_format(leak->bytes_a_step, step), plm_size_format(leak->grown_bytes, grown),
             (long long)leak->steps, (long long)leak->since_step);
}

static void say_failure(const plm_findings *findings, char text[PLM_SUMMARY_TEXT])
{
    const plm_failure *failure = &findings->failures[0];
    snprintf(text, PLM_SUMMARY_TEXT, "out of memory, %s: %s", plm_verdict_meaning(failure->verdict),
             failure->reason);
}

static void say_waste(const plm_findings *findings, char text[PLM_SUMMARY_TEXT])
{
    char reserved[PLM_SIZE_TEXT], active[PLM_SIZE_TEXT];
    size_t peak = plm_trace_find_peak(findings->device->trace).bytes_taken;
    snprintf(text, PLM_SUMMARY_TEXT,
             "reserved memory peaks at %s where tensors never need more than %s at once; replay "
             "shows which setting would have kept it smaller",
             plm_size_format(findings->replayed.reserved_peak_bytes, reserved),
             plm_size_format(peak, active));
}

static void say_spike(const plm_findings *findings, char text[PLM_SUMMARY_TEXT])
{
    char site[PLM_CALL_SITE_TEXT], bytes[PLM_SIZE_TEXT], peak[PLM_SIZE_TEXT],
        without[PLM_SIZE_TEXT];
    const plm_spike *spike = &findings->spikes[0];
    snprintf(
        text, PLM_SUMMARY_TEXT,
        "a short-lived block makes the peak: %s of %s; without it the peak falls from %s to %s",
        plm_size_format(spike->bytes, bytes), plm_call_site_text(findings, spike->place, site),
        plm_size_format(findings->allocated_peak_bytes, peak),
        plm_size_format(spike->peak_without_bytes, without));
}

static void say_waits(const plm_findings *findings, char text[PLM_SUMMARY_TEXT])
{
    char bytes[PLM_SIZE_TEXT], site[PLM_CALL_SITE_TEXT];
    snprintf(
        text, PLM_SUMMARY_TEXT,
        "%lld blocks, %s, are freed and wait for another stream; most are of %s",
        (long long)findings->device->pending_free_blocks,
        plm_size_format(findings->device->pending_free_bytes, bytes),
        plm_call_site_text(findings, findings->wait_count ? findings->waits[0].place : -1, site));
}

const char *plm_findings_summary(const plm_findings *findings, char text[PLM_SUMMARY_TEXT])
{
    if (findings->failure_count > 0)
        say_failure(findings, text);
    else if (findings->verdict == PLM_VERDICT_LEAK)
        say_leak(findings, text);
    else if (findings->verdict == PLM_VERDICT_WAITS)
        say_waits(findings, text);
    else if (findings->verdict == PLM_VERDICT_NO_HISTORY)
        snprintf(text, PLM_SUMMARY_TEXT,
                 "no history was recorded: the state alone is known, and no peak");
    else if (findings->verdict == PLM_VERDICT_FRAGMENTATION)
        say_waste(findings, text);
    else if (findings->verdict == PLM_VERDICT_SPIKE)
        say_spike(findings, text);
    else
        snprintf(
            text, PLM_SUMMARY_TEXT,
            "nothing stands out: no request failed, nothing grows, the cache is in proportion");
    return text;
}
