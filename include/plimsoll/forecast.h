/* SPDX-License-Identifier: MIT */
/*
 * Forecasts: what an unchanged PyTorch script would hold on a GPU that is not here.
 *
 * The script runs on the CPU's side alone: a library that stands in for CUDA is loaded before
 * PyTorch, kernels do nothing, and memory is address space. PyTorch's own allocator runs, and its
 * recording is an ordinary snapshot. The stand-in and the Python files that watch the script travel
 * inside this library and are written into a private folder.
 *
 *     plm_forecast *forecast = NULL;
 *     plm_forecast_result *result = NULL;
 *     PLM_TRY(plm_forecast_open(&settings, &forecast));
 *     PLM_TRY(plm_device_profile_find("h200", &device));
 *     PLM_TRY(plm_forecast_run(forecast, &device, &result));
 *     ... result->fits, result->ranks[0].reserved_bytes ...
 *     plm_forecast_result_destroy(result);
 *     plm_forecast_close(forecast);
 *
 * Nothing that the script writes reaches the user's files: it runs over a private view of the file
 * system where the kernel allows one, and elsewhere what saves is caught in Python. One thread.
 */
#ifndef PLIMSOLL_FORECAST_H
#define PLIMSOLL_FORECAST_H

#include <signal.h>
#include <stdbool.h>

#include "plimsoll/device_profile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what one rank left ---- */

/* How a rank came to its end: name, the word in its file. */
#define PLM_FORECAST_END_MAP(ROW)                                                                  \
    ROW(STEPS, "steps")                 /* after the steps that were asked for */                  \
    ROW(SCRIPT, "script")               /* by itself */                                            \
    ROW(ERROR, "error")                 /* with an error */                                        \
    ROW(REFUSED, "refused")             /* what the script uses cannot be forecast */              \
    ROW(OUT_OF_MEMORY, "out_of_memory") /* the device was too small */

typedef enum plm_forecast_end {
#define PLM_FORECAST_END_ROW(name, word) PLM_FORECAST_##name,
    PLM_FORECAST_END_MAP(PLM_FORECAST_END_ROW)
#undef PLM_FORECAST_END_ROW
        PLM_FORECAST_END_COUNT
} plm_forecast_end;

/* The word of an end; static. */
const char *plm_forecast_end_text(plm_forecast_end end);

/* The largest figures between two instants. */
typedef struct plm_forecast_step {
    int64_t step;   /* counted from 1 */
    double seconds; /* that it took here, on no GPU */
    size_t allocated_bytes;
    size_t reserved_bytes;
} plm_forecast_step;

/* A place of the script, and what is to be known of it. */
typedef struct plm_forecast_note {
    const char *what;
    const char *line; /* "train.py:41"; NULL: none */
} plm_forecast_note;

/* A figure that lies between two on a card too. */
typedef struct plm_forecast_range {
    const char *what;
    size_t low_allocated_bytes, high_allocated_bytes;
    size_t low_reserved_bytes, high_reserved_bytes;
} plm_forecast_range;

typedef struct plm_forecast_rank {
    void *document; /* texts below are borrowed from it */
    const char *torch, *cuda, *python, *device;
    int64_t rank, ranks;
    plm_forecast_end ended;
    const char *error;      /* NULL: none */
    const char *line;       /* where the script was; NULL: not known */
    const char *attention;  /* "cudnn", "flash", "efficient", "math", "unknown"; NULL: none */
    bool cudnn;             /* was in use: the context is larger */
    size_t allocated_bytes; /* peak of the whole run */
    size_t reserved_bytes;
    plm_forecast_step *steps;
    int64_t step_count;
    plm_forecast_step *evaluations;
    int64_t evaluation_count;
    plm_forecast_step end; /* from the last of them to the end; zeros: nothing was left */
    const char **skipped;  /* files that were not written */
    int64_t skipped_count;
    plm_forecast_note *warnings;
    int64_t warning_count;
    plm_forecast_range *ranges; /* room for one more */
    int64_t range_count;
    char *recording; /* path of its snapshot; NULL: none was left */
} plm_forecast_rank;

/*
 * *rank = what a rank's file says; `what` names it in messages. PLM_ERROR_FORMAT for malformed text
 * or a key that is missing or of another kind; *rank is then as it was. To be ended by
 * plm_forecast_rank_fini, which allows zeros.
 */
PLM_MUST_USE plm_status plm_forecast_rank_read(const char *what, const void *text,
                                               size_t byte_count, plm_forecast_rank *rank);
void plm_forecast_rank_fini(plm_forecast_rank *rank);

/* ---- forecasts ---- */

enum {
    PLM_FORECAST_STEPS_DEFAULT = 3, /* moments exist by the third */
    PLM_FORECAST_RANKS_MAX = 64,
    PLM_FORECAST_TARGET_TEXT = 64,
    PLM_FORECAST_LINE_TEXT = 256,
    PLM_FORECAST_WRITES_MAX = 1000 /* files that were not written, listed by name */
};

typedef struct plm_forecast_settings {
    char *const *command;     /* NULL-ended: "python", "train.py", ... */
    char *const *environment; /* NULL-ended */
    int64_t steps;            /* optimizer steps, after which the script is ended */
    int64_t ranks;            /* processes that are started; 1 also where the command starts them */
    size_t capacity_bytes;    /* of the device, in place of the profile's; 0 */
    double limit_seconds;     /* of one run; 0: none */
    bool no_view;             /* the real file system, saving caught in Python alone */
    bool echo;                /* what the script writes goes to standard error */
    const volatile sig_atomic_t *stop; /* set by a signal handler: end what runs; NULL */
} plm_forecast_settings;

typedef struct plm_forecast plm_forecast;

/*
 * Makes a forecast ready: its private folder, the files in it, the view of the file system. All
 * that `settings` points to is borrowed until the close. PLM_ERROR_UNSUPPORTED on a machine where
 * the stand-in does not run; PLM_ERROR_IO.
 */
PLM_MUST_USE plm_status plm_forecast_open(const plm_forecast_settings *settings,
                                          plm_forecast **forecast);

/* Removes the private folder. NULL is allowed. */
void plm_forecast_close(plm_forecast *forecast);

/* Whether the script runs over a private view of the file system. */
bool plm_forecast_has_view(const plm_forecast *forecast);

typedef struct plm_forecast_result {
    char target[PLM_FORECAST_TARGET_TEXT]; /* the name of the profile */
    plm_gpu gpu;
    size_t capacity_bytes;
    size_t context_bytes;              /* beside what PyTorch reserves */
    char line[PLM_FORECAST_LINE_TEXT]; /* where memory ran out, "train.py:41"; "": it did not, or
                                          that is not known */
    bool out_of_memory;                /* the script met the device's end */
    bool fits;                /* it did not, and reserved memory and context lie within capacity */
    bool needs_known;         /* the figures are those of a whole run: also where it ran out, for it
                                 was run again on a device without an end */
    int64_t margin_bytes;     /* capacity - (reserved + context) of the rank `largest` */
    plm_forecast_rank *ranks; /* by rank */
    int64_t rank_count;
    int64_t largest; /* index of the rank whose reserved memory and context are most */
    char **unknown;  /* functions that were asked and could not answer */
    int64_t unknown_count;
    char **written;        /* files that the private view kept from being written */
    int64_t written_count; /* of all; PLM_FORECAST_WRITES_MAX at most are listed */
    size_t written_bytes;
    int script_status; /* not 0: with it the script ended by itself, before the steps asked for;
                          what it would have held later is not in the figures */
    double seconds;    /* that the runs took here */
    bool varied;
    int64_t value; /* of the argument that was varied; least - 1: none fits */
} plm_forecast_result;

/*
 * *result = the script on this device, owned by the caller. PLM_ERROR_ARGUMENT when the script
 * fails or leaves nothing, with its error; PLM_ERROR_STATE when it was stopped; PLM_ERROR_IO. Its
 * recordings lie in the private folder, until another forecast of this target or the close.
 */
PLM_MUST_USE plm_status plm_forecast_run(plm_forecast *forecast, const plm_device_profile *device,
                                         plm_forecast_result **result);

/*
 * Adds to each rank the range of its peaks wherever the driver finds room for its segments, from
 * its recording; to none where that moves nothing, or where a replay of the recording does not come
 * to the rank's own figures. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_forecast_find_addresses(plm_forecast_result *result);

/*
 * Copies the recordings into a folder, made when it is missing, as TARGET-rankN.pickle, with a
 * record of the device beside each, in place of those of an earlier forecast; the result then names
 * those. PLM_ERROR_IO.
 */
PLM_MUST_USE plm_status plm_forecast_keep(plm_forecast_result *result, const char *folder);

void plm_forecast_result_destroy(plm_forecast_result *result);

/* An argument that is varied. */
typedef struct plm_forecast_vary {
    char name[64];
    int64_t least, most;
    /* Told of each trial, which is borrowed; NULL. */
    void (*tried)(void *user, int64_t value, const plm_forecast_result *result);
    void *user;
} plm_forecast_vary;

/* Reads "batch=1..64", into name and ends alone. PLM_ERROR_ARGUMENT. */
PLM_MUST_USE plm_status plm_forecast_vary_parse(const char *text, plm_forecast_vary *vary);

/*
 * *result = the script with the largest value of the argument that fits, found by bisection:
 * whatever is below a value that fits is taken to fit. When not even the least fits, *result is
 * that one and its `value` the least - 1. As plm_forecast_run.
 */
PLM_MUST_USE plm_status plm_forecast_vary_run(plm_forecast *forecast,
                                              const plm_device_profile *device,
                                              const plm_forecast_vary *vary,
                                              plm_forecast_result **result);

#ifdef __cplusplus
}
#endif
#endif
