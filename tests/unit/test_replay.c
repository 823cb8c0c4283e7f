/* SPDX-License-Identifier: MIT */
/* torch/replay: recordings and made-up histories come out to the byte; other settings differ. */
#include "unit/recorder.h"

#include "base/file.h"
#include "base/json.h"
#include "plimsoll/findings.h"
#include "plimsoll/replay.h"
#include "replay/replay.h"
#include "trace/trace.h"

#define RECORDINGS PLM_SOURCE_DIR "/tests/data/recordings/"

static plm_snapshot *read_recording(const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s.pickle.xz", folder, name);
    plm_snapshot *snapshot = NULL;
    assert_ok(plm_snapshot_read(path, &snapshot));
    return snapshot;
}

static plm_replay_result replay(const plm_snapshot *snapshot, const plm_replay_case *wanted)
{
    plm_replay_result result;
    assert_ok(plm_replay_run(first_device(snapshot), wanted, &result));
    return result;
}

static plm_replay_result replay_settings(const plm_snapshot *snapshot, const char *settings)
{
    return replay(snapshot, &(plm_replay_case){.settings = settings});
}

static void assert_truth(const json_t *truth, const char *key, size_t found)
{
    const json_t *value = json_object_get(truth, key);
    if (value && (size_t)json_integer_value(value) != found)
        fail_msg("%s: wanted %lld, found %zu", key, (long long)json_integer_value(value), found);
}

/* Everything that PyTorch itself reported, and every address. */
static void assert_reproduced(const plm_snapshot *snapshot, const json_t *truth)
{
    plm_replay_result result = replay(snapshot, &(plm_replay_case){.settings = NULL});
    int64_t count;
    const plm_snapshot_device *device = plm_snapshot_devices(snapshot, &count);
    assert_true(result.as_recorded);
    assert_true(result.segments_reproduced);
    assert_int_equal(result.addresses_reproduced, result.addresses_total);
    assert_int_equal(result.reserved_bytes, device->reserved_bytes);
    assert_int_equal(result.allocated_bytes, device->allocated_bytes);
    assert_truth(truth, "allocated_peak", result.allocated_peak_bytes);
    assert_truth(truth, "reserved_peak", result.reserved_peak_bytes);
    assert_truth(truth, "retries", (size_t)result.retries);
    assert_truth(truth, "ooms", (size_t)result.oom);
    assert_int_equal(result.placed_first, 0);
}

static json_t *read_truth(const char *path)
{
    plm_file file;
    json_t *truth = NULL;
    assert_ok(plm__file_map(path, &file));
    assert_ok(plm__json_read(path, file.bytes, file.byte_count, &truth));
    plm__file_unmap(&file);
    return truth;
}

static void all_recordings_with_a_history_are_reproduced_to_the_byte(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t requests;
    } cases[] = {{"cat_spike", 31},
                 {"cpp_and_python_stacks", 171},
                 {"fragmented_cap2g_700m_request", 120},
                 {"gpt350m_amp_b4_t2048_cap12g", 462},
                 {"gpt_dynamic_length_60_steps", 28618},
                 {"gpt_dynamic_length_expandable", 28789},
                 {"mlp_leak_loss_history_40_steps", 2296},
                 {"pending_free_two_streams", 40},
                 {"ring_overflow_1000_entries", 320}};
    json_t *truth = read_truth(SNAPSHOTS "truth.json");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_snapshot *snapshot = read_recording(SNAPSHOTS, cases[i].name);
        assert_reproduced(snapshot, json_object_get(truth, cases[i].name));
        plm_replay_result result = replay(snapshot, &(plm_replay_case){.settings = NULL});
        assert_int_equal(result.addresses_total, cases[i].requests);
        plm_snapshot_destroy(snapshot);
    }
    json_decref(truth);
}

static void both_ranks_of_a_run_are_reproduced(void **state)
{
    (void)state;
    static const char *const names[] = {"fsdp2_rank0", "fsdp2_rank1"};
    for (int rank = 0; rank < 2; rank++) {
        char path[512];
        snprintf(path, sizeof path, RECORDINGS "%s.json", names[rank]);
        json_t *truth = read_truth(path);
        plm_snapshot *snapshot = read_recording(RECORDINGS, names[rank]);
        assert_reproduced(snapshot, truth);
        plm_snapshot_destroy(snapshot);
        json_decref(truth);
    }
}

static void other_settings_and_policies_are_measured(void **state)
{
    (void)state;
    plm_snapshot *snapshot = read_recording(SNAPSHOTS, "gpt_dynamic_length_60_steps");
    size_t recorded = replay(snapshot, &(plm_replay_case){0}).reserved_peak_bytes;
    plm_replay_result split = replay_settings(snapshot, "max_split_size_mb:128");
    plm_replay_result expandable = replay_settings(snapshot, "expandable_segments:True");
    plm_replay_result mapped = replay(snapshot, &(plm_replay_case){.policy = PLM_REPLAY_MAPPED});
    plm_replay_result bound = replay(snapshot, &(plm_replay_case){.policy = PLM_REPLAY_BOUND});
    assert_true(split.reserved_peak_bytes > 2 * recorded);
    assert_true(expandable.reserved_peak_bytes * 3 < recorded);
    assert_true(mapped.reserved_peak_bytes * 100 <= mapped.allocated_peak_bytes * 102);
    assert_true(bound.reserved_peak_bytes <= mapped.reserved_peak_bytes);
    assert_true(bound.reserved_peak_bytes <= mapped.allocated_peak_bytes);
    assert_int_equal(expandable.placed_first, 3);
    assert_string_equal(expandable.name, "expandable_segments:True");
    assert_string_equal(mapped.name, "mapped");
    plm_snapshot_destroy(snapshot);
}

static void expandable_segments_reserve_what_they_did(void **state)
{
    (void)state;
    plm_snapshot *snapshot = read_recording(SNAPSHOTS, "gpt_dynamic_length_expandable");
    plm_replay_result recorded = replay(snapshot, &(plm_replay_case){0});
    assert_int_equal(recorded.reserved_peak_bytes, 15109980160);
    assert_string_equal(recorded.name, "recorded settings: expandable_segments:True");
    /* Nothing was held before: the same settings given by name make the same decisions. */
    plm_replay_result named = replay_settings(snapshot, "expandable_segments:True");
    assert_int_equal(named.reserved_peak_bytes, 15109980160);
    assert_false(named.as_recorded);
    plm_snapshot_destroy(snapshot);
}

/* ---- made-up histories ---- */

enum { STEPS = 600, HELD_MAX = 48 };

#define CAPACITY (320 * MIB)

typedef struct random_work {
    test_recorder recorder;
    uint32_t seed;
    uint64_t index;
    uint32_t streams, pools;
    uint64_t held[HELD_MAX];
    int held_count;
    uint64_t pending[STEPS];
    int pending_count;
} random_work;

static void take_one(random_work *work)
{
    plm_pool_request request = {
        .bytes = recorder_draw_bytes(work->seed, &work->index),
        .stream = recorder_draw(work->seed, &work->index, work->streams),
        .private_pool = recorder_draw(work->seed, &work->index, work->pools),
    };
    plm_pool_grant grant;
    plm_status status = plm__pool_alloc(work->recorder.pool, &request, &grant);
    if (status == PLM_OK)
        work->held[work->held_count++] = grant.address;
    else
        assert_int_equal(status, PLM_ERROR_DEVICE_MEMORY);
}

static void give_one(random_work *work)
{
    int which = (int)recorder_draw(work->seed, &work->index, (uint32_t)work->held_count);
    uint64_t address = work->held[which];
    work->held[which] = work->held[--work->held_count];
    if (work->streams > 1 && recorder_draw(work->seed, &work->index, 4) == 0) {
        assert_ok(plm__pool_record_stream(work->recorder.pool, address, 99));
        work->pending[work->pending_count++] = address;
    }
    assert_ok(plm__pool_free(work->recorder.pool, address, NULL));
}

static void work_randomly(random_work *work)
{
    for (int step = 0; step < STEPS; step++) {
        uint32_t what = recorder_draw(work->seed, &work->index, 100);
        if (work->held_count == 0 || (what < 52 && work->held_count < HELD_MAX))
            take_one(work);
        else if (what < 98)
            give_one(work);
        else if (what < 99 && work->pending_count > 0)
            (void)!plm__pool_complete(work->recorder.pool, work->pending[--work->pending_count]);
        else if (what == 99 && step % 3 == 0)
            assert_ok(plm__pool_empty_cache(work->recorder.pool));
    }
}

static void assert_replays(random_work *work, const char *settings, int64_t lost)
{
    plm_snapshot *snapshot = recorder_snapshot(&work->recorder, lost);
    /* The capacity is the size of the reservation, which an expandable segment can come to fill. */
    plm_replay_result result = replay(snapshot, &(plm_replay_case){.capacity_bytes = CAPACITY});
    if (result.addresses_reproduced != result.addresses_total || !result.segments_reproduced)
        fail_msg("'%s', %u streams, %u pools, seed %u, %lld events lost: %lld of %lld addresses, "
                 "segments %s",
                 settings, work->streams, work->pools, work->seed, (long long)lost,
                 (long long)result.addresses_reproduced, (long long)result.addresses_total,
                 result.segments_reproduced ? "reproduced" : "differ");
    plm_pool_stats *stats = plm__pool_statistics(work->recorder.pool);
    const plm_pool_stat *reserved = &stats->of[PLM_POOL_RESERVED_BYTES][PLM_POOL_ALL];
    const plm_pool_stat *allocated = &stats->of[PLM_POOL_ALLOCATED_BYTES][PLM_POOL_ALL];
    assert_int_equal(result.reserved_bytes, reserved->current);
    assert_int_equal(result.allocated_bytes, allocated->current);
    if (lost == 0) {
        assert_int_equal(result.reserved_peak_bytes, reserved->peak);
        assert_int_equal(result.allocated_peak_bytes, allocated->peak);
        assert_int_equal(result.oom, stats->num_ooms);
    }
    plm_snapshot_destroy(snapshot);
}

/*
 * Where several streams have expandable segments, pages that are unmapped in the recording and in
 * use before it cannot always be told apart: only whole histories are held to it.
 */
static void any_history_is_reproduced_also_when_its_beginning_is_lost(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        uint32_t streams, pools;
    } cases[] = {{"", 1, 1},
                 {"", 3, 1},
                 {"", 2, 3},
                 {"max_split_size_mb:24", 2, 1},
                 {"roundup_power2_divisions:4", 1, 1},
                 {"expandable_segments:True", 1, 1},
                 {"expandable_segments:True", 3, 1}};
    static const int64_t lost_parts[] = {0, 1, 3, 7}; /* eighths of the events */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t seed = 1; seed <= 4; seed++) {
            random_work *work = calloc(1, sizeof *work);
            assert_non_null(work);
            work->seed = seed;
            work->streams = cases[i].streams;
            work->pools = cases[i].pools;
            recorder_begin(&work->recorder, CAPACITY, cases[i].settings);
            work_randomly(work);
            bool only_whole = cases[i].streams > 1 && work->recorder.settings.expandable_segments;
            size_t parts = only_whole ? 1 : sizeof lost_parts / sizeof *lost_parts;
            for (size_t part = 0; part < parts; part++)
                assert_replays(work, cases[i].settings,
                               work->recorder.events.count * lost_parts[part] / 8);
            recorder_end(&work->recorder);
            free(work);
        }
}

/* ---- the state at the start ---- */

/* The allocated peak of a history that begins behind the request for a block and ends behind its
 * free: what it took is not recorded. A block of `before` bytes was cached when it came. */
static size_t taken_by_held(const char *settings, size_t before, size_t bytes)
{
    plm_pool_grant grant;
    test_recorder recorder;
    recorder_begin(&recorder, GIB, settings);
    assert_ok(plm__pool_alloc(recorder.pool, &(plm_pool_request){.bytes = before}, &grant));
    assert_ok(plm__pool_free(recorder.pool, grant.address, NULL));
    assert_ok(plm__pool_alloc(recorder.pool, &(plm_pool_request){.bytes = bytes}, &grant));
    int64_t lost = recorder.events.count;
    assert_ok(plm__pool_free(recorder.pool, grant.address, NULL));
    plm_snapshot *snapshot = recorder_snapshot(&recorder, lost);
    recorder_end(&recorder);
    plm_replay_result result = replay(snapshot, &(plm_replay_case){.settings = NULL});
    plm_snapshot_destroy(snapshot);
    return result.allocated_peak_bytes;
}

static void a_block_held_at_the_start_takes_a_rest_of_a_mebibyte_and_no_more(void **state)
{
    (void)state;
    assert_int_equal(taken_by_held("", 20 * MIB, 19 * MIB), 20 * MIB);
    assert_int_equal(taken_by_held("", 20 * MIB, 19 * MIB - 512), 19 * MIB - 512);
    /* A block of the split size is not split, whatever is left of it. */
    assert_int_equal(taken_by_held("max_split_size_mb:20", 30 * MIB, 20 * MIB), 30 * MIB);
    assert_int_equal(taken_by_held("max_split_size_mb:21", 20 * MIB, 15 * MIB), 15 * MIB);
}

/* ---- private pools that events do not name ---- */

static bool choose_one_address(void *context, size_t bytes, uint64_t *address)
{
    (void)context, (void)bytes;
    *address = 64 * MIB;
    return true;
}

/* A segment is given back before a capture, and the driver gives its address to the capture: only
 * what is served from then on is of the capture's pool. */
static void a_private_pool_begins_when_its_segment_was_taken(void **state)
{
    (void)state;
    plm_pool_grant before, captured;
    test_recorder recorder;
    recorder_begin(&recorder, GIB, "");
    recorder.hides_pools = true;
    recorder.space.chooser = choose_one_address;
    assert_ok(plm__pool_alloc(recorder.pool, &(plm_pool_request){.bytes = 30 * MIB}, &before));
    assert_ok(plm__pool_free(recorder.pool, before.address, NULL));
    assert_ok(plm__pool_empty_cache(recorder.pool));
    const plm_pool_request request = {.bytes = 40 * MIB, .private_pool = 1};
    assert_ok(plm__pool_alloc(recorder.pool, &request, &captured));
    assert_int_equal(captured.address, before.address);
    plm_snapshot *snapshot = recorder_snapshot(&recorder, 0);
    recorder_end(&recorder);
    plm_replay_result result = replay(snapshot, &(plm_replay_case){.settings = NULL});
    plm_snapshot_destroy(snapshot);
    assert_int_equal(result.addresses_reproduced, 2);
    assert_int_equal(result.reserved_peak_bytes, 40 * MIB); /* not 70: the 30 had gone back */
    assert_true(result.segments_reproduced);
}

/* ---- settings that are not recorded ---- */

/* The size of shared segments that a recording under 40 MiB, which it does not say, shows. */
static size_t inferred_segment(size_t before, size_t bytes)
{
    plm_pool_grant grant;
    test_recorder recorder;
    recorder_begin(&recorder, GIB, "large_segment_size_mb:40");
    if (before > 0)
        assert_ok(plm__pool_alloc(recorder.pool, &(plm_pool_request){.bytes = before}, &grant));
    assert_ok(plm__pool_alloc(recorder.pool, &(plm_pool_request){.bytes = bytes}, &grant));
    recorder.settings.large_segment_bytes = PLM_POOL_SEGMENT_BYTES;
    plm_snapshot *snapshot = recorder_snapshot(&recorder, 0);
    recorder_end(&recorder);
    plm_pool_settings settings = plm__replay_recorded_settings(first_device(snapshot));
    plm_snapshot_destroy(snapshot);
    return settings.large_segment_bytes;
}

/* Requests above 1 and below 10 MiB share segments; others have segments of another size. */
static void the_size_of_shared_segments_is_inferred_from_a_request_that_shares_one(void **state)
{
    (void)state;
    static const struct {
        size_t bytes, segment;
    } cases[] = {{MIB, 20 * MIB},
                 {MIB + 1, 40 * MIB},
                 {10 * MIB - 512, 40 * MIB},
                 {10 * MIB - 511, 20 * MIB},
                 {10 * MIB, 20 * MIB}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(inferred_segment(0, cases[i].bytes), cases[i].segment);
    /* What shares none says nothing, also where it comes first. */
    assert_int_equal(inferred_segment(MIB, 4 * MIB), 40 * MIB);
    assert_int_equal(inferred_segment(12 * MIB, 4 * MIB), 40 * MIB);
    assert_int_equal(inferred_segment(10 * MIB - 511, 4 * MIB), 40 * MIB);
}

/* ---- true bytes, cases, failures ---- */

/* The failures that a replay told of, in order. */
typedef struct told_failures {
    int64_t count, last, restarts;
} told_failures;

static plm_status see_failure(void *context, const plm_replay_moment *moment)
{
    told_failures *told = context;
    assert_true(moment->event > told->last); /* each once */
    told->last = moment->event;
    told->count++;
    return PLM_OK;
}

static void see_restart(void *context)
{
    told_failures *told = context;
    *told = (told_failures){.last = -1, .restarts = told->restarts + 1};
}

static void a_guess_that_proves_wrong_tells_no_failure_twice(void **state)
{
    (void)state;
    random_work work = {.seed = 60, .streams = 1, .pools = 1};
    recorder_begin(&work.recorder, CAPACITY, "");
    work_randomly(&work);
    plm_snapshot *snapshot = recorder_snapshot(&work.recorder, work.recorder.events.count * 5 / 8);
    recorder_end(&work.recorder);
    told_failures told = {.last = -1};
    plm_replay_result result;
    plm_replay_job job = {.device = first_device(snapshot),
                          .as_recorded = true,
                          .capacity_bytes = CAPACITY,
                          .settings = plm__replay_recorded_settings(first_device(snapshot)),
                          .failed = see_failure,
                          .restarts = see_restart,
                          .context = &told};
    assert_ok(plm__replay_job_run(&job, &result));
    assert_int_equal(told.restarts, 1); /* else another seed is wanted */
    assert_int_equal(told.count, result.oom);

    plm_findings *findings = NULL;
    assert_ok(find_in(snapshot, (plm_findings_options){0}, &findings));
    assert_int_equal(findings->failure_count, result.oom);
    for (int64_t i = 1; i < findings->failure_count; i++)
        assert_true(findings->failures[i].event > findings->failures[i - 1].event);
    plm_findings_destroy(findings);
    plm_snapshot_destroy(snapshot);
}

static void a_trace_that_was_filled_has_the_allocated_peak(void **state)
{
    (void)state;
    plm_snapshot *snapshot = read_recording(SNAPSHOTS, "gpt_dynamic_length_60_steps");
    int64_t count;
    const plm_trace *trace = plm_snapshot_devices(snapshot, &count)->trace;
    assert_int_not_equal(plm_trace_find_peak(trace).bytes_taken, 11925858816);
    plm_replay_result result;
    assert_ok(plm_replay_fill_taken(snapshot, 0, &result));
    assert_int_equal(plm_trace_find_peak(trace).bytes_taken, 11925858816);
    assert_int_equal(result.allocated_peak_bytes, 11925858816);
    plm_snapshot_destroy(snapshot);
}

static void a_capacity_makes_requests_fail(void **state)
{
    (void)state;
    plm_snapshot *snapshot = read_recording(SNAPSHOTS, "fragmented_cap2g_700m_request");
    plm_replay_case wanted = {.settings = "", .capacity_bytes = 3 * GIB / 2};
    assert_true(replay(snapshot, &wanted).oom > 0);
    wanted.capacity_bytes = 0;
    assert_int_equal(replay(snapshot, &wanted).oom, 0);
    wanted = (plm_replay_case){.policy = PLM_REPLAY_MAPPED, .capacity_bytes = 2 * GIB};
    assert_int_equal(replay(snapshot, &wanted).oom, 0);
    plm_snapshot_destroy(snapshot);
}

static uint64_t take(test_recorder *recorder, size_t bytes)
{
    plm_pool_grant grant;
    assert_ok(plm__pool_alloc(recorder->pool, &(plm_pool_request){.bytes = bytes}, &grant));
    return grant.address;
}

/* Two segments of 20 MiB with 9 MiB free in front of each. Where the next 9 MiB go to the segment
 * that is emptied later, 15 MiB find no room and take 16 more. */
static void peaks_are_a_range_where_equal_blocks_are_chosen_by_address(void **state)
{
    (void)state;
    test_recorder recorder;
    plm_replay_spread spread;
    recorder_begin(&recorder, GIB, "");
    const uint64_t first = take(&recorder, 9 * MIB), behind = take(&recorder, 9 * MIB);
    const uint64_t second = take(&recorder, 9 * MIB);
    take(&recorder, 9 * MIB);
    assert_ok(plm__pool_free(recorder.pool, first, NULL));
    assert_ok(plm__pool_free(recorder.pool, second, NULL));
    assert_int_equal(take(&recorder, 9 * MIB), first); /* the lower one */
    assert_ok(plm__pool_free(recorder.pool, behind, NULL));
    take(&recorder, 15 * MIB);
    plm_snapshot *snapshot = recorder_snapshot(&recorder, 0);
    recorder_end(&recorder);
    assert_ok(plm_replay_spread_run(first_device(snapshot), &spread));
    assert_int_equal(spread.reserved_bytes, 56 * MIB);
    assert_int_equal(spread.low_reserved_bytes, 40 * MIB);
    assert_int_equal(spread.high_reserved_bytes, 56 * MIB);
    assert_int_equal(spread.low_allocated_bytes, 36 * MIB);
    assert_int_equal(spread.high_allocated_bytes, 36 * MIB);
    plm_snapshot_destroy(snapshot);
}

static void results_are_sorted_for_reading(void **state)
{
    (void)state;
    plm_replay_result results[] = {
        {.name = "bound", .policy = PLM_REPLAY_BOUND, .reserved_peak_bytes = 1},
        {.name = "fails", .oom = 1, .reserved_peak_bytes = 2},
        {.name = "large", .reserved_peak_bytes = 9},
        {.name = "small", .reserved_peak_bytes = 3},
        {.name = "recorded", .as_recorded = true, .reserved_peak_bytes = 20},
    };
    static const char *const wanted[] = {"recorded", "small", "large", "fails", "bound"};
    plm_replay_sort(results, 5);
    for (int i = 0; i < 5; i++)
        assert_string_equal(results[i].name, wanted[i]);
}

static void what_cannot_be_replayed_is_refused(void **state)
{
    (void)state;
    plm_replay_result result;
    plm_snapshot *snapshot = read_recording(SNAPSHOTS, "no_history_recorded");
    assert_int_equal(plm_replay_run(first_device(snapshot), &(plm_replay_case){0}, &result),
                     PLM_ERROR_UNSUPPORTED);
    assert_message_has("no history was recorded");
    plm_snapshot_destroy(snapshot);
    snapshot = read_recording(SNAPSHOTS, "cat_spike");
    assert_int_equal(plm_replay_fill_taken(snapshot, 1, &result), PLM_ERROR_ARGUMENT);
    assert_message_has("the snapshot has 1 devices, wanted number 1");
    assert_int_equal(plm_replay_run(first_device(snapshot),
                                    &(plm_replay_case){.settings = "max_splits:1"}, &result),
                     PLM_ERROR_FORMAT);
    assert_message_has("max_splits");
    assert_int_equal(plm_replay_run(first_device(snapshot),
                                    &(plm_replay_case){.settings = "backend:cudaMallocAsync"},
                                    &result),
                     PLM_ERROR_UNSUPPORTED);
    plm_snapshot_destroy(snapshot);
}

static void a_replay_without_host_memory_fails_cleanly(void **state)
{
    (void)state;
    plm_snapshot *snapshot = read_recording(SNAPSHOTS, "ring_overflow_1000_entries");
    static const plm_replay_case cases[] = {{0}, {.settings = ""}, {.policy = PLM_REPLAY_MAPPED}};
    for (size_t which = 0; which < sizeof cases / sizeof *cases; which++)
        for (int64_t n = 1;; n++) {
            plm_replay_result result = {.retries = 77};
            plm__host_fail_at(n, n % 2 == 0);
            plm_status status = plm_replay_run(first_device(snapshot), &cases[which], &result);
            bool fired = plm__host_fail_at(0, false);
            if (!fired) {
                assert_ok(status);
                break;
            }
            assert_int_equal(status, PLM_ERROR_HOST_MEMORY);
            assert_int_equal(result.retries, 77);
        }
    plm_snapshot_destroy(snapshot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_recordings_with_a_history_are_reproduced_to_the_byte),
        cmocka_unit_test(both_ranks_of_a_run_are_reproduced),
        cmocka_unit_test(other_settings_and_policies_are_measured),
        cmocka_unit_test(expandable_segments_reserve_what_they_did),
        cmocka_unit_test(any_history_is_reproduced_also_when_its_beginning_is_lost),
        cmocka_unit_test(a_block_held_at_the_start_takes_a_rest_of_a_mebibyte_and_no_more),
        cmocka_unit_test(a_private_pool_begins_when_its_segment_was_taken),
        cmocka_unit_test(the_size_of_shared_segments_is_inferred_from_a_request_that_shares_one),
        cmocka_unit_test(a_guess_that_proves_wrong_tells_no_failure_twice),
        cmocka_unit_test(a_trace_that_was_filled_has_the_allocated_peak),
        cmocka_unit_test(a_capacity_makes_requests_fail),
        cmocka_unit_test(peaks_are_a_range_where_equal_blocks_are_chosen_by_address),
        cmocka_unit_test(results_are_sorted_for_reading),
        cmocka_unit_test(what_cannot_be_replayed_is_refused),
        cmocka_unit_test(a_replay_without_host_memory_fails_cleanly),
    };
    return run_test_group(tests);
}
