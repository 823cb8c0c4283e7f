/* SPDX-License-Identifier: MIT */
/*
 * Killed at any instant. A training run that saves after every update gets SIGKILL at a random
 * instant and is then resumed; its last checkpoint has the bytes of a run that was never killed,
 * and nothing half written is left. The instants are drawn from a fixed seed and printed.
 */
#include "unit/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/philox.h"

#ifndef PLM_TEST_KILLS
#define PLM_TEST_KILLS 5
#endif

enum { KILLS = PLM_TEST_KILLS, STEPS = 24, SEED = 20, FOLDER_BYTES = 64 };

static const char model[] = "gpt:layers=2,width=16,heads=2,context=16,vocab=256,dropout=0.1";

/* On a disk, not in memory: a save takes most of an update there, so kills fall into saves too. */
typedef struct sea {
    char folder[FOLDER_BYTES];
    char text[FOLDER_BYTES + 16];
    char run[FOLDER_BYTES + 16];
    plm_file whole;   /* the last checkpoint of a run that was not killed */
    int64_t whole_ns; /* that it took */
} sea;

/* Starts a training run, from the newest checkpoint when it `resumes`. */
static pid_t start(const sea *at, bool resumes)
{
    char steps[16];
    snprintf(steps, sizeof steps, "%d", STEPS);
    char *arguments[] = {(char *)PLM_PROGRAM,
                         (char *)"train",
                         (char *)model,
                         (char *)"--data",
                         (char *)at->text,
                         (char *)"--threads",
                         (char *)"1",
                         (char *)"--budget",
                         (char *)"16MiB",
                         (char *)"--batch",
                         (char *)"2",
                         (char *)"--eval-sequences",
                         (char *)"1",
                         (char *)"--save-every",
                         (char *)"1",
                         (char *)"--sample",
                         (char *)"0",
                         (char *)"--steps",
                         steps,
                         (char *)"--out",
                         (char *)at->run,
                         resumes ? (char *)"--resume" : NULL,
                         (char *)at->run,
                         NULL};
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDOUT_FILENO);
        execv(PLM_PROGRAM, arguments);
        _exit(127);
    }
    assert_true(child > 0);
    return child;
}

static int wait_for(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* The update of the newest checkpoint, 0 for none; *others = files that are none. Removes all when
 * told to. */
static int newest_checkpoint(const sea *at, bool empty, int *others)
{
    int newest = 0;
    DIR *folder = opendir(at->run);
    *others = 0;
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        char path[2 * FOLDER_BYTES + 256];
        int step, end = 0;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (sscanf(entry->d_name, "step-%8d.safetensors%n", &step, &end) == 1 && end > 0 &&
            !entry->d_name[end])
            newest = step > newest ? step : newest;
        else
            *others += strcmp(entry->d_name, ".lock") != 0; /* of a killed run: it binds nobody */
        snprintf(path, sizeof path, "%s/%s", at->run, entry->d_name);
        if (empty)
            unlink(path);
    }
    if (folder)
        closedir(folder);
    return newest;
}

static void last_checkpoint(const sea *at, plm_file *file)
{
    char path[2 * FOLDER_BYTES];
    snprintf(path, sizeof path, "%s/step-%08d.safetensors", at->run, STEPS);
    assert_ok(plm__file_map(path, file));
}

static void sleep_ns(int64_t ns)
{
    struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (nanosleep(&left, &left) != 0)
        ;
}

static void open_sea(sea *at)
{
    int others;
    *at = (sea){.folder = "/tmp/plimsoll-kill-XXXXXX"};
    assert_non_null(mkdtemp(at->folder));
    snprintf(at->text, sizeof at->text, "%s/text", at->folder);
    snprintf(at->run, sizeof at->run, "%s/run", at->folder);
    FILE *file = fopen(at->text, "wb");
    assert_non_null(file);
    for (int i = 0; i < 4000; i++)
        fputc("they that go down to the sea in ships\n"[i % 38], file);
    assert_int_equal(fclose(file), 0);
    int64_t began_ns = plm__clock_ns();
    assert_int_equal(wait_for(start(at, false)), 0);
    at->whole_ns = plm__clock_ns() - began_ns;
    last_checkpoint(at, &at->whole);
    newest_checkpoint(at, true, &others);
}

static void close_sea(sea *at)
{
    int others;
    newest_checkpoint(at, true, &others);
    plm__file_unmap(&at->whole);
    rmdir(at->run);
    unlink(at->text);
    assert_int_equal(rmdir(at->folder), 0);
}

/* One run that is killed after `ns`, or is through before, and what comes after. Returns whether
 * it was killed. */
static bool kill_and_resume(const sea *at, int64_t ns)
{
    int others, left;
    plm_file last = {0};
    pid_t child = start(at, false);
    sleep_ns(ns);
    kill(child, SIGKILL);
    int status = wait_for(child);
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    assert_true(killed || status == 0);
    int newest = newest_checkpoint(at, false, &others);
    if (newest < STEPS)
        assert_int_equal(wait_for(start(at, newest > 0)), 0);
    last_checkpoint(at, &last);
    assert_int_equal(last.byte_count, at->whole.byte_count);
    assert_memory_equal(last.bytes, at->whole.bytes, last.byte_count);
    plm__file_unmap(&last);
    print_message("  %4d ms: %s, resumed from update %d, %d half written\n", (int)(ns / 1000000),
                  killed ? "killed" : "through", newest, others);
    /* a temporary goes at the next save; after the last update there is none */
    newest_checkpoint(at, false, &left);
    assert_true(left == 0 || newest == STEPS);
    newest_checkpoint(at, true, &left);
    return killed;
}

static void a_killed_run_resumes_to_the_same_bits(void **state)
{
    (void)state;
    sea at;
    int killed = 0;
    open_sea(&at);
    print_message("%d kills, seed %d, of a run of %d ms\n", KILLS, SEED,
                  (int)(at.whole_ns / 1000000));
    /* a machine that is busy at times lets some runs come through: they are not counted */
    for (uint64_t i = 0; killed < KILLS; i++) {
        double unit = plm__philox_unit(plm__philox_at(SEED, 0, 0, i).word[0]);
        assert_true(i < 4 * KILLS);
        killed += kill_and_resume(&at, (int64_t)(unit * (double)at.whole_ns));
    }
    close_sea(&at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_killed_run_resumes_to_the_same_bits)};
    return run_test_group(tests);
}
