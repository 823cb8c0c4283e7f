/* SPDX-License-Identifier: MIT */
/* plimsoll profile: one measured step, operation by operation; or the rates of this machine. */
#include <stdio.h>

#include "cli.h"
#include "plimsoll/calibrate.h"
#include "plimsoll/profile.h"

typedef struct profile_settings {
    int64_t batch;
    int64_t sequence; /* 0: the model's context */
    int optimizer;
    int64_t threads;
    cli_choices choices;
    int64_t steps;
    int order;
    int64_t rows;
    const char *profile;
    bool calibrate;
    double seconds;
    const char *out;
    bool json;
} profile_settings;

static const plm_option options[] = {
    {"batch", PLM_OPTION_COUNT, offsetof(profile_settings, batch), "N", "8", NULL,
     "sequences in one update", NULL},
    {"micro-batch", PLM_OPTION_COUNT, offsetof(profile_settings, choices.micro_batch), "N", NULL,
     NULL, "sequences held at once, a divisor of the batch; default: the batch", NULL},
    {"seq", PLM_OPTION_COUNT, offsetof(profile_settings, sequence), "N", NULL, NULL,
     "tokens of a sequence; default: the model's context", NULL},
    {"recompute", PLM_OPTION_TEXT, offsetof(profile_settings, choices.recompute), "RUNG", "none",
     NULL, "what every block makes again in the backward pass, as in plimsoll train", NULL},
    {"head-chunks", PLM_OPTION_COUNT, offsetof(profile_settings, choices.head_chunks), "N", "1",
     NULL, "pieces in which head and loss run", NULL},
    {"attention", PLM_OPTION_CHOICE, offsetof(profile_settings, choices.attention), "FORM", "fused",
     "fused|plain", "how attention is computed", NULL},
    {"strategy", PLM_OPTION_TEXT, offsetof(profile_settings, choices.strategy), "FILE", NULL, NULL,
     "JSON that fixes every choice; goes before the options above", NULL},
    {"optimizer", PLM_OPTION_CHOICE, offsetof(profile_settings, optimizer), "NAME", "adamw",
     "adamw|sgd", "what updates the parameters", NULL},
    {"threads", PLM_OPTION_INTEGER, offsetof(profile_settings, threads), "N", "0", NULL,
     "threads that compute; 0: as many as the machine has", NULL},
    {"steps", PLM_OPTION_COUNT, offsetof(profile_settings, steps), "N", "3", NULL,
     "updates that are timed, after one that is not; of each operation the fastest counts", NULL},
    {"sort", PLM_OPTION_CHOICE, offsetof(profile_settings, order), "BY", "time", "time|memory",
     "what comes first", NULL},
    {"rows", PLM_OPTION_COUNT, offsetof(profile_settings, rows), "N", "16", NULL,
     "lines of each table", NULL},
    {"profile", PLM_OPTION_TEXT, offsetof(profile_settings, profile), "FILE", NULL, NULL,
     "rates of the device to compare with; default: what --calibrate measured here", NULL},
    {"calibrate", PLM_OPTION_FLAG, offsetof(profile_settings, calibrate), NULL, NULL, NULL,
     "measure this machine's rates, with which plimsoll plan predicts times; no MODEL", NULL},
    {"seconds", PLM_OPTION_REAL, offsetof(profile_settings, seconds), "N", "8", NULL,
     "how long --calibrate measures", NULL},
    {"out", PLM_OPTION_TEXT, offsetof(profile_settings, out), "FILE", NULL, NULL,
     "where --calibrate writes; default: cpu.json in the user's cache", NULL},
    {"json", PLM_OPTION_FLAG, offsetof(profile_settings, json), NULL, NULL, NULL,
     "print one JSON object on one line", NULL},
};

static const plm_syntax syntax = {
    .command = "plimsoll profile",
    .summary = "Runs a few training steps of MODEL on drawn ids and tells time and memory of each "
               "operation and layer.",
    .operands = "MODEL",
    .operands_least = 0,
    .operands_most = 1,
    .options = options,
    .option_count = sizeof options / sizeof *options,
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
        status = settings->json ? plm_report_profile_json(profile, model, order, &text)
                                : plm_report_profile_text(profile, model, order,
                                                          cli_style(settings->rows), &text);
    if (status == PLM_OK)
        printf("%s%s", text, settings->json ? "\n" : "");
    plm_report_free(text);
    plm_profile_destroy(profile);
    return status;
}

static plm_status profile_model(const char *name, const profile_settings *settings,
                                plm_device *device)
{
    plm_model model;
    plm_strategy strategy;
    plm_plan *plan = NULL;
    plm_status status = cli_strategy(&settings->choices, &strategy);
    if (status == PLM_OK)
        status = plm_model_parse(name, &model);
    if (status != PLM_OK)
        return status;
    cli_enlarge(&model, settings->sequence);
    plm_job job = {.network = plm_model_network(&model),
                   .batch = settings->batch,
                   .sequence = settings->sequence ? settings->sequence : model.context,
                   .trains = true,
                   .optimizer = (plm_optimizer)settings->optimizer};
    if (strategy.micro_batch == 0)
        strategy.micro_batch = job.batch;
    status = plm_plan_create(&job, &strategy, device, &plan);
    if (status == PLM_OK)
        status = measure(plan, device, settings, name);
    plm_plan_destroy(plan);
    return status;
}

static plm_status calibrate(const profile_settings *settings, plm_device *device)
{
    plm_device_profile rates;
    char path[CLI_PATH_TEXT];
    plm_status status = cli_cache_path(settings->out, path);
    if (status == PLM_OK)
        status = plm_calibrate(device, settings->seconds, &rates);
    if (status == PLM_OK)
        status = plm_device_profile_save(&rates, path);
    if (status == PLM_OK && !settings->json)
        printf("%s, %d thread%s: products %.1f GFLOP/s, memory %.1f GB/s, an operation %.1f us; "
               "written to %s\n",
               rates.name, rates.threads, rates.threads == 1 ? "" : "s",
               rates.product_flops[PLM_DTYPE_F32] * 1e-9, rates.bandwidth * 1e-9,
               rates.launch_seconds * 1e6, path);
    if (status == PLM_OK && settings->json) {
        char *line = NULL;
        status = plm_device_profile_json(&rates, &line);
        if (status == PLM_OK)
            puts(line);
        plm_device_profile_json_free(line);
    }
    return status;
}

int cmd_profile(int argc, char **argv)
{
    profile_settings settings;
    plm_operands operands;
    plm_device *device = NULL;
    plm_device_profile rates;
    const plm_device_profile *profile = NULL;
    int exit_status;
    if (!cli_parse(&syntax, argc, argv, &settings, &operands, &exit_status))
        return exit_status;
    if (operands.count == 0 && !settings.calibrate)
        return cli_wrong("profile wants a MODEL to run, or --calibrate");
    if (operands.count > 0 && settings.calibrate)
        return cli_wrong("--calibrate runs models of its own, not '%.60s'", operands.items[0]);
    plm_status status = plm_device_create_cpu(cli_threads(settings.threads), 0, &device);
    if (status == PLM_OK && !settings.calibrate)
        status = cli_profile(settings.profile, &rates, &profile);
    if (status == PLM_OK) {
        plm_device_use_profile(device, profile);
        status = settings.calibrate ? calibrate(&settings, device)
                                    : profile_model(operands.items[0], &settings, device);
    }
    plm_device_destroy(device);
    return cli_finish(status);
}
