/* SPDX-License-Identifier: MIT */
/*
 * plimsoll forecast from outside, with a shell script in the place of one of PyTorch: pages, JSON,
 * targets, ranks, the search for the largest value, what is refused, and that nothing stays behind.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "unit/fake_script.h"
#include "unit/program.h"
#include "unit/scratch.h"

#define SNAPSHOT PLM_SOURCE_DIR "/tests/data/snapshots/cat_spike.pickle.xz"

/* Where the program carries a library that stands in for CUDA. */
#if defined(__linux__) && defined(__x86_64__)
enum { IS_STOOD_IN = 1 };
#else
enum { IS_STOOD_IN = 0 };
#endif

static const int64_t gib = 1 << 30;
static const int64_t context_bytes = 787283968; /* the H200's, in data/devices */
static const int64_t cudnn_bytes = 804061184;

static char folder[SCRATCH_BYTES];
static char output[OUTPUT_BYTES];

/* ---- a place for each test: the script, an old file, a folder for what is temporary ---- */

static void in_folder(const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
}

static void write_in_folder(const char *name, const char *text)
{
    char path[PATH_MAX];
    in_folder(name, path);
    assert_ok(plm__file_write(path, text, strlen(text)));
}

static int make_place(void **state)
{
    (void)state;
    char path[PATH_MAX];
    if (!scratch_folder(folder))
        return -1;
    write_in_folder("train.py", FAKE_SCRIPT);
    write_in_folder("old", "old content");
    in_folder("temporary", path);
    assert_ok(plm__folder_make(path));
    setenv("TMPDIR", path, 1);
    setenv("SNAPSHOT", SNAPSHOT, 1);
    return chdir(folder);
}

/* How many entries a folder of the place has, -1 when it is not there. */
static int entries_of(const char *name)
{
    char path[PATH_MAX];
    in_folder(name, path);
    DIR *listing = opendir(path);
    int count = -2; /* "." and ".." */
    if (!listing)
        return -1;
    while (readdir(listing))
        count++;
    closedir(listing);
    return count;
}

static int remove_place(void **state)
{
    (void)state;
    char line[PATH_MAX + 16];
    const int left = entries_of("temporary");
    if (chdir("/") != 0)
        return -1;
    snprintf(line, sizeof line, "rm -rf %s", folder);
    if (system(line) != 0)
        return -1;
    if (left != 0)
        print_error("%d folders were left behind\n", left);
    return left == 0 ? 0 : -1;
}

static int forecast(const char *options, const char *arguments, const char *redirection)
{
    char line[900];
    snprintf(line, sizeof line, "forecast %s -- sh train.py %s", options, arguments);
    return run_program(line, redirection, output);
}

/* The JSON of the only target, with this exit status. */
static json_t *forecast_json(const char *options, const char *arguments, int wanted_status)
{
    char line[700];
    json_t *root = NULL;
    snprintf(line, sizeof line, "--json %s", options);
    assert_int_equal(forecast(line, arguments, to_output), wanted_status);
    assert_non_null(strchr(output, '\n'));
    assert_string_equal(strchr(output, '\n'), "\n");
    assert_ok(plm__json_read("the forecast", output, strlen(output), &root));
    return root;
}

static const json_t *at(const json_t *array, size_t place)
{
    const json_t *found = json_array_get(array, place);
    assert_non_null(found);
    return found;
}

static void assert_told(const char *wanted)
{
    if (!strstr(output, wanted))
        fail_msg("wanted '%s' in:\n%s", wanted, output);
}

/* ---- pages ---- */

static void the_page_tells_peaks_by_phase_and_the_verdict(void **state)
{
    (void)state;
    assert_int_equal(forecast("--capacity 16GiB", "", to_output), 0);
    assert_true(strncmp(output, "Nothing runs on a GPU", 21) == 0);
    static const char *const told[] = {
        "means nothing",
        "h200, NVIDIA H200, PyTorch 2.11.0+cu130",
        "the first step     1.00 GiB  2.00 GiB  750.8 MiB            2.73 GiB",
        "the steady state   4.00 GiB  4.50 GiB  750.8 MiB            5.23 GiB",
        "evaluation        512.0 MiB  4.50 GiB",
        "the end            4.00 GiB  4.50 GiB",
        "the whole run      4.00 GiB",
        "Fits: 10.77 GiB of 16.00 GiB are left",
        "catspike snapshots_torch.py:161", /* who holds the peak, in the words of snapshot */
        "Attention: flash.",
        "A range: first updates skipped. Allocated 1.00 GiB to 4.00 GiB, reserved 1.00 GiB to 4.50",
        "train.py:7: it ran as",
        "best.pt",
        "read from one H200",
        "plimsoll-forecast/h200-rank0.pickle",
    };
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        assert_told(told[i]);
    assert_null(strchr(output, '\x1b'));
}

static void what_the_script_prints_goes_to_standard_error(void **state)
{
    (void)state;
    assert_int_equal(forecast("", "", to_error), 0);
    assert_told("loss 4.0 with batch 4");
    assert_int_equal(forecast("", "", to_output), 0);
    assert_null(strstr(output, "loss 4.0"));
}

static void the_recording_is_one_that_snapshot_reads_with_the_capacity(void **state)
{
    (void)state;
    assert_int_equal(forecast("--capacity 16GiB --out deep", "", to_output), 0);
    assert_int_equal(run_program("snapshot deep/h200-rank0.pickle", "2>&1", output), 0);
    assert_told("capacity");
    assert_told("16.00 GiB");
    assert_null(strstr(output, "passed over"));
}

/* ---- JSON ---- */

static void json_has_the_keys_to_rely_on(void **state)
{
    (void)state;
    json_t *root = forecast_json("--capacity 16GiB --steps 5", "", 0);
    assert_string_equal(json_string_value(json_object_get(root, "target")), "h200");
    assert_string_equal(json_string_value(json_object_get(root, "torch")), "2.11.0+cu130");
    const json_t *steps = json_object_get(root, "steps");
    assert_int_equal(json_array_size(steps), 2);
    assert_int_equal(json_number(at(steps, 0), "step"), 1);
    assert_int_equal(json_number(at(steps, 1), "step"), 5); /* what --steps said reached it */
    assert_int_equal(json_number(at(steps, 1), "allocated_bytes"), 4 * gib);
    assert_int_equal(json_number(at(steps, 1), "reserved_bytes"), 4 * gib + gib / 2);
    const json_t *peak = json_object_get(root, "peak");
    assert_int_equal(json_number(peak, "allocated_bytes"), 4 * gib);
    assert_int_equal(json_number(peak, "reserved_bytes"), 4 * gib + gib / 2);
    assert_int_equal(json_number(root, "context_bytes"), context_bytes);
    assert_true(json_is_true(json_object_get(root, "fits")));
    assert_int_equal(json_number(root, "margin_bytes"),
                     16 * gib - 4 * gib - gib / 2 - context_bytes);
    assert_true(json_is_false(json_object_get(root, "out_of_memory")));
    assert_string_equal(json_string_value(json_object_get(root, "recording")),
                        "plimsoll-forecast/h200-rank0.pickle");
    assert_string_equal(json_string_value(json_object_get(root, "attention")), "flash");
    json_decref(root);
}

static void a_byte_decides_whether_a_script_fits(void **state)
{
    (void)state;
    char line[64];
    const int64_t needed = 4 * gib + gib / 2 + context_bytes;
    snprintf(line, sizeof line, "--capacity %lld", (long long)needed);
    json_t *root = forecast_json(line, "", 0);
    assert_int_equal(json_number(root, "margin_bytes"), 0);
    assert_true(json_is_true(json_object_get(root, "fits")));
    json_decref(root);
    snprintf(line, sizeof line, "--capacity %lld", (long long)needed - 1);
    root = forecast_json(line, "", 1);
    assert_int_equal(json_number(root, "margin_bytes"), -1); /* measured without an end */
    assert_true(json_is_false(json_object_get(root, "fits")));
    assert_true(json_is_true(json_object_get(root, "out_of_memory")));
    json_decref(root);
    assert_int_equal(forecast(line, "", to_output), 1);
    assert_told("Does not fit: 1 B are missing of 5.23 GiB");
    assert_told("Memory ran out at train.py:41.");
}

static void the_context_is_larger_where_cudnn_was_in_use(void **state)
{
    (void)state;
    char line[64];
    snprintf(line, sizeof line, "--capacity %lld",
             (long long)(4 * gib + gib / 2 + cudnn_bytes - 1));
    json_t *root = forecast_json(line, "--mode cudnn", 1);
    assert_int_equal(json_number(root, "context_bytes"), cudnn_bytes);
    assert_int_equal(json_number(root, "margin_bytes"), -1);
    assert_true(json_is_false(json_object_get(root, "out_of_memory")));
    json_decref(root);
}

static void a_script_that_fails_by_itself_is_told_beside_the_verdict(void **state)
{
    (void)state;
    static const char told[] =
        "the script ended with status 3 by itself, before the steps asked for";
    assert_int_equal(forecast("--capacity 16GiB", "--mode exits3", to_output), 2);
    assert_told("Fits: 10.77 GiB of 16.00 GiB are left");
    assert_told("But the script ended with status 3 by itself");
    json_t *root = forecast_json("--capacity 16GiB", "--mode exits3", 2);
    assert_true(json_is_true(json_object_get(root, "fits")));
    assert_int_equal(json_number(root, "script_status"), 3);
    assert_string_equal(
        json_string_value(json_object_get(at(json_object_get(root, "warnings"), 0), "what")), told);
    json_decref(root);
    assert_int_equal(forecast("--target t4 --target h100", "--mode exits3", to_output), 2);
    assert_told("t4: the script ended with status 3 by itself");
    assert_told("h100: the script ended with status 3 by itself");
}

static void an_end_that_is_no_failure_of_the_script_is_not_told(void **state)
{
    (void)state;
    static const char *const modes[] = {"--mode exits0", "--mode exits3late"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        json_t *root = forecast_json("--capacity 16GiB", modes[i], 0);
        assert_int_equal(json_number(root, "script_status"), 0);
        assert_int_equal(json_array_size(json_object_get(root, "warnings")), 1);
        json_decref(root);
    }
    /* Memory that ran out is why rank 1 failed, and the second run ends as the first did. */
    assert_int_equal(forecast("--capacity 6GiB --ranks 2", "--mode exits3late", to_output), 1);
    assert_null(strstr(output, "by itself"));
}

/* ---- the largest value ---- */

static void the_largest_batch_that_just_fits_is_found(void **state)
{
    (void)state;
    char line[96];
    for (int short_by = 0; short_by <= 1; short_by++) { /* 13 just fits, just does not */
        snprintf(line, sizeof line, "--vary batch=1..64 --capacity %lld",
                 (long long)(13 * gib + gib / 2 + context_bytes - short_by));
        json_t *root = forecast_json(line, "--batch 2", 0);
        assert_int_equal(json_number(root, "value"), 13 - short_by);
        assert_string_equal(json_string_value(json_object_get(root, "argument")), "batch");
        assert_int_equal(json_number(json_object_get(root, "peak"), "allocated_bytes"),
                         (13 - short_by) * gib);
        json_decref(root);
    }
    assert_int_equal(forecast("--vary batch=1..64 --capacity 16GiB", "", to_error), 0);
    assert_told("plimsoll: h200: batch 1: fits");
    assert_told("plimsoll: h200: batch 64: does not fit");
    assert_told("plimsoll: h200: batch 14: fits, 15.23 GiB of 16.00 GiB");
    assert_int_equal(forecast("--vary batch=1..64 --capacity 16GiB", "", to_output), 0);
    assert_told("Fits up to batch = 14: 785.2 MiB of 16.00 GiB are left then; 15 does not fit");
    assert_told("what is below a value of batch that fits is taken to fit");
}

static void a_search_tells_when_all_fit_and_when_none_does(void **state)
{
    (void)state;
    assert_int_equal(forecast("--vary batch=1..8 --capacity 16GiB", "", to_output), 0);
    assert_told("Fits up to batch = 8, the largest that was asked for");
    json_t *root = forecast_json("--vary batch=20..64 --capacity 16GiB", "", 1);
    assert_int_equal(json_number(root, "value"), 19);
    assert_true(json_is_false(json_object_get(root, "fits")));
    json_decref(root);
    assert_int_equal(forecast("--vary batch=20..64 --capacity 16GiB", "", to_output), 1);
    assert_told("Does not fit, not even the least value: 5.23 GiB are missing of 16.00 GiB");
}

/* ---- several targets, several ranks ---- */

static void several_targets_make_a_table(void **state)
{
    (void)state;
    assert_int_equal(
        forecast("--target t4 --target=h100 --target a100-40", "--batch 20", to_output),
        0); /* one of them fits */
    assert_told("target   fits     margin     memory   reserved  allocated  attention");
    assert_told("t4       no    -6.67 GiB  14.56 GiB  20.50 GiB  20.00 GiB  flash");
    assert_told("h100     yes   57.87 GiB  79.10 GiB  20.50 GiB  20.00 GiB  flash");
    assert_told("a100-40  yes");
    assert_told("plimsoll-forecast/a100-40-rank0.pickle");
    assert_int_equal(forecast("--json --target t4 --target h100", "--batch 20", to_output), 0);
    char *second = strchr(output, '\n');
    assert_non_null(second);
    assert_true(strncmp(output, "{\"target\":\"t4\"", 14) == 0);
    assert_true(strncmp(second + 1, "{\"target\":\"h100\"", 16) == 0);
    assert_int_equal(forecast("--target t4 --target rtx3090", "--batch 40", to_output), 1);
}

static void a_target_that_fails_leaves_the_others(void **state)
{
    (void)state;
    assert_int_equal(forecast("--target t4 --target h100", "--mode t4fails", to_output), 2);
    assert_told("t4      failed");
    assert_told("h100    yes");
    assert_told("t4 failed: the script failed at train.py:41: no bf16 here.");
    assert_int_equal(forecast("--json --target t4 --target h100", "--mode t4fails", to_output), 2);
    assert_told("{\"target\":\"t4\",\"error\":\"the script failed at train.py:41: no bf16 here\"}");
}

static void several_targets_are_searched_each(void **state)
{
    (void)state;
    assert_int_equal(forecast("--target t4 --target h100 --vary batch=1..64", "", to_output), 0);
    assert_told("target  batch     margin");
    assert_told("t4         13");
    assert_told("h100       64");
}

static void each_rank_has_a_row_and_its_own_variables(void **state)
{
    (void)state;
    json_t *root = forecast_json("--ranks 2 --capacity 16GiB", "", 0);
    const json_t *ranks = json_object_get(root, "ranks");
    assert_int_equal(json_array_size(ranks), 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(json_number(at(ranks, (size_t)i), "rank"), i);
        assert_int_equal(
            json_number(json_object_get(at(ranks, (size_t)i), "peak"), "reserved_bytes"),
            4 * gib + gib / 2 + i * gib);
    }
    assert_int_equal(json_number(json_object_get(root, "peak"), "reserved_bytes"),
                     5 * gib + gib / 2); /* the rank that needs most */
    assert_string_equal(json_string_value(json_object_get(root, "recording")),
                        "plimsoll-forecast/h200-rank1.pickle");
    json_decref(root);
    assert_int_equal(forecast("--ranks 2 --capacity 16GiB", "", to_output), 0);
    assert_told("   0   4.00 GiB  4.50 GiB  750.8 MiB  5.23 GiB  flash      its steps");
    assert_told("   1   4.00 GiB  5.50 GiB  750.8 MiB  6.23 GiB  flash      its steps");
    assert_told("Rank 1 needs most");
    assert_told(" on 2."); /* devices that each sees */
}

static void a_launchers_count_is_the_number_of_devices(void **state)
{
    (void)state;
    write_in_folder("launch", "while [ \"$1\" != train.py ]; do shift; done\nexec sh \"$@\"\n");
    assert_int_equal(
        run_program("forecast -- sh launch --nproc-per-node=4 train.py", to_output, output), 0);
    assert_told(" on 4.");
    assert_refused("forecast --ranks 2", "-- sh launch --nproc-per-node 4 train.py",
                   "the command starts 4 processes by itself; ask for no ranks beside these");
    assert_int_equal(forecast("", "--num_processes 4", to_output), 0); /* the script's own */
    assert_told(" on 1.");
}

static void a_rank_out_of_memory_decides_though_another_then_fails(void **state)
{
    (void)state;
    json_t *root = forecast_json("--ranks 2 --capacity 6GiB", "--mode r0fails", 1);
    assert_true(json_is_true(json_object_get(root, "out_of_memory")));
    json_decref(root);
    assert_int_equal(forecast("--ranks 2 --capacity 16GiB", "--mode r0fails", to_output), 2);
}

/* ---- harmless ---- */

static void assert_old_is_whole(void)
{
    char path[PATH_MAX], text[64];
    in_folder("old", path);
    text[plm__file_read_start(path, text, sizeof text - 1)] = '\0';
    assert_string_equal(text, "old content");
}

static void a_file_that_the_script_writes_over_stays_whole(void **state)
{
    (void)state;
    assert_int_equal(forecast("", "--mode write", to_output), 0);
    if (strstr(output, "for want of a private view")) {
        print_message("this kernel gives no private view of the file system: not tested\n");
        return;
    }
    assert_old_is_whole();
    assert_int_equal(entries_of("made"), -1);
    assert_told("it ran as overlay");
    assert_told("Nothing was saved; the script would have written 3 files (10 B): best.pt,");
    assert_told("/made/deep");
    assert_null(strstr(output, "/best.pt")); /* told once */
}

static void a_cache_that_holds_the_working_directory_is_not_written_through(void **state)
{
    static const char *const names[] = {"HF_HOME", "XDG_CACHE_HOME"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setenv(names[i], folder, 1);
        const int status = forecast("", "--mode write", to_output);
        unsetenv(names[i]);
        assert_int_equal(status, 0);
        if (strstr(output, "for want of a private view"))
            return; /* as the test before */
        assert_old_is_whole();
        assert_int_equal(entries_of("made"), -1);
    }
}

static void a_pipe_in_the_place_of_the_log_is_not_waited_for(void **state)
{
    (void)state;
    assert_int_equal(forecast("", "--mode pipe", to_output), 0);
    assert_told("Fits");
}

static void without_a_view_the_script_is_told_to_catch_what_saves(void **state)
{
    (void)state;
    assert_int_equal(forecast("--no-overlay", "", to_output), 0);
    assert_told("it ran as hooks");
    assert_told("other writes of the script are real");
    assert_told("the script would have written 1 file: best.pt.");
}

/* Starts the program without waiting; it writes to nowhere. */
static pid_t start_forecast(const char *vary, const char *mode, const char *mark)
{
    const pid_t child = fork();
    if (child == 0) {
        const int nothing = open("/dev/null", O_RDWR);
        dup2(nothing, STDOUT_FILENO);
        dup2(nothing, STDERR_FILENO);
        setenv("MARK", mark, 1);
        execl(PLM_PROGRAM, PLM_PROGRAM, "forecast", "--vary", vary, "--", "sh", "train.py",
              "--mode", mode, NULL);
        _exit(127);
    }
    assert_true(child > 0);
    return child;
}

/* Whether a process lives whose environment has the variable MARK of this value. */
static bool mark_is_alive(const char *value)
{
    char line[128];
    snprintf(line, sizeof line, "env -u MARK grep -slF MARK=%s /proc/[0-9]*/environ | grep -q .",
             value);
    return system(line) == 0;
}

static void wait_a_little(void)
{
    const struct timespec wait = {.tv_nsec = 20 * 1000 * 1000};
    nanosleep(&wait, NULL);
}

static void a_forecast_that_is_interrupted_leaves_nothing(void **state)
{
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int status = 0;
        char mark[64];
        snprintf(mark, sizeof mark, "forecast-%ld-%zu", (long)getpid(), i);
        const pid_t child = start_forecast("batch=4..64", i ? "hang" : "hangs64", mark);
        for (int tries = 0; tries < 500 && entries_of("temporary") < 1; tries++)
            wait_a_little();
        for (int tries = 0; tries < 50; tries++) /* the script is on its way */
            wait_a_little();
        assert_true(mark_is_alive(mark));
        assert_int_equal(kill(child, numbers[i]), 0);
        while (waitpid(child, &status, 0) < 0)
            assert_int_equal(errno, EINTR);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == numbers[i]);
        assert_int_equal(entries_of("temporary"), 0);
        assert_int_equal(entries_of("plimsoll-forecast"), -1);
        assert_false(mark_is_alive(mark));
    }
}

/* ---- refusals ---- */

/* Fails unless the program ends with status 2 and a last line on standard error that holds `told`;
 * before it stand only what nothing runs on and what the script said. */
static void assert_refused_last(const char *options, const char *command, const char *told)
{
    char line[512];
    snprintf(line, sizeof line, "%s %s", options, command);
    const int status = run_program(line, to_error, output);
    char *last = strstr(output, "plimsoll: ");
    if (status != 2 || !last || !strstr(last, told) ||
        strchr(last, '\n') != last + strlen(last) - 1)
        fail_msg("%s: status %d, %s", line, status, output);
}

static void each_wrong_use_is_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *options, *command, *told;
    } cases[] = {
        {"", "", "forecast wants a command after --"},
        {"--target h300", "-- sh train.py", "unknown target 'h300'; known are h200, h100"},
        {"--target cpu", "-- sh train.py", "the device profile 'cpu' lacks \"gpu\""},
        {"--target ./none.json", "-- sh train.py", "none.json"},
        {"--vary batch", "-- sh train.py", "such as batch=1..64, found 'batch'"},
        {"--vary batch=8..1", "-- sh train.py", "such as batch=1..64"},
        {"--vary batch=1..64x", "-- sh train.py", "such as batch=1..64"},
        {"--vary =1..64", "-- sh train.py", "such as batch=1..64"},
        {"--ranks 65", "-- sh train.py", "wanted 1 to 64 ranks, found 65"},
        {"--capacity 65TiB", "-- sh train.py", "found 71468255805440"},
        {"--target h200 --target h200", "-- sh train.py", "found 'h200' twice"},
        {"", "-- ./no-such-python train.py", "cannot run './no-such-python'"},
        {"", "-- sh train.py --mode silent", "never used PyTorch on a GPU: loss 4.0"},
        {"", "-- sh train.py --mode garbage", "what rank 0 left"},
        {"", "-- sh train.py --mode fail", "the script failed at train.py:41: TypeError: no such"},
        {"", "-- sh train.py --mode sizes",
         "first on LD_LIBRARY_PATH, can) asks the GPU for a size that is not known"},
        {"", "-- sh train.py --mode dies",
         "ended with status 7 and left no answer: "
         "ImportError: no torch"},
        {"--time-limit 0.5", "-- sh train.py --mode hang", "try one step or a longer limit"},
        {"--out old", "-- sh train.py", "old"},
        {"", "-- true", "never used PyTorch on a GPU"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        snprintf(line, sizeof line, "forecast --json %s", cases[i].options);
        assert_refused_last(line, cases[i].command, cases[i].told);
    }
}

int main(void)
{
    if (!IS_STOOD_IN) {
        print_message("no library stands in for CUDA on this machine: not tested\n");
        return 0;
    }
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_place, remove_place)
    const struct CMUnitTest tests[] = {
        TEST(the_page_tells_peaks_by_phase_and_the_verdict),
        TEST(what_the_script_prints_goes_to_standard_error),
        TEST(the_recording_is_one_that_snapshot_reads_with_the_capacity),
        TEST(json_has_the_keys_to_rely_on),
        TEST(a_byte_decides_whether_a_script_fits),
        TEST(the_context_is_larger_where_cudnn_was_in_use),
        TEST(a_script_that_fails_by_itself_is_told_beside_the_verdict),
        TEST(an_end_that_is_no_failure_of_the_script_is_not_told),
        TEST(the_largest_batch_that_just_fits_is_found),
        TEST(a_search_tells_when_all_fit_and_when_none_does),
        TEST(several_targets_make_a_table),
        TEST(a_target_that_fails_leaves_the_others),
        TEST(several_targets_are_searched_each),
        TEST(each_rank_has_a_row_and_its_own_variables),
        TEST(a_launchers_count_is_the_number_of_devices),
        TEST(a_rank_out_of_memory_decides_though_another_then_fails),
        TEST(a_file_that_the_script_writes_over_stays_whole),
        TEST(a_cache_that_holds_the_working_directory_is_not_written_through),
        TEST(a_pipe_in_the_place_of_the_log_is_not_waited_for),
        TEST(without_a_view_the_script_is_told_to_catch_what_saves),
        TEST(a_forecast_that_is_interrupted_leaves_nothing),
        TEST(each_wrong_use_is_one_line),
    };
#undef TEST
    return run_test_group(tests);
}
