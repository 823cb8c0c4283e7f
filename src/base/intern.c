/* SPDX-License-Identifier: MIT */
/* Interning: a hash table of entries whose bytes lie in chunks that never move. */
#include "base/intern.h"

#include <string.h>

#include "base/size.h"

enum { CHUNK_BYTES = 64 * 1024, SLOTS_AT_START = 256 };

static uint32_t hash_bytes(const char *bytes, size_t count)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, 64 bits folded to 32 */
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return (uint32_t)(hash ^ (hash >> 32));
}

/* The slot that holds these bytes, or the free slot where they belong. */
static uint32_t *find_slot(const plm_intern *intern, const char *bytes, size_t count, uint32_t hash)
{
    uint32_t mask = (uint32_t)intern->slot_count - 1;
    for (uint32_t i = hash & mask;; i = (i + 1) & mask) {
        uint32_t *slot = &intern->slots[i];
        if (*slot == 0)
            return slot;
        const plm_intern_entry *entry = &intern->entries.items[*slot - 1];
        if (entry->hash == hash && entry->count == count && memcmp(entry->bytes, bytes, count) == 0)
            return slot;
    }
}

static plm_status grow_slots(plm_intern *intern)
{
    int64_t grown = intern->slot_count ? intern->slot_count * 2 : SLOTS_AT_START;
    uint32_t *slots = NULL;
    PLM_TRY(plm__host_alloc((size_t)grown * sizeof *slots, &slots));
    uint32_t mask = (uint32_t)grown - 1;
    for (int64_t i = 0; i < intern->entries.count; i++) {
        uint32_t place = intern->entries.items[i].hash & mask;
        while (slots[place])
            place = (place + 1) & mask;
        slots[place] = (uint32_t)i + 1;
    }
    plm__host_free(intern->slots);
    intern->slots = slots;
    intern->slot_count = grown;
    return PLM_OK;
}

/* *copy = room for `count` bytes and a NUL in the last chunk or a new one. */
static plm_status take_bytes(plm_intern *intern, size_t count, char **copy)
{
    if (intern->chunks.count == 0 || count + 1 > intern->chunk_bytes - intern->chunk_used) {
        size_t chunk_bytes = count + 1 > CHUNK_BYTES ? count + 1 : CHUNK_BYTES;
        PLM_TRY(PLM_ARRAY_RESERVE(&intern->chunks, intern->chunks.count + 1));
        char *chunk = NULL;
        PLM_TRY(plm__host_alloc(chunk_bytes, &chunk));
        intern->chunks.items[intern->chunks.count++] = chunk;
        intern->chunk_bytes = chunk_bytes;
        intern->chunk_used = 0;
    }
    *copy = intern->chunks.items[intern->chunks.count - 1] + intern->chunk_used;
    intern->chunk_used += count + 1;
    return PLM_OK;
}

plm_status plm__intern_add(plm_intern *intern, const char *bytes, size_t count, uint32_t *id)
{
    PLM_FAIL_IF(count >= UINT32_MAX || intern->entries.count >= INT32_MAX, PLM_ERROR_OVERFLOW,
                "more strings than a trace can name");
    uint32_t hash = hash_bytes(bytes, count);
    if (intern->slot_count > 0) {
        uint32_t found = *find_slot(intern, bytes, count, hash);
        if (found) {
            *id = found - 1;
            return PLM_OK;
        }
    }
    if ((intern->entries.count + 1) * 2 > intern->slot_count)
        PLM_TRY(grow_slots(intern));
    PLM_TRY(PLM_ARRAY_RESERVE(&intern->entries, intern->entries.count + 1));
    char *copy;
    PLM_TRY(take_bytes(intern, count, &copy));
    if (count > 0)
        memcpy(copy, bytes, count);
    copy[count] = '\0';
    *id = (uint32_t)intern->entries.count;
    *find_slot(intern, bytes, count, hash) = *id + 1;
    intern->entries.items[intern->entries.count++] =
        (plm_intern_entry){copy, (uint32_t)count, hash};
    return PLM_OK;
}

plm_status plm__intern_init(plm_intern *intern)
{
    memset(intern, 0, sizeof *intern);
    uint32_t empty;
    plm_status status = plm__intern_add(intern, "", 0, &empty);
    if (status != PLM_OK)
        plm__intern_fini(intern);
    return status;
}

void plm__intern_fini(plm_intern *intern)
{
    for (int64_t i = 0; i < intern->chunks.count; i++)
        plm__host_free(intern->chunks.items[i]);
    PLM_ARRAY_FREE(&intern->chunks);
    PLM_ARRAY_FREE(&intern->entries);
    plm__host_free(intern->slots);
    memset(intern, 0, sizeof *intern);
}

const char *plm__intern_text(const plm_intern *intern, uint32_t id)
{
    PLM_ASSERT(id < (uint64_t)intern->entries.count);
    return intern->entries.items[id].bytes;
}
