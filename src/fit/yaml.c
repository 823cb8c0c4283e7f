/* SPDX-License-Identifier: MIT */
/* A little YAML, line by line. */
#include "fit/yaml.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/utf8.h"

enum { LINE_TEXT = 256 };

static json_t *value_of(const char *text)
{
    char *end = NULL;
    if (!*text || strcmp(text, "null") == 0 || strcmp(text, "~") == 0)
        return json_null();
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return json_boolean(text[0] == 't');
    long long whole = strtoll(text, &end, 10);
    if (end != text && !*end)
        return json_integer(whole);
    double number = plm__number_read(text, &end);
    if (end != text && !*end && number - number == 0)
        return json_real(number);
    return json_string(text);
}

/* Takes blanks, a comment and quotes from a value. */
static char *strip(char *text)
{
    while (*text == ' ')
        text++;
    char quote = *text == '\'' || *text == '"' ? *text : '\0';
    char *end = quote ? strchr(text + 1, quote) : strstr(text, " #");
    if (end)
        *end = '\0';
    if (quote && end)
        return text + 1;
    for (size_t length = strlen(text); length > 0 && isspace((unsigned char)text[length - 1]);)
        text[--length] = '\0';
    return text;
}

/* A line "key: value" into the document, or into the object of the last key above. */
static plm_status read_line(const char *what, int number, char *line, json_t *root, json_t **inner)
{
    bool is_inner = line[0] == ' ';
    char *key = strip(line), *colon = strchr(key, ':');
    if (!*key || *key == '#' || strncmp(key, "---", 3) == 0)
        return PLM_OK;
    PLM_FAIL_IF(!colon || (is_inner && !*inner) || *key == '-', PLM_ERROR_FORMAT,
                "%s: wanted 'key: value', found another line at %d", what, number);
    *colon = '\0';
    char *text = strip(colon + 1);
    json_t *object = is_inner ? *inner : root, *made = NULL;
    made = !is_inner && (!*text || strcmp(text, "{}") == 0) ? json_object() : value_of(text);
    PLM_FAIL_IF(!made || json_object_set_new(object, key, made) != 0, PLM_ERROR_HOST_MEMORY,
                "out of host memory while reading %s", what);
    if (!is_inner)
        *inner = json_is_object(made) ? made : NULL;
    return PLM_OK;
}

static plm_status read_lines(const char *what, const char *bytes, size_t byte_count, json_t *root)
{
    json_t *inner = NULL;
    size_t at = 0;
    for (int number = 1; at < byte_count; number++) {
        char line[LINE_TEXT];
        const char *end = memchr(bytes + at, '\n', byte_count - at);
        size_t count = end ? (size_t)(end - bytes) - at : byte_count - at;
        PLM_FAIL_IF(count >= LINE_TEXT || memchr(bytes + at, '\0', count), PLM_ERROR_FORMAT,
                    "%s: wanted lines of text of under %d bytes, found another at %d", what,
                    LINE_TEXT, number);
        memcpy(line, bytes + at, count);
        line[count] = '\0';
        PLM_FAIL_IF(!plm__utf8_is_valid(line), PLM_ERROR_FORMAT,
                    "%s: wanted UTF-8, found other bytes in line %d", what, number);
        PLM_TRY(read_line(what, number, line, root, &inner));
        at += count + 1;
    }
    return PLM_OK;
}

plm_status plm__yaml_read(const char *what, const void *bytes, size_t byte_count, json_t **root)
{
    PLM_FAIL_IF(byte_count > PLM_JSON_SMALL_MAX, PLM_ERROR_FORMAT,
                "%s: wanted at most %d bytes of YAML, found %zu", what, PLM_JSON_SMALL_MAX,
                byte_count);
    json_t *made = json_object();
    PLM_FAIL_IF(!made, PLM_ERROR_HOST_MEMORY, "out of host memory while reading %s", what);
    plm_status status = read_lines(what, bytes, byte_count, made);
    if (status == PLM_OK)
        *root = made;
    else
        json_decref(made);
    return status;
}
