/* SPDX-License-Identifier: MIT */
/* One run of the script: the files that tell it what to be, the run, and what the ranks left. */
#include "forecast/trial.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"

enum { DRIVER = 13000, LAST_WORDS = 200, UNKNOWN_MAX = 64, UNKNOWN_LINE_TEXT = 512 };

/* ---- what the run is told ---- */

static plm_status write_settings(const plm_forecast *forecast)
{
    char path[PLM_SCRIPT_PATH_TEXT], out[PLM_SCRIPT_PATH_TEXT];
    plm_json_writer json = {0};
    char *line = NULL;
    PLM_TRY(plm__place_path(&forecast->place, "run/settings.json", path));
    PLM_TRY(plm__place_path(&forecast->place, "run", out));
    plm__json_begin_object(&json, NULL);
    plm__json_int(&json, "steps", forecast->settings->steps);
    plm__json_text(&json, "out", out);
    plm__json_text(&json, "harmless", forecast->has_view ? "overlay" : "hooks");
    plm__json_bool(&json, "stop", true);
    plm__json_end(&json);
    PLM_TRY(plm__json_finish(&json, &line));
    plm_status status = plm__file_write(path, line, strlen(line));
    plm__host_free(line);
    return status;
}

/* The device as src/phantom reads it: one key and its value a line. */
static plm_status write_device(const plm_forecast *forecast, const plm_device_profile *device,
                               size_t memory_bytes)
{
    char path[PLM_SCRIPT_PATH_TEXT], log[PLM_SCRIPT_PATH_TEXT];
    const plm_gpu *gpu = &device->gpu;
    PLM_TRY(plm__place_path(&forecast->place, "run/device.txt", path));
    PLM_TRY(plm__place_path(&forecast->place, "run/asked.txt", log));
    const struct {
        const char *key;
        int64_t value;
    } rows[] = {
        {"memory_bytes", (int64_t)memory_bytes},
        {"context_bytes", gpu->context_bytes},
        {"multiprocessors", gpu->multiprocessors},
        {"capability", gpu->capability},
        {"threads_per_multiprocessor", gpu->threads_per_multiprocessor},
        {"blocks_per_multiprocessor", gpu->blocks_per_multiprocessor},
        {"shared_bytes_per_multiprocessor", gpu->shared_bytes_per_multiprocessor},
        {"shared_bytes_per_block_optin", gpu->shared_bytes_per_block_optin},
        {"registers_per_multiprocessor", gpu->registers_per_multiprocessor},
        {"l2_bytes", gpu->l2_bytes},
        {"clock_khz", gpu->clock_khz},
        {"memory_clock_khz", gpu->memory_clock_khz},
        {"bus_bits", gpu->bus_bits},
        {"devices", forecast->devices},
        {"driver", DRIVER},
    };
    plm_text text = {0};
    plm__text_add(&text, "name %s\n", gpu->name);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        plm__text_add(&text, "%s %lld\n", rows[i].key, (long long)rows[i].value);
    plm__text_add(&text, "log %s\n", log);
    plm_status status = plm__text_status(&text);
    if (status == PLM_OK)
        status = plm__file_write(path, text.items, (size_t)text.count);
    plm__text_fini(&text);
    return status;
}

static plm_status empty_folder(const plm_forecast *forecast, const char *name)
{
    char path[PLM_SCRIPT_PATH_TEXT];
    PLM_TRY(plm__place_path(&forecast->place, name, path));
    plm__tree_remove(path);
    return plm__folder_make(path);
}

/* A port that nobody listens on now, for the ranks to meet at. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0)
        return 29500;
    if (bind(descriptor, (struct sockaddr *)&address, length) != 0 ||
        getsockname(descriptor, (struct sockaddr *)&address, &length) != 0)
        address.sin_port = htons(29500);
    close(descriptor);
    return ntohs(address.sin_port);
}

/* ---- the run ---- */

/* Every rank's environment, then the run of all. */
static plm_status run_ranks(plm_forecast *forecast, const plm_words *command, plm_script_end *end)
{
    const plm_forecast_settings *settings = forecast->settings;
    const int64_t count = settings->ranks;
    plm_words environments[PLM_FORECAST_RANKS_MAX] = {{0}};
    plm_script scripts[PLM_FORECAST_RANKS_MAX];
    const plm_script_options options = {.cover = forecast->has_view ? &forecast->cover : NULL,
                                        .limit_seconds = settings->limit_seconds,
                                        .stop = settings->stop,
                                        .echo = settings->echo};
    const int port = count > 1 ? free_port() : 0;
    plm_status status = PLM_OK;
    for (int64_t i = 0; i < count && status == PLM_OK; i++) {
        status = plm__trial_environment(forecast, count > 1 ? i : -1, port, &environments[i]);
        scripts[i] = (plm_script){.command = command->items, .environment = environments[i].items};
    }
    if (status == PLM_OK)
        status = plm__scripts_run(scripts, (int)count, &options, end);
    for (int64_t i = 0; i < count; i++)
        plm__words_free(&environments[i]);
    return status;
}

/* ---- what the ranks left ---- */

/* The number in "rank12.json", -1 for another name. */
static int64_t rank_number(const char *name)
{
    char *end;
    if (strncmp(name, "rank", 4) != 0 || name[4] < '0' || name[4] > '9')
        return -1;
    const long number = strtol(name + 4, &end, 10);
    return strcmp(end, ".json") == 0 && number < PLM_FORECAST_RANKS_MAX ? number : -1;
}

static void find_rank(const char *name, void *user)
{
    const int64_t number = rank_number(name);
    if (number >= 0)
        ((bool *)user)[number] = true;
}

static plm_status keep_text(const char *text, char **copy)
{
    PLM_TRY(plm__host_alloc(strlen(text) + 1, copy));
    memcpy(*copy, text, strlen(text) + 1);
    return PLM_OK;
}

/* The snapshot beside a rank's file, NULL where there is none. */
static plm_status find_recording(const plm_forecast *forecast, int64_t number,
                                 plm_forecast_rank *rank)
{
    char name[64], path[PLM_SCRIPT_PATH_TEXT];
    snprintf(name, sizeof name, "run/rank%lld.pickle", (long long)number);
    PLM_TRY(plm__place_path(&forecast->place, name, path));
    return access(path, R_OK) == 0 ? keep_text(path, &rank->recording) : PLM_OK;
}

static plm_status read_rank(const plm_forecast *forecast, int64_t number, plm_forecast_rank *rank)
{
    char name[64], path[PLM_SCRIPT_PATH_TEXT];
    plm_file file;
    snprintf(name, sizeof name, "run/rank%lld.json", (long long)number);
    PLM_TRY(plm__place_path(&forecast->place, name, path));
    PLM_TRY(plm__file_map(path, &file));
    snprintf(name, sizeof name, "what rank %lld left", (long long)number);
    plm_status status = plm_forecast_rank_read(name, file.bytes, file.byte_count, rank);
    plm__file_unmap(&file);
    PLM_TRY(status);
    return find_recording(forecast, number, rank);
}

static plm_status read_ranks(const plm_forecast *forecast, plm_forecast_result *result)
{
    char path[PLM_SCRIPT_PATH_TEXT];
    bool there[PLM_FORECAST_RANKS_MAX] = {false};
    PLM_TRY(plm__place_path(&forecast->place, "run", path));
    PLM_TRY(plm__folder_each(path, find_rank, there));
    PLM_TRY(plm__host_alloc(PLM_FORECAST_RANKS_MAX * sizeof *result->ranks, &result->ranks));
    for (int64_t i = 0; i < PLM_FORECAST_RANKS_MAX; i++)
        if (there[i])
            PLM_TRY(read_rank(forecast, i, &result->ranks[result->rank_count++]));
    return PLM_OK;
}

/* The log's lines "size NAME": functions that were asked for a size that nobody knows here. */
static plm_status read_unknown(const plm_forecast *forecast, plm_forecast_result *result)
{
    char path[PLM_SCRIPT_PATH_TEXT], line[UNKNOWN_LINE_TEXT];
    PLM_TRY(plm__place_path(&forecast->place, "run/asked.txt", path));
    struct stat about; /* a pipe in its place would be waited for */
    FILE *file = lstat(path, &about) == 0 && S_ISREG(about.st_mode) ? fopen(path, "r") : NULL;
    if (!file)
        return PLM_OK;
    plm_status status = plm__host_alloc(UNKNOWN_MAX * sizeof *result->unknown, &result->unknown);
    while (status == PLM_OK && result->unknown_count < UNKNOWN_MAX &&
           fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "size ", 5) == 0)
            status = keep_text(line + 5, &result->unknown[result->unknown_count++]);
    }
    fclose(file);
    return status;
}

typedef struct write_list {
    const char *folder; /* the working directory, which names of ranks count from */
    plm_forecast_result *result;
    plm_status status;
} write_list;

/* Whether a rank has told of this file already, by its path or by its name from the folder on. */
static bool is_told(const write_list *list, const char *path)
{
    const size_t length = strlen(list->folder);
    const bool is_inside = strncmp(path, list->folder, length) == 0 && path[length] == '/';
    for (int64_t i = 0; i < list->result->rank_count; i++) {
        const plm_forecast_rank *rank = &list->result->ranks[i];
        for (int64_t k = 0; k < rank->skipped_count; k++)
            if (strcmp(rank->skipped[k], path) == 0 ||
                (is_inside && strcmp(rank->skipped[k], path + length + 1) == 0))
                return true;
    }
    return false;
}

/* What Python and compilers leave beside any program is nobody's work. */
static void note_write(const char *path, size_t bytes, void *user)
{
    write_list *list = user;
    plm_forecast_result *result = list->result;
    if (list->status != PLM_OK || strstr(path, "/__pycache__/"))
        return;
    result->written_bytes += bytes;
    if (is_told(list, path))
        return;
    if (result->written_count < PLM_FORECAST_WRITES_MAX)
        list->status = keep_text(path, &result->written[result->written_count]);
    result->written_count++;
}

static plm_status read_written(const plm_forecast *forecast, int memory,
                               plm_forecast_result *result)
{
    write_list list = {.folder = forecast->folder, .result = result};
    if (!forecast->has_view)
        return PLM_OK;
    PLM_TRY(plm__host_alloc(PLM_FORECAST_WRITES_MAX * sizeof *result->written, &result->written));
    plm__cover_written(&forecast->cover, memory, note_write, &list);
    return list.status;
}

/* ---- what went wrong ---- */

/* The last line that the stand-in or the Python files said, else the last line at all. */
static void last_words(const plm_script_end *end, char words[LAST_WORDS])
{
    static const char ours[] = "plimsoll forecast: ";
    const char *line = end->tail, *found = "", *said = NULL;
    for (const char *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        if (strspn(line, " \t\r") < (size_t)(next - line))
            found = line;
        if (strncmp(line, ours, strlen(ours)) == 0)
            said = line + strlen(ours);
        next += *next == '\n';
    }
    found = said ? said : found;
    snprintf(words, LAST_WORDS, "%.*s", (int)strcspn(found, "\r\n"), found);
}

static plm_status fail_without_answer(const plm_forecast *forecast, const plm_script_end *end)
{
    char words[LAST_WORDS];
    last_words(end, words);
    PLM_FAIL_IF(end->timed_out, PLM_ERROR_ARGUMENT,
                "wanted %lld steps within %g s, found the script still running; try one step or a "
                "longer limit",
                (long long)forecast->settings->steps, forecast->settings->limit_seconds);
    PLM_FAIL_IF(end->exit_status, PLM_ERROR_ARGUMENT,
                "the script ended with status %d and left no answer: %s", end->exit_status,
                *words ? words : "it said nothing");
    return plm_fail(PLM_ERROR_ARGUMENT,
                    "the script ended and never used PyTorch on a GPU%s%s; is cuda its device? "
                    "(python -I and -E hide the forecast's files)",
                    *words ? ": " : "", words);
}

static plm_status check_rank(const plm_forecast_result *result, const plm_forecast_rank *rank)
{
    char where[LAST_WORDS] = "";
    if (rank->ended != PLM_FORECAST_ERROR && rank->ended != PLM_FORECAST_REFUSED)
        return PLM_OK;
    if (rank->line)
        snprintf(where, sizeof where, " at %.150s", rank->line);
    PLM_FAIL_IF(result->unknown_count > 0, PLM_ERROR_ARGUMENT,
                "%.200s asks the GPU for a size that is not known without one%s; leave that call "
                "out, or record the script on a card",
                result->unknown[0], where);
    return plm_fail(PLM_ERROR_ARGUMENT, "%s%s: %.300s",
                    rank->ended == PLM_FORECAST_ERROR ? "the script failed"
                                                      : "the script cannot be forecast",
                    where, rank->error ? rank->error : "no reason was left");
}

static plm_status check_ranks(const plm_forecast *forecast, const plm_script_end *end,
                              const plm_forecast_result *result)
{
    PLM_FAIL_IF(end->stopped, PLM_ERROR_STATE, "the forecast was stopped");
    if (result->rank_count == 0)
        return fail_without_answer(forecast, end);
    /* A rank that met the end of memory takes the others with it: these lose the one they spoke to,
     * which is no failure of theirs. */
    for (int64_t i = 0; i < result->rank_count; i++)
        if (result->ranks[i].ended == PLM_FORECAST_OUT_OF_MEMORY)
            return PLM_OK;
    for (int64_t i = 0; i < result->rank_count; i++)
        PLM_TRY(check_rank(result, &result->ranks[i]));
    PLM_FAIL_IF(result->rank_count < result->ranks[0].ranks, PLM_ERROR_ARGUMENT,
                "wanted an answer from each of %lld ranks, found %lld",
                (long long)result->ranks[0].ranks, (long long)result->rank_count);
    return PLM_OK;
}

/* The status of a script that left its answer by itself and failed without an error that Python
 * saw, as by sys.exit(3); 0 where it ran out of memory, which is told. */
static int own_status(const plm_script_end *end, const plm_forecast_result *result)
{
    bool by_itself = false;
    for (int64_t i = 0; i < result->rank_count; i++) {
        if (result->ranks[i].ended == PLM_FORECAST_OUT_OF_MEMORY)
            return 0;
        by_itself = by_itself || result->ranks[i].ended == PLM_FORECAST_SCRIPT;
    }
    return by_itself ? end->exit_status : 0;
}

void plm__trial_forget(plm_forecast_result *result)
{
    for (int64_t i = 0; i < result->rank_count; i++)
        plm_forecast_rank_fini(&result->ranks[i]);
    for (int64_t i = 0; i < result->unknown_count; i++)
        plm__host_free(result->unknown[i]);
    for (int64_t i = 0; i < result->written_count && i < PLM_FORECAST_WRITES_MAX; i++)
        plm__host_free(result->written[i]);
    plm__host_free(result->ranks);
    plm__host_free(result->unknown);
    plm__host_free(result->written);
    result->ranks = NULL;
    result->unknown = result->written = NULL;
    result->rank_count = result->unknown_count = result->written_count = 0;
    result->written_bytes = 0;
}

plm_status plm__trial_run(plm_forecast *forecast, const plm_words *command,
                          const plm_device_profile *device, size_t memory_bytes,
                          plm_forecast_result *result)
{
    plm_script_end end = {.memory = -1};
    const int64_t begun = plm__clock_ns();
    PLM_TRY(empty_folder(forecast, "run"));
    PLM_TRY(empty_folder(forecast, "room"));
    PLM_TRY(write_settings(forecast));
    PLM_TRY(write_device(forecast, device, memory_bytes));
    PLM_TRY(run_ranks(forecast, command, &end));
    plm_status status = read_ranks(forecast, result);
    if (status == PLM_OK) /* behind the ranks, which may have told of a file */
        status = read_written(forecast, end.memory, result);
    if (end.memory >= 0)
        close(end.memory);
    PLM_TRY(status);
    PLM_TRY(read_unknown(forecast, result));
    result->seconds += 1e-9 * (double)(plm__clock_ns() - begun);
    result->script_status = own_status(&end, result);
    return check_ranks(forecast, &end, result);
}
