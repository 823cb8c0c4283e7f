/* SPDX-License-Identifier: MIT */
/* plimsoll replay from outside: the table, its order, JSON, refusals. */
#include "base/json.h"
#include "unit/program.h"

#define SNAPSHOTS PLM_SOURCE_DIR "/tests/data/snapshots/"

static json_t *replay_json(const char *arguments)
{
    char output[OUTPUT_BYTES], line[768];
    json_t *root = NULL;
    snprintf(line, sizeof line, "replay %s --json", arguments);
    assert_int_equal(run_program(line, to_output, output), 0);
    assert_string_equal(strchr(output, '\n'), "\n"); /* one line */
    assert_ok(plm__json_read("the replay", output, strlen(output), &root));
    return root;
}

static json_int_t number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        fail_msg("%s is no whole number", key);
    return json_integer_value(value);
}

static const char *name_of(const json_t *policies, size_t index)
{
    return json_string_value(json_object_get(json_array_get(policies, index), "name"));
}

static void a_sweep_has_the_recorded_settings_first_and_the_bound_last(void **state)
{
    (void)state;
    json_t *root = replay_json(SNAPSHOTS "gpt_dynamic_length_60_steps.pickle.xz --sweep");
    const json_t *policies = json_object_get(root, "policies"),
                 *first = json_array_get(policies, 0);
    size_t count = json_array_size(policies);
    assert_int_equal(count, 11);
    assert_string_equal(name_of(policies, 0), "recorded settings: defaults");
    assert_string_equal(name_of(policies, 1), "mapped");
    assert_string_equal(name_of(policies, count - 1), "bound");
    assert_int_equal(number(first, "addresses_reproduced"), 28618);
    assert_int_equal(number(first, "addresses_total"), 28618);
    assert_int_equal(number(first, "reserved_peak_bytes"), 45759856640);
    assert_int_equal(number(first, "allocated_peak_bytes"), 11925858816);
    for (size_t i = 2; i + 1 < count; i++)
        assert_true(number(json_array_get(policies, i - 1), "reserved_peak_bytes") <=
                    number(json_array_get(policies, i), "reserved_peak_bytes"));
    json_decref(root);
}

static void each_setting_of_the_line_is_a_row(void **state)
{
    (void)state;
    json_t *root =
        replay_json(SNAPSHOTS "fragmented_cap2g_700m_request.pickle.xz --alloc-conf '' "
                              "--alloc-conf=max_split_size_mb:64 --policy mapped --capacity 2GiB");
    const json_t *policies = json_object_get(root, "policies");
    assert_int_equal(json_array_size(policies), 4);
    assert_int_equal(number(root, "capacity_bytes"), 2147483648);
    assert_int_equal(number(json_array_get(policies, 0), "oom"), 1);
    assert_int_equal(number(json_array_get(policies, 0), "retries"), 1);
    assert_string_equal(name_of(policies, 1), "mapped");
    json_decref(root);
}

static void the_table_says_what_it_rests_on(void **state)
{
    (void)state;
    char output[OUTPUT_BYTES];
    assert_int_equal(run_program("replay " SNAPSHOTS "ring_overflow_1000_entries.pickle.xz --sweep",
                                 to_output, output),
                     0);
    assert_non_null(strstr(output, "103 blocks were held when recording began"));
    assert_non_null(strstr(output, "320/320"));
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"))
        assert_true(strstr(line, "──") || strlen(line) <= 104); /* bytes; a cell may take three */
}

static void bad_input_is_one_line_and_status_2(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "wanted FILE"},
        {"/nonexistent", "/nonexistent"},
        {SNAPSHOTS "no_history_recorded.pickle.xz", "no history was recorded"},
        {SNAPSHOTS "cat_spike.pickle.xz --alloc-conf max_splits:1", "unknown key 'max_splits'"},
        {SNAPSHOTS "cat_spike.pickle.xz --policy paged", "caching|mapped|bound"},
        {SNAPSHOTS "cat_spike.pickle.xz --device 3", "nothing of device 3"},
        {SNAPSHOTS "cat_spike.pickle.xz --capacity 0", "--capacity"},
        {SNAPSHOTS "truth.json", "no memory snapshot"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused("replay", cases[i][0], cases[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sweep_has_the_recorded_settings_first_and_the_bound_last),
        cmocka_unit_test(each_setting_of_the_line_is_a_row),
        cmocka_unit_test(the_table_says_what_it_rests_on),
        cmocka_unit_test(bad_input_is_one_line_and_status_2),
    };
    return run_test_group(tests);
}
