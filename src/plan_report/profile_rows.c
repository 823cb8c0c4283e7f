/* SPDX-License-Identifier: MIT */
/* Gathering a profile's rows: by what an operation is, or by layer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_report/profile_internal.h"
#include "plimsoll/plan_report.h"

/* Further micro-batches and the first are one program to people. */
static bool same_program(plm_program a, plm_program b)
{
    if (a == PLM_PROGRAM_NEXT)
        a = PLM_PROGRAM_FIRST;
    if (b == PLM_PROGRAM_NEXT)
        b = PLM_PROGRAM_FIRST;
    return a == b;
}

static bool alike(const plm_profile_row *a, const plm_profile_row *b, bool by_layer)
{
    if (!same_program(a->program, b->program))
        return false;
    if (by_layer)
        return strcmp(a->layer, b->layer) == 0;
    bool same_place = a->block >= 0 ? b->block >= 0 : strcmp(a->layer, b->layer) == 0;
    return same_place && strcmp(a->op, b->op) == 0 && strcmp(a->label, b->label) == 0 &&
           strcmp(a->shape, b->shape) == 0;
}

static void add(plm__profile_sum *sum, const plm_profile_row *row)
{
    double runs = (double)row->runs;
    sum->ns += runs * (double)row->best_ns;
    sum->predicted_ns += runs * row->predicted_ns;
    sum->floor_ns += runs * fmin(row->floor_ns, (double)row->best_ns);
    sum->flops += runs * row->flops;
    sum->bytes += runs * row->bytes;
    if (row->live_bytes > sum->live_bytes)
        sum->live_bytes = row->live_bytes;
    if (row->program == PLM_PROGRAM_NEXT)
        return; /* the same storages again */
    sum->blocks++;
    sum->made_bytes += row->made_bytes;
    sum->kept_bytes += row->kept_bytes;
    sum->freed_bytes += row->freed_bytes;
}

static int by_excess(const void *left, const void *right)
{
    const plm__profile_sum *a = left, *b = right;
    double excess_a = a->ns - a->floor_ns, excess_b = b->ns - b->floor_ns;
    if (excess_a != excess_b)
        return excess_a > excess_b ? -1 : 1;
    return a->row < b->row ? -1 : 1;
}

static int by_time(const void *left, const void *right)
{
    const plm__profile_sum *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns > b->ns ? -1 : 1;
    return a->row < b->row ? -1 : 1;
}

static int by_memory(const void *left, const void *right)
{
    const plm__profile_sum *a = left, *b = right;
    if (a->kept_bytes != b->kept_bytes)
        return a->kept_bytes > b->kept_bytes ? -1 : 1;
    if (a->made_bytes != b->made_bytes)
        return a->made_bytes > b->made_bytes ? -1 : 1;
    return a->row < b->row ? -1 : 1;
}

/* The sum that takes the row, a new one when there is none. Kinds of rows are few, tens. */
static plm_status take_row(plm__profile_sums *sums, const plm_profile_row *row, bool by_layer)
{
    for (int64_t i = 0; i < sums->list.count; i++) {
        if (alike(sums->list.items[i].row, row, by_layer)) {
            add(&sums->list.items[i], row);
            return PLM_OK;
        }
    }
    plm__profile_sum sum = {.row = row};
    add(&sum, row);
    return PLM_ARRAY_PUSH(&sums->list, sum);
}

plm_status plm__profile_gather(const plm_profile *profile, bool by_layer, plm_profile_order order,
                               plm__profile_sums *sums)
{
    int64_t count;
    const plm_profile_row *rows = plm_profile_rows(profile, &count);
    plm__profile_sums made = {0};
    for (int64_t i = 0; i < count; i++) {
        if (rows[i].runs == 0)
            continue;
        plm_status status = take_row(&made, &rows[i], by_layer);
        if (status != PLM_OK) {
            plm__profile_sums_free(&made);
            return status;
        }
    }
    static int (*const orders[])(const void *, const void *) = {
        [PLM_PROFILE_BY_EXCESS] = by_excess,
        [PLM_PROFILE_BY_TIME] = by_time,
        [PLM_PROFILE_BY_MEMORY] = by_memory,
    };
    PLM_ARRAY_SORT(&made.list, orders[order]);
    *sums = made;
    return PLM_OK;
}

void plm__profile_sums_free(plm__profile_sums *sums)
{
    PLM_ARRAY_FREE(&sums->list);
}
