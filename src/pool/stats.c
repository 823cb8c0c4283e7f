/* SPDX-License-Identifier: MIT */
/* The names of the statistics, as a table, and walks over them. */
#include "pool/stats.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

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
    char name[PLM_POOL_STAT_NAME];
    for (size_t i = 0; i < sizeof measures / sizeof *measures; i++) {
        snprintf(name, sizeof name, "%s.%s", prefix, measures[i].name);
        visit(context, name, measures[i].value);
    }
}

void plm__pool_stats_visit(const plm_pool_stats *stats, visitor visit, void *context)
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
                char prefix[PLM_POOL_STAT_NAME / 2];
                snprintf(prefix, sizeof prefix, "%s.%s", rows[i].key, side_names[side]);
                visit_stat(prefix, &sides[side], visit, context);
            }
        }
    }
}

void plm__pool_stats_reset_peaks(plm_pool_stats *stats)
{
    for (int family = 0; family < PLM_POOL_STAT_COUNT; family++)
        for (int side = 0; side < PLM_POOL_SIDE_COUNT; side++)
            stats->of[family][side].peak = stats->of[family][side].current;
    stats->oversize_allocations.peak = stats->oversize_allocations.current;
    stats->oversize_segments.peak = stats->oversize_segments.current;
}
