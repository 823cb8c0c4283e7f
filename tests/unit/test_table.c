/* SPDX-License-Identifier: MIT */
/* Tables: alignment, widths as a terminal counts them, bars, rules, names that would do harm. */
#include "unit/test.h"

#include <math.h>

#include "report/table.h"

static const plm_table_column columns[] = {
    {.title = "role"}, {.title = "bytes", .right = true}, {.title = "share", .bar_cells = 4}};

static void fill_sample(plm_table *table)
{
    plm__table_init(table, columns, 3);
    plm__table_row(table, PLM_TABLE_PLAIN);
    plm__table_cell(table, "%s", "parameters");
    plm__table_cell(table, "%d", 1000);
    plm__table_bar(table, 0.5);
    plm__table_row(table, PLM_TABLE_DIM);
    plm__table_cell(table, "%s", "input");
    plm__table_cell(table, "%d", 8);
    plm__table_bar(table, 0.0);
    plm__table_rule(table);
    plm__table_row(table, PLM_TABLE_BOLD);
    plm__table_cell(table, "%s", "total");
    plm__table_cell(table, "%d", 1008);
}

static void assert_rendered(const plm_table *table, plm_table_style style, const char *wanted)
{
    plm_text out = {0};
    assert_ok(plm__table_render(table, style, &out));
    assert_string_equal(out.items, wanted);
    plm__text_fini(&out);
}

static void columns_are_aligned_under_their_titles(void **state)
{
    (void)state;
    plm_table table;
    fill_sample(&table);
    assert_rendered(&table, (plm_table_style){0},
                    "role        bytes  share\n"
                    "────────────────────────\n"
                    "parameters   1000  ██\n"
                    "input           8\n"
                    "────────────────────────\n"
                    "total        1008\n");
    plm__table_fini(&table);
}

static void emphasis_is_written_only_when_colour_is_asked_for(void **state)
{
    (void)state;
    plm_table table;
    fill_sample(&table);
    assert_rendered(&table, (plm_table_style){.colour = true, .indent_cells = 2},
                    "\x1b[1m  role        bytes  share\x1b[0m\n"
                    "  \x1b[2m────────────────────────\x1b[0m\n"
                    "  parameters   1000  ██\n"
                    "\x1b[2m  input           8\x1b[0m\n"
                    "  \x1b[2m────────────────────────\x1b[0m\n"
                    "\x1b[1m  total        1008\x1b[0m\n");
    plm__table_fini(&table);
}

static void without_titles_there_is_no_header(void **state)
{
    (void)state;
    static const plm_table_column plain[] = {{.right = true}, {0}};
    plm_table table;
    plm__table_init(&table, plain, 2);
    plm__table_row(&table, PLM_TABLE_PLAIN);
    plm__table_cell(&table, "1");
    plm__table_cell(&table, "one");
    plm__table_row(&table, PLM_TABLE_PLAIN);
    plm__table_cell(&table, "10");
    plm__table_cell(&table, "ten");
    assert_rendered(&table, (plm_table_style){0}, " 1  one\n10  ten\n");
    plm__table_fini(&table);
}

static void bars_are_drawn_in_eighths_and_never_past_their_column(void **state)
{
    (void)state;
    static const plm_table_column bar[] = {{.bar_cells = 2}, {.title = NULL}};
    static const struct {
        double portion;
        const char *drawn;
    } cases[] = {{0.25, "▌   |\n"}, {1.0, "██  |\n"}, {7.0, "██  |\n"},    {1e-9, "▏   |\n"},
                 {-1, "    |\n"},   {NAN, "    |\n"}, {0.9375, "█▉  |\n"}, {0.5, "█   |\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_table table;
        plm__table_init(&table, bar, 2);
        plm__table_row(&table, PLM_TABLE_PLAIN);
        plm__table_bar(&table, cases[i].portion);
        plm__table_cell(&table, "|");
        assert_rendered(&table, (plm_table_style){0}, cases[i].drawn);
        plm__table_fini(&table);
    }
}

static void width_is_counted_as_a_terminal_does(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t cells;
    } cases[] = {{"plain", 5},        {"·×─▏", 4},       {"naïve", 5},    {"nai\u0308ve", 5},
                 {"\u6f22\u5b57", 4}, {"\U0001f6a2", 2}, {"\xff\xfe", 2}, {"", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(plm__text_cells(cases[i].text, (int64_t)strlen(cases[i].text)),
                         cases[i].cells);
}

/* Overlong forms, surrogates, a cut sequence, an escape, a C1 control and a reversal of reading. */
static void what_could_harm_a_terminal_becomes_a_question_mark(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a\x1b[2Jb", "a?[2Jb|\n"}, {"a\nb\tc", "a?b?c|\n"},        {"\xc0\xaf", "??|\n"},
        {"\xe2\x94", "??|\n"},      {"\xed\xa0\x80", "???|\n"},     {"\xc2\x9b", "?|\n"},
        {"\u202eabc", "?abc|\n"},   {"\xf4\x90\x80\x80", "????|\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_table table;
        plm__table_init(&table, (const plm_table_column[]){{0}}, 1);
        plm__table_row(&table, PLM_TABLE_PLAIN);
        plm__table_cell(&table, "%s|", cases[i][0]);
        assert_rendered(&table, (plm_table_style){0}, cases[i][1]);
        plm__table_fini(&table);
    }
}

static void a_very_long_cell_is_cut_not_overrun(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    plm_table table;
    plm_text out = {0};
    plm__table_init(&table, (const plm_table_column[]){{0}}, 1);
    plm__table_row(&table, PLM_TABLE_PLAIN);
    plm__table_cell(&table, "%s", text);
    assert_ok(plm__table_render(&table, (plm_table_style){0}, &out));
    assert_int_equal(out.count, 1024);
    plm__text_fini(&out);
    plm__table_fini(&table);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int persistent = 0; persistent < 2; persistent++) {
        bool fired = true;
        for (int64_t n = 1; fired; n++) {
            plm_table table;
            plm_text out = {0};
            plm__host_fail_at(n, persistent);
            fill_sample(&table);
            plm_status status = plm__table_render(&table, (plm_table_style){0}, &out);
            fired = plm__host_fail_at(0, false);
            assert_int_equal(status, fired ? PLM_ERROR_HOST_MEMORY : PLM_OK);
            plm__text_fini(&out);
            plm__table_fini(&table);
            assert_int_equal(plm__host_stats_get().live_count, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_aligned_under_their_titles),
        cmocka_unit_test(emphasis_is_written_only_when_colour_is_asked_for),
        cmocka_unit_test(without_titles_there_is_no_header),
        cmocka_unit_test(bars_are_drawn_in_eighths_and_never_past_their_column),
        cmocka_unit_test(width_is_counted_as_a_terminal_does),
        cmocka_unit_test(what_could_harm_a_terminal_becomes_a_question_mark),
        cmocka_unit_test(a_very_long_cell_is_cut_not_overrun),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return run_test_group(tests);
}
