/* SPDX-License-Identifier: MIT */
/*
 * The document: what a pickle or a JSON file says, as values of 16 bytes on a stack.
 *
 * Both readers drive one machine. Values are pushed; a mark remembers where a run of items began;
 * the items above it are then appended to the list, or set in the dictionary, that stands below it.
 * Texts are interned, so a key that stands a million times in a file is one small number. A pickle
 * names values that it will use again in the memo.
 *
 * A file of gigabytes is millions of small dictionaries of a few known shapes. The *fold* is asked
 * about each one as soon as it is filled and may take it into a compact store of its own; the
 * document then keeps a number in its place, and a list of such numbers that follow each other is
 * one run. So what stays in memory is what the fold made of the file.
 *
 * Nothing here calls itself: depth costs no stack. One thread.
 */
#ifndef PLM_TORCH_DOCUMENT_H
#define PLM_TORCH_DOCUMENT_H

#include "base/intern.h"

enum {
    PLM_DOCUMENT_DEPTH_MAX = 256,             /* open marks */
    PLM_DOCUMENT_TEXT_MAX = 64 * 1024 * 1024, /* bytes of one text */
    PLM_DOCUMENT_COUNT_MAX = (1 << 27) - 1    /* memo slots, and values of each kind */
};

typedef enum plm_value_kind {
    PLM_VALUE_NOTHING, /* no value; an unset memo slot */
    PLM_VALUE_NONE,
    PLM_VALUE_BOOL,
    PLM_VALUE_INTEGER, /* fits int64_t */
    PLM_VALUE_NATURAL, /* above INT64_MAX, fits uint64_t */
    PLM_VALUE_REAL,
    PLM_VALUE_TEXT,              /* index: number of an interned text */
    PLM_VALUE_LIST,              /* index into lists; tuples are lists too */
    PLM_VALUE_DICT,              /* index into dicts */
    PLM_VALUE_EMPTY_LIST,        /* nothing in it so far; takes no memory */
    PLM_VALUE_EMPTY_DICT,        /* likewise */
    PLM_VALUE_SPILLED,           /* in the memo only: index into spilled */
    PLM_VALUE_SHARED_EMPTY_LIST, /* in the memo only: was fetched, so must stay empty */
    PLM_VALUE_SHARED_EMPTY_DICT,
    PLM_VALUE_FOLDED, /* this and the kinds after it belong to the fold; index is its number */
    PLM_VALUE_KIND_MAX = 31 /* a memo slot has five bits for it */
} plm_value_kind;

typedef struct plm_value {
    uint32_t kind; /* plm_value_kind or the fold's */
    uint32_t memo; /* memo slot + 1 of a container that is still being filled, else 0 */
    union {
        int64_t integer; /* BOOL, INTEGER */
        uint64_t natural;
        double real;
        uint64_t index;
    };
} plm_value;

/* first, first + 1, ... for values of the fold; otherwise count is 1. */
typedef struct plm_run {
    plm_value first;
    int64_t count;
} plm_run;

typedef struct plm_list {
    plm_run head; /* most lists are one run */
    PLM_ARRAY(plm_run) more;
    int64_t count; /* items of all runs */
} plm_list;

typedef struct plm_dict {
    PLM_ARRAY(plm_value) pairs; /* key, value, key, value, ... */
} plm_dict;

/*
 * Both functions are told of the first items of an empty container and may set *value to a value of
 * a kind of their own; `list` is also told of later items of a list that it has folded. Items are
 * borrowed. What they leave alone, the document keeps.
 */
typedef struct plm_fold {
    void *context;
    plm_status (*dict)(void *context, const plm_value *pairs, int64_t count, plm_value *value);
    plm_status (*list)(void *context, const plm_value *items, int64_t count, plm_value *value);
} plm_fold;

typedef struct plm_document {
    plm_intern texts;
    PLM_ARRAY(plm_list) lists;
    PLM_ARRAY(plm_dict) dicts;
    PLM_ARRAY(plm_value) stack;
    PLM_ARRAY(uint32_t) memo;     /* kind in the low five bits, index above */
    PLM_ARRAY(plm_value) spilled; /* values of the memo that do not fit 32 bits */
    int64_t marks[PLM_DOCUMENT_DEPTH_MAX];
    int64_t mark_count;
    plm_fold fold;
} plm_document;

/*
 * Makes an empty document. `words` are interned first, in order, as numbers 1, 2, ..., so that a
 * fold can know its keys by number. `fold` functions may be NULL. On failure nothing is left to
 * end.
 */
PLM_MUST_USE plm_status plm__document_init(plm_document *document, const char *const *words,
                                           int64_t word_count, plm_fold fold);

void plm__document_fini(plm_document *document);

/* Frees what only reading needs: stack and memo. */
void plm__document_end_reading(plm_document *document);

/* The machine. Messages do not say where: the reader that called adds the place. */

PLM_MUST_USE plm_status plm__document_grow_stack(plm_document *document);

static inline plm_status plm__document_push(plm_document *document, plm_value value)
{
    if (document->stack.count == document->stack.capacity)
        PLM_TRY(plm__document_grow_stack(document));
    document->stack.items[document->stack.count++] = value;
    return PLM_OK;
}

/* The topmost `count` values above the innermost mark exist. PLM_ERROR_FORMAT otherwise. */
PLM_MUST_USE plm_status plm__document_need(const plm_document *document, int64_t count);

/* Interns `count` bytes and pushes the text. */
PLM_MUST_USE plm_status plm__document_push_text(plm_document *document, const uint8_t *bytes,
                                                size_t count);

PLM_MUST_USE plm_status plm__document_mark(plm_document *document);

/* Ends the innermost mark: *first = the place of the first value above it. */
PLM_MUST_USE plm_status plm__document_unmark(plm_document *document, int64_t *first);

/* Takes the values from `first` up into the list, or as pairs into the dictionary, below them. */
PLM_MUST_USE plm_status plm__document_append(plm_document *document, int64_t first);
PLM_MUST_USE plm_status plm__document_set(plm_document *document, int64_t first);

/* Replaces the values from `first` up by one list, or dictionary, of them. */
PLM_MUST_USE plm_status plm__document_make(plm_document *document, int64_t first,
                                           plm_value_kind empty_kind);

/* Memo: stores the top value in a slot; pushes the value of a slot. */
PLM_MUST_USE plm_status plm__document_put(plm_document *document, uint64_t slot);
PLM_MUST_USE plm_status plm__document_get(plm_document *document, uint64_t slot);

/*
 * For a reader's inner loop: a memo slot packs a value into 32 bits, which not all values allow;
 * peeking reads a slot into *value without effects, and says false when plm__document_get must
 * look.
 */
static inline bool plm__document_packs(const plm_value *value)
{
    return (value->kind >= PLM_VALUE_TEXT && value->kind <= PLM_VALUE_EMPTY_DICT) ||
           value->kind >= PLM_VALUE_FOLDED;
}

static inline uint32_t plm__document_pack(uint32_t kind, uint64_t index)
{
    return kind | (uint32_t)(index << 5);
}

static inline bool plm__document_peek_memo(const plm_document *document, uint64_t slot,
                                           int64_t slot_count, plm_value *value)
{
    if (slot >= (uint64_t)slot_count)
        return false;
    uint32_t packed = document->memo.items[slot], kind = packed & 31;
    *value = (plm_value){.kind = kind, .index = packed >> 5};
    return (kind >= PLM_VALUE_TEXT && kind <= PLM_VALUE_DICT) || kind >= PLM_VALUE_FOLDED;
}

/* Reading what was made. */

/* The value of a key, NULL when the value is no kept dictionary or lacks the key. Borrowed. */
const plm_value *plm__document_member(const plm_document *document, const plm_value *value,
                                      uint32_t key);

/* The number of items; 0 for anything that is no list. */
int64_t plm__document_count(const plm_document *document, const plm_value *value);

/* The runs of a list: run `index` of it, false when there is none (left). */
bool plm__document_run(const plm_document *document, const plm_value *value, int64_t index,
                       plm_run *run);

/* Item `index`, a walk over the runs; the caller knows that it exists. */
plm_value plm__document_item(const plm_document *document, const plm_value *value, int64_t index);

static inline const char *plm__document_text(const plm_document *document, uint64_t number)
{
    return plm__intern_text(&document->texts, (uint32_t)number);
}

#endif
