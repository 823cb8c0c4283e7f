/* SPDX-License-Identifier: MIT */
/* Running programs without a trace: words, the search for the largest value, the view, the warden.
 */
#include "unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/file.h"
#include "script/script.h"
#include "unit/scratch.h"

/* ---- words ---- */

/* Sets an argument in a command of words parted by blanks, and gives the words back so. */
static void assert_set(const char *command, const char *name, int64_t value, const char *wanted)
{
    char copy[256], *rest = copy;
    plm_words words = {0};
    plm_text joined = {0};
    snprintf(copy, sizeof copy, "%s", command);
    for (char *word; (word = strsep(&rest, " "));)
        assert_ok(plm__words_push(&words, word));
    assert_ok(plm__arguments_set(&words, name, value));
    for (int64_t i = 0; i < words.count; i++)
        plm__text_add(&joined, "%s%s", i ? " " : "", words.items[i]);
    assert_ok(plm__text_status(&joined));
    assert_string_equal(joined.items, wanted);
    assert_null(words.items[words.count]);
    plm__text_fini(&joined);
    plm__words_free(&words);
}

static void an_argument_is_set_in_each_form_that_scripts_know(void **state)
{
    (void)state;
    assert_set("python t.py --batch 4", "batch", 8, "python t.py --batch 8");
    assert_set("python t.py --batch=4 -v", "batch", 8, "python t.py --batch=8 -v");
    assert_set("python t.py model.batch=4", "model.batch", 8, "python t.py model.batch=8");
    assert_set("python t.py -b 4", "b", 16, "python t.py -b 16");
    assert_set("python t.py -b4", "b", 16, "python t.py -b16");
    assert_set("python t.py --batch 4 --batch 5", "batch", 8, "python t.py --batch 8 --batch 8");
    assert_set("python t.py --per_device-batch 4", "per-device_batch", 8,
               "python t.py --per_device-batch 8");
    assert_set("python t.py --batch -1", "batch", 8, "python t.py --batch 8");
    assert_set("python t.py --batch --fast", "batch", 8, "python t.py --batch=8 --fast");
    assert_set("python t.py --batch", "batch", 8, "python t.py --batch=8");
}

static void an_argument_that_is_not_there_is_appended(void **state)
{
    (void)state;
    assert_set("python t.py", "batch", 8, "python t.py --batch=8");
    assert_set("python t.py --batches 4", "batch", 8, "python t.py --batches 4 --batch=8");
    assert_set("python t.py --x batch", "batch", 8, "python t.py --x batch --batch=8");
    assert_set("python t.py x", "b", 8, "python t.py x -b 8");
    assert_set("./train", "batch", 8, "./train --batch=8");
}

static void words_before_the_script_are_left_alone(void **state)
{
    (void)state;
    assert_set("torchrun --nproc-per-node 2 t.py --nproc-per-node 3", "nproc-per-node", 8,
               "torchrun --nproc-per-node 2 t.py --nproc-per-node 8");
    assert_set("python -b -m train -b 2", "b", 8, "python -b -m train -b 8");
    assert_set("python -m torch.distributed.run --rank 1 t.py --rank 2", "rank", 8,
               "python -m torch.distributed.run --rank 1 t.py --rank 8");
}

static void an_environment_keeps_one_value_of_each_name(void **state)
{
    (void)state;
    char *const given[] = {(char[]){"A=1"}, (char[]){"PATH=/x"}, (char[]){"AB=2"}, NULL};
    plm_words words = {0};
    assert_ok(plm__words_add(&words, given));
    assert_ok(plm__environment_set(&words, "A", "3"));
    assert_ok(plm__environment_prepend(&words, "PATH", "/y"));
    assert_ok(plm__environment_prepend(&words, "NEW", "/z"));
    plm__environment_unset(&words, "AB");
    plm__environment_unset(&words, "NONE");
    assert_int_equal(words.count, 3);
    assert_string_equal(plm__environment_get(&words, "A"), "3");
    assert_string_equal(plm__environment_get(&words, "PATH"), "/y:/x");
    assert_string_equal(plm__environment_get(&words, "NEW"), "/z");
    assert_null(plm__environment_get(&words, "AB"));
    assert_null(words.items[words.count]);
    plm__words_free(&words);
}

static plm_status change_words(void *context)
{
    char *const command[] = {(char[]){"python"}, (char[]){"t.py"}, (char[]){"--n=1"}, NULL};
    plm_words words = {0};
    (void)context;
    plm_status status = plm__words_add(&words, command);
    if (status == PLM_OK)
        status = plm__arguments_set(&words, "n", 2);
    if (status == PLM_OK)
        status = plm__arguments_set(&words, "m", 3);
    if (status == PLM_OK)
        status = plm__environment_prepend(&words, "--n", "1");
    if (status == PLM_OK)
        status = plm__environment_set(&words, "A", "1");
    plm__words_free(&words);
    return status;
}

static void a_failed_allocation_leaves_no_word(void **state)
{
    (void)state;
    sweep_failures(change_words, NULL);
}

/* ---- the largest value that fits ---- */

typedef struct trials {
    int64_t limit;   /* values up to this fit */
    int64_t failing; /* the value whose trial fails; -1: none */
    int64_t seen[16];
    int count;
} trials;

static plm_status try_one(void *user, int64_t value, bool *fits)
{
    trials *all = user;
    assert_true(all->count < 16);
    all->seen[all->count++] = value;
    if (value == all->failing)
        return PLM_ERROR_ARGUMENT;
    *fits = value <= all->limit;
    return PLM_OK;
}

static void the_largest_value_is_found_wherever_it_lies(void **state)
{
    (void)state;
    for (int64_t limit = 0; limit <= 65; limit++) {
        trials all = {.limit = limit, .failing = -1};
        int64_t largest = -1;
        assert_ok(plm__bisect_largest(1, 64, try_one, &all, &largest));
        assert_int_equal(largest, limit > 64 ? 64 : limit);
        assert_int_equal(all.seen[0], 1); /* both ends are tried, each value once */
        if (limit > 0)
            assert_int_equal(all.seen[1], 64);
        assert_true(all.count <= 8);
    }
}

static void a_range_of_one_value_is_tried_once(void **state)
{
    (void)state;
    for (int64_t limit = 6; limit <= 7; limit++) {
        trials all = {.limit = limit, .failing = -1};
        int64_t largest = -1;
        assert_ok(plm__bisect_largest(7, 7, try_one, &all, &largest));
        assert_int_equal(largest, limit);
        assert_int_equal(all.count, 1);
    }
}

static void a_trial_that_fails_ends_the_search(void **state)
{
    (void)state;
    trials all = {.limit = 10, .failing = 32};
    int64_t largest = -1;
    assert_int_equal(plm__bisect_largest(1, 64, try_one, &all, &largest), PLM_ERROR_ARGUMENT);
    assert_int_equal(largest, -1);
    assert_int_equal(all.count, 3);
}

/* ---- running ---- */

static char folder[SCRATCH_BYTES];

static int make_folder(void **state)
{
    (void)state;
    return scratch_folder(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    plm__tree_remove(folder);
    return access(folder, F_OK) == 0 ? -1 : 0;
}

static plm_script_end end; /* large */

static plm_status run_shell(const char *line, const plm_script_options *options)
{
    char *const command[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)line, NULL};
    const plm_script script = {.command = command, .environment = environ};
    return plm__scripts_run(&script, 1, options, &end);
}

static void the_exit_status_and_the_last_words_come_back(void **state)
{
    (void)state;
    assert_ok(run_shell("echo one; echo two >&2; exit 5", &(plm_script_options){0}));
    assert_int_equal(end.exit_status, 5);
    assert_string_equal(end.tail, "one\ntwo\n");
    assert_false(end.stopped || end.timed_out);
    assert_ok(run_shell("kill -9 $$", &(plm_script_options){0}));
    assert_int_equal(end.exit_status, 128 + SIGKILL);
    assert_ok(run_shell("i=0; while [ $i -lt 4000 ]; do echo line $i; i=$((i+1)); done",
                        &(plm_script_options){0}));
    assert_int_equal(end.tail_count, PLM_SCRIPT_TAIL_TEXT - 1);
    assert_string_equal(end.tail + end.tail_count - 10, "line 3999\n");
}

static void a_command_that_cannot_be_run_is_named(void **state)
{
    (void)state;
    char *const command[] = {(char[]){"/no/such/python"}, NULL};
    const plm_script script = {.command = command, .environment = environ};
    plm_error error;
    assert_int_equal(plm__scripts_run(&script, 1, &(plm_script_options){0}, &end),
                     PLM_ERROR_ARGUMENT);
    plm_error_get(&error);
    assert_string_equal(error.message, "cannot run '/no/such/python': No such file or directory");
}

static double seconds_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void what_a_program_leaves_running_is_ended(void **state)
{
    (void)state;
    const double begun = seconds_now();
    assert_ok(run_shell("setsid sleep 60 & echo $!", &(plm_script_options){0}));
    assert_true(seconds_now() - begun < 20);
    const long left = strtol(end.tail, NULL, 10);
    assert_true(left > 1);
    assert_int_equal(kill((pid_t)left, 0), -1);
    assert_int_equal(errno, ESRCH);
}

static void a_limit_ends_what_takes_longer(void **state)
{
    (void)state;
    assert_ok(run_shell("sleep 60", &(plm_script_options){.limit_seconds = 0.3}));
    assert_true(end.timed_out);
    assert_ok(run_shell("sleep 0.1", &(plm_script_options){.limit_seconds = 30}));
    assert_false(end.timed_out);
}

static volatile sig_atomic_t stop_flag;

static void set_stop(int number)
{
    stop_flag = number;
}

static void a_stop_ends_the_run_at_once(void **state)
{
    (void)state;
    const double begun = seconds_now();
    signal(SIGALRM, set_stop);
    alarm(1);
    assert_ok(
        run_shell("trap '' TERM; sleep 60; sleep 60", &(plm_script_options){.stop = &stop_flag}));
    assert_true(end.stopped);
    assert_true(seconds_now() - begun < 20);
    signal(SIGALRM, SIG_DFL);
    stop_flag = 0;
}

static void several_programs_run_at_once_each_with_its_environment(void **state)
{
    (void)state;
    /* Each waits for the other's file, so neither could end alone. */
    char line[512];
    snprintf(line, sizeof line,
             "touch %s/$ME; until [ -e %s/$OTHER ]; do sleep 0.05; done; echo $ME", folder, folder);
    char *const command[] = {(char[]){"sh"}, (char[]){"-c"}, line, NULL};
    plm_words environments[2] = {{0}};
    plm_script scripts[2];
    for (int i = 0; i < 2; i++) {
        assert_ok(plm__words_add(&environments[i], environ));
        assert_ok(plm__environment_set(&environments[i], "ME", i ? "b" : "a"));
        assert_ok(plm__environment_set(&environments[i], "OTHER", i ? "a" : "b"));
        scripts[i] = (plm_script){.command = command, .environment = environments[i].items};
    }
    assert_ok(plm__scripts_run(scripts, 2, &(plm_script_options){.limit_seconds = 60}, &end));
    assert_int_equal(end.exit_status, 0);
    assert_false(end.timed_out);
    assert_int_equal(end.tail_count, 4);
    for (int i = 0; i < 2; i++)
        plm__words_free(&environments[i]);
}

/* ---- the view ---- */

typedef struct listed {
    char path[512];
    size_t bytes;
    int count;
} listed;

static void list_one(const char *path, size_t bytes, void *user)
{
    listed *list = user;
    if (strncmp(path, folder, strlen(folder)) != 0)
        return; /* of others, such as what a shell leaves in /tmp */
    snprintf(list->path, sizeof list->path, "%s", path);
    list->bytes = bytes;
    list->count++;
}

/* The content of a file in the folder, "" when it is not there. */
static const char *content(const char *name, char text[64])
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    text[plm__file_read_start(path, text, 63)] = '\0';
    return text;
}

static void an_ignored_hangup_ends_nothing(void **state)
{
    (void)state;
    void (*before)(int) = signal(SIGHUP, SIG_IGN);
    plm_status status = run_shell("kill -HUP $PPID; kill -HUP $$; sleep 0.3; echo stayed",
                                  &(plm_script_options){0});
    signal(SIGHUP, before);
    assert_ok(status);
    assert_int_equal(end.exit_status, 0);
    assert_string_equal(end.tail, "stayed\n");
}

static bool signal_next_child;

static void do_nothing(int number)
{
    (void)number;
}

/* In a child, right behind its fork; the copy of the flag is the child's own. */
static void signal_myself(void)
{
    if (signal_next_child) {
        signal_next_child = false;
        (void)raise(SIGTERM);
    }
}

/* Whoever asks the warden to end may be quicker than its first line, and the program that forked it
 * has a handler, which the warden has then too. */
static void a_stop_right_behind_the_fork_is_not_lost(void **state)
{
    (void)state;
    void (*before)(int) = signal(SIGTERM, do_nothing);
    assert_int_equal(pthread_atfork(NULL, NULL, signal_myself), 0);
    signal_next_child = true;
    plm_status status = run_shell("sleep 1; echo stayed", &(plm_script_options){0});
    signal_next_child = false;
    signal(SIGTERM, before);
    assert_ok(status);
    assert_string_equal(end.tail, "");
}

/* A cover whose programs work in the folder and whose room is ROOM; false where the kernel gives
 * none, which is said. */
static bool cover_folder(plm_cover *cover, const plm_place *place, char *const *kept)
{
    char room[PLM_SCRIPT_PATH_TEXT];
    assert_ok(plm__place_path(place, "room", room));
    assert_ok(plm__folder_make(room));
    assert_ok(plm__cover_init(cover, folder, room, kept));
    if (plm__cover_works(cover))
        return true;
    print_message("this kernel gives no private view of the file system: not tested\n");
    plm__cover_fini(cover);
    return false;
}

static void writes_under_a_view_reach_no_file_and_are_listed(void **state)
{
    (void)state;
    char path[PLM_SCRIPT_PATH_TEXT], text[64];
    plm_place place = {""};
    plm_cover cover;
    snprintf(path, sizeof path, "%s/old", folder);
    assert_ok(plm__file_write(path, "old content", 11));
    assert_ok(plm__place_create(NULL, &place));
    char *const kept[] = {place.path, NULL};
    if (cover_folder(&cover, &place, kept)) {
        char line[600];
        snprintf(line, sizeof line,
                 "pwd; cat old; echo; echo new >old; cat old; echo real >%s/answer; rm -f gone",
                 place.path);
        assert_ok(run_shell(line, &(plm_script_options){.cover = &cover}));
        assert_int_equal(end.exit_status, 0);
        assert_true(strncmp(end.tail, folder, strlen(folder)) == 0);
        assert_non_null(strstr(end.tail, "\nold content\nnew\n"));
        assert_string_equal(content("old", text), "old content");
        snprintf(path, sizeof path, "%s/answer", place.path);
        assert_int_equal(access(path, F_OK), 0); /* what is kept is written through */
        listed list = {.count = 0};
        plm__cover_written(&cover, end.memory, list_one, &list);
        assert_int_equal(list.count, 1);
        assert_int_equal(list.bytes, 4);
        assert_string_equal(list.path + strlen(folder), "/old");
        if (end.memory >= 0)
            close(end.memory);
        plm__cover_fini(&cover);
    }
    plm__place_remove(&place);
    assert_string_equal(place.path, "");
}

/* Without root nothing may be laid over what holds both the working directory and another mount;
 * what the program writes must reach no file all the same. */
static int write_beside_a_mount(const char *house, const plm_place *place)
{
    plm_cover cover;
    char room[PLM_SCRIPT_PATH_TEXT], other[PLM_SCRIPT_PATH_TEXT], work[PLM_SCRIPT_PATH_TEXT];
    char *const kept[] = {(char *)place->path, NULL};
    snprintf(work, sizeof work, "%s/work", house);
    if (chdir(work) != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return 77;
    snprintf(other, sizeof other, "%s/other", house);
    if (plm__folder_make(other) != PLM_OK || mount("tmpfs", other, "tmpfs", 0, "") != 0 ||
        setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0 ||
        prctl(PR_SET_DUMPABLE, 1) != 0)
        return 77;
    if (plm__place_path(place, "room", room) != PLM_OK ||
        plm__cover_init(&cover, work, room, kept) != PLM_OK)
        return 1;
    if (plm__cover_works(&cover))
        return 2; /* the kernel lays overlays there: nothing is shown */
    if (plm__cover_narrow(&cover) != PLM_OK || !plm__cover_works(&cover))
        return 3;
    if (run_shell("echo new >old; cat old", &(plm_script_options){.cover = &cover}) != PLM_OK ||
        strcmp(end.tail, "new\n") != 0)
        return 4;
    return 0;
}

static void work_beside_a_mount_is_covered_without_root(void **state)
{
    (void)state;
    plm_place place, house; /* not in /dev/shm, where each folder is covered by itself */
    char path[PLM_SCRIPT_PATH_TEXT], text[64];
    int status;
    if (geteuid() != 0) {
        print_message("only root can mount what this test needs: not tested\n");
        return;
    }
    assert_ok(plm__place_create("/tmp", &house));
    snprintf(path, sizeof path, "%s/work", house.path);
    assert_ok(plm__folder_make(path));
    assert_int_equal(chown(path, 65534, 65534) | chmod(house.path, 0755), 0);
    snprintf(path, sizeof path, "%s/work/old", house.path);
    assert_ok(plm__file_write(path, "old content", 11));
    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_ok(plm__place_create(NULL, &place));
    assert_ok(plm__place_path(&place, "room", path));
    assert_ok(plm__folder_make(path));
    assert_int_equal(chown(path, 65534, 65534) | chown(place.path, 65534, 65534), 0);
    const pid_t child = fork();
    if (child == 0)
        _exit(write_beside_a_mount(house.path, &place));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 2)
        print_message("this kernel gives no such mount (%d): not tested\n", WEXITSTATUS(status));
    else
        assert_int_equal(WEXITSTATUS(status), 0);
    snprintf(path, sizeof path, "%s/work/old", house.path);
    text[plm__file_read_start(path, text, 63)] = '\0';
    assert_string_equal(text, "old content");
    plm__place_remove(&place);
    plm__place_remove(&house);
}

static void a_file_in_the_root_itself_is_not_made(void **state)
{
    (void)state;
    plm_place place;
    plm_cover cover;
    const char *path = "/plimsoll-test-of-the-root";
    assert_ok(plm__place_create(NULL, &place));
    char *const kept[] = {place.path, NULL};
    if (cover_folder(&cover, &place, kept)) {
        char line[600];
        snprintf(line, sizeof line, "echo real >%s/kept && echo new >fine && echo new >%s",
                 place.path, path);
        assert_ok(run_shell(line, &(plm_script_options){.cover = &cover}));
        assert_int_not_equal(end.exit_status, 0);
        assert_non_null(strstr(end.tail, path));
        assert_int_equal(access(path, F_OK), -1);
        char kept_path[PLM_SCRIPT_PATH_TEXT];
        assert_ok(plm__place_path(&place, "kept", kept_path));
        assert_int_equal(access(kept_path, F_OK), 0);
        if (end.memory >= 0)
            close(end.memory);
        plm__cover_fini(&cover);
    }
    plm__place_remove(&place);
}

static void the_root_itself_and_the_kernels_folders_are_not_covered(void **state)
{
    (void)state;
    plm_cover cover;
    char *const kept[] = {NULL};
    bool has_etc = false;
    assert_ok(plm__cover_init(&cover, "/", "/none", kept));
    for (int64_t i = 0; i < cover.folders.count; i++) {
        const char *path = cover.folders.items[i].path;
        const char *last = strrchr(path, '/');
        assert_non_null(last);
        assert_true(last[1] && strcmp(last, "/.") != 0 && strcmp(last, "/..") != 0);
        assert_true(strcmp(path, "/proc") != 0 && strncmp(path, "/proc/", 6) != 0);
        assert_true(strcmp(path, "/dev") != 0 && strncmp(path, "/dev/", 5) != 0);
        has_etc = has_etc || strcmp(path, "/etc") == 0;
        if (i > 0) /* parents before what lies in them */
            assert_true(strcmp(cover.folders.items[i - 1].path, path) < 0);
    }
    assert_true(has_etc);
    plm__cover_fini(&cover);
}

static void a_place_is_the_users_alone_and_goes_whole(void **state)
{
    (void)state;
    char path[PLM_SCRIPT_PATH_TEXT], kept[PLM_PLACE_TEXT];
    struct stat status;
    plm_place place = {""};
    assert_ok(plm__place_create(folder, &place));
    assert_int_equal(stat(place.path, &status), 0);
    assert_int_equal(status.st_mode & 077, 0);
    assert_ok(plm__place_path(&place, "a", path));
    assert_ok(plm__folder_make(path));
    assert_ok(plm__place_path(&place, "a/link", path));
    assert_int_equal(symlink(folder, path), 0); /* removed itself, not followed */
    assert_ok(plm__place_path(&place, "a/closed", path));
    assert_int_equal(mkdir(path, 0), 0); /* as overlays leave them */
    snprintf(kept, sizeof kept, "%s", place.path);
    plm__place_remove(&place);
    assert_int_equal(access(kept, F_OK), -1);
    assert_int_equal(access(folder, F_OK), 0);
    plm_error error;
    assert_int_equal(plm__place_create("/no/such/folder", &place), PLM_ERROR_IO);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "/no/such/folder"));
    assert_non_null(strstr(error.message, "TMPDIR"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_argument_is_set_in_each_form_that_scripts_know),
        cmocka_unit_test(an_argument_that_is_not_there_is_appended),
        cmocka_unit_test(words_before_the_script_are_left_alone),
        cmocka_unit_test(an_environment_keeps_one_value_of_each_name),
        cmocka_unit_test(a_failed_allocation_leaves_no_word),
        cmocka_unit_test(the_largest_value_is_found_wherever_it_lies),
        cmocka_unit_test(a_range_of_one_value_is_tried_once),
        cmocka_unit_test(a_trial_that_fails_ends_the_search),
        cmocka_unit_test(the_exit_status_and_the_last_words_come_back),
        cmocka_unit_test(a_command_that_cannot_be_run_is_named),
        cmocka_unit_test(what_a_program_leaves_running_is_ended),
        cmocka_unit_test(a_limit_ends_what_takes_longer),
        cmocka_unit_test(a_stop_ends_the_run_at_once),
        cmocka_unit_test(an_ignored_hangup_ends_nothing),
        cmocka_unit_test(a_stop_right_behind_the_fork_is_not_lost),
        cmocka_unit_test_setup_teardown(several_programs_run_at_once_each_with_its_environment,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(writes_under_a_view_reach_no_file_and_are_listed,
                                        make_folder, remove_folder),
        cmocka_unit_test(work_beside_a_mount_is_covered_without_root),
        cmocka_unit_test_setup_teardown(a_file_in_the_root_itself_is_not_made, make_folder,
                                        remove_folder),
        cmocka_unit_test(the_root_itself_and_the_kernels_folders_are_not_covered),
        cmocka_unit_test_setup_teardown(a_place_is_the_users_alone_and_goes_whole, make_folder,
                                        remove_folder),
    };
    return run_test_group(tests);
}
