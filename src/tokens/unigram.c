/* SPDX-License-Identifier: MIT */
/*
 * Unigram: each token has a score (the logarithm of its probability), and a word is cut where the
 * sum of scores is largest, found by walking once over it (Viterbi). What no token begins with is
 * unknown, at a score below all others; unknown characters side by side are one piece.
 */
#include "tokens/model.h"

#include <string.h>

#include "tokens/trie.h"
#include "tokens/unicode.h"

static const double unknown_penalty = 10;

enum { LONGEST_TOKEN = 1024 }; /* bytes: a walk at each place goes no farther */

typedef struct unigram {
    plm_trie trie;
    PLM_ARRAY(double) scores; /* by id */
    double unknown_score;
} unigram;

static void destroy(void *own)
{
    unigram *u = own;
    if (!u)
        return;
    plm__trie_fini(&u->trie);
    PLM_ARRAY_FREE(&u->scores);
    plm__host_free(u);
}

static plm_status read_row(const plm_part *part, plm_model *model, int64_t i, const json_t *row)
{
    unigram *u = model->own;
    const json_t *text = json_array_get(row, 0), *score = json_array_get(row, 1);
    if (!json_is_string(text) || !json_is_number(score) || json_array_size(row) != 2 ||
        json_string_length(text) > LONGEST_TOKEN)
        return plm__part_refuse(part, "vocab", "rows of a text of at most 1024 bytes and a score",
                                row);
    PLM_TRY(PLM_ARRAY_PUSH(&u->scores, json_number_value(score)));
    return plm__vocabulary_add(&model->vocabulary, json_string_value(text),
                               (int64_t)json_string_length(text), (int32_t)i);
}

static plm_status make_trie(plm_model *model)
{
    const plm_vocabulary *v = &model->vocabulary;
    unigram *u = model->own;
    PLM_ARRAY(plm_trie_text) texts = {0};
    plm_status status = PLM_OK;
    PLM_TRY_DONE(PLM_ARRAY_RESERVE(&texts, v->entries.count + 1));
    for (int64_t i = 0; i < v->entries.count; i++) {
        const plm_token_entry *entry = &v->entries.items[i];
        if (entry->count > 0)
            texts.items[texts.count++] =
                (plm_trie_text){v->bytes.items + entry->start, entry->count, entry->id};
    }
    status = plm__trie_create(texts.items, texts.count, &u->trie);
done:
    PLM_ARRAY_FREE(&texts);
    return status;
}

static plm_status read(const plm_part *part, plm_model *model)
{
    unigram *u = NULL;
    const json_t *rows = NULL;
    int64_t unknown = PLM_TOKEN_NONE;
    PLM_TRY(plm__host_alloc(sizeof *u, &u));
    model->own = u;
    PLM_TRY(plm__part_array(part, "vocab", &rows));
    int64_t count = (int64_t)json_array_size(rows);
    if (count == 0 || count >= PLM_TOKEN_ID_MAX)
        return plm__part_refuse(part, "vocab", "rows, fewer than 2^28", rows);
    PLM_TRY(plm__vocabulary_reserve(&model->vocabulary, count));
    for (int64_t i = 0; i < count; i++)
        PLM_TRY(read_row(part, model, i, json_array_get(rows, (size_t)i)));
    PLM_TRY(plm__part_int(part, "unk_id", 0, count - 1, &unknown));
    PLM_TRY(plm__part_bool(part, "byte_fallback", &model->falls_back));
    model->unknown = (int32_t)unknown;
    u->unknown_score = u->scores.items[0];
    for (int64_t i = 1; i < count; i++)
        if (u->scores.items[i] < u->unknown_score)
            u->unknown_score = u->scores.items[i];
    u->unknown_score -= unknown_penalty;
    plm__model_find_bytes(model);
    return make_trie(model);
}

/* Offers a way to `end` whose last token begins at `start`. */
static void offer(plm_path *paths, int64_t start, int64_t end, int32_t id, double score)
{
    plm_path *path = &paths[end];
    double sum = score + paths[start].score;
    if (path->start < 0 || sum > path->score)
        *path = (plm_path){.score = sum, .start = (int32_t)start, .id = id};
}

/* Every token at `start`; whether one of them is its first character alone. */
static bool offer_tokens(const unigram *u, plm_path *paths, const char *word, int64_t count,
                         int64_t start, int length)
{
    bool has_single = false;
    int32_t node = 0;
    for (int64_t at = start; at < count; at++) {
        node = plm__trie_step(&u->trie, node, (uint8_t)word[at]);
        if (node == 0)
            break;
        int32_t id = u->trie.nodes.items[node].id;
        if (id < 0)
            continue;
        offer(paths, start, at + 1, id, u->scores.items[id]);
        has_single = has_single || at + 1 - start == length;
    }
    return has_single;
}

/* One piece of a word that is no token. */
static plm_status push_unknown(const plm_model *model, plm_model_work *work, const char *word,
                               plm_span piece)
{
    int64_t count = piece.end - piece.start;
    int32_t id = plm__vocabulary_find(&model->vocabulary, word + piece.start, count);
    if (id == PLM_TOKEN_NONE && plm__model_has_bytes(model, word + piece.start, count)) {
        for (int64_t i = piece.start; i < piece.end; i++)
            PLM_TRY(plm__model_push(work, model->byte_ids[(uint8_t)word[i]], piece.start, count));
        return PLM_OK;
    }
    PLM_TRY(plm__model_push(work, id == PLM_TOKEN_NONE ? model->unknown : id, piece.start, count));
    work->tokens.items[work->tokens.count - 1].is_text = true;
    return PLM_OK;
}

/* The tokens of the best way to the end. */
static plm_status push_path(const plm_model *model, plm_model_work *work, const char *word,
                            int64_t count)
{
    plm_path *paths = work->paths.items;
    int64_t after = -1; /* the ways are turned round: each says where the next piece ends */
    for (int64_t end = count; end > 0;) {
        int64_t start = paths[end].start;
        paths[end].start = (int32_t)after;
        after = end;
        end = start;
    }
    for (int64_t start = 0, end = after; end > 0;) {
        int32_t id = paths[end].id;
        while (id == model->unknown && paths[end].start > 0 &&
               paths[paths[end].start].id == model->unknown)
            end = paths[end].start;
        if (id == model->unknown)
            PLM_TRY(push_unknown(model, work, word, (plm_span){start, end}));
        else
            PLM_TRY(plm__model_push(work, id, start, end - start));
        start = end;
        end = paths[end].start;
    }
    return PLM_OK;
}

static plm_status encode(const plm_model *model, plm_model_work *work, const char *word,
                         int64_t count)
{
    const unigram *u = model->own;
    PLM_TRY(PLM_ARRAY_RESERVE(&work->paths, count + 1));
    plm_path *paths = work->paths.items;
    for (int64_t i = 0; i <= count; i++)
        paths[i] = (plm_path){.start = -1};
    for (int64_t at = 0; at < count;) {
        int length = plm__unicode_length(word[at]);
        if (!offer_tokens(u, paths, word, count, at, length)) {
            if (model->unknown == PLM_TOKEN_NONE)
                return plm__model_lacks(word + at, length);
            offer(paths, at, at + length, model->unknown, u->unknown_score);
        }
        at += length;
    }
    return push_path(model, work, word, count);
}

const plm_model_kind plm__model_unigram = {"Unigram", read, encode, destroy};
