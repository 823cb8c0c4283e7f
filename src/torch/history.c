/* SPDX-License-Identifier: MIT */
/*
 * Pairing by address: a map holds the blocks that live at this point of the walk. A free of an
 * address that is not in it tells of an older block; an alloc of an address that is in it tells of
 * a free that was not recorded.
 */
#include "torch/history.h"

#include <string.h>

/* A map from address to what lives there: open addressing, no tombstones. */

typedef struct live_slot {
    uint64_t address;
    int64_t block;          /* number + 1, 0 for a free slot */
    int64_t free_requested; /* index of that event, -1 while none was seen */
    int64_t birth;          /* index of its event; of older ones -1 - index in older_blocks */
} live_slot;

typedef struct live_map {
    live_slot *slots;
    uint64_t slot_count; /* a power of two, 0 while empty */
    uint64_t used;
} live_map;

static uint64_t home_of(const live_map *map, uint64_t address)
{
    return (address >> 9) * 0x9e3779b97f4a7c15u >> 20 & (map->slot_count - 1);
}

/* The slot of an address, or the free one where it belongs; NULL while the map has no slots. */
static live_slot *find_slot(const live_map *map, uint64_t address)
{
    if (map->slot_count == 0)
        return NULL;
    for (uint64_t i = home_of(map, address);; i = (i + 1) & (map->slot_count - 1))
        if (map->slots[i].block == 0 || map->slots[i].address == address)
            return &map->slots[i];
}

static live_slot *find_live(const live_map *map, uint64_t address)
{
    live_slot *slot = find_slot(map, address);
    return slot && slot->block != 0 ? slot : NULL;
}

static plm_status grow_map(live_map *map)
{
    live_map grown = {.slot_count = map->slot_count ? map->slot_count * 2 : 256, .used = map->used};
    PLM_TRY(plm__host_alloc(grown.slot_count * sizeof *grown.slots, &grown.slots));
    for (uint64_t i = 0; i < map->slot_count; i++)
        if (map->slots[i].block != 0)
            *find_slot(&grown, map->slots[i].address) = map->slots[i];
    plm__host_free(map->slots);
    *map = grown;
    return PLM_OK;
}

/* Room for one more, so that the following insertion cannot fail. */
static plm_status reserve_slot(live_map *map)
{
    return (map->used + 1) * 2 > map->slot_count ? grow_map(map) : PLM_OK;
}

static void insert(live_map *map, uint64_t address, int64_t block, int64_t birth)
{
    live_slot *slot = find_slot(map, address);
    map->used += slot->block == 0;
    *slot = (live_slot){address, block + 1, -1, birth};
}

/* Frees a slot and moves back what had to step over it. */
static void remove_slot(live_map *map, live_slot *slot)
{
    uint64_t mask = map->slot_count - 1, hole = (uint64_t)(slot - map->slots);
    for (uint64_t i = (hole + 1) & mask; map->slots[i].block != 0; i = (i + 1) & mask) {
        uint64_t home = home_of(map, map->slots[i].address);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole].block = 0;
    map->used--;
}

/* The walk. */

typedef struct late_event {
    int64_t before; /* index of the recorded event that it stands before */
    plm_event event;
} late_event;

typedef struct history_walk {
    plm_history_events *events;
    plm_snapshot_history *history;
    live_map blocks;
    live_map segments;
    PLM_ARRAY(plm_event) older_segments;
    PLM_ARRAY(plm_event) older_blocks;
    PLM_ARRAY(late_event) late; /* frees that were not recorded, by rising place */
    int64_t next_block;
    int64_t start;         /* time of the first event */
    uint64_t mapped_bytes; /* by the recorded events, less what they unmapped; may wrap */
} history_walk;

/* A block that lived before recording began. `like` gives its address, bytes and place. */
static plm_status carry_in(history_walk *walk, plm_event like, int32_t owner, int64_t *block)
{
    like.kind = PLM_EVENT_BLOCK_ALLOC;
    like.time = walk->start;
    like.owner = owner;
    like.label = 0;
    like.block = walk->next_block;
    PLM_TRY(reserve_slot(&walk->blocks));
    PLM_TRY(PLM_ARRAY_PUSH(&walk->older_blocks, like));
    insert(&walk->blocks, like.address, walk->next_block, -walk->older_blocks.count);
    walk->history->older_blocks++;
    *block = walk->next_block++;
    return PLM_OK;
}

static const plm_event *birth_of(const history_walk *walk, const live_slot *slot)
{
    return slot->birth >= 0 ? &walk->events->items[slot->birth]
                            : &walk->older_blocks.items[-1 - slot->birth];
}

/*
 * The block in `slot` must be gone before event `at`. When its free was asked for, that is the last
 * moment that is known, and the request stands for the whole; otherwise a free is put in.
 */
static plm_status end_unrecorded(history_walk *walk, live_slot *slot, int64_t at, int64_t time)
{
    walk->history->unrecorded_frees++;
    if (slot->free_requested >= 0) {
        walk->events->items[slot->free_requested].kind = PLM_EVENT_BLOCK_FREE;
    } else {
        late_event put = {.before = at, .event = *birth_of(walk, slot)};
        put.event.kind = PLM_EVENT_BLOCK_FREE;
        put.event.block = slot->block - 1;
        put.event.time = time;
        PLM_TRY(PLM_ARRAY_PUSH(&walk->late, put));
    }
    return PLM_OK;
}

static plm_status meet_alloc(history_walk *walk, int64_t at)
{
    plm_event *event = &walk->events->items[at];
    live_slot *old = find_live(&walk->blocks, event->address);
    if (old)
        PLM_TRY(end_unrecorded(walk, old, at, event->time));
    else
        PLM_TRY(reserve_slot(&walk->blocks));
    event->block = walk->next_block++;
    insert(&walk->blocks, event->address, event->block, at);
    return PLM_OK;
}

static plm_status meet_free(history_walk *walk, int64_t at)
{
    plm_event *event = &walk->events->items[at];
    live_slot *slot = find_live(&walk->blocks, event->address);
    int64_t block;
    if (!slot) {
        PLM_TRY(carry_in(walk, *event, PLM_TRACE_NO_OWNER, &block));
        walk->history->older_freed++;
        slot = find_live(&walk->blocks, event->address);
    }
    event->block = slot->block - 1;
    event->bytes_asked = event->bytes_taken =
        birth_of(walk, slot)->bytes_asked; /* the file may be odd */
    if (event->kind == PLM_EVENT_BLOCK_FREE)
        remove_slot(&walk->blocks, slot);
    else
        slot->free_requested = at;
    return PLM_OK;
}

/* A segment, whole, that was there before recording began. */
static plm_status carry_segment_in(history_walk *walk, plm_event like, plm_event_kind kind)
{
    like.kind = (uint16_t)kind;
    like.time = walk->start;
    like.owner = PLM_TRACE_NO_OWNER;
    like.label = 0;
    like.block = -1;
    walk->history->older_segments++;
    return PLM_ARRAY_PUSH(&walk->older_segments, like);
}

static plm_status meet_segment(history_walk *walk, const plm_event *event)
{
    if (event->kind == PLM_EVENT_SEGMENT_MAP) {
        walk->mapped_bytes += event->bytes_asked;
    } else if (event->kind == PLM_EVENT_SEGMENT_UNMAP) {
        walk->mapped_bytes -= event->bytes_asked;
    } else if (event->kind == PLM_EVENT_SEGMENT_ALLOC) {
        PLM_TRY(reserve_slot(&walk->segments));
        insert(&walk->segments, event->address, 0, 0);
    } else {
        live_slot *slot = find_live(&walk->segments, event->address);
        if (!slot)
            return carry_segment_in(walk, *event, PLM_EVENT_SEGMENT_ALLOC);
        remove_slot(&walk->segments, slot);
    }
    return PLM_OK;
}

static plm_status meet(history_walk *walk, int64_t at)
{
    switch (walk->events->items[at].kind) {
    case PLM_EVENT_BLOCK_ALLOC:
        return meet_alloc(walk, at);
    case PLM_EVENT_BLOCK_FREE_REQUESTED:
    case PLM_EVENT_BLOCK_FREE:
        return meet_free(walk, at);
    case PLM_EVENT_SEGMENT_ALLOC:
    case PLM_EVENT_SEGMENT_FREE:
    case PLM_EVENT_SEGMENT_MAP:
    case PLM_EVENT_SEGMENT_UNMAP:
        return meet_segment(walk, &walk->events->items[at]);
    default:
        return PLM_OK;
    }
}

/* Whether any event has a time, and the first one's. */
static void find_start(history_walk *walk)
{
    const plm_history_events *events = walk->events;
    int64_t first = 0;
    while (first < events->count && events->items[first].time < 0)
        first++;
    walk->history->timed = first < events->count;
    walk->start = walk->history->timed ? events->items[first].time : 0;
}

/* Owner and label of an event become those of the trace. */
static plm_status carry(plm_owner_map *owners, plm_event *event)
{
    if (event->owner != PLM_TRACE_NO_OWNER)
        PLM_TRY(plm__owner_map_carry(owners, &event->owner));
    return event->label != 0 ? plm__owner_map_carry_text(owners, &event->label) : PLM_OK;
}

/* One pass over all events; times never fall, and without times events are numbered. */
static plm_status meet_all(history_walk *walk, const plm_history_state *state)
{
    plm_history_events *events = walk->events;
    int64_t last = walk->start;
    for (int64_t i = 0; i < events->count; i++) {
        plm_event *event = &events->items[i];
        int64_t time = walk->history->timed ? event->time : i;
        last = time > last ? time : last;
        event->time = last;
        event->device = state->device;
        walk->history->recorded |= event->kind != PLM_EVENT_SNAPSHOT;
        PLM_TRY(carry(state->owners, event));
        PLM_TRY(meet(walk, i));
    }
    return PLM_OK;
}

/* The end: what the state holds must live, what it does not hold must be gone. */

static plm_event event_of_block(const plm_snapshot_segment *segment,
                                const plm_snapshot_block *block)
{
    return (plm_event){.address = block->address,
                       .bytes_asked = block->bytes_asked,
                       .bytes_taken = block->bytes_asked,
                       .device = (uint16_t)segment->device,
                       .queue = segment->queue,
                       .pool = segment->pool};
}

static plm_status match_segment(history_walk *walk, const plm_snapshot_segment *segment,
                                plm_snapshot_block *blocks)
{
    for (int64_t i = 0; i < segment->block_count; i++) {
        plm_snapshot_block *block = &blocks[segment->block + i];
        block->block = -1;
        if (block->state == PLM_BLOCK_INACTIVE)
            continue;
        live_slot *slot = find_live(&walk->blocks, block->address);
        if (slot)
            block->block = slot->block - 1;
        else
            PLM_TRY(carry_in(walk, event_of_block(segment, block), block->owner, &block->block));
    }
    if (segment->expandable) {
        walk->mapped_bytes -= segment->bytes;
        return PLM_OK;
    }
    plm_event like = {.address = segment->address,
                      .bytes_asked = segment->bytes,
                      .bytes_taken = segment->bytes,
                      .device = (uint16_t)segment->device,
                      .queue = segment->queue,
                      .pool = segment->pool};
    return find_live(&walk->segments, segment->address)
               ? PLM_OK
               : carry_segment_in(walk, like, PLM_EVENT_SEGMENT_ALLOC);
}

/* Blocks that the walk holds alive and the state does not: `held` marks the ones it does. */
static plm_status end_vanished(history_walk *walk, const plm_history_state *state, int64_t end_time)
{
    uint8_t *held = NULL;
    PLM_TRY(plm__host_alloc((size_t)walk->next_block, &held));
    for (int64_t s = 0; s < state->segment_count; s++)
        for (int64_t i = 0; i < state->segments[s].block_count; i++) {
            int64_t block = state->blocks[state->segments[s].block + i].block;
            if (block >= 0)
                held[block] = 1;
        }
    plm_status status = PLM_OK;
    for (uint64_t i = 0; i < walk->blocks.slot_count && status == PLM_OK; i++) {
        live_slot *slot = &walk->blocks.slots[i];
        if (slot->block != 0 && !held[slot->block - 1])
            status = end_unrecorded(walk, slot, walk->events->count, end_time);
    }
    plm__host_free(held);
    return status;
}

static plm_status match_state(history_walk *walk, const plm_history_state *state)
{
    int64_t end_time =
        walk->events->count > 0 ? walk->events->items[walk->events->count - 1].time : walk->start;
    for (int64_t i = 0; i < state->segment_count; i++)
        PLM_TRY(match_segment(walk, &state->segments[i], state->blocks));
    uint64_t older = 0 - walk->mapped_bytes; /* mapped now, and by no recorded event */
    plm_event like = {.bytes_asked = older, .bytes_taken = older, .device = state->device};
    if (older != 0 && older <= INT64_MAX) /* where it lay is not worked out: address 0 */
        PLM_TRY(carry_segment_in(walk, like, PLM_EVENT_SEGMENT_MAP));
    return state->segment_count > 0 ? end_vanished(walk, state, end_time) : PLM_OK;
}

/* Moves the recorded events up, from the last stretch on, and puts the others between and before.
 */
static plm_status put_all_in(history_walk *walk)
{
    plm_history_events *events = walk->events;
    int64_t segments = walk->older_segments.count, blocks = walk->older_blocks.count;
    int64_t front = segments + blocks, late = walk->late.count, end = events->count;
    if (front + late == 0)
        return PLM_OK;
    PLM_TRY(PLM_ARRAY_RESERVE(events, end + front + late));
    events->count += front + late;
    for (int64_t k = late - 1; k >= 0; k--) {
        int64_t before = walk->late.items[k].before;
        plm_event *place = events->items + before + front + k;
        memmove(place + 1, events->items + before, (size_t)(end - before) * sizeof *place);
        *place = walk->late.items[k].event;
        end = before;
    }
    memmove(events->items + front, events->items, (size_t)end * sizeof *events->items);
    if (segments > 0)
        memcpy(events->items, walk->older_segments.items, (size_t)segments * sizeof *events->items);
    if (blocks > 0)
        memcpy(events->items + segments, walk->older_blocks.items,
               (size_t)blocks * sizeof *events->items);
    return PLM_OK;
}

plm_status plm__history_complete(plm_history_events *events, const plm_history_state *state,
                                 plm_snapshot_history *history, int64_t *carried_in)
{
    history_walk walk = {.events = events, .history = history};
    plm_status status = PLM_OK;
    history->recorded = false;
    find_start(&walk);
    PLM_TRY_DONE(meet_all(&walk, state));
    PLM_TRY_DONE(match_state(&walk, state));
    PLM_TRY_DONE(put_all_in(&walk));
    history->complete = history->recorded && history->older_blocks == 0 &&
                        history->older_segments == 0 && history->unrecorded_frees == 0;
    *carried_in = walk.older_segments.count + walk.older_blocks.count;
done:
    plm__host_free(walk.blocks.slots);
    plm__host_free(walk.segments.slots);
    PLM_ARRAY_FREE(&walk.older_segments);
    PLM_ARRAY_FREE(&walk.older_blocks);
    PLM_ARRAY_FREE(&walk.late);
    return status;
}
