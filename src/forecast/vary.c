/* SPDX-License-Identifier: MIT */
/* The largest value of one of the script's arguments that fits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forecast/trial.h"

static plm_status refuse(const char *text)
{
    return plm_fail(PLM_ERROR_ARGUMENT,
                    "wanted an argument and its least and largest value, such as batch=1..64, "
                    "found '%.60s'",
                    text);
}

static bool read_value(const char *text, const char **end, int64_t *value)
{
    char *last;
    errno = 0;
    *value = strtoll(text, &last, 10);
    *end = last;
    return last > text && errno == 0 && *value >= 0 && *text >= '0' && *text <= '9';
}

plm_status plm_forecast_vary_parse(const char *text, plm_forecast_vary *vary)
{
    plm_forecast_vary read = *vary;
    const char *name = text + strspn(text, "-");
    const char *equals = strrchr(name, '=');
    const char *end;
    const size_t length = equals ? (size_t)(equals - name) : 0;
    if (length == 0 || length >= sizeof read.name || !read_value(equals + 1, &end, &read.least) ||
        strncmp(end, "..", 2) != 0 || !read_value(end + 2, &end, &read.most) || *end ||
        read.least > read.most)
        return refuse(text);
    snprintf(read.name, sizeof read.name, "%.*s", (int)length, name);
    *vary = read;
    return PLM_OK;
}

typedef struct search {
    plm_forecast *forecast;
    const plm_device_profile *device;
    const plm_forecast_vary *vary;
    plm_forecast_result *best; /* of the largest value so far that fits, or of the least */
} search;

/* One trial. Trials that fit come with rising values, so the last of them is the answer, and its
 * recordings are those that stay. */
static plm_status try_value(void *user, int64_t value, bool *fits)
{
    search *now = user;
    plm_words command = {0};
    plm_forecast_result *result = NULL;
    const bool is_first = !now->best;
    plm_status status = plm__words_add(&command, now->forecast->settings->command);
    if (status == PLM_OK)
        status = plm__arguments_set(&command, now->vary->name, value);
    if (status == PLM_OK)
        status = plm__forecast_words(now->forecast, &command, now->device, is_first, &result);
    plm__words_free(&command);
    if (status != PLM_OK)
        return status;
    result->varied = true;
    result->value = value;
    *fits = result->fits;
    if (now->vary->tried)
        now->vary->tried(now->vary->user, value, result);
    if (*fits || is_first) {
        plm_forecast_result_destroy(now->best);
        now->best = result;
    } else {
        plm_forecast_result_destroy(result);
    }
    return PLM_OK;
}

plm_status plm_forecast_vary_run(plm_forecast *forecast, const plm_device_profile *device,
                                 const plm_forecast_vary *vary, plm_forecast_result **result)
{
    search now = {.forecast = forecast, .device = device, .vary = vary};
    int64_t largest;
    plm_status status = plm__bisect_largest(vary->least, vary->most, try_value, &now, &largest);
    if (status != PLM_OK) {
        plm_forecast_result_destroy(now.best);
        return status;
    }
    now.best->value = largest;
    *result = now.best;
    return PLM_OK;
}
