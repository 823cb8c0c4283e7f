/* SPDX-License-Identifier: MIT */
/* A hash table of texts, and the ids in order. */
#include "tokens/vocabulary.h"

#include <string.h>

static uint64_t mix(uint64_t a, uint64_t b)
{
    a = (a ^ b) * 0x9e3779b97f4a7c15u;
    return a ^ a >> 29;
}

uint64_t plm__token_hash(const char *bytes, int64_t count)
{
    uint64_t hash = (uint64_t)count * 0xff51afd7ed558ccdu, word;
    for (; count >= 8; bytes += 8, count -= 8) {
        memcpy(&word, bytes, 8);
        hash = mix(hash, word);
    }
    word = 0;
    if (count > 0)
        memcpy(&word, bytes, (size_t)count);
    hash = mix(hash, word);
    return hash ^ hash >> 32;
}

/* The slot of a text: the one that holds it, or the free one where it would be. */
static int64_t slot_of(const plm_vocabulary *v, const char *bytes, int64_t count)
{
    uint64_t mask = (uint64_t)v->slot_count - 1;
    for (uint64_t slot = plm__token_hash(bytes, count) & mask;; slot = (slot + 1) & mask) {
        if (v->slots[slot] == 0)
            return (int64_t)slot;
        const plm_token_entry *entry = &v->entries.items[v->slots[slot] - 1];
        if (entry->count == count &&
            memcmp(v->bytes.items + entry->start, bytes, (size_t)count) == 0)
            return (int64_t)slot;
    }
}

plm_status plm__vocabulary_reserve(plm_vocabulary *vocabulary, int64_t count)
{
    int64_t wanted = 64;
    while (wanted < 2 * count)
        wanted *= 2;
    if (wanted <= vocabulary->slot_count)
        return PLM_OK;
    int32_t *slots = NULL;
    PLM_TRY(plm__host_alloc((size_t)wanted * sizeof *slots, &slots));
    plm__host_free(vocabulary->slots);
    vocabulary->slots = slots;
    vocabulary->slot_count = wanted;
    for (int64_t i = 0; i < vocabulary->entries.count; i++) {
        const plm_token_entry *entry = &vocabulary->entries.items[i];
        slots[slot_of(vocabulary, vocabulary->bytes.items + entry->start, entry->count)] =
            (int32_t)i + 1;
    }
    return PLM_OK;
}

plm_status plm__vocabulary_add(plm_vocabulary *vocabulary, const char *bytes, int64_t count,
                               int32_t id)
{
    plm_vocabulary *v = vocabulary;
    PLM_TRY(plm__vocabulary_reserve(v, v->entries.count + 1));
    int64_t slot = slot_of(v, bytes, count);
    if (v->slots[slot] != 0) {
        v->entries.items[v->slots[slot] - 1].id = id;
        return PLM_OK;
    }
    PLM_TRY(PLM_ARRAY_RESERVE(&v->bytes, v->bytes.count + count + 1));
    plm_token_entry entry = {.start = v->bytes.count, .count = (int32_t)count, .id = id};
    PLM_TRY(PLM_ARRAY_PUSH(&v->entries, entry));
    if (count > 0)
        memcpy(v->bytes.items + v->bytes.count, bytes, (size_t)count);
    v->bytes.items[v->bytes.count + count] = '\0';
    v->bytes.count += count + 1;
    v->slots[slot] = (int32_t)v->entries.count;
    if (count > v->longest)
        v->longest = (int32_t)count;
    return PLM_OK;
}

typedef struct id_place {
    int32_t id, entry;
} id_place;

static int by_id_then_place(const void *a, const void *b)
{
    const id_place *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->entry < y->entry ? -1 : x->entry > y->entry;
}

plm_status plm__vocabulary_finish(plm_vocabulary *vocabulary)
{
    plm_vocabulary *v = vocabulary;
    PLM_ARRAY(id_place) places = {0};
    plm_status status = PLM_OK;
    PLM_TRY_DONE(PLM_ARRAY_RESERVE(&places, v->entries.count));
    PLM_TRY_DONE(PLM_ARRAY_RESERVE(&v->by_id, v->entries.count));
    for (int64_t i = 0; i < v->entries.count; i++)
        places.items[places.count++] = (id_place){v->entries.items[i].id, (int32_t)i};
    PLM_ARRAY_SORT(&places, by_id_then_place);
    v->by_id.count = 0;
    for (int64_t i = 0; i < places.count; i++)
        if (i + 1 == places.count || places.items[i + 1].id != places.items[i].id)
            v->by_id.items[v->by_id.count++] = places.items[i].entry;
done:
    PLM_ARRAY_FREE(&places);
    return status;
}

void plm__vocabulary_fini(plm_vocabulary *vocabulary)
{
    PLM_ARRAY_FREE(&vocabulary->bytes);
    PLM_ARRAY_FREE(&vocabulary->entries);
    PLM_ARRAY_FREE(&vocabulary->by_id);
    plm__host_free(vocabulary->slots);
    vocabulary->slots = NULL;
    vocabulary->slot_count = 0;
}

int32_t plm__vocabulary_find(const plm_vocabulary *vocabulary, const char *bytes, int64_t count)
{
    if (count > vocabulary->longest || vocabulary->slot_count == 0)
        return PLM_TOKEN_NONE;
    int32_t entry = vocabulary->slots[slot_of(vocabulary, bytes, count)];
    return entry ? vocabulary->entries.items[entry - 1].id : PLM_TOKEN_NONE;
}

int32_t plm__vocabulary_place(const plm_vocabulary *vocabulary, int32_t id)
{
    const plm_vocabulary *v = vocabulary;
    int64_t low = 0, high = v->by_id.count; /* ids are mostly their own places */
    if (id >= 0 && id < high && v->entries.items[v->by_id.items[id]].id == id)
        return v->by_id.items[id];
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        *(v->entries.items[v->by_id.items[middle]].id <= id ? &low : &high) = middle;
    }
    bool is_there = low < high && v->entries.items[v->by_id.items[low]].id == id;
    return is_there ? v->by_id.items[low] : -1;
}

const char *plm__vocabulary_text(const plm_vocabulary *vocabulary, int32_t id, int64_t *count)
{
    int32_t place = plm__vocabulary_place(vocabulary, id);
    if (place < 0)
        return NULL;
    *count = vocabulary->entries.items[place].count;
    return vocabulary->bytes.items + vocabulary->entries.items[place].start;
}

int64_t plm__vocabulary_count(const plm_vocabulary *vocabulary)
{
    return vocabulary->entries.count;
}

int32_t plm__vocabulary_limit(const plm_vocabulary *vocabulary)
{
    int64_t count = vocabulary->by_id.count;
    return count ? vocabulary->entries.items[vocabulary->by_id.items[count - 1]].id + 1 : 0;
}
