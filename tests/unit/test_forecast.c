/* SPDX-License-Identifier: MIT */
/* What a forecast reads: what a rank left, an argument to vary, and what sizes depend on. */
#include "unit/test.h"

#include "base/file.h"
#include "device/device_files.h"
#include "plimsoll/forecast.h"
#include "plimsoll/replay.h"
#include "plimsoll/snapshot.h"

#define CORPUS PLM_SOURCE_DIR "/tests/fuzz/corpus/forecast_rank/"

/* The text of a file under the sources, ended by a NUL; freed with plm__host_free. */
static char *text_of(const char *path)
{
    plm_file file;
    char *text = NULL;
    assert_ok(plm__file_map(path, &file));
    assert_ok(plm__host_alloc(file.byte_count + 1, &text));
    memcpy(text, file.bytes, file.byte_count);
    plm__file_unmap(&file);
    return text;
}

static plm_status read_rank(const char *text, plm_forecast_rank *rank)
{
    return plm_forecast_rank_read("the rank", text, strlen(text), rank);
}

static void all_that_a_rank_left_is_read(void **state)
{
    (void)state;
    char *text = text_of(CORPUS "whole.json");
    plm_forecast_rank rank = {0};
    assert_ok(read_rank(text, &rank));
    assert_string_equal(rank.torch, "2.11.0+cu130");
    assert_string_equal(rank.line, "train.py:41");
    assert_string_equal(rank.attention, "cudnn");
    assert_null(rank.error);
    assert_int_equal(rank.ended, PLM_FORECAST_STEPS);
    assert_true(rank.cudnn);
    assert_int_equal(rank.step_count, 1);
    assert_int_equal(rank.steps[0].reserved_bytes, 10259267584);
    assert_int_equal(rank.evaluations[0].reserved_bytes, 2);
    assert_int_equal(rank.end.allocated_bytes, 1);
    assert_int_equal(rank.allocated_bytes, 3);
    assert_int_equal(rank.reserved_bytes, 4);
    assert_string_equal(rank.skipped[0], "best.pt");
    assert_int_equal(rank.warning_count, 2);
    assert_string_equal(rank.warnings[0].line, "b:1");
    assert_null(rank.warnings[1].line);
    assert_int_equal(rank.ranges[0].high_reserved_bytes, 4);
    plm_forecast_rank_fini(&rank);
    plm__host_free(text);
}

/* One rank with this recording and these peaks: how many ranges are found? */
static int64_t ranges_found(char *recording, size_t allocated, size_t reserved,
                            plm_forecast_range *range)
{
    plm_forecast_rank rank = {.recording = recording,
                              .allocated_bytes = allocated,
                              .reserved_bytes = reserved,
                              .ended = PLM_FORECAST_STEPS,
                              .ranges = range};
    plm_forecast_result result = {.ranks = &rank, .rank_count = 1};
    assert_ok(plm_forecast_find_addresses(&result));
    return rank.range_count;
}

static void a_range_by_addresses_is_told_where_the_recording_comes_to_the_figures(void **state)
{
    (void)state;
    static char dynamic[] =
        PLM_SOURCE_DIR "/tests/data/snapshots/gpt_dynamic_length_60_steps.pickle.xz";
    static char spike[] = PLM_SOURCE_DIR "/tests/data/snapshots/cat_spike.pickle.xz";
    static char missing[] = "no such recording";
    plm_forecast_range range = {0};
    const size_t allocated = 11925858816, reserved = 45759856640;
    assert_int_equal(ranges_found(dynamic, allocated, reserved, &range), 1);
    assert_true(range.low_reserved_bytes <= reserved && reserved <= range.high_reserved_bytes);
    assert_true(range.low_reserved_bytes < range.high_reserved_bytes);
    assert_int_equal(ranges_found(dynamic, allocated, reserved + 1, &range), 0);
    assert_int_equal(ranges_found(dynamic, allocated + 1, reserved, &range), 0);
    /* Where addresses move nothing, and where nothing can be read. */
    assert_int_equal(ranges_found(spike, 12884915200, 12886999040, &range), 0);
    assert_int_equal(ranges_found(missing, 1, 1, &range), 0);
}

/* A copy of the text in which the first `old` is `new`. */
static char *changed(const char *text, const char *old, const char *new)
{
    const char *place = strstr(text, old);
    char *copy = NULL;
    const size_t room = strlen(text) + strlen(new) + 1;
    assert_non_null(place);
    assert_ok(plm__host_alloc(room, &copy));
    snprintf(copy, room, "%.*s%s%s", (int)(place - text), text, new, place + strlen(old));
    return copy;
}

static void a_rank_of_another_kind_is_refused_with_its_key(void **state)
{
    (void)state;
    static const struct {
        const char *old, *new, *told;
    } cases[] = {
        {"\"2.11.0+cu130\"", "7", "wanted torch as a text"},
        {"\"torch\"", "\"torches\"", "wanted the text torch"},
        {"\"rank\": 0", "\"rank\": -1", "wanted rank as a whole number"},
        {"\"ended\": \"steps\"", "\"ended\": \"tired\"", "unknown end 'tired'"},
        {"\"reserved_bytes\": 10259267584", "\"reserved_bytes\": 1.5", "wanted reserved_bytes"},
        {"\"seconds\": 1.9", "\"seconds\": \"1\"", "wanted seconds as a number"},
        {"\"peak\"", "\"peaks\"", "wanted allocated_bytes as a whole number"},
        {"[\"best.pt\"]", "[[]]", "wanted skipped_writes as texts"},
        {"[\"best.pt\"]", "{}", "wanted skipped_writes as a list"},
        {"\"low_allocated_bytes\": 1", "\"low\": 1", "wanted low_allocated_bytes"},
    };
    char *text = text_of(CORPUS "whole.json");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bad = changed(text, cases[i].old, cases[i].new);
        plm_forecast_rank rank = {0};
        plm_error error;
        assert_int_equal(read_rank(bad, &rank), PLM_ERROR_FORMAT);
        plm_error_get(&error);
        if (!strstr(error.message, cases[i].told))
            fail_msg("wanted '%s', found '%s'", cases[i].told, error.message);
        assert_null(rank.document);
        plm__host_free(bad);
    }
    plm__host_free(text);
}

static plm_status read_whole(void *context)
{
    plm_forecast_rank rank = {0};
    plm_status status = read_rank(context, &rank);
    plm_forecast_rank_fini(&rank);
    return status;
}

static void a_failed_allocation_leaves_nothing(void **state)
{
    (void)state;
    char *text = text_of(CORPUS "whole.json");
    sweep_failures(read_whole, text);
    plm__host_free(text);
}

static void an_argument_to_vary_is_a_name_and_two_ends(void **state)
{
    (void)state;
    plm_forecast_vary vary = {.user = NULL};
    assert_ok(plm_forecast_vary_parse("batch=1..64", &vary));
    assert_string_equal(vary.name, "batch");
    assert_int_equal(vary.least, 1);
    assert_int_equal(vary.most, 64);
    assert_ok(plm_forecast_vary_parse("--train.per_device=0..9223372036854775807", &vary));
    assert_string_equal(vary.name, "train.per_device");
    assert_int_equal(vary.most, INT64_MAX);
    static const char *const bad[] = {
        "",           "batch", "batch=",  "batch=1",     "batch=1..",   "batch=..4",
        "batch=4..1", "=1..4", "b=1..4 ", "batch=-1..4", "batch=1...4", "b=1..9999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(plm_forecast_vary_parse(bad[i], &vary), PLM_ERROR_ARGUMENT);
        assert_string_equal(vary.name, "train.per_device");
    }
}

/* Frames of the files that watch a script stand inside those of the script. */
static void a_block_belongs_to_the_scripts_line_not_to_the_files_that_watch_it(void **state)
{
    (void)state;
    static const char text[] =
        "{\"segments\": [], \"device_traces\": [[{\"action\": \"alloc\", \"addr\": 4096, \"size\": "
        "512,"
        " \"stream\": 0, \"time_us\": 1, \"frames\": ["
        "{\"filename\": \"/tmp/plimsoll-a/plimsoll_forecast/values.py\", \"line\": 65,"
        " \"name\": \"__torch_function__\"},"
        "{\"filename\": \"/home/me/train.py\", \"line\": 41, \"name\": \"forward\"}]}]]}";
    plm_snapshot *snapshot = NULL;
    int64_t count;
    assert_ok(plm_snapshot_read_bytes("the snapshot", text, sizeof text - 1, &snapshot));
    const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &count);
    assert_int_equal(count, 1);
    const plm_owner *owners = plm_trace_owners(devices[0].trace, &count);
    assert_int_equal(count, 1);
    assert_string_equal(plm_trace_text(devices[0].trace, owners[0].op),
                        "forward /home/me/train.py:41");
    plm_snapshot_destroy(snapshot);
}

/* ---- what sizes depend on ---- */

static void every_gpu_that_travels_says_what_sizes_depend_on(void **state)
{
    (void)state;
    const char *name;
    for (int i = 0; (name = plm__device_profile_name(i)); i++) {
        plm_device_profile device;
        assert_ok(plm_device_profile_find(name, &device));
        if (device.kind != PLM_DEVICE_CUDA) {
            assert_int_equal(device.gpu.capability, 0);
            continue;
        }
        assert_true(device.gpu.capability >= 75);
        assert_true(device.gpu.name[0] && device.gpu.source[0]);
        assert_true(device.gpu.context_bytes <= device.gpu.context_cudnn_bytes);
        assert_true((size_t)device.gpu.context_cudnn_bytes < device.memory_bytes);
        assert_true(device.gpu.shared_bytes_per_block_optin <=
                    device.gpu.shared_bytes_per_multiprocessor);
        /* Only one card was at hand. */
        assert_true((strcmp(name, "h200") == 0) == !strstr(device.gpu.source, "not read from"));
    }
}

static void a_gpu_with_a_field_too_few_or_of_another_kind_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *old, *new, *told;
    } cases[] = {
        {"\"l2_bytes\": 62914560,", "", "lacks gpu.l2_bytes"},
        {"\"l2_bytes\"", "\"l3_bytes\"", "unknown field gpu.l3_bytes"},
        {"\"multiprocessors\": 132", "\"multiprocessors\": 0", "whole number of 1 to 4096"},
        {"\"multiprocessors\": 132", "\"multiprocessors\": 4097", "whole number of 1 to 4096"},
        {"\"capability\": 90", "\"capability\": 9.0", "wanted gpu.capability"},
        {"\"NVIDIA H200\"", "\"NVIDIA\\nH200\"", "wanted gpu.name as a text of one line"},
        {"\"name\": \"NVIDIA H200\",", "", "lacks gpu.name"},
    };
    char *text = text_of(PLM_SOURCE_DIR "/data/devices/h200.json");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bad = changed(text, cases[i].old, cases[i].new);
        plm_device_profile device;
        plm_error error;
        assert_int_equal(plm__device_profile_read("it", bad, strlen(bad), &device),
                         PLM_ERROR_ARGUMENT);
        plm_error_get(&error);
        if (!strstr(error.message, cases[i].told))
            fail_msg("wanted '%s', found '%s'", cases[i].told, error.message);
        plm__host_free(bad);
    }
    char *good = changed(text, "\"multiprocessors\": 132", "\"multiprocessors\": 4096");
    plm_device_profile device;
    assert_ok(plm__device_profile_read("it", good, strlen(good), &device));
    assert_int_equal(device.gpu.multiprocessors, 4096);
    plm__host_free(good);
    plm__host_free(text);
}

static void a_profile_that_is_written_keeps_its_gpu(void **state)
{
    (void)state;
    plm_device_profile device, again;
    char *line = NULL;
    assert_ok(plm_device_profile_find("l4", &device));
    assert_ok(plm_device_profile_json(&device, &line));
    assert_ok(plm__device_profile_read("again", line, strlen(line), &again));
    assert_memory_equal(&device.gpu, &again.gpu, sizeof device.gpu);
    plm_free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_a_rank_left_is_read),
        cmocka_unit_test(a_range_by_addresses_is_told_where_the_recording_comes_to_the_figures),
        cmocka_unit_test(a_rank_of_another_kind_is_refused_with_its_key),
        cmocka_unit_test(a_failed_allocation_leaves_nothing),
        cmocka_unit_test(an_argument_to_vary_is_a_name_and_two_ends),
        cmocka_unit_test(a_block_belongs_to_the_scripts_line_not_to_the_files_that_watch_it),
        cmocka_unit_test(every_gpu_that_travels_says_what_sizes_depend_on),
        cmocka_unit_test(a_gpu_with_a_field_too_few_or_of_another_kind_is_refused),
        cmocka_unit_test(a_profile_that_is_written_keeps_its_gpu),
    };
    return run_test_group(tests);
}
