/* SPDX-License-Identifier: MIT */
/*
 * What a PyTorch snapshot held at the peak of its history, largest first: peak SNAPSHOT
 * A file from torch.cuda.memory._dump_snapshot, plain or compressed; no Python is needed.
 */
#include <plimsoll/size.h>
#include <plimsoll/snapshot.h>
#include <stdio.h>

enum { ROWS = 5 };

static plm_status print_peak(const plm_snapshot_device *device)
{
    char size[PLM_SIZE_TEXT];
    int64_t *live, count;
    plm_trace_peak peak = plm_trace_find_peak(device->trace);
    plm_status status = plm_trace_live_at(device->trace, peak.event, &live, &count);
    if (status != PLM_OK)
        return status;
    printf("device %d: %s at the peak, in %lld blocks\n", (int)device->device,
           plm_size_format(peak.bytes_asked, size), (long long)count);
    const plm_event *events = plm_trace_events(device->trace, &(int64_t){0});
    for (int64_t i = 0; i < count && i < ROWS; i++)
        printf("  %10s at %#llx\n", plm_size_format(events[live[i]].bytes_asked, size),
               (unsigned long long)events[live[i]].address);
    plm_free(live);
    return PLM_OK;
}

int main(int argc, char **argv)
{
    plm_snapshot *snapshot = NULL;
    int64_t count = 0;
    plm_status status = plm_snapshot_read(argc > 1 ? argv[1] : "snapshot.pickle", &snapshot);
    const plm_snapshot_device *devices =
        status == PLM_OK ? plm_snapshot_devices(snapshot, &count) : NULL;
    for (int64_t i = 0; i < count && status == PLM_OK; i++)
        status = print_peak(&devices[i]);
    plm_snapshot_destroy(snapshot);
    if (status == PLM_OK)
        return 0;
    plm_error error;
    plm_error_get(&error);
    fprintf(stderr, "%s\n", error.message);
    return 1;
}
