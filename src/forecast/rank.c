/* SPDX-License-Identifier: MIT */
/*
 * What one rank left: the JSON that the files of python/forecast write at a script's end. Keys that
 * are not known are passed over, so that both sides may grow; those that are known have one kind.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "plimsoll/forecast.h"

enum { STEPS_MAX = 1 << 20, NOTES_MAX = 1 << 16, RANKS_MOST = 1 << 20 };

static const char *const end_words[] = {
#define END_ROW(name, word) word,
    PLM_FORECAST_END_MAP(END_ROW)
#undef END_ROW
};

const char *plm_forecast_end_text(plm_forecast_end end)
{
    return (unsigned)end < PLM_FORECAST_END_COUNT ? end_words[end] : "unknown";
}

/* A text that may be null or missing. */
static plm_status read_text(const char *what, const json_t *object, const char *key,
                            const char **text)
{
    const json_t *value = json_object_get(object, key);
    PLM_FAIL_IF(value && !json_is_null(value) && !json_is_string(value), PLM_ERROR_FORMAT,
                "%s: wanted %s as a text or null", what, key);
    *text = json_string_value(value);
    return PLM_OK;
}

static plm_status read_needed_text(const char *what, const json_t *object, const char *key,
                                   const char **text)
{
    PLM_TRY(read_text(what, object, key, text));
    PLM_FAIL_IF(!*text, PLM_ERROR_FORMAT, "%s: wanted the text %s", what, key);
    return PLM_OK;
}

static plm_status read_whole(const char *what, const json_t *object, const char *key, int64_t most,
                             int64_t *figure)
{
    const json_t *value = json_object_get(object, key);
    PLM_FAIL_IF(!json_is_integer(value) || json_integer_value(value) < 0 ||
                    json_integer_value(value) > most,
                PLM_ERROR_FORMAT, "%s: wanted %s as a whole number of 0 to %lld", what, key,
                (long long)most);
    *figure = json_integer_value(value);
    return PLM_OK;
}

static plm_status read_bytes(const char *what, const json_t *object, const char *key, size_t *bytes)
{
    int64_t figure;
    PLM_TRY(read_whole(what, object, key, INT64_MAX / 4, &figure));
    *bytes = (size_t)figure;
    return PLM_OK;
}

/* The two figures that every instant has. */
static plm_status read_figures(const char *what, const json_t *object, size_t *allocated,
                               size_t *reserved)
{
    PLM_TRY(read_bytes(what, object, "allocated_bytes", allocated));
    return read_bytes(what, object, "reserved_bytes", reserved);
}

static plm_status read_step(const char *what, const json_t *object, plm_forecast_step *step)
{
    const json_t *seconds = json_object_get(object, "seconds");
    PLM_TRY(read_whole(what, object, "step", INT32_MAX, &step->step));
    PLM_FAIL_IF(seconds && !json_is_number(seconds), PLM_ERROR_FORMAT,
                "%s: wanted seconds as a number", what);
    step->seconds = json_number_value(seconds);
    return read_figures(what, object, &step->allocated_bytes, &step->reserved_bytes);
}

/* An array that may be missing; *count = its length. */
static plm_status read_array(const char *what, const json_t *root, const char *key, int64_t most,
                             const json_t **array, int64_t *count)
{
    *array = json_object_get(root, key);
    PLM_FAIL_IF(*array && !json_is_null(*array) && !json_is_array(*array), PLM_ERROR_FORMAT,
                "%s: wanted %s as a list", what, key);
    const size_t length = json_array_size(*array);
    PLM_FAIL_IF(length > (size_t)most, PLM_ERROR_FORMAT, "%s: wanted at most %lld %s, found %zu",
                what, (long long)most, key, length);
    *count = (int64_t)length;
    return PLM_OK;
}

static plm_status read_steps(const char *what, const json_t *root, const char *key,
                             plm_forecast_step **steps, int64_t *count)
{
    const json_t *array;
    int64_t length;
    PLM_TRY(read_array(what, root, key, STEPS_MAX, &array, &length));
    PLM_TRY(plm__host_alloc((size_t)length * sizeof **steps, steps));
    for (int64_t i = 0; i < length; i++)
        PLM_TRY(read_step(what, json_array_get(array, (size_t)i), &(*steps)[i]));
    *count = length;
    return PLM_OK;
}

static plm_status read_skipped(const char *what, const json_t *root, plm_forecast_rank *rank)
{
    const json_t *array;
    int64_t length;
    PLM_TRY(read_array(what, root, "skipped_writes", NOTES_MAX, &array, &length));
    PLM_TRY(plm__host_alloc((size_t)length * sizeof *rank->skipped, &rank->skipped));
    for (int64_t i = 0; i < length; i++) {
        rank->skipped[i] = json_string_value(json_array_get(array, (size_t)i));
        PLM_FAIL_IF(!rank->skipped[i], PLM_ERROR_FORMAT, "%s: wanted skipped_writes as texts",
                    what);
    }
    rank->skipped_count = length;
    return PLM_OK;
}

static plm_status read_warnings(const char *what, const json_t *root, plm_forecast_rank *rank)
{
    const json_t *array;
    int64_t length;
    PLM_TRY(read_array(what, root, "warnings", NOTES_MAX, &array, &length));
    PLM_TRY(plm__host_alloc((size_t)length * sizeof *rank->warnings, &rank->warnings));
    for (int64_t i = 0; i < length; i++) {
        const json_t *item = json_array_get(array, (size_t)i);
        PLM_TRY(read_needed_text(what, item, "what", &rank->warnings[i].what));
        PLM_TRY(read_text(what, item, "line", &rank->warnings[i].line));
    }
    rank->warning_count = length;
    return PLM_OK;
}

static plm_status read_range(const char *what, const json_t *item, plm_forecast_range *range)
{
    PLM_TRY(read_needed_text(what, item, "what", &range->what));
    PLM_TRY(read_bytes(what, item, "low_allocated_bytes", &range->low_allocated_bytes));
    PLM_TRY(read_bytes(what, item, "high_allocated_bytes", &range->high_allocated_bytes));
    PLM_TRY(read_bytes(what, item, "low_reserved_bytes", &range->low_reserved_bytes));
    return read_bytes(what, item, "high_reserved_bytes", &range->high_reserved_bytes);
}

static plm_status read_ranges(const char *what, const json_t *root, plm_forecast_rank *rank)
{
    const json_t *array;
    int64_t length;
    PLM_TRY(read_array(what, root, "ranges", NOTES_MAX, &array, &length));
    PLM_TRY(plm__host_alloc((size_t)(length + 1) * sizeof *rank->ranges, &rank->ranges));
    for (int64_t i = 0; i < length; i++)
        PLM_TRY(read_range(what, json_array_get(array, (size_t)i), &rank->ranges[i]));
    rank->range_count = length;
    return PLM_OK;
}

static plm_status read_ended(const char *what, const json_t *root, plm_forecast_rank *rank)
{
    const char *word;
    int end = 0;
    PLM_TRY(read_needed_text(what, root, "ended", &word));
    while (end < PLM_FORECAST_END_COUNT && strcmp(word, end_words[end]) != 0)
        end++;
    PLM_FAIL_IF(end == PLM_FORECAST_END_COUNT, PLM_ERROR_FORMAT, "%s: unknown end '%.40s'", what,
                word);
    rank->ended = (plm_forecast_end)end;
    return PLM_OK;
}

static plm_status read_words(const char *what, const json_t *root, plm_forecast_rank *rank)
{
    PLM_TRY(read_needed_text(what, root, "torch", &rank->torch));
    PLM_TRY(read_text(what, root, "cuda", &rank->cuda));
    PLM_TRY(read_text(what, root, "python", &rank->python));
    PLM_TRY(read_text(what, root, "device", &rank->device));
    PLM_TRY(read_text(what, root, "error", &rank->error));
    PLM_TRY(read_text(what, root, "line", &rank->line));
    PLM_TRY(read_text(what, root, "attention", &rank->attention));
    return read_ended(what, root, rank);
}

static plm_status read_all(const char *what, const json_t *root, plm_forecast_rank *rank)
{
    PLM_FAIL_IF(!json_is_object(root), PLM_ERROR_FORMAT, "%s: wanted one JSON object", what);
    PLM_TRY(read_words(what, root, rank));
    PLM_TRY(read_whole(what, root, "rank", RANKS_MOST, &rank->rank));
    PLM_TRY(read_whole(what, root, "ranks", RANKS_MOST, &rank->ranks));
    rank->cudnn = json_is_true(json_object_get(root, "cudnn"));
    PLM_TRY(read_figures(what, json_object_get(root, "peak"), &rank->allocated_bytes,
                         &rank->reserved_bytes));
    const json_t *end = json_object_get(root, "end");
    if (json_is_object(end))
        PLM_TRY(read_figures(what, end, &rank->end.allocated_bytes, &rank->end.reserved_bytes));
    PLM_TRY(read_steps(what, root, "steps", &rank->steps, &rank->step_count));
    PLM_TRY(read_steps(what, root, "evaluation", &rank->evaluations, &rank->evaluation_count));
    PLM_TRY(read_skipped(what, root, rank));
    PLM_TRY(read_warnings(what, root, rank));
    return read_ranges(what, root, rank);
}

plm_status plm_forecast_rank_read(const char *what, const void *text, size_t byte_count,
                                  plm_forecast_rank *rank)
{
    json_t *root;
    plm_forecast_rank made = {0};
    PLM_TRY(plm__json_read(what, text, byte_count, &root));
    made.document = root;
    plm_status status = read_all(what, root, &made);
    if (status == PLM_OK)
        *rank = made;
    else
        plm_forecast_rank_fini(&made);
    return status;
}

void plm_forecast_rank_fini(plm_forecast_rank *rank)
{
    json_decref(rank->document);
    plm__host_free(rank->steps);
    plm__host_free(rank->evaluations);
    plm__host_free(rank->skipped);
    plm__host_free(rank->warnings);
    plm__host_free(rank->ranges);
    plm__host_free(rank->recording);
    *rank = (plm_forecast_rank){0};
}
