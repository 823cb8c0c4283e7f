/* SPDX-License-Identifier: MIT */
/*
 * plimsoll train from outside: every bad input is one line on standard error and status 2, a budget
 * that is too small status 1 with the smallest named, and the last line of --json is the summary.
 */
#include "unit/test.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/json.h"

enum { OUTPUT_BYTES = 65536, TEXT_BYTES = 4000 };

static const char model[] = "gpt:layers=1,width=16,heads=2,context=16,vocab=256";

/* A folder with a text, an empty file and a short one. */
typedef struct folder {
    char path[32];
} folder;

static void write_file(const folder *in, const char *name, const char *bytes, size_t count)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", in->path, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const folder *in, const char *name, const char *text)
{
    write_file(in, name, text, strlen(text));
}

static int make_folder(void **state)
{
    static folder made;
    static char text[TEXT_BYTES];
    snprintf(made.path, sizeof made.path, "/tmp/plimsoll-cli-XXXXXX");
    if (!mkdtemp(made.path))
        return -1;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "all hands to the pumps, and keep her afloat\n"[i % 44];
    write_file(&made, "text", text, sizeof text);
    write_file(&made, "empty", "", 0);
    write_file(&made, "short", text, 60);
    write_text(&made, "strategy", "{\"micro_batch\": 2, \"attention\": \"plain\"}");
    write_text(&made, "broken", "{\"micro_batch\": ");
    write_text(&made, "wrong", "{\"micro_batch\": -1}");
    *state = &made;
    return 0;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"text", "empty", "short", "strategy", "broken", "wrong"};
    const folder *made = *state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", made->path, names[i]);
        unlink(path);
    }
    rmdir(made->path);
    return check_no_leak(state);
}

/* Runs the program in the folder; `output` becomes what `redirection` leads into the pipe. Returns
 * the exit status, -1 when it was killed. */
static int run_program(const folder *in, const char *arguments, const char *redirection,
                       char output[OUTPUT_BYTES])
{
    char line[1024];
    snprintf(line, sizeof line, "cd %s && '%s' %s %s", in->path, PLM_PROGRAM, arguments,
             redirection);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t count = fread(output, 1, OUTPUT_BYTES - 1, pipe);
    output[count] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char to_output[] = "2>/dev/null";
static const char to_error[] = "2>&1 >/dev/null";

static bool is_one_line(const char *text)
{
    const char *end = strchr(text, '\n');
    return end && end != text && end[1] == '\0' && strncmp(text, "plimsoll: ", 10) == 0;
}

/* One bad line: what it must say, and that it says it in one line and ends with `wanted`. */
static void check_refusal(const folder *in, const char *arguments, int wanted, const char *says)
{
    static char output[OUTPUT_BYTES];
    int status = run_program(in, arguments, to_error, output);
    if (status == wanted && is_one_line(output) && strstr(output, says))
        return;
    print_error("plimsoll %s\n  wanted status %d and one line with '%s', found status %d and:\n%s",
                arguments, wanted, says, status, output);
    fail();
}

static void models_that_cannot_be_are_status_2_and_one_line(void **state)
{
    static const char *const cases[][2] = {
        {"gpt3", "gpt3"},
        {"gpt", "unknown model"},
        {"''", "model"},
        {"gpt:", "missing"},
        {"bert", "unknown model"},
        {"bert:layers=2", "try bert:"},
        {"bert:layers=1,width=16,heads=2,context=16,vocab=256", "at least 257"},
        {"bert:layers=1,width=16,heads=3,context=16,vocab=257", "heads"},
        {"bert:layers=1,width=16,heads=2,context=16,vocab=257 --sample 5", "--sample"},
        {"gpt:layers=2", "missing"},
        {"gpt:layers=1,width=16,heads=2,context=16,vocab=256,depth=3", "depth"},
        {"gpt:layers=1,width=16,heads=2,context=16,vocab=256,layers=2", "layers once"},
        {"gpt:layers=1,width=16,heads=2,context=16,vocab=256,dropout=1", "dropout"},
        {"gpt:layers=1,width=16,heads=2,context=16,vocab=256,dropout=nan", "dropout"},
        {"gpt:layers=0,width=16,heads=2,context=16,vocab=256", "layers"},
        {"gpt:layers=-1,width=16,heads=2,context=16,vocab=256", "layers"},
        {"gpt:layers=1.5,width=16,heads=2,context=16,vocab=256", "layers"},
        {"gpt:layers=1,width=16,heads=3,context=16,vocab=256", "heads"},
        {"gpt:layers=1,width=16,heads=32,context=16,vocab=256", "heads"},
        {"gpt:layers=1,width=99999999999999999999,heads=1,context=16,vocab=256", "width"},
        {"gpt:layers=1,width=16,heads=2,context=0,vocab=256", "context"},
        {"gpt:layers=1,width=16,heads=2,context=16,vocab=-256", "vocab"},
    };
    const folder *in = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "train %s --data text --steps 1", cases[i][0]);
        check_refusal(in, arguments, 2, cases[i][1]);
    }
}

static void options_that_cannot_be_are_status_2_and_one_line(void **state)
{
    static const char *const cases[][2] = {
        {"--bugdet 64MiB", "--budget"},
        {"--budget", "--budget"},
        {"--budget 0", "budget"},
        {"--budget -5", "budget"},
        {"--budget 12XB", "12XB"},
        {"--budget lots", "lots"},
        {"--budget 99999999999999999999GiB", "budget"},
        {"--batch 0", "batch"},
        {"--batch -8", "batch"},
        {"--batch 8.5", "batch"},
        {"--batch 99999999999999999999", "batch"},
        {"--batch 9223372036854775807", "batch"},
        {"--batch 8 --micro-batch 3", "micro-batch"},
        {"--batch 8 --micro-batch 0", "micro-batch"},
        {"--batch 8 --micro-batch 16", "micro-batch"},
        {"--seq 0", "seq"},
        {"--seq -1", "seq"},
        {"--seq 9223372036854775807", "seq"},
        {"--seq 4611686018427387904", "seq"},
        {"--steps 0", "steps"},
        {"--steps -1", "steps"},
        {"--steps many", "steps"},
        {"--lr 0", "rate"},
        {"--lr -1", "lr"},
        {"--lr nan", "lr"},
        {"--clip -1", "clip"},
        {"--weight-decay -1", "weight-decay"},
        {"--attention flash", "flash"},
        {"--optimizer lion", "adamw|sgd"},
        {"--momentum 1", "momentum"},
        {"--momentum -1", "momentum"},
        {"--threads 100000", "threads"},
        {"--threads 4294967297", "threads"},
        {"--weight-decay 1e300", "decay"},
        {"--sample 100000", "sample"},
        {"--strategy nowhere", "nowhere"},
        {"--strategy broken", "broken"},
        {"--strategy wrong", "micro"},
        {"--strategy empty", "empty"},
        {"another", "another"},
    };
    const folder *in = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "train %s --data text --steps 1 %s", model,
                 cases[i][0]);
        check_refusal(in, arguments, 2, cases[i][1]);
    }
    check_refusal(in, "train --data text", 2, "MODEL");
}

static void data_that_cannot_be_is_status_2_and_one_line(void **state)
{
    static const char *const cases[][2] = {
        {"", "--data"},
        {"--data nowhere", "nowhere"},
        {"--data ''", "''"},
        {"--data empty", "empty"},
        {"--data short", "short"},
        {"--data .", "."},
    };
    const folder *in = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "train %s %s", model, cases[i][0]);
        check_refusal(in, arguments, 2, cases[i][1]);
    }
    check_refusal(in, "train gpt:layers=1,width=16,heads=2,context=16,vocab=64 --data text", 2,
                  "vocabulary");
}

static void sizes_beyond_counting_are_refused_and_do_not_crash(void **state)
{
    static const char *const cases[] = {
        "train gpt:layers=1,width=268435456,heads=1,context=16,vocab=256 --data text",
        "train gpt:layers=4096,width=268435456,heads=1,context=268435456,vocab=268435456 --data "
        "text",
        "train gpt:layers=1,width=16,heads=2,context=16,vocab=256 --data text --batch 16777216",
    };
    static char output[OUTPUT_BYTES];
    const folder *in = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "%s --budget 64MiB --steps 1 --micro-batch %s",
                 cases[i], i == 2 ? "16777216" : "8");
        int status = run_program(in, arguments, to_error, output);
        if ((status == 1 || status == 2) && is_one_line(output))
            continue;
        print_error("plimsoll %s\n  found status %d and:\n%s", arguments, status, output);
        fail();
    }
}

static void a_budget_that_is_too_small_is_status_1_and_names_one_that_does(void **state)
{
    static char output[OUTPUT_BYTES];
    const folder *in = *state;
    char arguments[256];
    size_t smallest = 0;
    snprintf(arguments, sizeof arguments,
             "train %s --data text --threads 1 --steps 1 --budget 4096B", model);
    check_refusal(in, arguments, 1, "smallest");
    run_program(in, arguments, to_error, output);
    const char *number = strrchr(output, '(');
    assert_non_null(number);
    assert_int_equal(sscanf(number, "(%zu bytes)", &smallest), 1);
    for (int less = 0; less < 2; less++) {
        snprintf(arguments, sizeof arguments,
                 "train %s --data text --threads 1 --steps 1 --budget %zuB", model,
                 smallest - (size_t)less);
        assert_int_equal(run_program(in, arguments, to_output, output), less);
    }
}

static void the_last_line_of_json_is_the_summary_with_equal_peaks(void **state)
{
    static const char *const extras[] = {"", "--attention plain", "--micro-batch 1",
                                         "--strategy strategy"};
    static char output[OUTPUT_BYTES];
    const folder *in = *state;
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++) {
        char arguments[256];
        int lines = 0;
        json_t *root = NULL;
        snprintf(arguments, sizeof arguments,
                 "train %s --data text --threads 1 --steps 3 --budget 16MiB --batch 4 --json %s",
                 model, extras[i]);
        assert_int_equal(run_program(in, arguments, to_output, output), 0);
        for (char *line = output; *line; line = strchr(line, '\n') + 1, lines++) {
            char *end = strchr(line, '\n');
            assert_non_null(end);
            json_decref(root);
            assert_ok(plm__json_read("a line", line, (size_t)(end - line), &root));
        }
        assert_int_equal(lines, 3 + 1);
        json_int_t predicted = json_integer_value(json_object_get(root, "predicted_peak_bytes"));
        assert_true(predicted > 0);
        assert_int_equal(json_integer_value(json_object_get(root, "measured_peak_bytes")),
                         predicted);
        assert_int_equal(json_integer_value(json_object_get(root, "budget_bytes")), 16 << 20);
        assert_int_equal(json_integer_value(json_object_get(root, "steps")), 3);
        const json_t *strategy = json_object_get(root, "strategy");
        static const int micro_batches[] = {4, 4, 1, 2};
        assert_int_equal(json_integer_value(json_object_get(strategy, "micro_batch")),
                         micro_batches[i]);
        assert_string_equal(json_string_value(json_object_get(strategy, "attention")),
                            i % 2 ? "plain" : "fused");
        json_decref(root);
    }
}

static void a_trace_of_a_run_holds_the_updates_asked_for(void **state)
{
    static char output[OUTPUT_BYTES];
    static const char *const cases[][3] = {
        {"--steps 5 --trace trace.json --trace-steps 2", "trace.json has 2 updates", "update 2: "},
        {"--steps 1 --trace trace.json", "trace.json has 1 update of", "update 1: update"},
    };
    const folder *in = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[256], path[512];
        snprintf(arguments, sizeof arguments,
                 "train %s --data text --threads 1 --budget 16MiB --batch 4 %s", model,
                 cases[i][0]);
        assert_int_equal(run_program(in, arguments, to_error, output), 0);
        assert_non_null(strstr(output, cases[i][1]));
        snprintf(path, sizeof path, "%s/trace.json", in->path);
        json_t *root = json_load_file(path, 0, NULL), *event;
        assert_non_null(root);
        size_t at;
        int found = 0, beyond = 0;
        json_array_foreach (json_object_get(root, "traceEvents"), at, event) {
            const char *name = json_string_value(json_object_get(event, "name"));
            found += strncmp(name, cases[i][2], strlen(cases[i][2])) == 0;
            beyond += strncmp(name, "update 3: ", 10) == 0;
        }
        assert_true(found > 0);
        assert_int_equal(beyond, 0);
        json_decref(root);
        unlink(path);
    }
}

static void a_trace_that_cannot_be_written_is_told_before_the_run(void **state)
{
    static char output[OUTPUT_BYTES];
    static const char *const paths[] = {"no/such/folder", ".", "''"};
    const folder *in = *state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments,
                 "train %s --data text --threads 1 --steps 2 --budget 16MiB --trace %s", model,
                 paths[i]);
        assert_int_equal(run_program(in, arguments, to_output, output), 2);
        assert_string_equal(output, "");
    }
}

static void a_run_for_people_ends_with_both_peaks_and_a_sample(void **state)
{
    static char output[OUTPUT_BYTES];
    const folder *in = *state;
    char arguments[256];
    snprintf(arguments, sizeof arguments,
             "train %s --data text --threads 1 --steps 3 --budget 16MiB --sample 20 --prompt all",
             model);
    assert_int_equal(run_program(in, arguments, to_output, output), 0);
    assert_non_null(strstr(output, "predicted peak"));
    assert_non_null(strstr(output, "equal"));
    assert_null(strstr(output, "NOT EQUAL"));
    assert_non_null(strstr(output, "sample:\nall"));
    assert_int_equal(run_program(in, arguments, to_error, output), 0);
    assert_string_equal(output, "");
}

static void a_masked_run_tells_no_bigram(void **state)
{
    static char output[OUTPUT_BYTES];
    const folder *in = *state;
    const char *line = "train bert:layers=1,width=16,heads=2,context=16,vocab=257 --data text "
                       "--threads 1 --steps 2 --optimizer sgd";
    char arguments[256];
    assert_int_equal(run_program(in, line, to_output, output), 0);
    assert_non_null(strstr(output, "hidden bytes"));
    assert_non_null(strstr(output, "SGD with momentum"));
    assert_null(strstr(output, "bigram"));
    assert_null(strstr(output, "NOT EQUAL"));
    snprintf(arguments, sizeof arguments, "%s --json", line);
    assert_int_equal(run_program(in, arguments, to_output, output), 0);
    assert_non_null(strstr(output, "\"optimizer\":\"sgd\""));
    assert_null(strstr(output, "bigram"));
}

static void a_sequence_longer_than_the_context_is_trained_with_a_notice(void **state)
{
    static char output[OUTPUT_BYTES];
    const folder *in = *state;
    char arguments[256];
    snprintf(arguments, sizeof arguments, "train %s --data text --threads 1 --steps 1 --seq 24",
             model);
    assert_int_equal(run_program(in, arguments, to_error, output), 0);
    assert_true(is_one_line(output));
    assert_non_null(strstr(output, "24"));
}

/* Starts a run that would take days, sends it `signal_name` after some updates; the exit status. */
static int stop_a_run(const folder *in, const char *options, const char *signal_name)
{
    char line[1024];
    snprintf(line, sizeof line,
             "cd %s && rm -f log && { '%s' train %s --data text --threads 1 --steps 100000000 "
             "--json %s >log 2>&1 & } && until grep -q '\"step\": *3,' log || ! kill -0 $!; do "
             "sleep 0.02; done; kill -%s $!; wait $!",
             in->path, PLM_PROGRAM, model, options, signal_name);
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_run_that_is_told_to_stop_saves_its_update_and_can_be_resumed(void **state)
{
    static char output[OUTPUT_BYTES];
    const folder *in = *state;
    char line[512];
    assert_int_equal(stop_a_run(in, "--out saved", "TERM"), 128 + SIGTERM);
    snprintf(
        line, sizeof line,
        "cd %s && grep -q '\"measured_peak_bytes\":.*\"saved_step\":[^0].*\"strategy\":{' log && "
        "grep -o 'stopped after step [0-9]* of 100000000; --resume saved' log && "
        "test $(ls saved | wc -l) -eq 1 && "
        "at=$(ls saved | tr -dc 0-9) && '%s' train %s --data text --threads 1 --resume saved "
        "--out saved --keep 1 --json --steps $((1$at - 100000000 + 1)) >log 2>&1",
        in->path, PLM_PROGRAM, model);
    assert_int_equal(system(line), 0);
    snprintf(line, sizeof line, "train %s --data text --threads 1 --steps 2 --out saved", model);
    assert_int_equal(run_program(in, line, to_error, output), 2);
    assert_true(is_one_line(output));
    assert_non_null(strstr(output, "resume that one or name another folder"));
    snprintf(line, sizeof line, "cd %s && test $(ls saved | wc -l) -eq 1 && rm -r saved log",
             in->path);
    assert_int_equal(system(line), 0);
}

/* Two runs in one folder: the second goes, the first lives and saves; a killed run's lock is none.
 */
static void a_folder_is_one_runs_at_a_time(void **state)
{
    static char output[OUTPUT_BYTES];
    const folder *in = *state;
    char line[1200];
    snprintf(line, sizeof line,
             "cd %s && rm -f log && { '%s' train %s --data text --threads 1 --steps 100000000 "
             "--json --out both >log 2>&1 & } && touch both/step-00000009.safetensors.tmp-1; "
             "until grep -q '\"step\": *3,' log || ! kill -0 $!; do sleep 0.02; done; "
             "touch both/step-00000009.safetensors.tmp-1; "
             "'%s' train %s --data text --threads 1 --steps 1 --out both 2>&1 >/dev/null; "
             "echo status $? of $!; ls both; kill -9 $!; wait $!; "
             "'%s' train %s --data text --threads 1 --steps 1 --out both 2>&1 >/dev/null; "
             "echo then $?; ls both; rm -r both log",
             in->path, PLM_PROGRAM, model, PLM_PROGRAM, model, PLM_PROGRAM, model);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    output[fread(output, 1, OUTPUT_BYTES - 1, pipe)] = '\0';
    pclose(pipe);
    int first, told;
    const char *refusal = strstr(output, "plimsoll: another run (process ");
    const char *status = strstr(output, "status 2 of ");
    if (!refusal || !status || sscanf(status, "status 2 of %d", &first) != 1 ||
        sscanf(refusal, "plimsoll: another run (process %d)", &told) != 1 || first != told ||
        !strstr(output, "name another folder") || !strstr(status, ".tmp-1\n") ||
        !strstr(output, "then 0\nstep-00000001.safetensors\n") ||
        strstr(strstr(output, "then 0"), ".tmp-1"))
        fail_msg("%s", output);
}

static void a_run_that_is_stopped_without_a_folder_says_that_nothing_was_saved(void **state)
{
    const folder *in = *state;
    char line[128];
    assert_int_equal(stop_a_run(in, "", "TERM"), 128 + SIGTERM);
    snprintf(line, sizeof line, "cd %s && grep -q 'nothing was saved' log && rm log", in->path);
    assert_int_equal(system(line), 0);
}

static void a_folder_that_cannot_be_written_is_refused_before_the_first_update(void **state)
{
    static char output[OUTPUT_BYTES];
    const folder *in = *state;
    char arguments[256];
    snprintf(arguments, sizeof arguments,
             "train %s --data text --threads 1 --steps 3 --json --out no/such/folder", model);
    assert_int_equal(run_program(in, arguments, to_output, output), 2);
    assert_string_equal(output, "");
}

static void a_run_whose_loss_is_no_number_at_the_end_has_failed(void **state)
{
    static char output[OUTPUT_BYTES];
    const folder *in = *state;
    char arguments[256];
    snprintf(arguments, sizeof arguments,
             "train %s --data text --threads 1 --steps 30 --lr 1e12 --warmup 0", model);
    assert_int_equal(run_program(in, arguments, to_error, output), 3);
    assert_true(is_one_line(output));
    assert_non_null(strstr(output, "--lr"));
    assert_non_null(strstr(output, "diverged"));
    assert_int_equal(run_program(in, arguments, to_output, output), 3);
    assert_non_null(strstr(output, "of them changed nothing"));
    assert_null(strstr(output, "bigram"));
}

static void a_refusal_stands_after_what_was_printed_before_it(void **state)
{
    static char output[OUTPUT_BYTES];
    const folder *in = *state;
    char arguments[256];
    snprintf(arguments, sizeof arguments, "train %s --data text --threads 1 --out no/such/folder",
             model);
    assert_int_equal(run_program(in, arguments, "2>&1", output), 2);
    assert_non_null(strstr(output, "plan "));
    assert_true(strstr(output, "plimsoll: ") > strstr(output, "plan "));
}

/* A file may not grow beyond a few blocks: as good as a full disk, and needs none. */
/* What GNU's OpenMP tells of itself when it is loaded, the last time that it is. */
static void threads_that_wait_sleep_unless_the_environment_says_otherwise(void **state)
{
    const struct {
        const char *environment;
        bool sleeps;
    } cases[] = {
        {"-u OMP_WAIT_POLICY -u GOMP_SPINCOUNT", true},
        {"-u GOMP_SPINCOUNT OMP_WAIT_POLICY=active", false},
        {"-u OMP_WAIT_POLICY GOMP_SPINCOUNT=77", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[1024];
        static char output[OUTPUT_BYTES];
        snprintf(line, sizeof line, "env %s OMP_DISPLAY_ENV=verbose '%s' train --help 2>&1",
                 cases[i].environment, PLM_PROGRAM);
        FILE *pipe = popen(line, "r");
        assert_non_null(pipe);
        output[fread(output, 1, OUTPUT_BYTES - 1, pipe)] = '\0';
        assert_int_equal(pclose(pipe), 0);
        if (!strstr(output, "GOMP_SPINCOUNT"))
            skip(); /* another OpenMP */
        assert_int_equal(strstr(output, "GOMP_SPINCOUNT = '0'") != NULL, cases[i].sleeps);
    }
}

static void a_save_that_the_machine_fails_is_status_3(void **state)
{
    const folder *in = *state;
    char line[1024];
    snprintf(line, sizeof line,
             "cd %s && trap '' XFSZ && ulimit -f 8 && '%s' train %s --data text --threads 1 "
             "--steps 1 --out full 2>&1 >/dev/null | grep -q 'plimsoll: cannot write .*full/step'",
             in->path, PLM_PROGRAM, model);
    assert_int_equal(system(line), 0);
    snprintf(line, sizeof line,
             "cd %s && trap '' XFSZ && ulimit -f 8 && '%s' train %s --data text --threads 1 "
             "--steps 1 --out full >/dev/null 2>&1; code=$?; rmdir full && exit $code",
             in->path, PLM_PROGRAM, model);
    int status = system(line);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_that_cannot_be_are_status_2_and_one_line),
        cmocka_unit_test(options_that_cannot_be_are_status_2_and_one_line),
        cmocka_unit_test(data_that_cannot_be_is_status_2_and_one_line),
        cmocka_unit_test(sizes_beyond_counting_are_refused_and_do_not_crash),
        cmocka_unit_test(a_budget_that_is_too_small_is_status_1_and_names_one_that_does),
        cmocka_unit_test(the_last_line_of_json_is_the_summary_with_equal_peaks),
        cmocka_unit_test(a_trace_of_a_run_holds_the_updates_asked_for),
        cmocka_unit_test(a_trace_that_cannot_be_written_is_told_before_the_run),
        cmocka_unit_test(a_run_for_people_ends_with_both_peaks_and_a_sample),
        cmocka_unit_test(a_masked_run_tells_no_bigram),
        cmocka_unit_test(a_sequence_longer_than_the_context_is_trained_with_a_notice),
        cmocka_unit_test(a_run_that_is_told_to_stop_saves_its_update_and_can_be_resumed),
        cmocka_unit_test(a_folder_is_one_runs_at_a_time),
        cmocka_unit_test(a_run_that_is_stopped_without_a_folder_says_that_nothing_was_saved),
        cmocka_unit_test(a_folder_that_cannot_be_written_is_refused_before_the_first_update),
        cmocka_unit_test(a_run_whose_loss_is_no_number_at_the_end_has_failed),
        cmocka_unit_test(a_refusal_stands_after_what_was_printed_before_it),
        cmocka_unit_test(a_save_that_the_machine_fails_is_status_3),
        cmocka_unit_test(threads_that_wait_sleep_unless_the_environment_says_otherwise),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
