/* SPDX-License-Identifier: MIT */
/* Leaks and the steps they are told by, just under and just over each threshold. */
#include "unit/history.h"

/* What is kept, and where; what comes and goes lies at 0. */
enum { KEPT_BYTES = 512 };

static const size_t kept_at = GIB;

/* Steps that keep `kept[i]` blocks of 512 bytes each, 0 beyond the `listed`; a block of `passing`
 * bytes comes and goes in each. */
static found run_of(int steps, const int *kept, int listed, size_t passing)
{
    history h = {.time = 0};
    size_t count = 0;
    for (int step = 0; step < steps; step++) {
        history_take(&h, 0, passing, 0);
        history_give(&h, 0, passing);
        for (int i = 0; i < (step < listed ? kept[step] : kept[listed - 1]); i++)
            history_take(&h, kept_at + KEPT_BYTES * count++, KEPT_BYTES, 0);
        history_step(&h);
    }
    return history_find(&h, 0);
}

static const int one_each = 1;

static void eight_steps_of_growth_are_a_leak_and_seven_prove_nothing(void **state)
{
    (void)state;
    found it = run_of(9, &one_each, 1, 4096);
    assert_int_equal(it.findings->step_source, PLM_STEPS_OPTIMIZER);
    assert_int_equal(it.findings->leak_count, 1);
    assert_int_equal(it.findings->leaks[0].steps, 8);
    assert_int_equal(it.findings->leaks[0].bytes_a_step, KEPT_BYTES);
    found_end(it);
    it = run_of(8, &one_each, 1, 4096);
    assert_int_equal(it.findings->leak_count, 0);
    found_end(it);
}

/* Eight steps keep 4096 bytes; at the peak the last step's block lives beside them. The peak counts
 * in whole thousands of bytes. */
static void a_thousandth_of_the_peak_is_a_leak_and_less_is_none(void **state)
{
    (void)state;
    found it = run_of(9, &one_each, 1, 4096 * 1000 + 512 - 4096);
    assert_int_equal(it.findings->replayed.allocated_peak_bytes, 4096512);
    assert_int_equal(it.findings->leak_count, 1);
    found_end(it);
    it = run_of(9, &one_each, 1, 4096 * 1000 + 1024 - 4096);
    assert_int_equal(it.findings->replayed.allocated_peak_bytes, 4097024);
    assert_int_equal(it.findings->leak_count, 0);
    found_end(it);
}

/* Quarters of two steps each; what the first step keeps is the beginning. */
static void growth_in_each_quarter_is_at_least_a_quarter_of_that_in_another(void **state)
{
    (void)state;
    static const struct {
        int kept[9];
        int64_t leaks;
    } cases[] = {{{1, 2, 2, 2, 2, 2, 2, 1, 0}, 1},  /* 4 4 4 1 */
                 {{1, 3, 2, 2, 2, 2, 2, 1, 0}, 0},  /* 5 4 4 1 */
                 {{1, 2, 2, 1, 1, 1, 0, 2, 2}, 1},  /* 4 2 1 4 */
                 {{1, 2, 2, 1, 1, 0, 0, 2, 2}, 0}}; /* 4 2 0 4 */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        found it = run_of(9, cases[i].kept, 9, 4096);
        assert_int_equal(it.findings->leak_count, cases[i].leaks);
        found_end(it);
    }
}

/* Of 64 steps every one is looked at, so that the one with which growth begins is known. */
static void the_beginning_of_a_leak_is_known_to_the_step_among_64(void **state)
{
    (void)state;
    for (int since = 1; since <= 50; since += 7) {
        int kept[64];
        for (int i = 0; i < 64; i++)
            kept[i] = i > since;
        found it = run_of(64, kept, 64, 4096);
        assert_int_equal(it.findings->leak_count, 1);
        assert_int_equal(it.findings->leaks[0].since_step, since);
        assert_int_equal(it.findings->leaks[0].steps, 63 - since);
        found_end(it);
    }
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void four_steps_of_an_optimizer_are_steps_and_three_are_none(void **state)
{
    (void)state;
    for (int steps = 3; steps <= 4; steps++) {
        history h = {.time = 0};
        for (int i = 0; i < steps; i++) {
            history_take(&h, (size_t)i << 20, 512 * ((size_t)i + 1), 0); /* no period */
            history_step(&h);
        }
        found it = history_find(&h, 0);
        assert_int_equal(it.findings->step_count, steps == 4 ? 4 : 0);
        assert_int_equal(it.findings->step_source,
                         steps == 4 ? PLM_STEPS_OPTIMIZER : PLM_STEPS_NONE);
        found_end(it);
    }
}

/* One block of 4096 bytes at each of these distances in events, and `behind` more events. */
static found periodic(const int *distances, int count, int behind)
{
    history h = {.time = 0};
    for (int i = 0; i <= count; i++) {
        history_take(&h, (size_t)i << 20, 4096, 0);
        for (int k = 1; k < (i < count ? distances[i] : behind + 1); k++)
            history_pass(&h);
    }
    return history_find(&h, 0);
}

static void four_requests_at_even_distances_are_a_period_and_three_are_none(void **state)
{
    (void)state;
    static const int even[] = {10, 10, 10};
    found it = periodic(even, 3, 0);
    assert_int_equal(it.findings->step_source, PLM_STEPS_PERIOD);
    assert_int_equal(it.findings->step_count, 4);
    found_end(it);
    it = periodic(even, 2, 0);
    assert_int_equal(it.findings->step_source, PLM_STEPS_NONE);
    found_end(it);
}

static void distances_that_differ_by_more_than_15_per_cent_are_no_period(void **state)
{
    (void)state;
    static const int by_15[] = {23, 17, 23, 17}, by_16[] = {29, 21, 29, 21};
    found it = periodic(by_15, 4, 0);
    assert_int_equal(it.findings->step_count, 5);
    found_end(it);
    it = periodic(by_16, 4, 0);
    assert_int_equal(it.findings->step_count, 0);
    found_end(it);
}

/* 30 events from the first to the last request are half of 60, not of 61. */
static void a_period_spans_half_of_the_trace(void **state)
{
    (void)state;
    static const int even[] = {10, 10, 10};
    found it = periodic(even, 3, 29);
    assert_int_equal(it.findings->step_count, 4);
    found_end(it);
    it = periodic(even, 3, 30);
    assert_int_equal(it.findings->step_count, 0);
    found_end(it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_steps_of_growth_are_a_leak_and_seven_prove_nothing),
        cmocka_unit_test(a_thousandth_of_the_peak_is_a_leak_and_less_is_none),
        cmocka_unit_test(growth_in_each_quarter_is_at_least_a_quarter_of_that_in_another),
        cmocka_unit_test(the_beginning_of_a_leak_is_known_to_the_step_among_64),
        cmocka_unit_test(four_steps_of_an_optimizer_are_steps_and_three_are_none),
        cmocka_unit_test(four_requests_at_even_distances_are_a_period_and_three_are_none),
        cmocka_unit_test(distances_that_differ_by_more_than_15_per_cent_are_no_period),
        cmocka_unit_test(a_period_spans_half_of_the_trace),
    };
    return run_test_group(tests);
}
