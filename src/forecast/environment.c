/* SPDX-License-Identifier: MIT */
/*
 * The environment in which a script meets the stand-in: the library before all others, its links
 * where dlopen looks for the driver, the Python files first, compilers' caches of its own (the
 * stand-in's autotuning must neither read nor spoil the user's), and for ranks that we start what
 * torchrun sets.
 */
#include <stdio.h>

#include "forecast/trial.h"

enum { NUMBER_TEXT = 24 };

static plm_status set_path(const plm_forecast *forecast, plm_words *environment, const char *name,
                           const char *file, bool prepend)
{
    char path[PLM_SCRIPT_PATH_TEXT];
    PLM_TRY(plm__place_path(&forecast->place, file, path));
    return prepend ? plm__environment_prepend(environment, name, path)
                   : plm__environment_set(environment, name, path);
}

static plm_status set_number(plm_words *environment, const char *name, int64_t number)
{
    char text[NUMBER_TEXT];
    snprintf(text, sizeof text, "%lld", (long long)number);
    return plm__environment_set(environment, name, text);
}

static plm_status set_rank(const plm_forecast *forecast, int64_t rank, int port,
                           plm_words *environment)
{
    PLM_TRY(set_number(environment, "RANK", rank));
    PLM_TRY(set_number(environment, "LOCAL_RANK", rank));
    PLM_TRY(set_number(environment, "GROUP_RANK", 0));
    PLM_TRY(set_number(environment, "WORLD_SIZE", forecast->settings->ranks));
    PLM_TRY(set_number(environment, "LOCAL_WORLD_SIZE", forecast->settings->ranks));
    PLM_TRY(plm__environment_set(environment, "MASTER_ADDR", "127.0.0.1"));
    return set_number(environment, "MASTER_PORT", port);
}

plm_status plm__trial_environment(const plm_forecast *forecast, int64_t rank, int port,
                                  plm_words *environment)
{
    static const struct {
        const char *name, *file;
        bool prepend;
    } rows[] = {
        {"PLIMSOLL_FORECAST", "run/settings.json", false},
        {"PLIMSOLL_PHANTOM", "run/device.txt", false},
        {"LD_PRELOAD", "lib/" PLM_FORECAST_LIBRARY, true},
        {"LD_LIBRARY_PATH", "lib", true},
        {"PYTHONPATH", PLM_FORECAST_PYTHON, true},
        {"TORCHINDUCTOR_CACHE_DIR", "run/inductor", false},
        {"TRITON_CACHE_DIR", "run/triton", false},
        {"CUDA_CACHE_PATH", "run/cuda", false},
    };
    PLM_TRY(plm__words_add(environment, forecast->settings->environment));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        PLM_TRY(set_path(forecast, environment, rows[i].name, rows[i].file, rows[i].prepend));
    plm__environment_unset(environment, "CUDA_VISIBLE_DEVICES"); /* tells of this machine's cards */
    return rank >= 0 ? set_rank(forecast, rank, port, environment) : PLM_OK;
}
