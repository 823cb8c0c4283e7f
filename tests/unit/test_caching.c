/* SPDX-License-Identifier: MIT */
/* caching: PyTorch's rules, one by one; the whole pool is checked after every step. */
#include "pool/pool_internal.h"
#include "torch/alloc_conf.h"
#include "unit/pool_kit.h"

static void begin(pool_kit *kit, size_t capacity, const char *text)
{
    plm_pool_settings settings = plm__pool_settings_default();
    assert_ok(plm__torch_settings_parse(text, &settings));
    kit_begin(kit, PLM_POOL_CACHING, capacity, &settings);
}

/* ---- finding and splitting ---- */

static void nothing_is_given_for_no_bytes(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "");
    assert_int_equal(kit_take(&kit, 0), 0);
    kit_give(&kit, 0);
    assert_int_equal(kit.event_count, 0);
    kit_end(&kit);
}

static void a_request_of_2_to_the_60_is_refused_before_anything_is_tried(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "");
    kit_refuse(&kit, &(plm_pool_request){.bytes = (size_t)1 << 60});
    kit_refuse(&kit, &(plm_pool_request){.bytes = SIZE_MAX});
    assert_int_equal(kit.event_count, 0);
    assert_int_equal(plm__pool_statistics(kit.pool)->num_ooms, 0);
    kit_end(&kit);
}

static void a_grant_says_what_the_block_takes(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "");
    plm_pool_grant grant = kit_grant(&kit, &(plm_pool_request){.bytes = 1000});
    assert_int_equal(grant.bytes, 1024);
    /* 12 MiB + 512 are cut from 14 MiB whole: 2 MiB less 512 would be left, over 1 MiB, so cut. */
    grant = kit_grant(&kit, &(plm_pool_request){.bytes = 12 * MIB + 1});
    assert_int_equal(grant.bytes, 12 * MIB + 512);
    /* 13 MiB of 14 MiB: 1 MiB would be left, which is not worth it. */
    grant = kit_grant(&kit, &(plm_pool_request){.bytes = 13 * MIB});
    assert_int_equal(grant.bytes, 14 * MIB);
    kit_end(&kit);
}

static void the_smallest_fitting_block_is_taken_and_the_lowest_of_equals(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "");
    uint64_t blocks[8];
    static const size_t kib[8] = {64, 32, 128, 32, 96, 32, 48, 32};
    for (int i = 0; i < 8; i++)
        blocks[i] = kit_take(&kit, kib[i] * KIB);
    kit_give(&kit, blocks[4]); /* 96 */
    kit_give(&kit, blocks[2]); /* 128, and 96 of before: apart, [3] lies between */
    kit_give(&kit, blocks[6]); /* 48 */
    assert_int_equal(kit_take(&kit, 90 * KIB), blocks[4]);
    assert_int_equal(kit_take(&kit, 40 * KIB), blocks[6]);
    kit_give(&kit, blocks[7]);
    kit_give(&kit, blocks[3]);
    kit_give(&kit, blocks[1]);
    kit_end(&kit);
    begin(&kit, GIB, "");
    for (int i = 0; i < 8; i++)
        blocks[i] = kit_take(&kit, 64 * KIB);
    kit_give(&kit, blocks[5]);
    kit_give(&kit, blocks[1]);
    kit_give(&kit, blocks[3]);
    assert_int_equal(kit_take(&kit, 64 * KIB), blocks[1]);
    assert_int_equal(kit_take(&kit, 64 * KIB), blocks[3]);
    assert_int_equal(kit_take(&kit, 64 * KIB), blocks[5]);
    kit_end(&kit);
}

static void small_blocks_split_down_to_512_large_ones_keep_up_to_1_mib(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "");
    uint64_t first = kit_take(&kit, 512);
    assert_int_equal(kit_take(&kit, MIB), first + 512);
    assert_int_equal(kit_take(&kit, MIB - 1024), first + 512 + MIB);
    assert_int_equal(kit_take(&kit, 512), first + 2 * MIB - 512); /* the last 512 */
    assert_int_equal(kit_reserved(&kit), 2 * MIB);
    /* 19 MiB asked of a cached 20 MiB block leave exactly 1 MiB: not more than 1 MiB, not cut. */
    uint64_t whole = kit_take(&kit, 20 * MIB);
    kit_give(&kit, whole);
    plm_pool_grant grant = kit_grant(&kit, &(plm_pool_request){.bytes = 19 * MIB});
    assert_int_equal(grant.address, whole);
    assert_int_equal(grant.bytes, 20 * MIB);
    kit_give(&kit, whole);
    grant = kit_grant(&kit, &(plm_pool_request){.bytes = 19 * MIB - 512});
    assert_int_equal(grant.bytes, 19 * MIB - 512);
    kit_end(&kit);
}

static void a_freed_block_merges_with_both_neighbours_but_never_across_segments(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "");
    uint64_t blocks[4];
    for (int i = 0; i < 4; i++)
        blocks[i] = kit_take(&kit, 512 * KIB); /* two fit in each 2 MiB... four in one */
    assert_int_equal(kit_reserved(&kit), 2 * MIB);
    kit_give(&kit, blocks[0]);
    kit_give(&kit, blocks[2]);
    assert_int_equal(kit_stat(&kit, PLM_POOL_INACTIVE_SPLIT), 2);
    kit_give(&kit, blocks[1]);
    assert_int_equal(kit_stat(&kit, PLM_POOL_INACTIVE_SPLIT), 1);
    assert_int_equal(kit_stat(&kit, PLM_POOL_INACTIVE_SPLIT_BYTES), 3 * 512 * KIB);
    kit_give(&kit, blocks[3]);
    assert_int_equal(kit_stat(&kit, PLM_POOL_INACTIVE_SPLIT), 0);
    uint64_t one = kit_take(&kit, 10 * MIB), two = kit_take(&kit, 10 * MIB);
    kit_give(&kit, one);
    kit_give(&kit, two);
    kit_take(&kit, 20 * MIB);
    assert_int_equal(kit_reserved(&kit), 42 * MIB);
    kit_end(&kit);
}

static void the_reference_numbers_without_expandable_segments_come_out(void **state)
{
    (void)state;
    pool_kit kit;
    uint64_t blocks[8];
    begin(&kit, GIB, "");
    for (int i = 0; i < 8; i++)
        blocks[i] = kit_take(&kit, 16 * MIB);
    assert_int_equal(kit_reserved(&kit), 128 * MIB);
    for (int i = 0; i < 8; i++)
        kit_give(&kit, blocks[i]);
    for (int i = 0; i < 4; i++)
        blocks[i] = kit_take(&kit, 32 * MIB);
    assert_int_equal(kit_reserved(&kit), 256 * MIB);
    kit_end(&kit);
    begin(&kit, GIB, ""); /* large ones first */
    for (int i = 0; i < 4; i++)
        blocks[i] = kit_take(&kit, 32 * MIB);
    for (int i = 0; i < 4; i++)
        kit_give(&kit, blocks[i]);
    for (int i = 0; i < 8; i++)
        kit_take(&kit, 16 * MIB);
    assert_int_equal(kit_reserved(&kit), 128 * MIB);
    kit_end(&kit);
    begin(&kit, GIB, "");
    kit_take(&kit, 2 * MIB);
    kit_take(&kit, 512 * KIB);
    assert_int_equal(kit_reserved(&kit), 22 * MIB);
    kit_end(&kit);
    begin(&kit, GIB, "");
    kit_take(&kit, 2 * MIB);
    kit_take(&kit, 2 * MIB);
    assert_int_equal(kit_reserved(&kit), 20 * MIB);
    kit_end(&kit);
}

static void a_large_segment_of_40_mib_is_used_for_2_mib(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "large_segment_size_mb:40");
    kit_take(&kit, 2 * MIB);
    assert_int_equal(kit_reserved(&kit), 40 * MIB);
    kit_end(&kit);
}

static void oversize_blocks_are_neither_split_nor_given_for_less(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "max_split_size_mb:32");
    const plm_pool_stats *stats = plm__pool_statistics(kit.pool);
    assert_int_equal(stats->max_split_size, 32 * MIB);
    uint64_t large = kit_take(&kit, 100 * MIB);
    assert_int_equal(stats->oversize_allocations.current, 1);
    assert_int_equal(stats->oversize_segments.current, 1);
    kit_give(&kit, large);
    assert_int_equal(stats->oversize_allocations.current, 0);
    kit_take(&kit, 30 * MIB); /* below the limit: not from the oversize block */
    assert_int_equal(kit_reserved(&kit), 130 * MIB);
    kit_take(&kit, 80 * MIB); /* 20 MiB smaller than the block: too much to lose */
    assert_int_equal(kit_reserved(&kit), 210 * MIB);
    plm_pool_grant grant = kit_grant(&kit, &(plm_pool_request){.bytes = 80 * MIB + 512});
    assert_int_equal(grant.address, large); /* 512 less lost: whole */
    assert_int_equal(grant.bytes, 100 * MIB);
    assert_int_equal(kit_reserved(&kit), 210 * MIB);
    kit_give(&kit, kit_take(&kit, 32 * MIB)); /* exactly the limit is oversize */
    assert_int_equal(kit_reserved(&kit), 242 * MIB);
    kit_take(&kit, 31 * MIB);
    assert_int_equal(kit_reserved(&kit), 274 * MIB);
    kit_end(&kit);
}

/* ---- streams and private pools ---- */

static void streams_do_not_share_blocks(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "");
    kit_give(&kit, kit_take_on(&kit, MIB, 1));
    kit_give(&kit, kit_take_on(&kit, MIB, 2));
    assert_int_equal(kit_reserved(&kit), 4 * MIB);
    kit_take_on(&kit, MIB, 1);
    assert_int_equal(kit_reserved(&kit), 4 * MIB);
    kit_end(&kit);
}

static void a_block_used_by_another_stream_stays_pending_until_that_is_done(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "");
    uint64_t block = kit_take(&kit, 4 * MIB);
    assert_ok(plm__pool_record_stream(kit.pool, block, 0)); /* its own: means nothing */
    assert_ok(plm__pool_record_stream(kit.pool, block, 9));
    kit_forget(&kit);
    bool pending = false;
    assert_ok(plm__pool_free(kit.pool, block, &pending));
    kit_check(&kit);
    assert_true(pending);
    kit_expect(&kit, PLM_EVENT_BLOCK_FREE_REQUESTED);
    assert_int_equal(kit_stat(&kit, PLM_POOL_ALLOCATED_BYTES), 0);
    assert_int_equal(kit_stat(&kit, PLM_POOL_ACTIVE_BYTES), 4 * MIB);
    assert_int_not_equal(kit_take(&kit, 4 * MIB), block);
    assert_int_equal(plm__pool_free(kit.pool, block, NULL), PLM_ERROR_ARGUMENT);
    kit_forget(&kit);
    assert_ok(plm__pool_complete(kit.pool, block));
    kit_check(&kit);
    kit_expect(&kit, PLM_EVENT_BLOCK_FREE);
    assert_int_equal(kit.events[0].address, block);
    assert_int_equal(kit.events[0].bytes, 4 * MIB);
    assert_int_equal(plm__pool_complete(kit.pool, block), PLM_ERROR_ARGUMENT);
    assert_int_equal(kit_take(&kit, 4 * MIB), block);
    kit_end(&kit);
}

static void a_recorded_stream_is_forgotten_with_the_free(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "");
    uint64_t block = kit_take(&kit, 20 * MIB);
    bool pending = true;
    assert_ok(plm__pool_record_stream(kit.pool, block, 0)); /* only its own */
    assert_ok(plm__pool_free(kit.pool, block, &pending));
    assert_false(pending);
    assert_int_equal(kit_take(&kit, 20 * MIB), block);
    assert_ok(plm__pool_record_stream(kit.pool, block, 9));
    assert_ok(plm__pool_free(kit.pool, block, &pending));
    assert_true(pending);
    assert_ok(plm__pool_complete(kit.pool, block));
    assert_int_equal(kit_take(&kit, 20 * MIB), block);
    assert_ok(plm__pool_free(kit.pool, block, &pending));
    assert_false(pending);
    kit_end(&kit);
}

static void wrong_frees_are_refused(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "");
    uint64_t block = kit_take(&kit, MIB);
    assert_int_equal(plm__pool_free(kit.pool, block + 512, NULL), PLM_ERROR_ARGUMENT);
    assert_int_equal(plm__pool_record_stream(kit.pool, block + 512, 1), PLM_ERROR_ARGUMENT);
    assert_int_equal(plm__pool_complete(kit.pool, block), PLM_ERROR_ARGUMENT);
    kit_give(&kit, block);
    assert_int_equal(plm__pool_free(kit.pool, block, NULL), PLM_ERROR_ARGUMENT);
    kit_end(&kit);
}

static void a_private_pool_shares_nothing_and_keeps_its_memory_until_released(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "");
    kit_give(&kit, kit_take(&kit, MIB));
    plm_pool_request request = {.bytes = MIB, .private_pool = 3};
    kit_give(&kit, kit_grant(&kit, &request).address);
    assert_int_equal(kit_reserved(&kit), 4 * MIB);
    assert_ok(plm__pool_empty_cache(kit.pool));
    kit_check(&kit);
    assert_int_equal(kit_reserved(&kit), 2 * MIB);
    plm__pool_release_private(kit.pool, 3);
    kit_give(&kit, kit_grant(&kit, &request).address); /* used again: kept again */
    assert_ok(plm__pool_empty_cache(kit.pool));
    assert_int_equal(kit_reserved(&kit), 2 * MIB);
    plm__pool_release_private(kit.pool, 3);
    assert_ok(plm__pool_empty_cache(kit.pool));
    assert_int_equal(kit_reserved(&kit), 0);
    assert_int_equal(plm__pool_statistics(kit.pool)->num_device_free, 2);
    kit_end(&kit);
}

/* ---- the ladder ---- */

static void the_cache_is_given_back_before_a_request_fails(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, 100 * MIB, "");
    uint64_t small = kit_take(&kit, 512);
    uint64_t large[3] = {kit_take(&kit, 30 * MIB), kit_take(&kit, 30 * MIB),
                         kit_take(&kit, 30 * MIB)};
    kit_give(&kit, large[2]);
    kit_give(&kit, large[0]);
    kit_forget(&kit);
    kit_take(&kit, 60 * MIB);
    kit_expect(&kit, PLM_EVENT_SEGMENT_FREE, PLM_EVENT_SEGMENT_FREE, PLM_EVENT_SEGMENT_ALLOC,
               PLM_EVENT_BLOCK_ALLOC);
    assert_int_equal(kit.events[0].address, large[0]); /* in order of size, then address */
    assert_int_equal(kit.events[1].address, large[2]);
    const plm_pool_stats *stats = plm__pool_statistics(kit.pool);
    assert_int_equal(stats->num_alloc_retries, 1);
    assert_int_equal(stats->num_sync_all_streams, 1);
    assert_int_equal(stats->num_ooms, 0);
    assert_int_equal(kit.space.fence_calls, 1);
    kit_give(&kit, small);
    kit_end(&kit);
}

static void a_request_that_fits_nowhere_fails_with_the_whole_record(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, 64 * MIB, "");
    kit_take(&kit, 1000);
    uint64_t split = kit_take(&kit, 2 * MIB), kept = kit_take(&kit, 3 * MIB);
    kit_give(&kit, split);
    kit_forget(&kit);
    kit_refuse(&kit, &(plm_pool_request){.bytes = 43 * MIB + 1});
    kit_expect(&kit, PLM_EVENT_OUT_OF_MEMORY);
    assert_int_equal(kit.events[0].bytes, 43 * MIB + 512);
    plm_error error;
    plm_error_get(&error);
    assert_int_equal(error.status, PLM_ERROR_DEVICE_MEMORY);
    assert_int_equal(error.oom.asked_bytes, 43 * MIB + 1);
    assert_int_equal(error.oom.rounded_bytes, 43 * MIB + 512);
    assert_int_equal(error.oom.live_bytes, 1000 + 3 * MIB);
    assert_int_equal(error.oom.cached_bytes, 22 * MIB - 1024 - 3 * MIB);
    assert_int_equal(error.oom.reserved_bytes, 22 * MIB);
    assert_int_equal(error.oom.budget_bytes, 64 * MIB);
    assert_int_equal(error.oom.largest_free_bytes, 42 * MIB);
    assert_non_null(strstr(error.message, "44.0 MiB")); /* the segment, as PyTorch says it */
    assert_int_equal(plm__pool_statistics(kit.pool)->num_ooms, 1);
    assert_int_equal(plm__pool_statistics(kit.pool)->num_alloc_retries, 1);
    kit_take(&kit, error.oom.largest_free_bytes); /* as the record promised */
    kit_give(&kit, kept);
    kit_end(&kit);
}

/* An empty device: from 10 MiB on a request has a segment of its own, below that only small ones
 * have, from a page on. */
static void the_largest_that_would_succeed_is_promised_by_the_segment_that_it_needs(void **state)
{
    (void)state;
    static const size_t cases[][2] = {{12 * MIB - 512, 10 * MIB},
                                      {10 * MIB, 10 * MIB},
                                      {10 * MIB - 512, MIB},
                                      {2 * MIB, MIB},
                                      {2 * MIB - 512, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pool_kit kit;
        plm_error error;
        begin(&kit, cases[i][0], "");
        kit_refuse(&kit, &(plm_pool_request){.bytes = 20 * MIB});
        plm_error_get(&error);
        assert_int_equal(error.oom.largest_free_bytes, cases[i][1]);
        if (cases[i][1] > 0)
            kit_take(&kit, cases[i][1]);
        kit_end(&kit);
    }
}

/* PyTorch's known hole: waiting frees a fitting block, but only the driver is asked again. */
static void a_block_freed_by_the_retry_is_not_searched_for(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, 64 * MIB, "");
    uint64_t neighbour = kit_take(&kit, 30 * MIB), block = kit_take(&kit, 4 * MIB);
    uint64_t pin = kit_take(&kit, 4 * MIB); /* shares the block's segment of 20 MiB */
    kit_take(&kit, 12 * MIB);
    assert_ok(plm__pool_record_stream(kit.pool, block, 5));
    assert_ok(plm__pool_free(kit.pool, block, NULL));
    uint64_t last = kit_take(&kit, 14 * MIB);
    (void)last;
    assert_int_equal(kit_reserved(&kit), 64 * MIB);
    kit_refuse(&kit, &(plm_pool_request){.bytes = 3 * MIB});
    assert_int_equal(kit_take(&kit, 3 * MIB), block); /* it was there all along */
    kit_give(&kit, pin);
    kit_give(&kit, neighbour);
    kit_end(&kit);
}

static void while_a_graph_is_captured_nothing_is_given_back(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, 64 * MIB, "");
    kit_give(&kit, kit_take(&kit, 40 * MIB));
    kit_forget(&kit);
    kit_refuse(&kit, &(plm_pool_request){.bytes = 50 * MIB, .capturing = true});
    kit_expect(&kit, PLM_EVENT_OUT_OF_MEMORY);
    assert_int_equal(kit.space.fence_calls, 0);
    kit_take(&kit, 50 * MIB);
    kit_end(&kit);
}

static void a_fraction_refuses_without_asking_the_driver(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, 100 * MIB, "per_process_memory_fraction:0.5");
    kit_take(&kit, 30 * MIB);
    int64_t commits = kit.space.commit_calls;
    kit_refuse(&kit, &(plm_pool_request){.bytes = 20 * MIB + 512});
    assert_int_equal(kit.space.commit_calls, commits);
    plm_error error;
    plm_error_get(&error);
    assert_int_equal(error.oom.budget_bytes, 50 * MIB);
    assert_int_equal(error.oom.largest_free_bytes, 20 * MIB);
    kit_take(&kit, 20 * MIB); /* exactly what is allowed */
    assert_int_equal(kit_reserved(&kit), 50 * MIB);
    kit_end(&kit);
}

static void one_oversize_block_that_covers_the_request_is_released(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, 200 * MIB, "max_split_size_mb:20");
    uint64_t a = kit_take(&kit, 100 * MIB), b = kit_take(&kit, 60 * MIB);
    kit_take(&kit, 30 * MIB);
    kit_give(&kit, a);
    kit_give(&kit, b);
    kit_forget(&kit);
    kit_take(&kit, 36 * MIB); /* 60 is the smallest that covers it */
    kit_expect(&kit, PLM_EVENT_SEGMENT_FREE, PLM_EVENT_SEGMENT_ALLOC, PLM_EVENT_BLOCK_ALLOC);
    assert_int_equal(kit.events[0].address, b);
    assert_int_equal(plm__pool_statistics(kit.pool)->num_alloc_retries, 0);
    kit_end(&kit);
}

static void oversize_blocks_are_released_largest_first_until_they_cover(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, 200 * MIB, "max_split_size_mb:20");
    uint64_t blocks[3] = {kit_take(&kit, 60 * MIB), kit_take(&kit, 100 * MIB),
                          kit_take(&kit, 30 * MIB)};
    for (int i = 0; i < 3; i++)
        kit_give(&kit, blocks[i]);
    kit_forget(&kit);
    kit_take(&kit, 120 * MIB);
    kit_expect(&kit, PLM_EVENT_SEGMENT_FREE, PLM_EVENT_SEGMENT_FREE, PLM_EVENT_SEGMENT_ALLOC,
               PLM_EVENT_BLOCK_ALLOC);
    assert_int_equal(kit.events[0].address, blocks[1]);
    assert_int_equal(kit.events[1].address, blocks[0]);
    assert_int_equal(kit_reserved(&kit), 150 * MIB); /* 30 are still cached */
    int64_t commits = kit.space.commit_calls;
    kit_refuse(&kit, &(plm_pool_request){.bytes = 190 * MIB});
    assert_int_equal(kit.space.commit_calls, commits + 2); /* 30 covered nothing: not asked again */
    kit_end(&kit);
}

/* Of three cached blocks of 20 MiB, the limit, two serve 40 without the last resort and the third
 * stays; blocks that are less are not looked at. */
static void a_block_of_the_split_size_is_oversize_and_a_smaller_one_is_not(void **state)
{
    (void)state;
    for (size_t bytes = 18 * MIB; bytes <= 20 * MIB; bytes += 2 * MIB) {
        pool_kit kit;
        uint64_t blocks[3];
        bool is_oversize = bytes == 20 * MIB;
        begin(&kit, 90 * MIB, "max_split_size_mb:20");
        const plm_pool_stats *stats = plm__pool_statistics(kit.pool);
        for (int i = 0; i < 3; i++)
            blocks[i] = kit_take(&kit, bytes);
        assert_int_equal(stats->oversize_segments.current, is_oversize ? 3 : 0);
        for (int i = 0; i < 3; i++)
            kit_give(&kit, blocks[i]);
        kit_take(&kit, 40 * MIB);
        assert_int_equal(kit_reserved(&kit), is_oversize ? 60 * MIB : 40 * MIB);
        assert_int_equal(stats->num_alloc_retries, is_oversize ? 0 : 1);
        assert_int_equal(stats->oversize_segments.current, is_oversize ? 2 : 1);
        kit_end(&kit);
    }
}

/* A cached block of 30 MiB is given whole to a request of the limit, and not at all to less. */
static void a_request_of_the_split_size_gets_its_block_whole(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "max_split_size_mb:20");
    kit_give(&kit, kit_take(&kit, 30 * MIB));
    uint64_t less = kit_take(&kit, 20 * MIB - 512);
    assert_int_equal(kit_reserved(&kit), 50 * MIB);
    plm_pool_grant grant = kit_grant(&kit, &(plm_pool_request){.bytes = 20 * MIB});
    assert_int_equal(grant.bytes, 30 * MIB);
    assert_int_equal(kit_reserved(&kit), 50 * MIB);
    kit_give(&kit, less);
    kit_end(&kit);
}

/* ---- garbage ---- */

/* Of 400 MiB 200 are reserved, half of them cached. */
static void garbage_is_collected_above_the_threshold_and_not_at_it(void **state)
{
    (void)state;
    static const char *const thresholds[] = {"0.5", "0.499"};
    for (int above = 0; above < 2; above++) {
        char text[128];
        pool_kit kit;
        snprintf(text, sizeof text,
                 "garbage_collection_threshold:%s,per_process_memory_fraction:1.0",
                 thresholds[above]);
        begin(&kit, 400 * MIB, text);
        uint64_t cached = kit_take(&kit, 100 * MIB);
        kit_take(&kit, 100 * MIB);
        kit_give(&kit, cached);
        kit_forget(&kit);
        kit_take(&kit, 120 * MIB);
        assert_int_equal(kit.events[0].kind,
                         above ? PLM_EVENT_SEGMENT_FREE : PLM_EVENT_SEGMENT_ALLOC);
        kit_end(&kit);
    }
}

/* Three cached segments of different ages; then a request that needs a new one. */
static void make_garbage(pool_kit *kit, uint64_t blocks[3])
{
    for (int i = 0; i < 3; i++)
        blocks[i] = kit_take(kit, (size_t)(20 + 10 * i) * MIB);
    kit_give(kit, blocks[0]);
    for (int i = 0; i < 20; i++) /* time passes: searches of the large pool, on another stream */
        kit_give(kit, kit_take_on(kit, 12 * MIB, 5));
    kit_take_on(kit, 12 * MIB, 5);
    kit_take_on(kit, 60 * MIB, 5); /* 162 MiB are reserved from here on */
    kit_give(kit, blocks[1]);
    kit_give(kit, blocks[2]);
    kit_forget(kit);
    kit_take(kit, 60 * MIB);
}

static void old_garbage_goes_before_the_driver_is_asked(void **state)
{
    (void)state;
    pool_kit kit;
    uint64_t blocks[3];
    begin(&kit, 400 * MIB, "garbage_collection_threshold:0.36,per_process_memory_fraction:1.0");
    make_garbage(&kit, blocks);
    /* The threshold is 144 MiB: 18 are wanted. The oldest alone is above the average age. */
    kit_expect(&kit, PLM_EVENT_SEGMENT_FREE, PLM_EVENT_SEGMENT_ALLOC, PLM_EVENT_BLOCK_ALLOC);
    assert_int_equal(kit.events[0].address, blocks[0]);
    assert_int_equal(plm__pool_statistics(kit.pool)->num_alloc_retries, 0);
    kit_end(&kit);
}

static void garbage_goes_in_rounds_until_enough_is_reclaimed(void **state)
{
    (void)state;
    pool_kit kit;
    uint64_t blocks[3];
    begin(&kit, 400 * MIB, "garbage_collection_threshold:0.26,per_process_memory_fraction:1.0");
    make_garbage(&kit, blocks);
    /* 58 MiB are wanted; the first round gives 20, the second, of equal ages, both others. */
    kit_expect(&kit, PLM_EVENT_SEGMENT_FREE, PLM_EVENT_SEGMENT_FREE, PLM_EVENT_SEGMENT_FREE,
               PLM_EVENT_SEGMENT_ALLOC, PLM_EVENT_BLOCK_ALLOC);
    kit_end(&kit);
}

static void only_searches_of_the_default_large_pool_age_garbage(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, 400 * MIB, "garbage_collection_threshold:0.12,per_process_memory_fraction:1.0");
    uint64_t one = kit_take(&kit, 20 * MIB), two = kit_take(&kit, 30 * MIB);
    plm_pool_request aside = {.bytes = 12 * MIB, .private_pool = 1};
    for (int i = 0; i < 20; i++) {
        kit_give(&kit, kit_take(&kit, 512));
        kit_give(&kit, kit_grant(&kit, &aside).address);
        if (i == 0) /* from here on these two are cached, and nothing climbs the ladder */
            kit_give(&kit, one);
    }
    kit_give(&kit, two);
    kit_forget(&kit);
    kit_take(&kit, 60 * MIB); /* both are as old: both go, though the one would be enough */
    kit_expect(&kit, PLM_EVENT_SEGMENT_FREE, PLM_EVENT_SEGMENT_FREE, PLM_EVENT_SEGMENT_ALLOC,
               PLM_EVENT_BLOCK_ALLOC);
    kit_end(&kit);
}

static void without_a_fraction_the_garbage_threshold_does_nothing(void **state)
{
    (void)state;
    pool_kit kit;
    uint64_t blocks[3];
    begin(&kit, 400 * MIB, "garbage_collection_threshold:0.26");
    make_garbage(&kit, blocks);
    kit_expect(&kit, PLM_EVENT_SEGMENT_ALLOC, PLM_EVENT_BLOCK_ALLOC);
    kit_end(&kit);
}

/* ---- expandable segments ---- */

static void the_reference_numbers_of_expandable_segments_come_out(void **state)
{
    (void)state;
    static const size_t mapped[8] = {20, 40, 60, 80, 80, 100, 120, 140};
    pool_kit kit;
    uint64_t blocks[8];
    begin(&kit, GIB, "expandable_segments:True");
    for (int i = 0; i < 8; i++) {
        blocks[i] = kit_take(&kit, 16 * MIB);
        assert_int_equal(kit_reserved(&kit), mapped[i] * MIB);
        assert_int_equal(blocks[i], blocks[0] + (uint64_t)i * 16 * MIB);
    }
    for (int i = 0; i < 8; i++)
        kit_give(&kit, blocks[i]);
    kit_forget(&kit);
    for (int i = 0; i < 4; i++)
        kit_take(&kit, 32 * MIB);
    assert_int_equal(kit_reserved(&kit), 140 * MIB);
    kit_expect(&kit, PLM_EVENT_BLOCK_ALLOC, PLM_EVENT_BLOCK_ALLOC, PLM_EVENT_BLOCK_ALLOC,
               PLM_EVENT_BLOCK_ALLOC);
    assert_int_equal(kit_stat(&kit, PLM_POOL_SEGMENT), 0);
    assert_int_equal(kit_stat(&kit, PLM_POOL_INACTIVE_SPLIT), 0);
    assert_int_equal(plm__pool_statistics(kit.pool)->num_device_alloc, 7);
    kit_end(&kit);
}

static void pages_are_2_mib_small_and_20_mib_large_unless_set(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t small, both;
    } cases[] = {{"expandable_segments:True", 2, 22},
                 {"expandable_segments:True,large_segment_size_mb:12", 2, 14},
                 {"expandable_segments:True,expandable_segments_page_size:4194304", 2, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pool_kit kit;
        begin(&kit, GIB, cases[i].text);
        kit_take(&kit, 512);
        assert_int_equal(kit_reserved(&kit), cases[i].small * MIB);
        kit_take(&kit, 2 * MIB);
        assert_int_equal(kit_reserved(&kit), cases[i].both * MIB);
        assert_int_equal(kit.space.reserved.count, 2);
        /* Nine eighths of the device, in whole pages. */
        assert_true(kit.space.reserved.items[0].bytes >= GIB + GIB / 8);
        kit_end(&kit);
    }
}

static void only_whole_pages_inside_free_blocks_are_unmapped(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "expandable_segments:True");
    uint64_t front = kit_take(&kit, 30 * MIB), middle = kit_take(&kit, 60 * MIB);
    uint64_t back = kit_take(&kit, 30 * MIB);
    assert_int_equal(kit_reserved(&kit), 120 * MIB);
    kit_give(&kit, middle); /* 30 to 90 MiB: the whole pages are 40 to 80 */
    kit_forget(&kit);
    assert_ok(plm__pool_empty_cache(kit.pool));
    kit_check(&kit);
    kit_expect(&kit, PLM_EVENT_SEGMENT_UNMAP);
    assert_int_equal(kit.events[0].address, front + 40 * MIB);
    assert_int_equal(kit.events[0].bytes, 40 * MIB);
    assert_int_equal(kit_reserved(&kit), 80 * MIB);
    kit_forget(&kit);
    assert_int_equal(kit_take(&kit, 45 * MIB), middle); /* mapped again, lowest address first */
    kit_expect(&kit, PLM_EVENT_SEGMENT_MAP, PLM_EVENT_BLOCK_ALLOC);
    assert_int_equal(kit.events[0].bytes, 40 * MIB);
    kit_give(&kit, middle);
    kit_give(&kit, front);
    kit_give(&kit, back);
    assert_ok(plm__pool_empty_cache(kit.pool));
    kit_check(&kit);
    assert_int_equal(kit_reserved(&kit), 0);
    assert_int_equal(kit.space.reserved.count, 0); /* nothing left: the addresses go too */
    kit_end(&kit);
}

static void best_fit_leaves_the_end_that_can_grow_for_last(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "expandable_segments:True");
    uint64_t hole = kit_take(&kit, 18 * MIB);
    kit_take(&kit, 8 * MIB); /* 26 of 40 MiB: 14 MiB free at the end */
    kit_give(&kit, hole);
    assert_int_equal(kit_take(&kit, 10 * MIB), hole); /* though 14 is less than 18 */
    kit_end(&kit);
}

static void blocks_of_expandable_segments_rest_while_the_setting_is_off(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "expandable_segments:True");
    kit_give(&kit, kit_take(&kit, 16 * MIB));
    plm_pool_settings settings = plm__pool_settings_default();
    assert_ok(plm__pool_change_settings(kit.pool, &settings));
    kit_forget(&kit);
    uint64_t plain = kit_take(&kit, 16 * MIB);
    kit_expect(&kit, PLM_EVENT_SEGMENT_ALLOC, PLM_EVENT_BLOCK_ALLOC);
    kit_give(&kit, plain);
    assert_int_equal(kit_take(&kit, 14 * MIB), plain);
    assert_ok(plm__pool_empty_cache(kit.pool));
    kit_end(&kit);
}

static void an_expandable_segment_that_cannot_grow_unmaps_elsewhere_first(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, 100 * MIB, "expandable_segments:True");
    kit_give(&kit, kit_take_on(&kit, 60 * MIB, 1));
    kit_forget(&kit);
    kit_take_on(&kit, 70 * MIB, 2);
    kit_expect(&kit, PLM_EVENT_SEGMENT_UNMAP, PLM_EVENT_SEGMENT_MAP, PLM_EVENT_BLOCK_ALLOC);
    assert_int_equal(plm__pool_statistics(kit.pool)->num_alloc_retries, 1);
    kit_refuse(&kit, &(plm_pool_request){.bytes = 31 * MIB, .stream = 2});
    kit_end(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_given_for_no_bytes),
        cmocka_unit_test(a_request_of_2_to_the_60_is_refused_before_anything_is_tried),
        cmocka_unit_test(a_grant_says_what_the_block_takes),
        cmocka_unit_test(the_smallest_fitting_block_is_taken_and_the_lowest_of_equals),
        cmocka_unit_test(small_blocks_split_down_to_512_large_ones_keep_up_to_1_mib),
        cmocka_unit_test(a_freed_block_merges_with_both_neighbours_but_never_across_segments),
        cmocka_unit_test(the_reference_numbers_without_expandable_segments_come_out),
        cmocka_unit_test(a_large_segment_of_40_mib_is_used_for_2_mib),
        cmocka_unit_test(oversize_blocks_are_neither_split_nor_given_for_less),
        cmocka_unit_test(streams_do_not_share_blocks),
        cmocka_unit_test(a_block_used_by_another_stream_stays_pending_until_that_is_done),
        cmocka_unit_test(a_recorded_stream_is_forgotten_with_the_free),
        cmocka_unit_test(wrong_frees_are_refused),
        cmocka_unit_test(a_private_pool_shares_nothing_and_keeps_its_memory_until_released),
        cmocka_unit_test(the_cache_is_given_back_before_a_request_fails),
        cmocka_unit_test(a_request_that_fits_nowhere_fails_with_the_whole_record),
        cmocka_unit_test(the_largest_that_would_succeed_is_promised_by_the_segment_that_it_needs),
        cmocka_unit_test(a_block_freed_by_the_retry_is_not_searched_for),
        cmocka_unit_test(while_a_graph_is_captured_nothing_is_given_back),
        cmocka_unit_test(a_fraction_refuses_without_asking_the_driver),
        cmocka_unit_test(one_oversize_block_that_covers_the_request_is_released),
        cmocka_unit_test(oversize_blocks_are_released_largest_first_until_they_cover),
        cmocka_unit_test(a_block_of_the_split_size_is_oversize_and_a_smaller_one_is_not),
        cmocka_unit_test(a_request_of_the_split_size_gets_its_block_whole),
        cmocka_unit_test(garbage_is_collected_above_the_threshold_and_not_at_it),
        cmocka_unit_test(old_garbage_goes_before_the_driver_is_asked),
        cmocka_unit_test(garbage_goes_in_rounds_until_enough_is_reclaimed),
        cmocka_unit_test(only_searches_of_the_default_large_pool_age_garbage),
        cmocka_unit_test(without_a_fraction_the_garbage_threshold_does_nothing),
        cmocka_unit_test(the_reference_numbers_of_expandable_segments_come_out),
        cmocka_unit_test(pages_are_2_mib_small_and_20_mib_large_unless_set),
        cmocka_unit_test(only_whole_pages_inside_free_blocks_are_unmapped),
        cmocka_unit_test(best_fit_leaves_the_end_that_can_grow_for_last),
        cmocka_unit_test(blocks_of_expandable_segments_rest_while_the_setting_is_off),
        cmocka_unit_test(an_expandable_segment_that_cannot_grow_unmaps_elsewhere_first),
    };
    return run_test_group(tests);
}
