/* SPDX-License-Identifier: MIT */
/*
 * A JSON reader without recursion: what is open stands in an array of kinds, and each container is
 * a mark of the document above its empty list or dictionary. Long arrays are given to the document
 * in batches, as pickles do, so that their items do not pile up on the stack.
 */
#include "torch/json_form.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"

enum { BATCH_ITEMS = 1000, NUMBER_BYTES_MAX = 128 };

typedef struct json_reader {
    plm_stream *stream;
    plm_document *document;
    plm_text scratch; /* the text being read */
    char open[PLM_DOCUMENT_DEPTH_MAX];
    int depth;
} json_reader;

/* *byte = the next byte, not consumed; -1 at the end. */
static inline plm_status peek(json_reader *reader, int *byte)
{
    plm_stream *stream = reader->stream;
    if (stream->next == stream->end) {
        PLM_TRY(plm__stream_fill(stream, 1));
        if (stream->next == stream->end) {
            *byte = -1;
            return PLM_OK;
        }
    }
    *byte = *stream->next;
    return PLM_OK;
}

/* Skips white space, then peeks. */
static inline plm_status peek_token(json_reader *reader, int *byte)
{
    for (;;) {
        PLM_TRY(peek(reader, byte));
        if (*byte != ' ' && *byte != '\n' && *byte != '\t' && *byte != '\r')
            return PLM_OK;
        reader->stream->next++;
    }
}

static plm_status unexpected(const char *wanted, int byte)
{
    if (byte < 0)
        return plm_fail(PLM_ERROR_FORMAT, "the file is cut off: wanted %s", wanted);
    if (byte < ' ' || byte > '~')
        return plm_fail(PLM_ERROR_FORMAT, "wanted %s, found the byte 0x%02x", wanted, byte);
    return plm_fail(PLM_ERROR_FORMAT, "wanted %s, found '%c'", wanted, byte);
}

/* Texts. */

static plm_status read_hex(json_reader *reader, uint32_t *unit)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        int byte;
        PLM_TRY(peek(reader, &byte));
        int digit = byte >= '0' && byte <= '9'   ? byte - '0'
                    : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
                    : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return unexpected("four hexadecimal digits", byte);
        value = value << 4 | (uint32_t)digit;
        reader->stream->next++;
    }
    *unit = value;
    return PLM_OK;
}

static void add_code_point(plm_text *text, uint32_t code)
{
    char bytes[4];
    int count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = count - 1; i > 0; i--) {
        bytes[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    bytes[0] = (char)(lead[count] | code);
    plm__text_add_bytes(text, bytes, count);
}

/* After "\u". A lone surrogate is kept as it is: Python writes them for undecodable file names. */
static plm_status read_unicode_escape(json_reader *reader)
{
    uint32_t unit, low = 0;
    PLM_TRY(read_hex(reader, &unit));
    PLM_TRY(plm__stream_fill(reader->stream, 6));
    const uint8_t *next = reader->stream->next;
    bool pair = unit >= 0xd800 && unit < 0xdc00 && plm__stream_left(reader->stream) >= 6 &&
                next[0] == '\\' && next[1] == 'u' && (next[2] == 'd' || next[2] == 'D') &&
                strchr("cdefCDEF", next[3]) && next[3] != 0;
    if (pair) {
        reader->stream->next += 2;
        PLM_TRY(read_hex(reader, &low));
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    }
    add_code_point(&reader->scratch, unit);
    return PLM_OK;
}

static plm_status read_escape(json_reader *reader)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int byte;
    PLM_TRY(peek(reader, &byte));
    const char *found = byte > 0 ? strchr(from, byte) : NULL;
    if (!found && byte != 'u')
        return unexpected("an escape", byte);
    reader->stream->next++;
    if (!found)
        return read_unicode_escape(reader);
    plm__text_add_bytes(&reader->scratch, &to[found - from], 1);
    return PLM_OK;
}

/* The plain bytes of a text up to a quote, a backslash or the window's end. */
static const uint8_t *plain_end(const plm_stream *stream)
{
    const uint8_t *at = stream->next;
    while (at < stream->end && *at != '"' && *at != '\\' && *at >= 0x20)
        at++;
    return at;
}

/* Pushes the text whose opening quote is the next byte. */
static plm_status read_text(json_reader *reader)
{
    plm_stream *stream = reader->stream;
    stream->next++;
    reader->scratch.count = 0;
    for (;;) {
        int byte;
        PLM_TRY(peek(reader, &byte));
        const uint8_t *end = plain_end(stream);
        if (end < stream->end && *end == '"' && reader->scratch.count == 0) {
            PLM_TRY(plm__document_push_text(reader->document, stream->next,
                                            (size_t)(end - stream->next)));
            stream->next = end + 1;
            return PLM_OK;
        }
        PLM_FAIL_IF(reader->scratch.count > PLM_DOCUMENT_TEXT_MAX, PLM_ERROR_FORMAT,
                    "a text of more than %d bytes", PLM_DOCUMENT_TEXT_MAX);
        plm__text_add_bytes(&reader->scratch, (const char *)stream->next, end - stream->next);
        stream->next = end;
        PLM_TRY(peek(reader, &byte));
        if (byte < 0x20)
            return unexpected("the rest of a text", byte);
        if (byte != '"' && byte != '\\')
            continue;
        stream->next++;
        if (byte == '"')
            break;
        PLM_TRY(read_escape(reader));
    }
    PLM_TRY(plm__text_status(&reader->scratch));
    return plm__document_push_text(reader->document, (const uint8_t *)reader->scratch.items,
                                   (size_t)reader->scratch.count);
}

/* Numbers and words. */

/* -?(0|[1-9][0-9]*) ; then a fraction or exponent makes it a real. Returns NULL when malformed. */
static const char *scan_number(const char *at, bool *real)
{
    at += *at == '-';
    if (*at < '0' || *at > '9')
        return NULL;
    if (*at == '0' && at[1] >= '0' && at[1] <= '9')
        return NULL;
    while (*at >= '0' && *at <= '9')
        at++;
    *real = *at == '.' || *at == 'e' || *at == 'E';
    if (*at == '.') {
        at++;
        if (*at < '0' || *at > '9')
            return NULL;
        while (*at >= '0' && *at <= '9')
            at++;
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        at += *at == '+' || *at == '-';
        if (*at < '0' || *at > '9')
            return NULL;
        while (*at >= '0' && *at <= '9')
            at++;
    }
    return at;
}

static plm_status push_number(json_reader *reader, const char *text)
{
    bool real = false;
    const char *end = scan_number(text, &real);
    PLM_FAIL_IF(!end || *end, PLM_ERROR_FORMAT, "'%.40s' is no number", text);
    plm_value value = {.kind = PLM_VALUE_REAL};
    errno = 0;
    if (real) {
        value.real = plm__number_read(text, NULL);
    } else if (*text == '-') {
        value.kind = PLM_VALUE_INTEGER;
        value.integer = strtoll(text, NULL, 10);
    } else {
        value.natural = strtoull(text, NULL, 10);
        value.kind = value.natural > INT64_MAX ? PLM_VALUE_NATURAL : PLM_VALUE_INTEGER;
    }
    PLM_FAIL_IF(!real && errno == ERANGE, PLM_ERROR_FORMAT, "'%.40s' does not fit 64 bits", text);
    return plm__document_push(reader->document, value);
}

static plm_status read_number(json_reader *reader)
{
    char text[NUMBER_BYTES_MAX];
    PLM_TRY(plm__stream_fill(reader->stream, NUMBER_BYTES_MAX));
    size_t count = 0, left = plm__stream_left(reader->stream);
    const uint8_t *next = reader->stream->next;
    while (count < left && count < NUMBER_BYTES_MAX - 1 && next[count] &&
           strchr("+-.0123456789eE", next[count])) {
        text[count] = (char)next[count];
        count++;
    }
    text[count] = '\0';
    PLM_TRY(push_number(reader, text));
    reader->stream->next += count;
    return PLM_OK;
}

static plm_status read_word(json_reader *reader, int first)
{
    static const struct {
        const char *text;
        plm_value value;
    } words[] = {{"true", {.kind = PLM_VALUE_BOOL, .integer = 1}},
                 {"false", {.kind = PLM_VALUE_BOOL, .integer = 0}},
                 {"null", {.kind = PLM_VALUE_NONE}}};
    PLM_TRY(plm__stream_fill(reader->stream, 5));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t count = strlen(words[i].text);
        if (plm__stream_left(reader->stream) >= count &&
            memcmp(reader->stream->next, words[i].text, count) == 0) {
            reader->stream->next += count;
            return plm__document_push(reader->document, words[i].value);
        }
    }
    return unexpected("a value", first);
}

/* Containers. */

static plm_status open_container(json_reader *reader, int byte)
{
    PLM_FAIL_IF(reader->depth >= PLM_DOCUMENT_DEPTH_MAX, PLM_ERROR_FORMAT, "nested deeper than %d",
                PLM_DOCUMENT_DEPTH_MAX);
    reader->open[reader->depth++] = (char)byte;
    reader->stream->next++;
    plm_value empty = {.kind = byte == '[' ? PLM_VALUE_EMPTY_LIST : PLM_VALUE_EMPTY_DICT};
    PLM_TRY(plm__document_push(reader->document, empty));
    return plm__document_mark(reader->document);
}

/* Gives what is above the innermost mark to its container; `goes_on` marks again. */
static plm_status flush(json_reader *reader, bool goes_on)
{
    int64_t first;
    PLM_TRY(plm__document_unmark(reader->document, &first));
    PLM_TRY(reader->open[reader->depth - 1] == '[' ? plm__document_append(reader->document, first)
                                                   : plm__document_set(reader->document, first));
    return goes_on ? plm__document_mark(reader->document) : PLM_OK;
}

static plm_status flush_batch(json_reader *reader)
{
    const plm_document *document = reader->document;
    if (reader->open[reader->depth - 1] != '[' ||
        document->stack.count - document->marks[document->mark_count - 1] < BATCH_ITEMS)
        return PLM_OK;
    return flush(reader, true);
}

static plm_status read_key(json_reader *reader)
{
    int byte;
    PLM_TRY(peek_token(reader, &byte));
    if (byte != '"')
        return unexpected("a key in quotes", byte);
    PLM_TRY(read_text(reader));
    PLM_TRY(peek_token(reader, &byte));
    if (byte != ':')
        return unexpected("':' after a key", byte);
    reader->stream->next++;
    return PLM_OK;
}

/* Reads one value, or opens a container: *opened. */
static plm_status read_value(json_reader *reader, bool *opened)
{
    int byte;
    PLM_TRY(peek_token(reader, &byte));
    *opened = byte == '[' || byte == '{';
    if (*opened)
        return open_container(reader, byte);
    if (byte == '"')
        return read_text(reader);
    if (byte == '-' || (byte >= '0' && byte <= '9'))
        return read_number(reader);
    return read_word(reader, byte);
}

/* After a value: closes the containers that end here, and stands before the next value. */
static plm_status read_after_value(json_reader *reader)
{
    while (reader->depth > 0) {
        bool list = reader->open[reader->depth - 1] == '[';
        int byte;
        PLM_TRY(peek_token(reader, &byte));
        if (byte == ',') {
            reader->stream->next++;
            PLM_TRY(flush_batch(reader));
            return list ? PLM_OK : read_key(reader);
        }
        if (byte != (list ? ']' : '}'))
            return unexpected(list ? "',' or ']'" : "',' or '}'", byte);
        reader->stream->next++;
        PLM_TRY(flush(reader, false));
        reader->depth--;
    }
    return PLM_OK;
}

/* After a container was opened: true in *ended when it is closed at once. */
static plm_status read_after_open(json_reader *reader, bool *ended)
{
    bool list = reader->open[reader->depth - 1] == '[';
    int byte;
    PLM_TRY(peek_token(reader, &byte));
    *ended = byte == (list ? ']' : '}');
    if (*ended) {
        reader->stream->next++;
        PLM_TRY(flush(reader, false));
        reader->depth--;
        return PLM_OK;
    }
    return list ? PLM_OK : read_key(reader);
}

static plm_status read_document(json_reader *reader)
{
    do {
        bool opened, ended = true;
        PLM_TRY(read_value(reader, &opened));
        if (opened)
            PLM_TRY(read_after_open(reader, &ended));
        if (!opened || ended)
            PLM_TRY(read_after_value(reader));
    } while (reader->depth > 0);
    int byte;
    PLM_TRY(peek_token(reader, &byte));
    return byte < 0 ? PLM_OK : unexpected("the end of the file", byte);
}

plm_status plm__json_form_read(plm_stream *stream, plm_document *document, plm_value *root)
{
    json_reader reader = {.stream = stream, .document = document};
    PLM_TRY(plm__stream_fill(stream, 3));
    if (plm__stream_left(stream) >= 3 && memcmp(stream->next, "\xef\xbb\xbf", 3) == 0)
        stream->next += 3; /* a byte order mark */
    plm_status status = read_document(&reader);
    plm__text_fini(&reader.scratch);
    if (status == PLM_ERROR_FORMAT || status == PLM_ERROR_UNSUPPORTED) {
        plm_error error;
        plm_error_get(&error);
        return plm_fail(status, "'%.200s', byte %llu: %s", stream->name,
                        (unsigned long long)plm__stream_offset(stream), error.message);
    }
    if (status == PLM_OK)
        *root = document->stack.items[0];
    return status;
}
