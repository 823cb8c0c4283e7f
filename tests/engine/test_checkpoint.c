/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints that are not what they should be. Cut at any length, with any byte changed, or of
 * another run, they are refused in one line, and neither the session nor the folder is changed.
 */
#include "engine/small_run.h"

#include <sys/stat.h>
#include <zlib.h>

#include "base/file.h"
#include "base/philox.h"
#include "run/session.h"
#include "train/checkpoint.h"
#include "unit/program.h"
#include "unit/scratch.h"

#if defined(__SANITIZE_ADDRESS__)
enum { SAMPLE = 16 }; /* the sanitizers are slow: a sample of the bytes */
#else
enum { SAMPLE = 1 };
#endif

enum { STEP = 7, SEED = 11 };

static const small_shape shape = {.layers = 1,
                                  .width = 8,
                                  .heads = 2,
                                  .context = 6,
                                  .vocab = 11,
                                  .batch = 2,
                                  .micro_batch = 1,
                                  .sequence = 6,
                                  .dropout = 0.1f,
                                  .seed = SEED};

/* A trained session, its checkpoint's bytes, and a folder to put damaged ones into. */
typedef struct bench {
    small_run run;
    plm_train_settings settings;
    plm_corpus_counts text;
    char folder[SCRATCH_BYTES];
    char path[128];
    plm_file good; /* mapped from a file that is removed */
    small_values before[3], now;
} bench;

static const plm_parameter_part parts[3] = {PLM_PART_VALUE, PLM_PART_MOMENT1, PLM_PART_MOMENT2};

static void train_a_step(bench *at, int64_t step)
{
    static small_window window;
    plm_hyper hyper = plm_hyper_default();
    plm_step_result result;
    small_window_fill(&window, shape.batch * shape.sequence, shape.vocab, (uint32_t)step + 1);
    assert_ok(plm_session_step(at->run.session, step, &hyper, shape.batch, window.tokens,
                               window.targets, &result));
}

static void remember(bench *at)
{
    for (int p = 0; p < 3; p++)
        small_values_read(&at->run, &shape, parts[p], &at->before[p]);
}

/* A 16-bit run saves its masters, and its loss scale among the counters. */
static const plm_dtype precisions[] = {PLM_DTYPE_F32, PLM_DTYPE_F16};

enum { PRECISION_COUNT = sizeof precisions / sizeof *precisions };

static void open_bench_of(bench *at, plm_dtype precision)
{
    small_shape made = shape;
    made.precision = precision;
    memset(at, 0, sizeof *at);
    small_run_open(&at->run, &made);
    at->settings = (plm_train_settings){
        .model = at->run.model, .batch = shape.batch, .sequence = shape.sequence, .seed = SEED};
    at->text =
        (plm_corpus_counts){.training_tokens = 180, .held_out_tokens = 20, .checksum = 0x0badcafe};
    assert_true(scratch_folder(at->folder));
    snprintf(at->path, sizeof at->path, "%s/step-%08d.safetensors", at->folder, STEP);
    train_a_step(at, 0);
    assert_ok(plm__checkpoint_save(at->folder, 1, &at->settings, &at->text, STEP, at->run.session));
    assert_ok(plm__file_map(at->path, &at->good));
    unlink(at->path);
    train_a_step(at, 1); /* so that a checkpoint that is taken shows */
    remember(at);
}

static void open_bench(bench *at)
{
    open_bench_of(at, PLM_DTYPE_F32);
}

static void close_bench(bench *at)
{
    unlink(at->path);
    assert_int_equal(rmdir(at->folder), 0); /* nothing else was left there */
    plm__file_unmap(&at->good);
    small_run_close(&at->run);
}

static void put(const bench *at, const uint8_t *bytes, size_t count)
{
    FILE *file = fopen(at->path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static plm_status load(bench *at)
{
    int64_t step = -1;
    plm_status status =
        plm__checkpoint_load(at->folder, &at->settings, &at->text, at->run.session, &step);
    assert_int_equal(step, status == PLM_OK ? STEP : -1);
    return status;
}

/* The file in the folder is refused with one of two statuses, in one line. */
static void check_refused(bench *at, plm_status wanted, const char *what, size_t place)
{
    plm_host_stats before = plm__host_stats_get();
    plm_status status = load(at);
    plm_error error;
    plm_error_get(&error);
    bool told = error.message[0] && !strchr(error.message, '\n');
    /* a length that no file can have is also said to be too large */
    if ((status == wanted || (status == PLM_ERROR_OVERFLOW && wanted == PLM_ERROR_FORMAT)) &&
        told && plm__host_stats_get().live_bytes == before.live_bytes)
        return;
    fail_msg("%s %zu: status %s, message '%s'", what, place, plm_status_name(status),
             error.message);
}

static void check_unchanged(bench *at)
{
    for (int p = 0; p < 3; p++) {
        small_values_read(&at->run, &shape, parts[p], &at->now);
        assert_true(small_same_bits(&at->now, &at->before[p]));
    }
    assert_int_equal(plm__session_counters(at->run.session).updates, 2);
}

/* The good file is taken, so what is refused is the damage. */
static void check_good_is_taken(bench *at)
{
    put(at, at->good.bytes, at->good.byte_count);
    assert_ok(load(at));
    assert_int_equal(plm__session_counters(at->run.session).updates, 1);
    small_values_read(&at->run, &shape, PLM_PART_VALUE, &at->now);
    assert_false(small_same_bits(&at->now, &at->before[0]));
}

static void refuse_every_cut(plm_dtype precision)
{
    static bench at;
    int64_t cases = 0;
    open_bench_of(&at, precision);
    for (size_t length = 0; length < at.good.byte_count; length += length < 64 ? 1 : 31 * SAMPLE) {
        put(&at, at.good.bytes, length);
        check_refused(&at, PLM_ERROR_FORMAT, "cut at", length);
        cases++;
    }
    for (size_t less = 1; less <= 8; less++) {
        put(&at, at.good.bytes, at.good.byte_count - less);
        check_refused(&at, PLM_ERROR_FORMAT, "less", less);
    }
    check_unchanged(&at);
    check_good_is_taken(&at);
    print_message("%d lengths of a file of %zu bytes\n", (int)cases + 8, at.good.byte_count);
    close_bench(&at);
}

static void a_checkpoint_cut_at_any_length_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < PRECISION_COUNT; i++)
        refuse_every_cut(precisions[i]);
}

/* Steps beyond eight digits have longer names; what is written otherwise is somebody else's. */
static void a_name_is_a_checkpoints_only_as_it_is_written(void **state)
{
    (void)state;
    static const char *const others[] = {"step-9.safetensors", "step-000000009.safetensors",
                                         "step--0000009.safetensors",
                                         "step-00000009.safetensors.old"};
    static bench at;
    char path[200];
    open_bench(&at);
    put(&at, at.good.bytes, at.good.byte_count);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(path, sizeof path, "%s/%s", at.folder, others[i]);
        assert_ok(plm__file_write(path, "", 0));
        assert_ok(load(&at));
        plm__file_remove(path);
    }
    snprintf(path, sizeof path, "%s/step-100000000.safetensors", at.folder);
    assert_ok(plm__file_write(path, "", 0));
    assert_int_equal(load(&at), PLM_ERROR_FORMAT); /* the newest, and damaged */
    plm__file_remove(path);
    close_bench(&at);
}

/* Three checkpoints, the two newest cut: the message names the oldest, or that there is none. */
static void a_damaged_checkpoint_names_the_older_one_that_is_whole(void **state)
{
    (void)state;
    static bench at;
    char newer[2][200];
    plm_error error;
    open_bench(&at);
    at.settings.steps = STEP + 10;
    for (int i = 0; i < 2; i++) {
        snprintf(newer[i], sizeof newer[i], "%s/step-%08d.safetensors", at.folder, STEP + 1 + i);
        assert_ok(plm__file_write(newer[i], at.good.bytes, at.good.byte_count / 2));
    }
    for (int whole = 1; whole >= 0; whole--) {
        put(&at, at.good.bytes, at.good.byte_count - (whole ? 0 : 1));
        assert_int_equal(plm__checkpoint_check(at.folder, &at.settings, &at.text),
                         PLM_ERROR_FORMAT);
        plm_error_get(&error);
        assert_non_null(strstr(error.message, newer[1])); /* the newest, of which it is said */
        assert_int_equal(strstr(error.message, at.path) != NULL, whole);
        assert_int_equal(strstr(error.message, "no older checkpoint is whole") != NULL, !whole);
    }
    for (int i = 0; i < 2; i++)
        unlink(newer[i]);
    close_bench(&at);
}

static void a_checkpoint_with_bytes_behind_it_is_refused(void **state)
{
    (void)state;
    static bench at;
    open_bench(&at);
    for (size_t more = 1; more <= 9; more++) {
        uint8_t *longer = NULL;
        assert_ok(plm__host_alloc(at.good.byte_count + more, &longer));
        memcpy(longer, at.good.bytes, at.good.byte_count);
        put(&at, longer, at.good.byte_count + more);
        check_refused(&at, PLM_ERROR_FORMAT, "more", more);
        plm__host_free(longer);
    }
    check_unchanged(&at);
    close_bench(&at);
}

/* Every byte of length, names and checksum, and one in seven of the numbers between, changed to
 * another value. */
static void refuse_every_changed_byte(plm_dtype precision)
{
    static bench at;
    uint8_t *damaged = NULL;
    int64_t cases = 0;
    open_bench_of(&at, precision);
    size_t count = at.good.byte_count, header = 8;
    for (int i = 0; i < 8; i++)
        header += (size_t)at.good.bytes[i] << (8 * i);
    assert_true(header > 1000 && header < count - 1000);
    assert_ok(plm__host_alloc(count, &damaged));
    memcpy(damaged, at.good.bytes, count);
    for (size_t i = 0; i < count;) {
        uint32_t drawn = plm__philox_at(SEED, 0, 1, i).word[0];
        damaged[i] ^= (uint8_t)(1 + drawn % 255);
        put(&at, damaged, count);
        check_refused(&at, PLM_ERROR_FORMAT, "byte", i);
        damaged[i] = at.good.bytes[i];
        cases++;
        bool sparse = i >= header && i + 16 < count;
        i += i < 8 || i + 16 >= count ? 1 : sparse ? 7 * SAMPLE : SAMPLE;
    }
    check_unchanged(&at);
    check_good_is_taken(&at);
    print_message("%d bytes of %zu, the header's %zu among them\n", (int)cases, count, header);
    plm__host_free(damaged);
    close_bench(&at);
}

static void a_checkpoint_with_one_byte_changed_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < PRECISION_COUNT; i++)
        refuse_every_changed_byte(precisions[i]);
}

static void a_checkpoint_of_another_run_is_refused(void **state)
{
    (void)state;
    static bench at;
    open_bench(&at);
    const plm_train_settings own = at.settings;
    plm_train_settings others[] = {own, own, own, own, own, own, own, own, own};
    others[0].model.layers = 2;
    others[1].model.width = 16;
    others[2].model.heads = 4;
    others[3].model.context = 7;
    others[4].model.vocab = 12;
    others[5].model.dropout = 0.2f;
    others[6].seed++;
    others[7].batch++;
    others[8].sequence--;
    put(&at, at.good.bytes, at.good.byte_count);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        at.settings = others[i];
        check_refused(&at, PLM_ERROR_ARGUMENT, "settings", i);
    }
    at.settings = own;
    check_unchanged(&at);
    check_good_is_taken(&at);
    close_bench(&at);
}

static void a_checkpoint_of_another_text_is_refused_unless_that_is_wanted(void **state)
{
    (void)state;
    static bench at;
    open_bench(&at);
    put(&at, at.good.bytes, at.good.byte_count);
    at.settings.steps = STEP + 1;
    assert_ok(plm__checkpoint_check(at.folder, &at.settings, &at.text));
    at.text.checksum++;
    check_refused(&at, PLM_ERROR_ARGUMENT, "checksum", 0);
    assert_int_equal(plm__checkpoint_check(at.folder, &at.settings, &at.text), PLM_ERROR_ARGUMENT);
    at.text.checksum--;
    at.text.training_tokens++;
    check_refused(&at, PLM_ERROR_ARGUMENT, "length", 0);
    check_unchanged(&at);
    at.settings.other_text = true;
    assert_ok(plm__checkpoint_check(at.folder, &at.settings, &at.text));
    assert_ok(load(&at));
    close_bench(&at);
}

static void a_checkpoint_that_names_no_text_is_taken(void **state)
{
    (void)state;
    static bench at;
    uint8_t *older = NULL;
    open_bench(&at);
    size_t summed = at.good.byte_count - 4; /* bytes before the checksum */
    assert_ok(plm__host_alloc(at.good.byte_count, &older));
    memcpy(older, at.good.bytes, at.good.byte_count);
    uint8_t *key = memmem(older, summed, "\"text\"", 6);
    assert_non_null(key);
    memcpy(key, "\"note\"", 6);
    uint32_t sum = (uint32_t)crc32_z(0, older, summed);
    for (int i = 0; i < 4; i++)
        older[summed + (size_t)i] = (uint8_t)(sum >> (8 * i));
    put(&at, older, at.good.byte_count);
    at.text.checksum++;
    assert_ok(load(&at));
    plm__host_free(older);
    close_bench(&at);
}

/* ---- through the program ------------------------------------------------------------------- */

/* A text that begins with `word` again and again. */
static void write_text(const char *path, const char *word)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < 100; i++)
        fprintf(file, "%s as she goes, and mind the line\n", word);
    assert_int_equal(fclose(file), 0);
}

static const char usual_model[] = "gpt:layers=1,width=8,heads=2,context=8,vocab=256";

static int train_to(const char *folder, const char *what, const char *options,
                    const char *redirection, char *output)
{
    char arguments[512];
    snprintf(arguments, sizeof arguments,
             "train %s --data %s/text --threads 1 --budget 16MiB --batch 2 --save-every 2 %s", what,
             folder, options);
    return run_program(arguments, redirection, output);
}

static int train(const char *folder, const char *what, const char *options, char *output)
{
    return train_to(folder, what, options, to_error, output);
}

/* Resumes from, and saves into, a folder whose newest checkpoint is not to be had: status 2, one
 * line, and the file as it was. */
static void check_program_refuses(const char *folder, const char *path, const char *what,
                                  const char *options, const char *says)
{
    static char output[OUTPUT_BYTES];
    char line[256];
    plm_file before = {0}, after = {0};
    struct stat about[2];
    assert_ok(plm__file_map(path, &before));
    assert_int_equal(stat(path, &about[0]), 0);
    snprintf(line, sizeof line, "--steps 6 --resume %s/run --out %s/run %s", folder, folder,
             options);
    int status = train(folder, what, line, output);
    const char *end = strchr(output, '\n');
    if (status != 2 || !end || end[1] || strncmp(output, "plimsoll: ", 10) != 0 ||
        !strstr(output, says))
        fail_msg("%s %s: wanted status 2 and one line with '%s', found %d and: %s", what, options,
                 says, status, output);
    assert_ok(plm__file_map(path, &after));
    assert_int_equal(stat(path, &about[1]), 0);
    assert_int_equal(about[0].st_ino, about[1].st_ino); /* not even replaced */
    assert_int_equal(before.byte_count, after.byte_count);
    assert_memory_equal(before.bytes, after.bytes, before.byte_count);
    plm__file_unmap(&before);
    plm__file_unmap(&after);
}

static void the_program_refuses_a_bad_checkpoint_with_status_2_and_one_line(void **state)
{
    (void)state;
    static char output[OUTPUT_BYTES];
    char folder[SCRATCH_BYTES], path[128], older[128], text[80], run[80];
    assert_true(scratch_folder(folder));
    snprintf(text, sizeof text, "%s/text", folder);
    snprintf(run, sizeof run, "%s/run", folder);
    snprintf(path, sizeof path, "%s/step-00000004.safetensors", run);
    snprintf(older, sizeof older, "%s/step-00000002.safetensors", run);
    write_text(text, "steady");
    char options[256];
    snprintf(options, sizeof options, "--steps 4 --out %s", run);
    assert_int_equal(train(folder, usual_model, options, output), 0);

    check_program_refuses(folder, path, usual_model, "--seed 2", "another run");
    check_program_refuses(folder, path, usual_model, "--batch 4", "another run");
    check_program_refuses(folder, path, "gpt:layers=2,width=8,heads=2,context=8,vocab=256", "",
                          "another model");
    check_program_refuses(folder, path, usual_model, "--steps 4", "4 steps already");
    write_text(text, "tacking");
    check_program_refuses(folder, path, usual_model, "", "another text");
    snprintf(options, sizeof options, "--steps 6 --resume %s --out %s/on", run, folder);
    assert_int_equal(train_to(folder, usual_model, options, to_output, output), 2);
    assert_string_equal(output, ""); /* not even the bill of what will not run */
    snprintf(options, sizeof options, "--steps 6 --resume %s --out %s/on --other-text", run,
             folder);
    int status = train(folder, usual_model, options, output);
    if (status != 0)
        fail_msg("wanted status 0, found %d and: %s", status, output);
    snprintf(options, sizeof options, "%s/on/step-00000006.safetensors", folder);
    assert_int_equal(unlink(options), 0);
    snprintf(options, sizeof options, "%s/on", folder);
    assert_int_equal(rmdir(options), 0);
    write_text(text, "steady");
    plm_file good = {0};
    assert_ok(plm__file_map(path, &good));
    size_t count = good.byte_count;
    uint8_t *damaged = NULL;
    assert_ok(plm__host_alloc(count, &damaged));
    memcpy(damaged, good.bytes, count);
    plm__file_unmap(&good);
    damaged[count / 2] ^= 1;
    assert_ok(plm__file_write(path, damaged, count));
    check_program_refuses(folder, path, usual_model, "", "checksum");
    assert_ok(plm__file_write(path, damaged, count / 3));
    check_program_refuses(folder, path, usual_model, "", "no whole safetensors file");
    plm__host_free(damaged);

    /* the older one is whole: with the bad one out of the way the run goes on from there */
    assert_int_equal(unlink(path), 0);
    snprintf(options, sizeof options, "--steps 4 --resume %s --out %s", run, run);
    assert_int_equal(train(folder, usual_model, options, output), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(older), 0);
    assert_int_equal(rmdir(run), 0);
    unlink(text);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_cut_at_any_length_is_refused),
        cmocka_unit_test(a_name_is_a_checkpoints_only_as_it_is_written),
        cmocka_unit_test(a_damaged_checkpoint_names_the_older_one_that_is_whole),
        cmocka_unit_test(a_checkpoint_with_bytes_behind_it_is_refused),
        cmocka_unit_test(a_checkpoint_with_one_byte_changed_is_refused),
        cmocka_unit_test(a_checkpoint_of_another_run_is_refused),
        cmocka_unit_test(a_checkpoint_of_another_text_is_refused_unless_that_is_wanted),
        cmocka_unit_test(a_checkpoint_that_names_no_text_is_taken),
        cmocka_unit_test(the_program_refuses_a_bad_checkpoint_with_status_2_and_one_line),
    };
    return run_test_group(tests);
}
