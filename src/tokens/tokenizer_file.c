/* SPDX-License-Identifier: MIT */
/* The parts of a tokenizer.json, and the names of special tokens beside it. */
#include "tokens/tokenizer_internal.h"

#include <string.h>

#include "base/json.h"

static plm_status read_parts(const char *name, const json_t *root, plm_tokenizer *t)
{
    plm_part part;
    PLM_TRY(plm__part_of(name, "the file", root, 0, &part));
    PLM_TRY(plm__normalizer_read(name, json_object_get(root, "normalizer"), &t->normalizer));
    PLM_TRY(
        plm__pre_tokenizer_read(name, json_object_get(root, "pre_tokenizer"), &t->pre_tokenizer));
    PLM_TRY(plm__post_processor_read(name, json_object_get(root, "post_processor"),
                                     &t->post_processor));
    PLM_TRY(plm__decoder_read(name, json_object_get(root, "decoder"), &t->decoder));
    PLM_TRY(plm__model_read(name, json_object_get(root, "model"), &t->model));
    return plm__added_tokens_read(name, json_object_get(root, "added_tokens"), &t->model.vocabulary,
                                  &t->normalizer, &t->added);
}

plm_status plm__tokenizer_read(const char *name, const void *bytes, size_t byte_count,
                               plm_tokenizer *tokenizer)
{
    json_t *root = NULL;
    for (int i = 0; i < PLM_SPECIAL_COUNT; i++)
        tokenizer->special[i] = PLM_TOKEN_NONE;
    PLM_TRY(plm__json_read(name, bytes, byte_count, &root));
    plm_status status = read_parts(name, root, tokenizer);
    json_decref(root);
    tokenizer->wants_sources = plm__pre_tokenizer_wants_sources(&tokenizer->pre_tokenizer);
    return status;
}

void plm__tokenizer_fini(plm_tokenizer *tokenizer)
{
    plm__normalizer_fini(&tokenizer->normalizer);
    plm__pre_tokenizer_fini(&tokenizer->pre_tokenizer);
    plm__added_tokens_fini(&tokenizer->added);
    plm__model_fini(&tokenizer->model);
    plm__post_processor_fini(&tokenizer->post_processor);
    plm__decoder_fini(&tokenizer->decoder);
}

plm_status plm__tokenizer_read_config(const char *name, const void *bytes, size_t byte_count,
                                      plm_tokenizer *tokenizer)
{
    static const char *const keys[PLM_SPECIAL_COUNT] = {
        "bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token",
    };
    json_t *root = NULL;
    PLM_TRY(plm__json_read(name, bytes, byte_count, &root));
    for (int i = 0; i < PLM_SPECIAL_COUNT; i++) {
        const json_t *value = json_object_get(root, keys[i]);
        if (json_is_object(value)) /* an added token in full */
            value = json_object_get(value, "content");
        if (json_is_string(value))
            tokenizer->special[i] =
                plm_tokenizer_find(tokenizer, json_string_value(value), json_string_length(value));
    }
    json_decref(root);
    return PLM_OK;
}
