/* SPDX-License-Identifier: MIT */
/*
 * Any snapshot that can be read can be explained and replayed, or is refused with a status: blocks
 * that overlap, frees without requests, sizes beyond any device. Like fuzz_snapshot.c.
 */
#include <stdint.h>
#include <stdlib.h>

#include "plimsoll/report_torch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void replay(const plm_snapshot_device *device)
{
    static const plm_replay_case cases[] = {
        {.settings = NULL},
        {.settings = "expandable_segments:True"},
        {.settings = "max_split_size_mb:32", .capacity_bytes = (size_t)1 << 30},
        {.policy = PLM_REPLAY_MAPPED},
        {.policy = PLM_REPLAY_BOUND},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_replay_result result;
        if (plm_replay_run(device, &cases[i], &result) == PLM_OK &&
            result.addresses_reproduced > result.addresses_total)
            abort();
    }
}

static void explain(plm_snapshot *snapshot, int64_t device)
{
    plm_findings *findings = NULL;
    char *text = NULL;
    int64_t count;
    const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &count);
    plm_replay_result replayed;
    plm_findings_options options = {.replayed = &replayed};
    if (plm_replay_fill_taken(snapshot, device, &replayed) != PLM_OK ||
        plm_findings_create(&devices[device], &options, &findings) != PLM_OK)
        return;
    plm_checklist *list = NULL;
    if (plm_checklist_create(findings, &list) != PLM_OK)
        list = NULL; /* the page leaves it out */
    plm_rank rank = {.name = "input", .findings = findings, .checklist = list};
    if (plm_report_snapshot_text(&rank, 1, (plm_report_style){0}, &text) == PLM_OK)
        plm_free(text);
    plm_checklist_destroy(list);
    plm_findings_destroy(findings);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    plm_snapshot *snapshot = NULL;
    int64_t device_count;
    if (plm_snapshot_read_bytes("input", bytes, count, &snapshot) != PLM_OK)
        return 0;
    const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &device_count);
    for (int64_t i = 0; i < device_count; i++) {
        replay(&devices[i]);
        explain(snapshot, i);
    }
    plm_snapshot_destroy(snapshot);
    return 0;
}
