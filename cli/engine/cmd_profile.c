/* SPDX-License-Identifier: MIT */
/* plimsoll profile: one measured step, operation by operation; or the rates of this machine. */
#include <stdio.h>

#include "choices.h"
#include "plimsoll/calibrate.h"
#include "plimsoll/plan_report.h"
#include "plimsoll/profile.h"
#include "plimsoll/size.h"

typedef struct profile_settings {
    cli_choices choices;
    int64_t steps;
    int order;
    int64_t rows;
    bool calibrate;
    double seconds;
    const char *out;
} profile_settings;
CLI_CHOICES_COME_FIRST(profile_settings);

static const plm_option options[] = {
    CLI_BATCH(CLI_BATCH_HELP),
    CLI_MICRO_BATCH(CLI_MICRO_HELP "the batch"),
    CLI_SEQUENCE(CLI_SEQUENCE_HELP),
    CLI_RECOMPUTE("none", CLI_RUNGS_SHORT_HELP),
    CLI_HEAD_CHUNKS("1", CLI_CHUNKS_HELP),
    CLI_MLP_CHUNKS("1", CLI_MLP_CHUNKS_HELP),
    CLI_STRATEGY_ROWS,
    CLI_STRATEGY("JSON that fixes every choice; goes before the options above"),
    CLI_OPTIMIZER(CLI_OPTIMIZER_SHORT_HELP),
    CLI_DEVICE,
    CLI_THREADS(CLI_THREADS_HELP),
    {"steps", PLM_OPTION_COUNT, offsetof(profile_settings, steps), "N", "3", NULL,
     "updates that are timed, after one that is not; of each operation the fastest counts", NULL},
    {"sort", PLM_OPTION_CHOICE, offsetof(profile_settings, order), "BY", "excess",
     "excess|time|memory", "what comes first; excess: the time over the device's floor", NULL},
    {"rows", PLM_OPTION_COUNT, offsetof(profile_settings, rows), "N", "16", NULL,
     "lines of each table", NULL},
    CLI_PROFILE("rates of the device to compare with; default: what --calibrate measured here"),
    {"calibrate", PLM_OPTION_FLAG, offsetof(profile_settings, calibrate), NULL, NULL, NULL,
     "measure this machine's rates, with which plimsoll plan predicts times; no MODEL", NULL},
    {"seconds", PLM_OPTION_REAL, offsetof(profile_settings, seconds), "N", "8", NULL,
     "how long --calibrate measures", NULL},
    {"out", PLM_OPTION_TEXT, offsetof(profile_settings, out), "FILE", NULL, NULL,
     "where --calibrate writes; default: cpu.json or cuda.json in the user's cache", NULL},
    CLI_JSON(CLI_JSON_HELP),
};

static const plm_syntax syntax = {
    .command = "plimsoll profile",
    .summary = "Runs a few training steps of MODEL on drawn ids and tells time and memory of each "
               "operation and layer.",
    .operands = "MODEL",
    .operands_least = 0,
    .operands_most = 1,
    CLI_OPTIONS(options),
    .example =
        "plimsoll profile gpt:layers=4,width=256,heads=4,context=256,vocab=256 --sort memory\n"
        "  plimsoll profile --calibrate",
};

static plm_status measure(const plm_plan *plan, plm_device *device,
                          const profile_settings *settings, const char *model)
{
    plm_profile *profile = NULL;
    char *text = NULL;
    plm_profile_order order = (plm_profile_order)settings->order;
    plm_status status = plm_profile_create(plan, device, &profile);
    if (status == PLM_OK)
        status = plm_profile_run(profile, device, settings->steps, 0);
    if (status == PLM_OK)
        status = settings->choices.json ? plm_report_profile_json(profile, model, order, &text)
                                        : plm_report_profile_text(profile, model, order,
                                                                  cli_style(settings->rows), &text);
    plm_profile_destroy(profile);
    return cli_print(status, text, settings->choices.json);
}

/* Training alone: evaluation and generation are no part of a step. */
static plm_status profile_model(const profile_settings *settings, const char *model)
{
    cli_request request;
    plm_plan *plan = NULL;
    plm_status status = cli_request_open(&settings->choices, model, &request);
    if (status != PLM_OK)
        return status;
    request.job.evaluates = request.job.generates = false;
    if (request.strategy.micro_batch == 0)
        request.strategy.micro_batch = request.job.batch;
    status = plm_plan_create(&request.job, &request.strategy, request.device, &plan);
    if (status == PLM_OK)
        status = measure(plan, request.device, settings, model);
    plm_plan_destroy(plan);
    cli_request_close(&request);
    return status;
}

static void print_rates(const plm_device_profile *rates, const char *path)
{
    char overhead[PLM_SIZE_TEXT];
    if (rates->kind == PLM_DEVICE_CUDA)
        printf("%s: products %.1f TFLOP/s in bf16 and %.1f in fp32, memory %.2f TB/s, an operation "
               "%.1f us, context and libraries %s; written to %s\n",
               rates->name, rates->product_flops[PLM_DTYPE_BF16] * 1e-12,
               rates->product_flops[PLM_DTYPE_F32] * 1e-12, rates->bandwidth * 1e-12,
               rates->launch_seconds * 1e6, plm_size_format(rates->overhead_bytes, overhead), path);
    else
        printf("%s, %d thread%s: products %.1f GFLOP/s, memory %.1f GB/s, an operation %.1f us; "
               "written to %s\n",
               rates->name, rates->threads, rates->threads == 1 ? "" : "s",
               rates->product_flops[PLM_DTYPE_F32] * 1e-9, rates->bandwidth * 1e-9,
               rates->launch_seconds * 1e6, path);
}

static plm_status calibrate(const profile_settings *settings)
{
    plm_device *device = NULL;
    plm_device_profile rates;
    char path[CLI_PATH_TEXT];
    char *line = NULL;
    cli_cache_path(settings->choices.device, settings->out, path);
    plm_status status = plm_device_open(settings->choices.device,
                                        cli_threads(settings->choices.threads), 0, &device);
    if (status == PLM_OK)
        status = plm_calibrate(device, settings->seconds, &rates);
    plm_device_destroy(device);
    if (status == PLM_OK)
        status = plm_device_profile_save(&rates, path);
    if (status == PLM_OK && !settings->choices.json)
        print_rates(&rates, path);
    if (status != PLM_OK || !settings->choices.json)
        return status;
    status = plm_device_profile_json(&rates, &line);
    return cli_print(status, line, true);
}

int cmd_profile(int argc, char **argv)
{
    profile_settings settings = {0};
    plm_operands operands;
    int exit_status;
    if (!cli_parse(&syntax, argc, argv, &settings, &operands, &exit_status))
        return exit_status;
    if (operands.count == 0 && !settings.calibrate)
        return cli_wrong("profile wants a MODEL to run, or --calibrate");
    if (operands.count > 0 && settings.calibrate)
        return cli_wrong("--calibrate runs models of its own, not '%.60s'", operands.items[0]);
    return cli_finish(settings.calibrate ? calibrate(&settings)
                                         : profile_model(&settings, operands.items[0]));
}
