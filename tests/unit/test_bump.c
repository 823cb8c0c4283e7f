/* SPDX-License-Identifier: MIT */
/* bump: the largest live sum of rounded blocks of a trace. */
#include "pool/bump.h"
#include "unit/test.h"
#include "trace/trace.h"

static plm_status add(plm_trace *trace, plm_event_kind kind, int64_t block, size_t bytes)
{
    int64_t count;
    (void)plm_trace_events(trace, &count);
    return plm__trace_add_event(trace, &(plm_event){.time = count,
                                                    .bytes_asked = bytes,
                                                    .bytes_taken = bytes,
                                                    .block = block,
                                                    .owner = PLM_TRACE_NO_OWNER,
                                                    .kind = (uint16_t)kind});
}

/* Blocks 0 and 1 never meet; 2 outlives all and is never freed. */
static void make_trace(plm_trace **trace)
{
    assert_ok(plm__trace_create(trace));
    assert_ok(add(*trace, PLM_EVENT_BLOCK_ALLOC, 0, 1000));
    assert_ok(add(*trace, PLM_EVENT_BLOCK_FREE_REQUESTED, 0, 1000));
    assert_ok(add(*trace, PLM_EVENT_BLOCK_FREE, 0, 1000));
    assert_ok(add(*trace, PLM_EVENT_BLOCK_ALLOC, 1, 2000));
    assert_ok(add(*trace, PLM_EVENT_BLOCK_ALLOC, 2, 1));
    assert_ok(add(*trace, PLM_EVENT_SEGMENT_ALLOC, -1, 2097152));
    assert_ok(add(*trace, PLM_EVENT_BLOCK_FREE, 1, 2000));
    assert_ok(add(*trace, PLM_EVENT_BLOCK_FREE, 77, 64)); /* born before the recording */
}

static void a_trace_needs_its_largest_live_sum(void **state)
{
    (void)state;
    plm_trace *trace = NULL;
    make_trace(&trace);
    size_t bytes = 0;
    assert_ok(plm__pool_bump(trace, NULL, &bytes));
    assert_int_equal(bytes, 2048 + 512);
    plm_pool_settings settings = plm__pool_settings_default();
    assert_ok(add(trace, PLM_EVENT_BLOCK_ALLOC, 3, 5 * 512));
    settings.divisions[0] = 2; /* over 512 x 2: 2560 rounds to the half way from 2048 to 4096 */
    assert_ok(plm__pool_bump(trace, &settings, &bytes));
    assert_int_equal(bytes, 3072 + 512);
    assert_ok(add(trace, PLM_EVENT_BLOCK_ALLOC, -1, 512));
    assert_int_equal(plm__pool_bump(trace, &settings, &bytes), PLM_ERROR_ARGUMENT);
    plm_trace_destroy(trace);
}

static void an_empty_trace_needs_nothing(void **state)
{
    (void)state;
    plm_trace *trace = NULL;
    assert_ok(plm__trace_create(&trace));
    size_t bytes = 7;
    assert_ok(plm__pool_bump(trace, NULL, &bytes));
    assert_int_equal(bytes, 0);
    plm_trace_destroy(trace);
}

static void every_host_allocation_may_fail(void **state)
{
    (void)state;
    plm_trace *trace = NULL;
    make_trace(&trace);
    for (int64_t n = 1;; n++) {
        size_t bytes = 7;
        plm__host_fail_at(n, false);
        plm_status status = plm__pool_bump(trace, NULL, &bytes);
        bool fired = plm__host_fail_at(0, false);
        assert_int_equal(status, fired ? PLM_ERROR_HOST_MEMORY : PLM_OK);
        assert_int_equal(bytes, fired ? 7 : 2560);
        if (!fired)
            break;
    }
    plm_trace_destroy(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_needs_its_largest_live_sum),
        cmocka_unit_test(an_empty_trace_needs_nothing),
        cmocka_unit_test(every_host_allocation_may_fail),
    };
    return run_test_group(tests);
}
