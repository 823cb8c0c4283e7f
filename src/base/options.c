/* SPDX-License-Identifier: MIT */
/*
 * Reading a command line by its table. The line is read twice: first to look for what is wrong,
 * then to store, so that a refused line leaves the settings as they were. Nothing is allocated.
 */
#include "plimsoll/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/status.h"
#include "plimsoll/nearest.h"
#include "plimsoll/size.h"

/* A value of any kind, on its way into its field. */
typedef struct value {
    union {
        bool flag;
        size_t bytes;
        int64_t integer;
        double real;
        const char *text;
        int choice;
    } as;
} value;

/* The fields' values without a value and without a default, and what is wanted of a value. */
static const struct {
    size_t bytes; /* of the field */
    value none;
    const char *wanted;
} kinds[] = {
    [PLM_OPTION_FLAG] = {sizeof(bool), {{.flag = false}}, "1 or 0"},
    [PLM_OPTION_SIZE] = {sizeof(size_t), {{.bytes = 0}}, "a size such as 512MiB, 12GiB or 12GB"},
    [PLM_OPTION_COUNT] = {sizeof(int64_t), {{.integer = 0}}, "a whole number of at least 1"},
    [PLM_OPTION_INTEGER] = {sizeof(int64_t), {{.integer = -1}}, "a whole number of at least 0"},
    [PLM_OPTION_REAL] = {sizeof(double), {{.real = NAN}}, "a number of at least 0"},
    [PLM_OPTION_TEXT] = {sizeof(const char *), {{.text = NULL}}, "a text"},
    [PLM_OPTION_CHOICE] = {sizeof(int), {{.choice = -1}}, "one of its choices"},
};

static bool read_integer(const char *text, int64_t least, int64_t *integer)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false; /* strtoimax would take blanks and signs */
    errno = 0;
    intmax_t number = strtoimax(text, &end, 10);
    if (*end != '\0' || errno == ERANGE || number < least || number > INT64_MAX)
        return false;
    *integer = (int64_t)number;
    return true;
}

/* Decimal only: hexadecimal, "inf" and "nan" are somebody's mistake. */
static bool read_real(const char *text, double *real)
{
    char *end;
    if (text[strspn(text, "0123456789.eE+-")] != '\0' || !strpbrk(text, "0123456789") ||
        strchr("+-", text[0]))
        return false;
    double number = plm__number_read(text, &end);
    if (*end != '\0' || !isfinite(number))
        return false;
    *real = number;
    return true;
}

static bool read_choice(const char *text, const char *choices, int *choice)
{
    size_t count = strlen(text);
    for (int i = 0;; i++) {
        size_t length = strcspn(choices, "|");
        if (length == count && memcmp(choices, text, count) == 0) {
            *choice = i;
            return true;
        }
        if (choices[length] == '\0')
            return false;
        choices += length + 1;
    }
}

/* The environment's form of a flag; the command line has none. */
static bool read_flag(const char *text, bool *flag)
{
    *flag = strcmp(text, "1") == 0;
    return *flag || strcmp(text, "0") == 0;
}

static bool read_value(const plm_option *option, const char *text, value *read)
{
    switch (option->kind) {
    case PLM_OPTION_FLAG:
        return read_flag(text, &read->as.flag);
    case PLM_OPTION_SIZE:
        return plm_size_parse(text, &read->as.bytes) == PLM_OK;
    case PLM_OPTION_COUNT:
        return read_integer(text, 1, &read->as.integer);
    case PLM_OPTION_INTEGER:
        return read_integer(text, 0, &read->as.integer);
    case PLM_OPTION_REAL:
        return read_real(text, &read->as.real);
    case PLM_OPTION_TEXT:
        read->as.text = text;
        return true;
    case PLM_OPTION_CHOICE:
        return read_choice(text, option->choices, &read->as.choice);
    }
    PLM_BUG_IF(true, "option kind %d", (int)option->kind);
}

/* What plm_size_parse has just said, of this source. */
static plm_status size_refused(const char *source)
{
    plm_error said;
    plm_error_get(&said);
    return plm_fail(PLM_ERROR_ARGUMENT, "%s: %s", source, said.message);
}

/* `source` is what to name in a message: "--batch" or the environment's variable. */
static plm_status set_value(const plm_option *option, const char *source, const char *text,
                            void *settings)
{
    value read;
    if (!read_value(option, text, &read)) {
        if (option->kind == PLM_OPTION_SIZE)
            return size_refused(source);
        const char *wanted = kinds[option->kind].wanted;
        return option->kind == PLM_OPTION_CHOICE
                   ? plm_fail(PLM_ERROR_ARGUMENT, "%s: wanted one of %s, found '%.60s'", source,
                              option->choices, text)
                   : plm_fail(PLM_ERROR_ARGUMENT, "%s: wanted %s, found '%.60s'", source, wanted,
                              text);
    }
    if (settings)
        memcpy((char *)settings + option->offset, &read, kinds[option->kind].bytes);
    return PLM_OK;
}

const char *plm_environment(const char *variable)
{
    const char *text = getenv(variable);
    return text && *text ? text : NULL;
}

/* Defaults, then the environment over them. `settings` NULL only looks. */
static plm_status set_before_line(const plm_syntax *syntax, void *settings)
{
    for (int64_t i = 0; i < syntax->option_count; i++) {
        const plm_option *option = &syntax->options[i];
        if (settings)
            memcpy((char *)settings + option->offset, &kinds[option->kind].none,
                   kinds[option->kind].bytes);
        if (option->default_text)
            PLM_TRY(set_value(option, option->name, option->default_text, settings));
        const char *given = option->environment ? plm_environment(option->environment) : NULL;
        if (given)
            PLM_TRY(set_value(option, option->environment, given, settings));
    }
    return PLM_OK;
}

static plm_status find_option(const plm_syntax *syntax, const char *name, const plm_option **found)
{
    plm_nearest nearest = {.word = name};
    for (int64_t i = 0; i < syntax->option_count; i++) {
        if (strcmp(syntax->options[i].name, name) == 0) {
            *found = &syntax->options[i];
            return PLM_OK;
        }
        plm_nearest_offer(&nearest, syntax->options[i].name);
    }
    PLM_FAIL_IF(nearest.name, PLM_ERROR_ARGUMENT, "unknown option --%.60s; did you mean --%s?",
                name, nearest.name);
    return plm_fail(PLM_ERROR_ARGUMENT, "unknown option --%.60s; see %s --help", name,
                    syntax->command);
}

/* One option at argv[*at], which becomes the place of its last word. */
static plm_status take_option(const plm_syntax *syntax, int argc, char *const *argv, int *at,
                              void *settings)
{
    const char *word = argv[*at];
    size_t dashes = word[1] == '-' ? 2 : 1;
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) - dashes : strlen(word) - dashes;
    char source[2 + PLM_NEAREST_LETTERS_MAX + 1];
    int written = plm__print(source, sizeof source, "--%.*s", (int)length, word + dashes);
    PLM_FAIL_IF(dashes != 2 || written < 0 || (size_t)written >= sizeof source, PLM_ERROR_ARGUMENT,
                "unknown option %.60s; see %s --help", word, syntax->command);

    const plm_option *option;
    PLM_TRY(find_option(syntax, source + 2, &option));
    if (option->kind == PLM_OPTION_FLAG) {
        PLM_FAIL_IF(equals, PLM_ERROR_ARGUMENT, "%s takes no value, found '%.60s'", source,
                    equals + 1);
        return set_value(option, source, "1", settings);
    }
    if (equals)
        return set_value(option, source, equals + 1, settings);
    bool at_end = *at + 1 >= argc;
    PLM_FAIL_IF(at_end, PLM_ERROR_ARGUMENT, "%s: wanted %s, found the end of the line", source,
                kinds[option->kind].wanted);
    const char *text = argv[*at + 1];
    PLM_FAIL_IF(strncmp(text, "--", 2) == 0, PLM_ERROR_ARGUMENT,
                "%s: wanted %s, found '%.60s'; %s=VALUE takes any value", source,
                kinds[option->kind].wanted, text, source);
    *at += 1;
    return set_value(option, source, text, settings);
}

static bool help_is_asked(int argc, char *const *argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

/* Reads the line from front to back. `settings` NULL only looks. */
static plm_status take_line(const plm_syntax *syntax, int argc, char *const *argv, void *settings,
                            plm_operands *operands)
{
    bool options_end = false;
    for (int i = 1; i < argc; i++) {
        bool is_option = !options_end && argv[i][0] == '-' && argv[i][1] != '\0';
        if (is_option && strcmp(argv[i], "--") == 0) {
            options_end = true;
        } else if (is_option) {
            PLM_TRY(take_option(syntax, argc, argv, &i, settings));
        } else {
            PLM_FAIL_IF(operands->count >= syntax->operands_most, PLM_ERROR_ARGUMENT,
                        "wanted %s, found '%.60s' too; see %s --help",
                        syntax->operands ? syntax->operands : "options only", argv[i],
                        syntax->command);
            operands->items[operands->count++] = argv[i];
        }
    }
    PLM_FAIL_IF(operands->count < syntax->operands_least, PLM_ERROR_ARGUMENT,
                "wanted %s, found %s; see %s --help", syntax->operands,
                operands->count == 0 ? "none" : "fewer", syntax->command);
    return PLM_OK;
}

plm_status plm_options_parse(const plm_syntax *syntax, int argc, char *const *argv, void *settings,
                             plm_operands *operands)
{
    PLM_ASSERT(syntax->operands_most <= PLM_OPERANDS_MAX);
    plm_operands found = {0};
    if (help_is_asked(argc, argv)) {
        *operands = (plm_operands){.help = true};
        return PLM_OK;
    }
    PLM_TRY(set_before_line(syntax, NULL));
    PLM_TRY(take_line(syntax, argc, argv, NULL, &found));
    found = (plm_operands){0};
    PLM_TRY(set_before_line(syntax, settings));
    PLM_TRY(take_line(syntax, argc, argv, settings, &found));
    *operands = found;
    return PLM_OK;
}
