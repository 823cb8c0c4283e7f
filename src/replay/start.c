/* SPDX-License-Identifier: MIT */
/*
 * The state at the first recorded event: what the trace carries in, laid out in its segments.
 *
 * Example: a segment of 20 MiB at address 0, in which H was held when recording began. Of H only
 * the free is recorded: 3 MiB were asked for at 0.
 *   The first recorded request, of 2 MiB, is served at 4 MiB while H lives. Blocks are cut from the
 *   front of a free one, so H ends there: it kept the 1 MiB that was too little to be split off.
 *   The layout: H from 0 to 4 MiB, free from 4 to 20 MiB.
 * Without such a request H is taken to be 3 MiB, and noted as unsure.
 */
#include "replay/start.h"

#include <stdlib.h>
#include <string.h>

#include "torch/snapshot.h"
#include "trace/trace.h"

/* A segment of that moment: memory behind all of it, or one mapped range of an expandable one. */
typedef struct start_range {
    uint64_t address;
    size_t bytes;
    uint64_t reservation; /* lowest address of the expandable segment; else the address */
    uint16_t queue;
    uint16_t pool;
    bool is_small;
    bool is_expandable;
} start_range;

typedef PLM_ARRAY(start_range) start_ranges;

typedef struct start_work {
    const plm_snapshot_device *device;
    const plm_pool_settings *settings;
    size_t total_bytes;
    const size_t *sizes; /* by block number, or NULL */
    const plm_event *events;
    int64_t event_count;
    start_ranges ranges;
    start_ranges groups; /* expandable segments: the addresses that each is seen to use */
    size_t *known_bytes; /* by block number: what the block takes, where that is known, else 0 */
    plm_start *start;
} start_work;

static int by_address(const void *left, const void *right)
{
    uint64_t a = ((const plm_event *)left)->address, b = ((const plm_event *)right)->address;
    return a < b ? -1 : a > b;
}

static int by_reservation(const void *left, const void *right)
{
    const start_range *a = left, *b = right;
    if (a->reservation != b->reservation)
        return a->reservation < b->reservation ? -1 : 1;
    return a->address < b->address ? -1 : a->address > b->address;
}

/* ---- blocks ---- */

/*
 * Which of the blocks held were waiting for a stream: their free is completed, or waits still at
 * the end, and was never requested in the recording. Where frees are missing that proves nothing.
 */
static plm_status find_pending(start_work *work, int64_t block_count)
{
    const plm_snapshot_block *blocks = work->device->blocks;
    uint8_t *pending = NULL;
    PLM_TRY(plm__host_alloc((size_t)block_count + 1, &work->start->unsure));
    PLM_TRY(plm__host_alloc((size_t)block_count + 1, &pending));
    work->start->pending = pending;
    if (work->device->history.unrecorded_frees > 0)
        return PLM_OK;
    for (int64_t s = 0; s < work->device->segment_count; s++) {
        const plm_snapshot_segment *segment = &work->device->segments[s];
        for (int64_t i = 0; i < segment->block_count; i++) {
            const plm_snapshot_block *block = &blocks[segment->block + i];
            if (block->state == PLM_BLOCK_PENDING_FREE && block->block >= 0)
                pending[block->block] = 1;
        }
    }
    for (int64_t i = work->event_count - 1; i >= 0; i--) {
        const plm_event *event = &work->events[i];
        if (event->kind == PLM_EVENT_BLOCK_FREE)
            pending[event->block] = 1;
        else if (event->kind == PLM_EVENT_BLOCK_FREE_REQUESTED)
            pending[event->block] = 0;
    }
    return PLM_OK;
}

static plm_status find_held(start_work *work, int64_t block_count)
{
    const plm_snapshot_block *blocks = work->device->blocks;
    PLM_TRY(
        plm__host_alloc(((size_t)block_count + 1) * sizeof *work->known_bytes, &work->known_bytes));
    for (int64_t s = 0; s < work->device->segment_count; s++) {
        const plm_snapshot_segment *segment = &work->device->segments[s];
        for (int64_t i = 0; i < segment->block_count; i++)
            if (blocks[segment->block + i].block >= 0)
                work->known_bytes[blocks[segment->block + i].block] =
                    blocks[segment->block + i].bytes;
    }
    for (int64_t i = 0; i < work->device->carried_in; i++)
        if (work->events[i].kind == PLM_EVENT_BLOCK_ALLOC && work->events[i].bytes_asked > 0 &&
            work->events[i].bytes_asked < PLM_POOL_LARGEST_BYTES)
            PLM_TRY(PLM_ARRAY_PUSH(&work->start->held, work->events[i]));
    PLM_ARRAY_SORT(&work->start->held, by_address);
    return PLM_OK;
}

/* The held block at this address or the nearest one below it; -1 without any. */
static int64_t held_below(const start_work *work, uint64_t address)
{
    int64_t low = 0, high = work->start->held.count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (work->start->held.items[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

/*
 * A held block that was freed later may hold more than its rounded request, and a free block may
 * follow it. The first request that is served behind it, while it lives, shows where it ends:
 * blocks are cut from the front of a free one.
 */
static void see_ends(start_work *work)
{
    for (int64_t i = work->device->carried_in; i < work->event_count; i++) {
        const plm_event *event = &work->events[i];
        bool is_alloc = event->kind == PLM_EVENT_BLOCK_ALLOC;
        if (!is_alloc && event->kind != PLM_EVENT_BLOCK_FREE)
            continue;
        int64_t at = held_below(work, event->address);
        if (at < 0)
            continue;
        const plm_event *held = &work->start->held.items[at];
        size_t *known = &work->known_bytes[held->block];
        size_t rounded = plm__pool_round_bytes(work->settings, held->bytes_asked);
        uint64_t away = event->address - held->address;
        if (*known != 0)
            continue;
        if (is_alloc && away >= rounded && away - rounded <= PLM_POOL_SMALL_BYTES)
            *known = (size_t)away;
        else if (!is_alloc && event->block == held->block)
            *known = SIZE_MAX; /* it is gone: nothing more can be seen */
    }
    for (int64_t i = 0; i < work->start->held.count; i++) {
        size_t *known = &work->known_bytes[work->start->held.items[i].block];
        if (*known == SIZE_MAX)
            *known = work->sizes ? work->sizes[work->start->held.items[i].block] : 0;
    }
}

/* ---- plain segments ---- */

static plm_status find_plain(start_work *work)
{
    for (int64_t i = 0; i < work->device->carried_in; i++) {
        const plm_event *event = &work->events[i];
        if (event->kind != PLM_EVENT_SEGMENT_ALLOC)
            continue;
        const plm_snapshot_segment *segment =
            plm__snapshot_find_segment(work->device, event->address);
        bool is_there =
            segment && segment->address == event->address && segment->bytes == event->bytes_asked;
        start_range range = {
            .address = event->address,
            .bytes = event->bytes_asked,
            .reservation = event->address,
            .queue = event->queue,
            .pool = is_there ? segment->pool : event->pool,
            .is_small = is_there ? !segment->large : event->bytes_asked <= PLM_POOL_PAGE_BYTES,
        };
        PLM_TRY(PLM_ARRAY_PUSH(&work->ranges, range));
    }
    return PLM_OK;
}

/* ---- expandable segments ---- */

static bool shares_reservation(const start_range *a, const start_range *b)
{
    return a->is_expandable && b->is_expandable && a->queue == b->queue && a->pool == b->pool &&
           a->is_small == b->is_small;
}

/* Makes a range reach over [address, address + bytes) too. */
static void widen(start_range *range, uint64_t address, size_t bytes)
{
    uint64_t end = range->address + range->bytes, other_end = address + bytes;
    range->address = range->address < address ? range->address : address;
    range->bytes = (size_t)((end > other_end ? end : other_end) - range->address);
}

/* The reservations that the final state shows, each as the range of addresses that it uses then. */
static plm_status find_groups(start_work *work)
{
    for (int64_t s = 0; s < work->device->segment_count; s++) {
        const plm_snapshot_segment *segment = &work->device->segments[s];
        if (!segment->expandable)
            continue;
        start_range group = {.address = segment->address,
                             .bytes = segment->bytes,
                             .queue = segment->queue,
                             .pool = segment->pool,
                             .is_small = !segment->large,
                             .is_expandable = true};
        int64_t i = 0;
        while (i < work->groups.count && !shares_reservation(&work->groups.items[i], &group))
            i++;
        if (i == work->groups.count)
            PLM_TRY(PLM_ARRAY_PUSH(&work->groups, group));
        else
            widen(&work->groups.items[i], group.address, group.bytes);
    }
    return PLM_OK;
}

/*
 * The reservation that pages belong to, as its place among the groups; -1 when the state shows none
 * that fits. Pages that touch what a reservation uses are of it. It is used from its low end on, so
 * other pages are of the last one that begins before them.
 */
static int64_t group_of(const start_work *work, uint64_t address, size_t bytes, uint16_t queue)
{
    int64_t found = -1;
    for (int64_t i = 0; i < work->groups.count; i++) {
        const start_range *group = &work->groups.items[i];
        if (group->queue != queue ||
            (!group->is_small && bytes % plm__pool_page_bytes(work->settings, false) != 0))
            continue;
        if (address <= group->address + group->bytes && group->address <= address + bytes)
            return i;
        if (found < 0 || group->address <= address)
            found = i;
    }
    return found;
}

static start_range expandable_range(start_work *work, uint64_t address, size_t bytes,
                                    uint16_t queue)
{
    int64_t group = group_of(work, address, bytes, queue);
    start_range range = {.queue = queue,
                         .is_small = bytes % plm__pool_page_bytes(work->settings, false) != 0,
                         .is_expandable = true};
    if (group >= 0) {
        widen(&work->groups.items[group], address, bytes);
        range = work->groups.items[group];
    }
    range.address = address;
    range.bytes = bytes;
    return range;
}

/* Takes [address, address + bytes) out of every expandable range that meets it. */
static plm_status unmap_range(start_ranges *ranges, uint64_t address, size_t bytes)
{
    uint64_t end = address + bytes;
    for (int64_t i = 0; i < ranges->count; i++) {
        start_range range = ranges->items[i];
        uint64_t range_end = range.address + range.bytes;
        if (!range.is_expandable || range.address >= end || range_end <= address)
            continue;
        start_range rest = range;
        ranges->items[i].bytes = range.address < address ? (size_t)(address - range.address) : 0;
        if (range_end > end) {
            rest.address = end;
            rest.bytes = (size_t)(range_end - end);
            PLM_TRY(PLM_ARRAY_PUSH(ranges, rest));
        }
    }
    return PLM_OK;
}

/* The lowest address that the reservation of this range ever used: recorded, or in the state. */
static uint64_t reservation_of(start_work *work, const start_range *range)
{
    uint64_t lowest = range->address;
    for (int64_t i = 0; i < work->ranges.count; i++) {
        const start_range *other = &work->ranges.items[i];
        if (other->bytes > 0 && other->address < lowest && shares_reservation(other, range))
            lowest = other->address;
    }
    for (int64_t i = work->device->carried_in; i < work->event_count; i++) {
        const plm_event *event = &work->events[i];
        if (event->kind != PLM_EVENT_SEGMENT_MAP || event->address >= lowest)
            continue;
        start_range mapped =
            expandable_range(work, event->address, event->bytes_asked, event->queue);
        if (shares_reservation(&mapped, range))
            lowest = event->address;
    }
    return lowest;
}

static bool maps_are_older(const start_work *work)
{
    for (int64_t i = 0; i < work->device->carried_in; i++)
        if (work->events[i].kind == PLM_EVENT_SEGMENT_MAP)
            return true;
    return false;
}

static plm_status find_expandable(start_work *work)
{
    if (!maps_are_older(work))
        return PLM_OK;
    PLM_TRY(find_groups(work));
    for (int64_t s = 0; s < work->device->segment_count; s++) {
        const plm_snapshot_segment *segment = &work->device->segments[s];
        if (segment->expandable)
            PLM_TRY(
                PLM_ARRAY_PUSH(&work->ranges, expandable_range(work, segment->address,
                                                               segment->bytes, segment->queue)));
    }
    for (int64_t i = work->event_count - 1; i >= work->device->carried_in; i--) {
        const plm_event *event = &work->events[i];
        if (event->kind == PLM_EVENT_SEGMENT_MAP)
            PLM_TRY(unmap_range(&work->ranges, event->address, event->bytes_asked));
        else if (event->kind == PLM_EVENT_SEGMENT_UNMAP)
            PLM_TRY(
                PLM_ARRAY_PUSH(&work->ranges, expandable_range(work, event->address,
                                                               event->bytes_asked, event->queue)));
    }
    for (int64_t i = 0; i < work->ranges.count; i++)
        if (work->ranges.items[i].is_expandable && work->ranges.items[i].bytes > 0)
            work->ranges.items[i].reservation = reservation_of(work, &work->ranges.items[i]);
    return PLM_OK;
}

/* Drops ranges that came to be empty; sorts; joins those of one segment that touch. */
static void tidy_ranges(start_ranges *ranges)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < ranges->count; i++)
        if (ranges->items[i].bytes > 0)
            ranges->items[kept++] = ranges->items[i];
    ranges->count = kept;
    if (kept == 0)
        return;
    qsort(ranges->items, (size_t)kept, sizeof *ranges->items, by_reservation);
    start_range *last = ranges->items;
    for (int64_t i = 1; i < ranges->count; i++) {
        const start_range *range = &ranges->items[i];
        if (range->is_expandable && range->reservation == last->reservation &&
            range->address == last->address + last->bytes)
            last->bytes += range->bytes;
        else
            *++last = *range;
    }
    ranges->count = last - ranges->items + 1;
}

/* ---- the layout ---- */

/* The bytes of the segment that begins with range `first`: its own, or the whole reservation. */
static size_t segment_bytes(const start_work *work, int64_t first, int64_t end)
{
    const start_range *range = &work->ranges.items[first], *last = &work->ranges.items[end - 1];
    if (!range->is_expandable)
        return range->bytes;
    size_t page = plm__pool_page_bytes(work->settings, range->is_small);
    size_t whole = plm__pool_whole_pages(work->total_bytes + work->total_bytes / 8, page);
    size_t used =
        plm__pool_whole_pages((size_t)(last->address + last->bytes - range->reservation), page);
    return whole > used ? whole : used;
}

/* What the block of a held event takes, with `room` bytes up to the next block. */
static size_t taken_bytes(const start_work *work, const start_range *range, const plm_event *event,
                          size_t room)
{
    size_t known = work->known_bytes[event->block];
    bool is_guess = known == 0 || (work->sizes && work->sizes[event->block] > 0);
    size_t bytes = known ? known : plm__pool_round_bytes(work->settings, event->bytes_asked);
    if (bytes > room)
        return room;
    bool is_whole = range->is_small || range->is_expandable;
    bool is_unsplit = bytes >= work->settings->max_split_bytes;
    if (!known && !is_whole && (room - bytes <= PLM_POOL_SMALL_BYTES || is_unsplit))
        bytes = room;
    work->start->unsure[event->block] = is_guess && !is_whole && bytes < room;
    return bytes;
}

static plm_status add_block(start_work *work, plm_pool_block like, uint64_t address, size_t bytes)
{
    if (bytes == 0)
        return PLM_OK;
    like.address = address;
    like.bytes = bytes;
    return PLM_ARRAY_PUSH(&work->start->blocks, like);
}

/* The blocks of one range; *next is the first held event not before it. */
static plm_status lay_range(start_work *work, const start_range *range, plm_pool_block like,
                            int64_t *next)
{
    uint64_t at = range->address, end = range->address + range->bytes;
    const plm_event *held = work->start->held.items;
    int64_t count = work->start->held.count;
    while (*next < count && held[*next].address < range->address)
        ++*next; /* in no segment: nothing can be said of it */
    for (; *next < count && held[*next].address < end; ++*next) {
        const plm_event *event = &held[*next];
        if (event->address < at) /* inside the block before it: a file that contradicts itself */
            continue;
        uint64_t until =
            *next + 1 < count && held[*next + 1].address < end ? held[*next + 1].address : end;
        like.state = PLM_POOL_BLOCK_FREE;
        PLM_TRY(add_block(work, like, at, (size_t)(event->address - at)));
        plm_pool_block block = like;
        size_t bytes = taken_bytes(work, range, event, (size_t)(until - event->address));
        block.state =
            work->start->pending[event->block] ? PLM_POOL_BLOCK_PENDING : PLM_POOL_BLOCK_LIVE;
        block.asked_bytes = event->bytes_asked < bytes ? event->bytes_asked : bytes;
        PLM_TRY(add_block(work, block, event->address, bytes));
        at = event->address + bytes;
    }
    like.state = PLM_POOL_BLOCK_FREE;
    return add_block(work, like, at, (size_t)(end - at));
}

/* One segment: the ranges [first, end), unmapped addresses between and behind them. */
static plm_status lay_segment(start_work *work, int64_t first, int64_t end, int64_t *next)
{
    const start_range *range = &work->ranges.items[first];
    plm_pool_block like = {.segment_address = range->reservation,
                           .segment_bytes = segment_bytes(work, first, end),
                           .stream = work->device->streams[range->queue],
                           .private_pool = range->pool,
                           .is_small = range->is_small,
                           .is_expandable = range->is_expandable};
    uint64_t at = range->reservation;
    for (int64_t i = first; i < end; i++) {
        range = &work->ranges.items[i];
        like.state = PLM_POOL_BLOCK_UNMAPPED;
        PLM_TRY(add_block(work, like, at, (size_t)(range->address - at)));
        PLM_TRY(lay_range(work, range, like, next));
        at = range->address + range->bytes;
    }
    like.state = PLM_POOL_BLOCK_UNMAPPED;
    return add_block(work, like, at, like.segment_bytes - (size_t)(at - like.segment_address));
}

static plm_status lay_out(start_work *work)
{
    tidy_ranges(&work->ranges);
    const start_ranges *ranges = &work->ranges;
    int64_t next = 0;
    for (int64_t first = 0, end; first < ranges->count; first = end) {
        end = first + 1;
        while (end < ranges->count &&
               ranges->items[end].reservation == ranges->items[first].reservation)
            end++;
        PLM_TRY(lay_segment(work, first, end, &next));
    }
    return PLM_OK;
}

/* ---- pools ---- */

static bool pools_must_be_inferred(const start_work *work)
{
    bool is_private = false;
    for (int64_t s = 0; s < work->device->segment_count; s++)
        is_private |= work->device->segments[s].pool != 0;
    for (int64_t i = work->device->carried_in; i < work->event_count && is_private; i++)
        is_private = work->events[i].pool == 0;
    return is_private;
}

/*
 * Which event took each final segment. Only what was served behind it is of the segment's pool: a
 * driver gives the addresses of a segment that went back to another pool.
 *
 *     alloc A, free A (emptied before a capture), alloc A (by the capture): born at the last
 */
static plm_status find_births(const start_work *work)
{
    const plm_snapshot_device *device = work->device;
    int64_t *births = NULL;
    PLM_TRY(plm__host_alloc(((size_t)device->segment_count + 1) * sizeof *births, &births));
    work->start->births = births;
    for (int64_t s = 0; s < device->segment_count; s++)
        births[s] = -1;
    for (int64_t i = work->device->carried_in; i < work->event_count; i++) {
        const plm_event *event = &work->events[i];
        if (event->kind != PLM_EVENT_SEGMENT_ALLOC)
            continue;
        const plm_snapshot_segment *segment = plm__snapshot_find_segment(device, event->address);
        if (segment && segment->address == event->address)
            births[segment - device->segments] = i;
    }
    return PLM_OK;
}

uint32_t plm__start_pool(const plm_start *start, const plm_snapshot_device *device,
                         const plm_event *event)
{
    int64_t count;
    if (event->pool != 0 || !start->infers_pools)
        return event->pool;
    const plm_snapshot_segment *segment = plm__snapshot_find_segment(device, event->address);
    const plm_event *events = plm_trace_events(device->trace, &count);
    int64_t birth = segment ? start->births[segment - device->segments] : -1;
    bool is_before = birth >= 0 && (event < events + birth || event >= events + count);
    return segment && !is_before ? segment->pool : 0;
}

plm_status plm__start_create(const plm_snapshot_device *device, const plm_pool_settings *settings,
                             size_t total_bytes, const size_t *sizes, plm_start *start)
{
    start_work work = {.device = device,
                       .settings = settings,
                       .total_bytes = total_bytes,
                       .sizes = sizes,
                       .start = start};
    plm_status status;
    work.events = plm_trace_events(device->trace, &work.event_count);
    int64_t block_count = plm__trace_block_count(device->trace);
    memset(start, 0, sizeof *start);
    PLM_TRY_DONE(find_pending(&work, block_count));
    PLM_TRY_DONE(find_held(&work, block_count));
    see_ends(&work);
    PLM_TRY_DONE(find_plain(&work));
    PLM_TRY_DONE(find_expandable(&work));
    PLM_TRY_DONE(lay_out(&work));
    start->infers_pools = pools_must_be_inferred(&work);
    if (start->infers_pools)
        PLM_TRY_DONE(find_births(&work));
done:
    plm__host_free(work.known_bytes);
    PLM_ARRAY_FREE(&work.ranges);
    PLM_ARRAY_FREE(&work.groups);
    if (status != PLM_OK)
        plm__start_fini(start);
    return status;
}

void plm__start_fini(plm_start *start)
{
    PLM_ARRAY_FREE(&start->blocks);
    PLM_ARRAY_FREE(&start->held);
    plm__host_free(start->pending);
    plm__host_free(start->unsure);
    plm__host_free(start->births);
    memset(start, 0, sizeof *start);
}
