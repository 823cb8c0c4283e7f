/* SPDX-License-Identifier: MIT */
/* plimsoll plan: the strategy for a budget, what it costs, and what was turned down. */
#include <stdio.h>

#include "choices.h"
#include "plimsoll/plan_report.h"

typedef struct plan_settings {
    cli_choices choices;
    const char *save_strategy;
} plan_settings;
CLI_CHOICES_COME_FIRST(plan_settings);

static const plm_option options[] = {
    CLI_BUDGET(CLI_BUDGET_HELP),
    CLI_BATCH(CLI_BATCH_HELP),
    CLI_SEQUENCE(CLI_SEQUENCE_HELP),
    CLI_MICRO_BATCH(CLI_MICRO_HELP "chosen"),
    CLI_RECOMPUTE("auto", CLI_RUNGS_HELP "chosen block by block"),
    CLI_HEAD_CHUNKS(NULL, CLI_CHUNKS_HELP "; default: chosen"),
    CLI_MLP_CHUNKS(NULL, CLI_MLP_CHUNKS_HELP "; default: chosen"),
    CLI_STRATEGY_ROWS,
    CLI_STRATEGY("JSON that fixes choices; goes before the options above"),
    CLI_OPTIMIZER(CLI_OPTIMIZER_HELP),
    CLI_DEVICE,
    CLI_THREADS(CLI_THREADS_PLAN_HELP),
    CLI_TARGET,
    CLI_PROFILE("rates of the device; default: what plimsoll profile --calibrate measured here"),
    {"save-strategy", PLM_OPTION_TEXT, offsetof(plan_settings, save_strategy), "FILE", NULL, NULL,
     "write the strategy, for train --strategy", NULL},
    CLI_JSON(CLI_JSON_HELP),
};

static const plm_syntax syntax = {
    .command = "plimsoll plan",
    .summary = "Finds the fastest way to train MODEL within a budget, says what it costs and what "
               "was turned down. Nothing is run.",
    CLI_ONE_OPERAND("MODEL"),
    CLI_OPTIONS(options),
    .example = "plimsoll plan gpt2 --batch 32 --budget 6GiB --save-strategy strategy.json\n"
               "  plimsoll plan gpt2-xl --target rtx4090 --precision bf16 --update early",
};

static plm_status print_advice(const plm_advice *advice, const char *model, bool json)
{
    char *text = NULL;
    plm_status status = json ? plm_report_advice_json(advice, model, cli_hints, &text)
                             : plm_report_advice_text(advice, model, cli_style(0), &text);
    return cli_print(status, text, json);
}

/* What is proposed is for train, which clips by itself. */
static bool proposes_early(const plm_advice *advice)
{
    bool early = advice->plan.strategy.update == PLM_UPDATE_EARLY;
    for (int i = 0; !advice->fits && i < advice->alternative_count; i++) {
        const plm_alternative *other = &advice->alternatives[i];
        early |= other->fits && other->plan.strategy.update == PLM_UPDATE_EARLY;
    }
    return early;
}

int cmd_plan(int argc, char **argv)
{
    plan_settings settings = {0};
    plm_operands operands;
    cli_request request;
    plm_advice *advice = NULL;
    int exit_status;
    if (!cli_parse(&syntax, argc, argv, &settings, &operands, &exit_status))
        return exit_status;
    plm_status status = cli_request_open(&settings.choices, operands.items[0], &request);
    if (status != PLM_OK)
        return cli_finish(status);
    if (request.budget_bytes == 0) {
        cli_request_close(&request);
        return cli_wrong("plan wants --budget SIZE, the memory that may be used, such as 6GiB, or "
                         "--target NAME, a GPU whose memory it is");
    }
    status =
        plm_advise(&request.job, &request.strategy, request.device, request.budget_bytes, &advice);
    bool fits = status == PLM_OK && advice->fits;
    if (fits && settings.save_strategy)
        status = plm_strategy_save(&advice->plan.strategy, settings.save_strategy);
    if (status == PLM_OK)
        status = print_advice(advice, operands.items[0], settings.choices.json);
    if (status == PLM_OK && !settings.choices.json && proposes_early(advice))
        puts(
            "train wants --clip 0 with --update early, which never sees the norm of all gradients");
    plm_advice_destroy(advice);
    cli_request_close(&request);
    if (status != PLM_OK)
        return cli_finish(status);
    return fits ? CLI_DONE : CLI_NO;
}
