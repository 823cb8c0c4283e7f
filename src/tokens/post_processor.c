/* SPDX-License-Identifier: MIT */
/* Each processor of a sequence puts its tokens round what the earlier ones left. */
#include "tokens/post_processor.h"

#include <string.h>

#include "tokens/vocabulary.h"

enum { SPECIAL_MAX = 256 }; /* tokens before or behind a text */

static plm_status push_id(const plm_part *part, const json_t *id, plm_ids *ids)
{
    if (!json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= PLM_TOKEN_ID_MAX || ids->count >= SPECIAL_MAX)
        return plm__part_refuse(part, "ids", "at most 256 ids from 0 to below 2^28", id);
    return PLM_ARRAY_PUSH(ids, (int32_t)json_integer_value(id));
}

/* `outer` is what comes to stand round `ids` on the side `is_before`. */
static plm_status surround(const plm_part *part, const plm_ids *outer, bool is_before, plm_ids *ids)
{
    int64_t count = ids->count;
    if (count + outer->count > SPECIAL_MAX)
        return plm__part_refuse(part, NULL, "at most 256 special tokens", NULL);
    PLM_TRY(PLM_ARRAY_RESERVE(ids, count + outer->count + 1));
    if (is_before && outer->count > 0)
        memmove(ids->items + outer->count, ids->items, (size_t)count * sizeof *ids->items);
    if (outer->count > 0)
        memcpy(ids->items + (is_before ? 0 : count), outer->items,
               (size_t)outer->count * sizeof *ids->items);
    ids->count = count + outer->count;
    return PLM_OK;
}

/* The ids of a special token of a template, which its table tells. */
static plm_status push_special(const plm_part *part, const json_t *special, plm_ids *ids)
{
    const char *name = json_string_value(json_object_get(special, "id"));
    const json_t *row =
        json_object_get(json_object_get(part->object, "special_tokens"), name ? name : "");
    const json_t *list = json_object_get(row, "ids");
    if (!json_is_array(list))
        return plm__part_refuse(part, "special_tokens", "the ids of each token of the template",
                                list);
    for (size_t i = 0; i < json_array_size(list); i++)
        PLM_TRY(push_id(part, json_array_get(list, i), ids));
    return PLM_OK;
}

static plm_status read_template(const plm_part *part, plm_ids *before, plm_ids *behind)
{
    const json_t *items = NULL;
    int texts = 0;
    PLM_TRY(plm__part_array(part, "single", &items));
    for (size_t i = 0; i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i);
        const json_t *special = json_object_get(item, "SpecialToken");
        if (special)
            PLM_TRY(push_special(part, special, texts ? behind : before));
        else if (json_object_get(item, "Sequence"))
            texts++;
        else
            return plm__part_refuse(part, "single", "SpecialToken or Sequence", item);
    }
    return texts == 1 ? PLM_OK
                      : plm__part_refuse(part, "single", "the text once in the template", items);
}

/* ["[SEP]", 3] under `key`. */
static plm_status read_pair(const plm_part *part, const char *key, plm_ids *ids)
{
    return push_id(part, json_array_get(json_object_get(part->object, key), 1), ids);
}

static plm_status read_part(const plm_part *part, void *user)
{
    plm_post_processor *p = user;
    plm_ids before = {0}, behind = {0};
    plm_status status = PLM_OK;
    const char *type;
    PLM_TRY(plm__part_type(part, &type));
    if (strcmp(type, "Sequence") == 0)
        return plm__part_each(part, "processors", read_part, p);
    if (strcmp(type, "ByteLevel") == 0) /* tells of offsets alone */
        return PLM_OK;
    if (strcmp(type, "TemplateProcessing") == 0) {
        PLM_TRY_DONE(read_template(part, &before, &behind));
    } else if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) {
        PLM_TRY_DONE(read_pair(part, "cls", &before));
        PLM_TRY_DONE(read_pair(part, "sep", &behind));
    } else {
        return plm__part_refuse(part, "type", "a post-processor that is known here",
                                json_object_get(part->object, "type"));
    }
    PLM_TRY_DONE(surround(part, &before, true, &p->before));
    status = surround(part, &behind, false, &p->behind);
done:
    PLM_ARRAY_FREE(&before);
    PLM_ARRAY_FREE(&behind);
    return status;
}

plm_status plm__post_processor_read(const char *file, const json_t *value,
                                    plm_post_processor *post_processor)
{
    plm_part part;
    if (!value || json_is_null(value))
        return PLM_OK;
    PLM_TRY(plm__part_of(file, "post_processor", value, 0, &part));
    return read_part(&part, post_processor);
}

void plm__post_processor_fini(plm_post_processor *post_processor)
{
    PLM_ARRAY_FREE(&post_processor->before);
    PLM_ARRAY_FREE(&post_processor->behind);
}
