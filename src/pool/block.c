/* SPDX-License-Identifier: MIT */
/* Where blocks come from (the slab) and how they are found again (the map from addresses). */
#include "pool/pool_internal.h"

plm_status plm__slab_reserve(plm__slab *slab, int64_t count)
{
    while (slab->spare_count < count) {
        PLM_TRY(PLM_ARRAY_RESERVE(&slab->chunks, slab->chunks.count + 1));
        plm__block *chunk = NULL;
        PLM_TRY(plm__host_alloc(PLM__SLAB_BLOCKS * sizeof *chunk, &chunk));
        slab->chunks.items[slab->chunks.count++] = chunk;
        for (int i = PLM__SLAB_BLOCKS - 1; i >= 0; i--)
            plm__slab_give(slab, &chunk[i]);
    }
    return PLM_OK;
}

plm__block *plm__slab_take(plm__slab *slab)
{
    plm__block *block = slab->spare;
    PLM_ASSERT(block);
    slab->spare = block->next;
    slab->spare_count--;
    return block;
}

void plm__slab_give(plm__slab *slab, plm__block *block)
{
    block->next = slab->spare;
    slab->spare = block;
    slab->spare_count++;
}

void plm__slab_fini(plm__slab *slab)
{
    for (int64_t i = 0; i < slab->chunks.count; i++)
        plm__host_free(slab->chunks.items[i]);
    PLM_ARRAY_FREE(&slab->chunks);
}

enum { MAP_SLOTS_AT_START = 1024 };

/* Fibonacci hashing; the low bits of an address are the same in all. */
static inline int64_t home_of(const plm__map *map, uint64_t address)
{
    return (int64_t)((address / PLM_POOL_BLOCK_BYTES * 0x9E3779B97F4A7C15u) >> map->shift);
}

/* The slot of this address, or the free slot where it belongs. */
static inline plm__map_slot *slot_of(const plm__map *map, uint64_t address)
{
    int64_t at = home_of(map, address);
    while (map->slots[at].address != address && map->slots[at].address != 0)
        at = (at + 1) & (map->slot_count - 1);
    return &map->slots[at];
}

static plm_status double_slots(plm__map *map)
{
    plm__map grown = {.slot_count = map->slot_count ? map->slot_count * 2 : MAP_SLOTS_AT_START,
                      .count = map->count};
    grown.shift = 64 - __builtin_ctzll((uint64_t)grown.slot_count);
    PLM_TRY(plm__host_alloc((size_t)grown.slot_count * sizeof *grown.slots, &grown.slots));
    for (int64_t i = 0; i < map->slot_count; i++)
        if (map->slots[i].address != 0)
            *slot_of(&grown, map->slots[i].address) = map->slots[i];
    plm__host_free(map->slots);
    *map = grown;
    return PLM_OK;
}

plm_status plm__map_reserve(plm__map *map, int64_t more)
{
    while ((map->count + more) * 2 > map->slot_count)
        PLM_TRY(double_slots(map));
    return PLM_OK;
}

void plm__map_insert(plm__map *map, plm__block *block)
{
    *slot_of(map, block->address) = (plm__map_slot){block->address, block};
    map->count++;
}

plm__map_slot *plm__map_find(const plm__map *map, uint64_t address)
{
    if (map->slot_count == 0 || address == 0)
        return NULL;
    plm__map_slot *slot = slot_of(map, address);
    return slot->address ? slot : NULL;
}

/* Closes the gap: an entry further on that could not have its home because of this one moves up. */
void plm__map_remove(plm__map *map, plm__map_slot *slot)
{
    int64_t mask = map->slot_count - 1, gap = slot - map->slots;
    for (int64_t at = (gap + 1) & mask; map->slots[at].address != 0; at = (at + 1) & mask) {
        int64_t home = home_of(map, map->slots[at].address);
        if (((at - home) & mask) < ((at - gap) & mask))
            continue;
        map->slots[gap] = map->slots[at];
        gap = at;
    }
    map->slots[gap] = (plm__map_slot){0, NULL};
    map->count--;
}
