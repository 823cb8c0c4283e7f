/* SPDX-License-Identifier: MIT */
/*
 * Forecasts: the private folder and the files in it, runs, the verdict on them, and the recordings
 * that stay.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "forecast/carried.h"
#include "forecast/trial.h"

/* A device without an end, to learn what a script would need: no card comes near it. */
static const size_t endless_bytes = (size_t)1 << 43;
static const size_t memory_most_bytes = (size_t)1 << 46; /* what src/phantom takes */

_Static_assert(sizeof((plm_device_profile){0}.name) <= PLM_FORECAST_TARGET_TEXT,
               "the name of every profile fits");

/* ---- the private folder ---- */

static bool is_library(const char *name)
{
    const size_t length = strlen(name);
    return length > 3 && strcmp(name + length - 3, ".so") == 0;
}

static plm_status write_carried(const plm_forecast *forecast)
{
    char name[256], path[PLM_SCRIPT_PATH_TEXT];
    for (const plm_carried *file = plm__forecast_carried; file->name; file++) {
        snprintf(name, sizeof name, "%s/%s", is_library(file->name) ? "lib" : PLM_FORECAST_PYTHON,
                 file->name);
        PLM_TRY(plm__place_path(&forecast->place, name, path));
        PLM_TRY(plm__file_write(path, file->bytes, *file->byte_count));
    }
    return PLM_OK;
}

/* The driver and the watcher of cards are looked up by file name. */
static plm_status link_library(const plm_forecast *forecast)
{
    static const char *const names[] = {"lib/libcuda.so.1", "lib/libnvidia-ml.so.1"};
    char path[PLM_SCRIPT_PATH_TEXT];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        PLM_TRY(plm__place_path(&forecast->place, names[i], path));
        if (symlink(PLM_FORECAST_LIBRARY, path) != 0)
            return plm__file_failed("link", path);
    }
    return PLM_OK;
}

static plm_status fill_place(plm_forecast *forecast)
{
    static const char *const folders[] = {"lib", PLM_FORECAST_PYTHON, "run", "room", "kept"};
    char path[PLM_SCRIPT_PATH_TEXT];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        PLM_TRY(plm__place_path(&forecast->place, folders[i], path));
        PLM_TRY(plm__folder_make(path));
    }
    PLM_TRY(write_carried(forecast));
    return link_library(forecast);
}

static const char *variable(char *const *environment, const char *name)
{
    const size_t length = strlen(name);
    for (; *environment; environment++)
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
            return *environment + length + 1;
    return NULL;
}

/* Adds a cache, unless the working directory is it or lies in it (HF_HOME=/workspace): the script's
 * own files would then be written too. */
static plm_status keep_cache(const plm_forecast *forecast, const char *path, plm_words *kept)
{
    char real[PATH_MAX];
    if (!realpath(path, real) || plm__path_lies_in(forecast->folder, real))
        return PLM_OK;
    return plm__words_push(kept, real);
}

/* Folders that the script may really write: ours, and caches of downloads, which are no work and
 * would be fetched anew for each run. */
static plm_status list_kept(const plm_forecast *forecast, plm_words *kept)
{
    static const char *const caches[] = {"XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "TORCH_HOME"};
    PLM_TRY(plm__words_push(kept, forecast->place.path));
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
        const char *value = variable(forecast->settings->environment, caches[i]);
        if (value && value[0] == '/')
            PLM_TRY(keep_cache(forecast, value, kept));
    }
    const char *home = variable(forecast->settings->environment, "HOME");
    char path[PLM_SCRIPT_PATH_TEXT];
    if (!home || home[0] != '/')
        return PLM_OK;
    const int length = snprintf(path, sizeof path, "%s/.cache", home);
    return length < (int)sizeof path ? keep_cache(forecast, path, kept) : PLM_OK;
}

/* A view that cannot be had is no failure: saving is then caught in Python. */
static plm_status make_view(plm_forecast *forecast)
{
    char room[PLM_SCRIPT_PATH_TEXT];
    plm_words kept = {0};
    plm_status status = plm__place_path(&forecast->place, "room", room);
    if (status == PLM_OK)
        status = list_kept(forecast, &kept);
    if (status == PLM_OK) {
        status = plm__cover_init(&forecast->cover, forecast->folder, room, kept.items);
        if (status == PLM_OK)
            forecast->has_view = plm__cover_works(&forecast->cover);
        if (status == PLM_OK && !forecast->has_view) {
            status = plm__cover_narrow(&forecast->cover);
            forecast->has_view = status == PLM_OK && plm__cover_works(&forecast->cover);
        }
        if (status == PLM_OK && !forecast->has_view)
            plm__cover_fini(&forecast->cover);
        status = status == PLM_ERROR_UNSUPPORTED ? PLM_OK : status;
    }
    plm__words_free(&kept);
    return status;
}

static plm_status find_folder(plm_forecast *forecast)
{
    char path[PATH_MAX];
    if (!getcwd(path, sizeof path))
        return plm__file_failed("find", ".");
    PLM_TRY(plm__host_alloc(strlen(path) + 1, &forecast->folder));
    memcpy(forecast->folder, path, strlen(path) + 1);
    return PLM_OK;
}

/* ---- how many devices the script sees ---- */

/* The number behind "--nproc-per-node 2", "--num_processes=2" in a launcher's words, which stand
 * before the script's own file; 0. */
static int64_t launched_ranks(const plm_words *command)
{
    static const char *const names[] = {"--nproc-per-node", "--nproc_per_node", "--num_processes",
                                        "--num-processes"};
    const int64_t count = plm__script_word(command);
    for (int64_t i = 1; i < count; i++) {
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            const char *word = command->items[i];
            const size_t length = strlen(names[k]);
            if (strncmp(word, names[k], length) != 0)
                continue;
            if (word[length] == '=')
                return strtol(word + length + 1, NULL, 10);
            if (!word[length])
                return strtol(command->items[i + 1], NULL, 10);
        }
    }
    return 0;
}

static plm_status count_devices(plm_forecast *forecast)
{
    plm_words command = {0};
    plm_status status = plm__words_add(&command, forecast->settings->command);
    const int64_t launched = status == PLM_OK ? launched_ranks(&command) : 0;
    plm__words_free(&command);
    PLM_TRY(status);
    PLM_FAIL_IF(forecast->settings->ranks > 1 && launched > 0, PLM_ERROR_ARGUMENT,
                "the command starts %lld processes by itself; ask for no ranks beside these",
                (long long)launched);
    const int64_t wanted = launched > 0 ? launched : forecast->settings->ranks;
    PLM_FAIL_IF(wanted < 1 || wanted > PLM_FORECAST_RANKS_MAX, PLM_ERROR_ARGUMENT,
                "wanted 1 to %d ranks, found %lld", PLM_FORECAST_RANKS_MAX, (long long)wanted);
    forecast->devices = wanted;
    return PLM_OK;
}

/* ---- beginning and end ---- */

static plm_status open_all(plm_forecast *forecast)
{
    PLM_FAIL_IF(!plm__forecast_carried[0].name || !is_library(plm__forecast_carried[0].name),
                PLM_ERROR_UNSUPPORTED,
                "a forecast runs on Linux on x86-64 alone: this program carries no library that "
                "stands in for CUDA");
    PLM_TRY(count_devices(forecast));
    PLM_TRY(find_folder(forecast));
    PLM_TRY(
        plm__place_create(variable(forecast->settings->environment, "TMPDIR"), &forecast->place));
    PLM_TRY(fill_place(forecast));
    return forecast->settings->no_view ? PLM_OK : make_view(forecast);
}

plm_status plm_forecast_open(const plm_forecast_settings *settings, plm_forecast **forecast)
{
    plm_forecast *made = NULL;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    made->settings = settings;
    plm_status status = open_all(made);
    if (status == PLM_OK)
        *forecast = made;
    else
        plm_forecast_close(made);
    return status;
}

void plm_forecast_close(plm_forecast *forecast)
{
    if (!forecast)
        return;
    if (forecast->has_view)
        plm__cover_fini(&forecast->cover);
    plm__place_remove(&forecast->place);
    plm__host_free(forecast->folder);
    plm__host_free(forecast);
}

bool plm_forecast_has_view(const plm_forecast *forecast)
{
    return forecast->has_view;
}

/* ---- the verdict ---- */

static size_t context_of(const plm_gpu *gpu, const plm_forecast_rank *rank)
{
    return (size_t)(rank->cudnn ? gpu->context_cudnn_bytes : gpu->context_bytes);
}

/* The rank that needs most decides: its peak and its context against the device. */
static void judge(plm_forecast_result *result)
{
    size_t most = 0;
    for (int64_t i = 0; i < result->rank_count; i++) {
        const size_t needed =
            result->ranks[i].reserved_bytes + context_of(&result->gpu, &result->ranks[i]);
        if (needed > most) {
            most = needed;
            result->largest = i;
            result->context_bytes = context_of(&result->gpu, &result->ranks[i]);
        }
    }
    result->margin_bytes = (int64_t)result->capacity_bytes - (int64_t)most;
    result->fits = !result->out_of_memory && result->margin_bytes >= 0;
}

/* The rank that met the end of memory; NULL. */
static const plm_forecast_rank *find_ran_out(const plm_forecast_result *result)
{
    for (int64_t i = 0; i < result->rank_count; i++)
        if (result->ranks[i].ended == PLM_FORECAST_OUT_OF_MEMORY)
            return &result->ranks[i];
    return NULL;
}

/* ---- recordings that stay ---- */

/* {"total": ..., ...}, the record that `plimsoll snapshot` looks for beside a recording. Where
 * memory ran out the peaks are of another run than the recording. */
static plm_status write_record(const plm_forecast_result *result, const plm_forecast_rank *rank,
                               const char *path)
{
    plm_json_writer json = {0};
    char *line = NULL;
    plm__json_begin_object(&json, NULL);
    plm__json_bytes(&json, "total", result->capacity_bytes);
    if (!result->out_of_memory) {
        plm__json_bytes(&json, "allocated_peak", rank->allocated_bytes);
        plm__json_bytes(&json, "reserved_peak", rank->reserved_bytes);
    }
    plm__json_end(&json);
    PLM_TRY(plm__json_finish(&json, &line));
    plm_status status = plm__file_write(path, line, strlen(line));
    plm__host_free(line);
    return status;
}

static plm_status copy_file(const char *from, const char *to)
{
    plm_file file;
    PLM_TRY(plm__file_map(from, &file));
    plm_status status = plm__file_write(to, file.bytes, file.byte_count);
    plm__file_unmap(&file);
    return status;
}

/* A profile's name as part of a file's: nothing in it may lead elsewhere. */
static void file_name(const char *target, char name[PLM_FORECAST_TARGET_TEXT])
{
    size_t i = 0;
    for (; target[i]; i++) {
        const bool is_plain = isalnum((unsigned char)target[i]) || target[i] == '_' ||
                              (target[i] == '.' && i > 0) || target[i] == '-';
        name[i] = target[i];
        if (!is_plain)
            name[i] = '-';
    }
    name[i] = '\0';
}

/* "FOLDER/TARGET-rankN.ENDING" */
static plm_status recording_path(const char *folder, const plm_forecast_result *result,
                                 int64_t rank, const char *ending, char path[PATH_MAX])
{
    char name[PLM_FORECAST_TARGET_TEXT];
    file_name(result->target, name);
    int length =
        snprintf(path, PATH_MAX, "%s/%s-rank%lld.%s", folder, name, (long long)rank, ending);
    PLM_FAIL_IF(length < 0 || length >= PATH_MAX, PLM_ERROR_IO,
                "cannot write into '%.60s...': the path is too long", folder);
    return PLM_OK;
}

/* Copies a rank's recording into a folder, where it is then. */
static plm_status copy_recording(const char *folder, const plm_forecast_result *result,
                                 plm_forecast_rank *rank)
{
    char path[PATH_MAX], *kept = NULL;
    PLM_TRY(recording_path(folder, result, rank->rank, "pickle", path));
    PLM_TRY(copy_file(rank->recording, path));
    PLM_TRY(plm__host_alloc(strlen(path) + 1, &kept));
    memcpy(kept, path, strlen(path) + 1);
    plm__host_free(rank->recording);
    rank->recording = kept;
    return PLM_OK;
}

/* Out of the way of the next run. */
static plm_status set_aside(const plm_forecast *forecast, plm_forecast_result *result)
{
    char folder[PLM_SCRIPT_PATH_TEXT];
    PLM_TRY(plm__place_path(&forecast->place, "kept", folder));
    for (int64_t i = 0; i < result->rank_count; i++)
        if (result->ranks[i].recording)
            PLM_TRY(copy_recording(folder, result, &result->ranks[i]));
    return PLM_OK;
}

plm_status plm_forecast_keep(plm_forecast_result *result, const char *folder)
{
    char path[PATH_MAX];
    PLM_TRY(plm__folder_make(folder));
    for (int64_t i = 0; i < result->rank_count; i++) {
        plm_forecast_rank *rank = &result->ranks[i];
        if (!rank->recording)
            continue;
        PLM_TRY(copy_recording(folder, result, rank));
        PLM_TRY(recording_path(folder, result, rank->rank, "json", path));
        PLM_TRY(write_record(result, rank, path));
    }
    return PLM_OK;
}

/* ---- runs ---- */

/* Takes the recordings over from the run that ran out: they show the moment. */
static void take_recordings(plm_forecast_result *from, plm_forecast_result *to)
{
    for (int64_t i = 0; i < to->rank_count; i++) {
        plm__host_free(to->ranks[i].recording);
        to->ranks[i].recording = NULL;
        for (int64_t k = 0; k < from->rank_count; k++) {
            if (from->ranks[k].rank != to->ranks[i].rank)
                continue;
            to->ranks[i].recording = from->ranks[k].recording;
            from->ranks[k].recording = NULL;
        }
    }
}

/* The same script on a device without an end. What it says goes before what is known; a script
 * that fails there too leaves things as they are. */
static plm_status run_endless(plm_forecast *forecast, const plm_words *command,
                              const plm_device_profile *device, plm_forecast_result *result)
{
    plm_forecast_result whole = *result;
    whole.ranks = NULL;
    whole.unknown = whole.written = NULL;
    whole.rank_count = whole.unknown_count = whole.written_count = 0;
    whole.written_bytes = 0;
    plm_status status = plm__trial_run(forecast, command, device, endless_bytes, &whole);
    if (status == PLM_OK && !find_ran_out(&whole)) {
        take_recordings(result, &whole);
        plm__trial_forget(result);
        *result = whole;
        result->needs_known = true;
        return PLM_OK;
    }
    result->seconds = whole.seconds;
    plm__trial_forget(&whole);
    return status == PLM_ERROR_ARGUMENT ? PLM_OK : status;
}

static plm_status run_judged(plm_forecast *forecast, const plm_words *command,
                             const plm_device_profile *device, bool needs,
                             plm_forecast_result *result)
{
    PLM_TRY(plm__trial_run(forecast, command, device, result->capacity_bytes, result));
    const plm_forecast_rank *ran_out = find_ran_out(result);
    result->out_of_memory = ran_out != NULL;
    if (ran_out && ran_out->line)
        snprintf(result->line, sizeof result->line, "%s", ran_out->line);
    result->needs_known = !result->out_of_memory;
    judge(result);
    if (needs || result->fits) /* of a search, trials that do not fit leave nothing */
        PLM_TRY(set_aside(forecast, result));
    if (result->out_of_memory && needs) {
        PLM_TRY(run_endless(forecast, command, device, result));
        judge(result);
    }
    return PLM_OK;
}

static plm_status check_device(const plm_device_profile *device, size_t capacity)
{
    PLM_FAIL_IF(
        device->gpu.capability == 0, PLM_ERROR_ARGUMENT,
        "the device profile '%s' lacks \"gpu\", what sizes depend on; data/devices/h200.json "
        "shows its fields",
        device->name);
    if (capacity >= 1 && capacity <= memory_most_bytes)
        return PLM_OK;
    (void)plm_fail(PLM_ERROR_ARGUMENT, "wanted a device of 1 to %zu bytes, found %zu",
                   memory_most_bytes, capacity);
    return plm__fail_hint(PLM_HINT_CAPACITY);
}

plm_status plm__forecast_words(plm_forecast *forecast, const plm_words *command,
                               const plm_device_profile *device, bool needs,
                               plm_forecast_result **result)
{
    plm_forecast_result *made = NULL;
    const size_t stated = forecast->settings->capacity_bytes;
    const size_t capacity = stated ? stated : device->memory_bytes;
    PLM_TRY(check_device(device, capacity));
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    snprintf(made->target, sizeof made->target, "%s", device->name);
    made->gpu = device->gpu;
    made->capacity_bytes = capacity;
    plm_status status = run_judged(forecast, command, device, needs, made);
    if (status == PLM_OK)
        *result = made;
    else
        plm_forecast_result_destroy(made);
    return status;
}

plm_status plm_forecast_run(plm_forecast *forecast, const plm_device_profile *device,
                            plm_forecast_result **result)
{
    plm_words command = {0};
    plm_status status = plm__words_add(&command, forecast->settings->command);
    if (status == PLM_OK)
        status = plm__forecast_words(forecast, &command, device, true, result);
    plm__words_free(&command);
    return status;
}

void plm_forecast_result_destroy(plm_forecast_result *result)
{
    if (!result)
        return;
    plm__trial_forget(result);
    plm__host_free(result);
}
