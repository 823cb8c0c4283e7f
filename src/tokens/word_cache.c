/* SPDX-License-Identifier: MIT */
/* Open addressing, filled to three quarters at most. */
#include "tokens/word_cache.h"

#include <string.h>

static uint32_t mark_of(uint64_t hash)
{
    return (uint32_t)(hash >> 32) | 1;
}

static plm_word_slot *slot_of(const plm_word_cache *cache, uint64_t hash, const char *word,
                              int64_t count)
{
    uint32_t mark = mark_of(hash);
    for (uint64_t at = hash;; at++) {
        plm_word_slot *slot = &cache->slots[at % PLM_WORD_CACHE_SLOTS];
        if (slot->mark == 0 || (slot->mark == mark && slot->word_count == count &&
                                memcmp(cache->bytes.items + slot->start, word, (size_t)count) == 0))
            return slot;
    }
}

plm_status plm__word_cache_find(const plm_word_cache *cache, uint64_t hash, const char *word,
                                int64_t count, plm_model_tokens *tokens, bool *known)
{
    *known = false;
    if (!cache->slots)
        return PLM_OK;
    const plm_word_slot *slot = slot_of(cache, hash, word, count);
    if (slot->mark == 0)
        return PLM_OK;
    PLM_TRY(PLM_ARRAY_RESERVE(tokens, tokens->count + slot->token_count));
    for (int i = 0; i < slot->token_count; i++)
        tokens->items[tokens->count++] = cache->tokens.items[slot->first + (uint32_t)i];
    *known = true;
    return PLM_OK;
}

plm_status plm__word_cache_keep(plm_word_cache *cache, uint64_t hash, const char *word,
                                int64_t count, const plm_model_tokens *tokens, int64_t first)
{
    int64_t token_count = tokens->count - first;
    if (!cache->slots)
        PLM_TRY(plm__host_alloc(PLM_WORD_CACHE_SLOTS * sizeof *cache->slots, &cache->slots));
    if (cache->used >= PLM_WORD_CACHE_SLOTS / 4 * 3 ||
        cache->tokens.count + token_count > PLM_WORD_CACHE_TOKENS ||
        cache->bytes.count + count > PLM_WORD_CACHE_BYTES) {
        memset(cache->slots, 0, PLM_WORD_CACHE_SLOTS * sizeof *cache->slots);
        cache->used = cache->tokens.count = cache->bytes.count = 0;
    }
    PLM_TRY(PLM_ARRAY_RESERVE(&cache->bytes, cache->bytes.count + count));
    PLM_TRY(PLM_ARRAY_RESERVE(&cache->tokens, cache->tokens.count + token_count));
    plm_word_slot *slot = slot_of(cache, hash, word, count);
    *slot = (plm_word_slot){.mark = mark_of(hash),
                            .start = (uint32_t)cache->bytes.count,
                            .first = (uint32_t)cache->tokens.count,
                            .word_count = (uint16_t)count,
                            .token_count = (uint16_t)token_count};
    memcpy(cache->bytes.items + cache->bytes.count, word, (size_t)count);
    cache->bytes.count += count;
    for (int64_t i = first; i < tokens->count; i++)
        cache->tokens.items[cache->tokens.count++] = tokens->items[i];
    cache->used++;
    return PLM_OK;
}

void plm__word_cache_fini(plm_word_cache *cache)
{
    plm__host_free(cache->slots);
    PLM_ARRAY_FREE(&cache->bytes);
    PLM_ARRAY_FREE(&cache->tokens);
    memset(cache, 0, sizeof *cache);
}
