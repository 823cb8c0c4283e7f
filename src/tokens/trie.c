/* SPDX-License-Identifier: MIT */
/* Level by level from the sorted texts: a node is a range of them that share their first bytes. */
#include "tokens/trie.h"

#include <string.h>

typedef struct range {
    int64_t first, end, depth;
} range;

typedef PLM_ARRAY(range) ranges;

static int by_bytes(const void *a, const void *b)
{
    const plm_trie_text *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, (size_t)(x->count < y->count ? x->count : y->count));
    if (order != 0 || x->count != y->count)
        return order ? order : x->count < y->count ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The children of a node, whose range they share out. */
static plm_status add_children(const plm_trie_text *texts, int32_t node, plm_trie *trie,
                               ranges *shares)
{
    range share = shares->items[node];
    int64_t at = share.first;
    for (; at < share.end && texts[at].count == share.depth;
         at++) /* the last of equal ones stays */
        trie->nodes.items[node].id = texts[at].id;
    trie->nodes.items[node].first = (int32_t)trie->nodes.count;
    while (at < share.end) {
        uint8_t label = (uint8_t)texts[at].bytes[share.depth];
        range next = {.first = at, .depth = share.depth + 1};
        while (at < share.end && (uint8_t)texts[at].bytes[share.depth] == label)
            at++;
        next.end = at;
        PLM_FAIL_IF(trie->nodes.count >= INT32_MAX, PLM_ERROR_OVERFLOW,
                    "wanted texts of at most %d bytes in all for a tokenizer", INT32_MAX);
        PLM_TRY(PLM_ARRAY_PUSH(&trie->nodes, (plm_trie_node){.id = -1, .label = label}));
        PLM_TRY(PLM_ARRAY_PUSH(shares, next));
        trie->nodes.items[node].count++;
    }
    return PLM_OK;
}

plm_status plm__trie_create(plm_trie_text *texts, int64_t count, plm_trie *trie)
{
    ranges shares = {0};
    plm_status status = PLM_OK;
    if (count == 0)
        return PLM_OK;
    qsort(texts, (size_t)count, sizeof *texts, by_bytes);
    PLM_TRY_DONE(PLM_ARRAY_PUSH(&trie->nodes, (plm_trie_node){.id = -1}));
    PLM_TRY_DONE(PLM_ARRAY_PUSH(&shares, (range){0, count, 0}));
    for (int64_t node = 0; node < trie->nodes.count; node++)
        PLM_TRY_DONE(add_children(texts, (int32_t)node, trie, &shares));
    const plm_trie_node *root = &trie->nodes.items[0];
    for (int i = 0; i < root->count; i++)
        trie->root[trie->nodes.items[root->first + i].label] = root->first + i;
done:
    PLM_ARRAY_FREE(&shares);
    return status;
}

void plm__trie_fini(plm_trie *trie)
{
    PLM_ARRAY_FREE(&trie->nodes);
}
