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

static inline int check_no_leak(void **state)
{
    (void)state;
    plm_host_stats stats = plm_host_stats_get();
    if (stats.live_count != 0)
        print_error("%lld host blocks, %zu bytes, were leaked\n", (long long)stats.live_count,
                    stats.live_bytes);
    return stats.live_count == 0 ? 0 : -1;
}

#define run_test_group(tests) cmocka_run_group_tests(tests, NULL, check_no_leak)

#endif
