/* SPDX-License-Identifier: MIT */
/* torch/snapshot: real recordings against their true figures, and every oddity of the format. */
#include "unit/torch.h"

#include "base/file.h"
#include "base/json.h"

static const plm_snapshot_device *only_device(const plm_snapshot *snapshot)
{
    int64_t count;
    const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &count);
    assert_int_equal(count, 1);
    return devices;
}

static void assert_truth(const json_t *truth, const char *key, uint64_t found)
{
    const json_t *value = json_object_get(truth, key);
    if (value && (uint64_t)json_integer_value(value) != found)
        fail_msg("%s: wanted %lld, found %llu", key, (long long)json_integer_value(value),
                 (unsigned long long)found);
}

static void compare_with_truth(const char *name, const json_t *truth)
{
    char path[512];
    snprintf(path, sizeof path, SNAPSHOTS "%s.pickle.xz", name);
    plm_snapshot *snapshot = NULL;
    assert_ok(plm_snapshot_read(path, &snapshot));
    const plm_snapshot_device *device = only_device(snapshot);
    size_t pending = json_object_get(truth, "pending_blocks") ? 0 : device->allocated_bytes;
    assert_truth(truth, "allocated", device->allocated_bytes);
    assert_truth(truth, "active", device->active_bytes);
    assert_truth(truth, "reserved", device->reserved_bytes);
    assert_truth(truth, "inactive_split", device->inactive_split_bytes);
    assert_truth(truth, "segments", (uint64_t)device->segment_count);
    assert_truth(truth, "trace_entries", (uint64_t)device->trace_entries);
    assert_truth(truth, "ooms", (uint64_t)device->oom_events);
    assert_truth(truth, "pending_blocks", (uint64_t)device->pending_free_blocks);
    if (pending)
        assert_int_equal(device->active_bytes, pending);
    assert_true(device->history.recorded == (device->trace_entries > 0));
    assert_int_equal(device->history.unrecorded_frees, 0);
    plm_snapshot_destroy(snapshot);
}

static void the_figures_of_ten_recordings_are_true_to_the_byte(void **state)
{
    (void)state;
    plm_file file;
    json_t *truth = NULL;
    assert_ok(plm__file_map(SNAPSHOTS "truth.json", &file));
    assert_ok(plm__json_read("truth.json", file.bytes, file.byte_count, &truth));
    plm__file_unmap(&file);
    assert_int_equal(json_object_size(truth), 10);
    const char *name;
    json_t *figures;
    json_object_foreach (truth, name, figures)
        compare_with_truth(name, figures);
    json_decref(truth);
}

static void what_a_history_lacks_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool recorded, complete;
        int64_t older_blocks, older_freed, older_segments;
    } cases[] = {{"cat_spike", true, true, 0, 0, 0},
                 {"cpp_and_python_stacks", true, true, 0, 0, 0},
                 {"gpt_dynamic_length_expandable", true, true, 0, 0, 0},
                 {"gpt_dynamic_length_60_steps", true, false, 3, 0, 3},
                 {"ring_overflow_1000_entries", true, false, 103, 40, 29},
                 {"no_history_recorded", false, false, 6, 0, 10}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        snprintf(path, sizeof path, SNAPSHOTS "%s.pickle.xz", cases[i].name);
        plm_snapshot *snapshot = NULL;
        assert_ok(plm_snapshot_read(path, &snapshot));
        const plm_snapshot_history *history = &only_device(snapshot)->history;
        assert_int_equal(history->recorded, cases[i].recorded);
        assert_int_equal(history->complete, cases[i].complete);
        assert_int_equal(history->older_blocks, cases[i].older_blocks);
        assert_int_equal(history->older_freed, cases[i].older_freed);
        assert_int_equal(history->older_segments, cases[i].older_segments);
        plm_snapshot_destroy(snapshot);
    }
}

/* Bytes asked of what lives after the last event. */
static size_t live_at_end(const plm_trace *trace)
{
    int64_t count, live_count, *live = NULL;
    const plm_event *events = plm_trace_events(trace, &count);
    assert_ok(plm_trace_live_at(trace, count - 1, &live, &live_count));
    size_t bytes = 0;
    for (int64_t i = 0; i < live_count; i++)
        bytes += events[live[i]].bytes_asked;
    plm_free(live);
    return bytes;
}

static void every_trace_ends_in_the_recorded_state(void **state)
{
    (void)state;
    static const char *const names[] = {"cat_spike",
                                        "cpp_and_python_stacks",
                                        "fragmented_cap2g_700m_request",
                                        "gpt350m_amp_b4_t2048_cap12g",
                                        "gpt_dynamic_length_60_steps",
                                        "gpt_dynamic_length_expandable",
                                        "mlp_leak_loss_history_40_steps",
                                        "no_history_recorded",
                                        "pending_free_two_streams",
                                        "ring_overflow_1000_entries"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, SNAPSHOTS "%s.pickle.xz", names[i]);
        plm_snapshot *snapshot = NULL;
        assert_ok(plm_snapshot_read(path, &snapshot));
        const plm_snapshot_device *device = only_device(snapshot);
        assert_int_equal(live_at_end(device->trace), device->asked_bytes);
        plm_snapshot_destroy(snapshot);
    }
}

static void blocks_of_the_state_name_their_events_and_stacks(void **state)
{
    (void)state;
    plm_snapshot *snapshot = NULL;
    assert_ok(plm_snapshot_read(SNAPSHOTS "cat_spike.pickle.xz", &snapshot));
    const plm_snapshot_device *device = only_device(snapshot);
    int64_t block_count = device->block_count, event_count, owner_count, found = 0;
    const plm_snapshot_block *blocks = device->blocks;
    const plm_event *events = plm_trace_events(device->trace, &event_count);
    const plm_owner *owners = plm_trace_owners(device->trace, &owner_count);
    for (int64_t i = 0; i < event_count; i++)
        for (int64_t k = 0; k < block_count; k++)
            if (events[i].kind == PLM_EVENT_BLOCK_ALLOC && events[i].block == blocks[k].block) {
                assert_int_equal(events[i].address, blocks[k].address);
                assert_int_equal(events[i].bytes_asked, blocks[k].bytes_asked);
                assert_int_equal(events[i].owner, blocks[k].owner);
                found++;
            }
    assert_int_equal(found, 13); /* 31 were given out, 18 came back */
    assert_int_equal(owner_count, 2);
    assert_int_equal(plm_trace_stack_depth(device->trace, owners[0].frames), 2);
    plm_frame frame = plm_trace_stack_frame(device->trace, owners[0].frames, 0);
    assert_string_equal(plm_trace_text(device->trace, frame.function), "catspike");
    assert_string_equal(plm_trace_text(device->trace, frame.file), "snapshots_torch.py");
    assert_int_equal(frame.line, 161);
    assert_string_equal(plm_trace_text(device->trace, owners[0].op),
                        "catspike snapshots_torch.py:161");
    plm_snapshot_destroy(snapshot);
}

static void settings_and_annotations_are_read(void **state)
{
    (void)state;
    plm_snapshot *snapshot = NULL;
    assert_ok(plm_snapshot_read(SNAPSHOTS "gpt_dynamic_length_expandable.pickle.xz", &snapshot));
    const plm_snapshot_settings *settings = only_device(snapshot)->settings;
    assert_true(settings->recorded);
    assert_true(settings->expandable_segments);
    assert_int_equal(settings->max_split_bytes, SIZE_MAX);
    const plm_snapshot_annotation *annotations = only_device(snapshot)->annotations;
    assert_int_equal(only_device(snapshot)->annotation_count, 240);
    assert_false(annotations[0].ends);
    assert_true(annotations[1].ends);
    assert_string_equal(annotations[0].name, annotations[1].name);
    assert_true(annotations[1].time > annotations[0].time);
    plm_snapshot_destroy(snapshot);
}

static void each_rank_has_its_device(void **state)
{
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        char path[512];
        snprintf(path, sizeof path, PLM_SOURCE_DIR "/tests/data/recordings/fsdp2_rank%d.pickle.xz",
                 rank);
        plm_snapshot *snapshot = NULL;
        assert_ok(plm_snapshot_read(path, &snapshot));
        const plm_snapshot_device *device = only_device(snapshot);
        assert_int_equal(device->device, rank);
        assert_int_equal(device->allocated_bytes, 1294811136);
        assert_int_equal(device->reserved_bytes, rank == 0 ? 6530531328 : 8975810560);
        assert_int_equal(device->trace_entries, rank == 0 ? 6546 : 6549);
        plm_snapshot_destroy(snapshot);
    }
}

/* Oddities, each in a few lines of the JSON form. */

#define SEGMENT_START                                                                              \
    "{\"segments\": [{\"device\": 0, \"address\": 4096, \"total_size\": 4096, \"blocks\": ["
#define BLOCK(rest)    "{\"size\": 1024, " rest "}"
#define TRACE(entries) "{\"device_traces\": [[" entries "]]}"
#define ALLOC(address) "{\"action\": \"alloc\", \"addr\": " address ", \"size\": 100}"

static void a_state_of_an_old_version_is_filled_in(void **state)
{
    (void)state;
    plm_snapshot *snapshot = read_json(SEGMENT_START BLOCK("\"state\": \"inactive\"") "," BLOCK(
        "\"state\": \"active_awaiting_free\", "
        "\"requested_size\": 1000") "," BLOCK("\"state\": \"active_allocated\", \"history\": "
                                              "[{\"addr\": 6144, \"real_size\": "
                                              "700,"
                                              "\"frames\": [{\"name\": \"f\", \"filename\": "
                                              "\"m.py\", \"line\": 3}]}, "
                                              "{\"addr\": 6144, \"real_size\": 9, \"frames\": "
                                              "[]}]") "]}]}");
    const plm_snapshot_device *device = only_device(snapshot);
    assert_int_equal(device->allocated_bytes, 1024);
    assert_int_equal(device->active_bytes, 2048);
    assert_int_equal(device->asked_bytes, 1700);
    assert_int_equal(device->reserved_bytes, 4096);
    assert_int_equal(device->inactive_split_bytes, 1024);
    assert_int_equal(device->pending_free_blocks, 1);
    int64_t count;
    const plm_snapshot_block *blocks = device->blocks;
    assert_int_equal(device->block_count, 3);
    assert_int_equal(blocks[2].address, 4096 + 2048);
    const plm_owner *owners = plm_trace_owners(device->trace, &count);
    assert_string_equal(plm_trace_text(device->trace, owners[blocks[2].owner].op), "f m.py:3");
    assert_false(only_device(snapshot)->settings->recorded);
    plm_snapshot_destroy(snapshot);
}

static void a_list_of_segments_alone_is_a_snapshot(void **state)
{
    (void)state;
    plm_snapshot *snapshot =
        read_json("[{\"device\": 3, \"address\": 8192, \"total_size\": 512, \"blocks\": []},"
                  " {\"device\": 1, \"address\": -4096, \"total_size\": 256, \"blocks\": []}]");
    int64_t count;
    const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &count);
    assert_int_equal(count, 2);
    assert_int_equal(devices[0].device, 1);
    assert_int_equal(devices[1].device, 3);
    assert_int_equal(devices[0].segments[0].address, (uint64_t)-4096);
    plm_snapshot_destroy(snapshot);
}

static void a_snapshot_of_nothing_has_no_devices(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"segments\": [], \"device_traces\": [[], []]}",
                                        "{\"device_traces\": []}", "[]", "{\"segments\": null}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        plm_snapshot *snapshot = read_json(texts[i]);
        int64_t count;
        plm_snapshot_devices(snapshot, &count);
        assert_int_equal(count, 0);
        plm_snapshot_destroy(snapshot);
    }
}

static void entries_without_times_are_numbered_and_odd_ones_are_kept(void **state)
{
    (void)state;
    plm_snapshot *snapshot = read_json(
        TRACE("{\"action\": \"alloc\", \"addr\": 18446744073709551104, \"size\": 5, \"stream\": "
              "9223372036854775808, \"pool_id\": [0, 7], \"user_metadata\": \"kv cache\"},"
              "{\"action\": \"oom\", \"size\": 512, \"device_free\": 3},"
              "{\"action\": \"annotate\", \"user_metadata\": \"epoch 2\"},"
              "{\"action\": \"teleport\"},"
              "{\"action\": \"snapshot\", \"addr\": 0, \"size\": 5}"));
    const plm_snapshot_device *device = only_device(snapshot);
    assert_false(device->history.timed);
    assert_int_equal(device->oom_events, 1);
    int64_t count;
    const plm_event *events = plm_trace_events(device->trace, &count);
    assert_int_equal(count, 5);
    assert_int_equal(events[4].time, 4);
    assert_int_equal(events[0].address, 18446744073709551104u);
    assert_int_equal(device->streams[events[0].queue], 9223372036854775808u);
    assert_int_equal(device->pools[events[0].pool][1], 7);
    const plm_owner *owners = plm_trace_owners(device->trace, &count);
    assert_string_equal(plm_trace_text(device->trace, owners[events[0].owner].name), "kv cache");
    assert_int_equal(events[1].bytes_asked, 512);
    assert_int_equal(events[1].bytes_taken, 3);
    assert_string_equal(plm_trace_text(device->trace, events[2].label), "epoch 2");
    assert_int_equal(events[3].kind, PLM_EVENT_MARK);
    assert_string_equal(plm_trace_text(device->trace, events[3].label), "teleport");
    plm_snapshot_destroy(snapshot);
}

static void times_that_fall_are_held_level(void **state)
{
    (void)state;
    plm_snapshot *snapshot =
        read_json(TRACE("{\"action\": \"alloc\", \"addr\": 512, \"size\": 1, \"time_us\": 20},"
                        "{\"action\": \"alloc\", \"addr\": 1024, \"size\": 1, \"time_us\": 10},"
                        "{\"action\": \"alloc\", \"addr\": 2048, \"size\": 1}"));
    int64_t count;
    const plm_event *events = plm_trace_events(only_device(snapshot)->trace, &count);
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(events[i].time, 20000);
    plm_snapshot_destroy(snapshot);
}

/* kinds: one letter an event: A alloc, R free requested, F free, in the order of the trace. */
static void assert_trace(const char *json, const char *kinds, const char *blocks)
{
    plm_snapshot *snapshot = read_json(json);
    int64_t count;
    const plm_event *events = plm_trace_events(only_device(snapshot)->trace, &count);
    assert_int_equal(count, (int64_t)strlen(kinds));
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal("ARF"[events[i].kind - PLM_EVENT_BLOCK_ALLOC], kinds[i]);
        assert_int_equal('0' + events[i].block, blocks[i]);
    }
    plm_snapshot_destroy(snapshot);
}

#define REQUESTED(address) "{\"action\": \"free_requested\", \"addr\": " address ", \"size\": 100}"
#define COMPLETED(address) "{\"action\": \"free_completed\", \"addr\": " address ", \"size\": 100}"

static void events_are_paired_and_what_is_missing_is_put_in(void **state)
{
    (void)state;
    /* whole */
    assert_trace(TRACE(ALLOC("512") "," REQUESTED("512") "," COMPLETED("512") "," ALLOC("512")),
                 "ARFA", "0001");
    /* an older block comes back: its birth is put in front */
    assert_trace(TRACE(ALLOC("512") "," COMPLETED("1024") "," COMPLETED("512")), "AAFF", "1010");
    assert_trace(TRACE(REQUESTED("512") "," COMPLETED("512")), "ARF", "000");
    /* completed frees are not recorded: the request stands for the whole */
    assert_trace(TRACE(ALLOC("512") "," REQUESTED("512") "," ALLOC("512")), "AFA", "001");
    /* no frees are recorded: one is put in before the address is given again */
    assert_trace(TRACE(ALLOC("512") "," ALLOC("1024") "," ALLOC("512") "," ALLOC("512")), "AAFAFA",
                 "010223");
}

static void blocks_that_the_state_does_not_hold_are_gone(void **state)
{
    (void)state;
    plm_snapshot *snapshot = read_json(
        "{\"segments\": [{\"device\": 0, \"address\": 512, \"total_size\": 1024, \"blocks\": ["
        "{\"size\": 512, \"state\": \"active_allocated\", \"requested_size\": 100},"
        "{\"size\": 512, \"state\": \"inactive\"}]}],"
        "\"device_traces\": [[" ALLOC("512") "," ALLOC("1024") "]]}");
    const plm_snapshot_device *device = only_device(snapshot);
    assert_int_equal(device->history.unrecorded_frees, 1);
    assert_int_equal(device->history.older_segments, 1);
    assert_int_equal(device->carried_in, 1);
    assert_false(device->history.complete);
    assert_int_equal(live_at_end(device->trace), 100);
    plm_snapshot_destroy(snapshot);
}

static void mapped_bytes_that_no_event_tells_of_are_older(void **state)
{
    (void)state;
    plm_snapshot *snapshot = read_json(
        "{\"segments\": [{\"device\": 0, \"address\": 512, \"total_size\": 4096,"
        "\"is_expandable\": true, \"blocks\": [{\"size\": 4096, \"state\": \"inactive\"}]}],"
        "\"device_traces\": [[{\"action\": \"segment_map\", \"addr\": 2560, \"size\": 2048}]]}");
    const plm_snapshot_device *device = only_device(snapshot);
    assert_int_equal(device->history.older_segments, 1);
    int64_t count;
    const plm_event *events = plm_trace_events(device->trace, &count);
    assert_int_equal(count, 2);
    assert_int_equal(events[0].kind, PLM_EVENT_SEGMENT_MAP);
    assert_int_equal(events[0].bytes_taken, 2048);
    assert_int_equal(device->inactive_split_bytes, 0);
    plm_snapshot_destroy(snapshot);
}

static void devices_that_share_entries_get_a_copy_each(void **state)
{
    (void)state;
    /* {"device_traces": [[e, e], [e]]}: the same entry three times, through the memo */
    static const char entry[] = "}\x94(U\x06"
                                "actionU\x05"
                                "allocU\x04"
                                "addrM\x00\x02U\x04"
                                "sizeK\x64u";
    plm_text bytes = {0};
    static const char start[] = "\x80\x04}U\x0d"
                                "device_traces](](";
    plm__text_add_bytes(&bytes, start, sizeof start - 1);
    plm__text_add_bytes(&bytes, entry, sizeof entry - 1);
    plm__text_add_bytes(&bytes,
                        "h\x00"
                        "e](h\x00"
                        "ees.",
                        11);
    plm_snapshot *snapshot = NULL;
    assert_ok(plm_snapshot_read_bytes("bytes", bytes.items, (size_t)bytes.count, &snapshot));
    int64_t count;
    const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &count);
    assert_int_equal(count, 2);
    assert_int_equal(devices[0].trace_entries, 2);
    assert_int_equal(devices[1].trace_entries, 1);
    const plm_event *events = plm_trace_events(devices[1].trace, &count);
    assert_int_equal(events[0].address, 512);
    assert_int_equal(events[0].device, 1);
    plm_snapshot_destroy(snapshot);
    plm__text_fini(&bytes);
}

static void segments_that_share_blocks_get_a_copy_each(void **state)
{
    (void)state;
    /* [{"blocks": [b], "device": 0}, {"blocks": the same list, "device": 1}] */
    static const char bytes[] = "\x80\x04](}(U\x06"
                                "blocks]\x94}(U\x05"
                                "stateU\x10"
                                "active_allocatedU\x04"
                                "sizeK\x64U\x06"
                                "frames]}U\x08"
                                "filenameU\x01"
                                "fsauaU\x06"
                                "deviceK\x00u}(U\x06"
                                "blocksh\x00U\x06"
                                "deviceK\x01ue.";
    plm_snapshot *snapshot = NULL;
    assert_ok(plm_snapshot_read_bytes("bytes", bytes, sizeof bytes - 1, &snapshot));
    int64_t count;
    const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &count);
    assert_int_equal(count, 2);
    const plm_snapshot_block *blocks = devices[0].blocks;
    assert_int_equal(devices[0].block_count, 2);
    assert_int_equal(blocks[0].owner, 0);
    assert_int_equal(blocks[1].owner, 0);
    plm_snapshot_destroy(snapshot);
}

static void two_devices_keep_their_own_histories(void **state)
{
    (void)state;
    plm_snapshot *snapshot = read_json("{\"device_traces\": [[" ALLOC("512") "], [], [" ALLOC(
        "1024") "," ALLOC("2048") "]], \"trace_alloc_overflowed\": [false, false, true]}");
    int64_t count;
    const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &count);
    assert_int_equal(count, 2);
    assert_int_equal(devices[1].device, 2);
    assert_false(devices[0].history.overflowed);
    assert_true(devices[1].history.overflowed);
    assert_false(devices[1].history.complete);
    const plm_event *events = plm_trace_events(devices[1].trace, &count);
    assert_int_equal(count, 2);
    assert_int_equal(events[1].address, 2048);
    events = plm_trace_events(devices[0].trace, &count);
    assert_int_equal(count, 1);
    plm_snapshot_destroy(snapshot);
}

static void texts_that_are_no_utf8_are_cleaned(void **state)
{
    (void)state;
    plm_snapshot *snapshot =
        read_json("{\"device_traces\": [[{\"action\": \"alloc\", \"addr\": 512, \"size\": 1, "
                  "\"user_metadata\": \"a\\udc80b\\u0000\xff\xc3\xa9\"}]]}");
    int64_t count;
    const plm_trace *trace = only_device(snapshot)->trace;
    const plm_owner *owners = plm_trace_owners(trace, &count);
#define REPLACED "\xef\xbf\xbd"
    assert_string_equal(plm_trace_text(trace, owners[0].name),
                        "a" REPLACED REPLACED REPLACED "b" REPLACED REPLACED "\xc3\xa9");
    plm_snapshot_destroy(snapshot);
}

static void every_form_of_a_snapshot_reads_alike(void **state)
{
    (void)state;
    static const char *const names[] = {
        "protocol2.pickle",    "protocol3.pickle",     "protocol4.pickle", "protocol5.pickle",
        "protocol4.pickle.xz", "protocol5.pickle.zst", "form.json",        "form.json.gz"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, PLM_SOURCE_DIR "/tests/fuzz/corpus/snapshot/%s", names[i]);
        plm_snapshot *snapshot = NULL;
        assert_ok(plm_snapshot_read(path, &snapshot));
        int64_t count;
        const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &count);
        assert_int_equal(count, 2);
        assert_int_equal(devices[0].allocated_bytes, 512);
        assert_int_equal(devices[0].active_bytes, 1024);
        assert_int_equal(devices[0].reserved_bytes, 2097152);
        assert_int_equal(devices[0].trace_entries, 9);
        assert_int_equal(devices[0].oom_events, 1);
        assert_int_equal(devices[1].trace_entries, 1);
        const plm_snapshot_segment *segments = devices[0].segments;
        assert_int_equal(devices[0].pools[segments[0].pool][1], 1);
        assert_int_equal(devices[0].streams[segments[0].queue], 7);
        assert_int_equal(segments[1].address, (uint64_t)1 << 63);
        assert_true(segments[1].expandable);
        assert_int_equal(devices[0].settings->roundup_power2_divisions[15], 8);
        assert_int_equal(devices[0].annotation_count, 2);
        plm_snapshot_destroy(snapshot);
    }
}

static void what_is_no_snapshot_is_refused_with_the_reason(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "'a file' is empty"},
        {"PK\x03\x04", "a zip archive, as torch.save writes"},
        {"hello", "wanted a pickle of protocol 2 to 5 or JSON"},
        {"{}", "is no memory snapshot: wanted 'segments' and 'device_traces'"},
        {"[1]", "among its segments stands something that is none"},
        {"{\"segments\": [{\"blocks\": [3]}]}", "a segment holds something that is no block"},
        {"{\"segments\": [{\"blocks\": 3}]}", "'blocks' of a segment is no list"},
        {"{\"device_traces\": [3]}", "a device's trace is no list"},
        {"{\"device_traces\": [[3]]}", "something that is no entry"},
        {TRACE("{\"action\": \"alloc\", \"size\": 3}"), "'alloc', lacks 'addr'"},
        {TRACE("{\"action\": \"oom\"}"), "'oom', lacks 'size'"},
        {TRACE("{\"action\": 3}"), "'action' is no text"},
        {TRACE("{\"action\": \"alloc\", \"addr\": 1, \"size\": -3}"), "'size' is no number of"},
        {TRACE("{\"action\": \"alloc\", \"addr\": \"x\", \"size\": 3}"), "'addr' is no integer"},
        {TRACE("{\"action\": \"oom\", \"size\": 3, \"frames\": [1]}"), "'frames' is no list of"},
        {TRACE("{\"action\": \"oom\", \"size\": 3, \"frames\": [{\"filename\": \"\"}, 1]}"),
         "a list of frames goes on with something else"},
        {"{\"segments\": [{\"blocks\": [{\"state\": \"lost\", \"size\": 1}]}]}", "'state' is no"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_snapshot *snapshot = NULL;
        assert_int_equal(
            plm_snapshot_read_bytes("a file", cases[i][0], strlen(cases[i][0]), &snapshot),
            PLM_ERROR_FORMAT);
        assert_null(snapshot);
        assert_message_has(cases[i][1]);
    }
    plm_snapshot *snapshot = NULL;
    assert_int_equal(plm_snapshot_read("/nowhere/at all", &snapshot), PLM_ERROR_IO);
}

static void a_file_cut_off_at_any_byte_is_refused(void **state)
{
    (void)state;
    plm_text plain = read_plain(SNAPSHOTS "no_history_recorded.pickle.xz");
    for (int64_t cut = 0; cut < plain.count; cut++) {
        plm_snapshot *snapshot = NULL;
        assert_int_equal(plm_snapshot_read_bytes("a file", plain.items, (size_t)cut, &snapshot),
                         PLM_ERROR_FORMAT);
        assert_null(snapshot);
        assert_message_has(cut == 0 ? "empty" : "cut off");
    }
    plm__text_fini(&plain);
    plm_file file;
    assert_ok(plm__file_map(SNAPSHOTS "no_history_recorded.pickle.xz", &file));
    for (size_t cut = 0; cut < file.byte_count; cut++) {
        plm_snapshot *snapshot = NULL;
        assert_int_equal(plm_snapshot_read_bytes("a file", file.bytes, cut, &snapshot),
                         PLM_ERROR_FORMAT);
    }
    plm__file_unmap(&file);
}

/* A block of each of `count` pools or streams, the default one among them. */
static plm_status read_many(bool pools, int count)
{
    plm_text text = {0};
    plm_snapshot *snapshot = NULL;
    plm__text_add(&text, "{\"segments\":[],\"device_traces\":[[");
    for (int i = 0; i < count; i++) {
        plm__text_add(&text, "%s{\"action\":\"alloc\",\"size\":512,", i ? "," : "");
        plm__text_add(&text, "\"%s\":%s%d%s", pools ? "pool_id" : "stream", pools ? "[0," : "", i,
                      pools ? "]" : "");
        plm__text_add(&text, ",\"addr\":%d}", 512 * (i + 1));
    }
    plm__text_add(&text, "]]}");
    assert_ok(plm__text_status(&text));
    plm_status status =
        plm_snapshot_read_bytes("a text", text.items, (size_t)text.count, &snapshot);
    plm_snapshot_destroy(snapshot);
    plm__text_fini(&text);
    return status;
}

static void as_many_pools_and_streams_as_16_bits_tell_apart_are_read(void **state)
{
    (void)state;
    static const char *const refused[] = {"more than 65535 streams", "more than 65535 pools"};
    for (int pools = 0; pools < 2; pools++) {
        assert_ok(read_many(pools, UINT16_MAX));
        assert_int_equal(read_many(pools, UINT16_MAX + 1), PLM_ERROR_UNSUPPORTED);
        assert_message_has(refused[pools]);
    }
}

static void a_damaged_file_never_crashes(void **state)
{
    (void)state;
    plm_text plain = read_plain(SNAPSHOTS "pending_free_two_streams.pickle.xz");
    int64_t live = plm__host_stats_get().live_count;
    for (int64_t at = 0; at < plain.count; at += 3) {
        char kept = plain.items[at];
        plain.items[at] = (char)(kept ^ (1 << at % 8));
        plm_snapshot *snapshot = NULL;
        if (plm_snapshot_read_bytes("a file", plain.items, (size_t)plain.count, &snapshot) ==
            PLM_OK)
            plm_snapshot_destroy(snapshot);
        plain.items[at] = kept;
        assert_int_equal(plm__host_stats_get().live_count, live);
    }
    plm__text_fini(&plain);
}

static void reading_survives_the_failure_of_every_allocation(void **state)
{
    (void)state;
    plm_text plain = read_plain(SNAPSHOTS "cat_spike.pickle.xz");
    int64_t live = plm__host_stats_get().live_count;
    for (int persistent = 0; persistent < 2; persistent++) {
        for (int64_t n = 1;; n++) {
            plm_snapshot *snapshot = NULL;
            plm__host_fail_at(n, persistent);
            plm_status status =
                plm_snapshot_read_bytes("a file", plain.items, (size_t)plain.count, &snapshot);
            bool fired = plm__host_fail_at(0, false);
            if (!fired) {
                assert_ok(status);
                plm_snapshot_destroy(snapshot);
                break;
            }
            assert_int_equal(status, PLM_ERROR_HOST_MEMORY);
            assert_null(snapshot);
            assert_int_equal(plm__host_stats_get().live_count, live);
        }
    }
    plm__text_fini(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_figures_of_ten_recordings_are_true_to_the_byte),
        cmocka_unit_test(what_a_history_lacks_is_told),
        cmocka_unit_test(every_trace_ends_in_the_recorded_state),
        cmocka_unit_test(blocks_of_the_state_name_their_events_and_stacks),
        cmocka_unit_test(settings_and_annotations_are_read),
        cmocka_unit_test(each_rank_has_its_device),
        cmocka_unit_test(a_state_of_an_old_version_is_filled_in),
        cmocka_unit_test(a_list_of_segments_alone_is_a_snapshot),
        cmocka_unit_test(a_snapshot_of_nothing_has_no_devices),
        cmocka_unit_test(entries_without_times_are_numbered_and_odd_ones_are_kept),
        cmocka_unit_test(times_that_fall_are_held_level),
        cmocka_unit_test(events_are_paired_and_what_is_missing_is_put_in),
        cmocka_unit_test(blocks_that_the_state_does_not_hold_are_gone),
        cmocka_unit_test(mapped_bytes_that_no_event_tells_of_are_older),
        cmocka_unit_test(devices_that_share_entries_get_a_copy_each),
        cmocka_unit_test(segments_that_share_blocks_get_a_copy_each),
        cmocka_unit_test(two_devices_keep_their_own_histories),
        cmocka_unit_test(texts_that_are_no_utf8_are_cleaned),
        cmocka_unit_test(every_form_of_a_snapshot_reads_alike),
        cmocka_unit_test(what_is_no_snapshot_is_refused_with_the_reason),
        cmocka_unit_test(a_file_cut_off_at_any_byte_is_refused),
        cmocka_unit_test(as_many_pools_and_streams_as_16_bits_tell_apart_are_read),
        cmocka_unit_test(a_damaged_file_never_crashes),
        cmocka_unit_test(reading_survives_the_failure_of_every_allocation),
    };
    return run_test_group(tests);
}
