/* SPDX-License-Identifier: MIT */
/*
 * A program in whose language numbers have a comma, and the library in it: what it writes has a
 * point, what it reads may have one. The test makes such a locale by itself, with glibc's
 * localedef.
 */
#include "unit/test.h"

#include <locale.h>

#include "base/file.h"
#include "base/number.h"
#include "base/size.h"
#include "base/text.h"
#include "plimsoll/options.h"
#include "report/table.h"
#include "torch/alloc_conf.h"
#include "unit/scratch.h"

typedef struct place {
    char folder[SCRATCH_BYTES];
    bool has_comma;
} place;

static int take_a_comma(void **state)
{
    static const char source[] = "comment_char %\nescape_char /\nLC_NUMERIC\n"
                                 "decimal_point \"<U002C>\"\nthousands_sep \"<U002E>\"\n"
                                 "grouping 3;3\nEND LC_NUMERIC\n";
    static place at;
    char line[256], path[128];
    if (!scratch_folder(at.folder))
        return -1;
    snprintf(path, sizeof path, "%s/source", at.folder);
    if (plm__file_write(path, source, sizeof source - 1) != PLM_OK)
        return -1;
    snprintf(line, sizeof line,
             "cd %s && localedef -c --no-archive -i ./source -f ANSI_X3.4-1968 ./plm_COMMA "
             ">/dev/null 2>&1",
             at.folder);
    (void)!system(line); /* it warns, with a status, of the other categories */
    setenv("LOCPATH", at.folder, 1);
    at.has_comma = setlocale(LC_NUMERIC, "plm_COMMA") != NULL;
    *state = &at;
    return 0;
}

static int give_it_back(void **state)
{
    const place *at = *state;
    char line[128];
    setlocale(LC_NUMERIC, "C");
    snprintf(line, sizeof line, "rm -r %s", at->folder);
    return system(line) == 0 ? check_no_leak(state) : -1;
}

/* That there is a comma to keep out. */
static void need_a_comma(void **state)
{
    const place *at = *state;
    char text[16];
    if (!at->has_comma)
        skip();
    snprintf(text, sizeof text, "%.1f", 1.5);
    assert_string_equal(text, "1,5");
}

static void what_is_written_has_a_point(void **state)
{
    char text[PLM_SIZE_TEXT];
    plm_text out = {0};
    plm_table table;
    plm_error error;
    need_a_comma(state);
    assert_string_equal(plm_size_format((size_t)3 << 29, text), "1.50 GiB");
    plm__text_add(&out, "%.2f\n", 0.25);
    plm__table_init(&table, &(plm_table_column){.title = NULL}, 1);
    plm__table_row(&table, PLM_TABLE_PLAIN);
    plm__table_cell(&table, "%.1f", 2.5);
    assert_ok(plm__table_render(&table, (plm_table_style){0}, &out));
    assert_string_equal(out.items, "0.25\n2.5\n");
    plm__table_fini(&table);
    plm__text_fini(&out);
    assert_int_equal(plm_fail(PLM_ERROR_ARGUMENT, "found %g", 0.5), PLM_ERROR_ARGUMENT);
    plm_error_get(&error);
    assert_string_equal(error.message, "found 0.5");
    need_a_comma(state); /* the program's locale is its own again */
}

static void what_is_read_has_a_point(void **state)
{
    struct {
        double rate;
    } read = {0};
    static const plm_option option = {.name = "rate", .kind = PLM_OPTION_REAL};
    static const plm_syntax syntax = {.command = "it", .options = &option, .option_count = 1};
    char name[] = "it", rate[] = "--rate", value[] = "0.75", *const words[] = {name, rate, value};
    plm_operands operands;
    size_t bytes = 0;
    plm_pool_settings settings = plm__pool_settings_default();
    need_a_comma(state);
    assert_ok(plm_options_parse(&syntax, 3, words, &read, &operands));
    assert_true(read.rate == 0.75);
    assert_ok(plm_size_parse("1.5KiB", &bytes));
    assert_int_equal(bytes, 1536);
    assert_int_not_equal(plm_size_parse("1,5KiB", &bytes), PLM_OK);
    assert_ok(plm__torch_settings_parse("garbage_collection_threshold:0.8", &settings));
}

static void json_has_points_both_ways(void **state)
{
    plm_json_writer writer = {0};
    char *line = NULL;
    json_t *root = NULL;
    need_a_comma(state);
    plm__json_begin_array(&writer, NULL);
    plm__json_real(&writer, NULL, 0.5);
    plm__json_end(&writer);
    assert_ok(plm__json_finish(&writer, &line));
    assert_string_equal(line, "[0.5]");
    assert_ok(plm__json_read("it", line, strlen(line), &root));
    assert_true(json_real_value(json_array_get(root, 0)) == 0.5);
    json_decref(root);
    plm__host_free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_has_a_point),
        cmocka_unit_test(what_is_read_has_a_point),
        cmocka_unit_test(json_has_points_both_ways),
    };
    return cmocka_run_group_tests(tests, take_a_comma, give_it_back);
}
