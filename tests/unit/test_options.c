/* SPDX-License-Identifier: MIT */
/* Command lines by table: what is read, what is refused and how it is said, the text of --help. */
#include "unit/test.h"

#include <math.h>

#include "plimsoll/nearest.h"
#include "plimsoll/options.h"

typedef struct settings {
    bool json;
    size_t budget_bytes;
    int64_t batch;
    int64_t seed;
    double rate;
    const char *data;
    int attention;
} settings;

#define FIELD(name) offsetof(settings, name)

static const plm_option options[] = {
    {"json", PLM_OPTION_FLAG, FIELD(json), NULL, NULL, NULL, "one object a line", "TEST_JSON"},
    {"budget", PLM_OPTION_SIZE, FIELD(budget_bytes), "SIZE", NULL, NULL, "the line", "TEST_BUDGET"},
    {"batch", PLM_OPTION_COUNT, FIELD(batch), "N", "8", NULL, "sequences in one update", NULL},
    {"seed", PLM_OPTION_INTEGER, FIELD(seed), "N", NULL, NULL, "of the random numbers", NULL},
    {"lr", PLM_OPTION_REAL, FIELD(rate), "X", "1e-3", NULL, "learning rate", "TEST_LR"},
    {"data", PLM_OPTION_TEXT, FIELD(data), "FILE", NULL, NULL, "text to train on", NULL},
    {"attention", PLM_OPTION_CHOICE, FIELD(attention), "FORM", NULL, "plain|fused|both",
     "how attention is computed, in a help that is long enough to be broken into two lines of text",
     NULL},
};

static const plm_syntax syntax = {
    .command = "ship load",
    .summary = "Loads a ship.",
    .operands = "MODEL",
    .operands_least = 1,
    .operands_most = 1,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .example = "ship load gpt2 --batch 4",
};

enum { WORDS_MAX = 24 };

/* Parses blank-separated words as a command line, "~" standing for an empty word. */
static plm_status parse(const char *line, settings *read, plm_operands *operands)
{
    static char words[512]; /* what is read borrows from here */
    static char program[] = "load";
    char *argv[WORDS_MAX] = {program};
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        argv[argc++] = strcmp(word, "~") == 0 ? word + 1 : word;
    return plm_options_parse(&syntax, argc, argv, read, operands);
}

static void assert_refused(const char *line, const char *message)
{
    settings read, before;
    plm_operands operands, operands_before;
    memset(&read, 0x5a, sizeof read);
    memset(&operands, 0x5a, sizeof operands);
    memcpy(&before, &read, sizeof read);
    memcpy(&operands_before, &operands, sizeof operands);
    assert_int_equal(parse(line, &read, &operands), PLM_ERROR_ARGUMENT);
    assert_memory_equal(&read, &before, sizeof read);
    assert_memory_equal(&operands, &operands_before, sizeof operands);
    plm_error error;
    plm_error_get(&error);
    assert_string_equal(error.message, message);
}

static void every_kind_of_value_reaches_its_field(void **state)
{
    (void)state;
    settings read;
    plm_operands operands;
    assert_ok(parse("--json --budget 64MiB --batch=32 gpt2 --seed 0 --lr .5 --data - "
                    "--attention fused",
                    &read, &operands));
    assert_true(read.json);
    assert_int_equal(read.budget_bytes, (size_t)64 << 20);
    assert_int_equal(read.batch, 32);
    assert_int_equal(read.seed, 0);
    assert_true(read.rate == 0.5);
    assert_string_equal(read.data, "-");
    assert_int_equal(read.attention, 1);
    assert_int_equal(operands.count, 1);
    assert_string_equal(operands.items[0], "gpt2");
    assert_false(operands.help);
}

static void what_is_not_given_has_its_default_or_none(void **state)
{
    (void)state;
    settings read;
    plm_operands operands;
    memset(&read, 0x5a, sizeof read);
    assert_ok(parse("gpt2", &read, &operands));
    assert_false(read.json);
    assert_int_equal(read.budget_bytes, 0);
    assert_int_equal(read.batch, 8);
    assert_int_equal(read.seed, -1);
    assert_true(read.rate == 1e-3);
    assert_null(read.data);
    assert_int_equal(read.attention, -1);
}

static void the_line_goes_before_the_environment_and_that_before_the_default(void **state)
{
    (void)state;
    settings read;
    plm_operands operands;
    setenv("TEST_LR", "0.25", 1);
    setenv("TEST_JSON", "1", 1);
    setenv("TEST_BUDGET", "", 1); /* empty is as good as unset */
    assert_ok(parse("gpt2", &read, &operands));
    assert_true(read.rate == 0.25);
    assert_true(read.json);
    assert_int_equal(read.budget_bytes, 0);
    assert_ok(parse("gpt2 --lr 2", &read, &operands));
    assert_true(read.rate == 2);
    setenv("TEST_LR", "fast", 1);
    assert_refused("gpt2", "TEST_LR: wanted a number of at least 0, found 'fast'");
    unsetenv("TEST_LR");
    unsetenv("TEST_JSON");
    unsetenv("TEST_BUDGET");
}

static void the_later_of_two_values_is_kept(void **state)
{
    (void)state;
    settings read;
    plm_operands operands;
    assert_ok(parse("gpt2 --batch 4 --batch 16", &read, &operands));
    assert_int_equal(read.batch, 16);
}

static void after_two_dashes_everything_is_an_operand(void **state)
{
    (void)state;
    settings read;
    plm_operands operands;
    assert_ok(parse("--batch 2 -- --help", &read, &operands));
    assert_false(operands.help);
    assert_string_equal(operands.items[0], "--help");
}

static void help_is_found_before_anything_is_refused(void **state)
{
    (void)state;
    settings read;
    plm_operands operands;
    assert_ok(parse("--batch nonsense --help", &read, &operands));
    assert_true(operands.help);
    assert_ok(parse("-h", &read, &operands));
    assert_true(operands.help);
}

static void wrong_words_are_refused_in_one_line_and_change_nothing(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"m --bacth 4", "unknown option --bacth; did you mean --batch?"},
        {"m --colour", "unknown option --colour; see ship load --help"},
        {"m -b", "unknown option -b; see ship load --help"},
        {"m --json=1", "--json takes no value, found '1'"},
        {"m --batch", "--batch: wanted a whole number of at least 1, found the end of the line"},
        {"m --batch --json", "--batch: wanted a whole number of at least 1, found '--json'; "
                             "--batch=VALUE takes any value"},
        {"", "wanted MODEL, found none; see ship load --help"},
        {"m n", "wanted MODEL, found 'n' too; see ship load --help"},
        {"m --attention flash", "--attention: wanted one of plain|fused|both, found 'flash'"},
        {"m --attention plain|fused",
         "--attention: wanted one of plain|fused|both, found 'plain|fused'"},
        {"m --attention ~", "--attention: wanted one of plain|fused|both, found ''"},
        {"m --batch 4 --budget lots",
         "--budget: wanted a size such as 512MiB, 12GiB or 12GB, found 'lots'"},
        {"m --batch 4 --budget 12",
         "--budget: wanted a size with its unit, found '12': is it 12GiB, 12MiB or 12B?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i][0], cases[i][1]);
}

static void values_out_of_range_are_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "--batch 0",   "--batch -1",  "--batch 9223372036854775808",
        "--batch 1e3", "--batch 0x8", "--batch ~",
        "--batch 8x",  "--seed -1",   "--seed 99999999999999999999",
        "--budget 0",  "--budget -5", "--budget 9e9TiB",
        "--lr -1",     "--lr nan",    "--lr 1e999",
        "--lr inf",    "--lr 0x1p3",  "--lr ~",
        "--lr e",      "--lr 1.2.3",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[128];
        settings read = {.batch = 77};
        plm_operands operands;
        snprintf(line, sizeof line, "model %s", cases[i]);
        assert_int_equal(parse(line, &read, &operands), PLM_ERROR_ARGUMENT);
        assert_int_equal(read.batch, 77);
    }
    settings read;
    plm_operands operands;
    assert_ok(parse("model --batch 9223372036854775807", &read, &operands));
    assert_int_equal(read.batch, INT64_MAX);
}

static void help_shows_every_option_with_its_default(void **state)
{
    (void)state;
    char *help = NULL;
    assert_ok(plm_options_help(&syntax, &help));
    assert_string_equal(
        help, "usage: ship load MODEL [options]\n"
              "\n"
              "Loads a ship.\n"
              "\n"
              "options:\n"
              "  --json                  one object a line (or $TEST_JSON)\n"
              "  --budget SIZE           the line (or $TEST_BUDGET)\n"
              "  --batch N               sequences in one update (default 8)\n"
              "  --seed N                of the random numbers\n"
              "  --lr X                  learning rate (default 1e-3, or $TEST_LR)\n"
              "  --data FILE             text to train on\n"
              "  --attention FORM        how attention is computed, in a help that is long\n"
              "                          enough to be broken into two lines of text: plain,\n"
              "                          fused or both\n"
              "  --help                  print this text\n"
              "\n"
              "example:\n"
              "  ship load gpt2 --batch 4\n");
    plm_free(help);
}

static const plm_option awkward_options[] = {
    {"quote", PLM_OPTION_TEXT, FIELD(data), "DIR", "", NULL,
     ".begins with a point, has a \\ and a -", NULL},
};

static const plm_syntax awkward = {
    .command = "ship sink",
    .summary = "'Sinks'.",
    .options = awkward_options,
    .option_count = 1,
    .example = "ship sink\n  .hidden --quote x",
};

static void the_manual_has_every_option_and_no_text_becomes_a_request(void **state)
{
    (void)state;
    char *text = NULL;
    assert_ok(plm_options_manual(&syntax, &text));
    assert_non_null(strstr(text, ".SS \"ship load MODEL [options]\"\nLoads a ship.\n"));
    assert_non_null(
        strstr(text, ".TP\n\\fB\\-\\-budget\\fR \\fISIZE\\fR\nthe line (or $TEST_BUDGET)\n"));
    assert_non_null(strstr(text, "plain, fused or both\n"));
    assert_non_null(strstr(text, "\\fB\\-\\-help\\fR\nprint this text\n"));
    assert_non_null(strstr(text, ".nf\nship load gpt2 \\-\\-batch 4\n.fi\n"));
    plm_free(text);
    assert_ok(plm_options_manual(&awkward, &text));
    assert_non_null(strstr(text, "\n\\&'Sinks'.\n"));
    assert_non_null(strstr(text, "\n\\&.begins with a point, has a \\e and a \\-\n"));
    assert_non_null(strstr(text, "\n\\&.hidden \\-\\-quote x\n"));
    plm_free(text);
}

static void the_completion_is_an_arm_that_knows_what_follows_each_option(void **state)
{
    (void)state;
    char *text = NULL;
    assert_ok(plm_options_completion(&syntax, &text));
    assert_string_equal(
        text, "    load)\n"
              "        options='--json --budget --batch --seed --lr --data --attention --help'\n"
              "        operands=file\n"
              "        case $option in\n"
              "        --json) kind=flag ;;\n"
              "        --budget) kind=value ;;\n"
              "        --batch) kind=value ;;\n"
              "        --seed) kind=value ;;\n"
              "        --lr) kind=value ;;\n"
              "        --data) kind=file ;;\n"
              "        --attention) kind=choice choices='plain fused both' ;;\n"
              "        esac\n"
              "        ;;\n");
    plm_free(text);
    assert_ok(plm_options_completion(&awkward, &text));
    assert_non_null(strstr(text, "operands=none\n"));
    assert_non_null(strstr(text, "--quote) kind=folder ;;\n"));
    plm_free(text);
}

typedef plm_status renderer(const plm_syntax *syntax, char **text);

static void rendering_survives_the_failure_of_every_allocation(void **state)
{
    (void)state;
    static renderer *const renderers[] = {plm_options_help, plm_options_manual,
                                          plm_options_completion};
    for (int i = 0; i < 6; i++) {
        bool fired = true;
        for (int64_t n = 1; fired; n++) {
            char *text = NULL;
            plm__host_fail_at(n, i % 2 != 0);
            plm_status status = renderers[i / 2](&syntax, &text);
            fired = plm__host_fail_at(0, false);
            assert_int_equal(status, fired ? PLM_ERROR_HOST_MEMORY : PLM_OK);
            assert_true(fired == (text == NULL));
            plm_free(text);
            assert_int_equal(plm__host_stats_get().live_count, 0);
        }
    }
}

static void the_nearest_name_is_near(void **state)
{
    (void)state;
    static const char *const names[] = {"bill", "plan", "train", "profile", "curve"};
    static const char *const cases[][2] = {
        {"trian", "train"},
        {"tran", "train"},
        {"bil", "bill"},
        {"profiles", "profile"},
        {"plam", "plan"},
        {"p", NULL},
        {"", NULL},
        {"generate", NULL},
        {"a-word-of-more-letters-than-any-name-would-ever-have-in-it", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_nearest nearest = {.word = cases[i][0]};
        for (size_t j = 0; j < sizeof names / sizeof *names; j++)
            plm_nearest_offer(&nearest, names[j]);
        if (cases[i][1])
            assert_string_equal(nearest.name, cases[i][1]);
        else
            assert_null(nearest.name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_value_reaches_its_field),
        cmocka_unit_test(what_is_not_given_has_its_default_or_none),
        cmocka_unit_test(the_line_goes_before_the_environment_and_that_before_the_default),
        cmocka_unit_test(the_later_of_two_values_is_kept),
        cmocka_unit_test(after_two_dashes_everything_is_an_operand),
        cmocka_unit_test(help_is_found_before_anything_is_refused),
        cmocka_unit_test(wrong_words_are_refused_in_one_line_and_change_nothing),
        cmocka_unit_test(values_out_of_range_are_refused),
        cmocka_unit_test(help_shows_every_option_with_its_default),
        cmocka_unit_test(the_manual_has_every_option_and_no_text_becomes_a_request),
        cmocka_unit_test(the_completion_is_an_arm_that_knows_what_follows_each_option),
        cmocka_unit_test(rendering_survives_the_failure_of_every_allocation),
        cmocka_unit_test(the_nearest_name_is_near),
    };
    return run_test_group(tests);
}
