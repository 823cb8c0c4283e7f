/* SPDX-License-Identifier: MIT */
/* Findings: the views put together, and the one word that says what matters most. */
#include "plimsoll/findings.h"

#include <string.h>

#include "base/host.h"
#include "diagnose/views.h"

enum {
    WASTE_PER_CENT = 150, /* of the active peak reserved: the rest is fragments */
    WAITS_PART = 10,      /* of the reserved bytes in waiting blocks */
    SPIKE_PART = 5        /* of the peak that one block makes */
};

static void take_peaks(plm_findings *findings)
{
    const plm_memory_record *record = &findings->record;
    findings->allocated_peak_bytes = findings->replayed.allocated_peak_bytes;
    findings->reserved_peak_bytes = findings->replayed.reserved_peak_bytes;
    findings->peaks_are_whole = findings->device->history.complete;
    if (record->allocated_peak_bytes == 0 || record->reserved_peak_bytes == 0)
        return;
    findings->allocated_peak_bytes = record->allocated_peak_bytes;
    findings->reserved_peak_bytes = record->reserved_peak_bytes;
    findings->peaks_are_whole = true;
}

static plm_verdict choose_verdict(const plm_findings *findings)
{
    const plm_snapshot_device *device = findings->device;
    if (findings->failure_count > 0)
        return findings->failures[0].verdict;
    if (findings->leak_count > 0)
        return PLM_VERDICT_LEAK;
    if (device->pending_free_bytes > 0 &&
        device->pending_free_bytes >= device->reserved_bytes / WAITS_PART)
        return PLM_VERDICT_WAITS;
    if (!device->history.recorded)
        return PLM_VERDICT_NO_HISTORY;
    size_t peak = plm_trace_find_peak(device->trace).bytes_taken;
    if (findings->replayed.reserved_peak_bytes / WASTE_PER_CENT > peak / 100)
        return PLM_VERDICT_FRAGMENTATION;
    if (findings->spike_count > 0 &&
        peak - findings->spikes[0].peak_without_bytes >= peak / SPIKE_PART)
        return PLM_VERDICT_SPIKE;
    return PLM_VERDICT_NONE;
}

static plm_status fill(plm_findings *findings)
{
    PLM_TRY(plm__find_sites(findings));
    take_peaks(findings);
    PLM_TRY(plm__find_steps(findings));
    PLM_TRY(plm__find_leaks(findings));
    PLM_TRY(plm__find_fragments(findings));
    PLM_TRY(plm__find_spikes(findings));
    PLM_TRY(plm__find_waits(findings));
    if (findings->replayed.is_replayed)
        PLM_TRY(plm__find_failures(findings));
    findings->verdict = choose_verdict(findings);
    return PLM_OK;
}

plm_status plm_findings_create(const plm_snapshot_device *device,
                               const plm_findings_options *options, plm_findings **findings)
{
    plm_findings *made = NULL;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    made->device = device;
    made->peak_event = -1;
    if (options->record)
        made->record = *options->record;
    if (options->replayed)
        made->replayed = *options->replayed;
    made->capacity_bytes =
        options->capacity_bytes ? options->capacity_bytes : made->record.total_bytes;
    plm_status status = fill(made);
    return PLM_HAND_OVER(status, made, plm_findings_destroy, findings);
}

void plm_findings_destroy(plm_findings *findings)
{
    if (!findings)
        return;
    for (int64_t i = 0; i < findings->failure_count; i++)
        plm__host_free(findings->failures[i].then.pins);
    plm__host_free(findings->failures);
    plm__host_free(findings->waits);
    plm__host_free(findings->spikes);
    plm__host_free(findings->fragments.pins);
    plm__host_free(findings->leaks);
    plm__host_free(findings->steps);
    plm__host_free(findings->site_of_block);
    plm__host_free(findings->sites);
    plm__host_free(findings);
}
