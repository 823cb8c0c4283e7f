/* SPDX-License-Identifier: MIT */
/* Models by name and by description. */
#include "plimsoll/model.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "model/gpt.h"

enum { LAYERS_MAX = PLM_BLOCKS_MAX, DIMENSION_MAX = 1 << 28 };

static const plm_model presets[] = {
    {"gpt2", 12, 768, 12, 1024, 50257, 0},
    {"gpt2-medium", 24, 1024, 16, 1024, 50257, 0},
    {"gpt2-large", 36, 1280, 20, 1024, 50257, 0},
    {"gpt2-xl", 48, 1600, 25, 1024, 50257, 0},
};

/* The keys of a description. */
static const struct {
    const char *name;
    size_t offset;
    int64_t largest;
} keys[] = {
    {"layers", offsetof(plm_model, layers), LAYERS_MAX},
    {"width", offsetof(plm_model, width), DIMENSION_MAX},
    {"heads", offsetof(plm_model, heads), DIMENSION_MAX},
    {"context", offsetof(plm_model, context), DIMENSION_MAX},
    {"vocab", offsetof(plm_model, vocab), DIMENSION_MAX},
};

enum { KEY_COUNT = sizeof keys / sizeof *keys };

static int64_t *field(plm_model *model, int key)
{
    return (int64_t *)(void *)((char *)model + keys[key].offset);
}

static plm_status read_count(const char *value, int key, plm_model *model)
{
    char *end;
    long long number = strtoll(value, &end, 10);
    PLM_FAIL_IF(
        end == value || *end || number < 1 || number > keys[key].largest, PLM_ERROR_ARGUMENT,
        "model description: wanted %s as a whole number from 1 to %" PRId64 ", found '%.40s'",
        keys[key].name, keys[key].largest, value);
    *field(model, key) = number;
    return PLM_OK;
}

static plm_status read_dropout(const char *value, plm_model *model)
{
    char *end;
    float number = strtof(value, &end);
    PLM_FAIL_IF(end == value || *end || !(number >= 0 && number < 1), PLM_ERROR_ARGUMENT,
                "model description: wanted dropout of at least 0 and under 1, found '%.40s'",
                value);
    model->dropout = number;
    return PLM_OK;
}

/* One "key=value". */
static plm_status read_pair(char *pair, plm_model *model)
{
    char *value = strchr(pair, '=');
    PLM_FAIL_IF(!value, PLM_ERROR_ARGUMENT, "model description: wanted key=value, found '%.40s'",
                pair);
    *value++ = '\0';
    for (int key = 0; key < KEY_COUNT; key++)
        if (strcmp(pair, keys[key].name) == 0) {
            PLM_FAIL_IF(*field(model, key) != 0, PLM_ERROR_ARGUMENT,
                        "model description: wanted %s once, found it again as '%.40s'", pair,
                        value);
            return read_count(value, key, model);
        }
    if (strcmp(pair, "dropout") == 0)
        return read_dropout(value, model);
    return plm_fail(
        PLM_ERROR_ARGUMENT,
        "model description: unknown key '%.40s'; known are layers, width, heads, context, "
        "vocab, dropout",
        pair);
}

static plm_status read_description(const char *text, plm_model *model)
{
    char copy[sizeof model->name];
    snprintf(copy, sizeof copy, "%s", text);
    char *rest = NULL;
    for (char *pair = strtok_r(copy, ",", &rest); pair; pair = strtok_r(NULL, ",", &rest))
        PLM_TRY(read_pair(pair, model));
    for (int key = 0; key < KEY_COUNT; key++)
        PLM_FAIL_IF(*field(model, key) == 0, PLM_ERROR_ARGUMENT,
                    "model description: %s is missing; try "
                    "gpt:layers=4,width=128,heads=4,context=128,vocab=256",
                    keys[key].name);
    PLM_FAIL_IF(model->width % model->heads != 0, PLM_ERROR_ARGUMENT,
                "model description: wanted heads that divide the width of %" PRId64
                ", found %" PRId64,
                model->width, model->heads);
    return PLM_OK;
}

plm_status plm_model_parse(const char *text, plm_model *model)
{
    plm_model made = {.name = ""};
    PLM_FAIL_IF(strlen(text) >= sizeof made.name, PLM_ERROR_ARGUMENT,
                "wanted a model of under %zu characters, found '%.40s...'", sizeof made.name, text);
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (strcmp(text, presets[i].name) == 0) {
            *model = presets[i];
            return PLM_OK;
        }
    }
    PLM_FAIL_IF(strncmp(text, "gpt:", 4) != 0, PLM_ERROR_ARGUMENT,
                "unknown model '%.60s'; known are gpt2, gpt2-medium, gpt2-large, gpt2-xl and "
                "descriptions such as gpt:layers=4,width=128,heads=4,context=128,vocab=256",
                text);
    PLM_TRY(read_description(text + 4, &made));
    snprintf(made.name, sizeof made.name, "%s", text);
    *model = made;
    return PLM_OK;
}

plm_network plm_model_network(const plm_model *model)
{
    return (plm_network){.build = plm__gpt_build, .config = model};
}
