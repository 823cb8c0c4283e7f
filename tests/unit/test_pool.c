/* SPDX-License-Identifier: MIT */
/* pool: long random runs, states that are shown and taken over, and failures, for all policies. */
#include "pool/pool_internal.h"
#include "torch/alloc_conf.h"
#include "unit/pool_kit.h"

static void begin(pool_kit *kit, size_t capacity, const char *text)
{
    plm_pool_settings settings = plm__pool_settings_default();
    assert_ok(plm__torch_settings_parse(text, &settings));
    kit_begin(kit, PLM_POOL_CACHING, capacity, &settings);
}

/* ---- walks and states ---- */

typedef struct shown_blocks {
    plm_pool_block items[4096];
    int64_t count;
} shown_blocks;

static void show(void *context, const plm_pool_block *block)
{
    shown_blocks *shown = context;
    assert_true(shown->count < 4096);
    shown->items[shown->count++] = *block;
}

typedef struct address_queue {
    const shown_blocks *shown;
    int64_t next;
} address_queue;

/* The address of the next segment of the shown state. */
static bool next_address(void *context, size_t bytes, uint64_t *address)
{
    address_queue *queue = context;
    while (queue->next < queue->shown->count &&
           queue->shown->items[queue->next].address !=
               queue->shown->items[queue->next].segment_address)
        queue->next++;
    if (queue->next >= queue->shown->count)
        return false;
    assert_int_equal(queue->shown->items[queue->next].segment_bytes, bytes);
    *address = queue->shown->items[queue->next++].segment_address;
    return true;
}

typedef struct soak_state {
    pool_kit *kit;
    uint64_t live[128];
    uint64_t pending[128];
    int pending_count;
} soak_state;

/* The best fit by looking at every block, where the simple rule holds; 0 when there is none. */
static uint64_t plain_best_fit(pool_kit *kit, const plm_pool_request *request)
{
    plm_pool_settings settings = kit->pool->settings;
    size_t rounded = plm__pool_round_bytes(&settings, request->bytes);
    static shown_blocks shown;
    shown.count = 0;
    assert_ok(plm__pool_walk(kit->pool, show, &shown));
    const plm_pool_block *best = NULL;
    for (int64_t i = 0; i < shown.count; i++) {
        const plm_pool_block *block = &shown.items[i];
        if (block->state == PLM_POOL_BLOCK_FREE && block->bytes >= rounded &&
            block->stream == request->stream && block->private_pool == request->private_pool &&
            block->is_small == (rounded <= MIB) && (!best || block->bytes < best->bytes))
            best = block;
    }
    bool is_refused = best && (rounded < settings.max_split_bytes
                                   ? best->bytes >= settings.max_split_bytes
                                   : best->bytes - rounded >= settings.max_non_split_bytes);
    return best && !is_refused ? best->address : 0;
}

static void soak_alloc(soak_state *soak, int slot, plm_philox random)
{
    static const size_t scales[] = {KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 40 * MIB};
    plm_pool_request request = {.bytes = 1 + random.word[1] % scales[random.word[2] % 6],
                                .stream = random.word[2] / 6 % 3,
                                .private_pool = random.word[2] / 18 % 8 == 0};
    pool_kit *kit = soak->kit;
    uint64_t wanted = kit->pool->settings.expandable_segments ? 0 : plain_best_fit(kit, &request);
    plm_pool_grant grant = {0};
    plm_status status = plm__pool_alloc(kit->pool, &request, &grant);
    if (wanted)
        assert_int_equal(grant.address, wanted);
    assert_true(status == PLM_OK || status == PLM_ERROR_DEVICE_MEMORY);
    if (status != PLM_OK)
        return;
    soak->live[slot] = grant.address;
    if (random.word[3] % 8 == 0)
        assert_ok(plm__pool_record_stream(kit->pool, grant.address, 7));
}

static void soak_step(soak_state *soak, plm_philox random)
{
    int slot = (int)(random.word[0] % 128);
    pool_kit *kit = soak->kit;
    if (random.word[0] >> 16 < 64) { /* once in a thousand */
        assert_ok(plm__pool_empty_cache(kit->pool));
        soak->pending_count = 0;
    } else if (soak->pending_count > 0 && random.word[3] % 4 == 0) {
        /* A retry may have completed it already. */
        (void)!plm__pool_complete(kit->pool, soak->pending[--soak->pending_count]);
    } else if (soak->live[slot]) {
        bool pending = false;
        assert_ok(plm__pool_free(kit->pool, soak->live[slot], &pending));
        if (pending && soak->pending_count < 128)
            soak->pending[soak->pending_count++] = soak->live[slot];
        soak->live[slot] = 0;
    } else {
        soak_alloc(soak, slot, random);
    }
}

static void a_long_random_run_keeps_every_invariant_and_best_fit(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "",
        "expandable_segments:True",
        "max_split_size_mb:20,roundup_power2_divisions:4",
        "garbage_collection_threshold:0.5,per_process_memory_fraction:0.9",
        "expandable_segments:True,large_segment_size_mb:12,max_split_size_mb:30",
        "large_segment_size_mb:41,max_split_size_mb:20"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        pool_kit kit;
        begin(&kit, 400 * MIB, settings[i]);
        soak_state soak = {.kit = &kit};
        for (uint64_t step = 0; step < 2500; step++) {
            soak_step(&soak, plm__philox_at(i, 1, 0, step));
            kit_check(&kit);
        }
        assert_true(plm__pool_statistics(kit.pool)->num_alloc_retries > 0);
        kit_end(&kit);
    }
}

static void a_state_that_a_walk_shows_can_be_taken_over(void **state)
{
    (void)state;
    for (int is_expandable = 0; is_expandable < 2; is_expandable++) {
        const char *text = is_expandable ? "expandable_segments:True" : "";
        static shown_blocks shown, again;
        pool_kit kit, copy;
        begin(&kit, 400 * MIB, text);
        soak_state soak = {.kit = &kit};
        for (uint64_t step = 0; step < 700; step++)
            soak_step(&soak, plm__philox_at(3, 2, 0, step));
        uint64_t waiting = kit_take(&kit, 5000);
        assert_ok(plm__pool_record_stream(kit.pool, waiting, 7));
        assert_ok(plm__pool_free(kit.pool, waiting, NULL));
        shown.count = again.count = 0;
        assert_ok(plm__pool_walk(kit.pool, show, &shown));
        begin(&copy, 400 * MIB, text);
        address_queue queue = {&shown, 0};
        copy.space.chooser = next_address;
        copy.space.chooser_context = &queue;
        assert_ok(plm__pool_adopt(copy.pool, shown.items, shown.count));
        kit_check(&copy);
        assert_int_equal(copy.event_count, 0);
        assert_ok(plm__pool_walk(copy.pool, show, &again));
        assert_int_equal(again.count, shown.count);
        for (int64_t i = 0; i < shown.count; i++) {
            assert_int_equal(again.items[i].address, shown.items[i].address);
            assert_int_equal(again.items[i].bytes, shown.items[i].bytes);
            assert_int_equal(again.items[i].asked_bytes, shown.items[i].asked_bytes);
            assert_int_equal(again.items[i].state, shown.items[i].state);
        }
        for (int family = 0; family < PLM_POOL_STAT_COUNT; family++)
            assert_int_equal(kit_stat(&copy, family), kit_stat(&kit, family));
        assert_ok(plm__pool_complete(copy.pool, waiting));
        kit_end(&copy);
        kit_end(&kit);
    }
}

static void a_state_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    const plm_pool_block whole = {.segment_address = 2 * MIB,
                                  .segment_bytes = 2 * MIB,
                                  .address = 2 * MIB,
                                  .bytes = 2 * MIB,
                                  .is_small = true};
    plm_pool_block bad[6] = {whole, whole, whole, whole, whole, whole};
    bad[0].bytes = MIB;                        /* does not fill it */
    bad[1].address = 3 * MIB;                  /* does not begin with it */
    bad[2].asked_bytes = 5;                    /* free, yet asked for */
    bad[3].state = PLM_POOL_BLOCK_LIVE;        /* live, yet not asked for */
    bad[4].state = PLM_POOL_BLOCK_UNMAPPED;    /* in a plain segment */
    bad[5].bytes = bad[5].segment_bytes = 100; /* no multiple of 512 */
    pool_kit kit;
    begin(&kit, GIB, "");
    for (int i = 0; i < 6; i++)
        assert_int_equal(plm__pool_adopt(kit.pool, &bad[i], 1), PLM_ERROR_ARGUMENT);
    kit_check(&kit);
    kit_take(&kit, 512);
    assert_int_equal(plm__pool_adopt(kit.pool, &whole, 1), PLM_ERROR_STATE);
    kit_end(&kit);
    begin(&kit, GIB, ""); /* the space gives an address of its own */
    assert_int_equal(plm__pool_adopt(kit.pool, &whole, 1), PLM_ERROR_ARGUMENT);
    plm__pool_destroy(kit.pool);
    plm__space_fini(&kit.space);
}

/* ---- failures ---- */

/* What a pool can do, in few steps. */
static plm_status use_pool(plm_pool *pool)
{
    static const size_t sizes[] = {512, 3 * MIB, 30 * MIB, 700, MIB, 2 * MIB, 45 * MIB};
    uint64_t blocks[7] = {0};
    plm_pool_grant grant;
    for (int i = 0; i < 7; i++) {
        PLM_TRY(plm__pool_alloc(pool, &(plm_pool_request){.bytes = sizes[i]}, &grant));
        blocks[i] = grant.address;
    }
    for (int i = 0; i < 7; i += 2)
        PLM_TRY(plm__pool_free(pool, blocks[i], NULL));
    PLM_TRY(plm__pool_alloc(pool, &(plm_pool_request){.bytes = 60 * MIB, .stream = 1}, &grant));
    PLM_TRY(plm__pool_free(pool, grant.address, NULL));
    for (int i = 0; i < 2000; i++) /* the map and the slab grow */
        PLM_TRY(plm__pool_alloc(pool, &(plm_pool_request){.bytes = 512}, &grant));
    return plm__pool_empty_cache(pool);
}

static plm_status create_and_use(plm_pool_policy policy, plm_space *space,
                                 const plm_pool_settings *settings)
{
    plm_pool *pool = NULL;
    PLM_TRY(plm__pool_create(policy, &space->source, settings, &pool));
    plm_status status = use_pool(pool);
    plm__host_fail_at(0, false);
    if (!plm__pool_is_valid(pool))
        status = PLM_ERROR_STATE;
    plm__pool_destroy(pool);
    return status;
}

/* Counts first, then lets each host allocation fail, once and for good. */
static void sweep(plm_pool_policy policy, const plm_pool_settings *settings, bool persistent)
{
    int64_t before = plm__host_stats_get().alloc_calls;
    plm_space space;
    plm__space_init(&space, 110 * MIB);
    assert_ok(create_and_use(policy, &space, settings));
    plm__space_fini(&space);
    int64_t calls = plm__host_stats_get().alloc_calls - before;
    assert_true(calls > 5);
    for (int64_t n = 1; n <= calls; n++) {
        plm__space_init(&space, 110 * MIB);
        plm__host_fail_at(n, persistent);
        plm_status status = create_and_use(policy, &space, settings);
        plm__host_fail_at(0, false);
        if (status != PLM_ERROR_HOST_MEMORY)
            print_error("host allocation %lld of policy %d\n", (long long)n, (int)policy);
        assert_int_equal(status, PLM_ERROR_HOST_MEMORY);
        assert_int_equal(space.committed_bytes, 0);
        plm__space_fini(&space);
    }
}

static void every_host_allocation_may_fail_and_leaves_the_pool_whole(void **state)
{
    (void)state;
    plm_pool_settings settings = plm__pool_settings_default();
    for (int persistent = 0; persistent < 2; persistent++) {
        settings.expandable_segments = false;
        sweep(PLM_POOL_CACHING, &settings, persistent);
        sweep(PLM_POOL_MAPPED, &settings, persistent);
        settings.expandable_segments = true;
        sweep(PLM_POOL_CACHING, &settings, persistent);
    }
}

/* A source whose n-th call fails, not for want of memory. */
typedef struct broken_source {
    plm_source source;
    plm_space space;
    int64_t calls_left;
} broken_source;

static plm_status break_now(plm_source *source)
{
    broken_source *broken = (broken_source *)source;
    PLM_FAIL_IF(broken->calls_left-- == 0, PLM_ERROR_DEVICE, "the driver is gone");
    return PLM_OK;
}

static plm_status broken_reserve(plm_source *source, size_t bytes, uint64_t *address)
{
    PLM_TRY(break_now(source));
    return plm__source_reserve(&((broken_source *)source)->space.source, bytes, address);
}

static plm_status broken_commit(plm_source *source, uint64_t address, size_t bytes)
{
    PLM_TRY(break_now(source));
    return plm__source_commit(&((broken_source *)source)->space.source, address, bytes);
}

static plm_status broken_decommit(plm_source *source, uint64_t address, size_t bytes)
{
    PLM_TRY(break_now(source));
    return plm__source_decommit(&((broken_source *)source)->space.source, address, bytes);
}

static plm_status broken_release(plm_source *source, uint64_t address, size_t bytes)
{
    return plm__source_release(&((broken_source *)source)->space.source, address, bytes);
}

static plm_status broken_fence(plm_source *source)
{
    return break_now(source);
}

static void a_driver_that_breaks_is_told_apart_from_one_that_is_full(void **state)
{
    (void)state;
    static const plm_source_table table = {broken_reserve, broken_commit, broken_decommit,
                                           broken_release, broken_fence};
    for (int policy = 0; policy < PLM_POOL_POLICY_COUNT; policy++)
        for (int is_expandable = 0; is_expandable < 2; is_expandable++) {
            plm_pool_settings settings = plm__pool_settings_default();
            settings.expandable_segments = is_expandable;
            plm_status status = PLM_ERROR_DEVICE;
            for (int64_t n = 0; status != PLM_OK; n++) {
                broken_source broken = {.calls_left = n};
                plm__space_init(&broken.space, 110 * MIB);
                broken.source = broken.space.source;
                broken.source.table = &table;
                plm_pool *pool = NULL;
                assert_ok(plm__pool_create(policy, &broken.source, &settings, &pool));
                status = use_pool(pool);
                assert_true(status == PLM_OK || status == PLM_ERROR_DEVICE);
                assert_true(plm__pool_is_valid(pool));
                assert_int_equal(plm__pool_statistics(pool)->num_ooms, 0);
                broken.calls_left = INT64_MAX;
                plm__pool_destroy(pool);
                assert_int_equal(broken.space.committed_bytes, 0);
                plm__space_fini(&broken.space);
            }
        }
}

/* Another process holds 40 of 64 MiB: the record promises what is cached and no more. */
static void memory_that_others_hold_is_not_promised(void **state)
{
    (void)state;
    for (int policy = 0; policy < PLM_POOL_POLICY_COUNT; policy++) {
        pool_kit kit;
        kit_begin(&kit, policy, 64 * MIB, NULL);
        uint64_t others = 0;
        assert_ok(plm__source_reserve(&kit.space.source, 40 * MIB, &others));
        assert_ok(plm__source_commit(&kit.space.source, others, 40 * MIB));
        plm_pool_grant grant;
        assert_int_equal(plm__pool_alloc(kit.pool, &(plm_pool_request){.bytes = 30 * MIB}, &grant),
                         PLM_ERROR_DEVICE_MEMORY);
        plm_error error;
        plm_error_get(&error);
        assert_int_equal(error.oom.largest_free_bytes, 0);
        assert_true(plm__pool_is_valid(kit.pool));
        assert_ok(plm__source_decommit(&kit.space.source, others, 40 * MIB));
        assert_ok(plm__source_release(&kit.space.source, others, 40 * MIB));
        kit_take(&kit, 30 * MIB);
        kit_end(&kit);
    }
}

static void a_broken_pool_is_found_out(void **state)
{
    (void)state;
    pool_kit kit;
    begin(&kit, GIB, "");
    uint64_t block = kit_take(&kit, 3 * MIB);
    plm__pool_statistics(kit.pool)->of[PLM_POOL_RESERVED_BYTES][PLM_POOL_ALL].current += 512;
    assert_false(plm__pool_is_valid(kit.pool));
    plm__pool_statistics(kit.pool)->of[PLM_POOL_RESERVED_BYTES][PLM_POOL_ALL].current -= 512;
    plm__block *inner = plm__map_find(&kit.pool->map, block)->block;
    inner->bytes -= 512; /* a hole of 512 bytes */
    assert_false(plm__pool_is_valid(kit.pool));
    plm_error error;
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "pool broken"));
    inner->bytes += 512;
    inner->state = PLM_POOL_BLOCK_FREE; /* free, but on no shelf */
    assert_false(plm__pool_is_valid(kit.pool));
    inner->state = PLM_POOL_BLOCK_LIVE;
    kit_end(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_random_run_keeps_every_invariant_and_best_fit),
        cmocka_unit_test(a_state_that_a_walk_shows_can_be_taken_over),
        cmocka_unit_test(a_state_that_makes_no_sense_is_refused),
        cmocka_unit_test(every_host_allocation_may_fail_and_leaves_the_pool_whole),
        cmocka_unit_test(a_driver_that_breaks_is_told_apart_from_one_that_is_full),
        cmocka_unit_test(memory_that_others_hold_is_not_promised),
        cmocka_unit_test(a_broken_pool_is_found_out),
    };
    return run_test_group(tests);
}
