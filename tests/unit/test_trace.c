/* SPDX-License-Identifier: MIT */
/* Traces written by hand, and what their views must say. */
#include "plimsoll/trace.h"
#include "unit/test.h"
#include "trace/trace.h"

/* A trace under construction: time is the number of events. */
typedef struct tape {
    plm_trace *trace;
    int64_t time;
} tape;

static int32_t owner(tape *t, plm_role role)
{
    plm_owner made = {.role = (int32_t)role, .dtype = -1, .frames = PLM_TRACE_NO_FRAMES};
    int32_t index;
    assert_ok(plm__trace_add_owner(t->trace, &made, &index));
    return index;
}

static void put(tape *t, plm_event_kind kind, int64_t block, int32_t by, size_t bytes)
{
    plm_event event = {.time = t->time++,
                       .bytes_asked = bytes,
                       .bytes_taken = (bytes + 63) / 64 * 64,
                       .block = block,
                       .owner = by,
                       .kind = (uint16_t)kind};
    assert_ok(plm__trace_add_event(t->trace, &event));
}

static void strings_are_interned_once_and_keep_their_text(void **state)
{
    (void)state;
    plm_trace *trace = NULL;
    uint32_t empty, first, again, other, bytes;
    assert_ok(plm__trace_create(&trace));
    assert_ok(plm__trace_intern(trace, "", &empty));
    assert_ok(plm__trace_intern(trace, "block.0", &first));
    const char *text = plm_trace_text(trace, first);
    for (int i = 0; i < 5000; i++) {
        char name[32];
        snprintf(name, sizeof name, "filler %d", i);
        assert_ok(plm__trace_intern(trace, name, &other));
    }
    assert_ok(plm__trace_intern(trace, "block.0", &again));
    assert_ok(plm__trace_intern_bytes(trace, "block.0 and more", 7, &bytes));
    assert_int_equal(empty, 0);
    assert_int_equal(again, first);
    assert_int_equal(bytes, first);
    assert_int_not_equal(other, first);
    assert_ptr_equal(plm_trace_text(trace, first), text); /* it never moves */
    assert_string_equal(text, "block.0");
    assert_string_equal(plm_trace_text(trace, other), "filler 4999");
    plm_trace_destroy(trace);
}

static void the_peak_is_the_first_instant_of_the_largest_sum(void **state)
{
    (void)state;
    tape t = {0};
    assert_ok(plm__trace_create(&t.trace));
    int32_t a = owner(&t, PLM_ROLE_ACTIVATION);
    put(&t, PLM_EVENT_MARK, -1, PLM_TRACE_NO_OWNER, 0);
    put(&t, PLM_EVENT_BLOCK_ALLOC, 0, a, 100);
    put(&t, PLM_EVENT_BLOCK_ALLOC, 1, PLM_TRACE_NO_OWNER, 200); /* 128 + 256: the peak */
    put(&t, PLM_EVENT_BLOCK_FREE_REQUESTED, 1, PLM_TRACE_NO_OWNER, 200);
    put(&t, PLM_EVENT_BLOCK_FREE, 1, PLM_TRACE_NO_OWNER, 200);
    put(&t, PLM_EVENT_SEGMENT_ALLOC, -1, PLM_TRACE_NO_OWNER, 1 << 20);
    put(&t, PLM_EVENT_BLOCK_ALLOC, 2, a, 256); /* the same sum again */
    plm_trace_peak peak = plm_trace_find_peak(t.trace);
    assert_int_equal(peak.event, 2);
    assert_int_equal(peak.time, 2);
    assert_int_equal(peak.bytes_asked, 300);
    assert_int_equal(peak.bytes_taken, 384);
    put(&t, PLM_EVENT_BLOCK_ALLOC, 3, a, 1);
    peak = plm_trace_find_peak(t.trace);
    assert_int_equal(peak.event, 7);
    assert_int_equal(peak.bytes_asked, 357);
    plm_trace_destroy(t.trace);
}

static void an_empty_trace_has_no_peak(void **state)
{
    (void)state;
    tape t = {0};
    size_t largest[PLM_ROLE_COUNT];
    assert_ok(plm__trace_create(&t.trace));
    assert_int_equal(plm_trace_find_peak(t.trace).event, -1);
    put(&t, PLM_EVENT_MARK, -1, PLM_TRACE_NO_OWNER, 0);
    assert_int_equal(plm_trace_find_peak(t.trace).event, -1);
    plm__trace_role_maxima(t.trace, largest);
    for (int role = 0; role < PLM_ROLE_COUNT; role++)
        assert_int_equal(largest[role], 0);
    plm_trace_destroy(t.trace);
}

static void what_lives_at_an_event_is_listed_largest_first(void **state)
{
    (void)state;
    tape t = {0};
    int64_t *live = NULL, count = -1;
    assert_ok(plm__trace_create(&t.trace));
    int32_t a = owner(&t, PLM_ROLE_ACTIVATION);
    put(&t, PLM_EVENT_BLOCK_ALLOC, 5, a, 64);  /* 0 */
    put(&t, PLM_EVENT_BLOCK_ALLOC, 0, a, 10);  /* 1 */
    put(&t, PLM_EVENT_BLOCK_ALLOC, 9, a, 500); /* 2 */
    put(&t, PLM_EVENT_BLOCK_FREE, 0, a, 10);   /* 3 */
    put(&t, PLM_EVENT_BLOCK_ALLOC, 1, a, 64);  /* 4: as large as event 0, born later */
    put(&t, PLM_EVENT_BLOCK_ALLOC, 2, a, 700); /* 5: not yet */
    assert_ok(plm_trace_live_at(t.trace, 4, &live, &count));
    assert_int_equal(count, 3);
    assert_int_equal(live[0], 2);
    assert_int_equal(live[1], 0);
    assert_int_equal(live[2], 4);
    plm_free(live);
    assert_ok(plm_trace_live_at(t.trace, 3, &live, &count)); /* right after a death */
    assert_int_equal(count, 2);
    plm_free(live);
    plm_trace_destroy(t.trace);
}

static void each_role_has_its_maximum_at_its_own_instant(void **state)
{
    (void)state;
    tape t = {0};
    size_t largest[PLM_ROLE_COUNT];
    assert_ok(plm__trace_create(&t.trace));
    int32_t a = owner(&t, PLM_ROLE_ACTIVATION), w = owner(&t, PLM_ROLE_WORKSPACE);
    put(&t, PLM_EVENT_BLOCK_ALLOC, 0, a, 100);
    put(&t, PLM_EVENT_BLOCK_ALLOC, 1, a, 30);
    put(&t, PLM_EVENT_BLOCK_FREE, 0, a, 100);
    put(&t, PLM_EVENT_BLOCK_ALLOC, 2, w, 7);
    put(&t, PLM_EVENT_BLOCK_ALLOC, 3, PLM_TRACE_NO_OWNER, 1000);
    put(&t, PLM_EVENT_BLOCK_ALLOC, 4, w, 9);
    plm__trace_role_maxima(t.trace, largest);
    assert_int_equal(largest[PLM_ROLE_ACTIVATION], 130);
    assert_int_equal(largest[PLM_ROLE_WORKSPACE], 16);
    assert_int_equal(largest[PLM_ROLE_PARAMETER], 0);
    plm_trace_destroy(t.trace);
}

static void owners_and_events_come_back_as_they_were_given(void **state)
{
    (void)state;
    tape t = {0};
    int64_t count;
    assert_ok(plm__trace_create(&t.trace));
    assert_int_equal(owner(&t, PLM_ROLE_CACHE), 0);
    assert_int_equal(owner(&t, PLM_ROLE_CACHE), 1); /* equal owners are not merged */
    put(&t, PLM_EVENT_OUT_OF_MEMORY, -1, 1, 77);
    const plm_owner *owners = plm_trace_owners(t.trace, &count);
    assert_int_equal(count, 2);
    assert_int_equal(owners[1].role, PLM_ROLE_CACHE);
    const plm_event *events = plm_trace_events(t.trace, &count);
    assert_int_equal(count, 1);
    assert_int_equal(events[0].bytes_asked, 77);
    assert_string_equal(plm_event_text((plm_event_kind)events[0].kind), "oom");
    assert_string_equal(plm_event_text(PLM_EVENT_COUNT), "unknown");
    plm_trace_destroy(t.trace);
}

/* The same trace with every call looked at. */
static plm_status write_and_view(void)
{
    plm_trace *trace = NULL;
    plm_owner made = {.role = PLM_ROLE_INPUT};
    plm_event event = {.bytes_asked = 1, .bytes_taken = 64, .kind = PLM_EVENT_BLOCK_ALLOC};
    int64_t *live = NULL, count = 0;
    int32_t index;
    uint32_t id;
    plm_status status = plm__trace_create(&trace);
    if (status == PLM_OK)
        status = plm__trace_intern(trace, "a name", &id);
    for (int i = 0; i < 40 && status == PLM_OK; i++) {
        event.block = i;
        status = plm__trace_add_owner(trace, &made, &index);
        if (status == PLM_OK)
            status = plm__trace_add_event(trace, &event);
    }
    if (status == PLM_OK)
        status = plm_trace_live_at(trace, 39, &live, &count);
    plm_free(live);
    plm_trace_destroy(trace);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int persistent = 0; persistent < 2; persistent++) {
        bool fired = true;
        for (int64_t n = 1; fired; n++) {
            plm__host_fail_at(n, persistent != 0);
            plm_status status = write_and_view();
            fired = plm__host_fail_at(0, false);
            assert_int_equal(status, fired ? PLM_ERROR_HOST_MEMORY : PLM_OK);
            assert_int_equal(plm__host_stats_get().live_count, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_interned_once_and_keep_their_text),
        cmocka_unit_test(the_peak_is_the_first_instant_of_the_largest_sum),
        cmocka_unit_test(an_empty_trace_has_no_peak),
        cmocka_unit_test(what_lives_at_an_event_is_listed_largest_first),
        cmocka_unit_test(each_role_has_its_maximum_at_its_own_instant),
        cmocka_unit_test(owners_and_events_come_back_as_they_were_given),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return run_test_group(tests);
}
