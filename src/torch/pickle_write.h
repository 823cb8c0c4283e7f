/* SPDX-License-Identifier: MIT */
/*
 * Writing Python's pickle, protocol 2, as far as plain data needs it. Texts are shared: the second
 * time one is a reference of a few bytes; any other value can be remembered and recalled.
 *
 *     plm_pickle_writer writer;
 *     PLM_TRY(plm__pickle_writer_init(&writer));
 *     plm__pickle_begin_dict(&writer);
 *     plm__pickle_add_text(&writer, "size");
 *     plm__pickle_add_int(&writer, 4096);
 *     plm__pickle_end_dict(&writer);
 *     plm__pickle_finish(&writer);
 *     ... writer.text, whose status tells the first failure; it may be emptied at any time ...
 *     plm__pickle_writer_fini(&writer);
 */
#ifndef PLM_TORCH_PICKLE_WRITE_H
#define PLM_TORCH_PICKLE_WRITE_H

#include "base/intern.h"
#include "base/text.h"

enum {
    PLM_PICKLE_BATCH = 1000, /* items of a list or dictionary that stand on the reader's stack */
    PLM_PICKLE_DEPTH_MAX = 16
};

typedef struct plm_pickle_writer {
    plm_text text;
    plm_text clean; /* the text being written, as UTF-8 */
    plm_intern texts;
    PLM_ARRAY(uint32_t) memo_of_text; /* + 1; 0: not yet written */
    uint32_t memo_count;
    int depth;
    int64_t items[PLM_PICKLE_DEPTH_MAX]; /* of each open list, since its last batch */
} plm_pickle_writer;

/* Begins a pickle. On failure there is nothing to end. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__pickle_writer_init(plm_pickle_writer *writer);

void plm__pickle_writer_fini(plm_pickle_writer *writer);

void plm__pickle_begin_list(plm_pickle_writer *writer);
void plm__pickle_end_list(plm_pickle_writer *writer);

/* To be called before each item of a list, so that long ones go in batches. */
void plm__pickle_item(plm_pickle_writer *writer);

/* Keys and values follow in turn. */
void plm__pickle_begin_dict(plm_pickle_writer *writer);
void plm__pickle_end_dict(plm_pickle_writer *writer);

void plm__pickle_begin_tuple(plm_pickle_writer *writer);
void plm__pickle_end_tuple(plm_pickle_writer *writer);

void plm__pickle_add_bool(plm_pickle_writer *writer, bool value);
void plm__pickle_add_int(plm_pickle_writer *writer, int64_t value);
void plm__pickle_add_natural(plm_pickle_writer *writer, uint64_t value);

/* Bytes that are not UTF-8 become U+FFFD. */
void plm__pickle_add_text(plm_pickle_writer *writer, const char *value);

/* The number under which the value just completed can be recalled. */
uint32_t plm__pickle_remember(plm_pickle_writer *writer);

/* Puts the remembered value, the very same object, in its place. */
void plm__pickle_recall(plm_pickle_writer *writer, uint32_t memo);

/* Ends the pickle. */
void plm__pickle_finish(plm_pickle_writer *writer);

#endif
