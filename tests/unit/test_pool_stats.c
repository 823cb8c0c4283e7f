/* SPDX-License-Identifier: MIT */
/* stats: PyTorch's own keys, every one, in its order, with the right figures. */
#include "unit/pool_kit.h"

enum { STAT_NAME = 64 }; /* the longest key with its NUL */

static const char *const side_names[PLM_POOL_SIDE_COUNT] = {
    [PLM_POOL_ALL] = "all", [PLM_POOL_LARGE] = "large_pool", [PLM_POOL_SMALL] = "small_pool"};

/* What a key stands for: a family with three sides, a stat of its own, or a plain counter. */
typedef enum row_kind { ROW_FAMILY, ROW_STAT, ROW_COUNTER } row_kind;

static const struct {
    const char *key;
    row_kind kind;
    size_t offset; /* in plm_pool_stats */
} rows[] = {
#define FAMILY(name)   ROW_FAMILY, offsetof(plm_pool_stats, of[PLM_POOL_##name])
#define STAT(field)    #field, ROW_STAT, offsetof(plm_pool_stats, field)
#define COUNTER(field) #field, ROW_COUNTER, offsetof(plm_pool_stats, field)
    {"active", FAMILY(ACTIVE)},
    {"active_bytes", FAMILY(ACTIVE_BYTES)},
    {"allocated_bytes", FAMILY(ALLOCATED_BYTES)},
    {"allocation", FAMILY(ALLOCATION)},
    {"inactive_split", FAMILY(INACTIVE_SPLIT)},
    {"inactive_split_bytes", FAMILY(INACTIVE_SPLIT_BYTES)},
    {COUNTER(max_split_size)},
    {COUNTER(num_alloc_retries)},
    {COUNTER(num_device_alloc)},
    {COUNTER(num_device_free)},
    {COUNTER(num_ooms)},
    {COUNTER(num_sync_all_streams)},
    {STAT(oversize_allocations)},
    {STAT(oversize_segments)},
    {"requested_bytes", FAMILY(REQUESTED_BYTES)},
    {"reserved_bytes", FAMILY(RESERVED_BYTES)},
    {"segment", FAMILY(SEGMENT)},
#undef FAMILY
#undef STAT
#undef COUNTER
};

typedef void (*visitor)(void *context, const char *name, int64_t value);

static void visit_stat(const char *prefix, const plm_pool_stat *stat, visitor visit, void *context)
{
    const struct {
        const char *name;
        int64_t value;
    } measures[] = {{"allocated", stat->allocated},
                    {"current", stat->current},
                    {"freed", stat->allocated - stat->current},
                    {"peak", stat->peak}};
    char name[STAT_NAME];
    for (size_t i = 0; i < sizeof measures / sizeof *measures; i++) {
        snprintf(name, sizeof name, "%s.%s", prefix, measures[i].name);
        visit(context, name, measures[i].value);
    }
}

/* Calls visit with every key of memory_stats() and its value, sorted by key:
 * "active.all.allocated", ..., "num_ooms", ..., "segment.small_pool.peak". */
static void visit_all(const plm_pool_stats *stats, visitor visit, void *context)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const void *field = (const char *)stats + rows[i].offset;
        if (rows[i].kind == ROW_COUNTER) {
            visit(context, rows[i].key, *(const int64_t *)field);
        } else if (rows[i].kind == ROW_STAT) {
            visit_stat(rows[i].key, field, visit, context);
        } else {
            const plm_pool_stat *sides = field;
            for (int side = 0; side < PLM_POOL_SIDE_COUNT; side++) {
                char prefix[STAT_NAME / 2];
                snprintf(prefix, sizeof prefix, "%s.%s", rows[i].key, side_names[side]);
                visit_stat(prefix, &sides[side], visit, context);
            }
        }
    }
}

typedef struct seen_keys {
    int64_t count;
    char last[STAT_NAME];
    const char *wanted; /* key to look for */
    int64_t value;      /* its value, -999 when it was not met */
} seen_keys;

static void look(void *context, const char *name, int64_t value)
{
    seen_keys *seen = context;
    assert_true(strcmp(seen->last, name) < 0); /* sorted, none twice */
    snprintf(seen->last, sizeof seen->last, "%s", name);
    seen->count++;
    if (seen->wanted && strcmp(seen->wanted, name) == 0)
        seen->value = value;
}

static int64_t value_of(const plm_pool_stats *stats, const char *key)
{
    seen_keys seen = {.wanted = key, .value = -999};
    visit_all(stats, look, &seen);
    return seen.value;
}

static void all_122_keys_come_sorted(void **state)
{
    (void)state;
    static const char *const some[] = {"active.all.allocated",
                                       "active_bytes.large_pool.peak",
                                       "allocated_bytes.all.current",
                                       "allocation.all.current",
                                       "inactive_split.small_pool.freed",
                                       "inactive_split_bytes.all.current",
                                       "max_split_size",
                                       "num_alloc_retries",
                                       "num_device_alloc",
                                       "num_device_free",
                                       "num_ooms",
                                       "num_sync_all_streams",
                                       "oversize_allocations.peak",
                                       "oversize_segments.current",
                                       "requested_bytes.all.current",
                                       "reserved_bytes.all.peak",
                                       "segment.small_pool.peak"};
    const plm_pool_stats stats = {0};
    seen_keys seen = {0};
    visit_all(&stats, look, &seen);
    assert_int_equal(seen.count, 122);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        assert_int_equal(value_of(&stats, some[i]), 0);
    assert_int_equal(value_of(&stats, "allocated.all.current"), -999); /* the manual's misprint */
}

static void figures_follow_a_short_story(void **state)
{
    (void)state;
    pool_kit kit;
    kit_begin(&kit, PLM_POOL_CACHING, GIB, NULL);
    uint64_t small = kit_take(&kit, 1000), large = kit_take(&kit, 3 * MIB);
    kit_take(&kit, 1000);
    kit_give(&kit, small);
    kit_give(&kit, large);
    static const struct {
        const char *key;
        int64_t value;
    } wanted[] = {
        {"allocation.all.current", 1},
        {"allocation.all.peak", 3},
        {"allocation.all.allocated", 3},
        {"allocation.all.freed", 2},
        {"allocation.small_pool.freed", 1},
        {"allocated_bytes.all.current", 1024},
        {"allocated_bytes.all.peak", 3 * MIB + 2048},
        {"allocated_bytes.large_pool.freed", 3 * MIB},
        {"requested_bytes.all.current", 1000},
        {"requested_bytes.all.peak", 3 * MIB + 2000},
        {"reserved_bytes.all.current", 22 * MIB},
        {"reserved_bytes.small_pool.current", 2 * MIB},
        {"segment.all.current", 2},
        {"inactive_split.all.current", 2},
        {"inactive_split_bytes.all.current", 2 * MIB - 1024},
        {"inactive_split_bytes.large_pool.current", 0},
        {"num_device_alloc", 2},
        {"max_split_size", -1},
    };
    plm_pool_stats *stats = plm__pool_statistics(kit.pool);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (value_of(stats, wanted[i].key) != wanted[i].value) {
            print_error("%s is %lld\n", wanted[i].key, (long long)value_of(stats, wanted[i].key));
            fail();
        }
    plm__pool_stats_reset_peaks(stats);
    assert_int_equal(value_of(stats, "allocated_bytes.all.peak"), 1024);
    assert_int_equal(value_of(stats, "reserved_bytes.all.peak"), 22 * MIB);
    kit_end(&kit);
}

static void the_sum_splits_reserved_into_live_slack_and_cached(void **state)
{
    (void)state;
    pool_kit kit;
    kit_begin(&kit, PLM_POOL_CACHING, GIB, NULL);
    kit_take(&kit, 13 * MIB + 1);
    kit_take(&kit, 100);
    plm_pool_totals totals = plm__pool_sum(kit.pool);
    assert_int_equal(totals.live_bytes, 13 * MIB + 101);
    assert_int_equal(totals.slack_bytes, MIB - 1 + 412);
    assert_int_equal(totals.cached_bytes, 2 * MIB - 512);
    assert_int_equal(totals.reserved_bytes, 16 * MIB);
    kit_end(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_122_keys_come_sorted),
        cmocka_unit_test(figures_follow_a_short_story),
        cmocka_unit_test(the_sum_splits_reserved_into_live_slack_and_cached),
    };
    return run_test_group(tests);
}
