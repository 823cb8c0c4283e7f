/* SPDX-License-Identifier: MIT */
/* torch/stats: memory_stats in its two forms, and the record beside a snapshot. */
#include "unit/test.h"

#include "base/file.h"
#include "plimsoll/memory_stats.h"

#define RECORDINGS PLM_SOURCE_DIR "/tests/data/recordings/"

static void the_statistics_of_a_rank_are_read(void **state)
{
    (void)state;
    plm_memory_stats stats;
    assert_ok(plm_memory_stats_read(RECORDINGS "fsdp2_memory_stats.json", &stats));
    const plm_memory_stat *allocated =
        &stats.stats[PLM_MEMORY_STAT_ALLOCATED_BYTES][PLM_MEMORY_POOL_ALL];
    assert_int_equal(allocated->current, 1294811136);
    assert_int_equal(allocated->peak, 5261501440);
    assert_int_equal(allocated->allocated, 31436376064);
    assert_int_equal(allocated->freed, 30141564928);
    assert_int_equal(stats.stats[PLM_MEMORY_STAT_ACTIVE][PLM_MEMORY_POOL_SMALL].peak, 299);
    assert_int_equal(stats.device_allocs, 105);
    assert_int_equal(stats.sync_all_streams, 1);
    assert_int_equal(stats.max_split_bytes, SIZE_MAX);
    for (int kind = 0; kind < PLM_MEMORY_STAT_COUNT; kind++)
        assert_true(stats.recorded[kind]);
}

static plm_status read_stats(const char *text, plm_memory_stats *stats)
{
    char path[] = "/tmp/plm_stats-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_ok(plm__file_write(path, text, strlen(text)));
    plm_status status = plm_memory_stats_read(path, stats);
    unlink(path);
    return status;
}

static void objects_within_objects_are_read_too(void **state)
{
    (void)state;
    plm_memory_stats stats;
    assert_ok(read_stats("{\"allocated_bytes\": {\"all\": {\"current\": 5, \"peak\": 9}},"
                         " \"oversize_segments\": {\"freed\": 2}, \"num_ooms\": 1,"
                         " \"max_split_size\": 33554432}",
                         &stats));
    assert_int_equal(stats.stats[PLM_MEMORY_STAT_ALLOCATED_BYTES][PLM_MEMORY_POOL_ALL].peak, 9);
    assert_int_equal(stats.stats[PLM_MEMORY_STAT_OVERSIZE_SEGMENTS][PLM_MEMORY_POOL_ALL].freed, 2);
    assert_int_equal(stats.ooms, 1);
    assert_int_equal(stats.max_split_bytes, 33554432);
    assert_true(stats.recorded[PLM_MEMORY_STAT_ALLOCATED_BYTES]);
    assert_false(stats.recorded[PLM_MEMORY_STAT_SEGMENT]);
}

static void other_json_is_refused_and_leaves_the_result_alone(void **state)
{
    (void)state;
    static const char *const cases[] = {"",
                                        "[]",
                                        "{}",
                                        "{\"loss\": 3}",
                                        "{\"num_ooms\": \"3\"}",
                                        "{\"segment\": {\"all\": {\"peak\": 1.5}}}"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_memory_stats stats = {.ooms = 77};
        assert_int_equal(read_stats(cases[i], &stats), PLM_ERROR_FORMAT);
        assert_int_equal(stats.ooms, 77);
    }
    plm_memory_stats stats;
    assert_int_equal(plm_memory_stats_read("/nowhere/at all", &stats), PLM_ERROR_IO);
}

static void the_record_beside_a_snapshot_is_read(void **state)
{
    (void)state;
    plm_memory_record record;
    assert_ok(plm_memory_record_read(RECORDINGS "fsdp2_rank1.json", 1, &record));
    assert_int_equal(record.allocated_bytes, 1294811136);
    assert_int_equal(record.allocated_peak_bytes, 7118824448);
    assert_int_equal(record.reserved_peak_bytes, 8975810560);
    assert_int_equal(record.driver_used_bytes, 10662838272);
    assert_int_equal(record.total_bytes, 150109880320);
    assert_int_equal(plm_memory_record_read(RECORDINGS "fsdp2_memory_stats.json", 1, &record),
                     PLM_ERROR_FORMAT);
}

static void the_recorders_record_is_read_device_by_device(void **state)
{
    (void)state;
    char path[] = "/tmp/plimsoll-record-XXXXXX";
    static const char text[] =
        "{\"reason\": \"oom\", \"devices\": [{\"device\": 0, \"total_bytes\": 1}, {\"device\": 2, "
        "\"name\": \"GPU\", \"total_bytes\": 900, \"driver_free_bytes\": 300, "
        "\"driver_total_bytes\": 850, \"memory_stats\": {\"allocated_bytes.all.peak\": 500, "
        "\"reserved_bytes.all.peak\": 520, \"reserved_bytes.all.current\": null}}]}";
    plm_memory_record record;
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    assert_ok(plm_memory_record_read(path, 2, &record));
    assert_int_equal(record.total_bytes, 900);
    assert_int_equal(record.driver_used_bytes, 550);
    assert_int_equal(record.allocated_peak_bytes, 500);
    assert_int_equal(record.reserved_peak_bytes, 520);
    assert_int_equal(record.reserved_bytes, 0);
    assert_ok(plm_memory_record_read(path, 7, &record));
    assert_int_equal(record.total_bytes, 0);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_statistics_of_a_rank_are_read),
        cmocka_unit_test(objects_within_objects_are_read_too),
        cmocka_unit_test(other_json_is_refused_and_leaves_the_result_alone),
        cmocka_unit_test(the_record_beside_a_snapshot_is_read),
        cmocka_unit_test(the_recorders_record_is_read_device_by_device),
    };
    return run_test_group(tests);
}
