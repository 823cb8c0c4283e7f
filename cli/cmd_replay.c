/* SPDX-License-Identifier: MIT */
/* plimsoll replay: a recorded history under other allocator settings and policies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plimsoll/report_torch.h"

enum { CASES_MAX = 32, CONF_MAX = 16 };

typedef struct replay_settings {
    const char *conf; /* the last one given; all are gathered before the line is read */
    int policy;       /* -1: not given */
    size_t capacity_bytes;
    int64_t device; /* -1: the first with a history */
    bool sweep;
    bool json;
} replay_settings;

static const plm_option options[] = {
    {"alloc-conf", PLM_OPTION_TEXT, offsetof(replay_settings, conf), "CONF", NULL, NULL,
     "settings as in PYTORCH_ALLOC_CONF, \"\" for the defaults; may be given several times", NULL},
    {"policy", PLM_OPTION_CHOICE, offsetof(replay_settings, policy), "NAME", NULL,
     "caching|mapped|bound",
     "caching: PyTorch's, by its default settings; mapped: pages that move; bound: what no "
     "placement can be below",
     NULL},
    {"sweep", PLM_OPTION_FLAG, offsetof(replay_settings, sweep), NULL, NULL, NULL,
     "all settings that are often useful, and both other policies, the best first", NULL},
    {"capacity", PLM_OPTION_SIZE, offsetof(replay_settings, capacity_bytes), "SIZE", NULL, NULL,
     "what the device can give to the process; default: no limit", NULL},
    {"device", PLM_OPTION_INTEGER, offsetof(replay_settings, device), "N", NULL, NULL,
     "the device, by its number; default: the first with a history", NULL},
    {"json", PLM_OPTION_FLAG, offsetof(replay_settings, json), NULL, NULL, NULL,
     "print one JSON object on one line", NULL},
};

static const plm_syntax syntax = {
    .command = "plimsoll replay",
    .summary = "Runs the history of a PyTorch memory snapshot through its allocator again: as "
               "recorded, which proves the replay, and under other settings and policies, which "
               "measures what they would have done for this run.",
    CLI_ONE_OPERAND("FILE"),
    CLI_OPTIONS(options),
    .example = "plimsoll replay rank0.pickle --sweep\n"
               "  plimsoll replay rank0.pickle --alloc-conf max_split_size_mb:128 --capacity 24GiB",
};

typedef struct case_list {
    plm_replay_case items[CASES_MAX];
    int64_t count;
} case_list;

static void add_case(case_list *cases, plm_replay_case wanted, size_t capacity)
{
    bool is_recorded = wanted.policy == PLM_REPLAY_CACHING && !wanted.settings;
    wanted.capacity_bytes = capacity;
    if (is_recorded) /* the driver's answers are in the recording */
        wanted.capacity_bytes = 0;
    if (cases->count < CASES_MAX)
        cases->items[cases->count++] = wanted;
}

/* Every --alloc-conf of the line: an option keeps but its last value. */
static int64_t gather_confs(int argc, char **argv, const char *confs[CONF_MAX])
{
    int64_t count = 0;
    for (int i = 1; i < argc && count < CONF_MAX && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], "--alloc-conf=", 13) == 0)
            confs[count++] = argv[i] + 13;
        else if (strcmp(argv[i], "--alloc-conf") == 0 && i + 1 < argc)
            confs[count++] = argv[++i];
    }
    return count;
}

static void choose_cases(const replay_settings *settings, const char *const *confs,
                         int64_t conf_count, case_list *cases)
{
    size_t capacity = settings->capacity_bytes;
    add_case(cases, (plm_replay_case){.policy = PLM_REPLAY_CACHING}, capacity);
    for (int64_t i = 0; i < conf_count; i++)
        add_case(cases, (plm_replay_case){.settings = confs[i]}, capacity);
    if (settings->policy == PLM_REPLAY_CACHING && conf_count == 0)
        add_case(cases, (plm_replay_case){.settings = ""}, capacity);
    if (settings->sweep)
        for (const char *const *useful = plm_replay_useful_settings(); *useful; useful++)
            add_case(cases, (plm_replay_case){.settings = *useful}, capacity);
    if (settings->sweep || settings->policy == PLM_REPLAY_MAPPED)
        add_case(cases, (plm_replay_case){.policy = PLM_REPLAY_MAPPED}, capacity);
    if (settings->sweep || settings->policy == PLM_REPLAY_BOUND)
        add_case(cases, (plm_replay_case){.policy = PLM_REPLAY_BOUND}, capacity);
}

/* The index of the device with this number, or of the first with a history; -1 without. */
static const plm_snapshot_device *choose_device(const plm_snapshot *snapshot, int64_t number)
{
    int64_t count;
    const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &count);
    for (int64_t i = 0; i < count; i++)
        if (number < 0 ? devices[i].history.recorded : devices[i].device == number)
            return &devices[i];
    return number < 0 && count > 0 ? devices : NULL;
}

static plm_status run_cases(const plm_snapshot_device *device, const case_list *cases,
                            plm_replay_result *results)
{
    for (int64_t i = 0; i < cases->count; i++) {
        plm_status status = plm_replay_run(device, &cases->items[i], &results[i]);
        if (status != PLM_OK)
            return status;
    }
    plm_replay_sort(results, cases->count);
    return PLM_OK;
}

static plm_status print_results(const replay_settings *settings, const plm_replay_report *report)
{
    char *text = NULL;
    plm_status status = settings->json ? plm_report_replay_json(report, &text)
                                       : plm_report_replay_text(report, cli_style(0), &text);
    return cli_print(status, text, settings->json);
}

int cmd_replay(int argc, char **argv)
{
    replay_settings settings;
    plm_operands operands;
    case_list cases = {.count = 0};
    plm_replay_result results[CASES_MAX];
    const char *confs[CONF_MAX];
    plm_snapshot *snapshot = NULL;
    const plm_snapshot_device *device = NULL;
    int exit_status;
    if (!cli_parse(&syntax, argc, argv, &settings, &operands, &exit_status))
        return exit_status;
    choose_cases(&settings, confs, gather_confs(argc, argv, confs), &cases);
    plm_status status = plm_snapshot_read(operands.items[0], &snapshot);
    if (status == PLM_OK) {
        device = choose_device(snapshot, settings.device);
        if (!device) {
            plm_snapshot_destroy(snapshot);
            return cli_wrong("'%s' says nothing of device %lld", operands.items[0],
                             (long long)(settings.device < 0 ? 0 : settings.device));
        }
        status = run_cases(device, &cases, results);
    }
    if (status == PLM_OK) {
        plm_replay_report report = {.name = cli_file_name(operands.items[0]),
                                    .device = device,
                                    .capacity_bytes = settings.capacity_bytes,
                                    .results = results,
                                    .count = cases.count};
        status = print_results(&settings, &report);
    }
    plm_snapshot_destroy(snapshot);
    return cli_finish(status);
}
