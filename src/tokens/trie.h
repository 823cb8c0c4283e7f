/* SPDX-License-Identifier: MIT */
/*
 * Texts in a tree by their bytes: from a place in a text, every one of them that begins there is
 * found in one walk. Made once, walked by many threads.
 */
#ifndef PLM_TOKENS_TRIE_H
#define PLM_TOKENS_TRIE_H

#include "base/array.h"

typedef struct plm_trie_text {
    const char *bytes; /* borrowed while the tree is made */
    int64_t count;     /* at least 1 */
    int32_t id;
} plm_trie_text;

typedef struct plm_trie_node {
    int32_t first; /* child; children lie side by side, by label */
    int32_t id;    /* of the text that ends here, -1: none does */
    int16_t count; /* of children */
    uint8_t label;
} plm_trie_node;

typedef struct plm_trie {
    PLM_ARRAY(plm_trie_node) nodes; /* the root first; none: there are no texts */
    int32_t root[256];              /* children of the root by byte, 0: none */
} plm_trie;

/* Sorts `texts`, and makes the tree; of equal texts the one that came later counts.
 * PLM_ERROR_OVERFLOW for more than 2^31 bytes, PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__trie_create(plm_trie_text *texts, int64_t count, plm_trie *trie);

void plm__trie_fini(plm_trie *trie);

/* The node behind `node` (0 is the root) along a byte; 0: there is none. */
static inline int32_t plm__trie_step(const plm_trie *trie, int32_t node, uint8_t byte)
{
    if (node == 0)
        return trie->root[byte];
    const plm_trie_node *at = &trie->nodes.items[node];
    const plm_trie_node *child = &trie->nodes.items[at->first];
    int low = 0, high = at->count;
    while (high - low > 4) {
        int middle = (low + high) / 2;
        *(child[middle].label <= byte ? &low : &high) = middle;
    }
    for (; low < high; low++)
        if (child[low].label == byte)
            return at->first + low;
    return 0;
}

#endif
