/* SPDX-License-Identifier: MIT */
/* JSON over jansson. */
#include "base/json.h"

#include <math.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "base/utf8.h"

/* Whether an allocation for JSON failed on this thread: jansson reads on as if the syntax were bad
 * or the character not there, and writes on without the piece that it had no memory for. */
static _Thread_local bool memory_ran_out;

static void *allocate(size_t bytes)
{
    void *block = plm__host_malloc(bytes);
    memory_ran_out |= !block;
    return block;
}

void plm__json_count_memory(void)
{
    json_set_alloc_funcs(allocate, plm__host_free);
}

/* Texts and keys may be names out of other people's files: what is no UTF-8 is no JSON either. */
static json_t *make_text(const char *value)
{
    if (plm__utf8_is_valid(value))
        return json_string_nocheck(value);
    plm_text clean = {0};
    plm__utf8_add_clean(&clean, value, (int64_t)strlen(value));
    json_t *made = clean.status == PLM_OK ? json_string_nocheck(clean.items) : NULL;
    plm__text_fini(&clean);
    return made;
}

static int set_member(json_t *object, const char *key, json_t *value)
{
    if (plm__utf8_is_valid(key))
        return json_object_set_nocheck(object, key, value);
    plm_text clean = {0};
    plm__utf8_add_clean(&clean, key, (int64_t)strlen(key));
    int refused = clean.status == PLM_OK ? json_object_set_nocheck(object, clean.items, value) : -1;
    plm__text_fini(&clean);
    return refused;
}

/* Takes `value` into the innermost open container. */
static void put(plm_json_writer *writer, const char *key, json_t *value)
{
    json_t *parent = writer->depth > 0 ? writer->open[writer->depth - 1] : NULL;
    int refused = 0;
    if (!value || writer->failed)
        refused = 1;
    else if (!parent)
        writer->root = json_incref(value);
    else if (key)
        refused = set_member(parent, key, value);
    else
        refused = json_array_append(parent, value);
    json_decref(value);
    if (refused)
        writer->failed = true;
}

static void begin(plm_json_writer *writer, const char *key, json_t *container)
{
    PLM_BUG_IF(writer->depth >= PLM_JSON_DEPTH_MAX, "JSON nested deeper than %d",
               PLM_JSON_DEPTH_MAX);
    put(writer, key, container);
    writer->open[writer->depth++] =
        writer->failed ? NULL : container; /* borrowed from its parent */
}

void plm__json_begin_object(plm_json_writer *writer, const char *key)
{
    begin(writer, key, json_object());
}

void plm__json_begin_array(plm_json_writer *writer, const char *key)
{
    begin(writer, key, json_array());
}

void plm__json_end(plm_json_writer *writer)
{
    PLM_BUG_IF(writer->depth == 0, "JSON container ended that was never begun");
    writer->depth--;
}

void plm__json_int(plm_json_writer *writer, const char *key, int64_t value)
{
    put(writer, key, json_integer(value));
}

void plm__json_bytes(plm_json_writer *writer, const char *key, size_t bytes)
{
    put(writer, key, json_integer((json_int_t)bytes));
}

void plm__json_real(plm_json_writer *writer, const char *key, double value)
{
    put(writer, key, isfinite(value) ? json_real(value) : json_null());
}

void plm__json_bool(plm_json_writer *writer, const char *key, bool value)
{
    put(writer, key, json_boolean(value));
}

void plm__json_text(plm_json_writer *writer, const char *key, const char *value)
{
    put(writer, key, value ? make_text(value) : json_null());
}

void plm__json_value(plm_json_writer *writer, const char *key, json_t *value)
{
    put(writer, key, json_incref(value));
}

void plm__json_abandon(plm_json_writer *writer)
{
    json_decref(writer->root);
    memset(writer, 0, sizeof *writer);
}

/* Takes a piece of the line from jansson. */
static int add_piece(const char *bytes, size_t count, void *user)
{
    plm_text *text = user;
    plm__text_add_bytes(text, bytes, (int64_t)count);
    return text->status == PLM_OK ? 0 : -1;
}

plm_status plm__json_finish(plm_json_writer *writer, char **line)
{
    plm_text text = {0};
    bool failed = writer->failed;
    memory_ran_out = false;
    if (!failed)
        failed = json_dump_callback(writer->root, add_piece, &text,
                                    JSON_COMPACT | JSON_REAL_PRECISION(17)) != 0;
    plm__json_abandon(writer);
    if (failed || memory_ran_out) { /* then it may lack a piece in the middle */
        plm__text_fini(&text);
        return plm_fail(PLM_ERROR_HOST_MEMORY, "out of host memory while writing JSON");
    }
    *line = text.items;
    return PLM_OK;
}

plm_status plm__json_read(const char *what, const void *bytes, size_t byte_count, json_t **root)
{
    json_error_t error;
    memory_ran_out = false;
    json_t *document = json_loadb(bytes ? bytes : "", byte_count, JSON_REJECT_DUPLICATES, &error);
    bool failed = !document && json_error_code(&error) == json_error_out_of_memory;
    if (memory_ran_out || failed) {
        json_decref(document); /* a text in it may lack a character */
        return plm_fail(PLM_ERROR_HOST_MEMORY, "out of host memory while reading %s", what);
    }
    PLM_FAIL_IF(!document, PLM_ERROR_FORMAT, "%s is not valid JSON: %s at line %d, column %d", what,
                error.text, error.line, error.column);
    *root = document;
    return PLM_OK;
}

plm_status plm__json_read_small(const char *what, const void *bytes, size_t byte_count,
                                json_t **root)
{
    PLM_FAIL_IF(byte_count > PLM_JSON_SMALL_MAX, PLM_ERROR_FORMAT,
                "%s: wanted at most %d bytes of JSON, found %zu", what, PLM_JSON_SMALL_MAX,
                byte_count);
    return plm__json_read(what, bytes, byte_count, root);
}

void plm__json_describe(const json_t *value, char text[PLM_JSON_DESCRIPTION_TEXT])
{
    static const char *const kinds[] = {"an object", "an array", "a text", "a whole number",
                                        "a number",  "true",     "false",  "null"};
    enum { ROOM = PLM_JSON_DESCRIPTION_TEXT };
    if (!value)
        snprintf(text, ROOM, "nothing");
    else if (json_is_string(value) && json_string_length(value) <= 40)
        snprintf(text, ROOM, "'%s'", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, ROOM, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        plm__print(text, ROOM, "%.9g", json_real_value(value));
    else
        snprintf(text, ROOM, "%s", kinds[json_typeof(value)]);
    for (char *at = text; *at; at++) /* messages are one line */
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = ' ';
}
