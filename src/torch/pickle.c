/* SPDX-License-Identifier: MIT */
/*
 * The pickle machine: one row an opcode in a table, one small function a row. The few opcodes that
 * make up nearly all of a snapshot are also handled in line, before the table.
 */
#include "torch/pickle.h"

#include <string.h>

enum { COMMON_BYTES = 16 }; /* more than any opcode of run_common takes */

typedef struct pickle_reader {
    plm_stream *stream;
    plm_document *document;
    uint64_t put_count;   /* values given to the memo by MEMOIZE and PUT */
    uint64_t short_bytes; /* the last text of up to eight bytes, which often comes again: */
    uint32_t short_count; /* "N/A" stands in every entry of a history */
    uint32_t short_text;  /* its number */
    bool stopped;
} pickle_reader;

/* `argument` points at the bytes that follow the opcode; `width` of them are there. */
typedef plm_status (*opcode_function)(pickle_reader *reader, const uint8_t *argument);

typedef struct opcode {
    const char *name;
    opcode_function run; /* NULL: refused */
    uint8_t width;       /* bytes of fixed argument */
} opcode;

static inline uint64_t little(const uint8_t *bytes, int width)
{
    uint64_t value = 0;
    for (int i = width - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

static inline plm_value integer(int64_t value)
{
    return (plm_value){.kind = PLM_VALUE_INTEGER, .integer = value};
}

static plm_status cut_off(const pickle_reader *reader)
{
    return plm_fail(PLM_ERROR_FORMAT, "the file is cut off: it ends after %llu bytes, before STOP",
                    (unsigned long long)(plm__stream_offset(reader->stream) +
                                         plm__stream_left(reader->stream)));
}

/* Ensures that `count` bytes can be read from the window. */
static inline plm_status need_bytes(pickle_reader *reader, size_t count)
{
    if (plm__stream_left(reader->stream) < count) {
        PLM_TRY(plm__stream_fill(reader->stream, count));
        if (plm__stream_left(reader->stream) < count)
            return cut_off(reader);
    }
    return PLM_OK;
}

/* Integers. */

/* The low `width` bytes (1 to 8) of `bits` as a number in two's complement. */
static inline int64_t signed_of(uint64_t bits, int width)
{
    int unused = 64 - 8 * width;
    return (int64_t)(bits << unused) >> unused;
}

/* The low `width` bytes (0 to 8) of `bits`: an integer of no bytes is 0. */
static inline uint64_t low_bytes(uint64_t bits, int width)
{
    return width > 0 ? bits & UINT64_MAX >> (64 - 8 * width) : 0;
}

/* Two's complement of up to eight bytes, or nine when the ninth only says that it is positive. */
static inline plm_status push_long(pickle_reader *reader, const uint8_t *bytes, uint32_t count)
{
    bool wide = count == 9 && bytes[8] == 0;
    PLM_FAIL_IF(count > 8 && !wide, PLM_ERROR_FORMAT,
                "an integer of %u bytes: wanted at most 64 bits", count);
    int width = wide ? 8 : (int)count;
    uint64_t value = little(bytes, width);
    if (wide && value > INT64_MAX)
        return plm__document_push(reader->document,
                                  (plm_value){.kind = PLM_VALUE_NATURAL, .natural = value});
    return plm__document_push(reader->document, integer(width ? signed_of(value, width) : 0));
}

static plm_status run_binint(pickle_reader *reader, const uint8_t *argument)
{
    return plm__document_push(reader->document, integer((int32_t)little(argument, 4)));
}

static plm_status run_binint1(pickle_reader *reader, const uint8_t *argument)
{
    return plm__document_push(reader->document, integer(argument[0]));
}

static plm_status run_binint2(pickle_reader *reader, const uint8_t *argument)
{
    return plm__document_push(reader->document, integer((int64_t)little(argument, 2)));
}

static plm_status run_long1(pickle_reader *reader, const uint8_t *argument)
{
    uint32_t count = argument[0];
    PLM_TRY(need_bytes(reader, count));
    PLM_TRY(push_long(reader, reader->stream->next, count));
    reader->stream->next += count;
    return PLM_OK;
}

static plm_status run_long4(pickle_reader *reader, const uint8_t *argument)
{
    int32_t count = (int32_t)little(argument, 4);
    PLM_FAIL_IF(count < 0 || count > 9, PLM_ERROR_FORMAT,
                "an integer of %d bytes: wanted at most 64 bits", count);
    PLM_TRY(need_bytes(reader, (size_t)count));
    PLM_TRY(push_long(reader, reader->stream->next, (uint32_t)count));
    reader->stream->next += count;
    return PLM_OK;
}

/* Constants and reals. */

static plm_status run_none(pickle_reader *reader, const uint8_t *argument)
{
    (void)argument;
    return plm__document_push(reader->document, (plm_value){.kind = PLM_VALUE_NONE});
}

static plm_status run_true(pickle_reader *reader, const uint8_t *argument)
{
    (void)argument;
    return plm__document_push(reader->document, (plm_value){.kind = PLM_VALUE_BOOL, .integer = 1});
}

static plm_status run_false(pickle_reader *reader, const uint8_t *argument)
{
    (void)argument;
    return plm__document_push(reader->document, (plm_value){.kind = PLM_VALUE_BOOL, .integer = 0});
}

static plm_status run_binfloat(pickle_reader *reader, const uint8_t *argument)
{
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++) /* the one big-endian number of the format */
        bits = bits << 8 | argument[i];
    plm_value value = {.kind = PLM_VALUE_REAL};
    memcpy(&value.real, &bits, sizeof bits);
    return plm__document_push(reader->document, value);
}

/* Texts and bytes. */

static inline plm_status push_text(pickle_reader *reader, uint64_t count)
{
    PLM_FAIL_IF(count > PLM_DOCUMENT_TEXT_MAX, PLM_ERROR_FORMAT,
                "a text of %llu bytes: wanted at most %d", (unsigned long long)count,
                PLM_DOCUMENT_TEXT_MAX);
    PLM_TRY(need_bytes(reader, (size_t)count));
    PLM_TRY(plm__document_push_text(reader->document, reader->stream->next, (size_t)count));
    reader->stream->next += count;
    return PLM_OK;
}

static plm_status run_text1(pickle_reader *reader, const uint8_t *argument)
{
    uint32_t count = argument[0];
    PLM_TRY(push_text(reader, count));
    if (count >= 1 && count <= 8) {
        const plm_document *document = reader->document;
        reader->short_bytes = little(reader->stream->next - count, (int)count);
        reader->short_count = count;
        reader->short_text = (uint32_t)document->stack.items[document->stack.count - 1].index;
    }
    return PLM_OK;
}

static plm_status run_text4(pickle_reader *reader, const uint8_t *argument)
{
    return push_text(reader, little(argument, 4));
}

static plm_status run_text8(pickle_reader *reader, const uint8_t *argument)
{
    return push_text(reader, little(argument, 8));
}

/* Containers. */

static plm_status run_empty_list(pickle_reader *reader, const uint8_t *argument)
{
    (void)argument;
    return plm__document_push(reader->document, (plm_value){.kind = PLM_VALUE_EMPTY_LIST});
}

static plm_status run_empty_dict(pickle_reader *reader, const uint8_t *argument)
{
    (void)argument;
    return plm__document_push(reader->document, (plm_value){.kind = PLM_VALUE_EMPTY_DICT});
}

static plm_status run_mark(pickle_reader *reader, const uint8_t *argument)
{
    (void)argument;
    return plm__document_mark(reader->document);
}

static plm_status run_append(pickle_reader *reader, const uint8_t *argument)
{
    (void)argument;
    PLM_TRY(plm__document_need(reader->document, 2));
    return plm__document_append(reader->document, reader->document->stack.count - 1);
}

static plm_status run_appends(pickle_reader *reader, const uint8_t *argument)
{
    (void)argument;
    int64_t first;
    PLM_TRY(plm__document_unmark(reader->document, &first));
    return plm__document_append(reader->document, first);
}

static plm_status run_setitem(pickle_reader *reader, const uint8_t *argument)
{
    (void)argument;
    PLM_TRY(plm__document_need(reader->document, 3));
    return plm__document_set(reader->document, reader->document->stack.count - 2);
}

static plm_status run_setitems(pickle_reader *reader, const uint8_t *argument)
{
    (void)argument;
    int64_t first;
    PLM_TRY(plm__document_unmark(reader->document, &first));
    return plm__document_set(reader->document, first);
}

static plm_status run_list(pickle_reader *reader, const uint8_t *argument)
{
    (void)argument;
    int64_t first;
    PLM_TRY(plm__document_unmark(reader->document, &first));
    return plm__document_make(reader->document, first, PLM_VALUE_EMPTY_LIST);
}

static plm_status run_dict(pickle_reader *reader, const uint8_t *argument)
{
    (void)argument;
    int64_t first;
    PLM_TRY(plm__document_unmark(reader->document, &first));
    return plm__document_make(reader->document, first, PLM_VALUE_EMPTY_DICT);
}

/* TUPLE1, TUPLE2, TUPLE3 stand next to each other: the opcode itself says how many. */
static plm_status run_tuple_n(pickle_reader *reader, const uint8_t *argument)
{
    int64_t count = argument[-1] - 0x84;
    PLM_TRY(plm__document_need(reader->document, count));
    return plm__document_make(reader->document, reader->document->stack.count - count,
                              PLM_VALUE_EMPTY_LIST);
}

/* Memo. */

/* A slot far beyond the number of values that were stored belongs to no file that Python wrote. */
static plm_status put(pickle_reader *reader, uint64_t slot)
{
    PLM_FAIL_IF(slot > 2 * reader->put_count + 256, PLM_ERROR_FORMAT,
                "memo slot %llu, when %llu values were stored", (unsigned long long)slot,
                (unsigned long long)reader->put_count);
    reader->put_count++;
    return plm__document_put(reader->document, slot);
}

static plm_status run_memoize(pickle_reader *reader, const uint8_t *argument)
{
    (void)argument;
    return put(reader, (uint64_t)reader->document->memo.count);
}

static plm_status run_binput(pickle_reader *reader, const uint8_t *argument)
{
    return put(reader, argument[0]);
}

static plm_status run_long_binput(pickle_reader *reader, const uint8_t *argument)
{
    return put(reader, little(argument, 4));
}

static plm_status run_binget(pickle_reader *reader, const uint8_t *argument)
{
    return plm__document_get(reader->document, argument[0]);
}

static plm_status run_long_binget(pickle_reader *reader, const uint8_t *argument)
{
    return plm__document_get(reader->document, little(argument, 4));
}

/* The decimal line of GET and PUT. */
static plm_status read_line(pickle_reader *reader, uint64_t *slot)
{
    uint64_t value = 0;
    for (int digits = 0;; digits++) {
        PLM_TRY(need_bytes(reader, 1));
        uint8_t byte = *reader->stream->next++;
        if (byte == '\n' && digits > 0)
            break;
        PLM_FAIL_IF(byte < '0' || byte > '9' || digits > 10, PLM_ERROR_FORMAT,
                    "wanted a memo slot in digits and a line end");
        value = value * 10 + (uint64_t)(byte - '0');
    }
    *slot = value;
    return PLM_OK;
}

static plm_status run_put(pickle_reader *reader, const uint8_t *argument)
{
    (void)argument;
    uint64_t slot;
    PLM_TRY(read_line(reader, &slot));
    return put(reader, slot);
}

static plm_status run_get(pickle_reader *reader, const uint8_t *argument)
{
    (void)argument;
    uint64_t slot;
    PLM_TRY(read_line(reader, &slot));
    return plm__document_get(reader->document, slot);
}

/* Frame of the file itself. */

static plm_status run_proto(pickle_reader *reader, const uint8_t *argument)
{
    (void)reader;
    PLM_FAIL_IF(argument[0] < 2 || argument[0] > 5, PLM_ERROR_FORMAT,
                "pickle protocol %u: wanted 2 to 5", argument[0]);
    return PLM_OK;
}

/* A frame only says how many bytes can be read at once; its bytes are read like any others. */
static plm_status run_frame(pickle_reader *reader, const uint8_t *argument)
{
    (void)reader;
    (void)argument;
    return PLM_OK;
}

static plm_status run_stop(pickle_reader *reader, const uint8_t *argument)
{
    (void)argument;
    PLM_FAIL_IF(reader->document->mark_count != 0 || reader->document->stack.count != 1,
                PLM_ERROR_FORMAT, "wanted one value at the end, found %lld and %lld open marks",
                (long long)reader->document->stack.count, (long long)reader->document->mark_count);
    reader->stopped = true;
    return PLM_OK;
}

static const opcode opcodes[256] = {
    ['('] = {"MARK", run_mark, 0},
    ['.'] = {"STOP", run_stop, 0},
    ['N'] = {"NONE", run_none, 0},
    ['J'] = {"BININT", run_binint, 4},
    ['K'] = {"BININT1", run_binint1, 1},
    ['M'] = {"BININT2", run_binint2, 2},
    ['G'] = {"BINFLOAT", run_binfloat, 8},
    ['T'] = {"BINSTRING", run_text4, 4},
    ['U'] = {"SHORT_BINSTRING", run_text1, 1},
    ['X'] = {"BINUNICODE", run_text4, 4},
    ['B'] = {"BINBYTES", run_text4, 4},
    ['C'] = {"SHORT_BINBYTES", run_text1, 1},
    [0x8c] = {"SHORT_BINUNICODE", run_text1, 1},
    [0x8d] = {"BINUNICODE8", run_text8, 8},
    [0x8e] = {"BINBYTES8", run_text8, 8},
    [0x96] = {"BYTEARRAY8", run_text8, 8},
    ['a'] = {"APPEND", run_append, 0},
    ['e'] = {"APPENDS", run_appends, 0},
    ['s'] = {"SETITEM", run_setitem, 0},
    ['u'] = {"SETITEMS", run_setitems, 0},
    [']'] = {"EMPTY_LIST", run_empty_list, 0},
    [')'] = {"EMPTY_TUPLE", run_empty_list, 0},
    ['}'] = {"EMPTY_DICT", run_empty_dict, 0},
    ['l'] = {"LIST", run_list, 0},
    ['t'] = {"TUPLE", run_list, 0},
    ['d'] = {"DICT", run_dict, 0},
    [0x85] = {"TUPLE1", run_tuple_n, 0},
    [0x86] = {"TUPLE2", run_tuple_n, 0},
    [0x87] = {"TUPLE3", run_tuple_n, 0},
    ['g'] = {"GET", run_get, 0},
    ['p'] = {"PUT", run_put, 0},
    ['h'] = {"BINGET", run_binget, 1},
    ['j'] = {"LONG_BINGET", run_long_binget, 4},
    ['q'] = {"BINPUT", run_binput, 1},
    ['r'] = {"LONG_BINPUT", run_long_binput, 4},
    [0x94] = {"MEMOIZE", run_memoize, 0},
    [0x80] = {"PROTO", run_proto, 1},
    [0x95] = {"FRAME", run_frame, 8},
    [0x88] = {"NEWTRUE", run_true, 0},
    [0x89] = {"NEWFALSE", run_false, 0},
    [0x8a] = {"LONG1", run_long1, 1},
    [0x8b] = {"LONG4", run_long4, 4},
    /* Refused: these import, call or build objects. */
    ['c'] = {"GLOBAL", NULL, 0},
    ['i'] = {"INST", NULL, 0},
    ['o'] = {"OBJ", NULL, 0},
    ['b'] = {"BUILD", NULL, 0},
    ['R'] = {"REDUCE", NULL, 0},
    ['P'] = {"PERSID", NULL, 0},
    ['Q'] = {"BINPERSID", NULL, 0},
    [0x81] = {"NEWOBJ", NULL, 0},
    [0x82] = {"EXT1", NULL, 0},
    [0x83] = {"EXT2", NULL, 0},
    [0x84] = {"EXT4", NULL, 0},
    [0x92] = {"NEWOBJ_EX", NULL, 0},
    [0x93] = {"STACK_GLOBAL", NULL, 0},
    [0x97] = {"NEXT_BUFFER", NULL, 0},
    [0x98] = {"READONLY_BUFFER", NULL, 0},
    /* Refused: no plain data of protocols 2 to 5 has them. */
    ['0'] = {"POP", NULL, 0},
    ['1'] = {"POP_MARK", NULL, 0},
    ['2'] = {"DUP", NULL, 0},
    ['I'] = {"INT", NULL, 0},
    ['L'] = {"LONG", NULL, 0},
    ['F'] = {"FLOAT", NULL, 0},
    ['S'] = {"STRING", NULL, 0},
    ['V'] = {"UNICODE", NULL, 0},
    [0x8f] = {"EMPTY_SET", NULL, 0},
    [0x90] = {"ADDITEMS", NULL, 0},
    [0x91] = {"FROZENSET", NULL, 0},
};

static plm_status step(pickle_reader *reader)
{
    PLM_TRY(need_bytes(reader, 1));
    uint8_t byte = *reader->stream->next;
    const opcode *row = &opcodes[byte];
    PLM_FAIL_IF(!row->name, PLM_ERROR_FORMAT, "0x%02x is no pickle opcode", byte);
    PLM_FAIL_IF(!row->run, PLM_ERROR_FORMAT,
                "opcode %s is refused: only plain data is read, nothing is imported or called",
                row->name);
    PLM_TRY(need_bytes(reader, 1 + (size_t)row->width));
    const uint8_t *argument = reader->stream->next + 1;
    reader->stream->next += 1 + row->width;
    return row->run(reader, argument);
}

/*
 * The opcodes that make up nearly all of a snapshot, with the places of window, stack and memo in
 * local variables: four times as fast as a step each. Stops, with everything written back, at any
 * opcode that is not among them or needs a closer look, and near the end of window, stack or memo.
 */
static void run_common(pickle_reader *reader)
{
    plm_document *document = reader->document;
    if (document->stack.capacity == 0)
        return; /* nothing to point into yet */
    const uint8_t *at = reader->stream->next, *end = reader->stream->end;
    plm_value *items = document->stack.items, *top = items + document->stack.count;
    const plm_value *top_end = items + document->stack.capacity;
    const plm_value *floor =
        items + (document->mark_count > 0 ? document->marks[document->mark_count - 1] : 0);
    uint32_t *memo = document->memo.items;
    int64_t memo_count = document->memo.count;
    for (; end - at > COMMON_BYTES && top < top_end; top++) {
        uint64_t slot;
        switch (*at) {
        case 'h': /* BINGET */
            slot = at[1];
            if (!plm__document_peek_memo(document, slot, memo_count, top))
                goto done;
            at += 2;
            continue;
        case 'j': /* LONG_BINGET */
            slot = little(at + 1, 4);
            if (!plm__document_peek_memo(document, slot, memo_count, top))
                goto done;
            at += 5;
            continue;
        case 'K': /* BININT1 */
            *top = integer(at[1]);
            at += 2;
            continue;
        case 'M': /* BININT2 */
            *top = integer((int64_t)little(at + 1, 2));
            at += 3;
            continue;
        case 'J': /* BININT */
            *top = integer((int32_t)little(at + 1, 4));
            at += 5;
            continue;
        case 0x8a: /* LONG1 of up to 64 bits */
            if (at[1] < 1 || at[1] > 8)
                goto done;
            *top = integer(signed_of(little(at + 2, 8), at[1]));
            at += 2 + at[1];
            continue;
        case 0x8c: /* SHORT_BINUNICODE, the same as last time */
            if (at[1] != reader->short_count ||
                low_bytes(little(at + 2, 8), at[1]) != reader->short_bytes)
                goto done;
            *top = (plm_value){.kind = PLM_VALUE_TEXT, .index = reader->short_text};
            at += 2 + at[1];
            continue;
        case '(': /* MARK, which pushes nothing */
            if (document->mark_count == PLM_DOCUMENT_DEPTH_MAX)
                goto done;
            document->marks[document->mark_count++] = top - items;
            floor = top--;
            at++;
            continue;
        case '}': /* EMPTY_DICT */
            *top = (plm_value){.kind = PLM_VALUE_EMPTY_DICT};
            at++;
            continue;
        case 0x94: /* MEMOIZE, which pushes nothing */
            if (memo_count == document->memo.capacity || top == floor ||
                !plm__document_packs(top - 1))
                goto done;
            top--;
            memo[memo_count++] = plm__document_pack(top->kind, top->index);
            top->memo = (uint32_t)memo_count;
            reader->put_count++;
            at++;
            continue;
        default:
            goto done;
        }
    }
done:
    reader->stream->next = at;
    document->stack.count = top - items;
    document->memo.count = memo_count;
}

/* Adds the file and the place of the opcode to the message of a failed step. */
static plm_status locate(const pickle_reader *reader, uint64_t offset, plm_status status)
{
    if (status != PLM_ERROR_FORMAT && status != PLM_ERROR_UNSUPPORTED)
        return status;
    plm_error error;
    plm_error_get(&error);
    return plm_fail(status, "'%.200s', byte %llu: %s", reader->stream->name,
                    (unsigned long long)offset, error.message);
}

plm_status plm__pickle_read(plm_stream *stream, plm_document *document, plm_value *root)
{
    pickle_reader reader = {.stream = stream, .document = document};
    while (!reader.stopped) {
        run_common(&reader);
        uint64_t offset = plm__stream_offset(stream);
        plm_status status = step(&reader);
        if (status != PLM_OK)
            return locate(&reader, offset, status);
    }
    PLM_TRY(plm__stream_fill(stream, 1));
    PLM_FAIL_IF(plm__stream_left(stream) > 0, PLM_ERROR_FORMAT,
                "'%.200s' goes on after its end at byte %llu", stream->name,
                (unsigned long long)plm__stream_offset(stream));
    *root = document->stack.items[0];
    return PLM_OK;
}
