/* SPDX-License-Identifier: MIT */
/* The CPU device's memory: hard cap, guard page, pattern, counters, records; and its contract. */
#include "unit/test.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/memory.h"
#include "base/size.h"
#include "device/cpu/cpu_internal.h"

static plm_device *open_device(int threads, size_t cap_bytes)
{
    plm_device *device = NULL;
    assert_ok(plm_device_open("cpu", threads, cap_bytes, &device));
    return device;
}

static void exactly_the_cap_is_handed_out_and_one_granule_more_is_refused(void **state)
{
    (void)state;
    const size_t cap = 10 * 4096 + 192;
    plm_device *device = open_device(1, cap);
    void *region = NULL, *other = NULL;
    assert_int_equal(device->table->reserve(device, cap + 64, &region), PLM_ERROR_DEVICE_MEMORY);
    assert_null(region);
    assert_ok(device->table->reserve(device, cap, &region));
    assert_int_equal((uintptr_t)region % PLM_GRANULE_BYTES, 0);
    assert_int_equal(device->table->reserve(device, 64, &other), PLM_ERROR_DEVICE_MEMORY);
    assert_null(other);
    device->table->release(device, region, cap);
    assert_ok(device->table->reserve(device, 64, &other));
    device->table->release(device, other, 64);
    plm_device_destroy(device);
}

static void what_is_handed_out_is_counted_live_and_at_its_peak(void **state)
{
    (void)state;
    plm_device *device = open_device(1, 0);
    void *first = NULL, *second = NULL;
    assert_ok(device->table->reserve(device, 640, &first));
    assert_ok(device->table->reserve(device, 8192, &second));
    assert_int_equal(device->usage.live_bytes, 8832);
    device->table->release(device, first, 640);
    assert_int_equal(device->usage.live_bytes, 8192);
    assert_int_equal(device->usage.peak_bytes, 8832);
    device->table->release(device, second, 8192);
    device->table->release(device, NULL, 0);
    assert_int_equal(device->usage.live_bytes, 0);
    plm_device_destroy(device);
}

static void a_refusal_tells_asked_live_budget_and_what_is_left(void **state)
{
    (void)state;
    plm_device *device = open_device(1, 8192);
    void *region = NULL;
    assert_ok(device->table->reserve(device, 4096, &region));
    void *other = NULL;
    assert_int_equal(device->table->reserve(device, 4160, &other), PLM_ERROR_DEVICE_MEMORY);
    plm_error error;
    plm_error_get(&error);
    assert_int_equal(error.status, PLM_ERROR_DEVICE_MEMORY);
    assert_int_equal(error.oom.asked_bytes, 4160);
    assert_int_equal(error.oom.rounded_bytes, 4160);
    assert_int_equal(error.oom.live_bytes, 4096);
    assert_int_equal(error.oom.reserved_bytes, 4096);
    assert_int_equal(error.oom.budget_bytes, 8192);
    assert_int_equal(error.oom.largest_free_bytes, 4096);
    assert_non_null(strstr(error.message, "4.1 KiB"));
    device->table->release(device, region, 4096);
    plm_device_destroy(device);
}

static void sizes_that_make_no_sense_are_statuses(void **state)
{
    (void)state;
    static const size_t cases[] = {0, 1, 63, 65, SIZE_MAX, SIZE_MAX - 63, SIZE_MAX - 4095 - 64};
    plm_device *device = open_device(1, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *region = NULL;
        assert_int_not_equal(device->table->reserve(device, cases[i], &region), PLM_OK);
        assert_null(region);
    }
    assert_int_equal(device->usage.peak_bytes, 0);
    plm_device_destroy(device);
}

static void more_than_the_machine_has_is_a_status_and_not_a_kill(void **state)
{
    (void)state;
    plm_device *device = open_device(1, 0);
    size_t available = SIZE_MAX;
    assert_ok(plm__memory_available(&available));
    assert_true(available > 0);
    void *region = NULL;
    size_t wanted = available < SIZE_MAX / 4 ? 2 * plm__granules(available) : (size_t)1 << 60;
    assert_int_equal(device->table->reserve(device, wanted, &region), PLM_ERROR_DEVICE_MEMORY);
    plm_error error;
    plm_error_get(&error);
    assert_int_equal(error.oom.asked_bytes, wanted);
    assert_true(error.oom.largest_free_bytes < wanted);
    plm_device_destroy(device);
}

/* The signal that ends a child which writes at `at`; 0 when it survives. */
static int signal_of_write(volatile char *at)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *at = 1;
        _exit(0);
    }
    int result = 0;
    assert_int_equal(waitpid(child, &result, 0), child);
    return WIFSIGNALED(result) ? WTERMSIG(result) : 0;
}

static void the_first_byte_past_the_region_cannot_be_written(void **state)
{
    (void)state;
    static const size_t cases[] = {64, 4096, 4096 + 64, 3 << 20, (3 << 20) + 4032};
    plm_device *device = open_device(1, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *region = NULL;
        assert_ok(device->table->reserve(device, cases[i], (void **)&region));
        assert_int_equal(signal_of_write(region), 0);
        assert_int_equal(signal_of_write(region + cases[i] - 1), 0);
        assert_int_equal(signal_of_write(region + cases[i]), SIGSEGV);
        device->table->release(device, region, cases[i]);
    }
    plm_device_destroy(device);
}

static void the_last_granule_holds_the_pattern_when_handed_out(void **state)
{
    (void)state;
    plm_device *device = open_device(1, 0);
    uint8_t *region = NULL;
    assert_ok(device->table->reserve(device, 12352, (void **)&region));
    for (int i = 0; i < 64; i++)
        assert_int_equal(region[12352 - 64 + i], PLM_ARENA_PATTERN);
    assert_int_equal(region[12352 - 65], 0);
    device->table->release(device, region, 12352);
    plm_device_destroy(device);
}

/* Resident pages of this process. */
static long resident_pages(void)
{
    long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &total, &resident), 2);
    fclose(file);
    return resident;
}

static void pages_are_present_as_soon_as_they_are_reserved(void **state)
{
    (void)state;
    const size_t bytes = (size_t)32 << 20;
    plm_device *device = open_device(1, 0);
    void *region = NULL;
    long before = resident_pages();
    assert_ok(device->table->reserve(device, bytes, &region));
    long grown = (resident_pages() - before) * sysconf(_SC_PAGESIZE);
    assert_true(grown >= (long)bytes - (1 << 18) && grown <= (long)bytes + (1 << 20));
    device->table->release(device, region, bytes);
    plm_device_destroy(device);
}

static void copies_and_fills_arrive(void **state)
{
    (void)state;
    plm_device *device = open_device(1, 0);
    char *region = NULL, back[4] = {0};
    assert_ok(device->table->reserve(device, 64, (void **)&region));
    assert_ok(device->table->fill(device, region, 7, 64));
    assert_ok(device->table->copy_in(device, region + 1, "ab", 2));
    assert_ok(device->table->copy_out(device, back, region, 4));
    assert_ok(device->table->fence(device));
    assert_memory_equal(back, "\7ab\7", 4);
    device->table->release(device, region, 64);
    plm_device_destroy(device);
}

static void thread_counts_out_of_range_are_refused(void **state)
{
    (void)state;
    plm_device *device = NULL;
    assert_int_equal(plm_device_open("cpu", -1, 0, &device), PLM_ERROR_ARGUMENT);
    assert_int_equal(plm_device_open("cpu", 1 << 20, 0, &device), PLM_ERROR_ARGUMENT);
    assert_null(device);
    device = open_device(0, 0);
    assert_true(device->threads >= 1);
    assert_string_equal(device->table->kind, "cpu");
    plm_device_destroy(device);
    plm_device_destroy(NULL);
}

static void a_device_says_which_types_it_multiplies_in_silicon(void **state)
{
    (void)state;
    plm_device *device = open_device(1, 0);
    assert_true(plm__device_has(device, PLM_DTYPE_F32));
    assert_false(plm__device_has(device, PLM_DTYPE_F16));
    assert_false(plm__device_has(device, PLM_DTYPE_I32));
#if defined(__x86_64__)
    bool silicon = __builtin_cpu_supports("avx512bf16");
    assert_true(silicon || !plm__device_has(device, PLM_DTYPE_BF16));
    const char *held = getenv("ONEDNN_MAX_CPU_ISA"); /* the library may be told to hold back */
    assert_true(held || silicon == plm__device_has(device, PLM_DTYPE_BF16));
#endif
    plm_device_destroy(device);
}

static plm_operand matrix(int64_t rows, int64_t columns, void *data)
{
    return (plm_operand){.data = data, .rank = 2, .shape = {rows, columns}, .stride = {columns, 1}};
}

/* Creates, prepares, runs, ends: everything that takes host memory. */
static plm_status whole_life(void)
{
    static float x[6] = {1, 2, 3, 4, 5, 6}, weight[6] = {1, 0, 0, 0, 1, 0}, out[4];
    static char workspace[1 << 20] __attribute__((aligned(64)));
    plm_device *device = NULL;
    PLM_TRY(plm_device_open("cpu", 1, 0, &device));
    plm_launch launch = {.kind = PLM_OP_LINEAR,
                         .in = {matrix(2, 3, x), matrix(2, 3, weight)},
                         .out = {matrix(2, 2, out)},
                         .workspace = workspace};
    void *prepared = NULL;
    plm_status status = PLM_OK;
    PLM_TRY_DONE(device->table->workspace(device, &launch, &launch.workspace_bytes));
    assert_true(launch.workspace_bytes <= sizeof workspace);
    PLM_TRY_DONE(device->table->prepare(device, &launch, &prepared));
    PLM_TRY_DONE(device->table->launch(device, &launch, prepared));
    assert_true(out[0] == 1 && out[1] == 2 && out[2] == 4 && out[3] == 5);
done:
    device->table->forget(device, prepared);
    plm_device_destroy(device);
    return status;
}

static void every_host_allocation_may_fail(void **state)
{
    (void)state;
    for (int persistent = 0; persistent < 2; persistent++)
        for (int64_t n = 1;; n++) {
            plm__host_fail_at(n, persistent);
            plm_status status = whole_life();
            bool fired = plm__host_fail_at(0, false);
            assert_int_equal(plm__host_stats_get().live_count, 0);
            assert_int_equal(status, fired ? PLM_ERROR_HOST_MEMORY : PLM_OK);
            if (!fired)
                break;
        }
}

static void a_product_without_its_workspace_is_refused(void **state)
{
    (void)state;
    static float x[16 * 16], weight[16 * 16], out[16 * 16];
    plm_device *device = open_device(1, 0);
    plm_launch launch = {.kind = PLM_OP_LINEAR,
                         .in = {matrix(16, 16, x), matrix(16, 16, weight)},
                         .out = {matrix(16, 16, out)}};
    size_t bytes = 0;
    void *prepared = NULL;
    assert_ok(device->table->workspace(device, &launch, &bytes));
    plm_status status = device->table->prepare(device, &launch, &prepared);
    assert_int_equal(status, bytes > 0 ? PLM_ERROR_ARGUMENT : PLM_OK);
    device->table->forget(device, prepared);
    plm_device_destroy(device);
}

static void sizes_of_products_are_the_same_when_asked_again(void **state)
{
    (void)state;
    enum { SHAPES = 2000 }; /* more than the device keeps */
    static size_t known[SHAPES];
    plm_device *device = open_device(2, 0);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < SHAPES; i++) {
            int64_t rows = 1 + i % 50, columns = 1 + i / 50;
            plm_launch launch = {.kind = PLM_OP_LINEAR,
                                 .in = {matrix(rows, 8, NULL), matrix(columns, 8, NULL)},
                                 .out = {matrix(rows, columns, NULL)}};
            size_t bytes = SIZE_MAX;
            assert_ok(device->table->workspace(device, &launch, &bytes));
            if (round == 1)
                assert_int_equal(bytes, known[i]);
            known[i] = bytes;
        }
    plm_device_destroy(device);
}

/* oneDNN 2.6 ends the process with a division by zero there. */
static void a_product_beyond_the_library_is_an_overflow(void **state)
{
    (void)state;
    plm_device *device = open_device(1, 0);
    for (int64_t rows = (int64_t)1 << 31; rows <= (int64_t)1 << 52; rows *= 8) {
        plm_launch launch = {.kind = PLM_OP_LINEAR,
                             .in = {matrix(rows, 1, NULL), matrix(3, 1, NULL)},
                             .out = {matrix(rows, 3, NULL)}};
        size_t bytes = 7;
        assert_int_equal(device->table->workspace(device, &launch, &bytes), PLM_ERROR_OVERFLOW);
        assert_int_equal(bytes, 7);
    }
    plm_device_destroy(device);
}

static void a_device_is_found_by_its_name_or_refused_in_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        plm_status status;
        const char *told;
    } cases[] = {
        {"cpu", PLM_OK, NULL},
        {"cuda:4000", PLM_ERROR_UNSUPPORTED, NULL}, /* no module, driver, or GPU of that number */
        {"cuda:", PLM_ERROR_ARGUMENT, "unknown device 'cuda:'"},
        {"cuda:1x", PLM_ERROR_ARGUMENT, "unknown device"},
        {"cuda:-1", PLM_ERROR_ARGUMENT, "unknown device"},
        {"cpu:0", PLM_ERROR_ARGUMENT, "unknown device 'cpu:0'"},
        {"cpus", PLM_ERROR_ARGUMENT, "known are cpu"},
        {"", PLM_ERROR_ARGUMENT, "unknown device"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_device *device = NULL;
        plm_error error;
        assert_int_equal(plm_device_open(cases[i].name, 1, 0, &device), cases[i].status);
        assert_true((device != NULL) == (cases[i].status == PLM_OK));
        plm_device_destroy(device);
        if (cases[i].status == PLM_OK)
            continue;
        plm_error_get(&error);
        assert_true(error.message[0] && !strchr(error.message, '\n'));
        assert_true(!cases[i].told || strstr(error.message, cases[i].told));
    }
}

static void a_limit_caps_what_is_handed_out_and_counts_anew(void **state)
{
    (void)state;
    plm_device *device = NULL;
    void *region;
    assert_ok(plm_device_open("cpu", 1, 1 << 20, &device));
    assert_ok(device->table->reserve(device, 1 << 16, &region));
    device->table->release(device, region, 1 << 16);
    assert_int_equal(plm__device_limit(device, 4096), 1 << 20);
    assert_int_equal(device->usage.peak_bytes, 0);
    assert_int_equal(device->table->reserve(device, 4096 + PLM_GRANULE_BYTES, &region),
                     PLM_ERROR_DEVICE_MEMORY);
    assert_ok(device->table->reserve(device, 4096, &region));
    device->table->release(device, region, 4096);
    assert_int_equal(plm__device_limit(device, 0), 4096);
    plm_device_destroy(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_is_found_by_its_name_or_refused_in_one_line),
        cmocka_unit_test(a_limit_caps_what_is_handed_out_and_counts_anew),
        cmocka_unit_test(exactly_the_cap_is_handed_out_and_one_granule_more_is_refused),
        cmocka_unit_test(what_is_handed_out_is_counted_live_and_at_its_peak),
        cmocka_unit_test(a_refusal_tells_asked_live_budget_and_what_is_left),
        cmocka_unit_test(sizes_that_make_no_sense_are_statuses),
        cmocka_unit_test(more_than_the_machine_has_is_a_status_and_not_a_kill),
        cmocka_unit_test(the_first_byte_past_the_region_cannot_be_written),
        cmocka_unit_test(the_last_granule_holds_the_pattern_when_handed_out),
        cmocka_unit_test(pages_are_present_as_soon_as_they_are_reserved),
        cmocka_unit_test(copies_and_fills_arrive),
        cmocka_unit_test(thread_counts_out_of_range_are_refused),
        cmocka_unit_test(a_device_says_which_types_it_multiplies_in_silicon),
        cmocka_unit_test(every_host_allocation_may_fail),
        cmocka_unit_test(a_product_without_its_workspace_is_refused),
        cmocka_unit_test(sizes_of_products_are_the_same_when_asked_again),
        cmocka_unit_test(a_product_beyond_the_library_is_an_overflow),
    };
    return run_test_group(tests);
}
