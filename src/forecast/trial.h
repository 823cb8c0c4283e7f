/* SPDX-License-Identifier: MIT */
/*
 * One run of the script on one device, and what stays between runs.
 *
 * The private folder of a forecast:
 *
 *     lib/       libplimsoll_phantom.so, and links to it: libcuda.so.1, libnvidia-ml.so.1
 *     plimsoll_forecast/  the files that watch the script; first on PYTHONPATH. Readers of
 *                snapshots know their frames by this name, and pass over them
 *     room/      what the private view keeps from being written, emptied before a run
 *     kept/      recordings of runs that are done
 *     run/       of one run: settings.json, device.txt, asked.txt, caches, rankN.json, rankN.pickle
 */
#ifndef PLM_FORECAST_TRIAL_H
#define PLM_FORECAST_TRIAL_H

#include "plimsoll/forecast.h"
#include "script/script.h"

struct plm_forecast {
    const plm_forecast_settings *settings;
    plm_place place;
    char *folder;    /* the working directory */
    plm_cover cover; /* when has_view */
    bool has_view;
    int64_t devices; /* that the script sees */
};

/* Names of files in the private folder. */
#define PLM_FORECAST_LIBRARY "libplimsoll_phantom.so"
#define PLM_FORECAST_PYTHON  "plimsoll_forecast"

/*
 * Runs the script with these words on the device with so much memory and fills the result's ranks,
 * unknown and written; adds to its seconds. As plm_forecast_run, but without a verdict.
 */
PLM_MUST_USE plm_status plm__trial_run(plm_forecast *forecast, const plm_words *command,
                                       const plm_device_profile *device, size_t memory_bytes,
                                       plm_forecast_result *result);

/* Frees what a run filled in. */
void plm__trial_forget(plm_forecast_result *result);

/* The environment of one rank; -1: of a command that starts the ranks, or of one without any. */
PLM_MUST_USE plm_status plm__trial_environment(const plm_forecast *forecast, int64_t rank, int port,
                                               plm_words *environment);

/*
 * *result = the script with these words, judged. Where it ran out of memory and `needs` asks for
 * what it would have needed, it is run again on a device without an end.
 */
PLM_MUST_USE plm_status plm__forecast_words(plm_forecast *forecast, const plm_words *command,
                                            const plm_device_profile *device, bool needs,
                                            plm_forecast_result **result);

#endif
