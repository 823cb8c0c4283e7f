/* SPDX-License-Identifier: MIT */
/* The settings string: one table of keys serves the reader and the printer. */
#include "torch/alloc_conf.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

#define MEBIBYTE ((size_t)1 << 20)

enum { TOKEN_MAX = 64 }; /* the longest key or value, with its NUL */

/* ---- tokens ---- */

typedef struct settings_lexer {
    const char *rest;
    char token[TOKEN_MAX]; /* one of , : [ ] or a word; "" at the end */
} settings_lexer;

static bool is_mark(char byte)
{
    return byte == ',' || byte == ':' || byte == '[' || byte == ']';
}

/* Moves to the next token. Spaces vanish, inside words too. */
static plm_status advance(settings_lexer *lexer)
{
    size_t count = 0;
    for (; *lexer->rest; lexer->rest++) {
        char byte = *lexer->rest;
        if (byte == ' ')
            continue;
        if (is_mark(byte) && count > 0)
            break;
        PLM_FAIL_IF(count + 1 >= TOKEN_MAX, PLM_ERROR_FORMAT,
                    "allocator settings: a word of more than %d bytes", TOKEN_MAX - 1);
        lexer->token[count++] = byte;
        if (is_mark(byte)) {
            lexer->rest++;
            break;
        }
    }
    lexer->token[count] = '\0';
    return PLM_OK;
}

static bool at_mark(const settings_lexer *lexer, char mark)
{
    return lexer->token[0] == mark;
}

static bool at_end(const settings_lexer *lexer)
{
    return lexer->token[0] == '\0';
}

static plm_status expect(settings_lexer *lexer, char mark, const char *key)
{
    PLM_FAIL_IF(!at_mark(lexer, mark), PLM_ERROR_FORMAT,
                "allocator settings: %s: expected '%c', found '%s'", key, mark, lexer->token);
    return advance(lexer);
}

/* ---- values ---- */

/* A key's row; the value is read and printed by its kind. */
typedef enum key_kind {
    KEY_BACKEND,
    KEY_MEBIBYTES,
    KEY_BYTES,
    KEY_REAL,
    KEY_BOOL,
    KEY_COUNT,
    KEY_DIVISIONS
} key_kind;

static const struct {
    const char *name;
    key_kind kind;
    size_t offset; /* in plm_pool_settings */
} keys[] = {
#define FIELD(field) offsetof(plm_pool_settings, field)
    {"backend", KEY_BACKEND, FIELD(backend)},
    {"max_split_size_mb", KEY_MEBIBYTES, FIELD(max_split_bytes)},
    {"max_non_split_rounding_mb", KEY_MEBIBYTES, FIELD(max_non_split_bytes)},
    {"garbage_collection_threshold", KEY_REAL, FIELD(garbage_threshold)},
    {"roundup_power2_divisions", KEY_DIVISIONS, FIELD(divisions)},
    {"expandable_segments", KEY_BOOL, FIELD(expandable_segments)},
    {"expandable_segments_page_size", KEY_BYTES, FIELD(expandable_page_bytes)},
    {"large_segment_size_mb", KEY_MEBIBYTES, FIELD(large_segment_bytes)},
    {"per_process_memory_fraction", KEY_REAL, FIELD(memory_fraction)},
    {"throw_on_cudamalloc_oom", KEY_BOOL, FIELD(throw_on_driver_oom)},
    {"release_lock_on_cudamalloc", KEY_BOOL, FIELD(release_lock_on_malloc)},
    {"graph_capture_record_stream_reuse", KEY_BOOL, FIELD(graph_capture_record_stream_reuse)},
    {"pinned_use_cuda_host_register", KEY_BOOL, FIELD(pinned_use_host_register)},
    {"pinned_num_register_threads", KEY_COUNT, FIELD(pinned_register_threads)},
    {"pinned_use_background_threads", KEY_BOOL, FIELD(pinned_use_background_threads)},
#undef FIELD
};

enum { KEYS = sizeof keys / sizeof *keys };

static plm_status read_count(settings_lexer *lexer, const char *key, size_t most, size_t *count)
{
    char *end;
    unsigned long long value = strtoull(lexer->token, &end, 10);
    bool is_digit = lexer->token[0] >= '0' && lexer->token[0] <= '9';
    PLM_FAIL_IF(!is_digit || *end || value > most, PLM_ERROR_FORMAT,
                "allocator settings: %s: '%s' is not a whole number up to %zu", key, lexer->token,
                most);
    *count = (size_t)value;
    return advance(lexer);
}

static plm_status read_real(settings_lexer *lexer, const char *key, double *real)
{
    char *end;
    double value = plm__number_read(lexer->token, &end);
    PLM_FAIL_IF(end == lexer->token || *end || !(value > 0.0 && value <= 1.0), PLM_ERROR_FORMAT,
                "allocator settings: %s: '%s' is not between 0 and 1", key, lexer->token);
    *real = value;
    return advance(lexer);
}

static plm_status read_bool(settings_lexer *lexer, const char *key, bool *flag)
{
    bool is_true = strcmp(lexer->token, "True") == 0;
    PLM_FAIL_IF(!is_true && strcmp(lexer->token, "False") != 0, PLM_ERROR_FORMAT,
                "allocator settings: %s: '%s' is neither True nor False", key, lexer->token);
    *flag = is_true;
    return advance(lexer);
}

static plm_status read_backend(settings_lexer *lexer, const char *key, plm_pool_backend *backend)
{
    bool is_async = strcmp(lexer->token, "cudaMallocAsync") == 0;
    PLM_FAIL_IF(!is_async && strcmp(lexer->token, "native") != 0, PLM_ERROR_FORMAT,
                "allocator settings: %s: '%s' is neither native nor cudaMallocAsync", key,
                lexer->token);
    *backend = is_async ? PLM_POOL_BACKEND_ASYNC : PLM_POOL_BACKEND_NATIVE;
    return advance(lexer);
}

static bool is_power_of_two(size_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

static void fill(uint32_t *divisions, int first, int end, uint32_t value)
{
    for (int i = first; i < end; i++)
        divisions[i] = value;
}

/* One `256:4` or `>:8` of the list. *last = the interval named last, -1 before the first. */
static plm_status read_interval(settings_lexer *lexer, const char *key, uint32_t *divisions,
                                int *last)
{
    size_t boundary = 0, value;
    bool is_rest = strcmp(lexer->token, ">") == 0;
    if (is_rest)
        PLM_TRY(advance(lexer));
    else
        PLM_TRY(read_count(lexer, key, SIZE_MAX, &boundary));
    PLM_FAIL_IF(!is_rest && !is_power_of_two(boundary), PLM_ERROR_FORMAT,
                "allocator settings: %s: interval %zu is not a power of two", key, boundary);
    PLM_TRY(expect(lexer, ':', key));
    PLM_TRY(read_count(lexer, key, UINT32_MAX, &value));
    PLM_FAIL_IF(value != 0 && !is_power_of_two(value), PLM_ERROR_FORMAT,
                "allocator settings: %s: %zu divisions: neither 0 nor a power of two", key, value);
    if (is_rest) {
        fill(divisions, *last + 1, PLM_POOL_INTERVALS, (uint32_t)value);
        return PLM_OK;
    }
    int interval = 63 - __builtin_clzll(boundary);
    if (interval >= PLM_POOL_INTERVALS)
        interval = PLM_POOL_INTERVALS - 1;
    if (*last < 0)
        fill(divisions, 0, interval, (uint32_t)value);
    divisions[interval] = (uint32_t)value;
    *last = interval;
    return PLM_OK;
}

static plm_status read_divisions(settings_lexer *lexer, const char *key, uint32_t *divisions)
{
    if (!at_mark(lexer, '[')) {
        size_t value;
        PLM_TRY(read_count(lexer, key, UINT32_MAX, &value));
        PLM_FAIL_IF(!is_power_of_two(value), PLM_ERROR_FORMAT,
                    "allocator settings: %s: %zu divisions: not a power of two", key, value);
        fill(divisions, 0, PLM_POOL_INTERVALS, (uint32_t)value);
        return PLM_OK;
    }
    int last = -1;
    PLM_TRY(advance(lexer));
    while (!at_mark(lexer, ']')) {
        PLM_TRY(read_interval(lexer, key, divisions, &last));
        if (!at_mark(lexer, ']'))
            PLM_TRY(expect(lexer, ',', key));
    }
    return advance(lexer);
}

static plm_status read_mebibytes(settings_lexer *lexer, const char *key, size_t *bytes)
{
    size_t mebibytes;
    PLM_TRY(read_count(lexer, key, SIZE_MAX / MEBIBYTE, &mebibytes));
    *bytes = mebibytes * MEBIBYTE;
    return PLM_OK;
}

static plm_status read_thread_count(settings_lexer *lexer, const char *key, uint32_t *threads)
{
    size_t count;
    PLM_TRY(read_count(lexer, key, UINT32_MAX, &count));
    *threads = (uint32_t)count;
    return PLM_OK;
}

static plm_status read_value(settings_lexer *lexer, int key, plm_pool_settings *settings)
{
    const char *name = keys[key].name;
    void *field = (char *)settings + keys[key].offset;
    switch (keys[key].kind) {
    case KEY_BACKEND:
        return read_backend(lexer, name, field);
    case KEY_MEBIBYTES:
        return read_mebibytes(lexer, name, field);
    case KEY_BYTES:
        return read_count(lexer, name, SIZE_MAX, field);
    case KEY_REAL:
        return read_real(lexer, name, field);
    case KEY_BOOL:
        return read_bool(lexer, name, field);
    case KEY_COUNT:
        return read_thread_count(lexer, name, field);
    case KEY_DIVISIONS:
        return read_divisions(lexer, name, field);
    }
    return PLM_OK;
}

static plm_status read_item(settings_lexer *lexer, plm_pool_settings *settings)
{
    int key = 0;
    while (key < KEYS && strcmp(keys[key].name, lexer->token) != 0)
        key++;
    PLM_FAIL_IF(key == KEYS, PLM_ERROR_FORMAT, "allocator settings: unknown key '%s'",
                lexer->token);
    PLM_TRY(advance(lexer));
    PLM_TRY(expect(lexer, ':', keys[key].name));
    return read_value(lexer, key, settings);
}

plm_status plm__torch_settings_parse(const char *text, plm_pool_settings *settings)
{
    plm_pool_settings defaults = plm__pool_settings_default(), read = *settings;
    read.max_split_bytes = defaults.max_split_bytes;
    read.garbage_threshold = defaults.garbage_threshold;
    memcpy(read.divisions, defaults.divisions, sizeof read.divisions);
    settings_lexer lexer = {.rest = text};
    PLM_TRY(advance(&lexer));
    while (!at_end(&lexer)) {
        PLM_TRY(read_item(&lexer, &read));
        if (!at_end(&lexer))
            PLM_TRY(expect(&lexer, ',', "between two items"));
    }
    PLM_TRY(plm__pool_settings_check(&read));
    *settings = read;
    return PLM_OK;
}

/* ---- printing ---- */

/* A value for all, or every interval by name: what is not named would become 0. */
static void print_divisions(const uint32_t *divisions, plm_text *text)
{
    bool is_uniform = true;
    for (int i = 1; i < PLM_POOL_INTERVALS; i++)
        is_uniform = is_uniform && divisions[i] == divisions[0];
    if (is_uniform) {
        plm__text_add(text, "%u", divisions[0]);
        return;
    }
    int last = PLM_POOL_INTERVALS - 1; /* from here on all are the same */
    while (divisions[last - 1] == divisions[PLM_POOL_INTERVALS - 1])
        last--;
    int first = 0; /* up to here all are the same */
    while (divisions[first + 1] == divisions[0])
        first++;
    for (int i = first; i < last; i++)
        plm__text_add(text, "%s%u:%u", i == first ? "[" : ",", 1u << i, divisions[i]);
    plm__text_add(text, ",>:%u]", divisions[last]);
}

static void print_value(key_kind kind, const void *field, plm_text *text)
{
    switch (kind) {
    case KEY_BACKEND:
        plm__text_add(text, "%s",
                      *(const plm_pool_backend *)field == PLM_POOL_BACKEND_ASYNC ? "cudaMallocAsync"
                                                                                 : "native");
        return;
    case KEY_MEBIBYTES:
        plm__text_add(text, "%zu", *(const size_t *)field / MEBIBYTE);
        return;
    case KEY_BYTES:
        plm__text_add(text, "%zu", *(const size_t *)field);
        return;
    case KEY_REAL:
        plm__text_add(text, "%.17g", *(const double *)field);
        return;
    case KEY_BOOL:
        plm__text_add(text, "%s", *(const bool *)field ? "True" : "False");
        return;
    case KEY_COUNT:
        plm__text_add(text, "%u", *(const uint32_t *)field);
        return;
    case KEY_DIVISIONS:
        print_divisions(field, text);
        return;
    }
}

static size_t value_bytes(key_kind kind)
{
    static const size_t bytes[] = {[KEY_BACKEND] = sizeof(plm_pool_backend),
                                   [KEY_MEBIBYTES] = sizeof(size_t),
                                   [KEY_BYTES] = sizeof(size_t),
                                   [KEY_REAL] = sizeof(double),
                                   [KEY_BOOL] = sizeof(bool),
                                   [KEY_COUNT] = sizeof(uint32_t),
                                   [KEY_DIVISIONS] = sizeof(uint32_t[PLM_POOL_INTERVALS])};
    return bytes[kind];
}

void plm__torch_settings_print(const plm_pool_settings *settings, plm_text *text)
{
    plm_pool_settings defaults = plm__pool_settings_default();
    const char *comma = "";
    for (int key = 0; key < KEYS; key++) {
        const char *field = (const char *)settings + keys[key].offset;
        const char *usual = (const char *)&defaults + keys[key].offset;
        if (memcmp(field, usual, value_bytes(keys[key].kind)) == 0)
            continue;
        plm__text_add(text, "%s%s:", comma, keys[key].name);
        print_value(keys[key].kind, field, text);
        comma = ",";
    }
}
