/* SPDX-License-Identifier: MIT */
/*
 * plimsoll forecast: an unchanged PyTorch script, without a GPU, against a library that stands in
 * for CUDA: what it would hold, on which card it fits, with what largest value of an argument.
 */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "plimsoll/device_profile.h"
#include "plimsoll/forecast.h"
#include "plimsoll/report_forecast.h"
#include "plimsoll/size.h"

enum { TARGETS_MAX = 32 };

typedef struct forecast_options {
    const char *target; /* the last one; all stand in the list that take_targets makes */
    size_t capacity_bytes;
    int64_t steps;
    int64_t ranks;
    const char *vary;
    const char *out;
    double limit_seconds;
    int64_t rows;
    bool no_overlay;
    bool json;
} forecast_options;

static const plm_option options[] = {
    {"target", PLM_OPTION_TEXT, offsetof(forecast_options, target), "NAME", "h200", NULL,
     "the GPU: h200, rtx4090, ... (an unknown name lists all), or a profile of one's own, "
     "./my.json; given several times, a table of them",
     NULL},
    {"capacity", PLM_OPTION_SIZE, offsetof(forecast_options, capacity_bytes), "SIZE", NULL, NULL,
     "memory of the GPU; default: the profile's", NULL},
    {"steps", PLM_OPTION_COUNT, offsetof(forecast_options, steps), "N", "3", NULL,
     "calls of an optimizer's step after which the script is ended", NULL},
    {"ranks", PLM_OPTION_COUNT, offsetof(forecast_options, ranks), "N", "1", NULL,
     "processes that are started, with torchrun's variables; torchrun itself goes behind --", NULL},
    {"vary", PLM_OPTION_TEXT, offsetof(forecast_options, vary), "NAME=LO..HI", NULL, NULL,
     "the script's argument --NAME is set, or appended; the largest value that fits is found",
     NULL},
    {"out", PLM_OPTION_TEXT, offsetof(forecast_options, out), "DIR", "plimsoll-forecast", NULL,
     "folder for the recordings, in place of those of an earlier forecast", NULL},
    {"time-limit", PLM_OPTION_REAL, offsetof(forecast_options, limit_seconds), "SECONDS", "0", NULL,
     "ends a run that takes longer; 0: none", NULL},
    {"rows", PLM_OPTION_COUNT, offsetof(forecast_options, rows), "N", "8", NULL,
     "lines of the table of who holds memory", NULL},
    {"no-overlay", PLM_OPTION_FLAG, offsetof(forecast_options, no_overlay), NULL, NULL, NULL,
     "run in the real file system; what saves in known ways is caught all the same", NULL},
    {"json", PLM_OPTION_FLAG, offsetof(forecast_options, json), NULL, NULL, NULL,
     "print one JSON object on one line for each target", NULL},
};

static const plm_syntax syntax = {
    .command = "plimsoll forecast",
    .summary = "Runs a PyTorch script, unchanged and without a GPU, against a library that stands "
               "in for CUDA, and tells what it would hold: allocated, reserved and the context, "
               "in the first step, later, in evaluation; whether that fits, and who holds it. "
               "Nothing that the script saves is written.",
    .operands = "-- COMMAND...",
    CLI_OPTIONS(options),
    .example = "plimsoll forecast --target rtx4090 -- python train.py --batch 8\n"
               "  plimsoll forecast --target h100 --target a100-40 -- python train.py\n"
               "  plimsoll forecast --target rtx3090 --vary batch=1..64 -- python train.py\n"
               "  plimsoll forecast --target h100 -- torchrun --nproc-per-node 2 train.py",
};

/* ---- signals ---- */

static volatile sig_atomic_t stop;

static void interrupt(int number)
{
    stop = number;
}

static void catch_signals(bool caught)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction action = {.sa_handler = caught ? interrupt : SIG_DFL};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before;
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
}

/* ---- targets ---- */

typedef struct targets {
    plm_device_profile devices[TARGETS_MAX];
    plm_forecast_result *results[TARGETS_MAX];
    plm_error errors[TARGETS_MAX]; /* where there is no result */
    plm_snapshot *snapshots[TARGETS_MAX];
    plm_findings *findings[TARGETS_MAX];
    plm_forecast_row rows[TARGETS_MAX];
    int count;
} targets;

static plm_status add_target(targets *all, const char *name)
{
    if (all->count == TARGETS_MAX) {
        cli_wrong("at most %d targets can be forecast at once", TARGETS_MAX);
        return PLM_ERROR_ARGUMENT;
    }
    plm_device_profile *added = &all->devices[all->count];
    plm_status status = plm_device_profile_find(name, added);
    if (status != PLM_OK) {
        cli_finish(status);
        return status;
    }
    for (int i = 0; i < all->count; i++) {
        if (strcmp(all->devices[i].name, added->name) == 0) {
            cli_wrong("wanted targets of different names, found '%s' twice; their recordings would "
                      "be one file",
                      added->name);
            return PLM_ERROR_ARGUMENT;
        }
    }
    all->count++;
    return PLM_OK;
}

/* Every --target of the line: the table of options keeps the last value of each. */
static plm_status take_targets(targets *all, int argc, char **argv, const char *last)
{
    static const char name[] = "--target";
    const size_t length = sizeof name - 1;
    plm_status status = PLM_OK;
    for (int i = 1; i < argc && status == PLM_OK; i++) {
        if (strncmp(argv[i], name, length) != 0)
            continue;
        if (argv[i][length] == '=')
            status = add_target(all, argv[i] + length + 1);
        else if (!argv[i][length] && i + 1 < argc)
            status = add_target(all, argv[++i]);
    }
    return status == PLM_OK && all->count == 0 ? add_target(all, last) : status;
}

static void forget_targets(targets *all)
{
    for (int i = 0; i < all->count; i++) {
        plm_findings_destroy(all->findings[i]);
        plm_snapshot_destroy(all->snapshots[i]);
        plm_forecast_result_destroy(all->results[i]);
    }
}

/* ---- runs ---- */

typedef struct progress {
    const char *target;
    const char *argument; /* NULL: none is varied */
} progress;

static void say_trial(void *user, int64_t value, const plm_forecast_result *result)
{
    const progress *now = user;
    char size[PLM_SIZE_TEXT], of[PLM_SIZE_TEXT];
    const plm_forecast_rank *rank = &result->ranks[result->largest];
    fprintf(stderr, "plimsoll: %s: ", now->target);
    if (now->argument)
        fprintf(stderr, "%s %lld: ", now->argument, (long long)value);
    if (result->needs_known)
        fprintf(stderr, "%s, %s of %s\n", result->fits ? "fits" : "does not fit",
                plm_size_format(rank->reserved_bytes + result->context_bytes, size),
                plm_size_format(result->capacity_bytes, of));
    else
        fprintf(stderr, "does not fit, memory ran out\n");
}

static plm_status run_target(plm_forecast *forecast, targets *all, int place,
                             const plm_forecast_vary *vary)
{
    progress now = {all->devices[place].name, vary ? vary->name : NULL};
    plm_forecast_result **result = &all->results[place];
    plm_status status;
    if (vary) {
        plm_forecast_vary told = *vary;
        told.tried = say_trial;
        told.user = &now;
        status = plm_forecast_vary_run(forecast, &all->devices[place], &told, result);
    } else {
        status = plm_forecast_run(forecast, &all->devices[place], result);
        if (status == PLM_OK && all->count > 1)
            say_trial(&now, 0, *result);
    }
    if (status != PLM_OK)
        plm_error_get(&all->errors[place]);
    return status;
}

static plm_status find_in(const char *path, size_t capacity, plm_snapshot **snapshot,
                          plm_findings **findings)
{
    int64_t count = 0;
    plm_replay_result replayed;
    const plm_findings_options wanted = {.capacity_bytes = capacity, .replayed = &replayed};
    plm_status status = plm_snapshot_read(path, snapshot);
    if (status != PLM_OK)
        return status;
    const plm_snapshot_device *devices = plm_snapshot_devices(*snapshot, &count);
    if (count == 0)
        return PLM_OK;
    status = plm_replay_fill_taken(*snapshot, 0, &replayed);
    return status == PLM_OK ? plm_findings_create(&devices[0], &wanted, findings) : status;
}

/* Who holds the peak, as plimsoll snapshot tells it; a recording that cannot be read is said. */
static plm_status find_holders(targets *all, int place)
{
    const plm_forecast_result *result = all->results[place];
    const char *path = result ? result->ranks[result->largest].recording : NULL;
    if (!path)
        return PLM_OK;
    plm_status status =
        find_in(path, result->capacity_bytes, &all->snapshots[place], &all->findings[place]);
    if (status == PLM_OK || status == PLM_ERROR_HOST_MEMORY)
        return status;
    plm_error error;
    plm_error_get(&error);
    fprintf(stderr, "plimsoll: passed over: %s\n", error.message);
    return PLM_OK;
}

/* ---- telling ---- */

static const char first_line[] =
    "Nothing runs on a GPU: what the script prints, its losses too, means nothing.";

static plm_status print_text(plm_status status, char *text, const char *end)
{
    if (status == PLM_OK)
        printf("%s%s", text, end);
    plm_free(text);
    return status;
}

static plm_status print_all(targets *all, const forecast_options *o, const plm_forecast_vary *vary,
                            bool has_view)
{
    char *text = NULL;
    const plm_forecast_report report = {.rows = all->rows,
                                        .count = all->count,
                                        .argument = vary ? vary->name : NULL,
                                        .most = vary ? vary->most : 0,
                                        .has_view = has_view};
    for (int i = 0; i < all->count; i++)
        all->rows[i] = (plm_forecast_row){.target = all->devices[i].name,
                                          .result = all->results[i],
                                          .error = all->errors[i].message,
                                          .findings = all->findings[i]};
    if (!o->json) {
        plm_status status = plm_report_forecast_text(&report, cli_style(o->rows), &text);
        return print_text(status, text, "");
    }
    for (int i = 0; i < all->count; i++) {
        plm_status status = plm_report_forecast_json(&report, i, &text);
        if (print_text(status, text, "\n") != PLM_OK)
            return status;
        text = NULL;
    }
    return PLM_OK;
}

/* 0 when something fits, 1 when nothing does; 2 when a target or the script failed. */
static int answer_of(const targets *all)
{
    bool fits = false;
    for (int i = 0; i < all->count; i++) {
        if (!all->results[i] || all->results[i]->script_status)
            return CLI_WRONG;
        fits = fits || all->results[i]->fits;
    }
    return fits ? CLI_DONE : CLI_NO;
}

/* One target's failure is the command's; of several each is told in the table. */
static plm_status run_all(plm_forecast *forecast, targets *all, const forecast_options *o,
                          const plm_forecast_vary *vary)
{
    plm_status status = PLM_OK;
    for (int i = 0; i < all->count && status == PLM_OK; i++) {
        status = run_target(forecast, all, i, vary);
        if (status == PLM_ERROR_ARGUMENT && all->count > 1)
            status = PLM_OK;
    }
    if (status == PLM_OK && all->count == 1 && !o->json) /* the page has them, the table not */
        status = find_holders(all, 0);
    for (int i = 0; i < all->count && status == PLM_OK; i++)
        if (all->results[i])
            status = plm_forecast_find_addresses(all->results[i]);
    for (int i = 0; i < all->count && status == PLM_OK; i++) /* all at the end, or none */
        if (all->results[i])
            status = plm_forecast_keep(all->results[i], o->out);
    return status;
}

static int forecast_targets(const plm_forecast_settings *settings, targets *all,
                            const forecast_options *o, const plm_forecast_vary *vary)
{
    plm_forecast *forecast = NULL;
    plm_status status = plm_forecast_open(settings, &forecast);
    if (status == PLM_OK) {
        fprintf(o->json ? stderr : stdout, "%s\n", first_line);
        fflush(stdout);
        status = run_all(forecast, all, o, vary);
    }
    if (status == PLM_OK) {
        if (!o->json)
            putchar('\n');
        status = print_all(all, o, vary, plm_forecast_has_view(forecast));
    }
    plm_forecast_close(forecast);
    if (stop)
        return CLI_FAILED;
    return status == PLM_OK ? answer_of(all) : cli_finish(status);
}

/* A signal ends the command as it would have without a handler, now that nothing is left. */
static int end_by_signal(void)
{
    const int number = stop;
    catch_signals(false);
    raise(number);
    return CLI_FAILED;
}

int cmd_forecast(int argc, char **argv)
{
    int own = 1; /* words before "--" are ours, those after it the command */
    while (own < argc && strcmp(argv[own], "--") != 0)
        own++;
    forecast_options o;
    plm_operands operands;
    plm_forecast_vary vary = {.user = NULL};
    static targets all; /* profiles are large */
    int exit_status;
    if (!cli_parse(&syntax, own, argv, &o, &operands, &exit_status))
        return exit_status;
    if (own + 1 >= argc)
        return cli_wrong("forecast wants a command after --: plimsoll forecast -- python train.py");
    if (take_targets(&all, own, argv, o.target) != PLM_OK)
        return CLI_WRONG;
    plm_status status = o.vary ? plm_forecast_vary_parse(o.vary, &vary) : PLM_OK;
    if (status != PLM_OK)
        return cli_finish(status);
    const plm_forecast_settings settings = {
        .command = argv + own + 1,
        .environment = environ,
        .steps = o.steps,
        .ranks = o.ranks,
        .capacity_bytes = o.capacity_bytes,
        .limit_seconds = o.limit_seconds,
        .no_view = o.no_overlay,
        .echo = all.count == 1 && !o.vary,
        .stop = &stop,
    };
    catch_signals(true);
    exit_status = forecast_targets(&settings, &all, &o, o.vary ? &vary : NULL);
    forget_targets(&all);
    return stop ? end_by_signal() : exit_status;
}
