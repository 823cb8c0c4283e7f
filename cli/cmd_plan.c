/* SPDX-License-Identifier: MIT */
/* plimsoll plan: the strategy for a budget, what it costs, and what was turned down. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

typedef struct plan_settings {
    size_t budget_bytes; /* 0: not given */
    int64_t batch;
    int64_t sequence; /* 0: the model's context */
    int precision;    /* what is built is the only choice */
    int optimizer;
    int64_t threads;
    cli_choices choices;
    const char *profile;
    const char *save_strategy;
    bool json;
} plan_settings;

static const plm_option options[] = {
    {"budget", PLM_OPTION_SIZE, offsetof(plan_settings, budget_bytes), "SIZE", NULL, NULL,
     "the memory that may be used: 12GiB, 512MiB", NULL},
    {"batch", PLM_OPTION_COUNT, offsetof(plan_settings, batch), "N", "8", NULL,
     "sequences in one update", NULL},
    {"seq", PLM_OPTION_COUNT, offsetof(plan_settings, sequence), "N", NULL, NULL,
     "tokens of a sequence; default: the model's context", NULL},
    {"micro-batch", PLM_OPTION_COUNT, offsetof(plan_settings, choices.micro_batch), "N", NULL, NULL,
     "sequences held at once, a divisor of the batch; default: chosen", NULL},
    {"recompute", PLM_OPTION_TEXT, offsetof(plan_settings, choices.recompute), "RUNG", "auto", NULL,
     "what every block makes again in the backward pass: none, act, norm, mlp, block, attention, "
     "a sum such as mlp+attention, or auto: chosen block by block",
     NULL},
    {"head-chunks", PLM_OPTION_COUNT, offsetof(plan_settings, choices.head_chunks), "N", NULL, NULL,
     "pieces in which head and loss run; default: chosen", NULL},
    {"attention", PLM_OPTION_CHOICE, offsetof(plan_settings, choices.attention), "FORM", "fused",
     "fused|plain", "how attention is computed", NULL},
    {"strategy", PLM_OPTION_TEXT, offsetof(plan_settings, choices.strategy), "FILE", NULL, NULL,
     "JSON that fixes choices; goes before the four options above", NULL},
    {"precision", PLM_OPTION_CHOICE, offsetof(plan_settings, precision), "TYPE", "fp32", "fp32",
     "of weights and activations", NULL},
    {"optimizer", PLM_OPTION_CHOICE, offsetof(plan_settings, optimizer), "NAME", "adamw",
     "adamw|sgd", "what updates the parameters: sgd keeps one moment, adamw two", NULL},
    {"threads", PLM_OPTION_INTEGER, offsetof(plan_settings, threads), "N", "0", NULL,
     "threads that would compute, each with a workspace of its own; 0: as many as the machine has",
     NULL},
    {"profile", PLM_OPTION_TEXT, offsetof(plan_settings, profile), "FILE", NULL, NULL,
     "rates of the device; default: what plimsoll profile --calibrate measured here", NULL},
    {"save-strategy", PLM_OPTION_TEXT, offsetof(plan_settings, save_strategy), "FILE", NULL, NULL,
     "write the strategy, for train --strategy", NULL},
    {"json", PLM_OPTION_FLAG, offsetof(plan_settings, json), NULL, NULL, NULL,
     "print one JSON object on one line", NULL},
};

static const plm_syntax syntax = {
    .command = "plimsoll plan",
    .summary = "Finds the fastest way to train MODEL within a budget, says what it costs and what "
               "was turned down. Nothing is run.",
    .operands = "MODEL",
    .operands_least = 1,
    .operands_most = 1,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .example = "plimsoll plan gpt2 --batch 32 --budget 6GiB --save-strategy strategy.json",
};

static plm_status advise(const plm_model *model, const plan_settings *settings,
                         const plm_strategy *strategy, const plm_device_profile *profile,
                         plm_advice **advice)
{
    plm_job job = {.network = plm_model_network(model),
                   .batch = settings->batch,
                   .sequence = settings->sequence ? settings->sequence : model->context,
                   .trains = true,
                   .evaluates = true,
                   .generates = !plm_model_is_masked(model),
                   .optimizer = (plm_optimizer)settings->optimizer};
    plm_device *device = NULL;
    plm_status status = plm_device_create_cpu(cli_threads(settings->threads), 0, &device);
    if (status != PLM_OK)
        return status;
    plm_device_use_profile(device, profile);
    status = plm_advise(&job, strategy, device, settings->budget_bytes, advice);
    plm_device_destroy(device);
    return status;
}

static plm_status print_advice(const plm_advice *advice, const char *model,
                               const plan_settings *settings)
{
    char *text = NULL;
    plm_status status = settings->json ? plm_report_advice_json(advice, model, &text)
                                       : plm_report_advice_text(advice, model, cli_style(0), &text);
    if (status == PLM_OK)
        printf("%s%s", text, settings->json ? "\n" : "");
    plm_report_free(text);
    return status;
}

int cmd_plan(int argc, char **argv)
{
    plan_settings settings;
    plm_operands operands;
    plm_model model;
    plm_strategy strategy;
    plm_device_profile rates;
    const plm_device_profile *profile = NULL;
    plm_advice *advice = NULL;
    int exit_status;
    if (!cli_parse(&syntax, argc, argv, &settings, &operands, &exit_status))
        return exit_status;
    if (settings.budget_bytes == 0)
        return cli_wrong("plan wants --budget SIZE, the memory that may be used, such as 6GiB");
    plm_status status = cli_strategy(&settings.choices, &strategy);
    if (status == PLM_OK)
        status = plm_model_parse(operands.items[0], &model);
    if (status == PLM_OK)
        status = cli_profile(settings.profile, &rates, &profile);
    if (status == PLM_OK)
        cli_enlarge(&model, settings.sequence);
    if (status == PLM_OK)
        status = advise(&model, &settings, &strategy, profile, &advice);
    if (status == PLM_OK)
        status = print_advice(advice, operands.items[0], &settings);
    bool fits = status == PLM_OK && advice->fits;
    if (fits && settings.save_strategy)
        status = plm_strategy_save(&advice->plan.strategy, settings.save_strategy);
    plm_advice_destroy(advice);
    if (status != PLM_OK)
        return cli_finish(status);
    return fits ? CLI_DONE : CLI_NO;
}
