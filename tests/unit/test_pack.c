/* SPDX-License-Identifier: MIT */
/* pack: every packing is checked byte for byte, and held against the bound. */
#include "unit/test.h"

#include "unit/gpt_items.h"

enum { RANDOM_MAX = 400, TINY_MAX = 10 };

static const size_t granule = PLM_GRANULE_BYTES;

/* Packs, checks, and gives the total and the bound. */
static void pack_and_check(const plm_pack_item *items, int64_t count, size_t *total, size_t *bound)
{
    size_t *offsets = NULL;
    assert_ok(plm__host_alloc(((size_t)count + 1) * sizeof *offsets, &offsets));
    assert_ok(plm__pack(items, count, offsets, total));
    assert_true(plm__pack_is_valid(items, count, offsets, *total));
    assert_ok(plm__pack_bound(items, count, bound, NULL));
    assert_true(*total >= *bound);
    plm__host_free(offsets);
}

/* `number` draws from [0, below). */
static uint32_t draw(uint32_t seed, uint32_t site, uint64_t index, uint32_t below)
{
    return plm__philox_at(seed, 0, site, index).word[0] % below;
}

static void make_random(uint32_t seed, int64_t count, uint32_t instants, uint32_t longest,
                        plm_pack_item *items)
{
    for (int64_t i = 0; i < count; i++) {
        items[i].birth = (int32_t)draw(seed, 0, (uint64_t)i, instants);
        items[i].death = items[i].birth + (int32_t)draw(seed, 1, (uint64_t)i, longest);
        items[i].bytes = granule * draw(seed, 2, (uint64_t)i, 1000);
    }
}

static void the_bound_is_the_largest_live_sum_and_its_first_instant(void **state)
{
    (void)state;
    const plm_pack_item items[] = {
        {9, 9, 3 * granule}, {2, 5, 2 * granule}, {5, 7, granule}, {6, 6, 2 * granule}, {0, 1, 64}};
    size_t bound = 0;
    int32_t instant = -1;
    assert_ok(plm__pack_bound(items, 5, &bound, &instant));
    assert_int_equal(bound, 3 * granule);
    assert_int_equal(instant, 5);
    assert_ok(plm__pack_bound(items, 5, &bound, NULL));
    assert_ok(plm__pack_bound(NULL, 0, &bound, &instant));
    assert_int_equal(bound, 0);
    assert_int_equal(instant, 0);
}

static void death_is_included_in_a_lifetime(void **state)
{
    (void)state;
    plm_pack_item items[] = {{0, 4, granule}, {4, 8, granule}};
    size_t total, bound;
    pack_and_check(items, 2, &total, &bound);
    assert_int_equal(total, 2 * granule);
    items[1].birth = 5;
    pack_and_check(items, 2, &total, &bound);
    assert_int_equal(total, granule);
}

static void the_check_finds_wrong_packings(void **state)
{
    (void)state;
    const plm_pack_item items[] = {{0, 4, 2 * granule}, {4, 8, granule}, {0, 8, 0}};
    assert_true(plm__pack_is_valid(items, 3, (size_t[]){0, 2 * granule, 0}, 3 * granule));
    assert_false(plm__pack_is_valid(items, 3, (size_t[]){0, granule, 0}, 2 * granule));
    assert_false(plm__pack_is_valid(items, 3, (size_t[]){0, 2 * granule, 0}, 2 * granule));
    assert_false(plm__pack_is_valid(items, 3, (size_t[]){0, 2 * granule, 0}, 4 * granule));
    assert_false(
        plm__pack_is_valid(items, 3, (size_t[]){32, 2 * granule + 32, 0}, 3 * granule + 32));
    assert_false(plm__pack_is_valid(items, 2, (size_t[]){0, SIZE_MAX - 63}, 2 * granule));
}

static void items_without_bytes_lie_at_offset_zero(void **state)
{
    (void)state;
    const plm_pack_item items[] = {{0, 9, 0}, {3, 4, granule}, {1, 9, 0}, {4, 5, granule}};
    size_t offsets[4] = {7, 7, 7, 7}, total = 7;
    assert_ok(plm__pack(items, 4, offsets, &total));
    assert_int_equal(offsets[0], 0);
    assert_int_equal(offsets[2], 0);
    assert_int_equal(total, 2 * granule);
    assert_ok(plm__pack(items, 1, offsets, &total));
    assert_int_equal(total, 0);
    assert_ok(plm__pack(NULL, 0, NULL, &total));
    assert_int_equal(total, 0);
}

static void nested_stacks_reach_the_bound(void **state)
{
    (void)state;
    plm_pack_item items[RANDOM_MAX];
    for (uint32_t seed = 0; seed < 20; seed++) {
        for (int32_t i = 0; i < RANDOM_MAX; i++) /* two hills, the second inside the first's foot */
            items[i] = (plm_pack_item){i, (i < 200 ? 2000 : 1000) - i,
                                       granule * draw(seed, 0, (uint64_t)i, 5000)};
        size_t total, bound;
        pack_and_check(items, RANDOM_MAX, &total, &bound);
        assert_int_equal(total, bound);
    }
}

static void random_items_never_overlap(void **state)
{
    (void)state;
    static const uint32_t longest[] = {1, 2, 5, 30, 200};
    plm_pack_item items[RANDOM_MAX];
    for (uint32_t seed = 0; seed < 40; seed++) {
        size_t total, bound;
        make_random(seed, RANDOM_MAX, 200, longest[seed % 5], items);
        pack_and_check(items, RANDOM_MAX, &total, &bound);
        assert_true((double)total <= 1.10 * (double)bound);
    }
}

static void crowds_too_large_to_search_are_still_packed(void **state)
{
    (void)state;
    enum { CROWD = 2600 }; /* all meet: more pairs than are listed */
    plm_pack_item *items = NULL;
    assert_ok(plm__host_alloc(CROWD * sizeof *items, &items));
    make_random(1, CROWD, 3000, 10, items);
    for (int i = 0; i < CROWD; i++)
        items[i].death = 3000 + items[i].death % 17;
    size_t total, bound;
    pack_and_check(items, CROWD, &total, &bound);
    assert_true((double)total <= 1.10 * (double)bound);
    plm__host_free(items);
}

/* Whether items i and on fit below `limit` beside the placed ones: every place is tried. */
static bool can_fit(const plm_pack_item *items, int count, int i, size_t limit, size_t *offsets)
{
    if (i == count)
        return true;
    for (offsets[i] = 0; offsets[i] + items[i].bytes <= limit; offsets[i] += granule) {
        bool is_free = true;
        for (int j = 0; j < i && is_free; j++)
            is_free = items[i].birth > items[j].death || items[j].birth > items[i].death ||
                      offsets[i] >= offsets[j] + items[j].bytes ||
                      offsets[j] >= offsets[i] + items[i].bytes;
        if (is_free && can_fit(items, count, i + 1, limit, offsets))
            return true;
    }
    return false;
}

/* Packs, and compares with the least limit that a search of all packings finds. */
static bool check_optimal(const plm_pack_item *items, int count)
{
    size_t total, bound, offsets[TINY_MAX];
    pack_and_check(items, count, &total, &bound);
    size_t least = bound;
    while (!can_fit(items, count, 0, least, offsets))
        least += granule;
    assert_int_equal(total, least);
    return least > bound;
}

static void tiny_random_packings_are_optimal(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 300; seed++) {
        plm_pack_item items[6];
        int count = 1 + (int)(seed % 6);
        make_random(seed, count, 6, 4, items);
        for (int i = 0; i < count; i++)
            items[i].bytes %= 7 * granule;
        check_optimal(items, count);
    }
}

/* Items such that `height` granules live at every one of `instants`; gives their count. */
static int make_full(uint32_t seed, uint32_t height, int32_t instants, plm_pack_item *items)
{
    int count = 0;
    uint64_t draws = 0;
    uint32_t live = 0;
    for (int32_t now = 0; now < instants; now++) {
        for (int i = 0; i < count; i++)
            if (items[i].death == instants - 1 && items[i].birth < now &&
                draw(seed, 0, draws++, 2)) {
                items[i].death = now - 1;
                live -= (uint32_t)(items[i].bytes / granule);
            }
        while (live < height) {
            uint32_t room = height - live,
                     granules = 1 + draw(seed, 1, draws++, room < 3 ? room : 3);
            items[count++] = (plm_pack_item){now, instants - 1, granules * granule};
            live += granules;
        }
    }
    return count;
}

/* With the bound met at every instant there is no slack; some optima lie above the bound. */
static void tiny_packings_without_slack_are_optimal(void **state)
{
    (void)state;
    int above_bound = 0, tried = 0;
    for (uint32_t seed = 0; seed < 20000; seed++) {
        plm_pack_item items[6 * 6];
        int count = make_full(seed, 5, 6, items);
        if (count > TINY_MAX)
            continue;
        above_bound += check_optimal(items, count);
        tried++;
    }
    print_message("%d of %d optima lie above the bound\n", above_bound, tried);
    assert_true(above_bound > 0);
}

/* The smallest of them that a search has found: 8 items, bound 4, optimum 5. */
static int make_gap(size_t unit, plm_pack_item *items)
{
    static const int8_t rows[8][3] = {{0, 1, 2}, {0, 0, 2}, {1, 3, 1}, {1, 2, 1},
                                      {2, 3, 1}, {2, 2, 1}, {3, 4, 2}, {4, 4, 2}};
    for (int i = 0; i < 8; i++)
        items[i] = (plm_pack_item){rows[i][0], rows[i][1], (size_t)rows[i][2] * unit};
    return 8;
}

static void the_bound_is_not_always_within_reach(void **state)
{
    (void)state;
    plm_pack_item items[8];
    assert_true(check_optimal(items, make_gap(granule, items)));
}

static void a_packing_above_the_largest_size_is_refused_though_the_bound_fits(void **state)
{
    (void)state;
    plm_pack_item items[8];
    size_t offsets[8], total = 7, bound;
    int count = make_gap(SIZE_MAX / 4 / granule * granule, items);
    assert_ok(plm__pack_bound(items, count, &bound, NULL));
    assert_int_equal(plm__pack(items, count, offsets, &total), PLM_ERROR_OVERFLOW);
    assert_int_equal(total, 7);
}

static void check_gpt(const gpt_shape *shape)
{
    plm_pack_item *items = NULL;
    gpt_kept *kept = NULL;
    assert_ok(plm__host_alloc((size_t)gpt_items_max(shape) * sizeof *items, &items));
    assert_ok(plm__host_alloc((size_t)shape->layers * sizeof *kept, &kept));
    int64_t count = gpt_make_items(shape, items, kept);
    assert_true(count <= gpt_items_max(shape));
    size_t total, bound;
    pack_and_check(items, count, &total, &bound);
    if (total != bound)
        print_error("%d layers, batch %d, width %d, vocabulary %d, seed %u, plain %d, in place %d, "
                    "recompute %d, weights first %d: %zu over the bound %zu\n",
                    shape->layers, shape->batch, shape->width, shape->vocabulary, shape->work_seed,
                    shape->plain, shape->in_place, shape->recompute, shape->weights_first,
                    total - bound, bound);
    assert_int_equal(total, bound);
    plm__host_free(items);
    plm__host_free(kept);
}

static void check_gpt_variants(gpt_shape shape)
{
    for (unsigned variant = 0; variant < 16; variant++) {
        shape.plain = variant & 1;
        shape.in_place = variant & 2;
        shape.recompute = variant & 4;
        shape.weights_first = variant & 8;
        shape.head_chunks = 1 + (int)(shape.work_seed + variant) % 2 * 7;
        check_gpt(&shape);
    }
}

static void gpt_steps_reach_the_bound(void **state)
{
    (void)state;
    static const int layers[] = {2, 6, 12, 24};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int batch = 1; batch <= 32; batch *= 4)
            for (int wide = 0; wide < 2; wide++)
                check_gpt_variants((gpt_shape){.layers = layers[i],
                                               .batch = batch,
                                               .tokens = 1024,
                                               .width = wide ? 1600 : 768,
                                               .heads = wide ? 25 : 12,
                                               .vocabulary = batch > 4 ? 65 : 50257,
                                               .element_bytes = wide ? 2 : 4,
                                               .work_seed = (uint32_t)batch});
}

/* Here workspaces are as large as activations, and nothing fits where it did before. */
static void small_gpt_steps_with_large_workspaces_reach_the_bound(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 10; seed++)
        for (int batch = 1; batch <= 16; batch *= 2)
            check_gpt_variants((gpt_shape){.layers = 2,
                                           .batch = batch,
                                           .tokens = 64,
                                           .width = 128,
                                           .heads = 4,
                                           .vocabulary = 65,
                                           .element_bytes = 4,
                                           .work_seed = seed});
}

static void the_deepest_steps_reach_the_bound(void **state)
{
    (void)state;
    for (unsigned variant = 0; variant < 8; variant++)
        check_gpt(&(gpt_shape){.layers = 96,
                               .batch = 4,
                               .tokens = 2048,
                               .width = 1024,
                               .heads = 16,
                               .vocabulary = 50257,
                               .element_bytes = 2,
                               .head_chunks = 8,
                               .plain = variant & 1,
                               .in_place = variant & 2,
                               .recompute = variant & 4,
                               .work_seed = variant});
}

static void the_same_items_get_the_same_offsets(void **state)
{
    (void)state;
    plm_pack_item items[RANDOM_MAX];
    size_t first[RANDOM_MAX], second[RANDOM_MAX], first_total, second_total;
    make_random(3, RANDOM_MAX, 300, 40, items);
    assert_ok(plm__pack(items, RANDOM_MAX, first, &first_total));
    memset(second, 0xAB, sizeof second);
    assert_ok(plm__pack(items, RANDOM_MAX, second, &second_total));
    assert_memory_equal(first, second, sizeof first);
    assert_int_equal(first_total, second_total);
}

static void lifetimes_may_lie_anywhere_in_time(void **state)
{
    (void)state;
    const plm_pack_item items[] = {{INT32_MAX, INT32_MAX, granule},
                                   {0, INT32_MAX, granule},
                                   {INT32_MAX - 2, INT32_MAX - 1, granule},
                                   {0, 0, granule}};
    size_t total, bound;
    pack_and_check(items, 4, &total, &bound);
    assert_int_equal(total, 2 * granule);
}

static void sums_that_do_not_fit_are_statuses(void **state)
{
    (void)state;
    const size_t half = SIZE_MAX / 2 / granule * granule + granule;
    plm_pack_item items[] = {{0, 1, half}, {1, 2, half}, {0, 0, granule}};
    size_t offsets[3] = {1, 2, 3}, total = 4, bound = 5;
    int32_t instant = 6;
    assert_int_equal(plm__pack(items, 2, offsets, &total), PLM_ERROR_OVERFLOW);
    assert_int_equal(plm__pack_bound(items, 2, &bound, &instant), PLM_ERROR_OVERFLOW);
    assert_int_equal(offsets[0] + offsets[1] + total + bound + (size_t)instant, 1 + 2 + 4 + 5 + 6);
    items[1].birth = 2; /* now they share the bytes */
    assert_ok(plm__pack(items, 3, offsets, &total));
    assert_int_equal(total, half + granule);
    assert_ok(plm__pack_bound(items, 3, &bound, &instant));
    assert_int_equal(bound, half + granule);
    assert_int_equal(plm__pack(items, -1, offsets, &total), PLM_ERROR_OVERFLOW);
}

static void packing_survives_the_failure_of_every_allocation(void **state)
{
    (void)state;
    plm_pack_item items[RANDOM_MAX];
    make_random(4, RANDOM_MAX, 300, 40, items);
    int64_t live = plm__host_stats_get().live_count;
    for (int persistent = 0; persistent < 2; persistent++) {
        for (int64_t n = 1;; n++) {
            size_t offsets[RANDOM_MAX] = {0}, total = 77;
            plm__host_fail_at(n, persistent);
            plm_status status = plm__pack(items, RANDOM_MAX, offsets, &total);
            bool fired = plm__host_fail_at(0, false);
            assert_int_equal(plm__host_stats_get().live_count, live);
            assert_int_equal(status, fired ? PLM_ERROR_HOST_MEMORY : PLM_OK);
            if (!fired) {
                assert_true(n > 10);
                assert_true(plm__pack_is_valid(items, RANDOM_MAX, offsets, total));
                break;
            }
            assert_int_equal(total, 77);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bound_is_the_largest_live_sum_and_its_first_instant),
        cmocka_unit_test(death_is_included_in_a_lifetime),
        cmocka_unit_test(the_check_finds_wrong_packings),
        cmocka_unit_test(items_without_bytes_lie_at_offset_zero),
        cmocka_unit_test(nested_stacks_reach_the_bound),
        cmocka_unit_test(random_items_never_overlap),
        cmocka_unit_test(crowds_too_large_to_search_are_still_packed),
        cmocka_unit_test(tiny_random_packings_are_optimal),
        cmocka_unit_test(tiny_packings_without_slack_are_optimal),
        cmocka_unit_test(the_bound_is_not_always_within_reach),
        cmocka_unit_test(a_packing_above_the_largest_size_is_refused_though_the_bound_fits),
        cmocka_unit_test(gpt_steps_reach_the_bound),
        cmocka_unit_test(small_gpt_steps_with_large_workspaces_reach_the_bound),
        cmocka_unit_test(the_deepest_steps_reach_the_bound),
        cmocka_unit_test(the_same_items_get_the_same_offsets),
        cmocka_unit_test(lifetimes_may_lie_anywhere_in_time),
        cmocka_unit_test(sums_that_do_not_fit_are_statuses),
        cmocka_unit_test(packing_survives_the_failure_of_every_allocation),
    };
    return run_test_group(tests);
}
