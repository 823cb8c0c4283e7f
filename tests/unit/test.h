/* SPDX-License-Identifier: MIT */
/*
 * What every test program shares: cmocka, a check of a status that prints the failure's message,
 * and a group runner that fails when a program leaks host memory.
 */
#ifndef PLM_TEST_H
#define PLM_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/host.h"
#include "base/json.h"

/* Before main: what JSON takes is counted, and fails in sweeps, like all host memory. */
__attribute__((constructor)) static void count_json_memory(void)
{
    plm__json_count_memory();
}

static inline void assert_ok_at(plm_status status, const char *file, int line)
{
    if (status == PLM_OK)
        return;
    plm_error error;
    plm_error_get(&error);
    print_error("%s: %s\n", plm_status_name(status), error.message);
    _fail(file, line);
}

#define assert_ok(status) assert_ok_at((status), __FILE__, __LINE__)

/* The sanitizers are slow: loops that a release build runs whole are sampled there. */
#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* How the sweep over failing allocations goes: `call` is tried with the n-th failing, from `first`
 * on until none fails, transient and persistent; it must leave nothing behind. Under the sanitizers
 * the later ones ever further apart. */
static inline void sweep_failures_from(int64_t first, plm_status (*call)(void *context),
                                       void *context)
{
    for (int persistent = 0; persistent < 2; persistent++) {
        bool fired = true;
        for (int64_t n = first; fired; n += 1 + SANITIZED * (n - first) / 50) {
            plm_host_stats before = plm__host_stats_get();
            plm__host_fail_at(n, persistent != 0);
            plm_status status = call(context);
            fired = plm__host_fail_at(0, false);
            if (status != (fired ? PLM_ERROR_HOST_MEMORY : PLM_OK) ||
                plm__host_stats_get().live_bytes != before.live_bytes ||
                plm__host_stats_get().live_count != before.live_count) {
                print_error("plm__host_fail_at(%lld, %d): %s, %zu bytes left\n", (long long)n,
                            persistent, plm_status_name(status),
                            plm__host_stats_get().live_bytes - before.live_bytes);
                fail();
            }
        }
    }
}

static inline void sweep_failures(plm_status (*call)(void *context), void *context)
{
    sweep_failures_from(1, call, context);
}

static inline int check_no_leak(void **state)
{
    (void)state;
    plm_host_stats stats = plm__host_stats_get();
    if (stats.live_count != 0)
        print_error("%lld host blocks, %zu bytes, were leaked\n", (long long)stats.live_count,
                    stats.live_bytes);
    return stats.live_count == 0 ? 0 : -1;
}

#define run_test_group(tests) cmocka_run_group_tests(tests, NULL, check_no_leak)

#endif
