/* SPDX-License-Identifier: MIT */
/* shelf: best fit by size, then address, against a plain search. */
#include "base/philox.h"
#include "pool/pool_internal.h"
#include "unit/test.h"

enum { BLOCKS = 400, STEPS = 6000 };

typedef struct shelf_model {
    plm__shelf *shelf;
    plm__block blocks[BLOCKS];
    bool is_shelved[BLOCKS];
} shelf_model;

static bool is_less(const plm__block *block, size_t bytes, uint64_t address)
{
    return block->bytes < bytes || (block->bytes == bytes && block->address < address);
}

/* The first shelved block not before the key, or the last one before it, by looking at all. */
static plm__block *search(shelf_model *model, size_t bytes, uint64_t address, bool before)
{
    plm__block *best = NULL;
    for (int i = 0; i < BLOCKS; i++) {
        plm__block *block = &model->blocks[i];
        if (!model->is_shelved[i] || is_less(block, bytes, address) != before)
            continue;
        if (!best || is_less(block, best->bytes, best->address) != before)
            best = block;
    }
    return best;
}

static size_t random_bytes(uint32_t word)
{
    static const size_t scales[] = {4, 60, 4096, 40960, (size_t)1 << 24, (size_t)1 << 33};
    return (1 + (word >> 8) % scales[word % 6]) * PLM_POOL_BLOCK_BYTES;
}

static void a_shelf_finds_what_a_plain_search_finds(void **state)
{
    (void)state;
    shelf_model *model = NULL;
    assert_ok(plm__host_alloc(sizeof *model, &model));
    assert_ok(plm__host_alloc(sizeof *model->shelf, &model->shelf));
    for (uint64_t step = 0; step < STEPS; step++) {
        plm_philox random = plm__philox_at(7, 0, 0, step);
        int at = (int)(random.word[0] % BLOCKS);
        plm__block *block = &model->blocks[at];
        if (model->is_shelved[at]) {
            plm__shelf_remove(model->shelf, block);
        } else {
            *block = (plm__block){.address = (1 + (uint64_t)at) << 21,
                                  .bytes = random_bytes(random.word[1])};
            plm__shelf_insert(model->shelf, block);
        }
        model->is_shelved[at] = !model->is_shelved[at];
        size_t bytes = random_bytes(random.word[2]);
        uint64_t address = (uint64_t)(random.word[3] % BLOCKS) << 21;
        assert_ptr_equal(plm__shelf_at_least(model->shelf, bytes, address),
                         search(model, bytes, address, false));
        assert_ptr_equal(plm__shelf_before(model->shelf, bytes, address),
                         search(model, bytes, address, true));
        size_t sum;
        if (step % 50 == 0)
            assert_true(plm__shelf_is_valid(model->shelf, &sum));
    }
    plm__host_free(model->shelf);
    plm__host_free(model);
}

static void walking_a_shelf_meets_every_block_in_order(void **state)
{
    (void)state;
    plm__shelf *shelf = NULL;
    assert_ok(plm__host_alloc(sizeof *shelf, &shelf));
    plm__block blocks[100];
    memset(blocks, 0, sizeof blocks);
    for (int i = 0; i < 100; i++) { /* many equal sizes */
        blocks[i] = (plm__block){.address = (uint64_t)(1 + i * 37 % 100) * 4096,
                                 .bytes = (size_t)(1 + i % 3) << 20};
        plm__shelf_insert(shelf, &blocks[i]);
    }
    int count = 0;
    const plm__block *last = NULL;
    for (plm__block *block = plm__shelf_at_least(shelf, 0, 0); block;
         block = plm__shelf_next(shelf, block), count++) {
        assert_true(!last || is_less(last, block->bytes, block->address));
        last = block;
    }
    assert_int_equal(count, 100);
    plm__host_free(shelf);
}

static void a_broken_shelf_is_found_out(void **state)
{
    (void)state;
    plm__shelf *shelf = NULL;
    assert_ok(plm__host_alloc(sizeof *shelf, &shelf));
    plm__block one = {.address = 4096, .bytes = 1024}, two = {.address = 8192, .bytes = 1024};
    plm__shelf_insert(shelf, &one);
    plm__shelf_insert(shelf, &two);
    size_t bytes = 0;
    assert_true(plm__shelf_is_valid(shelf, &bytes));
    assert_int_equal(bytes, 2048);
    one.bytes = 512;
    assert_false(plm__shelf_is_valid(shelf, &bytes));
    one.bytes = 1024;
    shelf->count++;
    assert_false(plm__shelf_is_valid(shelf, &bytes));
    shelf->count--;
    shelf->summary = 0;
    assert_false(plm__shelf_is_valid(shelf, &bytes));
    plm__host_free(shelf);
}

static void the_map_finds_what_was_put_in_and_nothing_else(void **state)
{
    (void)state;
    plm__map map = {0};
    plm__block blocks[3000];
    for (int i = 0; i < 3000; i++) {
        blocks[i] = (plm__block){.address = (uint64_t)(i + 1) * 512};
        assert_ok(plm__map_reserve(&map, 1));
        plm__map_insert(&map, &blocks[i]);
    }
    for (int i = 0; i < 3000; i += 2)
        plm__map_remove(&map, plm__map_find(&map, blocks[i].address));
    for (int i = 0; i < 3000; i++) {
        const plm__map_slot *slot = plm__map_find(&map, blocks[i].address);
        assert_ptr_equal(slot ? slot->block : NULL, i % 2 ? &blocks[i] : NULL);
    }
    assert_null(plm__map_find(&map, 0));
    assert_int_equal(map.count, 1500);
    plm__host_free(map.slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shelf_finds_what_a_plain_search_finds),
        cmocka_unit_test(walking_a_shelf_meets_every_block_in_order),
        cmocka_unit_test(a_broken_shelf_is_found_out),
        cmocka_unit_test(the_map_finds_what_was_put_in_and_nothing_else),
    };
    return run_test_group(tests);
}
