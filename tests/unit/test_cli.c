/* SPDX-License-Identifier: MIT */
/* The program from outside: what it prints where, and its exit status. */
#include "plimsoll/version.h"
#include "unit/program.h"

static void the_version_is_the_headers(void **state)
{
    (void)state;
    char output[OUTPUT_BYTES];
    assert_int_equal(run_program("--version", to_output, output), 0);
    assert_string_equal(output, "plimsoll " PLM_VERSION "\n");
    assert_string_equal(plm_version(), PLM_VERSION);
}

static void help_goes_to_standard_output_and_is_a_success(void **state)
{
    (void)state;
    char output[OUTPUT_BYTES];
    assert_int_equal(run_program("--help", to_output, output), 0);
    assert_non_null(strstr(output, "usage: plimsoll COMMAND"));
    assert_int_equal(run_program("--help", to_error, output), 0);
    assert_string_equal(output, "");
}

static void wrong_use_is_one_line_on_standard_error_and_status_2(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"xyzzy", "plimsoll: unknown command 'xyzzy'; see plimsoll --help\n"},
        {"--hlep", "plimsoll: unknown option '--hlep'; did you mean --help?\n"},
        {"''", "plimsoll: unknown command ''; see plimsoll --help\n"},
    };
    char output[OUTPUT_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(run_program(cases[i][0], to_error, output), 2);
        assert_string_equal(output, cases[i][1]);
        assert_int_equal(run_program(cases[i][0], to_output, output), 2);
        assert_string_equal(output, "");
    }
    assert_int_equal(run_program("", to_error, output), 2);
    assert_non_null(strstr(output, "usage: plimsoll COMMAND"));
}

static void output_that_cannot_be_written_is_a_failure(void **state)
{
    (void)state;
    char output[OUTPUT_BYTES];
    if (access("/dev/full", W_OK) != 0)
        skip();
    assert_int_equal(run_program("--help", "2>&1 >/dev/full", output), 3);
    assert_string_equal(output, "plimsoll: cannot write to standard output\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_version_is_the_headers),
        cmocka_unit_test(help_goes_to_standard_output_and_is_a_success),
        cmocka_unit_test(wrong_use_is_one_line_on_standard_error_and_status_2),
        cmocka_unit_test(output_that_cannot_be_written_is_a_failure),
    };
    return run_test_group(tests);
}
