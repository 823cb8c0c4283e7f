/* SPDX-License-Identifier: MIT */
/* What is written for people and other programs: it is valid whatever names say, and adds up. */
#include "test.h"

#include "base/file.h"
#include "base/json.h"
#include "plimsoll/export.h"
#include "trace/trace.h"

#define RECORDINGS PLM_SOURCE_DIR "/tests/data/snapshots/"

static const char *const recordings[] = {
    "cat_spike",
    "cpp_and_python_stacks",
    "fragmented_cap2g_700m_request",
    "gpt350m_amp_b4_t2048_cap12g",
    "mlp_leak_loss_history_40_steps",
    "no_history_recorded",
    "pending_free_two_streams",
    "ring_overflow_1000_entries",
};

static char path[256];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/plimsoll-test-export-%ld", (long)getpid());
    return 0;
}

static int remove_path(void **state)
{
    unlink(path);
    return check_no_leak(state);
}

static json_t *read_json(const char *from, const char *until)
{
    plm_file file = {0};
    json_t *root = NULL;
    assert_ok(plm__file_map(path, &file));
    const char *begin = (const char *)file.bytes, *end = begin + file.byte_count;
    if (from) {
        begin = memmem(begin, file.byte_count, from, strlen(from));
        assert_non_null(begin);
        begin += strlen(from);
        end = memmem(begin, (size_t)(end - begin), until, strlen(until));
        assert_non_null(end);
    }
    assert_ok(plm__json_read("export", begin, (size_t)(end - begin), &root));
    plm__file_unmap(&file);
    return root;
}

static json_t *read_page(void)
{
    return read_json("id=\"data\">", "</script>");
}

static void add(plm_trace *trace, plm_event event)
{
    assert_ok(plm__trace_add_event(trace, &event));
}

static const char *const hostile = "a\"b\\c\n\x01</script><!-- \xff\xc0 \xf0\x9f\x9a\xa2";

/* A plan of two operations; names hold everything that could break a format. */
static plm_trace *small_plan(void)
{
    plm_trace *trace = NULL;
    plm_owner owner = {.role = PLM_ROLE_ACTIVATION,
                       .dtype = PLM_DTYPE_F32,
                       .rank = 2,
                       .frames = PLM_TRACE_NO_FRAMES,
                       .shape = {4, 25}};
    plm_event mark = {.block = -1, .owner = -1, .kind = PLM_EVENT_MARK};
    int32_t index;
    assert_ok(plm__trace_create(&trace));
    assert_ok(plm__trace_intern(trace, hostile, &owner.name));
    assert_ok(plm__trace_intern(trace, "first", &mark.label));
    owner.layer = owner.op = owner.made_by = owner.kept_for[0] = owner.name;
    assert_ok(plm__trace_add_owner(trace, &owner, &index));
    add(trace, mark);
    for (int i = 0; i < 2; i++)
        add(trace, (plm_event){.time = i,
                               .block = i,
                               .address = 512u * (unsigned)i,
                               .bytes_asked = 400,
                               .bytes_taken = 448,
                               .owner = index,
                               .kind = PLM_EVENT_BLOCK_ALLOC});
    add(trace, (plm_event){.time = 1,
                           .bytes_asked = 4096,
                           .bytes_taken = 64,
                           .block = -1,
                           .owner = -1,
                           .kind = PLM_EVENT_OUT_OF_MEMORY});
    add(trace, (plm_event){.time = 2,
                           .block = 0,
                           .bytes_asked = 400,
                           .bytes_taken = 448,
                           .owner = index,
                           .kind = PLM_EVENT_BLOCK_FREE});
    return trace;
}

static int64_t integer(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void a_page_holds_its_data_whatever_names_say(void **state)
{
    (void)state;
    plm_trace *trace = small_plan();
    plm_export_source sources[] = {{.trace = trace, .name = hostile}, {.trace = trace}};
    assert_ok(plm_export_page(path, hostile, sources, 2));
    json_t *root = read_page();
    assert_int_equal(json_array_size(json_object_get(root, "sources")), 2);
    json_t *source = json_array_get(json_object_get(root, "sources"), 0);
    assert_int_equal(integer(source, "peak_bytes"), 896);
    assert_int_equal(integer(source, "peak_asked_bytes"), 800);
    assert_int_equal(integer(source, "end_bytes"), 448);
    assert_int_equal(integer(source, "block_count"), 2);
    assert_int_equal(integer(source, "reserved_peak_bytes"), 960);
    assert_int_equal(json_array_size(json_object_get(source, "failures")), 1);
    assert_int_equal(json_array_size(json_object_get(source, "marks")), 1);
    json_decref(root);
    plm_trace_destroy(trace);
}

static void a_page_needs_nothing_from_anywhere(void **state)
{
    (void)state;
    plm_trace *trace = small_plan();
    plm_file file = {0};
    assert_ok(plm_export_page(path, "plan", &(plm_export_source){.trace = trace}, 1));
    assert_ok(plm__file_map(path, &file));
    static const char *const strangers[] = {"http://", "https://", "<link", "src=",  "@import",
                                            "fetch(",  "@CSS@",    "@JS@",  "@DATA@"};
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++)
        assert_null(memmem(file.bytes, file.byte_count, strangers[i], strlen(strangers[i])));
    plm__file_unmap(&file);
    plm_trace_destroy(trace);
}

static void an_empty_trace_makes_a_page_and_files(void **state)
{
    (void)state;
    plm_trace *trace = NULL;
    assert_ok(plm__trace_create(&trace));
    plm_export_source source = {.trace = trace};
    assert_ok(plm_export_page(path, "nothing", &source, 1));
    json_decref(read_page());
    assert_ok(plm_export_perfetto(path, &source, 1));
    json_decref(read_json(NULL, NULL));
    assert_ok(plm_export_snapshot(path, &source, 1));
    plm_trace_destroy(trace);
}

static void perfetto_counters_reach_the_peak_and_slices_name_operations(void **state)
{
    (void)state;
    plm_trace *trace = small_plan();
    assert_ok(plm_export_perfetto(path, &(plm_export_source){.trace = trace, .name = hostile}, 1));
    json_t *root = read_json(NULL, NULL), *event;
    size_t i;
    int64_t peak = 0, slices = 0, failures = 0;
    double last = -1;
    json_array_foreach (json_object_get(root, "traceEvents"), i, event) {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        const char *name = json_string_value(json_object_get(event, "name"));
        assert_non_null(phase);
        assert_non_null(name);
        slices += *phase == 'X';
        failures += *phase == 'i';
        if (*phase != 'C' || strcmp(name, "allocated") != 0)
            continue;
        int64_t bytes = integer(json_object_get(event, "args"), "bytes");
        peak = bytes > peak ? bytes : peak;
        double time = json_number_value(json_object_get(event, "ts"));
        assert_true(time > last);
        last = time;
    }
    assert_int_equal(peak, 896);
    assert_int_equal(slices, 3); /* two operations, one mark */
    assert_int_equal(failures, 1);
    json_decref(root);
    plm_trace_destroy(trace);
}

static void perfetto_of_every_recording_is_valid_and_has_its_peak(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof recordings / sizeof *recordings; r++) {
        char name[256];
        plm_snapshot *snapshot = NULL;
        plm_export_source *sources = NULL;
        int64_t count;
        snprintf(name, sizeof name, RECORDINGS "%s.pickle.xz", recordings[r]);
        assert_ok(plm_snapshot_read(name, &snapshot));
        assert_ok(plm_export_sources_of(snapshot, &sources, &count));
        assert_ok(plm_export_perfetto(path, sources, count));
        json_t *root = read_json(NULL, NULL), *event;
        size_t i;
        size_t peak = 0, reserved = 0;
        json_array_foreach (json_object_get(root, "traceEvents"), i, event) {
            if (strcmp(json_string_value(json_object_get(event, "ph")), "C") != 0)
                continue;
            size_t bytes = (size_t)integer(json_object_get(event, "args"), "bytes");
            bool allocated =
                strcmp(json_string_value(json_object_get(event, "name")), "allocated") == 0;
            if (allocated && bytes > peak)
                peak = bytes;
            if (!allocated)
                reserved = bytes; /* the last one stands at the end */
        }
        assert_int_equal(peak, plm_trace_find_peak(sources[0].trace).bytes_taken);
        assert_int_equal(reserved, plm_snapshot_devices(snapshot, &count)[0].reserved_bytes);
        json_decref(root);
        plm_free(sources);
        plm_snapshot_destroy(snapshot);
    }
}

static void assert_same_state(const plm_snapshot *a, const plm_snapshot *b)
{
    int64_t count, count_b;
    const plm_snapshot_device *device = plm_snapshot_devices(a, &count);
    const plm_snapshot_device *device_b = plm_snapshot_devices(b, &count_b);
    assert_int_equal(count, count_b);
    assert_int_equal(device->reserved_bytes, device_b->reserved_bytes);
    assert_int_equal(device->allocated_bytes, device_b->allocated_bytes);
    assert_int_equal(device->active_bytes, device_b->active_bytes);
    assert_int_equal(device->asked_bytes, device_b->asked_bytes);
    assert_int_equal(device->inactive_split_bytes, device_b->inactive_split_bytes);
    assert_int_equal(device->trace_entries, device_b->trace_entries);
    assert_int_equal(device->oom_events, device_b->oom_events);
    const plm_event *events = plm_trace_events(device->trace, &count);
    const plm_event *events_b = plm_trace_events(device_b->trace, &count_b);
    assert_int_equal(count, count_b);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(events[i].kind, events_b[i].kind);
        assert_int_equal(events[i].address, events_b[i].address);
        assert_int_equal(events[i].bytes_asked, events_b[i].bytes_asked);
        assert_int_equal(events[i].block, events_b[i].block);
    }
}

static void a_recording_written_as_a_snapshot_reads_back_the_same(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof recordings / sizeof *recordings; r++) {
        char name[256];
        plm_snapshot *snapshot = NULL, *again = NULL;
        plm_export_source *sources = NULL;
        int64_t count;
        snprintf(name, sizeof name, RECORDINGS "%s.pickle.xz", recordings[r]);
        assert_ok(plm_snapshot_read(name, &snapshot));
        assert_ok(plm_export_sources_of(snapshot, &sources, &count));
        assert_ok(plm_export_snapshot(path, sources, count));
        assert_ok(plm_snapshot_read(path, &again));
        assert_same_state(snapshot, again);
        plm_free(sources);
        plm_snapshot_destroy(snapshot);
        plm_snapshot_destroy(again);
    }
}

/* The state is worked out from the trace when there is no snapshot behind it. */
static void a_plan_written_as_a_snapshot_has_its_blocks_in_an_arena(void **state)
{
    (void)state;
    plm_trace *trace = small_plan();
    plm_snapshot *snapshot = NULL;
    int64_t count;
    assert_ok(plm_export_snapshot(path, &(plm_export_source){.trace = trace}, 1));
    assert_ok(plm_snapshot_read(path, &snapshot));
    const plm_snapshot_device *device = plm_snapshot_devices(snapshot, &count);
    assert_int_equal(device->reserved_bytes, 960);
    assert_int_equal(device->allocated_bytes, 448);
    assert_int_equal(device->asked_bytes, 400);
    const plm_snapshot_block *blocks = device->blocks;
    assert_int_equal(device->block_count, 2);
    assert_int_equal(blocks[0].state, PLM_BLOCK_INACTIVE);
    assert_int_equal(blocks[0].bytes, 512);
    assert_int_equal(blocks[1].address, 512);
    assert_int_equal(device->annotation_count, 1);
    plm_snapshot_destroy(snapshot);
    plm_trace_destroy(trace);
}

/* Python's own pickle, where there is a Python. */
static void a_snapshot_loads_in_python(void **state)
{
    (void)state;
    static const char script[] =
        "import pickle, sys\n"
        "s = pickle.load(open(sys.argv[1], 'rb'))\n"
        "assert set(s) >= {'segments', 'device_traces', 'allocator_settings',"
        " 'external_annotations'}\n"
        "segment, = s['segments']\n"
        "assert segment['total_size'] == 960 and segment['segment_pool_id'] == (0, 0)\n"
        "assert sum(b['size'] for b in segment['blocks']) == 960\n"
        "trace, = s['device_traces']\n"
        "actions = [e['action'] for e in trace]\n"
        "assert actions == ['alloc', 'alloc', 'oom', 'free_completed'], actions\n"
        "assert trace[0]['size'] == 400 and trace[1]['addr'] == 512\n"
        "assert trace[2]['device_free'] == 64 and 'addr' not in trace[2]\n"
        "assert trace[0]['frames'][0]['name'].endswith('\\U0001f6a2')\n"
        "assert trace[0]['frames'] is trace[1]['frames']\n"
        "assert s['external_annotations'][0]['name'] == 'first'\n";
    if (system("command -v python3 >/dev/null 2>&1") != 0) {
        print_message("python3 is missing: not tried\n");
        skip();
    }
    plm_trace *trace = small_plan();
    assert_ok(plm_export_snapshot(path, &(plm_export_source){.trace = trace}, 1));
    plm_trace_destroy(trace);
    char program[300], command[700];
    snprintf(program, sizeof program, "%s.py", path);
    assert_ok(plm__file_write(program, script, sizeof script - 1));
    snprintf(command, sizeof command, "python3 %s %s", program, path);
    int status = system(command);
    unlink(program);
    assert_int_equal(status, 0);
}

static void what_cannot_be_written_is_told_and_leaves_nothing(void **state)
{
    (void)state;
    plm_trace *trace = small_plan();
    plm_export_source source = {.trace = trace};
    static const char nowhere[] = "/dev/null/report";
    assert_int_equal(plm_export_page(nowhere, "", &source, 1), PLM_ERROR_IO);
    assert_int_equal(plm_export_perfetto(nowhere, &source, 1), PLM_ERROR_IO);
    assert_int_equal(plm_export_snapshot(nowhere, &source, 1), PLM_ERROR_IO);
    plm_trace_destroy(trace);
}

static plm_status page_of(const char *to, const plm_export_source *sources, int64_t count)
{
    return plm_export_page(to, "title", sources, count);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static plm_status (*const writers[])(const char *, const plm_export_source *, int64_t) = {
        page_of, plm_export_perfetto, plm_export_snapshot};
    plm_trace *trace = small_plan();
    plm_export_source sources[] = {{.trace = trace}, {.trace = trace}};
    int64_t live = plm__host_stats_get().live_count;
    for (size_t w = 0; w < sizeof writers / sizeof *writers; w++) {
        for (int persistent = 0; persistent < 2; persistent++) {
            bool fired = true;
            for (int64_t n = 1; fired; n++) {
                unlink(path);
                plm__host_fail_at(n, persistent);
                plm_status status = writers[w](path, sources, 2);
                fired = plm__host_fail_at(0, false);
                assert_int_equal(status, fired ? PLM_ERROR_HOST_MEMORY : PLM_OK);
                assert_int_equal(access(path, F_OK), fired ? -1 : 0);
                assert_int_equal(plm__host_stats_get().live_count, live);
            }
        }
    }
    plm_trace_destroy(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_holds_its_data_whatever_names_say),
        cmocka_unit_test(a_page_needs_nothing_from_anywhere),
        cmocka_unit_test(an_empty_trace_makes_a_page_and_files),
        cmocka_unit_test(perfetto_counters_reach_the_peak_and_slices_name_operations),
        cmocka_unit_test(perfetto_of_every_recording_is_valid_and_has_its_peak),
        cmocka_unit_test(a_recording_written_as_a_snapshot_reads_back_the_same),
        cmocka_unit_test(a_plan_written_as_a_snapshot_has_its_blocks_in_an_arena),
        cmocka_unit_test(a_snapshot_loads_in_python),
        cmocka_unit_test(what_cannot_be_written_is_told_and_leaves_nothing),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
