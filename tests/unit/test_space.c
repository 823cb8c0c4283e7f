/* SPDX-License-Identifier: MIT */
/* space: the abstract address space keeps the contract of a memory source. */
#include "pool/space.h"
#include "unit/test.h"

#define PAGE ((size_t)2 << 20)

static void a_commit_beyond_the_capacity_is_refused_whole(void **state)
{
    (void)state;
    plm_space space;
    plm__space_init(&space, 4 * PAGE);
    uint64_t address = 0;
    assert_ok(plm__source_reserve(&space.source, 100 * PAGE, &address));
    assert_ok(plm__source_commit(&space.source, address, 3 * PAGE));
    assert_int_equal(plm__source_commit(&space.source, address + 8 * PAGE, 2 * PAGE),
                     PLM_ERROR_DEVICE_MEMORY);
    plm_error error;
    plm_error_get(&error);
    assert_int_equal(error.oom.asked_bytes, 2 * PAGE);
    assert_int_equal(error.oom.reserved_bytes, 3 * PAGE);
    assert_int_equal(error.oom.budget_bytes, 4 * PAGE);
    assert_int_equal(error.oom.largest_free_bytes, PAGE);
    assert_int_equal(space.committed_bytes, 3 * PAGE);
    assert_ok(plm__source_commit(&space.source, address + 8 * PAGE, PAGE));
    assert_ok(plm__source_decommit(&space.source, address, 3 * PAGE));
    assert_int_equal(space.committed_bytes, PAGE);
    assert_int_equal(space.committed_peak_bytes, 4 * PAGE);
    assert_int_equal(space.commit_calls, 3);
    plm__space_fini(&space);
}

static void memory_is_taken_away_from_the_middle(void **state)
{
    (void)state;
    plm_space space;
    plm__space_init(&space, 100 * PAGE);
    uint64_t address = 0;
    assert_ok(plm__source_reserve(&space.source, 10 * PAGE, &address));
    assert_ok(plm__source_commit(&space.source, address, 5 * PAGE));
    assert_ok(plm__source_commit(&space.source, address + 5 * PAGE, 5 * PAGE));
    assert_int_equal(space.committed.count, 1);
    assert_ok(plm__source_decommit(&space.source, address + 2 * PAGE, 3 * PAGE));
    assert_int_equal(space.committed.count, 2);
    assert_ok(plm__source_commit(&space.source, address + 2 * PAGE, 3 * PAGE));
    assert_int_equal(space.committed.count, 1);
    assert_ok(plm__source_decommit(&space.source, address, 10 * PAGE));
    assert_ok(plm__source_release(&space.source, address, 10 * PAGE));
    assert_int_equal(space.reserved.count, 0);
    plm__space_fini(&space);
}

static bool choose(void *context, size_t bytes, uint64_t *address)
{
    (void)bytes;
    uint64_t *next = context;
    *address = *next;
    return *next != 0;
}

static void the_caller_may_choose_addresses_that_are_free(void **state)
{
    (void)state;
    plm_space space;
    plm__space_init(&space, 100 * PAGE);
    uint64_t chosen = 0x7f0000000000, address = 0;
    space.chooser = choose;
    space.chooser_context = &chosen;
    assert_ok(plm__source_reserve(&space.source, 4 * PAGE, &address));
    assert_int_equal(address, chosen);
    chosen += 3 * PAGE;
    assert_int_equal(plm__source_reserve(&space.source, PAGE, &address), PLM_ERROR_ARGUMENT);
    chosen -= 4 * PAGE;
    assert_int_equal(plm__source_reserve(&space.source, 2 * PAGE, &address), PLM_ERROR_ARGUMENT);
    assert_ok(plm__source_reserve(&space.source, PAGE, &address));
    chosen = 0; /* the space's own again */
    assert_ok(plm__source_reserve(&space.source, PAGE, &address));
    assert_int_not_equal(address, 0);
    assert_int_equal(space.reserved.count, 3);
    plm__space_fini(&space);
}

static plm_status use_whole(plm_space *space)
{
    uint64_t one = 0, two = 0;
    PLM_TRY(plm__source_reserve(&space->source, 8 * PAGE, &one));
    PLM_TRY(plm__source_reserve(&space->source, 8 * PAGE, &two));
    PLM_TRY(plm__source_commit(&space->source, one, 8 * PAGE));
    PLM_TRY(plm__source_commit(&space->source, two, 8 * PAGE));
    for (size_t i = 1; i < 8; i += 2)
        PLM_TRY(plm__source_decommit(&space->source, one + i * PAGE, PAGE));
    return plm__source_fence(&space->source);
}

static void every_host_allocation_may_fail(void **state)
{
    (void)state;
    for (int64_t n = 1;; n++) {
        plm_space space;
        plm__space_init(&space, 100 * PAGE);
        plm__host_fail_at(n, false);
        plm_status status = use_whole(&space);
        bool fired = plm__host_fail_at(0, false);
        assert_int_equal(status, fired ? PLM_ERROR_HOST_MEMORY : PLM_OK);
        plm__space_fini(&space);
        if (!fired)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_beyond_the_capacity_is_refused_whole),
        cmocka_unit_test(memory_is_taken_away_from_the_middle),
        cmocka_unit_test(the_caller_may_choose_addresses_that_are_free),
        cmocka_unit_test(every_host_allocation_may_fail),
    };
    return run_test_group(tests);
}
