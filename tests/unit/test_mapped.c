/* SPDX-License-Identifier: MIT */
/* mapped: pages go where they are wanted, so reserved follows live. */
#include "unit/pool_kit.h"

#define PAGE (2 * MIB)

static void begin(pool_kit *kit, size_t capacity)
{
    kit_begin(kit, PLM_POOL_MAPPED, capacity, NULL);
}

static void blocks_share_pages_down_to_the_byte(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB);
    uint64_t first = kit_take(&kit, 3 * MIB + 1);
    assert_int_equal(kit_reserved(&kit), 2 * PAGE);
    assert_int_equal(kit_take(&kit, 1 * MIB + 512), first + 3 * MIB + 512);
    assert_int_equal(kit_reserved(&kit), 3 * PAGE);
    kit_take(&kit, 512); /* small blocks live apart */
    assert_int_equal(kit_reserved(&kit), 4 * PAGE);
    for (int i = 1; i < 4096; i++)
        kit_take(&kit, 1);
    assert_int_equal(kit_reserved(&kit), 4 * PAGE);
    kit_end(&kit);
}

static void memory_freed_at_one_size_serves_every_other(void **state)
{
    (void)state;
    pool_kit kit;
    uint64_t blocks[60];
    begin(&kit, GIB);
    for (int round = 0; round < 12; round++) { /* 120 MiB live, cut differently each time */
        int count = round % 2 ? 60 - round : 10 + round;
        for (int i = 0; i < count; i++)
            blocks[i] = kit_take(&kit, 120 * MIB / (size_t)count);
        assert_true(kit_reserved(&kit) <= 120 * MIB + PAGE);
        for (int i = 0; i < count; i += 2)
            kit_give(&kit, blocks[i]);
        for (int i = 1; i < count; i += 2)
            kit_give(&kit, blocks[i]);
    }
    kit_end(&kit);
}

static void holes_too_small_to_use_do_not_hold_memory(void **state)
{
    (void)state;
    pool_kit kit;
    uint64_t blocks[64];
    begin(&kit, GIB);
    for (int i = 0; i < 64; i++)
        blocks[i] = kit_take(&kit, 8 * MIB);
    for (int i = 0; i < 64; i += 2)
        kit_give(&kit, blocks[i]);
    kit_forget(&kit);
    kit_take(&kit, 256 * MIB); /* no hole is that large, yet nothing more is reserved */
    assert_int_equal(kit_reserved(&kit), 512 * MIB);
    assert_int_equal(kit.space.committed_peak_bytes, 512 * MIB);
    assert_int_equal(kit.space.fence_calls, 1); /* all streams are waited for, once */
    kit_end(&kit);
}

static void a_program_that_repeats_itself_moves_no_pages(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB);
    int64_t moved = 0;
    for (int step = 0; step < 6; step++) {
        uint64_t blocks[20];
        for (int i = 0; i < 20; i++)
            blocks[i] = kit_take(&kit, (size_t)(1 + i * 7 % 13) * 1500 * KIB);
        for (int i = 19; i >= 0; i--)
            kit_give(&kit, blocks[i]);
        int64_t now = plm__pool_statistics(kit.pool)->num_device_alloc;
        assert_true(step < 1 || now == moved);
        moved = now;
    }
    kit_end(&kit);
}

static void the_whole_device_can_be_one_block_and_one_page_more_is_refused(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, 64 * MIB);
    kit_refuse(&kit, &(plm_pool_request){.bytes = 64 * MIB + 1});
    uint64_t block = kit_take(&kit, 64 * MIB);
    kit_refuse(&kit, &(plm_pool_request){.bytes = 1});
    plm_error error;
    plm_error_get(&error);
    assert_int_equal(error.oom.asked_bytes, 1);
    assert_int_equal(error.oom.rounded_bytes, 512);
    assert_int_equal(error.oom.live_bytes, 64 * MIB);
    assert_int_equal(error.oom.budget_bytes, 64 * MIB);
    assert_int_equal(error.oom.largest_free_bytes, 0);
    kit_give(&kit, block);
    kit_take(&kit, 24 * MIB);
    kit_refuse(&kit, &(plm_pool_request){.bytes = 40 * MIB + 1});
    plm_error_get(&error);
    assert_int_equal(error.oom.largest_free_bytes, 40 * MIB);
    kit_take(&kit, 40 * MIB);
    assert_int_equal(plm__pool_statistics(kit.pool)->num_ooms, 3);
    kit_end(&kit);
}

static void a_fraction_bounds_the_pages(void **state)
{
    (void)state;
    plm_pool_settings settings = plm__pool_settings_default();
    settings.memory_fraction = 0.5;
    pool_kit kit;
    kit_begin(&kit, PLM_POOL_MAPPED, 64 * MIB, &settings);
    kit_take(&kit, 20 * MIB);
    kit_refuse(&kit, &(plm_pool_request){.bytes = 12 * MIB + 1});
    kit_take(&kit, 12 * MIB);
    assert_int_equal(kit_reserved(&kit), 32 * MIB);
    kit_end(&kit);
}

static void pending_blocks_are_waited_for_before_a_request_fails(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, 64 * MIB);
    uint64_t block = kit_take(&kit, 40 * MIB);
    assert_ok(plm__pool_record_stream(kit.pool, block, 1));
    assert_ok(plm__pool_free(kit.pool, block, NULL));
    kit_check(&kit);
    assert_int_equal(kit_stat(&kit, PLM_POOL_ACTIVE_BYTES), 40 * MIB);
    kit_refuse(&kit, &(plm_pool_request){.bytes = 50 * MIB, .capturing = true});
    kit_take(&kit, 50 * MIB);
    assert_int_equal(plm__pool_statistics(kit.pool)->num_alloc_retries, 1);
    kit_end(&kit);
}

static void a_request_beyond_the_device_fails_while_blocks_are_pending(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, 64 * MIB);
    uint64_t block = kit_take(&kit, MIB);
    assert_ok(plm__pool_record_stream(kit.pool, block, 1));
    kit_give(&kit, block);
    kit_refuse(&kit, &(plm_pool_request){.bytes = GIB});
    assert_ok(plm__pool_complete(kit.pool, block)); /* there was nothing to wait for */
    kit_end(&kit);
}

static void while_a_graph_is_captured_no_page_moves(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, 64 * MIB);
    kit_give(&kit, kit_take_on(&kit, 40 * MIB, 1));
    kit_forget(&kit);
    kit_refuse(&kit, &(plm_pool_request){.bytes = 30 * MIB, .capturing = true});
    kit_expect(&kit, PLM_EVENT_OUT_OF_MEMORY);
    kit_take(&kit, 30 * MIB);
    kit_end(&kit);
}

static void emptying_the_cache_leaves_only_pages_in_use(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB);
    uint64_t large = kit_take(&kit, 100 * MIB), kept = kit_take(&kit, 3 * MIB);
    kit_give(&kit, large);
    assert_ok(plm__pool_empty_cache(kit.pool));
    kit_check(&kit);
    assert_int_equal(kit_reserved(&kit), 2 * PAGE);
    kit_give(&kit, kept);
    assert_ok(plm__pool_empty_cache(kit.pool));
    assert_int_equal(kit_reserved(&kit), 0);
    kit_end(&kit);
}

static void a_long_random_run_keeps_every_invariant_and_little_waste(void **state)
{
    (void)state;
    static const size_t scales[] = {KIB, 300 * KIB, 5 * MIB, 20 * MIB, 20 * MIB, 20 * MIB};
    pool_kit kit;
    begin(&kit, 700 * MIB);
    uint64_t live[96] = {0};
    for (uint64_t step = 0; step < 4000; step++) {
        plm_philox random = plm__philox_at(5, 0, 0, step);
        int slot = (int)(random.word[0] % 96);
        if (live[slot])
            assert_ok(plm__pool_free(kit.pool, live[slot], NULL));
        live[slot] = 0;
        plm_pool_request request = {.bytes = 1 + random.word[1] % scales[random.word[2] % 6],
                                    .stream = random.word[3] % 2};
        plm_pool_grant grant = {0};
        plm_status status = plm__pool_alloc(kit.pool, &request, &grant);
        assert_true(status == PLM_OK || status == PLM_ERROR_DEVICE_MEMORY);
        live[slot] = grant.address;
        kit_check(&kit);
    }
    for (int i = 0; i < 96; i++)
        kit_give(&kit, live[i]);
    kit_end(&kit);
}

static void a_mapped_pool_takes_over_no_state(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB);
    assert_int_equal(plm__pool_adopt(kit.pool, NULL, 0), PLM_ERROR_UNSUPPORTED);
    kit_end(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_share_pages_down_to_the_byte),
        cmocka_unit_test(memory_freed_at_one_size_serves_every_other),
        cmocka_unit_test(holes_too_small_to_use_do_not_hold_memory),
        cmocka_unit_test(a_program_that_repeats_itself_moves_no_pages),
        cmocka_unit_test(the_whole_device_can_be_one_block_and_one_page_more_is_refused),
        cmocka_unit_test(a_fraction_bounds_the_pages),
        cmocka_unit_test(pending_blocks_are_waited_for_before_a_request_fails),
        cmocka_unit_test(a_request_beyond_the_device_fails_while_blocks_are_pending),
        cmocka_unit_test(while_a_graph_is_captured_no_page_moves),
        cmocka_unit_test(emptying_the_cache_leaves_only_pages_in_use),
        cmocka_unit_test(a_long_random_run_keeps_every_invariant_and_little_waste),
        cmocka_unit_test(a_mapped_pool_takes_over_no_state),
    };
    return run_test_group(tests);
}
