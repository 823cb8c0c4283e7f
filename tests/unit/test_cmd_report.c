/* SPDX-License-Identifier: MIT */
/* plimsoll report from outside: the form by the name of the file, ranks, and what is refused. */
#include <jansson.h>

#include "base/file.h"
#include "unit/program.h"

#define RECORDING  PLM_SOURCE_DIR "/tests/data/snapshots/cat_spike.pickle.xz"
#define RANKS      PLM_SOURCE_DIR "/tests/data/recordings/fsdp2_rank"
#define RANK(n)    RANKS #n ".pickle.xz"
#define PAGE_BEGIN "<!doctype html>"

static char path[128];
static char output[OUTPUT_BYTES];

static int report(const char *what, const char *end, const char *options, const char *redirection)
{
    char line[900];
    snprintf(path, sizeof path, "/tmp/plimsoll-test-report-%ld%s", (long)getpid(), end);
    snprintf(line, sizeof line, "report %s --out %s %s", what, path, options);
    return run_program(line, redirection, output);
}

static void assert_begins(const char *wanted)
{
    plm_file file = {0};
    assert_ok(plm__file_map(path, &file));
    assert_true(file.byte_count > strlen(wanted));
    assert_memory_equal(file.bytes, wanted, strlen(wanted));
    plm__file_unmap(&file);
    unlink(path);
}

static void the_name_of_the_file_says_its_form(void **state)
{
    (void)state;
    static const struct {
        const char *end, *options, *begins;
    } cases[] = {
        {".html", "", PAGE_BEGIN},
        {".json", "", "{\"displayTimeUnit\""},
        {".pickle", "", "\x80\x02}"},
        {".txt", "", PAGE_BEGIN},
        {".txt", "--format perfetto", "{\"displayTimeUnit\""},
        {".html", "--format pickle", "\x80\x02}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(report(RECORDING, cases[i].end, cases[i].options, to_output), 0);
        assert_begins(cases[i].begins);
    }
}

static void json_tells_what_was_written(void **state)
{
    (void)state;
    assert_int_equal(report(RANK(0) " " RANK(1), ".html", "--json", to_output), 0);
    json_t *root = json_loads(output, 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "out")), path);
    assert_string_equal(json_string_value(json_object_get(root, "format")), "html");
    json_t *sources = json_object_get(root, "sources");
    assert_int_equal(json_array_size(sources), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(sources, 1), "name")),
                        "fsdp2_rank1.pickle.xz, GPU 1");
    assert_true(json_integer_value(json_object_get(root, "bytes")) > 100000);
    json_decref(root);
    assert_begins(PAGE_BEGIN);
}

static void what_cannot_be_read_or_written_is_told(void **state)
{
    (void)state;
    assert_int_equal(report("/nonexistent.pickle", ".html", "", to_error), 2);
    assert_non_null(strstr(output, "/nonexistent.pickle"));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(report(PLM_SOURCE_DIR "/README.md", ".html", "", to_error), 2);
    assert_int_equal(report("", ".html", "", to_error), 2);
    assert_int_equal(
        run_program("report " RECORDING " --out /dev/null/report.html", to_error, output), 2);
    assert_non_null(strstr(output, "/dev/null/report.html"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_name_of_the_file_says_its_form),
        cmocka_unit_test(json_tells_what_was_written),
        cmocka_unit_test(what_cannot_be_read_or_written_is_told),
    };
    return run_test_group(tests);
}
