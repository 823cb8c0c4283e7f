/* SPDX-License-Identifier: MIT */
/* The devices of a snapshot as sources of an export. */
#include "plimsoll/export.h"

#include <stdio.h>

#include "base/host.h"

enum { NAME_MAX_BYTES = 24 };

/* One block of memory holds it all: sources, then segments, then names. */
static void fill(const plm_snapshot *snapshot, plm_export_source *sources, int64_t count,
                 plm_export_segment *segments, char *names)
{
    const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &count);
    for (int64_t i = 0; i < count; i++, names += NAME_MAX_BYTES) {
        for (int64_t k = 0; k < devices[i].segment_count; k++) {
            const plm_snapshot_segment *from = &devices[i].segments[k];
            segments[k] = (plm_export_segment){from->address, from->bytes, from->queue,
                                               from->pool,    from->large, from->expandable};
        }
        snprintf(names, NAME_MAX_BYTES, "GPU %d", (int)devices[i].device);
        sources[i] = (plm_export_source){.trace = devices[i].trace,
                                         .name = names,
                                         .segments = segments,
                                         .segment_count = devices[i].segment_count,
                                         .carried_in = devices[i].carried_in,
                                         .device = devices[i].device,
                                         .timed = devices[i].history.timed,
                                         .settings = devices[i].settings->text,
                                         .recorded = &devices[i]};
        segments += devices[i].segment_count;
    }
}

plm_status plm_export_sources_of(const plm_snapshot *snapshot, plm_export_source **sources,
                                 int64_t *count)
{
    int64_t devices, segments = 0;
    const plm_snapshot_device *device = plm_snapshot_devices(snapshot, &devices);
    for (int64_t i = 0; i < devices; i++)
        segments += device[i].segment_count;
    size_t sources_bytes = (size_t)(devices + 1) * sizeof(plm_export_source);
    size_t segments_bytes = (size_t)segments * sizeof(plm_export_segment);
    char *memory = NULL;
    PLM_TRY(plm__host_alloc(sources_bytes + segments_bytes + (size_t)devices * NAME_MAX_BYTES,
                            &memory));
    *sources = (plm_export_source *)(void *)memory;
    fill(snapshot, *sources, devices, (plm_export_segment *)(void *)(memory + sources_bytes),
         memory + sources_bytes + segments_bytes);
    *count = devices;
    return PLM_OK;
}
