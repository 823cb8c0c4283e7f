/* SPDX-License-Identifier: MIT */
/*
 * WordPiece: the longest token that a word begins with, then the longest continuation ("##ing"),
 * and so on; where there is none the whole word is unknown. And the plain list of words, WordLevel.
 */
#include "tokens/model.h"

#include <string.h>

#include "tokens/unicode.h"

typedef struct wordpiece {
    char prefix[PLM_PART_TEXT_MAX]; /* of continuations */
    int64_t prefix_count;
    int64_t longest; /* characters; a longer word is unknown */
} wordpiece;

static plm_status read_wordpiece(const plm_part *part, plm_model *model)
{
    wordpiece *own = NULL;
    const char *prefix;
    PLM_TRY(plm__host_alloc(sizeof *own, &own));
    model->own = own;
    own->longest = 100;
    PLM_TRY(plm__part_text(part, "continuing_subword_prefix", false, &prefix, &own->prefix_count));
    if (!prefix) {
        prefix = "##";
        own->prefix_count = 2;
    }
    memcpy(own->prefix, prefix, (size_t)own->prefix_count);
    PLM_TRY(plm__part_int(part, "max_input_chars_per_word", 0, INT32_MAX, &own->longest));
    PLM_TRY(plm__model_read_vocabulary(part, model));
    return plm__model_read_unknown(part, model);
}

static int64_t count_characters(const char *word, int64_t count)
{
    int64_t characters = 0;
    for (int64_t at = 0; at < count; at += plm__unicode_length(word[at]))
        characters++;
    return characters;
}

/* The longest token at `start`, which begins with the prefix unless it begins the word; *end is
 * where it ends. */
static int32_t longest_token(const plm_model *model, plm_model_work *work, const char *word,
                             int64_t count, int64_t start, int64_t *end)
{
    const wordpiece *own = model->own;
    int64_t prefix_count = start > 0 ? own->prefix_count : 0;
    int64_t at = model->vocabulary.longest - prefix_count;
    at = count - start < at ? count : at < 0 ? start : start + at;
    while (at > start && at < count && ((unsigned char)word[at] & 0xc0) == 0x80)
        at--; /* to a character's edge */
    while (at > start) {
        char *text = work->text.items;
        memcpy(text + prefix_count, word + start, (size_t)(at - start));
        int32_t id = plm__vocabulary_find(&model->vocabulary, text, prefix_count + at - start);
        *end = at;
        if (id != PLM_TOKEN_NONE)
            return id;
        plm__unicode_before(word, at, &at);
    }
    return PLM_TOKEN_NONE;
}

static plm_status push_unknown(const plm_model *model, plm_model_work *work, const char *word,
                               int64_t count)
{
    if (model->unknown == PLM_TOKEN_NONE)
        return plm__model_lacks(word, count);
    return plm__model_push(work, model->unknown, 0, count);
}

static plm_status encode_wordpiece(const plm_model *model, plm_model_work *work, const char *word,
                                   int64_t count)
{
    const wordpiece *own = model->own;
    int64_t first = work->tokens.count, end = 0;
    if (count_characters(word, count) > own->longest)
        return push_unknown(model, work, word, count);
    PLM_TRY(PLM_ARRAY_RESERVE(&work->text, model->vocabulary.longest + own->prefix_count + 1));
    memcpy(work->text.items, own->prefix, (size_t)own->prefix_count);
    for (int64_t start = 0; start < count; start = end) {
        /* the first token has no prefix, so the text is laid down anew behind it */
        int32_t id = longest_token(model, work, word, count, start, &end);
        if (id == PLM_TOKEN_NONE) {
            work->tokens.count = first;
            return push_unknown(model, work, word, count);
        }
        PLM_TRY(plm__model_push(work, id, start, end - start));
        memcpy(work->text.items, own->prefix, (size_t)own->prefix_count);
    }
    return PLM_OK;
}

static plm_status read_wordlevel(const plm_part *part, plm_model *model)
{
    PLM_TRY(plm__model_read_vocabulary(part, model));
    return plm__model_read_unknown(part, model);
}

static plm_status encode_wordlevel(const plm_model *model, plm_model_work *work, const char *word,
                                   int64_t count)
{
    int32_t id = plm__vocabulary_find(&model->vocabulary, word, count);
    return id == PLM_TOKEN_NONE ? push_unknown(model, work, word, count)
                                : plm__model_push(work, id, 0, count);
}

const plm_model_kind plm__model_wordpiece = {
    "WordPiece",
    read_wordpiece,
    encode_wordpiece,
    plm__host_free,
};

const plm_model_kind plm__model_wordlevel = {
    "WordLevel",
    read_wordlevel,
    encode_wordlevel,
    plm__host_free,
};
