/* SPDX-License-Identifier: MIT */
/* The configs of tests/data/models and what the reference says of them. */
#ifndef PLM_TEST_MODELS_H
#define PLM_TEST_MODELS_H

#include "base/file.h"
#include "base/json.h"
#include "plimsoll/config.h"
#include "unit/test.h"

#define MODELS PLM_SOURCE_DIR "/tests/data/models/"

/* A JSON file there; to be given to json_decref. */
static inline json_t *read_models(const char *name)
{
    char path[512];
    plm_file file = {0};
    json_t *root = NULL;
    snprintf(path, sizeof path, MODELS "%s", name);
    assert_ok(plm__file_map(path, &file));
    assert_ok(plm__json_read(name, file.bytes, file.byte_count, &root));
    plm__file_unmap(&file);
    return root;
}

/* Answers by model, of a document to be given to json_decref. */
static inline json_t *read_truth(json_t **document)
{
    *document = read_models("truth.json");
    json_t *models = json_object_get(*document, "models");
    assert_non_null(models);
    return models;
}

static inline json_int_t model_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        fail_msg("%s is no whole number", key);
    return json_integer_value(value);
}

static inline void load_model(const char *name, plm_config *config)
{
    char path[512];
    snprintf(path, sizeof path, MODELS "configs/%s.json", name);
    assert_ok(plm_config_load(path, config));
}

/* A config that stands in another document. */
static inline void read_model_value(const json_t *value, plm_config *config)
{
    char *text = json_dumps(value, JSON_COMPACT);
    assert_non_null(text);
    plm_status status = plm_config_read("case", text, strlen(text), config);
    plm_free(text);
    assert_ok(status);
}

#endif
