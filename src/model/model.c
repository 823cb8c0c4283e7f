/* SPDX-License-Identifier: MIT */
/* Models by name and by description, from the rows of the families. */
#include "plimsoll/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/status.h"
#include "model/family.h"

const plm_family *const plm__families[] = {
#define FAMILY_ROW(name) &plm__family_##name,
    PLM_FAMILIES(FAMILY_ROW)
#undef FAMILY_ROW
        NULL,
};

static void *figure(plm_model *model, const plm_model_key *key)
{
    return (char *)model + key->offset;
}

static plm_status read_count(const char *value, const plm_model_key *key, int64_t *count)
{
    char *end;
    long long number = strtoll(value, &end, 10);
    PLM_FAIL_IF(*count != 0, PLM_ERROR_ARGUMENT,
                "model description: wanted %s once, found it again as '%.40s'", key->name, value);
    PLM_FAIL_IF(end == value || *end || number < 1 || number > key->largest, PLM_ERROR_ARGUMENT,
                "model description: wanted %s as a whole number from 1 to %" PRId64
                ", found '%.40s'",
                key->name, key->largest, value);
    *count = number;
    return PLM_OK;
}

static plm_status read_share(const char *value, const plm_model_key *key, float *share)
{
    char *end;
    float number = (float)plm__number_read(value, &end);
    PLM_FAIL_IF(end == value || *end || !(number >= 0 && number < 1), PLM_ERROR_ARGUMENT,
                "model description: wanted %s of at least 0 and under 1, found '%.40s'", key->name,
                value);
    *share = number;
    return PLM_OK;
}

/* Adds a word to a list in `room` bytes, what does not fit cut off. */
static void list_word(char *list, size_t room, const char *between, const char *word)
{
    size_t length = strlen(list);
    plm__print(list + length, room - length, "%s%s", length ? between : "", word);
}

/* One "key=value". */
static plm_status read_pair(char *pair, plm_model *model)
{
    char known[128] = "";
    char *value = strchr(pair, '=');
    PLM_FAIL_IF(!value, PLM_ERROR_ARGUMENT, "model description: wanted key=value, found '%.40s'",
                pair);
    *value++ = '\0';
    for (const plm_model_key *key = model->family->keys; key->name; key++)
        if (strcmp(pair, key->name) == 0)
            return key->largest ? read_count(value, key, figure(model, key))
                                : read_share(value, key, figure(model, key));
    for (const plm_model_key *key = model->family->keys; key->name; key++)
        list_word(known, sizeof known, ", ", key->name);
    return plm_fail(PLM_ERROR_ARGUMENT, "model description: unknown key '%.40s'; known are %s",
                    pair, known);
}

static plm_status read_description(const char *text, plm_model *model)
{
    char copy[sizeof model->name];
    plm__print(copy, sizeof copy, "%s", text);
    char *rest = NULL;
    for (char *pair = strtok_r(copy, ",", &rest); pair; pair = strtok_r(NULL, ",", &rest))
        PLM_TRY(read_pair(pair, model));
    for (const plm_model_key *key = model->family->keys; key->name; key++)
        PLM_FAIL_IF(key->largest && *(int64_t *)figure(model, key) == 0, PLM_ERROR_ARGUMENT,
                    "model description: %s is missing; try %s", key->name, model->family->example);
    return model->family->check(model);
}

const plm_family *plm__family_find(const char *text)
{
    size_t length = strcspn(text, ":");
    for (const plm_family *const *family = plm__families; *family; family++)
        if (strlen((*family)->name) == length && memcmp(text, (*family)->name, length) == 0)
            return *family;
    return NULL;
}

static const plm_model *find_preset(const char *text)
{
    for (const plm_family *const *family = plm__families; *family; family++)
        for (const plm_model *preset = (*family)->presets; preset->name[0]; preset++)
            if (strcmp(text, preset->name) == 0)
                return preset;
    return NULL;
}

/* Tells all names, and a description of each family. */
static plm_status refuse(const char *text)
{
    char names[192] = "", examples[160] = "";
    for (const plm_family *const *family = plm__families; *family; family++) {
        list_word(examples, sizeof examples, " and ", (*family)->example);
        for (const plm_model *preset = (*family)->presets; preset->name[0]; preset++)
            list_word(names, sizeof names, ", ", preset->name);
    }
    return plm_fail(PLM_ERROR_ARGUMENT,
                    "unknown model '%.60s'; known are %s and descriptions such as %s", text, names,
                    examples);
}

plm_status plm_model_parse(const char *text, plm_model *model)
{
    plm_model made = {.family = plm__family_find(text)};
    PLM_FAIL_IF(strlen(text) >= sizeof made.name, PLM_ERROR_ARGUMENT,
                "wanted a model of under %zu characters, found '%.40s...'", sizeof made.name, text);
    const plm_model *preset = find_preset(text);
    if (preset) {
        *model = *preset;
        return PLM_OK;
    }
    if (!made.family || !strchr(text, ':'))
        return refuse(text);
    PLM_TRY(read_description(strchr(text, ':') + 1, &made));
    plm__print(made.name, sizeof made.name, "%s", text);
    *model = made;
    return PLM_OK;
}

plm_network plm_model_network(const plm_model *model)
{
    return (plm_network){.build = model->family->build, .config = model};
}

bool plm_model_is_masked(const plm_model *model)
{
    return model->family->is_masked;
}

void plm__model_tell(const plm_model *model, char *text, size_t room)
{
    plm_model copy = *model;
    char word[64];
    plm__print(text, room, "%s", model->family->name);
    for (const plm_model_key *key = model->family->keys; key->name; key++) {
        if (key->largest)
            plm__print(word, sizeof word, "%s=%" PRId64, key->name, *(int64_t *)figure(&copy, key));
        else
            plm__print(word, sizeof word, "%s=%.9g", key->name,
                       (double)*(float *)figure(&copy, key));
        list_word(text, room, " ", word);
    }
}
