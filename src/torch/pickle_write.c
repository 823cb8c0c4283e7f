/* SPDX-License-Identifier: MIT */
/* Opcodes of protocol 2, of those that PyTorch's viewer reads too. */
#include "torch/pickle_write.h"

#include <string.h>

#include "base/utf8.h"

/* An opcode with an argument of `bytes` bytes, lowest first. */
static void put(plm_pickle_writer *writer, uint8_t code, uint64_t argument, int bytes)
{
    char packed[9] = {(char)code};
    for (int i = 0; i < bytes; i++)
        packed[1 + i] = (char)(argument >> (8 * i));
    plm__text_add_bytes(&writer->text, packed, 1 + bytes);
}

plm_status plm__pickle_writer_init(plm_pickle_writer *writer)
{
    *writer = (plm_pickle_writer){0};
    PLM_TRY(plm__intern_init(&writer->texts));
    put(writer, 0x80, 2, 1); /* PROTO */
    return PLM_OK;
}

void plm__pickle_writer_fini(plm_pickle_writer *writer)
{
    plm__text_fini(&writer->text);
    plm__text_fini(&writer->clean);
    plm__intern_fini(&writer->texts);
    PLM_ARRAY_FREE(&writer->memo_of_text);
}

void plm__pickle_begin_list(plm_pickle_writer *writer)
{
    PLM_BUG_IF(writer->depth == PLM_PICKLE_DEPTH_MAX, "a pickle of lists too deep");
    writer->items[writer->depth++] = 0;
    plm__text_add_bytes(&writer->text, "](", 2); /* EMPTY_LIST MARK */
}

void plm__pickle_item(plm_pickle_writer *writer)
{
    int64_t *items = &writer->items[writer->depth - 1];
    if (++*items <= PLM_PICKLE_BATCH)
        return;
    plm__text_add_bytes(&writer->text, "e(", 2); /* APPENDS MARK */
    *items = 1;
}

void plm__pickle_end_list(plm_pickle_writer *writer)
{
    writer->depth--;
    plm__text_add_bytes(&writer->text, "e", 1);
}

void plm__pickle_begin_dict(plm_pickle_writer *writer)
{
    plm__text_add_bytes(&writer->text, "}(", 2); /* EMPTY_DICT MARK */
}

void plm__pickle_end_dict(plm_pickle_writer *writer)
{
    plm__text_add_bytes(&writer->text, "u", 1); /* SETITEMS */
}

void plm__pickle_begin_tuple(plm_pickle_writer *writer)
{
    plm__text_add_bytes(&writer->text, "(", 1);
}

void plm__pickle_end_tuple(plm_pickle_writer *writer)
{
    plm__text_add_bytes(&writer->text, "t", 1); /* TUPLE */
}

void plm__pickle_add_bool(plm_pickle_writer *writer, bool value)
{
    put(writer, value ? 0x88 : 0x89, 0, 0);
}

/* LONG1: how many bytes, then two's complement; the last byte carries the sign. */
static void put_long(plm_pickle_writer *writer, uint64_t bits, int bytes)
{
    put(writer, 0x8a, (uint64_t)bytes, 1);
    for (int i = 0; i < bytes; i++) {
        char byte = i < 8 ? (char)(bits >> (8 * i)) : 0;
        plm__text_add_bytes(&writer->text, &byte, 1);
    }
}

void plm__pickle_add_int(plm_pickle_writer *writer, int64_t value)
{
    if (value >= 0 && value <= UINT8_MAX)
        put(writer, 'K', (uint64_t)value, 1); /* BININT1 */
    else if (value >= 0 && value <= UINT16_MAX)
        put(writer, 'M', (uint64_t)value, 2); /* BININT2 */
    else if (value >= INT32_MIN && value <= INT32_MAX)
        put(writer, 'J', (uint64_t)value, 4); /* BININT */
    else
        put_long(writer, (uint64_t)value, 8);
}

void plm__pickle_add_natural(plm_pickle_writer *writer, uint64_t value)
{
    if (value <= INT64_MAX)
        plm__pickle_add_int(writer, (int64_t)value);
    else
        put_long(writer, value, 9);
}

uint32_t plm__pickle_remember(plm_pickle_writer *writer)
{
    uint32_t memo = writer->memo_count++;
    put(writer, memo <= UINT8_MAX ? 'q' : 'r', memo, memo <= UINT8_MAX ? 1 : 4); /* BINPUT */
    return memo;
}

void plm__pickle_recall(plm_pickle_writer *writer, uint32_t memo)
{
    put(writer, memo <= UINT8_MAX ? 'h' : 'j', memo, memo <= UINT8_MAX ? 1 : 4); /* BINGET */
}

static void put_text(plm_pickle_writer *writer, const char *value, size_t count)
{
    writer->clean.count = 0;
    plm__utf8_add_clean(&writer->clean, value, (int64_t)count);
    put(writer, 'X', (uint64_t)writer->clean.count, 4); /* BINUNICODE */
    plm__text_add_bytes(&writer->text, writer->clean.count ? writer->clean.items : "",
                        writer->clean.count);
    if (writer->text.status == PLM_OK)
        writer->text.status = writer->clean.status;
}

void plm__pickle_add_text(plm_pickle_writer *writer, const char *value)
{
    uint32_t id = 0;
    size_t count = strlen(value);
    if (writer->text.status == PLM_OK)
        writer->text.status = plm__intern_add(&writer->texts, value, count, &id);
    if (writer->text.status == PLM_OK)
        writer->text.status = PLM_ARRAY_RESERVE(&writer->memo_of_text, (int64_t)id + 1);
    if (writer->text.status != PLM_OK)
        return;
    if (writer->memo_of_text.count <= id)
        writer->memo_of_text.count = (int64_t)id + 1;
    if (writer->memo_of_text.items[id] > 0) {
        plm__pickle_recall(writer, writer->memo_of_text.items[id] - 1);
        return;
    }
    put_text(writer, value, count);
    writer->memo_of_text.items[id] = plm__pickle_remember(writer) + 1;
}

void plm__pickle_finish(plm_pickle_writer *writer)
{
    plm__text_add_bytes(&writer->text, ".", 1); /* STOP */
}
