/* SPDX-License-Identifier: MIT */
/*
 * A text on its way through normalizers and pre-tokenizers: bytes, and where in the whole text that
 * is encoded each of them came from. Where nobody asks, the places are not kept. A passage that
 * nothing has changed yet borrows its bytes.
 *
 * Filling never fails at once: the first failure sticks, plm__passage_status says it. A passage
 * that outgrows `limit` fails too: a file must not make gigabytes of a few kilobytes.
 */
#ifndef PLM_TOKENS_PASSAGE_H
#define PLM_TOKENS_PASSAGE_H

#include "base/array.h"

/* A piece of a passage, or of the text: bytes from `start` to before `end`. */
typedef struct plm_span {
    int64_t start, end;
} plm_span;

typedef struct plm_spans {
    plm_span *items;
    int64_t count;
    int64_t capacity;
} plm_spans;

/* Where a byte came from: of the text, from `start` to before `end`. */
typedef struct plm_text_source {
    uint32_t start, end;
} plm_text_source;

typedef struct plm_passage {
    const char *bytes; /* borrowed, or `own` */
    int64_t count;
    const plm_text_source *sources; /* [count], or NULL: not kept, or byte i came from base + i */
    int64_t base;
    char *own;
    int64_t own_capacity;
    plm_text_source *own_sources;
    int64_t source_capacity;
    int64_t limit; /* the most bytes that are put into it */
    bool keeps_sources;
    bool is_borrowed; /* unchanged: a byte's source is its place */
    plm_status status;
} plm_passage;

/* Becomes `count` bytes of the text from its byte `base` on, borrowed. */
void plm__passage_borrow(plm_passage *passage, const char *bytes, int64_t count, int64_t base);

/* Becomes empty, to be filled with at most `limit` bytes. */
void plm__passage_begin(plm_passage *passage, bool keeps_sources, int64_t limit);

/* Appends bytes of another passage, with their sources. */
void plm__passage_copy(plm_passage *passage, const plm_passage *from, plm_span span);

/* Appends `count` bytes that came to stand for `span` of another passage; an empty span is a place
 * between two bytes. */
void plm__passage_replace(plm_passage *passage, const plm_passage *from, plm_span span,
                          const char *bytes, int64_t count);

/* The failure that stuck. */
PLM_MUST_USE plm_status plm__passage_status(const plm_passage *passage);

/* Where a span came from. */
plm_span plm__passage_source(const plm_passage *passage, plm_span span);

void plm__passage_fini(plm_passage *passage);

#endif
