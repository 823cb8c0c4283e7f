/* SPDX-License-Identifier: MIT */
/* Models by name and by description. */
#include "plimsoll/model.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/status.h"
#include "model/bert.h"
#include "model/gpt.h"

enum { LAYERS_MAX = PLM_BLOCKS_MAX, DIMENSION_MAX = 1 << 28 };

/* What a family is: the word that begins its descriptions, its network, what it learns. */
static const struct {
    const char *name;
    void (*build)(plm_graph *graph, const void *config, plm_program program, int64_t batch,
                  int64_t sequence);
    bool masked;
    const char *example;
} families[PLM_FAMILY_COUNT] = {
    [PLM_FAMILY_GPT] = {"gpt", plm__gpt_build, false,
                        "gpt:layers=4,width=128,heads=4,context=128,vocab=256"},
    [PLM_FAMILY_BERT] = {"bert", plm__bert_build, true,
                         "bert:layers=4,width=128,heads=4,context=128,vocab=257"},
};

static const plm_model presets[] = {
    {"gpt2", PLM_FAMILY_GPT, 12, 768, 12, 1024, 50257, 0},
    {"gpt2-medium", PLM_FAMILY_GPT, 24, 1024, 16, 1024, 50257, 0},
    {"gpt2-large", PLM_FAMILY_GPT, 36, 1280, 20, 1024, 50257, 0},
    {"gpt2-xl", PLM_FAMILY_GPT, 48, 1600, 25, 1024, 50257, 0},
    {"bert-base", PLM_FAMILY_BERT, 12, 768, 12, 512, 30522, 0},
    {"bert-large", PLM_FAMILY_BERT, 24, 1024, 16, 512, 30522, 0},
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
    float number = (float)plm__number_read(value, &end);
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
    plm__print(copy, sizeof copy, "%s", text);
    char *rest = NULL;
    for (char *pair = strtok_r(copy, ",", &rest); pair; pair = strtok_r(NULL, ",", &rest))
        PLM_TRY(read_pair(pair, model));
    for (int key = 0; key < KEY_COUNT; key++)
        PLM_FAIL_IF(*field(model, key) == 0, PLM_ERROR_ARGUMENT,
                    "model description: %s is missing; try %s", keys[key].name,
                    families[model->family].example);
    PLM_FAIL_IF(model->width % model->heads != 0, PLM_ERROR_ARGUMENT,
                "model description: wanted heads that divide the width of %" PRId64
                ", found %" PRId64,
                model->width, model->heads);
    return PLM_OK;
}

/* Whether the text is a description, "family:pairs". */
static bool find_family(const char *text, plm_family *family, const char **pairs)
{
    for (int i = 0; i < PLM_FAMILY_COUNT; i++) {
        size_t length = strlen(families[i].name);
        if (strncmp(text, families[i].name, length) == 0 && text[length] == ':') {
            *family = (plm_family)i;
            *pairs = text + length + 1;
            return true;
        }
    }
    return false;
}

plm_status plm_model_parse(const char *text, plm_model *model)
{
    plm_model made = {.name = ""};
    const char *pairs = NULL;
    PLM_FAIL_IF(strlen(text) >= sizeof made.name, PLM_ERROR_ARGUMENT,
                "wanted a model of under %zu characters, found '%.40s...'", sizeof made.name, text);
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (strcmp(text, presets[i].name) == 0) {
            *model = presets[i];
            return PLM_OK;
        }
    }
    PLM_FAIL_IF(!find_family(text, &made.family, &pairs), PLM_ERROR_ARGUMENT,
                "unknown model '%.60s'; known are gpt2, gpt2-medium, gpt2-large, gpt2-xl, "
                "bert-base, bert-large and descriptions such as %s and %s",
                text, families[PLM_FAMILY_GPT].example, families[PLM_FAMILY_BERT].example);
    PLM_TRY(read_description(pairs, &made));
    plm__print(made.name, sizeof made.name, "%s", text);
    *model = made;
    return PLM_OK;
}

plm_network plm_model_network(const plm_model *model)
{
    return (plm_network){.build = families[model->family].build, .config = model};
}

const char *plm_family_text(plm_family family)
{
    return (unsigned)family < PLM_FAMILY_COUNT ? families[family].name : "unknown";
}

bool plm_model_is_masked(const plm_model *model)
{
    return families[model->family].masked;
}
