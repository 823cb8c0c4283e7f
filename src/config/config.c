/* SPDX-License-Identifier: MIT */
/* The public face of reading: a file or a folder, its architecture, then part by part. */
#include "plimsoll/config.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/number.h"
#include "config/config_internal.h"

enum { PATH_TEXT = 4096 };

static const struct {
    const char *text;
    plm_dtype dtype;
} dtypes[] = {
    {"float32", PLM_DTYPE_F32},
    {"bfloat16", PLM_DTYPE_BF16},
    {"float16", PLM_DTYPE_F16},
};

/* The key of either dialect, in the outer object or in that of the language model. */
static const json_t *find_dtype(const plm_config_source *source, const char **key)
{
    static const char *const keys[] = {"dtype", "torch_dtype"};
    const json_t *objects[] = {source->root, source->text};
    for (int i = 0; i < 4; i++) {
        const json_t *value = json_object_get(objects[i / 2], keys[i % 2]);
        *key = keys[i % 2];
        if (value && !json_is_null(value))
            return value;
    }
    return NULL;
}

static plm_status read_dtype(const plm_config_source *source, plm_config *config)
{
    const char *key = NULL;
    const json_t *value = find_dtype(source, &key);
    if (!value)
        return PLM_OK;
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    if (strncmp(text, "torch.", 6) == 0)
        text += 6;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(text, dtypes[i].text) == 0) {
            config->dtype = dtypes[i].dtype;
            config->tells_dtype = true;
            return PLM_OK;
        }
    }
    return plm__config_refuse(source, key, "float32, bfloat16 or float16", value);
}

static bool ends_in(const char *text, const char *end)
{
    size_t count = strlen(text), end_count = strlen(end);
    return count >= end_count && strcmp(text + count - end_count, end) == 0;
}

/* By the ends of the names that architectures have; the first that fits. */
static const struct {
    const char *end;
    plm_config_head head;
} heads[] = {
    {"ForCausalLM", PLM_CONFIG_HEAD_TOKENS}, {"ForConditionalGeneration", PLM_CONFIG_HEAD_TOKENS},
    {"LMHeadModel", PLM_CONFIG_HEAD_TOKENS}, {"ForMaskedLM", PLM_CONFIG_HEAD_TOKENS},
    {"Model", PLM_CONFIG_HEAD_NONE},
};

static plm_status read_head(const plm_config_source *source, plm_config *config)
{
    plm_config_source outer = *source;
    const json_t *list = json_object_get(source->root, "architectures");
    outer.prefix = "";
    if (!list || json_is_null(list) || (json_is_array(list) && json_array_size(list) == 0))
        return PLM_OK;
    const json_t *first = json_array_get(list, 0);
    if (!json_is_string(first))
        return plm__config_refuse(&outer, "architectures", "a list of names", list);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        if (ends_in(json_string_value(first), heads[i].end)) {
            config->head = heads[i].head;
            return PLM_OK;
        }
    }
    return plm__config_refuse(&outer, "architectures",
                              "a language model such as LlamaForCausalLM or BertForMaskedLM, or a "
                              "base model such as BertModel",
                              first);
}

/* Tells all families that are known. */
static plm_status refuse_family(const plm_config_source *source, const json_t *found)
{
    char known[256] = "", text[PLM_JSON_DESCRIPTION_TEXT];
    for (int i = 0; i < PLM_CONFIG_FAMILY_COUNT; i++) {
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "",
                 plm_config_family_text((plm_config_family)i));
    }
    plm__json_describe(found, text);
    return plm_fail(PLM_ERROR_UNSUPPORTED,
                    "%s: wanted a known architecture for model_type, found %s; known are %s",
                    source->file, text, known);
}

/* The family of a document, and the object that its language model is read from. */
static plm_status find_family(plm_config_source *source, plm_config_family *family)
{
    const json_t *type = json_object_get(source->root, "model_type");
    const char *text = json_is_string(type) ? json_string_value(type) : "";
    int found = 0;
    while (found < PLM_CONFIG_FAMILY_COUNT &&
           strcmp(text, plm_config_family_text((plm_config_family)found)) != 0)
        found++;
    if (found == PLM_CONFIG_FAMILY_COUNT)
        return refuse_family(source, type);
    *family = (plm_config_family)found;
    source->row = &plm__config_rows[found];
    source->text = source->root;
    if (!source->row->text_type)
        return PLM_OK;
    source->row = &plm__config_rows[source->row->text];
    const json_t *inner = json_object_get(source->root, "text_config");
    if (!json_is_object(inner))
        return plm__config_refuse(source, "text_config", "an object", inner);
    source->text = inner;
    source->prefix = "text_config.";
    return PLM_OK;
}

/* "models/Qwen3-0.6B.json" and "models/Qwen3-0.6B/config.json" are Qwen3-0.6B. */
static void name_it(const char *file, plm_config *config)
{
    char path[PATH_TEXT];
    snprintf(path, sizeof path, "%s", file);
    if (ends_in(path, "/" PLM_CONFIG_FILE))
        path[strlen(path) - strlen("/" PLM_CONFIG_FILE)] = '\0';
    else if (ends_in(path, ".json"))
        path[strlen(path) - strlen(".json")] = '\0';
    const char *slash = strrchr(path, '/');
    const char *name = slash && slash[1] ? slash + 1 : path;
    if (strspn(name, ".") == strlen(name)) /* "." says nothing */
        name = plm_config_family_text(config->family);
    snprintf(config->name, sizeof config->name, "%.*s", PLM_CONFIG_NAME_TEXT - 1, name);
}

static plm_status read_document(const char *file, const json_t *root, plm_config *config)
{
    plm_config_source source = {.file = file, .root = root, .prefix = ""};
    plm_config_counts counts;
    plm_config_family family;
    PLM_FAIL_IF(!json_is_object(root), PLM_ERROR_FORMAT,
                "%s: wanted an object with model_type and its figures, found another value", file);
    PLM_TRY(find_family(&source, &family));
    *config = source.row->defaults;
    config->family = family;
    name_it(file, config);
    PLM_TRY(read_head(&source, config));
    PLM_TRY(read_dtype(&source, config));
    PLM_TRY(plm__config_fields(&source, config));
    PLM_TRY(plm__config_tower(&source, config));
    PLM_TRY(plm__config_ropes(&source, config));
    PLM_TRY(plm__config_layers(&source, config));
    PLM_TRY(plm__config_quantization(&source, config));
    return plm_config_count(config, &counts); /* refuses absurd sizes */
}

plm_status plm_config_read(const char *name, const void *bytes, size_t byte_count,
                           plm_config *config)
{
    json_t *root = NULL;
    plm_config made;
    PLM_TRY(plm__json_read_small(name, bytes, byte_count, &root));
    plm_status status = read_document(name, root, &made);
    json_decref(root);
    if (status == PLM_OK)
        *config = made;
    return status;
}

plm_status plm_config_load(const char *path, plm_config *config)
{
    char joined[PATH_TEXT];
    struct stat found;
    plm_file file = {0};
    if (stat(path, &found) == 0 && S_ISDIR(found.st_mode)) {
        size_t length = strlen(path);
        int wanted = snprintf(joined, sizeof joined, "%s%s" PLM_CONFIG_FILE, path,
                              length > 0 && path[length - 1] == '/' ? "" : "/");
        PLM_FAIL_IF(wanted >= PATH_TEXT, PLM_ERROR_ARGUMENT,
                    "wanted a path of less than %d bytes, found %d", PATH_TEXT, wanted);
        PLM_FAIL_IF(stat(joined, &found) != 0, PLM_ERROR_IO,
                    "wanted " PLM_CONFIG_FILE " in '%s', found none; a model's folder has one",
                    path);
        path = joined;
    }
    PLM_TRY(plm__file_map(path, &file));
    plm_status status = plm_config_read(path, file.bytes, file.byte_count, config);
    plm__file_unmap(&file);
    return status;
}
