/* SPDX-License-Identifier: MIT */
/* The leftmost token, of those that begin there the longest. */
#include "tokens/added_tokens.h"

#include <string.h>

#include "tokens/unicode.h"

enum { ADDED_MAX = 1 << 20 };

/* Reading. */

/* One token, to the end of the list; *text and *count become its text, "" for what is passed over:
 * nothing, and what was there before. */
static plm_status read_token(const plm_part *part, const plm_vocabulary *model,
                             plm_added_tokens *added, const char **text, int64_t *count)
{
    plm_added_token token = {0};
    int64_t id = PLM_TOKEN_NONE;
    PLM_TRY(plm__part_text(part, "content", true, text, count));
    if (*count == 0 || plm__vocabulary_find(&added->texts, *text, *count) != PLM_TOKEN_NONE) {
        *count = 0;
        return PLM_OK;
    }
    PLM_TRY(plm__part_int(part, "id", 0, PLM_TOKEN_ID_MAX - 1, &id));
    PLM_TRY(plm__part_bool(part, "special", &token.is_special));
    token.is_normalized = !token.is_special; /* where the file leaves that open */
    PLM_TRY(plm__part_bool(part, "normalized", &token.is_normalized));
    PLM_TRY(plm__part_bool(part, "single_word", &token.is_word));
    PLM_TRY(plm__part_bool(part, "lstrip", &token.strips_left));
    PLM_TRY(plm__part_bool(part, "rstrip", &token.strips_right));
    int32_t known = plm__vocabulary_find(model, *text, *count);
    token.id = known != PLM_TOKEN_NONE ? known : (int32_t)id;
    if (token.id == PLM_TOKEN_NONE)
        return plm__part_refuse(part, "id", "a whole number", json_object_get(part->object, "id"));
    PLM_TRY(PLM_ARRAY_PUSH(&added->tokens, token));
    return plm__vocabulary_add(&added->texts, *text, *count, token.id);
}

/* Texts of one trie, which own their bytes: normalizing makes some that stand nowhere. */
typedef struct trie_texts {
    PLM_ARRAY(plm_trie_text) texts;
    PLM_ARRAY(char) bytes;
    PLM_ARRAY(int64_t) starts; /* in bytes, which move while they grow */
} trie_texts;

static plm_status add_text(trie_texts *t, const char *text, int64_t count, int64_t place)
{
    if (count == 0) /* nothing is left of it */
        return PLM_OK;
    PLM_TRY(PLM_ARRAY_RESERVE(&t->bytes, t->bytes.count + count));
    PLM_TRY(PLM_ARRAY_PUSH(&t->starts, t->bytes.count));
    PLM_TRY(PLM_ARRAY_PUSH(&t->texts, (plm_trie_text){.count = count, .id = (int32_t)place}));
    memcpy(t->bytes.items + t->bytes.count, text, (size_t)count);
    t->bytes.count += count;
    return PLM_OK;
}

static plm_status make_trie(trie_texts *t, plm_trie *trie)
{
    for (int64_t i = 0; i < t->texts.count; i++)
        t->texts.items[i].bytes = t->bytes.items + t->starts.items[i];
    return plm__trie_create(t->texts.items, t->texts.count, trie);
}

static void end_texts(trie_texts *t)
{
    PLM_ARRAY_FREE(&t->texts);
    PLM_ARRAY_FREE(&t->bytes);
    PLM_ARRAY_FREE(&t->starts);
}

/* What a token looks like in a text that was normalized. */
static plm_status add_normalized(const plm_normalizer *normalizer, trie_texts *t, const char *text,
                                 int64_t count, int64_t place)
{
    plm_passage passages[2] = {{0}}, *passage = &passages[0], *spare = &passages[1];
    plm_searcher searcher = {0};
    plm_status status = PLM_OK;
    bool has_young;
    if (plm__unicode_check(text, count, &has_young) >= 0)
        has_young = true;
    plm__searcher_allow(&searcher, count, has_young);
    plm__passage_borrow(passage, text, count, 0);
    PLM_TRY_DONE(
        plm__normalizer_apply(normalizer, &searcher, false, 64 * count + 4096, &passage, &spare));
    status = add_text(t, passage->bytes, passage->count, place);
done:
    plm__passage_fini(&passages[0]);
    plm__passage_fini(&passages[1]);
    plm__searcher_fini(&searcher);
    return status;
}

plm_status plm__added_tokens_read(const char *file, const json_t *value,
                                  const plm_vocabulary *model, const plm_normalizer *normalizer,
                                  plm_added_tokens *added)
{
    trie_texts raw = {0}, normalized = {0};
    plm_part part = {.file = file, .where = "added_tokens"};
    plm_status status = PLM_OK;
    if (!value || json_is_null(value))
        return plm__vocabulary_finish(&added->texts);
    if (!json_is_array(value) || json_array_size(value) > ADDED_MAX)
        return plm__part_refuse(&part, NULL, "an array of at most 2^20 tokens", value);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *text;
        int64_t count, place = added->tokens.count;
        PLM_TRY_DONE(plm__part_of(file, "added_tokens", json_array_get(value, i), 0, &part));
        PLM_TRY_DONE(read_token(&part, model, added, &text, &count));
        if (count == 0)
            continue;
        if (added->tokens.items[place].is_normalized)
            PLM_TRY_DONE(add_normalized(normalizer, &normalized, text, count, place));
        else
            PLM_TRY_DONE(add_text(&raw, text, count, place));
    }
    PLM_TRY_DONE(make_trie(&raw, &added->raw));
    PLM_TRY_DONE(make_trie(&normalized, &added->normalized));
    status = plm__vocabulary_finish(&added->texts);
done:
    end_texts(&raw);
    end_texts(&normalized);
    return status;
}

void plm__added_tokens_fini(plm_added_tokens *added)
{
    PLM_ARRAY_FREE(&added->tokens);
    plm__vocabulary_fini(&added->texts);
    plm__trie_fini(&added->raw);
    plm__trie_fini(&added->normalized);
}

const plm_added_token *plm__added_tokens_by_id(const plm_added_tokens *added, int32_t id)
{
    int32_t place = plm__vocabulary_place(&added->texts, id);
    return place < 0 ? NULL : &added->tokens.items[place];
}

/* Finding. */

/* The longest token at `at`; *end is its end. */
static const plm_added_token *token_at(const plm_added_tokens *added, const plm_trie *trie,
                                       const char *text, int64_t count, int64_t at, int64_t *end)
{
    const plm_added_token *token = NULL;
    int32_t node = 0;
    for (; at < count; at++) {
        node = plm__trie_step(trie, node, (uint8_t)text[at]);
        if (node == 0)
            break;
        if (trie->nodes.items[node].id >= 0) {
            token = &added->tokens.items[trie->nodes.items[node].id];
            *end = at + 1;
        }
    }
    return token;
}

static bool is_alone(const char *text, int64_t count, plm_span span)
{
    int length;
    int64_t start;
    bool starts =
        span.start == 0 || !plm__unicode_is_word(plm__unicode_before(text, span.start, &start));
    return starts && (span.end == count ||
                      !plm__unicode_is_word(plm__unicode_next(text + span.end, &length)));
}

/* Blanks that the token takes along, those before only from `from` on. */
static plm_span with_blanks(const plm_added_token *token, const char *text, int64_t count,
                            int64_t from, plm_span span)
{
    int length;
    int64_t before;
    if (token->strips_left && span.start < from)
        span.start = from;
    while (token->strips_left && span.start > from &&
           plm__unicode_is_space(plm__unicode_before(text, span.start, &before)))
        span.start = before;
    while (token->strips_right && span.end < count &&
           plm__unicode_is_space(plm__unicode_next(text + span.end, &length)))
        span.end += length;
    return span;
}

/* The next token. */
static plm_stretch find(const plm_added_tokens *added, const plm_trie *trie, const char *text,
                        int64_t count, plm_added_walk *walk)
{
    int64_t end;
    for (int64_t at = walk->searched; at < count && trie->nodes.count > 0; at++) {
        if (trie->root[(uint8_t)text[at]] == 0)
            continue;
        const plm_added_token *token = token_at(added, trie, text, count, at, &end);
        if (!token)
            continue;
        plm_span span = {at, end};
        walk->searched = end;
        if (!token->is_word || is_alone(text, count, span))
            return (plm_stretch){with_blanks(token, text, count, walk->from, span), token};
        at = end - 1; /* passed over whole */
    }
    walk->searched = count;
    return (plm_stretch){{count, count}, NULL};
}

bool plm__added_tokens_next(const plm_added_tokens *added, bool is_normalized, const char *text,
                            int64_t count, plm_added_walk *walk, plm_stretch *stretch)
{
    const plm_trie *trie = is_normalized ? &added->normalized : &added->raw;
    plm_stretch next = walk->pending;
    walk->pending.token = NULL;
    if (!next.token)
        next = find(added, trie, text, count, walk);
    if (!next.token && walk->from >= count)
        return false;
    if (next.span.start > walk->from) {
        walk->pending = next;
        next = (plm_stretch){{walk->from, next.span.start}, NULL};
    }
    walk->from = next.span.end;
    *stretch = next;
    return true;
}
