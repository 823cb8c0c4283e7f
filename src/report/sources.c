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
    int64_t segment_count;
    const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &count);
    const plm_snapshot_segment *all = plm_snapshot_segments(snapshot, &segment_count);
    for (int64_t i = 0; i < segment_count; i++)
        segments[i] = (plm_export_segment){all[i].address, all[i].bytes, all[i].queue,
                                           all[i].pool,    all[i].large, all[i].expandable};
    for (int64_t i = 0; i < count; i++, names += NAME_MAX_BYTES) {
        snprintf(names, NAME_MAX_BYTES, "GPU %d", (int)devices[i].device);
        sources[i] = (plm_export_source){.trace = devices[i].trace,
                                         .name = names,
                                         .segments = segments + devices[i].segment,
                                         .segment_count = devices[i].segment_count,
                                         .carried_in = devices[i].carried_in,
                                         .device = devices[i].device,
                                         .timed = devices[i].history.timed,
                                         .settings = plm_snapshot_get_settings(snapshot)->text,
                                         .snapshot = snapshot};
    }
}

plm_status plm_export_sources_of(const plm_snapshot *snapshot, plm_export_source **sources,
                                 int64_t *count)
{
    int64_t devices, segments;
    plm_snapshot_devices(snapshot, &devices);
    plm_snapshot_segments(snapshot, &segments);
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
