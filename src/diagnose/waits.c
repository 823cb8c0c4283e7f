/* SPDX-License-Identifier: MIT */
/* Waits: blocks that were freed while another stream may still use them, by their own stream. */
#include <stdlib.h>

#include "base/array.h"
#include "diagnose/views.h"

typedef PLM_ARRAY(plm_wait) wait_list;

static plm_status add_wait(wait_list *waits, size_t *largest, uint64_t stream, size_t bytes,
                           int64_t place)
{
    int64_t i = 0;
    while (i < waits->count && waits->items[i].stream != stream)
        i++;
    if (i == waits->count) {
        PLM_TRY(PLM_ARRAY_PUSH(waits, (plm_wait){.stream = stream, .place = -1}));
        *largest = 0;
    }
    plm_wait *wait = &waits->items[i];
    wait->blocks++;
    wait->bytes += bytes;
    if (bytes > *largest || wait->place < 0) {
        *largest = bytes;
        wait->place = place;
    }
    return PLM_OK;
}

static int most_first(const void *left, const void *right)
{
    const plm_wait *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->stream < b->stream ? -1 : a->stream > b->stream;
}

plm_status plm__find_waits(plm_findings *findings)
{
    wait_list waits = {0};
    size_t largest = 0; /* block of the stream seen last */
    plm_status status = PLM_OK;
    for (int64_t s = 0; s < findings->device->segment_count && status == PLM_OK; s++) {
        const plm_snapshot_segment *segment = &findings->device->segments[s];
        for (int64_t i = 0; i < segment->block_count && status == PLM_OK; i++) {
            const plm_snapshot_block *block = &findings->device->blocks[segment->block + i];
            if (block->state != PLM_BLOCK_PENDING_FREE)
                continue;
            int64_t place = block->block >= 0 ? findings->site_of_block[block->block] : -1;
            status = add_wait(&waits, &largest, findings->device->streams[segment->queue],
                              block->bytes, place);
        }
    }
    PLM_ARRAY_SORT(&waits, most_first);
    findings->waits = waits.items;
    findings->wait_count = waits.count;
    return status;
}
