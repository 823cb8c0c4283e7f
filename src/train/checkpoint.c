/* SPDX-License-Identifier: MIT */
/* Saving and loading the state of a training run. */
#include "train/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/number.h"
#include "graph/op.h"
#include "model/family.h"
#include "model/safetensors.h"
#include "run/session.h"

enum { PIECE_BYTES = 1 << 20, NAME_MAX_BYTES = 300 };

/* What of a parameter is saved where the plan holds it, and the end of its name in the file. */
static const struct {
    plm_parameter_part part;
    const char *suffix;
} parts[] = {
    {PLM_PART_VALUE, ""},
    {PLM_PART_MOMENT1, ".moment1"},
    {PLM_PART_MOMENT2, ".moment2"},
};

enum { PART_COUNT = sizeof parts / sizeof *parts };

/* What a checkpoint says of its run; must agree at a resume. */
typedef struct identity {
    char model[192];
    char run[192];
    char text[64];
} identity;

static void tell_identity(const plm_train_settings *s, const plm_corpus_counts *text, identity *who)
{
    plm__model_tell(&s->model, who->model, sizeof who->model);
    plm__print(who->run, sizeof who->run,
               "seed=%" PRIu64 " batch=%" PRId64 " sequence=%" PRId64 " optimizer=%s", s->seed,
               s->batch, s->sequence, plm_optimizer_text(s->optimizer));
    plm__print(who->text, sizeof who->text, "bytes=%" PRId64 " crc32=%08" PRIx32,
               text->training_tokens + text->held_out_tokens, text->checksum);
}

#define LOCK_NAME ".lock"
#define FILE_NAME "step-%08" PRId64 ".safetensors"

static plm_status file_path(const char *folder, int64_t step, char path[4096])
{
    int length = plm__print(path, 4096, "%s/" FILE_NAME, folder, step);
    PLM_FAIL_IF(length < 0 || length >= 4096, PLM_ERROR_IO, "the path '%.60s...' is too long",
                folder);
    return PLM_OK;
}

/* The step of a checkpoint's file name, -1 for any other name, however alike. */
static int64_t step_of(const char *name)
{
    int64_t step;
    char again[64];
    if (sscanf(name, "step-%18" SCNd64, &step) != 1 || step < 0)
        return -1;
    plm__print(again, sizeof again, FILE_NAME, step);
    return strcmp(again, name) == 0 ? step : -1;
}

/* Whether a name is what a killed save leaves. */
static bool is_leftover(const char *name)
{
    return strncmp(name, "step-", 5) == 0 && strstr(name, ".safetensors.tmp-") != NULL;
}

/* A search for the newest step at most `limit`. */
typedef struct newest_search {
    int64_t limit;
    int64_t newest;
} newest_search;

static void look_at(const char *name, void *user)
{
    newest_search *search = user;
    int64_t step = step_of(name);
    if (step <= search->limit && step > search->newest)
        search->newest = step;
}

/* *newest = the newest step at most `limit`, -1 for none. */
static plm_status find_newest(const char *folder, int64_t limit, int64_t *newest)
{
    newest_search search = {.limit = limit, .newest = -1};
    PLM_TRY(plm__folder_each(folder, look_at, &search));
    *newest = search.newest;
    return PLM_OK;
}

plm_status plm__checkpoint_trim(const char *folder, int64_t keep)
{
    int64_t step = INT64_MAX;
    char path[4096];
    for (int64_t i = 0;; i++) {
        PLM_TRY(find_newest(folder, step - 1, &step));
        if (step < 0)
            return PLM_OK;
        PLM_TRY(file_path(folder, step, path));
        if (i >= keep)
            plm__file_remove(path);
    }
}

plm_status plm__checkpoint_drop(const char *folder, int64_t step)
{
    char path[4096];
    PLM_TRY(file_path(folder, step, path));
    plm__file_remove(path);
    return PLM_OK;
}

static void remove_leftover(const char *name, void *user)
{
    char path[4096];
    const char *folder = user;
    if (is_leftover(name) &&
        plm__print(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path)
        plm__file_remove(path);
}

static size_t parameter_bytes(int32_t rank, const int64_t *shape)
{
    size_t bytes = sizeof(float);
    for (int32_t i = 0; i < rank; i++)
        bytes *= (size_t)shape[i];
    return bytes;
}

static plm_status declare_all(plm_safetensors_writer *writer, const plm_session *session)
{
    for (int64_t i = 0; i < plm__session_parameter_count(session); i++) {
        int32_t rank;
        const int64_t *shape;
        const char *name = plm__session_parameter(session, i, &rank, &shape);
        for (int p = 0; p < PART_COUNT; p++) {
            char full[NAME_MAX_BYTES];
            if (!plm__session_has_part(session, i, parts[p].part))
                continue;
            plm__print(full, sizeof full, "%s%s", name, parts[p].suffix);
            PLM_TRY(plm__safetensors_declare(writer, full, PLM_DTYPE_F32, rank, shape));
        }
    }
    return PLM_OK;
}

static plm_status append_all(plm_safetensors_writer *writer, plm_session *session, uint8_t *piece)
{
    for (int64_t i = 0; i < plm__session_parameter_count(session); i++) {
        int32_t rank;
        const int64_t *shape;
        plm__session_parameter(session, i, &rank, &shape);
        size_t whole = parameter_bytes(rank, shape);
        for (int p = 0; p < PART_COUNT; p++) {
            size_t bytes = plm__session_has_part(session, i, parts[p].part) ? whole : 0;
            for (size_t done = 0; done < bytes;) {
                size_t count = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
                PLM_TRY(plm__session_copy_out(session, i, parts[p].part, done, count, piece));
                PLM_TRY(plm__safetensors_append(writer, piece, count));
                done += count;
            }
        }
    }
    return PLM_OK;
}

static void note_all(plm_safetensors_writer *writer, const plm_train_settings *settings,
                     const plm_corpus_counts *text, int64_t step, const plm_session *session)
{
    identity who;
    char counters[160];
    plm_session_counters counted = plm__session_counters(session);
    tell_identity(settings, text, &who);
    plm__print(counters, sizeof counters,
               "step=%" PRId64 " updates=%" PRIu32 " skipped=%" PRIu32 " good=%" PRIu32
               " scale=%.9g",
               step, counted.updates, counted.skipped, counted.good, (double)counted.loss_scale);
    plm__safetensors_note(writer, "model", who.model);
    plm__safetensors_note(writer, "run", who.run);
    plm__safetensors_note(writer, "text", who.text);
    plm__safetensors_note(writer, "counters", counters);
}

static plm_status write_file(const char *path, const plm_train_settings *settings,
                             const plm_corpus_counts *text, int64_t step, plm_session *session)
{
    plm_safetensors_writer *writer = NULL;
    uint8_t *piece = NULL;
    plm_status status;
    PLM_TRY_DONE(plm__host_alloc(PIECE_BYTES, &piece));
    PLM_TRY_DONE(plm__safetensors_begin(path, &writer));
    note_all(writer, settings, text, step, session);
    PLM_TRY_DONE(declare_all(writer, session));
    PLM_TRY_DONE(append_all(writer, session, piece));
    status = plm__safetensors_finish(writer);
    writer = NULL;
done:
    plm__safetensors_abandon(writer);
    plm__host_free(piece);
    return status;
}

static plm_status take_folder(const char *folder, plm_file_lock *lock)
{
    char path[4096], holder[PLM_FILE_HOLDER_TEXT];
    int length = plm__print(path, sizeof path, "%s/" LOCK_NAME, folder);
    PLM_FAIL_IF(length < 0 || length >= (int)sizeof path, PLM_ERROR_IO,
                "the path '%.60s...' is too long", folder);
    plm_status status = plm__file_lock_take(path, holder, lock);
    PLM_FAIL_IF(status == PLM_ERROR_STATE, PLM_ERROR_ARGUMENT,
                "another run (%s) saves into '%s'; name another folder, or wait for that run's end",
                holder[0] ? holder : "unknown", folder);
    return status;
}

plm_status plm__checkpoint_prepare(const char *folder, int64_t step, plm_file_lock *lock)
{
    char path[4096];
    int64_t newest;
    plm_file_writer writer;
    PLM_TRY(plm__folder_make(folder));
    PLM_TRY(take_folder(folder, lock));
    if (lock->is_held) /* what half files lie there now are those of runs that were killed */
        PLM_TRY(plm__folder_each(folder, remove_leftover, (void *)folder));
    PLM_TRY(find_newest(folder, INT64_MAX, &newest));
    PLM_FAIL_IF(newest > step, PLM_ERROR_ARGUMENT,
                "'%s' holds a checkpoint of %" PRId64 " steps, more than the %" PRId64
                " that this run starts from; resume that one or name another folder",
                folder, newest, step);
    PLM_TRY(file_path(folder, step, path));
    PLM_TRY(plm__file_begin(path, &writer));
    plm__file_abandon(&writer);
    return PLM_OK;
}

plm_status plm__checkpoint_save(const char *folder, int64_t keep,
                                const plm_train_settings *settings, const plm_corpus_counts *text,
                                int64_t step, plm_session *session)
{
    char path[4096];
    PLM_TRY(plm__folder_make(folder));
    PLM_TRY(file_path(folder, step, path));
    PLM_TRY(write_file(path, settings, text, step, session));
    return plm__checkpoint_trim(folder, keep);
}

static plm_status check_note(const char *path, const char *what, const char *wanted,
                             const char *found)
{
    PLM_FAIL_IF(!found || strcmp(wanted, found) != 0, PLM_ERROR_ARGUMENT,
                "%s is of another %s: wanted '%s', found '%s'", path, what, wanted,
                found ? found : "nothing");
    return PLM_OK;
}

static const plm_safetensor *find_part(const plm_safetensors *file, const char *name, int part)
{
    char full[NAME_MAX_BYTES];
    plm__print(full, sizeof full, "%s%s", name, parts[part].suffix);
    return plm__safetensors_find(file, full);
}

/* Checks every tensor of the session in a file; `copies`: takes those that were checked into it. */
static plm_status take_tensors(const char *path, const plm_safetensors *file, plm_session *session,
                               bool copies)
{
    for (int64_t i = 0; i < plm__session_parameter_count(session); i++) {
        int32_t rank;
        const int64_t *shape;
        const char *name = plm__session_parameter(session, i, &rank, &shape);
        for (int p = 0; p < PART_COUNT; p++) {
            if (!plm__session_has_part(session, i, parts[p].part))
                continue;
            const plm_safetensor *tensor = find_part(file, name, p);
            if (copies) {
                PLM_TRY(plm__session_copy_in(session, i, parts[p].part, 0, tensor->bytes,
                                             tensor->data));
                continue;
            }
            PLM_FAIL_IF(!tensor || tensor->dtype != PLM_DTYPE_F32 || tensor->rank != rank ||
                            memcmp(tensor->shape, shape, (size_t)rank * sizeof *shape) != 0,
                        PLM_ERROR_FORMAT, "%s has no usable '%s%s'", path, name, parts[p].suffix);
        }
    }
    return PLM_OK;
}

/* Of the text that the checkpoint learnt from; older ones do not name it. */
static plm_status check_text(const char *path, const char *wanted, const char *found)
{
    if (!found || strcmp(wanted, found) == 0)
        return PLM_OK;
    (void)plm_fail(PLM_ERROR_ARGUMENT,
                   "%s has learnt from another text than the one at hand: wanted '%s', found '%s'; "
                   "to go on with this one, say that another text is meant",
                   path, wanted, found);
    return plm__fail_hint(PLM_HINT_OTHER_TEXT);
}

static bool read_counters(const char *text, int64_t *step, plm_session_counters *counters)
{
    int place = 0;
    char *end;
    if (sscanf(text,
               "step=%" SCNd64 " updates=%" SCNu32 " skipped=%" SCNu32 " good=%" SCNu32 " scale=%n",
               step, &counters->updates, &counters->skipped, &counters->good, &place) != 4 ||
        place == 0)
        return false;
    counters->loss_scale = (float)plm__number_read(text + place, &end);
    return end != text + place && counters->loss_scale >= 0 &&
           counters->loss_scale <= PLM_LOSS_SCALE_MAX;
}

static plm_status check_file(const char *path, const plm_safetensors *file,
                             const plm_train_settings *settings, const plm_corpus_counts *text,
                             int64_t step, plm_session_counters *counters)
{
    identity who;
    int64_t saved_step;
    tell_identity(settings, text, &who);
    PLM_TRY(plm__safetensors_verify(file));
    PLM_TRY(check_note(path, "model", who.model, plm__safetensors_metadata(file, "model")));
    PLM_TRY(check_note(path, "run", who.run, plm__safetensors_metadata(file, "run")));
    if (!settings->other_text)
        PLM_TRY(check_text(path, who.text, plm__safetensors_metadata(file, "text")));
    const char *counted = plm__safetensors_metadata(file, "counters");
    PLM_FAIL_IF(!counted || !read_counters(counted, &saved_step, counters) || saved_step != step,
                PLM_ERROR_FORMAT, "%s has no usable counters", path);
    return PLM_OK;
}

/* Opens the newest checkpoint; it is named in `path`, and *file is the caller's. */
static plm_status open_newest(const char *folder, char path[4096], int64_t *step,
                              plm_safetensors **file)
{
    PLM_TRY(find_newest(folder, INT64_MAX, step));
    PLM_FAIL_IF(*step < 0, PLM_ERROR_IO, "no checkpoint lies in '%s'", folder);
    PLM_TRY(file_path(folder, *step, path));
    return plm__safetensors_open(path, file);
}

static bool is_whole(const char *path)
{
    plm_safetensors *file = NULL;
    bool whole = plm__safetensors_open(path, &file) == PLM_OK;
    whole = whole && plm__safetensors_verify(file) == PLM_OK;
    plm__safetensors_close(file);
    return whole;
}

/* Why the checkpoint of `step` is damaged has just been said; the newest whole one is named too. */
static plm_status name_older(const char *folder, int64_t step)
{
    plm_error why;
    plm_error_get(&why);
    for (int64_t older = step;;) {
        char path[4096];
        PLM_TRY(find_newest(folder, older - 1, &older));
        if (older < 0)
            return plm_fail(PLM_ERROR_FORMAT, "%s; no older checkpoint is whole", why.message);
        PLM_TRY(file_path(folder, older, path));
        if (is_whole(path))
            return plm_fail(PLM_ERROR_FORMAT,
                            "%s; the older '%.200s' is whole: remove the damaged file to go on "
                            "from that one",
                            why.message, path);
    }
}

plm_status plm__checkpoint_check(const char *folder, const plm_train_settings *settings,
                                 const plm_corpus_counts *text)
{
    char path[4096];
    int64_t step = -1;
    plm_safetensors *file = NULL;
    plm_session_counters counters;
    plm_status status = open_newest(folder, path, &step, &file);
    if (status == PLM_OK)
        status = check_file(path, file, settings, text, step, &counters);
    plm__safetensors_close(file);
    if (status == PLM_ERROR_FORMAT && step >= 0)
        return name_older(folder, step);
    PLM_TRY(status);
    PLM_FAIL_IF(step >= settings->steps, PLM_ERROR_ARGUMENT,
                "the checkpoint in '%s' has %" PRId64
                " steps already; wanted more than that, found %" PRId64,
                folder, step, settings->steps);
    return PLM_OK;
}

plm_status plm__checkpoint_load(const char *folder, const plm_train_settings *settings,
                                const plm_corpus_counts *text, plm_session *session, int64_t *step)
{
    char path[4096];
    int64_t newest;
    plm_safetensors *file = NULL;
    plm_session_counters counters;
    plm_status status;
    PLM_TRY(open_newest(folder, path, &newest, &file));
    PLM_TRY_DONE(check_file(path, file, settings, text, newest, &counters));
    PLM_TRY_DONE(take_tensors(path, file, session, false));
    PLM_TRY_DONE(take_tensors(path, file, session, true));
    PLM_TRY_DONE(plm__session_set_counters(session, counters));
    *step = newest;
done:
    plm__safetensors_close(file);
    return status;
}
