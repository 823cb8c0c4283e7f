/* SPDX-License-Identifier: MIT */
/* What models share: the vocabulary, tokens for bytes, the words that were seen before. */
#include "tokens/model.h"

#include <string.h>

#include "base/utf8.h"

static const plm_model_kind *const models[] = {
    &plm__model_bpe,
    &plm__model_unigram,
    &plm__model_wordpiece,
    &plm__model_wordlevel,
};

/* Files of the first versions do not say what they are. */
static const char *guess_type(const json_t *object)
{
    if (json_object_get(object, "merges"))
        return "BPE";
    if (json_is_array(json_object_get(object, "vocab")))
        return "Unigram";
    return json_object_get(object, "continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

plm_status plm__model_read(const char *file, const json_t *value, plm_model *model)
{
    plm_part part;
    const char *type;
    int64_t count;
    PLM_TRY(plm__part_of(file, "model", value, 0, &part));
    PLM_TRY(plm__part_text(&part, "type", false, &type, &count));
    type = type ? type : guess_type(value);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(type, models[i]->type) == 0) {
            model->kind = models[i];
            model->unknown = PLM_TOKEN_NONE;
            PLM_TRY(models[i]->read(&part, model));
            return plm__vocabulary_finish(&model->vocabulary);
        }
    return plm__part_refuse(&part, "type", "BPE, Unigram, WordPiece or WordLevel",
                            json_object_get(value, "type"));
}

void plm__model_fini(plm_model *model)
{
    if (model->kind)
        model->kind->destroy(model->own);
    plm__vocabulary_fini(&model->vocabulary);
}

void plm__model_work_fini(plm_model_work *work)
{
    PLM_ARRAY_FREE(&work->tokens);
    plm__word_cache_fini(&work->cache);
    PLM_ARRAY_FREE(&work->symbols);
    PLM_ARRAY_FREE(&work->heap);
    PLM_ARRAY_FREE(&work->paths);
    PLM_ARRAY_FREE(&work->text);
}

plm_status plm__model_encode(const plm_model *model, plm_model_work *work, const char *word,
                             int64_t count)
{
    if (count > PLM_WORD_CACHE_WORD_BYTES)
        return model->kind->encode(model, work, word, count);
    uint64_t hash = plm__token_hash(word, count);
    int64_t first = work->tokens.count;
    bool known;
    PLM_TRY(plm__word_cache_find(&work->cache, hash, word, count, &work->tokens, &known));
    if (known)
        return PLM_OK;
    PLM_TRY(model->kind->encode(model, work, word, count));
    return plm__word_cache_keep(&work->cache, hash, word, count, &work->tokens, first);
}

plm_status plm__model_read_vocabulary(const plm_part *part, plm_model *model)
{
    json_t *vocabulary = json_object_get(part->object, "vocab"), *id;
    const char *text;
    if (!json_is_object(vocabulary))
        return plm__part_refuse(part, "vocab", "an object", vocabulary);
    PLM_TRY(plm__vocabulary_reserve(&model->vocabulary, (int64_t)json_object_size(vocabulary)));
    json_object_foreach (vocabulary, text, id) {
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= PLM_TOKEN_ID_MAX)
            return plm__part_refuse(part, "vocab", "ids from 0 to below 2^28", id);
        if (strlen(text) > PLM_TOKEN_BYTES_MAX)
            return plm__part_refuse(part, "vocab", "tokens of at most 65536 bytes", NULL);
        PLM_TRY(plm__vocabulary_add(&model->vocabulary, text, (int64_t)strlen(text),
                                    (int32_t)json_integer_value(id)));
    }
    return PLM_OK;
}

plm_status plm__model_read_unknown(const plm_part *part, plm_model *model)
{
    const char *text;
    int64_t count;
    PLM_TRY(plm__part_text(part, "unk_token", false, &text, &count));
    if (!text)
        return PLM_OK;
    model->names_unknown = true;
    model->unknown = plm__vocabulary_find(&model->vocabulary, text, count);
    return PLM_OK;
}

void plm__model_find_bytes(plm_model *model)
{
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        int count = snprintf(text, sizeof text, "<0x%02X>", byte);
        model->byte_ids[byte] = plm__vocabulary_find(&model->vocabulary, text, count);
    }
}

plm_status plm__model_push(plm_model_work *work, int32_t id, int64_t start, int64_t count)
{
    plm_model_token token = {.id = id, .start = (int32_t)start, .count = (int32_t)count};
    PLM_TRY(PLM_ARRAY_PUSH(&work->tokens, token));
    return PLM_OK;
}

bool plm__model_has_bytes(const plm_model *model, const char *bytes, int64_t count)
{
    if (!model->falls_back)
        return false;
    for (int64_t i = 0; i < count; i++)
        if (model->byte_ids[(uint8_t)bytes[i]] == PLM_TOKEN_NONE)
            return false;
    return true;
}

plm_status plm__model_lacks(const char *text, int64_t count)
{
    plm_text clean = {0};
    plm__utf8_add_clean(&clean, text, count < 40 ? count : 40);
    plm_status status = plm_fail(PLM_ERROR_FORMAT,
                                 "wanted a token for '%s', found none, and no token in the "
                                 "vocabulary for what is unknown (unk_token)",
                                 clean.items ? clean.items : "");
    plm__text_fini(&clean);
    return status;
}
