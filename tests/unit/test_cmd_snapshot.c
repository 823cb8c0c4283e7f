/* SPDX-License-Identifier: MIT */
/* plimsoll snapshot from outside: what each recording is said to be, ranks, checks, other files. */
#include "base/json.h"
#include "unit/program.h"

#define SNAPSHOTS  PLM_SOURCE_DIR "/tests/data/snapshots/"
#define RECORDINGS PLM_SOURCE_DIR "/tests/data/recordings/"

static json_t *snapshot_json(const char *arguments)
{
    char output[OUTPUT_BYTES], line[768];
    json_t *root = NULL;
    snprintf(line, sizeof line, "snapshot %s --json", arguments);
    assert_int_equal(run_program(line, to_output, output), 0);
    assert_string_equal(strchr(output, '\n'), "\n"); /* one line */
    assert_ok(plm__json_read("the snapshot", output, strlen(output), &root));
    return root;
}

static json_t *first_device(const json_t *root)
{
    return json_array_get(json_object_get(root, "devices"), 0);
}

static json_int_t number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        fail_msg("%s is no whole number", key);
    return json_integer_value(value);
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static void each_recording_is_called_what_it_is(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        /* name, verdict, what the page must say */
        {"cat_spike", "spike", "catspike snapshots_torch.py:161"},
        {"fragmented_cap2g_700m_request", "fragmentation", "frag snapshots_torch.py:105"},
        {"gpt350m_amp_b4_t2048_cap12g", "capacity", "forward gpt_torch.py:29"},
        {"gpt_dynamic_length_60_steps", "fragmentation", "recorded without stacks"},
        {"gpt_dynamic_length_expandable", "none", "recorded without stacks"},
        {"mlp_leak_loss_history_40_steps", "leak", "leak snapshots_torch.py:87: 17.0 MiB more"},
        {"no_history_recorded", "no_history", "History was never recorded"},
        {"pending_free_two_streams", "waits", "19 blocks"},
        {"ring_overflow_1000_entries", "none", "103 blocks were held"},
    };
    char output[OUTPUT_BYTES], line[768];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(line, sizeof line, SNAPSHOTS "%s.pickle.xz", cases[i][0]);
        json_t *root = snapshot_json(line);
        assert_string_equal(text(first_device(root), "verdict"), cases[i][1]);
        json_decref(root);
        snprintf(line, sizeof line, "snapshot " SNAPSHOTS "%s.pickle.xz", cases[i][0]);
        assert_int_equal(run_program(line, to_output, output), 0);
        if (!strstr(output, cases[i][2]))
            fail_msg("%s: wanted '%s' in:\n%s", cases[i][0], cases[i][2], output);
        assert_null(strchr(output, '\x1b'));
    }
}

static void keys_hold_the_true_figures(void **state)
{
    (void)state;
    json_t *root = snapshot_json(SNAPSHOTS "fragmented_cap2g_700m_request.pickle.xz");
    const json_t *device = first_device(root);
    assert_int_equal(number(device, "allocated_bytes"), 1088544768);
    assert_int_equal(number(device, "reserved_bytes"), 1547698176);
    assert_int_equal(number(device, "inactive_split_bytes"), 459153408);
    assert_int_equal(number(device, "allocated_peak_bytes"), 1878081536);
    assert_int_equal(number(device, "reserved_peak_bytes"), 1923088384);
    assert_int_equal(number(device, "segments"), 24);
    assert_int_equal(number(device, "trace_entries"), 248);
    assert_true(json_is_null(json_object_get(device, "capacity_bytes")));
    const json_t *failure = json_array_get(json_object_get(device, "oom"), 0);
    assert_string_equal(text(failure, "verdict"), "fragmentation");
    assert_int_equal(number(failure, "asked_bytes"), 734003200);
    assert_int_equal(json_array_size(json_object_get(failure, "pins")), 10);
    const json_t *history = json_object_get(device, "history");
    assert_true(json_is_true(json_object_get(history, "recorded")));
    assert_true(json_is_false(json_object_get(history, "complete")));
    json_decref(root);
}

static void the_checklist_is_on_the_page_and_in_json(void **state)
{
    (void)state;
    static const char *const keys[] = {"fp32_state", "activations", "lifetimes", "allocator"};
    static const char *const answers[] = {"no", "unknown", "yes", "no"};
    static char output[OUTPUT_BYTES];
    json_t *root = snapshot_json(SNAPSHOTS "gpt_dynamic_length_60_steps.pickle.xz");
    const json_t *list = json_object_get(first_device(root), "checklist");
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(text(json_array_get(list, i), "question"), keys[i]);
        assert_string_equal(text(json_array_get(list, i), "answer"), answers[i]);
    }
    json_decref(root);
    assert_int_equal(run_program("snapshot " SNAPSHOTS "gpt_dynamic_length_60_steps.pickle.xz",
                                 to_output, output),
                     0);
    assert_non_null(strstr(output, "Are activations kept that need not be? This cannot be told."));
    assert_non_null(strstr(output, "Does the allocator suit the access pattern? No."));
    assert_int_equal(
        run_program("snapshot " SNAPSHOTS "no_history_recorded.pickle.xz", to_output, output), 0);
    assert_non_null(strstr(output, "Verdict: no history was recorded"));
    assert_non_null(
        strstr(output, "Does the allocator suit the access pattern? This cannot be told."));
    static const char *const totals[][2] = {{"fsdp2_memory_stats.json", "no"},
                                            {"profiler_memory.json.xz", "unknown"}};
    for (size_t i = 0; i < 2; i++) {
        char path[512];
        snprintf(path, sizeof path, RECORDINGS "%s", totals[i][0]);
        root = snapshot_json(path);
        list = json_object_get(first_device(root), "checklist");
        assert_string_equal(text(json_array_get(list, 0), "answer"), "unknown");
        assert_string_equal(text(json_array_get(list, 3), "answer"), totals[i][1]);
        json_decref(root);
    }
}

static void a_missing_capacity_is_said_and_changes_the_verdict(void **state)
{
    (void)state;
    char output[OUTPUT_BYTES];
    static const char file[] = SNAPSHOTS "gpt350m_amp_b4_t2048_cap12g.pickle.xz";
    char line[768];
    snprintf(line, sizeof line, "snapshot %s", file);
    assert_int_equal(run_program(line, to_output, output), 0);
    assert_non_null(strstr(output, "capacity is not in the file"));
    snprintf(line, sizeof line, "%s --capacity 140GiB", file);
    json_t *root = snapshot_json(line);
    assert_string_equal(text(first_device(root), "verdict"), "limit");
    json_decref(root);
}

static void the_rank_with_the_larger_batch_is_odd(void **state)
{
    (void)state;
    char output[OUTPUT_BYTES];
    json_t *root =
        snapshot_json(RECORDINGS "fsdp2_rank0.pickle.xz " RECORDINGS "fsdp2_rank1.pickle.xz");
    const json_t *odd = json_object_get(root, "odd_rank"), *device = first_device(root);
    assert_int_equal(number(odd, "rank"), 1);
    assert_int_equal(number(odd, "compared_with"), 0);
    assert_int_equal(number(device, "capacity_bytes"), 150109880320); /* the record beside it */
    assert_true(json_is_true(json_object_get(device, "peaks_are_whole")));
    json_decref(root);
    assert_int_equal(run_program("snapshot " RECORDINGS "fsdp2_rank0.pickle.xz " RECORDINGS
                                 "fsdp2_rank1.pickle.xz",
                                 to_output, output),
                     0);
    assert_non_null(strstr(output, "Rank 1 is the odd one"));
    assert_non_null(strstr(output, "a larger batch or longer"));
}

static void two_snapshots_are_compared(void **state)
{
    (void)state;
    char output[OUTPUT_BYTES];
    json_t *root = snapshot_json("--diff " RECORDINGS "fsdp2_rank0.pickle.xz " RECORDINGS
                                 "fsdp2_rank1.pickle.xz");
    const json_t *peak = json_object_get(root, "allocated_peak_bytes");
    assert_int_equal(number(peak, "before"), 5261501440);
    assert_int_equal(number(peak, "after"), 7118824448);
    assert_true(json_array_size(json_object_get(root, "sites")) > 5);
    json_decref(root);
    assert_int_equal(
        run_program("snapshot --diff " RECORDINGS "fsdp2_rank0.pickle.xz", to_error, output), 2);
    assert_non_null(strstr(output, "two files"));
}

static void a_snapshot_can_be_a_check(void **state)
{
    (void)state;
    char output[OUTPUT_BYTES];
    static const char *const over = "snapshot " SNAPSHOTS "cat_spike.pickle.xz --fail-over 12GiB";
    static const char *const under = "snapshot " SNAPSHOTS "cat_spike.pickle.xz --fail-over 13GiB";
    assert_int_equal(run_program(over, to_error, output), 1);
    assert_non_null(strstr(output, "more than the 12.00 GiB"));
    assert_int_equal(run_program(under, to_error, output), 0);
    assert_string_equal(output, "");
}

static void statistics_and_profiler_traces_are_read_as_far_as_they_go(void **state)
{
    (void)state;
    json_t *root = snapshot_json(RECORDINGS "fsdp2_memory_stats.json");
    const json_t *device = first_device(root);
    assert_string_equal(text(device, "kind"), "memory_stats");
    assert_int_equal(number(device, "allocated_peak_bytes"), 5261501440);
    assert_int_equal(number(device, "reserved_peak_bytes"), 6530531328);
    json_decref(root);
    root = snapshot_json(RECORDINGS "profiler_memory.json.xz");
    device = first_device(root);
    assert_string_equal(text(device, "kind"), "profile");
    assert_int_equal(number(device, "trace_entries"), 1375);
    assert_int_equal(number(device, "allocated_bytes"), 1537106432);
    assert_int_equal(number(device, "allocated_peak_bytes"), 3027960832);
    assert_int_equal(number(device, "reserved_peak_bytes"), 8076132352);
    assert_int_equal(number(device, "traced_peak_bytes"), 1960686592);
    const json_t *top = json_array_get(json_object_get(device, "top"), 0);
    assert_non_null(strstr(text(top, "site"), "NllLossBackward0"));
    json_decref(root);
}

static void bad_input_is_one_line_and_status_2(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "wanted FILE"},
        {"/nonexistent", "/nonexistent"},
        {SNAPSHOTS "truth.json", "no memory snapshot"},
        {SNAPSHOTS "cat_spike.pickle.xz --rows 0", "--rows"},
        {SNAPSHOTS "cat_spike.pickle.xz --fail-over lots", "--fail-over"},
        {SNAPSHOTS "cat_spike.pickle.xz --capcity 1GiB", "did you mean --capacity?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused("snapshot", cases[i][0], cases[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_recording_is_called_what_it_is),
        cmocka_unit_test(keys_hold_the_true_figures),
        cmocka_unit_test(the_checklist_is_on_the_page_and_in_json),
        cmocka_unit_test(a_missing_capacity_is_said_and_changes_the_verdict),
        cmocka_unit_test(the_rank_with_the_larger_batch_is_odd),
        cmocka_unit_test(two_snapshots_are_compared),
        cmocka_unit_test(a_snapshot_can_be_a_check),
        cmocka_unit_test(statistics_and_profiler_traces_are_read_as_far_as_they_go),
        cmocka_unit_test(bad_input_is_one_line_and_status_2),
    };
    return run_test_group(tests);
}
