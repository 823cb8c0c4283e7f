/* SPDX-License-Identifier: MIT */
/* One pass over a trace: what lives, rounded, and its largest sum. */
#include "pool/bump.h"

#include "base/array.h"
#include "base/size.h"

/* Rounded bytes by block while it lives, else 0. */
typedef PLM_ARRAY(size_t) live_blocks;

static plm_status count_birth(const plm_event *event, const plm_pool_settings *settings,
                              live_blocks *live, size_t *sum)
{
    PLM_FAIL_IF(event->block < 0 || event->bytes_asked >= PLM_POOL_LARGEST_BYTES,
                PLM_ERROR_ARGUMENT, "an alloc event of %zu bytes for block %lld is no allocation",
                event->bytes_asked, (long long)event->block);
    PLM_TRY(PLM_ARRAY_RESERVE(live, event->block + 1));
    if (live->count <= event->block)
        live->count = event->block + 1;
    size_t rounded = plm__pool_round_bytes(settings, event->bytes_asked);
    PLM_TRY(plm__add_bytes(*sum, rounded, sum));
    live->items[event->block] = rounded;
    return PLM_OK;
}

static void count_death(const plm_event *event, live_blocks *live, size_t *sum)
{
    if (event->block < 0 || event->block >= live->count)
        return;
    *sum -= live->items[event->block];
    live->items[event->block] = 0;
}

plm_status plm__pool_bump(const plm_trace *trace, const plm_pool_settings *settings, size_t *bytes)
{
    int64_t count;
    const plm_event *events = plm_trace_events(trace, &count);
    plm_pool_settings plain = plm__pool_settings_default();
    live_blocks live = {0};
    size_t sum = 0, largest = 0;
    plm_status status = PLM_OK;
    for (int64_t i = 0; i < count; i++) {
        if (events[i].kind == PLM_EVENT_BLOCK_FREE)
            count_death(&events[i], &live, &sum);
        else if (events[i].kind == PLM_EVENT_BLOCK_ALLOC && events[i].bytes_asked > 0)
            PLM_TRY_DONE(count_birth(&events[i], settings ? settings : &plain, &live, &sum));
        largest = sum > largest ? sum : largest;
    }
    *bytes = largest;
done:
    PLM_ARRAY_FREE(&live);
    return status;
}
