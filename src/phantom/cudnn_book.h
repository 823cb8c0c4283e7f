/* SPDX-License-Identifier: MIT */
/*
 * What the stand-in remembers of the real library's descriptors: of which convolution an operation,
 * a graph, a heuristic, an engine, a configuration or a plan is. Entries are copied in and out
 * under one lock; a descriptor that was destroyed is forgotten. Any thread.
 */
#ifndef PLM_PHANTOM_CUDNN_BOOK_H
#define PLM_PHANTOM_CUDNN_BOOK_H

#include "phantom/cudnn_abi.h"
#include "phantom/cudnn_convolution.h"

#include <stdbool.h>

struct plm_cudnn_entry {
    plm_cudnn_descriptor descriptor;
    int type;                /* CUDNN_BACKEND_... */
    int mode;                /* a heuristic's, -1 before it is set */
    int64_t workspace_bytes; /* a plan's; of a configuration the least that it must have */
    int position;            /* a configuration's, in the list of its heuristic */
    int rank;                /* a plan's (cudnn_choice.h) */
    int absent_engine;       /* a configuration's: on a card that engine stands there; 0: none */
    struct plm_cudnn_convolution convolution; /* direction 0: not one, or not one alone */
};

/* Whether descriptors of that type are remembered at all: tensors and their like are not. */
bool plm__cudnn_book_keeps(int type);

/* Enters a descriptor just created; one that had the address before is forgotten. */
void plm__cudnn_book_enter(plm_cudnn_descriptor descriptor, int type);

/* Copies the entry; false: the descriptor is not in the book, and *entry is all zeros. */
bool plm__cudnn_book_find(plm_cudnn_descriptor descriptor, struct plm_cudnn_entry *entry);

/* Writes back an entry that was found and changed; one forgotten meanwhile stays so. */
void plm__cudnn_book_change(const struct plm_cudnn_entry *entry);

void plm__cudnn_book_forget(plm_cudnn_descriptor descriptor);

#endif
