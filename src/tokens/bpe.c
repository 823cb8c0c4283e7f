/* SPDX-License-Identifier: MIT */
/*
 * Byte pair encoding: a word begins as its characters, and of the neighbours that may be merged the
 * pair of lowest rank, leftmost first, is merged until none is left. Candidates wait in a heap, so
 * a word of n characters takes n log n.
 *
 * A word may be a whole text where nothing cuts it before. It is cut here between two characters
 * that stand side by side in no token that a merge makes: no merge can ever join them, so the parts
 * are what they would be in the whole word, and short ones are found among the words seen before.
 */
#include "tokens/model.h"

#include <string.h>

#include "base/text.h"
#include "tokens/unicode.h"

enum {
    DIRECT_POINTS = 0x800, /* characters whose ids stand in a table */
    WHOLE_BYTES = 32,      /* a word of so many is not cut */
    POINT_BITS = 21,
    SHOWN_BYTES = 40 /* of a token in a message */
};

typedef struct merge {
    uint64_t pair; /* left id << 32 | right id */
    uint32_t rank;
    int32_t id; /* that it makes */
} merge;

#define NO_PAIR UINT64_MAX

/* A set of 64-bit keys, or a map from them: open addressing, NO_PAIR is free. */
typedef struct bpe {
    merge *merges;
    int64_t merge_slots;
    PLM_ARRAY(int32_t) made; /* ids by rank */
    uint64_t *joined;        /* characters side by side in a token: first << POINT_BITS | second */
    int64_t joined_slots, joined_count;
    int32_t points[DIRECT_POINTS];
    char prefix[PLM_PART_TEXT_MAX], suffix[PLM_PART_TEXT_MAX];
    int64_t prefix_count, suffix_count;
    bool fuses_unknown;  /* unknown characters side by side are one token */
    bool ignores_merges; /* a word that is a token is that token */
} bpe;

static void destroy(void *own)
{
    bpe *b = own;
    if (!b)
        return;
    plm__host_free(b->merges);
    PLM_ARRAY_FREE(&b->made);
    plm__host_free(b->joined);
    plm__host_free(b);
}

static uint64_t spread(uint64_t key)
{
    key *= 0x9e3779b97f4a7c15u;
    return key ^ key >> 32;
}

static merge *merge_slot(const bpe *b, uint64_t pair)
{
    uint64_t mask = (uint64_t)b->merge_slots - 1, at = spread(pair) & mask;
    while (b->merges[at].pair != NO_PAIR && b->merges[at].pair != pair)
        at = (at + 1) & mask;
    return &b->merges[at];
}

static const merge *find_merge(const bpe *b, int32_t left, int32_t right)
{
    const merge *found = merge_slot(b, (uint64_t)(uint32_t)left << 32 | (uint32_t)right);
    return found->pair == NO_PAIR ? NULL : found;
}

/* Reading. */

static uint64_t *joined_slot(const bpe *b, uint64_t key)
{
    uint64_t mask = (uint64_t)b->joined_slots - 1, at = spread(key) & mask;
    while (b->joined[at] != NO_PAIR && b->joined[at] != key)
        at = (at + 1) & mask;
    return &b->joined[at];
}

static plm_status make_keys(int64_t count, uint64_t **keys)
{
    PLM_TRY(plm__host_alloc((size_t)count * sizeof **keys, keys));
    memset(*keys, 0xff, (size_t)count * sizeof **keys);
    return PLM_OK;
}

static plm_status add_joined(bpe *b, uint64_t key)
{
    if (2 * (b->joined_count + 1) > b->joined_slots) {
        uint64_t *old = b->joined, *grown = NULL;
        int64_t old_slots = b->joined_slots;
        PLM_TRY(make_keys(old_slots ? 2 * old_slots : 1024, &grown));
        b->joined = grown;
        b->joined_slots = old_slots ? 2 * old_slots : 1024;
        for (int64_t i = 0; i < old_slots; i++)
            if (old[i] != NO_PAIR)
                *joined_slot(b, old[i]) = old[i];
        plm__host_free(old);
    }
    uint64_t *slot = joined_slot(b, key);
    b->joined_count += *slot == NO_PAIR;
    *slot = key;
    return PLM_OK;
}

/* Every two characters side by side in a token. */
static plm_status join_characters(bpe *b, const char *text, int64_t count)
{
    int length;
    uint32_t last = 0;
    for (int64_t at = 0; at < count; at += length) {
        uint32_t point = plm__unicode_next(text + at, &length);
        if (at > 0)
            PLM_TRY(add_joined(b, (uint64_t)last << POINT_BITS | point));
        last = point;
    }
    return PLM_OK;
}

/* The two halves of a row of `merges`: ["a", "b"], or "a b" in older files. */
typedef struct halves {
    const char *left, *right;
    int64_t left_count, right_count;
} halves;

static bool read_halves(const json_t *row, halves *h)
{
    if (json_is_array(row) && json_array_size(row) == 2) {
        const json_t *left = json_array_get(row, 0), *right = json_array_get(row, 1);
        if (!json_is_string(left) || !json_is_string(right))
            return false;
        *h = (halves){json_string_value(left), json_string_value(right),
                      (int64_t)json_string_length(left), (int64_t)json_string_length(right)};
        return true;
    }
    const char *text = json_string_value(row), *blank = text ? strchr(text, ' ') : NULL;
    if (!blank || strchr(blank + 1, ' '))
        return false;
    *h = (halves){text, blank + 1, blank - text, (int64_t)strlen(blank + 1)};
    return true;
}

static plm_status refuse_merge(const plm_part *part, int64_t rank, const halves *h)
{
    int left = (int)(h->left_count < SHOWN_BYTES ? h->left_count : SHOWN_BYTES);
    int right = (int)(h->right_count < SHOWN_BYTES ? h->right_count : SHOWN_BYTES);
    return plm_fail(PLM_ERROR_FORMAT,
                    "%s: wanted merges of tokens that make tokens, found in model.merges[%lld] "
                    "'%.*s' and '%.*s', which are not all in the vocabulary",
                    part->file, (long long)rank, left, h->left, right, h->right);
}

static plm_status read_merge(const plm_part *part, plm_model *model, int64_t rank,
                             const json_t *row, plm_text *text)
{
    bpe *b = model->own;
    halves h;
    if (!read_halves(row, &h))
        return plm__part_refuse(part, "merges", "pairs of tokens", row);
    int64_t skipped = h.right_count < b->prefix_count ? h.right_count : b->prefix_count;
    text->count = 0;
    plm__text_add_bytes(text, h.left, h.left_count);
    plm__text_add_bytes(text, h.right + skipped, h.right_count - skipped);
    PLM_TRY(plm__text_status(text));
    int32_t left = plm__vocabulary_find(&model->vocabulary, h.left, h.left_count);
    int32_t right = plm__vocabulary_find(&model->vocabulary, h.right, h.right_count);
    int32_t id = plm__vocabulary_find(&model->vocabulary, text->items, text->count);
    if (left == PLM_TOKEN_NONE || right == PLM_TOKEN_NONE || id == PLM_TOKEN_NONE)
        return refuse_merge(part, rank, &h);
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    *merge_slot(b, pair) = (merge){.pair = pair, .rank = (uint32_t)rank, .id = id};
    PLM_TRY(PLM_ARRAY_PUSH(&b->made, id));
    return join_characters(b, text->items, text->count);
}

static plm_status read_merges(const plm_part *part, plm_model *model)
{
    bpe *b = model->own;
    const json_t *rows = NULL;
    plm_text text = {0};
    plm_status status = PLM_OK;
    PLM_TRY(plm__part_array(part, "merges", &rows));
    int64_t count = (int64_t)json_array_size(rows);
    if (count >= PLM_TOKEN_ID_MAX)
        return plm__part_refuse(part, "merges", "fewer than 2^28 merges", rows);
    b->merge_slots = 64;
    while (b->merge_slots < 2 * count)
        b->merge_slots *= 2;
    PLM_TRY(plm__host_alloc((size_t)b->merge_slots * sizeof *b->merges, &b->merges));
    for (int64_t i = 0; i < b->merge_slots; i++)
        b->merges[i].pair = NO_PAIR;
    for (int64_t i = 0; i < count; i++)
        PLM_TRY_DONE(read_merge(part, model, i, json_array_get(rows, (size_t)i), &text));
done:
    plm__text_fini(&text);
    return status;
}

static plm_status read_affix(const plm_part *part, const char *key, char affix[PLM_PART_TEXT_MAX],
                             int64_t *count)
{
    const char *text;
    PLM_TRY(plm__part_text(part, key, false, &text, count));
    if (text)
        memcpy(affix, text, (size_t)*count);
    return PLM_OK;
}

static plm_status read_dropout(const plm_part *part)
{
    const json_t *dropout = json_object_get(part->object, "dropout");
    if (!dropout || json_is_null(dropout) || json_number_value(dropout) == 0)
        return PLM_OK;
    return plm_fail(PLM_ERROR_UNSUPPORTED,
                    "%s: wanted a model that always cuts a word alike, found model.dropout; set "
                    "it to null",
                    part->file);
}

static plm_status read(const plm_part *part, plm_model *model)
{
    bpe *b = NULL;
    PLM_TRY(plm__host_alloc(sizeof *b, &b));
    model->own = b;
    PLM_TRY(read_dropout(part));
    PLM_TRY(plm__part_bool(part, "fuse_unk", &b->fuses_unknown));
    PLM_TRY(plm__part_bool(part, "byte_fallback", &model->falls_back));
    PLM_TRY(plm__part_bool(part, "ignore_merges", &b->ignores_merges));
    PLM_TRY(read_affix(part, "continuing_subword_prefix", b->prefix, &b->prefix_count));
    PLM_TRY(read_affix(part, "end_of_word_suffix", b->suffix, &b->suffix_count));
    PLM_TRY(plm__model_read_vocabulary(part, model));
    PLM_TRY(plm__model_read_unknown(part, model));
    PLM_TRY(read_merges(part, model));
    plm__model_find_bytes(model);
    for (uint32_t point = 0; point < DIRECT_POINTS; point++) {
        char bytes[4];
        b->points[point] =
            plm__vocabulary_find(&model->vocabulary, bytes, plm__unicode_put(point, bytes));
    }
    return PLM_OK;
}

/* Encoding. */

/* The id of a character alone. */
static int32_t character_id(const plm_model *model, uint32_t point, const char *bytes, int length)
{
    const bpe *b = model->own;
    return point < DIRECT_POINTS ? b->points[point]
                                 : plm__vocabulary_find(&model->vocabulary, bytes, length);
}

/* The id of a character of a word, with the prefix of those that do not begin it and the suffix of
 * the one that ends it. */
static plm_status affixed_id(const plm_model *model, plm_model_work *work, const char *bytes,
                             int length, bool is_first, bool is_last, int32_t *id)
{
    const bpe *b = model->own;
    int64_t before = is_first ? 0 : b->prefix_count, behind = is_last ? b->suffix_count : 0;
    PLM_TRY(PLM_ARRAY_RESERVE(&work->text, before + length + behind));
    memcpy(work->text.items, b->prefix, (size_t)before);
    memcpy(work->text.items + before, bytes, (size_t)length);
    memcpy(work->text.items + before + length, b->suffix, (size_t)behind);
    *id = plm__vocabulary_find(&model->vocabulary, work->text.items, before + length + behind);
    return PLM_OK;
}

static plm_status push_symbol(plm_model_work *work, int32_t id, int64_t count)
{
    plm_symbol symbol = {.id = id, .count = (int32_t)count};
    PLM_TRY(PLM_ARRAY_PUSH(&work->symbols, symbol));
    return PLM_OK;
}

/* Unknown bytes that wait: their token is put down when a known character follows. */
static plm_status push_waiting(const plm_model *model, plm_model_work *work, int64_t *waiting)
{
    int64_t count = *waiting;
    *waiting = 0;
    return count > 0 ? push_symbol(work, model->unknown, count) : PLM_OK;
}

/* A character that is no token: its bytes, the token for unknown ones, or nothing at all. As in the
 * reference, bytes do not wait for an unknown character before them. */
static plm_status push_unknown(const plm_model *model, plm_model_work *work, const char *bytes,
                               int length, int64_t *waiting)
{
    const bpe *b = model->own;
    if (plm__model_has_bytes(model, bytes, length)) {
        for (int i = 0; i < length; i++)
            PLM_TRY(push_symbol(work, model->byte_ids[(uint8_t)bytes[i]], 1));
        return PLM_OK;
    }
    if (!model->names_unknown)
        return PLM_OK;
    if (model->unknown == PLM_TOKEN_NONE)
        return plm__model_lacks(bytes, length);
    if (!b->fuses_unknown)
        PLM_TRY(push_waiting(model, work, waiting));
    *waiting += length;
    return PLM_OK;
}

/* work->symbols becomes the characters of a word. */
static plm_status begin_symbols(const plm_model *model, plm_model_work *work, const char *word,
                                int64_t count)
{
    const bpe *b = model->own;
    bool has_affixes = b->prefix_count > 0 || b->suffix_count > 0;
    int64_t waiting = 0;
    int length;
    work->symbols.count = 0;
    for (int64_t at = 0; at < count; at += length) {
        uint32_t point = plm__unicode_next(word + at, &length);
        int32_t id = PLM_TOKEN_NONE;
        if (has_affixes)
            PLM_TRY(affixed_id(model, work, word + at, length, at == 0, at + length == count, &id));
        else
            id = character_id(model, point, word + at, length);
        if (id == PLM_TOKEN_NONE) {
            PLM_TRY(push_unknown(model, work, word + at, length, &waiting));
            continue;
        }
        PLM_TRY(push_waiting(model, work, &waiting));
        PLM_TRY(push_symbol(work, id, length));
    }
    PLM_TRY(push_waiting(model, work, &waiting));
    for (int64_t i = 0; i < work->symbols.count; i++) {
        work->symbols.items[i].previous = (int32_t)i - 1;
        work->symbols.items[i].next = i + 1 < work->symbols.count ? (int32_t)i + 1 : -1;
    }
    return PLM_OK;
}

/* The heap: four children a node, the least key first; a key is rank << 32 | place. */

static void sift_down(uint64_t *heap, int64_t count, int64_t at)
{
    uint64_t key = heap[at];
    for (int64_t child; (child = 4 * at + 1) < count; at = child) {
        int64_t end = child + 4 < count ? child + 4 : count;
        for (int64_t i = child + 1; i < end; i++)
            if (heap[i] < heap[child])
                child = i;
        if (heap[child] >= key)
            break;
        heap[at] = heap[child];
    }
    heap[at] = key;
}

static plm_status heap_push(plm_model_work *work, uint64_t key)
{
    PLM_TRY(PLM_ARRAY_PUSH(&work->heap, key));
    uint64_t *heap = work->heap.items;
    int64_t at = work->heap.count - 1;
    for (; at > 0 && heap[(at - 1) / 4] > key; at = (at - 1) / 4)
        heap[at] = heap[(at - 1) / 4];
    heap[at] = key;
    return PLM_OK;
}

static uint64_t heap_pop(plm_model_work *work)
{
    uint64_t least = work->heap.items[0];
    work->heap.items[0] = work->heap.items[--work->heap.count];
    if (work->heap.count > 0)
        sift_down(work->heap.items, work->heap.count, 0);
    return least;
}

static bool key_of(const bpe *b, const plm_symbol *symbols, int64_t place, uint64_t *key)
{
    int32_t next = place < 0 ? -1 : symbols[place].next;
    const merge *found = next < 0 ? NULL : find_merge(b, symbols[place].id, symbols[next].id);
    if (found)
        *key = (uint64_t)found->rank << 32 | (uint32_t)place;
    return found != NULL;
}

static plm_status begin_heap(const bpe *b, plm_model_work *work)
{
    work->heap.count = 0;
    PLM_TRY(PLM_ARRAY_RESERVE(&work->heap, work->symbols.count));
    for (int64_t i = 0; i < work->symbols.count; i++)
        work->heap.count += key_of(b, work->symbols.items, i, &work->heap.items[work->heap.count]);
    for (int64_t i = (work->heap.count - 2) / 4; i >= 0 && work->heap.count > 1; i--)
        sift_down(work->heap.items, work->heap.count, i);
    return PLM_OK;
}

static plm_status merge_symbols(const bpe *b, plm_model_work *work)
{
    PLM_TRY(begin_heap(b, work));
    plm_symbol *symbols = work->symbols.items;
    uint64_t key;
    while (work->heap.count > 0) {
        uint64_t least = heap_pop(work);
        int64_t place = (uint32_t)least;
        plm_symbol *left = &symbols[place];
        if (left->count == 0 || left->next < 0)
            continue;
        plm_symbol *right = &symbols[left->next];
        const merge *found = find_merge(b, left->id, right->id);
        if (!found || found->id != b->made.items[least >> 32])
            continue; /* its neighbours have changed since */
        left->id = found->id;
        left->count += right->count;
        right->count = 0;
        left->next = right->next;
        if (right->next >= 0)
            symbols[right->next].previous = (int32_t)place;
        if (key_of(b, symbols, left->previous, &key))
            PLM_TRY(heap_push(work, key));
        if (key_of(b, symbols, place, &key))
            PLM_TRY(heap_push(work, key));
    }
    return PLM_OK;
}

/* A part of a word that begins at its byte `start`. */
static plm_status encode_part(const plm_model *model, plm_model_work *work, const char *part,
                              int64_t count, int64_t start)
{
    PLM_TRY(begin_symbols(model, work, part, count));
    PLM_TRY(merge_symbols(model->own, work));
    int64_t first = work->tokens.count;
    PLM_TRY(PLM_ARRAY_RESERVE(&work->tokens, first + work->symbols.count));
    for (int32_t i = work->symbols.count > 0 ? 0 : -1; i >= 0; i = work->symbols.items[i].next) {
        const plm_symbol *symbol = &work->symbols.items[i];
        PLM_TRY(plm__model_push(work, symbol->id, start, symbol->count));
        start += symbol->count;
    }
    return PLM_OK;
}

/* The same, of parts that were seen before. */
static plm_status encode_known_part(const plm_model *model, plm_model_work *work, const char *part,
                                    int64_t count, int64_t start)
{
    if (count > PLM_WORD_CACHE_WORD_BYTES)
        return encode_part(model, work, part, count, start);
    uint64_t hash = plm__token_hash(part, count);
    int64_t first = work->tokens.count;
    bool known;
    PLM_TRY(plm__word_cache_find(&work->cache, hash, part, count, &work->tokens, &known));
    if (!known) {
        PLM_TRY(encode_part(model, work, part, count, 0));
        PLM_TRY(plm__word_cache_keep(&work->cache, hash, part, count, &work->tokens, first));
    }
    for (int64_t i = first; i < work->tokens.count; i++)
        work->tokens.items[i].start += (int32_t)start;
    return PLM_OK;
}

/* Where the part that begins at `start` ends: behind a character that no token has side by side
 * with the next. Unknown ones may become one token, and are not parted. */
static int64_t part_end(const plm_model *model, const char *word, int64_t count, int64_t start)
{
    const bpe *b = model->own;
    int length;
    uint32_t last = plm__unicode_next(word + start, &length);
    bool was_known = character_id(model, last, word + start, length) != PLM_TOKEN_NONE;
    for (int64_t at = start + length; at < count; at += length) {
        uint32_t point = plm__unicode_next(word + at, &length);
        bool is_known = character_id(model, point, word + at, length) != PLM_TOKEN_NONE;
        if (is_known && was_known &&
            (b->joined_slots == 0 ||
             *joined_slot(b, (uint64_t)last << POINT_BITS | point) == NO_PAIR))
            return at;
        was_known = is_known;
        last = point;
    }
    return count;
}

static plm_status encode(const plm_model *model, plm_model_work *work, const char *word,
                         int64_t count)
{
    const bpe *b = model->own;
    int32_t id =
        b->ignores_merges ? plm__vocabulary_find(&model->vocabulary, word, count) : PLM_TOKEN_NONE;
    if (id != PLM_TOKEN_NONE)
        return plm__model_push(work, id, 0, count);
    if (count <= WHOLE_BYTES || b->prefix_count > 0 || b->suffix_count > 0)
        return encode_part(model, work, word, count, 0);
    int64_t end;
    for (int64_t start = 0; start < count; start = end) {
        end = part_end(model, word, count, start);
        PLM_TRY(b->ignores_merges
                    ? encode_part(model, work, word + start, end - start, start)
                    : encode_known_part(model, work, word + start, end - start, start));
    }
    return PLM_OK;
}

const plm_model_kind plm__model_bpe = {"BPE", read, encode, destroy};
