/* SPDX-License-Identifier: MIT */
/* The rank that stands out, and which of its lines hold more, at 2 and 5 per cent. */
#include "unit/history.h"

enum { RANKS = 3 };

/* A rank: the bytes that lines 1, 2, ... of the program hold at its peak. */
typedef struct rank {
    size_t bytes[4];
} rank;

typedef struct asked {
    found ranks[RANKS];
    plm_odd_rank odd;
} asked;

static found rank_of(const rank *like)
{
    history h = {.time = 0};
    for (size_t i = 0; i < 4; i++) {
        if (like->bytes[i] == 0)
            continue;
        history_segment(&h, i * GIB, (like->bytes[i] + 2 * MIB - 1) / (2 * MIB) * (2 * MIB));
        /* Blocks of 512 KiB, and one of what is left: small ones take what they ask for. */
        size_t at = 0;
        for (; at + MIB / 2 <= like->bytes[i]; at += MIB / 2)
            history_take(&h, i * GIB + at, MIB / 2, (int)i + 1);
        if (at < like->bytes[i])
            history_take(&h, i * GIB + at, like->bytes[i] - at, (int)i + 1);
    }
    return history_find(&h, 0);
}

/* Two ranks that are alike, and one. */
static asked ask(rank alike, rank other)
{
    asked it;
    const plm_findings *list[RANKS];
    for (int i = 0; i < RANKS; i++) {
        it.ranks[i] = rank_of(i < 2 ? &alike : &other);
        list[i] = it.ranks[i].findings;
    }
    it.odd = plm_find_odd_rank(list, RANKS);
    return it;
}

static void end(asked it)
{
    for (int i = 0; i < RANKS; i++)
        found_end(it.ranks[i]);
}

static void two_per_cent_from_the_middle_are_odd_and_less_is_not(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        int64_t odd;
    } cases[] = {{102 * MIB, 2}, {102 * MIB - 512, -1}, {98 * MIB, 2}, {98 * MIB + 512, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        asked it = ask((rank){{100 * MIB}}, (rank){{cases[i].bytes}});
        assert_int_equal(it.odd.odd, cases[i].odd);
        if (cases[i].odd >= 0) {
            assert_int_equal(it.odd.odd_bytes, cases[i].bytes);
            assert_int_equal(it.odd.reference_bytes, 100 * MIB);
        }
        end(it);
    }
}

/* Line 1 makes the rank odd; line 2 is compared. */
static void a_line_is_larger_or_smaller_by_more_than_5_per_cent(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        int64_t larger, smaller;
    } cases[] = {
        {21 * MIB, 1, 0}, {21 * MIB + 512, 2, 0}, {19 * MIB, 1, 0}, {19 * MIB - 512, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        asked it = ask((rank){{40 * MIB, 20 * MIB}}, (rank){{80 * MIB, cases[i].bytes}});
        assert_int_equal(it.odd.odd, 2);
        assert_int_equal(it.odd.sites_larger, cases[i].larger);
        assert_int_equal(it.odd.sites_smaller, cases[i].smaller);
        assert_int_equal(it.odd.site_bytes, 80 * MIB);
        assert_true(it.odd.most_factor == 2);
        end(it);
    }
}

static void lines_of_less_than_a_mebibyte_are_not_compared(void **state)
{
    (void)state;
    static const struct {
        size_t bytes, other;
        int64_t larger, smaller;
    } cases[] = {{MIB, 2 * MIB, 2, 0},
                 {MIB - 512, 2 * MIB, 1, 0},
                 {2 * MIB, MIB, 1, 1},
                 {2 * MIB, MIB - 512, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        asked it = ask((rank){{10 * MIB, cases[i].bytes}}, (rank){{20 * MIB, cases[i].other}});
        assert_int_equal(it.odd.odd, 2);
        assert_int_equal(it.odd.sites_larger, cases[i].larger);
        assert_int_equal(it.odd.sites_smaller, cases[i].smaller);
        end(it);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_per_cent_from_the_middle_are_odd_and_less_is_not),
        cmocka_unit_test(a_line_is_larger_or_smaller_by_more_than_5_per_cent),
        cmocka_unit_test(lines_of_less_than_a_mebibyte_are_not_compared),
    };
    return run_test_group(tests);
}
