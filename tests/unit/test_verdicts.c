/* SPDX-License-Identifier: MIT */
/* Verdicts just under and just over each threshold that decides one. */
#include "unit/history.h"

/* ---- failures ------------------------------------------------------------------------------ */

/*
 * 1000 MiB are reserved in one segment and were active at once; 600 are left, in 4 blocks, and 400
 * are free in two pieces of 200. Then a request fails.
 */
static plm_failure fail_in_pieces(size_t asked, size_t device_free, size_t capacity)
{
    static const struct {
        size_t address, bytes;
    } blocks[] = {{0, 200}, {200, 2}, {202, 200}, {402, 598}}; /* MiB */
    history h = {.time = 0};
    history_segment(&h, 0, 1000 * MIB);
    history_take(&h, 0, 1000 * MIB, 0);
    history_give(&h, 0, 1000 * MIB);
    for (int i = 0; i < 4; i++)
        history_take(&h, blocks[i].address * MIB, blocks[i].bytes * MIB, 0);
    for (int i = 0; i < 4; i += 2)
        history_give(&h, blocks[i].address * MIB, blocks[i].bytes * MIB);
    history_fail(&h, asked, device_free);
    found it = history_find(&h, capacity);
    assert_true(it.findings->replayed.is_replayed);
    assert_int_equal(it.findings->failure_count, 1);
    plm_failure failure = it.findings->failures[0];
    assert_int_equal(failure.then.reserved_bytes, 1000 * MIB);
    assert_int_equal(failure.then.active_bytes, 600 * MIB);
    assert_int_equal(failure.then.largest_free_bytes, 200 * MIB);
    assert_int_equal(it.findings->verdict, failure.verdict);
    found_end(it);
    return failure;
}

/* One live block of 100 MiB, the whole of its segment. */
static plm_failure fail_when_full(size_t asked, size_t device_free, size_t capacity)
{
    history h = {.time = 0};
    history_segment(&h, 0, 100 * MIB);
    history_take(&h, 0, 100 * MIB, 0);
    history_fail(&h, asked, device_free);
    found it = history_find(&h, capacity);
    assert_int_equal(it.findings->failure_count, 1);
    plm_failure failure = it.findings->failures[0];
    found_end(it);
    return failure;
}

static void what_was_active_before_fits_and_a_byte_more_is_not_proven_to(void **state)
{
    (void)state;
    plm_failure failure = fail_in_pieces(400 * MIB, 0, 0);
    assert_int_equal(failure.verdict, PLM_VERDICT_FRAGMENTATION);
    assert_non_null(strstr(failure.reason, "the peak of what was in use before"));
    assert_int_equal(fail_in_pieces(400 * MIB + 1, 0, 0).verdict, PLM_VERDICT_CAPACITY);
}

/* Of 1200 MiB, 1140 leave a twentieth. */
static void a_twentieth_of_the_limit_to_spare_is_fragmentation(void **state)
{
    (void)state;
    assert_int_equal(fail_in_pieces(540 * MIB, 200 * MIB, 0).verdict, PLM_VERDICT_FRAGMENTATION);
    plm_failure failure = fail_in_pieces(540 * MIB + 1, 200 * MIB, 0);
    assert_int_equal(failure.verdict, PLM_VERDICT_CAPACITY);
    assert_int_equal(failure.limit_least_bytes, 1200 * MIB);
    assert_int_equal(failure.limit_most_bytes, 1200 * MIB);
    assert_true(failure.wants_capacity);
}

/* What a process holds outside of the allocator is 1 GiB at most. */
static void a_need_that_leaves_less_than_a_gibibyte_is_capacity(void **state)
{
    (void)state;
    const size_t need = 250 * MIB;
    assert_int_equal(fail_when_full(150 * MIB, 100 * MIB, need + GIB).verdict,
                     PLM_VERDICT_OTHER_PROCESS);
    assert_int_equal(fail_when_full(150 * MIB, 100 * MIB, need + GIB - 1).verdict,
                     PLM_VERDICT_CAPACITY);
}

/* Reserved, free and a gibibyte of context are the whole device, or a byte is another's. */
static void another_process_holds_what_this_one_cannot(void **state)
{
    (void)state;
    const size_t ours = 1200 * MIB + GIB;
    assert_int_equal(fail_in_pieces(540 * MIB + 1, 200 * MIB, ours).verdict, PLM_VERDICT_CAPACITY);
    assert_int_equal(fail_in_pieces(540 * MIB + 1, 200 * MIB, ours + 1).verdict,
                     PLM_VERDICT_OTHER_PROCESS);
}

static void a_driver_that_still_had_the_segment_shows_a_limit(void **state)
{
    (void)state;
    plm_failure failure = fail_when_full(150 * MIB, 150 * MIB, 80 * GIB);
    assert_int_equal(failure.verdict, PLM_VERDICT_LIMIT);
    assert_int_equal(failure.limit_least_bytes, 100 * MIB);
    assert_int_equal(failure.limit_most_bytes, 250 * MIB - 1);
    assert_int_equal(fail_when_full(150 * MIB, 150 * MIB - 1, 80 * GIB).verdict,
                     PLM_VERDICT_OTHER_PROCESS);
}

/* A capacity in the range where the limit must lie is the limit. */
static void a_capacity_that_can_be_the_limit_is_it(void **state)
{
    (void)state;
    static const struct {
        size_t capacity, least, most;
    } cases[] = {{100 * MIB - 1, 100 * MIB, 250 * MIB - 1},
                 {100 * MIB, 100 * MIB, 100 * MIB},
                 {250 * MIB - 1, 250 * MIB - 1, 250 * MIB - 1},
                 {250 * MIB, 100 * MIB, 250 * MIB - 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_failure failure = fail_when_full(150 * MIB, 150 * MIB, cases[i].capacity);
        assert_int_equal(failure.limit_least_bytes, cases[i].least);
        assert_int_equal(failure.limit_most_bytes, cases[i].most);
    }
}

static void a_request_larger_than_the_device_is_too_large(void **state)
{
    (void)state;
    assert_int_equal(fail_when_full(80 * GIB, 70 * GIB, 80 * GIB).verdict, PLM_VERDICT_CAPACITY);
    assert_int_equal(fail_when_full(80 * GIB + 1, 70 * GIB, 80 * GIB).verdict,
                     PLM_VERDICT_TOO_LARGE);
    /* Where the device is not known, all that this process saw of it stands for it. */
    assert_int_equal(fail_when_full(200 * MIB, 100 * MIB, 0).verdict, PLM_VERDICT_CAPACITY);
    assert_int_equal(fail_when_full(200 * MIB + 1, 100 * MIB, 0).verdict, PLM_VERDICT_TOO_LARGE);
}

static void sixteen_failures_are_looked_into(void **state)
{
    (void)state;
    for (int count = PLM_FAILURES_MAX - 1; count <= PLM_FAILURES_MAX + 1; count++) {
        history h = {.time = 0};
        history_segment(&h, 0, 100 * MIB);
        history_take(&h, 0, 100 * MIB, 0);
        for (int i = 0; i < count; i++)
            history_fail(&h, 150 * MIB, 0);
        found it = history_find(&h, 0);
        assert_int_equal(it.findings->failure_count, count < 16 ? count : 16);
        found_end(it);
    }
}

/* ---- without a failure ---------------------------------------------------------------------- */

/* 100 MiB are cached when the peak of 200 MiB, but for so many bytes, needs 200 MiB of its own. */
static plm_verdict waste(size_t missing)
{
    history h = {.time = 0};
    history_segment(&h, 0, 100 * MIB);
    history_take(&h, 0, 100 * MIB, 0);
    history_give(&h, 0, 100 * MIB);
    history_segment(&h, GIB, 196 * MIB);
    history_take(&h, GIB, 196 * MIB, 0);
    for (size_t i = 0; i < 4; i++) { /* small blocks: large ones take the rest of a segment too */
        if (i % 2 == 0)
            history_segment(&h, 2 * GIB + i * MIB, 2 * MIB);
        history_take(&h, 2 * GIB + i * MIB, i < 3 ? MIB : MIB - missing, 0);
    }
    found it = history_find(&h, 0);
    assert_int_equal(it.findings->replayed.reserved_peak_bytes, 300 * MIB);
    assert_int_equal(it.findings->allocated_peak_bytes, 200 * MIB - missing);
    plm_verdict verdict = it.findings->verdict;
    found_end(it);
    return verdict;
}

static void half_as_much_again_reserved_is_no_waste_and_a_block_more_is(void **state)
{
    (void)state;
    assert_int_equal(waste(0), PLM_VERDICT_NONE);
    assert_int_equal(waste(512), PLM_VERDICT_FRAGMENTATION);
}

/* A state without a history: of 100 MiB so many bytes wait for a stream. */
static plm_verdict waiting(size_t bytes)
{
    char text[512];
    snprintf(text, sizeof text,
             "{\"segments\":[{\"device\":0,\"address\":2097152,\"total_size\":104857600,"
             "\"segment_type\":\"large\",\"blocks\":[{\"address\":2097152,\"size\":%zu,"
             "\"requested_size\":%zu,\"state\":\"active_pending_free\"},{\"address\":%zu,"
             "\"size\":%zu,\"requested_size\":%zu,\"state\":\"active_allocated\"}]}],"
             "\"device_traces\":[[]]}",
             bytes, bytes, 2097152 + bytes, 104857600 - bytes, 104857600 - bytes);
    found it = found_in(read_json(text), 0);
    plm_verdict verdict = it.findings->verdict;
    found_end(it);
    return verdict;
}

static void a_tenth_of_what_is_reserved_in_waiting_blocks_decides(void **state)
{
    (void)state;
    assert_int_equal(waiting(10 * MIB), PLM_VERDICT_WAITS);
    assert_int_equal(waiting(10 * MIB - 512), PLM_VERDICT_NO_HISTORY);
}

/* `rest` bytes and `small` blocks of 512 live all the time, 20 MiB for one event of many. */
static found spike(size_t rest, size_t small)
{
    history h = {.time = 0};
    history_segment(&h, 0, rest);
    history_take(&h, 0, rest, 0);
    history_segment(&h, GIB, 2 * MIB);
    for (size_t i = 0; i < small; i++)
        history_take(&h, GIB + 512 * i, 512, 0);
    history_segment(&h, 2 * GIB, 20 * MIB);
    history_take(&h, 2 * GIB, 20 * MIB, 0);
    history_give(&h, 2 * GIB, 20 * MIB);
    for (int i = 0; i < 20; i++)
        history_pass(&h);
    return history_find(&h, 0);
}

static void a_fifth_of_the_peak_in_one_short_block_is_the_verdict(void **state)
{
    (void)state;
    found it = spike(80 * MIB, 0);
    assert_int_equal(it.findings->verdict, PLM_VERDICT_SPIKE);
    found_end(it);
    it = spike(80 * MIB, 1);
    assert_int_equal(it.findings->spike_count, 1);
    assert_int_equal(it.findings->verdict, PLM_VERDICT_NONE);
    found_end(it);
}

/* In thousandths of the peak, rounded down: 1024 bytes more make one more. */
static void a_twentieth_of_the_peak_is_a_spike_and_less_is_none(void **state)
{
    (void)state;
    found it = spike(380 * MIB, 0);
    assert_int_equal(it.findings->spike_count, 1);
    found_end(it);
    it = spike(380 * MIB, 2);
    assert_int_equal(it.findings->spike_count, 0);
    found_end(it);
}

/* 6 events of 24 are a quarter, of 23 they are more. */
static void a_short_life_is_a_quarter_of_the_trace(void **state)
{
    (void)state;
    for (int events = 23; events <= 24; events++) {
        history h = {.time = 0};
        history_take(&h, 0, 20 * MIB, 0);
        for (int i = 1; i < 6; i++)
            history_pass(&h);
        history_give(&h, 0, 20 * MIB);
        for (int i = 7; i < events; i++)
            history_pass(&h);
        found it = history_find(&h, 0);
        assert_int_equal(it.findings->spike_count, events == 24);
        found_end(it);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_active_before_fits_and_a_byte_more_is_not_proven_to),
        cmocka_unit_test(a_twentieth_of_the_limit_to_spare_is_fragmentation),
        cmocka_unit_test(a_need_that_leaves_less_than_a_gibibyte_is_capacity),
        cmocka_unit_test(another_process_holds_what_this_one_cannot),
        cmocka_unit_test(a_driver_that_still_had_the_segment_shows_a_limit),
        cmocka_unit_test(a_capacity_that_can_be_the_limit_is_it),
        cmocka_unit_test(a_request_larger_than_the_device_is_too_large),
        cmocka_unit_test(sixteen_failures_are_looked_into),
        cmocka_unit_test(half_as_much_again_reserved_is_no_waste_and_a_block_more_is),
        cmocka_unit_test(a_tenth_of_what_is_reserved_in_waiting_blocks_decides),
        cmocka_unit_test(a_fifth_of_the_peak_in_one_short_block_is_the_verdict),
        cmocka_unit_test(a_twentieth_of_the_peak_is_a_spike_and_less_is_none),
        cmocka_unit_test(a_short_life_is_a_quarter_of_the_trace),
    };
    return run_test_group(tests);
}
