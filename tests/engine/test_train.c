/* SPDX-License-Identifier: MIT */
/*
 * The training loop on small generated texts: that it learns what can be learned, counts every
 * held-out target once, follows its schedule, draws the same text again, and says no before it
 * takes anything.
 */
#include "engine/fake_queues.h"
#include "engine/small_run.h"

#include <dirent.h>

#include "base/file.h"
#include "plimsoll/data.h"
#include "plimsoll/train.h"
#include "train/schedule.h"
#include "unit/scratch.h"

enum { PERIOD = 12, TEXT_BYTES = 6000, STEPS_MAX = 48 };

/* A file that is removed at the end. */
typedef struct text_file {
    char path[64];
} text_file;

static void text_write(text_file *file, const char *bytes, size_t count)
{
    snprintf(file->path, sizeof file->path, "/tmp/plimsoll-train-XXXXXX");
    int descriptor = mkstemp(file->path);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, bytes, count), (ssize_t)count);
    close(descriptor);
}

/* A letter of the repeating text, which may be continued for ever. */
static char letter(uint32_t index)
{
    return (char)('a' + small_hash(31, index % PERIOD) % 4);
}

/* The same 12 letters of "abcd" again and again: after one letter every other may follow, so that a
 * bigram model is lost, and after any three only one. */
static void text_write_repeats(text_file *file)
{
    static char bytes[TEXT_BYTES];
    for (uint32_t i = 0; i < TEXT_BYTES; i++)
        bytes[i] = letter(i);
    text_write(file, bytes, TEXT_BYTES);
}

/* What all trainers but those that are refused share. */
static plm_device *cpu;

static int open_cpu(void **state)
{
    (void)state;
    return plm_device_open("cpu", 1, 0, &cpu) == PLM_OK ? 0 : -1;
}

static int close_cpu(void **state)
{
    plm_device_destroy(cpu);
    return check_no_leak(state);
}

static plm_train_settings usual_settings(const text_file *file)
{
    plm_train_settings settings = {.data_path = file->path,
                                   .device = cpu,
                                   .budget_bytes = (size_t)64 << 20,
                                   .strategy = plm_strategy_default(),
                                   .batch = 8,
                                   .sequence = 32,
                                   .steps = 10,
                                   .warmup = 2,
                                   .hyper = plm_hyper_default(),
                                   .seed = 3};
    assert_ok(
        plm_model_parse("gpt:layers=2,width=32,heads=4,context=32,vocab=128", &settings.model));
    settings.hyper.learning_rate = 1e-2f;
    return settings;
}

/* What an observer heard. */
typedef struct diary {
    plm_train_progress lines[STEPS_MAX];
    int64_t count;
    int64_t stop_after; /* 0: never */
} diary;

static bool note(const plm_train_progress *progress, void *user)
{
    diary *heard = user;
    assert_true(heard->count < STEPS_MAX);
    heard->lines[heard->count++] = *progress;
    return heard->count != heard->stop_after;
}

static void run_settings(const plm_train_settings *settings, diary *heard, plm_train_result *result)
{
    plm_trainer *trainer = NULL;
    plm_train_observer observer = {note, heard};
    assert_ok(plm_trainer_create(settings, &trainer));
    assert_ok(plm_trainer_run(trainer, &observer, result));
    plm_trainer_destroy(trainer);
}

/* ---- learning ------------------------------------------------------------------------------ */

/* A cold sample goes on as the text does, whose repeats were learned: four letters of it in a row
 * stand in the text too. By chance one in twenty would be.  */
static void check_cold_sample(plm_trainer *trainer)
{
    char text[200], sample[101];
    int right = 0;
    for (uint32_t i = 0; i < sizeof text - 1; i++)
        text[i] = letter(i);
    text[sizeof text - 1] = '\0'; /* longer than the context */
    assert_ok(plm_trainer_sample(trainer, text, 100, 0.05, sample));
    for (int i = 0; i < 97; i++) {
        const char four[] = {sample[i], sample[i + 1], sample[i + 2], sample[i + 3], '\0'};
        right += strstr(text, four) != NULL;
    }
    print_message("%d of 97 fours of sampled letters stand in the text\n", right);
    assert_true(right > 80);
}

static void a_repeating_text_is_learned_far_under_the_bigram_loss_and_continued(void **state)
{
    (void)state;
    text_file file;
    plm_trainer *trainer = NULL;
    plm_train_result result;
    text_write_repeats(&file);
    plm_train_settings settings = usual_settings(&file);
    settings.steps = 240;
    settings.warmup = 10;
    assert_ok(plm_trainer_create(&settings, &trainer));
    assert_ok(plm_trainer_run(trainer, NULL, &result));
    print_message("loss %.3f to %.3f, validation %.3f, bigram %.3f\n", result.first_loss,
                  result.last_loss, result.validation_loss, result.bigram_loss);
    assert_int_equal(result.steps, 240);
    assert_int_equal(result.skipped_steps, 0);
    assert_true(fabs(result.first_loss - log(128)) < 0.5);
    assert_true(result.bigram_loss > 0.8);
    assert_true(result.validation_loss < result.bigram_loss / 2);
    assert_true(result.last_loss < result.bigram_loss / 2);
    assert_int_equal(result.predicted_peak_bytes, result.measured_peak_bytes);
    assert_true(result.predicted_peak_bytes <= result.budget_bytes);
    check_cold_sample(trainer);
    plm_trainer_destroy(trainer);
    unlink(file.path);
}

static void the_losses_of_a_run_do_not_depend_on_the_budget(void **state)
{
    (void)state;
    static diary wide, narrow;
    text_file file;
    plm_train_result one, other;
    text_write_repeats(&file);
    plm_train_settings settings = usual_settings(&file);
    settings.model.dropout = 0.1f;
    wide = narrow = (diary){.count = 0};
    run_settings(&settings, &wide, &one);
    assert_int_equal(one.strategy.micro_batch, 8);
    settings.budget_bytes = one.predicted_peak_bytes - 1;
    run_settings(&settings, &narrow, &other);
    assert_int_equal(other.strategy.micro_batch, 4);
    assert_true(other.measured_peak_bytes <= settings.budget_bytes);
    for (int64_t i = 0; i < settings.steps; i++)
        assert_true(fabs(wide.lines[i].loss - narrow.lines[i].loss) < 1e-4 * wide.lines[i].loss);
    unlink(file.path);
}

/* ---- schedule and progress ------------------------------------------------------------------ */

static void the_rate_rises_in_a_line_and_falls_along_half_a_cosine(void **state)
{
    (void)state;
    /* 4 updates up to 1, then from 1 to 0.1 over the 6 that follow: shares 0, 1/5 .. 1 of pi */
    static const double wanted[] = {0.25, 0.5, 0.75, 1,  1, 0.1 + 0.45 * (1 + 0.8090169943749475),
                                    0,    0,   0,    0.1};
    for (int64_t i = 0; i < 10; i++)
        if (wanted[i] > 0)
            assert_true(fabs((double)plm__schedule_rate(1, i, 4, 10) - wanted[i]) < 1e-6);
    for (int64_t i = 5; i < 10; i++)
        assert_true(plm__schedule_rate(1, i, 4, 10) < plm__schedule_rate(1, i - 1, 4, 10));
    assert_true(fabsf(plm__schedule_rate(6e-4f, 0, 0, 1) - 6e-4f) < 1e-9f);
    assert_true(fabsf(plm__schedule_rate(6e-4f, 99, 0, 100) - 6e-5f) < 1e-9f);
    assert_true(plm__schedule_rate(1, 2, 50, 3) < 0.1f); /* a warm-up longer than the run */
}

static void an_observer_hears_every_update_and_may_stop_the_run(void **state)
{
    (void)state;
    static diary heard;
    text_file file;
    plm_train_result result;
    text_write_repeats(&file);
    plm_train_settings settings = usual_settings(&file);
    settings.eval_every = 4;
    heard = (diary){.count = 0};
    run_settings(&settings, &heard, &result);
    assert_int_equal(heard.count, 10);
    for (int64_t i = 0; i < 10; i++) {
        const plm_train_progress *p = &heard.lines[i];
        assert_int_equal(p->step, i + 1);
        assert_int_equal(p->steps, 10);
        assert_int_equal(p->evaluated, i == 3 || i == 7 || i == 9);
        assert_true(p->learning_rate == (double)plm__schedule_rate(1e-2f, i, 2, 10));
        assert_int_equal(p->used_bytes, result.measured_peak_bytes);
        assert_true(p->tokens_per_second > 0);
        assert_true(p->gradient_norm > 0);
    }
    assert_true(heard.lines[9].remaining_seconds == 0);
    assert_true(heard.lines[9].validation_loss == result.validation_loss);
    assert_true(heard.lines[0].loss == result.first_loss);
    assert_true(heard.lines[9].loss == result.last_loss);

    heard = (diary){.stop_after = 3};
    run_settings(&settings, &heard, &result);
    assert_int_equal(result.steps, 3);
    assert_int_equal(heard.count, 3);
    unlink(file.path);
}

/* ---- evaluation ------------------------------------------------------------------------------ */

static void evaluation_counts_every_held_out_target_once(void **state)
{
    (void)state;
    static diary heard;
    text_file file;
    plm_train_result all, some;
    text_write_repeats(&file);
    plm_train_settings settings = usual_settings(&file);
    settings.steps = 1;
    heard = (diary){.count = 0};
    run_settings(&settings, &heard, &all);
    assert_int_equal(all.validation_targets, TEXT_BYTES / 10 - 1);
    /* 599 targets in windows of 32: 18 whole ones and one of 23 */
    settings.eval_sequences = 1000;
    heard = (diary){.count = 0};
    run_settings(&settings, &heard, &some);
    assert_int_equal(some.validation_targets, TEXT_BYTES / 10 - 1);
    assert_true(some.validation_loss == all.validation_loss);
    settings.eval_sequences = 3;
    heard = (diary){.count = 0};
    run_settings(&settings, &heard, &some);
    assert_int_equal(some.validation_targets, 3 * 32);
    unlink(file.path);
}

/* ---- masked models ----------------------------------------------------------------------------
 */

static plm_train_settings masked_settings(const text_file *file)
{
    plm_train_settings settings = usual_settings(file);
    assert_ok(
        plm_model_parse("bert:layers=2,width=32,heads=4,context=32,vocab=257", &settings.model));
    return settings;
}

/* Runs of one of eight letters: a hidden letter is what stands around it, on either side. */
static void text_write_runs(text_file *file)
{
    static char bytes[TEXT_BYTES];
    for (uint32_t i = 0; i < TEXT_BYTES; i++)
        bytes[i] = (char)('a' + small_hash(8, i / 60) % 8);
    text_write(file, bytes, TEXT_BYTES);
}

static void a_masked_model_learns_to_tell_a_letter_from_those_around_it(void **state)
{
    (void)state;
    text_file file;
    plm_trainer *trainer = NULL;
    plm_train_result result;
    char sample[8];
    text_write_runs(&file);
    plm_train_settings settings = masked_settings(&file);
    settings.steps = 160;
    settings.warmup = 8;
    settings.hyper.learning_rate = 3e-3f;
    assert_ok(plm_trainer_create(&settings, &trainer));
    assert_ok(plm_trainer_run(trainer, NULL, &result));
    print_message("loss %.3f to %.3f, validation %.3f over %lld hidden letters\n",
                  result.first_loss, result.last_loss, result.validation_loss,
                  (long long)result.validation_targets);
    assert_true(result.masked);
    assert_true(fabs(result.first_loss - log(257)) < 0.5);
    assert_true(result.validation_loss < log(8) - 0.4); /* log 8: eight letters, blindly told */
    assert_int_equal(result.predicted_peak_bytes, result.measured_peak_bytes);
    assert_int_equal(plm_trainer_sample(trainer, "ab", 4, 1, sample), PLM_ERROR_UNSUPPORTED);
    plm_trainer_destroy(trainer);
    unlink(file.path);
}

static void evaluations_of_masked_models_hide_the_same_tokens_in_every_run(void **state)
{
    (void)state;
    static diary heard;
    text_file file;
    plm_train_result one, other;
    text_write_repeats(&file);
    plm_train_settings settings = masked_settings(&file);
    settings.steps = 2;
    heard = (diary){.count = 0};
    run_settings(&settings, &heard, &one);
    settings.seed++;
    settings.batch = 4;
    heard = (diary){.count = 0};
    run_settings(&settings, &heard, &other);
    assert_int_equal(one.validation_targets, other.validation_targets);
    double share = (double)one.validation_targets / (TEXT_BYTES / 10 - 1);
    assert_true(fabs(share - 0.15) < 4 * 0.0146); /* four deviations of a binomial of 599 */
    unlink(file.path);
}

static void the_losses_of_a_masked_run_do_not_depend_on_the_budget(void **state)
{
    (void)state;
    static diary wide, narrow;
    text_file file;
    plm_train_result one, other;
    text_write_repeats(&file);
    plm_train_settings settings = masked_settings(&file);
    settings.model.dropout = 0.1f;
    wide = narrow = (diary){.count = 0};
    run_settings(&settings, &wide, &one);
    settings.budget_bytes = one.predicted_peak_bytes - 1;
    run_settings(&settings, &narrow, &other);
    assert_true(other.strategy.micro_batch < one.strategy.micro_batch);
    for (int64_t i = 0; i < settings.steps; i++)
        assert_true(fabs(wide.lines[i].loss - narrow.lines[i].loss) < 1e-4 * wide.lines[i].loss);
    unlink(file.path);
}

static void a_masked_model_without_room_for_the_mask_is_refused(void **state)
{
    (void)state;
    text_file file;
    plm_trainer *trainer = NULL;
    plm_error error;
    text_write_repeats(&file);
    plm_train_settings settings = masked_settings(&file);
    settings.model.vocab = 256;
    assert_int_equal(plm_trainer_create(&settings, &trainer), PLM_ERROR_ARGUMENT);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "vocabulary of at least 257"));
    unlink(file.path);
}

/* ---- sampling ---------------------------------------------------------------------------------
 */

static void a_sample_comes_after_a_run_and_is_the_same_again(void **state)
{
    (void)state;
    text_file file;
    plm_trainer *trainer = NULL;
    plm_train_result result;
    char one[101], other[101];
    text_write_repeats(&file);
    plm_train_settings settings = usual_settings(&file);
    assert_ok(plm_trainer_create(&settings, &trainer));
    assert_int_equal(plm_trainer_sample(trainer, "", 10, 1, one), PLM_ERROR_STATE);
    assert_ok(plm_trainer_run(trainer, NULL, &result));
    assert_int_equal(plm_trainer_run(trainer, NULL, &result), PLM_ERROR_STATE);
    assert_int_equal(plm_trainer_sample(trainer, "", 10, 0, one), PLM_ERROR_ARGUMENT);
    assert_ok(plm_trainer_sample(trainer, "", 100, 1, one));
    assert_ok(plm_trainer_sample(trainer, "", 100, 1, other));
    assert_int_equal(strlen(one), 100); /* well beyond the context of 32 */
    assert_string_equal(one, other);
    plm_trainer_destroy(trainer);
    unlink(file.path);
}

/* ---- refused -----------------------------------------------------------------------------------
 */

/* On a device of its own, which keeps what it was asked. */
static plm_status create(const plm_train_settings *wanted)
{
    plm_trainer *trainer = NULL;
    plm_train_settings settings = *wanted;
    plm_host_stats before = plm__host_stats_get();
    settings.device = NULL;
    plm_status status = wanted->device ? plm_device_open("cpu", 1, 0, &settings.device) : PLM_OK;
    if (status == PLM_OK)
        status = plm_trainer_create(&settings, &trainer);
    assert_true((status == PLM_OK) == (trainer != NULL));
    plm_trainer_destroy(trainer);
    plm_device_destroy(settings.device);
    assert_int_equal(plm__host_stats_get().live_count, before.live_count);
    assert_int_equal(plm__host_stats_get().live_bytes, before.live_bytes);
    return status;
}

static void assert_told(const char *part)
{
    plm_error error;
    plm_error_get(&error);
    if (strstr(error.message, part))
        return;
    print_error("'%s' is not in: %s\n", part, error.message);
    fail();
}

static void data_that_is_missing_empty_or_short_is_refused(void **state)
{
    (void)state;
    text_file file;
    text_write(&file, "", 0);
    plm_train_settings settings = usual_settings(&file);
    assert_int_equal(create(&settings), PLM_ERROR_FORMAT);
    assert_told("empty");
    unlink(file.path);
    assert_int_equal(create(&settings), PLM_ERROR_IO);
    assert_told(file.path);
    text_write(&file, "only a few bytes", 16);
    assert_int_equal(create(&settings), PLM_ERROR_FORMAT);
    assert_told("330"); /* ten times 32 + 1 */
    unlink(file.path);
}

static void a_budget_that_is_too_small_names_the_smallest_which_then_does(void **state)
{
    (void)state;
    text_file file;
    plm_error error;
    text_write_repeats(&file);
    plm_train_settings settings = usual_settings(&file);
    settings.budget_bytes = 4096;
    assert_int_equal(create(&settings), PLM_ERROR_BUDGET);
    plm_error_get(&error);
    size_t smallest = error.oom.asked_bytes;
    char number[32];
    snprintf(number, sizeof number, "(%zu bytes)", smallest);
    assert_told(number);
    settings.budget_bytes = smallest - 1;
    assert_int_equal(create(&settings), PLM_ERROR_BUDGET);
    settings.budget_bytes = smallest;
    assert_ok(create(&settings));
    unlink(file.path);
}

static void settings_out_of_range_are_refused(void **state)
{
    (void)state;
    text_file file;
    text_write_repeats(&file);
    const plm_train_settings good = usual_settings(&file);
    plm_train_settings cases[] = {good, good, good, good, good, good, good,
                                  good, good, good, good, good, good};
    cases[0].batch = 0;
    cases[1].batch = (int64_t)PLM_BATCH_MAX + 1;
    cases[2].sequence = 0;
    cases[3].steps = 0;
    cases[4].warmup = -1;
    cases[5].hyper.learning_rate = 0;
    cases[6].hyper.learning_rate = NAN;
    cases[7].hyper.clip_norm = -1;
    cases[8].strategy.micro_batch = 3; /* does not divide 8 */
    cases[9].device = NULL;
    cases[10].hyper.weight_decay = INFINITY;
    cases[11].hyper.clip_norm = INFINITY;
    cases[12].out_folder = "/tmp/plimsoll-is-not-made"; /* and none kept */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_status status = create(&cases[i]);
        if (status != PLM_ERROR_ARGUMENT) {
            print_error("case %d: %s\n", (int)i, plm_status_name(status));
            fail();
        }
    }
    assert_ok(create(&good));
    unlink(file.path);
}

static void creating_a_trainer_survives_the_failure_of_every_allocation(void **state)
{
    (void)state;
    text_file file;
    text_write_repeats(&file);
    plm_train_settings settings = usual_settings(&file);
    for (int persistent = 0; persistent < 2; persistent++) {
        for (int64_t n = 1;; n++) {
            plm__host_fail_at(n, persistent);
            plm_status status = create(&settings);
            bool fired = plm__host_fail_at(0, false);
            if (!fired) {
                assert_ok(status);
                assert_true(n > 20);
                break;
            }
            assert_int_equal(status, PLM_ERROR_HOST_MEMORY);
        }
    }
    unlink(file.path);
}

static void a_refusal_names_its_hint_and_no_option(void **state)
{
    (void)state;
    text_file file;
    plm_error error;
    text_write_repeats(&file);
    plm_train_settings settings = usual_settings(&file);
    settings.strategy.update = PLM_UPDATE_EARLY;
    assert_int_equal(create(&settings), PLM_ERROR_ARGUMENT);
    plm_error_get(&error);
    assert_int_equal(error.hint, PLM_HINT_CLIP_NOTHING);
    assert_null(strstr(error.message, "--"));
    settings.hyper.clip_norm = 0;
    assert_ok(create(&settings));
    unlink(file.path);
}

static bool cut_the_text(const plm_train_progress *progress, void *user)
{
    const text_file *file = user;
    return progress->step < 2 || truncate(file->path, 100) == 0;
}

/* How many checkpoints lie in a folder, which is emptied and removed; *newest = their last update.
 */
static int count_checkpoints(const char *folder, int *newest)
{
    int count = 0, step;
    *newest = 0;
    DIR *open = opendir(folder);
    assert_non_null(open);
    for (struct dirent *entry = readdir(open); entry; entry = readdir(open)) {
        char path[400];
        if (sscanf(entry->d_name, "step-%d.safetensors", &step) != 1)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
        *newest = step > *newest ? step : *newest;
        count++;
    }
    closedir(open);
    assert_int_equal(rmdir(folder), 0);
    return count;
}

static void
a_text_that_is_cut_short_under_a_run_leaves_a_checkpoint_of_what_was_learnt(void **state)
{
    (void)state;
    text_file file;
    plm_trainer *trainer = NULL;
    plm_train_result result;
    int newest;
    char folder[SCRATCH_BYTES];
    assert_true(scratch_folder(folder));
    text_write_repeats(&file);
    plm_train_settings settings = usual_settings(&file);
    plm_train_observer observer = {cut_the_text, &file};
    settings.out_folder = folder;
    settings.keep = 1;
    assert_ok(plm_trainer_create(&settings, &trainer));
    assert_int_equal(plm_trainer_run(trainer, &observer, &result), PLM_ERROR_IO);
    assert_told("is shorter than it was");
    assert_told("the state after 2 updates is saved in '");
    plm_trainer_destroy(trainer);
    assert_int_equal(count_checkpoints(folder, &newest), 1);
    assert_int_equal(newest, 2);
    unlink(file.path);
}

static void run_quietly(const plm_train_settings *settings, plm_train_result *result)
{
    plm_trainer *trainer = NULL;
    assert_ok(plm_trainer_create(settings, &trainer));
    assert_ok(plm_trainer_run(trainer, NULL, result));
    plm_trainer_destroy(trainer);
}

/* Four updates go well. Then a step as high as a mountain ruins the weights, which shows in the
 * next update only: it and all others are skipped. Two checkpoints are kept, and each update is
 * saved: those of the updates 3 and 4 stay, not that of the ruin. */
static void a_run_that_diverges_ends_after_the_stated_skips_and_keeps_what_was_good(void **state)
{
    (void)state;
    text_file file;
    plm_train_result result;
    text_write_repeats(&file);
    for (int64_t beyond = -1; beyond <= 60; beyond += 61) {
        char folder[SCRATCH_BYTES];
        int newest;
        plm_train_settings settings = usual_settings(&file);
        assert_true(scratch_folder(folder));
        settings.out_folder = folder;
        settings.save_every = 1;
        settings.keep = 2;
        settings.steps = 4;
        run_quietly(&settings, &result);
        assert_false(result.diverged);
        assert_int_equal(result.saved_step, 4);
        settings.resume_folder = folder;
        settings.hyper.learning_rate = 1e30f;
        settings.steps = 5 + PLM_SKIPPED_IN_A_ROW_MAX + beyond;
        run_quietly(&settings, &result);
        assert_true(result.diverged);
        assert_int_equal(result.steps, 5 + PLM_SKIPPED_IN_A_ROW_MAX + (beyond < 0 ? beyond : 0));
        assert_int_equal(result.skipped_in_a_row, result.steps - 5);
        assert_int_equal(result.saved_step, 0);
        assert_int_equal(count_checkpoints(folder, &newest), 2);
        assert_int_equal(newest, 4);
    }
    unlink(file.path);
}

static void a_text_that_is_cut_short_under_a_run_ends_it_with_a_message(void **state)
{
    (void)state;
    text_file file;
    plm_trainer *trainer = NULL;
    plm_train_result result;
    plm_error error;
    text_write_repeats(&file);
    plm_train_settings settings = usual_settings(&file);
    plm_train_observer observer = {cut_the_text, &file};
    assert_ok(plm_trainer_create(&settings, &trainer));
    assert_int_equal(plm_trainer_run(trainer, &observer, &result), PLM_ERROR_IO);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "is shorter than it was"));
    plm_trainer_destroy(trainer);
    unlink(file.path);
}

/* ---- a device with two queues, which is a step ahead ----------------------------------------- */

/* What a run told and left, and the bytes of its newest checkpoint. */
typedef struct outcome {
    diary heard;
    plm_train_result result;
    int checkpoints, newest;
    plm_file file;
    char folder[SCRATCH_BYTES];
} outcome;

static void run_into_folder(plm_train_settings settings, int64_t stop_after, outcome *out)
{
    char path[SCRATCH_BYTES + 64];
    *out = (outcome){.heard = {.stop_after = stop_after}};
    assert_true(scratch_folder(out->folder));
    settings.out_folder = out->folder;
    run_settings(&settings, &out->heard, &out->result);
    snprintf(path, sizeof path, "%s/step-%08d.safetensors", out->folder, (int)out->result.steps);
    if (!out->result.diverged)
        assert_ok(plm__file_map(path, &out->file));
    out->checkpoints = count_checkpoints(out->folder, &out->newest);
}

static void assert_same_lines(const diary *a, const diary *b)
{
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++) {
        assert_int_equal(a->lines[i].step, b->lines[i].step);
        assert_memory_equal(&a->lines[i].loss, &b->lines[i].loss, sizeof a->lines[i].loss);
        assert_memory_equal(&a->lines[i].gradient_norm, &b->lines[i].gradient_norm,
                            sizeof a->lines[i].gradient_norm);
        assert_true(a->lines[i].learning_rate == b->lines[i].learning_rate);
        assert_true(a->lines[i].loss_scale == b->lines[i].loss_scale);
        assert_int_equal(a->lines[i].skipped, b->lines[i].skipped);
        assert_int_equal(a->lines[i].evaluated, b->lines[i].evaluated);
        assert_memory_equal(&a->lines[i].validation_loss, &b->lines[i].validation_loss,
                            sizeof a->lines[i].validation_loss);
    }
}

static void assert_same_outcome(outcome *a, outcome *b)
{
    assert_same_lines(&a->heard, &b->heard);
    assert_int_equal(a->result.steps, b->result.steps);
    assert_int_equal(a->result.skipped_steps, b->result.skipped_steps);
    assert_int_equal(a->result.saved_step, b->result.saved_step);
    assert_int_equal(a->result.diverged, b->result.diverged);
    assert_int_equal(a->checkpoints, b->checkpoints);
    assert_int_equal(a->newest, b->newest);
    assert_int_equal(a->file.byte_count, b->file.byte_count);
    assert_memory_equal(a->file.bytes, b->file.bytes, a->file.byte_count);
}

/* The runs that are compared: plain; saved in between, in fp16; one that diverges
 * at once, and ends after so many skipped updates. */
static plm_train_settings compared_settings(const text_file *file, int which)
{
    plm_train_settings settings = usual_settings(file);
    settings.model.dropout = 0.1f;
    settings.keep = 3;
    settings.strategy.micro_batch = 4;
    if (which == 1) {
        settings.strategy.precision = PLM_DTYPE_F16;
        settings.eval_every = 4;
        settings.save_every = 3;
    } else if (which == 2) {
        settings.hyper.learning_rate = 1e30f;
        settings.warmup = 0;
        settings.steps = PLM_SKIPPED_IN_A_ROW_MAX + 5;
    }
    return settings;
}

static void a_device_that_is_a_step_ahead_tells_and_saves_the_same(void **state)
{
    (void)state;
    static outcome expected, found;
    text_file file;
    text_write_repeats(&file);
    for (int i = 0; i < 6; i++) {
        plm_train_settings settings = compared_settings(&file, i / 2);
        fake_queues fake;
        run_into_folder(settings, 0, &expected);
        fake_queues_open(&fake, i % 2 ? PLM_QUEUE_COPY : PLM_QUEUE_COMPUTE, 0);
        settings.device = &fake.head;
        run_into_folder(settings, 0, &found);
        plm_device_destroy(&fake.head);
        assert_int_equal(found.result.predicted_peak_bytes, found.result.measured_peak_bytes);
        assert_same_outcome(&expected, &found);
        assert_int_equal(expected.result.diverged, i / 2 == 2);
        assert_int_equal(expected.result.steps, i / 2 == 2 ? PLM_SKIPPED_IN_A_ROW_MAX + 1 : 10);
        plm__file_unmap(&expected.file);
        plm__file_unmap(&found.file);
    }
    unlink(file.path);
}

/* Three updates were heard of when the fourth had begun: four are done, told and saved. */
static void a_run_that_is_stopped_a_step_ahead_ends_with_that_step(void **state)
{
    (void)state;
    static outcome expected, found;
    text_file file;
    fake_queues fake;
    text_write_repeats(&file);
    plm_train_settings settings = compared_settings(&file, 0);
    run_into_folder(settings, 4, &expected);
    assert_int_equal(expected.result.steps, 4);
    fake_queues_open(&fake, PLM_QUEUE_COMPUTE, 0);
    settings.device = &fake.head;
    run_into_folder(settings, 3, &found);
    plm_device_destroy(&fake.head);
    assert_same_outcome(&expected, &found);
    plm__file_unmap(&expected.file);
    plm__file_unmap(&found.file);
    unlink(file.path);
}

/* The text was cut after the second update was told, when the third had been drawn. */
static void a_text_that_is_cut_a_step_ahead_is_told_when_its_turn_comes(void **state)
{
    (void)state;
    text_file file;
    plm_trainer *trainer = NULL;
    plm_train_result result;
    fake_queues fake;
    int newest;
    char folder[SCRATCH_BYTES];
    assert_true(scratch_folder(folder));
    text_write_repeats(&file);
    fake_queues_open(&fake, PLM_QUEUE_COPY, 0);
    plm_train_settings settings = usual_settings(&file);
    plm_train_observer observer = {cut_the_text, &file};
    settings.device = &fake.head;
    settings.out_folder = folder;
    settings.keep = 1;
    assert_ok(plm_trainer_create(&settings, &trainer));
    assert_int_equal(plm_trainer_run(trainer, &observer, &result), PLM_ERROR_IO);
    assert_told("the state after 3 updates is saved in '");
    plm_trainer_destroy(trainer);
    plm_device_destroy(&fake.head);
    assert_int_equal(count_checkpoints(folder, &newest), 1);
    assert_int_equal(newest, 3);
    unlink(file.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_names_its_hint_and_no_option),
        cmocka_unit_test(a_masked_model_learns_to_tell_a_letter_from_those_around_it),
        cmocka_unit_test(evaluations_of_masked_models_hide_the_same_tokens_in_every_run),
        cmocka_unit_test(the_losses_of_a_masked_run_do_not_depend_on_the_budget),
        cmocka_unit_test(a_masked_model_without_room_for_the_mask_is_refused),
        cmocka_unit_test(a_repeating_text_is_learned_far_under_the_bigram_loss_and_continued),
        cmocka_unit_test(the_losses_of_a_run_do_not_depend_on_the_budget),
        cmocka_unit_test(the_rate_rises_in_a_line_and_falls_along_half_a_cosine),
        cmocka_unit_test(an_observer_hears_every_update_and_may_stop_the_run),
        cmocka_unit_test(evaluation_counts_every_held_out_target_once),
        cmocka_unit_test(a_sample_comes_after_a_run_and_is_the_same_again),
        cmocka_unit_test(data_that_is_missing_empty_or_short_is_refused),
        cmocka_unit_test(a_budget_that_is_too_small_names_the_smallest_which_then_does),
        cmocka_unit_test(settings_out_of_range_are_refused),
        cmocka_unit_test(creating_a_trainer_survives_the_failure_of_every_allocation),
        cmocka_unit_test(a_text_that_is_cut_short_under_a_run_ends_it_with_a_message),
        cmocka_unit_test(a_device_that_is_a_step_ahead_tells_and_saves_the_same),
        cmocka_unit_test(a_run_that_is_stopped_a_step_ahead_ends_with_that_step),
        cmocka_unit_test(a_text_that_is_cut_a_step_ahead_is_told_when_its_turn_comes),
        cmocka_unit_test(
            a_text_that_is_cut_short_under_a_run_leaves_a_checkpoint_of_what_was_learnt),
        cmocka_unit_test(a_run_that_diverges_ends_after_the_stated_skips_and_keeps_what_was_good),
    };
    return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}
