/* SPDX-License-Identifier: MIT */
/* Lists of words: environments, and commands whose arguments are varied. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "script/script.h"

enum { NUMBER_TEXT = 24 };

static plm_status copy_word(const char *start, size_t count, const char *more, char **copy)
{
    const size_t more_count = strlen(more);
    PLM_TRY(plm__host_alloc(count + more_count + 1, copy));
    memcpy(*copy, start, count);
    memcpy(*copy + count, more, more_count + 1);
    return PLM_OK;
}

/* Room for one more word and the NULL behind it. */
static plm_status take_word(plm_words *words, char *word)
{
    if (PLM_ARRAY_RESERVE(words, words->count + 2) != PLM_OK) {
        plm__host_free(word);
        return PLM_ERROR_HOST_MEMORY;
    }
    words->items[words->count++] = word;
    words->items[words->count] = NULL;
    return PLM_OK;
}

plm_status plm__words_push(plm_words *words, const char *word)
{
    char *copy = NULL;
    PLM_TRY(copy_word(word, strlen(word), "", &copy));
    return take_word(words, copy);
}

plm_status plm__words_add(plm_words *words, char *const *list)
{
    for (; *list; list++)
        PLM_TRY(plm__words_push(words, *list));
    return PLM_OK;
}

void plm__words_free(plm_words *words)
{
    for (int64_t i = 0; i < words->count; i++)
        plm__host_free(words->items[i]);
    PLM_ARRAY_FREE(words);
}

/* Puts "START MORE" in the place of a word. */
static plm_status replace_word(plm_words *words, int64_t place, const char *start, size_t count,
                               const char *more)
{
    char *copy = NULL;
    PLM_TRY(copy_word(start, count, more, &copy));
    plm__host_free(words->items[place]);
    words->items[place] = copy;
    return PLM_OK;
}

/* ---- environments ---- */

static int64_t find_variable(const plm_words *environment, const char *name)
{
    const size_t length = strlen(name);
    int64_t i = 0;
    while (i < environment->count && (strncmp(environment->items[i], name, length) != 0 ||
                                      environment->items[i][length] != '='))
        i++;
    return i;
}

const char *plm__environment_get(const plm_words *environment, const char *name)
{
    const int64_t place = find_variable(environment, name);
    return place < environment->count ? environment->items[place] + strlen(name) + 1 : NULL;
}

static plm_status set_joined(plm_words *environment, const char *name, const char *value,
                             const char *between, const char *rest)
{
    plm_text text = {0};
    plm__text_add(&text, "%s=%s%s%s", name, value, between, rest);
    plm_status status = plm__text_status(&text);
    const int64_t place = find_variable(environment, name);
    if (status == PLM_OK && place < environment->count)
        status = replace_word(environment, place, text.items, (size_t)text.count, "");
    else if (status == PLM_OK)
        status = plm__words_push(environment, text.items);
    plm__text_fini(&text);
    return status;
}

plm_status plm__environment_set(plm_words *environment, const char *name, const char *value)
{
    return set_joined(environment, name, value, "", "");
}

plm_status plm__environment_prepend(plm_words *environment, const char *name, const char *value)
{
    const char *rest = plm__environment_get(environment, name);
    return set_joined(environment, name, value, rest && *rest ? ":" : "", rest ? rest : "");
}

void plm__environment_unset(plm_words *environment, const char *name)
{
    const int64_t place = find_variable(environment, name);
    if (place == environment->count)
        return;
    plm__host_free(environment->items[place]);
    memmove(environment->items + place, environment->items + place + 1,
            (size_t)(environment->count - place) * sizeof *environment->items);
    environment->count--;
}

/* ---- arguments ---- */

int64_t plm__script_word(const plm_words *command)
{
    for (int64_t i = 1; i < command->count; i++) {
        const char *word = command->items[i];
        const size_t length = strlen(word);
        if (length > 3 && strcmp(word + length - 3, ".py") == 0)
            return i;
        if (strcmp(word, "-m") == 0 && i + 1 < command->count &&
            strncmp(command->items[i + 1], "torch.distributed.", 18) != 0 &&
            strncmp(command->items[i + 1], "accelerate.", 11) != 0)
            return i + 1;
    }
    return 0;
}

/* How many bytes of the word the name takes, '-' and '_' alike; 0 when the word is another. */
static size_t match_name(const char *word, const char *name)
{
    size_t i = 0;
    for (; name[i]; i++) {
        const char found = word[i] == '_' ? '-' : word[i];
        if (found != (name[i] == '_' ? '-' : name[i]))
            return 0;
    }
    return i;
}

static bool is_value(const char *word)
{
    return word && (word[0] != '-' || isdigit((unsigned char)word[1]));
}

/* Sets the word at `place` when it is the argument; *is_it says whether it was. */
static plm_status set_word(plm_words *command, int64_t place, const char *name, const char *value,
                           bool *is_it)
{
    const char *word = command->items[place];
    const size_t dashes = strspn(word, "-");
    const size_t named = dashes <= 2 ? match_name(word + dashes, name) : 0;
    const bool is_letter = named == 1 && dashes == 1;
    const char *behind = word + dashes + named;
    char equals[NUMBER_TEXT + 1];
    *is_it = true;
    if (named > 0 && *behind == '=')
        return replace_word(command, place, word, dashes + named + 1, value);
    if (is_letter && isdigit((unsigned char)*behind))
        return replace_word(command, place, word, 2, value);
    if ((is_letter || (named > 0 && dashes == 2)) && !*behind) {
        if (is_value(command->items[place + 1]))
            return replace_word(command, place + 1, "", 0, value);
        snprintf(equals, sizeof equals, "%s%s", dashes == 2 ? "=" : "", value);
        return replace_word(command, place, word, dashes + named, equals);
    }
    *is_it = false;
    return PLM_OK;
}

/* Appends "--batch=8", or "-b" and "8". */
static plm_status append_argument(plm_words *command, const char *name, const char *value)
{
    plm_text text = {0};
    const bool is_letter = strlen(name) == 1;
    if (is_letter)
        plm__text_add(&text, "-%s", name);
    else
        plm__text_add(&text, "--%s=%s", name, value);
    plm_status status = plm__text_status(&text);
    if (status == PLM_OK)
        status = plm__words_push(command, text.items);
    if (status == PLM_OK && is_letter)
        status = plm__words_push(command, value);
    plm__text_fini(&text);
    return status;
}

plm_status plm__arguments_set(plm_words *command, const char *name, int64_t value)
{
    char number[NUMBER_TEXT];
    bool found = false;
    snprintf(number, sizeof number, "%lld", (long long)value);
    for (int64_t i = plm__script_word(command) + 1; i < command->count; i++) {
        bool is_it;
        PLM_TRY(set_word(command, i, name, number, &is_it));
        found = found || is_it;
    }
    return found ? PLM_OK : append_argument(command, name, number);
}
