/* SPDX-License-Identifier: MIT */
/*
 * Everything fails once. A short training (two updates, each saved, then a resume and a third) is
 * run again and again while the n-th host allocation, device call or file call fails, once or from
 * then on, for every n until none is left to fail. Each time: a clear status, or a whole run;
 * nothing leaked, no descriptor left open, every checkpoint that was saved still whole; and the
 * next run works, cleans up and reaches the same bits.
 *
 *     build/test_sweep                                  every case
 *     build/test_sweep --stride 2 --from 2              every second, from the second
 *     build/test_sweep --run half                       of another training: the table `runs`
 *     build/test_sweep --run half --replay file:12:once one case, in this process, for a debugger
 *
 * Cases run in a child process, so that a crash or a hang is one failed case and not the end.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/file_calls.h"
#include "device/fault/fault.h"
#include "plimsoll/export.h"
#include "plimsoll/tape.h"
#include "model/family.h"
#include "plimsoll/train.h"
#include "unit/scratch.h"

enum {
    STEPS = 3,
    KEEP = 2,
    PATH_BYTES = 256,
    FOLDER_BYTES = 128,
    HANG_SECONDS = 60,
    FAILURES_MAX = 10
};

typedef enum failure_kind { KIND_HOST, KIND_DEVICE, KIND_FILE, KIND_COUNT } failure_kind;

static const char *const kind_names[KIND_COUNT] = {"host", "device", "file"};
static const char *const mode_names[2] = {"once", "persistent"};

typedef struct sweep_case {
    failure_kind kind;
    int64_t n;
    bool persistent;
} sweep_case;

/* A training that is swept. */
typedef struct swept_run {
    const char *name;
    plm_dtype precision, gradient;
    plm_update_time update;
    int64_t micro_batch, head_chunks, mlp_chunks;
    uint32_t recompute;
    float clip_norm;
    bool traced; /* its first updates are timed, and written to a file */
} swept_run;

#define BLOCK_RUNG                                                                                 \
    (PLM_RECOMPUTE_ACT | PLM_RECOMPUTE_NORM | PLM_RECOMPUTE_MLP | PLM_RECOMPUTE_ATTENTION |        \
     PLM_RECOMPUTE_BLOCK)

static const swept_run runs[] = {
    {"plain", PLM_DTYPE_F32, PLM_DTYPE_F32, PLM_UPDATE_LATE, 1, 1, 1, PLM_RECOMPUTE_NONE, 1, false},
    /* masters, a loss scale, chunks, a trace */
    {"half", PLM_DTYPE_F16, PLM_DTYPE_F32, PLM_UPDATE_LATE, 1, 2, 3, BLOCK_RUNG, 1, true},
    {"early", PLM_DTYPE_BF16, PLM_DTYPE_BF16, PLM_UPDATE_EARLY, 2, 1, 1, PLM_RECOMPUTE_ACT, 0,
     false},
};

enum { RUN_COUNT = sizeof runs / sizeof *runs };

/* What parent and child share. */
typedef struct score {
    const swept_run *run;
    int64_t from, stride;       /* of n */
    char folder[SCRATCH_BYTES]; /* of the child */
    sweep_case now;
    int64_t covered[KIND_COUNT][2];
    int64_t failures;
    bool finished;
} score;

/* The files of one child. */
typedef struct place {
    const swept_run *job;
    char folder[SCRATCH_BYTES]; /* has the text and the trace */
    char text[FOLDER_BYTES];
    char trace[FOLDER_BYTES];
    char run[FOLDER_BYTES];     /* where checkpoints go */
    char *reference[STEPS + 1]; /* bytes of the checkpoint after each update */
    size_t reference_bytes[STEPS + 1];
} place;

/* ---- the training that is swept ------------------------------------------------------------ */

typedef struct watch {
    int64_t done;       /* updates of which the checkpoint was saved */
    int64_t stop_after; /* 0: never */
} watch;

static bool note_progress(const plm_train_progress *progress, void *user)
{
    watch *seen = user;
    char *line = NULL;
    if (plm_train_progress_json(progress, &line) == PLM_OK)
        plm_free(line);
    seen->done = progress->step;
    return progress->step != seen->stop_after;
}

static plm_status open_device(plm_fault *fault, plm_device **device)
{
    plm_device *inner = NULL;
    PLM_TRY(plm_device_open("cpu", 1, 0, &inner));
    plm_status status = plm__device_create_fault(inner, fault, device);
    if (status != PLM_OK)
        plm_device_destroy(inner);
    return status;
}

static plm_train_settings settings_of(const place *at, bool resumes)
{
    plm_train_settings settings = {.data_path = at->text,
                                   .budget_bytes = (size_t)64 << 20,
                                   .strategy = plm_strategy_default(),
                                   .batch = 2,
                                   .sequence = 8,
                                   .steps = STEPS,
                                   .hyper = plm_hyper_default(),
                                   .seed = 5,
                                   .eval_sequences = 2,
                                   .out_folder = at->run,
                                   .save_every = 1,
                                   .keep = KEEP,
                                   .resume_folder = resumes ? at->run : NULL};
    settings.model = (plm_model){.name = "swept",
                                 .family = plm__family_find("gpt"),
                                 .layers = 1,
                                 .width = 8,
                                 .heads = 2,
                                 .context = 8,
                                 .vocab = 128,
                                 .dropout = 0.1f};
    settings.strategy.precision = at->job->precision;
    settings.strategy.gradient = at->job->gradient;
    settings.strategy.update = at->job->update;
    settings.strategy.micro_batch = at->job->micro_batch;
    settings.strategy.head_chunks = at->job->head_chunks;
    settings.strategy.mlp_chunks = at->job->mlp_chunks;
    settings.strategy.recompute = at->job->recompute;
    settings.hyper.clip_norm = at->job->clip_norm;
    return settings;
}

static plm_status finish(plm_trainer *trainer, const plm_train_result *result)
{
    char text[5], *line = NULL;
    PLM_TRY(plm_trainer_sample(trainer, "a", 4, 1, text));
    PLM_TRY(plm_train_result_json(result, &line));
    plm_free(line);
    return PLM_OK;
}

static plm_status run_traced(const place *at, plm_trainer *trainer,
                             const plm_train_observer *observer, plm_train_result *result)
{
    plm_tape *tape = NULL;
    PLM_TRY(plm_export_check(at->trace));
    PLM_TRY(plm_tape_create(plm_trainer_plan(trainer), 1, &tape));
    plm_trainer_use_tape(trainer, tape);
    plm_status status = plm_trainer_run(trainer, observer, result);
    if (status == PLM_OK && plm_tape_summarize(tape).launches > 0) /* one update alone warms */
        status = plm_tape_export(tape, at->trace, "swept");
    plm_trainer_use_tape(trainer, NULL);
    plm_tape_destroy(tape);
    return status;
}

static plm_status train(const place *at, plm_fault *fault, bool resumes, watch *seen)
{
    plm_train_settings settings = settings_of(at, resumes);
    plm_train_observer observer = {note_progress, seen};
    plm_train_result result;
    plm_trainer *trainer = NULL;
    PLM_TRY(open_device(fault, &settings.device));
    plm_status status = plm_trainer_create(&settings, &trainer);
    if (status == PLM_OK)
        status = at->job->traced ? run_traced(at, trainer, &observer, &result)
                                 : plm_trainer_run(trainer, &observer, &result);
    if (status == PLM_OK)
        status = finish(trainer, &result);
    plm_trainer_destroy(trainer);
    plm_device_destroy(settings.device);
    return status;
}

/* Two updates, a stop, a resume. */
static plm_status train_and_resume(const place *at, plm_fault *fault, watch *seen)
{
    seen->stop_after = STEPS - 1;
    PLM_TRY(train(at, fault, false, seen));
    seen->stop_after = 0;
    return train(at, fault, true, seen);
}

/* ---- the folder ---------------------------------------------------------------------------- */

static void checkpoint_path(const place *at, int64_t step, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/step-%08lld.safetensors", at->run, (long long)step);
}

/* The update of the newest checkpoint, 0 for none; *others = files that are none. Removes all when
 * told to. */
static int64_t look_at_folder(const place *at, bool empty, int64_t *others)
{
    int64_t newest = 0;
    char path[2 * PATH_BYTES];
    DIR *folder = opendir(at->run);
    *others = 0;
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        long long step;
        int end = 0;
        if (entry->d_name[0] == '.')
            continue;
        if (sscanf(entry->d_name, "step-%8lld.safetensors%n", &step, &end) == 1 && end > 0 &&
            entry->d_name[end] == '\0')
            newest = step > newest ? step : newest;
        else
            ++*others;
        snprintf(path, sizeof path, "%s/%.200s", at->run, entry->d_name);
        if (empty)
            unlink(path);
    }
    if (folder)
        closedir(folder);
    return newest;
}

static void empty_folder(const place *at)
{
    int64_t others;
    look_at_folder(at, true, &others);
    rmdir(at->run);
}

static int64_t open_descriptors(void)
{
    int64_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

/* Whether the checkpoint of `step`, if there is one, has the bytes of the run that did not fail. */
static bool checkpoint_is_whole(const place *at, int64_t step, bool *there)
{
    char path[PATH_BYTES];
    plm_file file = {0};
    checkpoint_path(at, step, path);
    *there = access(path, F_OK) == 0;
    if (!*there)
        return true;
    if (plm__file_map(path, &file) != PLM_OK)
        return false;
    bool same = file.byte_count == at->reference_bytes[step] &&
                memcmp(file.bytes, at->reference[step], file.byte_count) == 0;
    plm__file_unmap(&file);
    return same;
}

/* ---- one case ------------------------------------------------------------------------------ */

/* What must be the same after a case as before it. */
typedef struct state {
    plm_host_stats host;
    int64_t descriptors;
} state;

static state state_now(void)
{
    return (state){.host = plm__host_stats_get(), .descriptors = open_descriptors()};
}

static const char *what_was_left(const state *before, const plm_fault *fault)
{
    state after = state_now();
    if (after.host.live_count != before->host.live_count ||
        after.host.live_bytes != before->host.live_bytes)
        return "host memory was leaked";
    if (after.descriptors != before->descriptors)
        return "a descriptor was left open";
    if (fault->regions != 0)
        return "a region was not released";
    if (fault->prepared != 0)
        return "a prepared operation was not forgotten";
    if (fault->signals != 0)
        return "a signal was not destroyed";
    return fault->devices != 0 ? "a device was not destroyed" : NULL;
}

static void arm(const sweep_case *one, plm_fault *fault, int64_t n)
{
    if (one->kind == KIND_HOST)
        plm__host_fail_at(n, one->persistent);
    else if (one->kind == KIND_DEVICE)
        plm__fault_at(fault, PLM_FAULT_ANY, n, one->persistent);
    else
        plm__file_fail_at(PLM_FILE_CALL_ANY, n, one->persistent);
}

static bool disarm(const sweep_case *one, plm_fault *fault)
{
    if (one->kind == KIND_HOST)
        return plm__host_fail_at(0, false);
    if (one->kind == KIND_DEVICE)
        return plm__fault_at(fault, PLM_FAULT_ANY, 0, false);
    return plm__file_fail_at(PLM_FILE_CALL_ANY, 0, false);
}

static bool is_right_status(failure_kind kind, plm_status status)
{
    if (kind == KIND_HOST)
        return status == PLM_ERROR_HOST_MEMORY;
    if (kind == KIND_DEVICE)
        return status == PLM_ERROR_DEVICE || status == PLM_ERROR_DEVICE_MEMORY;
    return status == PLM_ERROR_IO;
}

/* The failure that a case led to, told well; NULL when it is. */
static const char *what_was_told_wrong(failure_kind kind, plm_status status)
{
    plm_error error;
    if (status == PLM_OK)
        return NULL;
    plm_error_get(&error);
    if (!is_right_status(kind, status))
        return "the status is not that of the failure";
    if (error.status != status || !error.message[0] || strchr(error.message, '\n'))
        return "the record does not tell the failure in one line";
    return status == PLM_ERROR_DEVICE_MEMORY && error.oom.asked_bytes == 0
               ? "the out-of-memory record is empty"
               : NULL;
}

/*
 * What was saved and must still be there, `done` updates having been heard of; NULL when it is. A
 * checkpoint may be whole before its update is heard of, and then an old one may be gone.
 */
static const char *what_was_lost(const place *at, int64_t done)
{
    int64_t others, newest = look_at_folder(at, false, &others);
    if (newest > done)
        done = newest;
    for (int64_t step = 1; step <= STEPS; step++) {
        bool there;
        if (!checkpoint_is_whole(at, step, &there))
            return "a checkpoint is not whole";
        if (!there && step <= done && step > done - KEEP)
            return "a checkpoint that was saved is gone";
    }
    return NULL;
}

/* The run after the failed one: resumes where it can; a run that was done makes room for it. */
static const char *what_the_next_run_lacks(const place *at)
{
    plm_fault none = {0};
    watch seen = {0};
    int64_t others, newest = look_at_folder(at, false, &others);
    if (newest == STEPS)
        empty_folder(at);
    if (train(at, &none, newest > 0 && newest < STEPS, &seen) != PLM_OK)
        return "the next run failed";
    newest = look_at_folder(at, false, &others);
    if (others > 0)
        return "a temporary file is left after the next run";
    return newest == STEPS ? what_was_lost(at, STEPS) : "the next run saved nothing";
}

/* Runs one case; *fired = whether there was something to fail. Returns what went wrong, or NULL. */
static const char *run_case(const place *at, const sweep_case *one, bool *fired, plm_status *status)
{
    plm_fault fault = {0};
    watch seen = {0};
    empty_folder(at);
    state before = state_now();
    arm(one, &fault, one->n);
    *status = train_and_resume(at, &fault, &seen);
    *fired = disarm(one, &fault);
    if (!*fired)
        return *status == PLM_OK ? NULL : "a run without a failure failed";
    const char *wrong = what_was_told_wrong(one->kind, *status);
    if (!wrong)
        wrong = what_was_left(&before, &fault);
    if (!wrong)
        wrong = what_was_lost(at, *status == PLM_OK ? STEPS : seen.done);
    if (!wrong)
        wrong = what_the_next_run_lacks(at);
    return wrong ? wrong : what_was_left(&before, &fault);
}

static void report(const swept_run *run, const sweep_case *one, const char *wrong,
                   plm_status status)
{
    plm_error error;
    plm_error_get(&error);
    printf("FAILED %s:%lld:%s: %s (status %s; last message: %s)\n  build/test_sweep --run %s "
           "--replay %s:%lld:%s\n",
           kind_names[one->kind], (long long)one->n, mode_names[one->persistent], wrong,
           plm_status_name(status), error.message, run->name, kind_names[one->kind],
           (long long)one->n, mode_names[one->persistent]);
    fflush(stdout);
}

/* ---- all cases ----------------------------------------------------------------------------- */

static bool write_text(const char *path)
{
    FILE *file = fopen(path, "wb");
    for (int i = 0; file && i < 400; i++)
        fputc("man the pumps, trim the sails; "[i % 31], file);
    return file && fclose(file) == 0;
}

static bool take_reference(place *at, int64_t step)
{
    char path[PATH_BYTES];
    plm_file file = {0};
    checkpoint_path(at, step, path);
    if (plm__file_map(path, &file) != PLM_OK ||
        plm__host_alloc(file.byte_count, &at->reference[step]) != PLM_OK)
        return false;
    memcpy(at->reference[step], file.bytes, file.byte_count);
    at->reference_bytes[step] = file.byte_count;
    plm__file_unmap(&file);
    return true;
}

static void name_files(place *at)
{
    snprintf(at->text, sizeof at->text, "%s/text", at->folder);
    snprintf(at->trace, sizeof at->trace, "%s/trace.json", at->folder);
    snprintf(at->run, sizeof at->run, "%s/run", at->folder);
}

static void close_place(place *at)
{
    empty_folder(at);
    unlink(at->text);
    unlink(at->trace);
    rmdir(at->folder);
    for (int i = 0; i <= STEPS; i++)
        plm__host_free(at->reference[i]);
}

/* A folder of its own for this job. One run that does not fail gives the bytes that all must reach.
 */
static bool open_place(const swept_run *job, place *at)
{
    plm_fault none = {0};
    watch seen = {.stop_after = 1};
    *at = (place){.job = job};
    if (!scratch_folder(at->folder))
        return false;
    name_files(at);
    if (!write_text(at->text) || train(at, &none, false, &seen) != PLM_OK || !take_reference(at, 1))
        return false;
    seen = (watch){0};
    empty_folder(at);
    return train(at, &none, false, &seen) == PLM_OK && take_reference(at, 2) &&
           take_reference(at, 3);
}

/* Goes on with the cases from `shared->now`. */
static void sweep(const place *at, score *shared)
{
    for (; shared->now.kind < KIND_COUNT; shared->now.kind++, shared->now.persistent = false) {
        for (;;) {
            bool fired;
            plm_status status;
            alarm(HANG_SECONDS); /* a hang ends this process */
            const char *wrong = run_case(at, &shared->now, &fired, &status);
            alarm(0);
            if (wrong) {
                report(shared->run, &shared->now, wrong, status);
                if (++shared->failures >= FAILURES_MAX)
                    return;
            }
            if (fired) {
                shared->covered[shared->now.kind][shared->now.persistent]++;
                shared->now.n += shared->stride;
                continue;
            }
            shared->now.n = shared->from;
            if (shared->now.persistent)
                break;
            shared->now.persistent = true;
        }
    }
}

static int child(score *shared)
{
    place at;
    plm_error error;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* whoever stops the sweep stops all of it */
    bool opened = open_place(shared->run, &at);
    snprintf(shared->folder, sizeof shared->folder, "%s", at.folder);
    if (opened) {
        sweep(&at, shared);
    } else {
        plm_error_get(&error);
        printf("FAILED the run that must not fail: %s\n", error.message);
    }
    shared->failures += !opened;
    shared->finished = true;
    close_place(&at);
    if (plm__host_stats_get().live_count != 0) {
        printf("FAILED host memory is in use at the end\n");
        shared->failures++;
    }
    fflush(stdout);
    return shared->failures > 0;
}

/* Children until one has come to the end: each that dies costs one case. */
static void sweep_in_children(score *shared)
{
    while (!shared->finished && shared->failures < FAILURES_MAX) {
        int status;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0)
            exit(child(shared));
        if (pid < 0 || waitpid(pid, &status, 0) != pid) {
            shared->failures++;
            return;
        }
        if (shared->finished) {
            shared->failures += !WIFEXITED(status) || WEXITSTATUS(status) > 1;
            return;
        }
        place left = {.folder = ""};
        snprintf(left.folder, sizeof left.folder, "%s", shared->folder);
        name_files(&left);
        close_place(&left);
        printf("(the next case ended with wait status %d)\n", status);
        report(shared->run, &shared->now, "the process died or hung", PLM_OK);
        shared->failures++;
        shared->now.n += shared->stride;
    }
}

static bool read_case(const char *text, sweep_case *one)
{
    char name[16], mode[16];
    long long n;
    if (sscanf(text, "%15[a-z]:%lld:%15[a-z]", name, &n, mode) != 3 || n < 1)
        return false;
    for (int k = 0; k < KIND_COUNT; k++)
        for (int persistent = 0; persistent < 2; persistent++)
            if (strcmp(name, kind_names[k]) == 0 && strcmp(mode, mode_names[persistent]) == 0) {
                *one = (sweep_case){.kind = (failure_kind)k, .n = n, .persistent = persistent != 0};
                return true;
            }
    return false;
}

static int replay(const swept_run *run, const char *text)
{
    sweep_case one;
    place at;
    bool fired;
    plm_status status;
    if (!read_case(text, &one)) {
        fprintf(stderr, "wanted host|device|file:N:once|persistent, found '%s'\n", text);
        return 2;
    }
    const char *wrong = "the run that must not fail did";
    if (open_place(run, &at)) {
        wrong = run_case(&at, &one, &fired, &status);
        if (wrong)
            report(run, &one, wrong, status);
        else
            printf("%s: %s, ended with %s\n", text, fired ? "failed" : "nothing to fail",
                   plm_status_name(status));
    }
    close_place(&at);
    return wrong != NULL;
}

/* Sweeps, and tells how many sites that were. */
static int sweep_all(const swept_run *run, int64_t from, int64_t stride)
{
    int64_t start = plm__clock_ns(), all = 0;
    score *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    *shared = (score){.run = run, .from = from, .stride = stride, .now = {.n = from}};
    sweep_in_children(shared);
    for (int k = 0; k < KIND_COUNT; k++) {
        printf("%-6s %6lld sites failed once, %6lld for good\n", kind_names[k],
               (long long)shared->covered[k][0], (long long)shared->covered[k][1]);
        all += shared->covered[k][0] + shared->covered[k][1];
    }
    bool failed = shared->failures > 0 || all == 0;
    printf("%lld cases in %.1f s, %lld failed\n", (long long)all,
           (double)(plm__clock_ns() - start) * 1e-9, (long long)shared->failures);
    munmap(shared, sizeof *shared);
    return failed;
}

static const swept_run *find_run(const char *name)
{
    for (int i = 0; i < RUN_COUNT; i++)
        if (strcmp(runs[i].name, name) == 0)
            return &runs[i];
    return NULL;
}

int main(int argc, char **argv)
{
    int64_t from = 1, stride = 1;
    const swept_run *run = &runs[0];
    const char *replayed = NULL;
    bool understood = argc % 2 == 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        int64_t number = strtoll(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--stride") == 0)
            stride = number;
        else if (strcmp(argv[i], "--from") == 0)
            from = number;
        else if (strcmp(argv[i], "--run") == 0)
            run = find_run(argv[i + 1]);
        else if (strcmp(argv[i], "--replay") == 0)
            replayed = argv[i + 1];
        else
            understood = false;
    }
    if (understood && run && from > 0 && stride > 0)
        return replayed ? replay(run, replayed) : sweep_all(run, from, stride);
    fprintf(stderr, "usage: test_sweep [--run plain|half|early] [--stride N] [--from N] "
                    "[--replay host|device|file:N:MODE]\n");
    return 2;
}
