/* SPDX-License-Identifier: MIT */
/* The shelf: free blocks in bins of treaps, found by best fit. The idea is in pool_internal.h. */
#include "pool/pool_internal.h"

/* A monotone map of sizes to bins: exact up to 16 KiB, then in steps of 1/32 of a power of two. */
static inline int bin_of(size_t bytes)
{
    size_t units = bytes / PLM_POOL_BLOCK_BYTES;
    if (units < PLM__SHELF_STEPS)
        return (int)units;
    int log2 = 63 - __builtin_clzll(units);
    return (log2 - 5) * PLM__SHELF_STEPS + (int)(units >> (log2 - 5));
}

static inline bool is_before(const plm__block *block, size_t bytes, uint64_t address)
{
    return block->bytes < bytes || (block->bytes == bytes && block->address < address);
}

/* Multiplying by an odd number is one-to-one, so no two blocks have the same priority. */
static inline uint64_t priority(const plm__block *block)
{
    return block->address * 0x9E3779B97F4A7C15u;
}

void plm__shelf_insert(plm__shelf *shelf, plm__block *block)
{
    int bin = bin_of(block->bytes);
    plm__block **link = &shelf->roots[bin];
    uint64_t own = priority(block);
    while (*link && priority(*link) > own)
        link = is_before(*link, block->bytes, block->address) ? &(*link)->right : &(*link)->left;
    /* What hangs here is split into what lies before and after the block. */
    plm__block *below = *link, **left = &block->left, **right = &block->right;
    while (below) {
        if (is_before(below, block->bytes, block->address)) {
            *left = below;
            left = &below->right;
            below = below->right;
        } else {
            *right = below;
            right = &below->left;
            below = below->left;
        }
    }
    *left = *right = NULL;
    *link = block;
    shelf->words[bin / 64] |= (uint64_t)1 << bin % 64;
    shelf->summary |= (uint32_t)1 << bin / 64;
    shelf->count++;
}

void plm__shelf_remove(plm__shelf *shelf, plm__block *block)
{
    int bin = bin_of(block->bytes);
    plm__block **link = &shelf->roots[bin];
    while (*link != block)
        link = is_before(*link, block->bytes, block->address) ? &(*link)->right : &(*link)->left;
    plm__block *left = block->left, *right = block->right;
    while (left && right) {
        plm__block **top = priority(left) > priority(right) ? &left : &right;
        *link = *top;
        link = top == &left ? &left->right : &right->left;
        *top = *link;
    }
    *link = left ? left : right;
    shelf->count--;
    if (shelf->roots[bin])
        return;
    shelf->words[bin / 64] &= ~((uint64_t)1 << bin % 64);
    if (shelf->words[bin / 64] == 0)
        shelf->summary &= ~((uint32_t)1 << bin / 64);
}

/* The lowest bin after `bin` that holds a block; -1. */
static int bin_after(const plm__shelf *shelf, int bin)
{
    int word = bin / 64;
    uint64_t rest = shelf->words[word] & (~(uint64_t)1 << bin % 64);
    if (rest)
        return word * 64 + __builtin_ctzll(rest);
    uint32_t words = shelf->summary & (~(uint32_t)1 << word);
    if (!words)
        return -1;
    word = __builtin_ctz(words);
    return word * 64 + __builtin_ctzll(shelf->words[word]);
}

/* The highest bin before `bin` that holds a block; -1. */
static int bin_before(const plm__shelf *shelf, int bin)
{
    int word = bin / 64;
    uint64_t rest = shelf->words[word] & (((uint64_t)1 << bin % 64) - 1);
    if (rest)
        return word * 64 + 63 - __builtin_clzll(rest);
    uint32_t words = shelf->summary & (((uint32_t)1 << word) - 1);
    if (!words)
        return -1;
    word = 31 - __builtin_clz(words);
    return word * 64 + 63 - __builtin_clzll(shelf->words[word]);
}

plm__block *plm__shelf_at_least(const plm__shelf *shelf, size_t bytes, uint64_t address)
{
    int bin = bin_of(bytes);
    plm__block *found = NULL;
    for (plm__block *block = shelf->roots[bin]; block;) {
        if (is_before(block, bytes, address)) {
            block = block->right;
        } else {
            found = block;
            block = block->left;
        }
    }
    if (found || (bin = bin_after(shelf, bin)) < 0)
        return found;
    found = shelf->roots[bin];
    while (found->left)
        found = found->left;
    return found;
}

plm__block *plm__shelf_before(const plm__shelf *shelf, size_t bytes, uint64_t address)
{
    int bin = bin_of(bytes);
    plm__block *found = NULL;
    for (plm__block *block = shelf->roots[bin]; block;) {
        if (is_before(block, bytes, address)) {
            found = block;
            block = block->right;
        } else {
            block = block->left;
        }
    }
    if (found || (bin = bin_before(shelf, bin)) < 0)
        return found;
    found = shelf->roots[bin];
    while (found->right)
        found = found->right;
    return found;
}

static bool bits_are_valid(const plm__shelf *shelf)
{
    for (int bin = 0; bin < PLM__SHELF_BINS; bin++)
        PLM__REQUIRE((shelf->words[bin / 64] >> bin % 64 & 1) == (shelf->roots[bin] != NULL));
    for (int word = 0; word < PLM__SHELF_WORDS; word++)
        PLM__REQUIRE((shelf->summary >> word & 1) == (shelf->words[word] != 0));
    return true;
}

/* Checks the treap from `block` down: heap order and, walked in order, the order of keys. */
static bool treap_is_valid(const plm__block *block, int bin, const plm__block **last, size_t *bytes,
                           int64_t *count)
{
    if (!block)
        return true;
    PLM__REQUIRE(!block->left || priority(block->left) < priority(block));
    PLM__REQUIRE(!block->right || priority(block->right) < priority(block));
    if (!treap_is_valid(block->left, bin, last, bytes, count))
        return false;
    PLM__REQUIRE(bin_of(block->bytes) == bin);
    PLM__REQUIRE(!*last || is_before(*last, block->bytes, block->address));
    PLM__REQUIRE(block->state == PLM_POOL_BLOCK_FREE);
    *last = block;
    *bytes += block->bytes;
    (*count)++;
    return treap_is_valid(block->right, bin, last, bytes, count);
}

bool plm__shelf_is_valid(const plm__shelf *shelf, size_t *bytes)
{
    if (!bits_are_valid(shelf))
        return false;
    const plm__block *last = NULL;
    size_t sum = 0;
    int64_t count = 0;
    for (int bin = 0; bin < PLM__SHELF_BINS; bin++)
        if (!treap_is_valid(shelf->roots[bin], bin, &last, &sum, &count))
            return false;
    PLM__REQUIRE(count == shelf->count);
    *bytes = sum;
    return true;
}
