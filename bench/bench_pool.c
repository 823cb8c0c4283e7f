/* SPDX-License-Identifier: MIT */
/*
 * What one allocation and its free cost, over the abstract address space: the same size again and
 * again, and sizes at random with 1024 blocks live. Best, median and worst of several rounds.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/philox.h"
#include "pool/pool.h"
#include "pool/space.h"
#include "kit.h"

enum { ROUNDS = 301, PAIRS = 4000, LIVE = 1024 };

typedef struct pool_bench {
    plm_space space;
    plm_pool *pool;
    uint64_t live[LIVE];
    uint64_t next; /* random number */
} pool_bench;

static void must(plm_status status)
{
    if (status == PLM_OK)
        return;
    plm_error error;
    plm_error_get(&error);
    fprintf(stderr, "bench_pool: %s\n", error.message);
    exit(3);
}

static uint32_t random_word(pool_bench *bench)
{
    uint64_t index = bench->next++;
    return plm__philox_at(1, 0, 0, index / 4).word[index % 4];
}

static size_t same_small(pool_bench *bench)
{
    (void)bench;
    return 65536;
}

static size_t same_large(pool_bench *bench)
{
    (void)bench;
    return (size_t)8 << 20;
}

/* 1 byte to 16 MiB, every power of two as likely. */
static size_t any_size(pool_bench *bench)
{
    uint32_t word = random_word(bench);
    return 1 + (word >> 8) % ((size_t)1 << word % 25);
}

static uint64_t allocate(pool_bench *bench, size_t bytes)
{
    plm_pool_grant grant;
    must(plm__pool_alloc(bench->pool, &(plm_pool_request){.bytes = bytes}, &grant));
    return grant.address;
}

/* Nanoseconds a pair, the random numbers made beforehand. */
static double round_of(pool_bench *bench, size_t (*size_of)(pool_bench *), bool is_random)
{
    size_t *sizes = malloc(PAIRS * sizeof *sizes);
    uint32_t *places = malloc(PAIRS * sizeof *places);
    if (!sizes || !places)
        exit(3);
    for (int i = 0; i < PAIRS; i++) {
        sizes[i] = size_of(bench);
        places[i] = is_random ? random_word(bench) % LIVE : 0;
    }
    int64_t start = plm__clock_ns();
    for (int i = 0; i < PAIRS; i++) {
        if (is_random) {
            must(plm__pool_free(bench->pool, bench->live[places[i]], NULL));
            bench->live[places[i]] = allocate(bench, sizes[i]);
        } else {
            must(plm__pool_free(bench->pool, allocate(bench, sizes[i]), NULL));
        }
    }
    double nanoseconds = (double)(plm__clock_ns() - start) / PAIRS;
    free(sizes);
    free(places);
    return nanoseconds;
}

static void measure(plm_pool_policy policy, bool is_expandable, const char *what,
                    size_t (*size_of)(pool_bench *), bool is_random)
{
    pool_bench bench = {0};
    plm__space_init(&bench.space, (size_t)80 << 30);
    plm_pool_settings settings = plm__pool_settings_default();
    settings.expandable_segments = is_expandable;
    must(plm__pool_create(policy, &bench.space.source, &settings, &bench.pool));
    for (int i = 0; i < LIVE; i++)
        bench.live[i] = allocate(&bench, size_of(&bench));
    static const char *const names[PLM_POOL_POLICY_COUNT] = {
        [PLM_POOL_CACHING] = "caching",
        [PLM_POOL_MAPPED] = "mapped",
    };
    double times[ROUNDS];
    round_of(&bench, size_of, is_random);
    for (int i = 0; i < ROUNDS; i++)
        times[i] = round_of(&bench, size_of, is_random);
    qsort(times, ROUNDS, sizeof *times, ascending);
    printf("%-8s %-11s %-28s %8.1f %8.1f %8.1f\n", names[policy], is_expandable ? "expandable" : "",
           what, times[0], times[ROUNDS / 2], times[ROUNDS - 1]);
    plm__pool_destroy(bench.pool);
    plm__space_fini(&bench.space);
}

int main(void)
{
    printf("ns for one alloc and one free, %d rounds of %d\n", ROUNDS, PAIRS);
    printf("%-20s %-28s %8s %8s %8s\n", "policy", "sizes", "best", "median", "worst");
    for (int row = 0; row < 3; row++) {
        plm_pool_policy policy = row < 2 ? PLM_POOL_CACHING : PLM_POOL_MAPPED;
        bool is_expandable = row == 1;
        measure(policy, is_expandable, "64 KiB, 1024 more live", same_small, false);
        measure(policy, is_expandable, "8 MiB, 1024 more live", same_large, false);
        measure(policy, is_expandable, "random to 16 MiB, 1024 live", any_size, true);
    }
    return 0;
}
