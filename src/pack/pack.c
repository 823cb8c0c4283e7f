/* SPDX-License-Identifier: MIT */
/*
 * Packing, its outer part: makes the caller's items into spans, finds the bound, hands the spans to
 * fit.c and gives the offsets back in bytes.
 */
#include "pack/pack_internal.h"

#include <string.h>

#include "base/size.h"

enum { COUNT_MAX = 1 << 30 }; /* spans, and so steps, are counted in int32_t */

static const uint64_t granules_max = SIZE_MAX / PLM_GRANULE_BYTES; /* what can be told in bytes */

_Static_assert(sizeof(size_t) <= sizeof(uint64_t), "granules are counted in uint64_t");

/* Radix sort by bytes from the lowest, those skipped in which no two keys differ. */
void plm__pack_sort(plm__pack_key *keys, plm__pack_key *scratch, int64_t count)
{
    enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };
    uint64_t differing = 0;
    for (int64_t i = 1; i < count; i++)
        differing |= keys[i].key ^ keys[0].key;
    plm__pack_key *from = keys, *to = scratch;
    for (int shift = 0; shift < 64; shift += DIGIT_BITS) {
        if ((differing >> shift) % DIGITS == 0)
            continue;
        int64_t start[DIGITS + 1] = {0};
        for (int64_t i = 0; i < count; i++)
            start[(from[i].key >> shift) % DIGITS + 1]++;
        for (int digit = 0; digit < DIGITS; digit++)
            start[digit + 1] += start[digit];
        for (int64_t i = 0; i < count; i++)
            to[start[(from[i].key >> shift) % DIGITS]++] = from[i];
        plm__pack_key *swap = from;
        from = to;
        to = swap;
    }
    if (from != keys)
        memcpy(keys, from, (size_t)count * sizeof *keys);
}

/* Spans of the items with bytes, by birth. Their sum fits in 63 bits. */
static plm_status make_spans(const plm_pack_item *items, int64_t count, plm__pack_key *keys,
                             plm__pack_problem *problem)
{
    int32_t made = 0;
    for (int64_t i = 0; i < count; i++) {
        PLM_ASSERT(items[i].birth >= 0 && items[i].birth <= items[i].death);
        PLM_ASSERT(items[i].bytes % PLM_GRANULE_BYTES == 0);
        if (items[i].bytes > 0)
            keys[made++] = (plm__pack_key){(uint64_t)items[i].birth, i};
    }
    plm__pack_sort(keys, keys + count, made);
    problem->count = made;
    uint64_t sum = 0;
    for (int32_t s = 0; s < made; s++) {
        uint64_t granules = items[keys[s].index].bytes / PLM_GRANULE_BYTES;
        PLM_FAIL_IF(granules > INT64_MAX - sum, PLM_ERROR_OVERFLOW,
                    "%lld items to pack are larger in sum than any memory", (long long)count);
        sum += granules;
        problem->spans[s] = (plm__pack_span){.granules = granules, .item = (int32_t)keys[s].index};
    }
    return PLM_OK;
}

/* Walks births and deaths in the order of time: numbers the steps, finds the bound. */
static plm_status find_steps(const plm_pack_item *items, plm__pack_key *keys,
                             plm__pack_key *scratch, plm__pack_problem *problem)
{
    plm__pack_span *spans = problem->spans;
    for (int32_t s = 0; s < problem->count; s++)
        keys[s] = (plm__pack_key){(uint64_t)items[spans[s].item].death, s};
    plm__pack_sort(keys, scratch, problem->count);
    int32_t step = -1, dead = 0;
    bool died = true; /* since the last birth */
    uint64_t live = 0;
    for (int32_t s = 0; s < problem->count; s++) {
        int32_t birth = items[spans[s].item].birth;
        for (; keys[dead].key < (uint64_t)birth; dead++, died = true) {
            spans[keys[dead].index].last = step;
            live -= spans[keys[dead].index].granules;
        }
        step += died;
        died = false;
        spans[s].first = step;
        live += spans[s].granules;
        if (live > problem->bound) {
            problem->bound = live;
            problem->instant = birth;
        }
    }
    for (; dead < problem->count; dead++)
        spans[keys[dead].index].last = step;
    problem->step_count = step + 1;
    PLM_FAIL_IF(problem->bound > granules_max, PLM_ERROR_OVERFLOW,
                "what lives at instant %d of a packing is larger than any memory",
                (int)problem->instant);
    return PLM_OK;
}

static void problem_fini(plm__pack_problem *problem)
{
    plm__host_free(problem->spans);
    problem->spans = NULL;
}

static plm_status problem_init(const plm_pack_item *items, int64_t count,
                               plm__pack_problem *problem)
{
    *problem = (plm__pack_problem){0};
    PLM_FAIL_IF(count < 0 || count > COUNT_MAX, PLM_ERROR_OVERFLOW,
                "cannot pack %lld items, %d at most", (long long)count, COUNT_MAX);
    plm__pack_key *keys = NULL;
    plm_status status;
    PLM_TRY_DONE(plm__host_alloc((size_t)count * sizeof *problem->spans, &problem->spans));
    PLM_TRY_DONE(plm__host_alloc(2 * (size_t)count * sizeof *keys, &keys));
    PLM_TRY_DONE(make_spans(items, count, keys, problem));
    PLM_TRY_DONE(find_steps(items, keys, keys + count, problem));
done:
    plm__host_free(keys);
    if (status != PLM_OK)
        problem_fini(problem);
    return status;
}

plm_status plm__pack_bound(const plm_pack_item *items, int64_t count, size_t *bound,
                           int32_t *instant)
{
    plm__pack_problem problem;
    PLM_TRY(problem_init(items, count, &problem));
    *bound = (size_t)problem.bound * PLM_GRANULE_BYTES;
    if (instant)
        *instant = problem.instant;
    problem_fini(&problem);
    return PLM_OK;
}

plm_status plm__pack(const plm_pack_item *items, int64_t count, size_t *offsets, size_t *total)
{
    plm__pack_problem problem;
    uint64_t top = 0;
    plm_status status = PLM_OK;
    PLM_TRY(problem_init(items, count, &problem));
    if (problem.count > 0)
        PLM_TRY_DONE(plm__pack_fit(&problem, &top));
    if (top > granules_max) {
        status = plm_fail(PLM_ERROR_OVERFLOW, "a packing is larger than any memory");
        goto done;
    }
    for (int64_t i = 0; i < count; i++)
        offsets[i] = 0;
    for (int32_t s = 0; s < problem.count; s++)
        offsets[problem.spans[s].item] = (size_t)problem.spans[s].offset * PLM_GRANULE_BYTES;
    *total = (size_t)top * PLM_GRANULE_BYTES;
done:
    problem_fini(&problem);
    return status;
}

bool plm__pack_is_valid(const plm_pack_item *items, int64_t count, const size_t *offsets,
                        size_t total)
{
    size_t end = 0;
    for (int64_t i = 0; i < count; i++) {
        if (offsets[i] % PLM_GRANULE_BYTES != 0 || offsets[i] > SIZE_MAX - items[i].bytes)
            return false;
        if (items[i].bytes > 0 && offsets[i] + items[i].bytes > end)
            end = offsets[i] + items[i].bytes;
        for (int64_t j = 0; j < i; j++) {
            bool meet = items[i].birth <= items[j].death && items[j].birth <= items[i].death;
            bool share = offsets[i] < offsets[j] + items[j].bytes &&
                         offsets[j] < offsets[i] + items[i].bytes;
            if (meet && share && items[i].bytes > 0 && items[j].bytes > 0)
                return false;
        }
    }
    return end == total;
}
