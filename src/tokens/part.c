/* SPDX-License-Identifier: MIT */
/* Typed fields of JSON objects. */
#include "tokens/part.h"

void plm__part_tell(const plm_part *part, const char *key, const char *wanted, const json_t *found)
{
    char text[PLM_JSON_DESCRIPTION_TEXT];
    plm__json_describe(found, text);
    (void)plm_fail(PLM_ERROR_FORMAT, "%s: wanted %s for %s%s%s, found %s", part->file, wanted,
                   part->where, key ? "." : "", key ? key : "", text);
}

plm_status plm__part_of(const char *file, const char *where, const json_t *object, int depth,
                        plm_part *inner)
{
    plm_part part = {.file = file, .where = where, .object = object, .depth = depth};
    if (!json_is_object(object))
        return plm__part_refuse(&part, NULL, "an object", object);
    *inner = part;
    return PLM_OK;
}

plm_status plm__part_type(const plm_part *part, const char **type)
{
    int64_t count;
    return plm__part_text(part, "type", true, type, &count);
}

plm_status plm__part_text(const plm_part *part, const char *key, bool is_needed, const char **text,
                          int64_t *count)
{
    const json_t *value = json_object_get(part->object, key);
    if (!is_needed && (!value || json_is_null(value))) {
        *text = NULL;
        *count = 0;
        return PLM_OK;
    }
    if (!json_is_string(value) || json_string_length(value) > PLM_PART_TEXT_MAX)
        return plm__part_refuse(part, key, "a text of at most 4096 bytes", value);
    *text = json_string_value(value);
    *count = (int64_t)json_string_length(value);
    return PLM_OK;
}

plm_status plm__part_bool(const plm_part *part, const char *key, bool *value)
{
    const json_t *found = json_object_get(part->object, key);
    if (!found || json_is_null(found))
        return PLM_OK;
    if (!json_is_boolean(found))
        return plm__part_refuse(part, key, "true or false", found);
    *value = json_is_true(found);
    return PLM_OK;
}

plm_status plm__part_int(const plm_part *part, const char *key, int64_t least, int64_t most,
                         int64_t *value)
{
    const json_t *found = json_object_get(part->object, key);
    if (!found || json_is_null(found))
        return PLM_OK;
    if (!json_is_integer(found) || json_integer_value(found) < least ||
        json_integer_value(found) > most) {
        char wanted[80];
        snprintf(wanted, sizeof wanted, "a whole number from %lld to %lld", (long long)least,
                 (long long)most);
        return plm__part_refuse(part, key, wanted, found);
    }
    *value = json_integer_value(found);
    return PLM_OK;
}

plm_status plm__part_array(const plm_part *part, const char *key, const json_t **array)
{
    const json_t *value = json_object_get(part->object, key);
    if (!json_is_array(value))
        return plm__part_refuse(part, key, "an array", value);
    *array = value;
    return PLM_OK;
}

plm_status plm__part_pattern(const plm_part *part, const char *key, plm_pattern *pattern)
{
    const json_t *value = json_object_get(part->object, key);
    plm_part inner;
    const char *text;
    int64_t count;
    char what[96];
    if (!json_is_object(value))
        return plm__part_refuse(part, key, "{\"String\": ...} or {\"Regex\": ...}", value);
    PLM_TRY(plm__part_of(part->file, part->where, value, part->depth, &inner));
    PLM_TRY(plm__part_text(&inner, "String", false, &text, &count));
    if (text && count > 0)
        return plm__pattern_literal(text, count, pattern);
    const json_t *regex = json_object_get(value, "Regex");
    if (!json_is_string(regex))
        return plm__part_refuse(part, key, "a text that is not empty, or a regular expression",
                                regex);
    snprintf(what, sizeof what, "%.60s: %.30s", part->file, part->where);
    return plm__pattern_regex(what, json_string_value(regex), (int64_t)json_string_length(regex),
                              pattern);
}

plm_status plm__part_each(const plm_part *part, const char *key, plm_part_reader *read, void *user)
{
    const json_t *array = NULL;
    PLM_TRY(plm__part_array(part, key, &array));
    if (part->depth >= PLM_PART_DEPTH_MAX)
        return plm__part_refuse(part, key, "at most 8 sequences in each other", array);
    for (size_t i = 0; i < json_array_size(array); i++) {
        plm_part inner;
        PLM_TRY(plm__part_of(part->file, part->where, json_array_get(array, i), part->depth + 1,
                             &inner));
        PLM_TRY(read(&inner, user));
    }
    return PLM_OK;
}
