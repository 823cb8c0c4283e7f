/* SPDX-License-Identifier: MIT */
/* plimsoll bill: where the memory of a training step goes, told from a plan that is not run. */
#include <stdio.h>

#include "cli.h"
#include "plimsoll/device.h"
#include "plimsoll/export.h"
#include "plimsoll/model.h"

typedef struct bill_settings {
    int64_t batch;
    int64_t sequence;    /* 0: the model's context */
    size_t budget_bytes; /* 0: none */
    cli_choices choices;
    const char *profile;
    int64_t rows;
    const char *report; /* file of the page, NULL: none */
    bool json;
    int64_t threads;
    int optimizer;
    int precision; /* what is built is the only choice */
} bill_settings;

static const plm_option options[] = {
    {"batch", PLM_OPTION_COUNT, offsetof(bill_settings, batch), "N", "8", NULL,
     "sequences in one update", NULL},
    {"micro-batch", PLM_OPTION_COUNT, offsetof(bill_settings, choices.micro_batch), "N", NULL, NULL,
     "sequences held at once, a divisor of the batch; default: the batch, or the most that fit the "
     "budget",
     NULL},
    {"seq", PLM_OPTION_COUNT, offsetof(bill_settings, sequence), "N", NULL, NULL,
     "tokens of a sequence; default: the model's context", NULL},
    {"precision", PLM_OPTION_CHOICE, offsetof(bill_settings, precision), "TYPE", "fp32", "fp32",
     "of weights and activations", NULL},
    {"optimizer", PLM_OPTION_CHOICE, offsetof(bill_settings, optimizer), "NAME", "adamw",
     "adamw|sgd", "what updates the parameters: sgd keeps one moment, adamw two", NULL},
    {"attention", PLM_OPTION_CHOICE, offsetof(bill_settings, choices.attention), "FORM", "fused",
     "fused|plain", "how attention is computed", NULL},
    {"recompute", PLM_OPTION_TEXT, offsetof(bill_settings, choices.recompute), "RUNG", "auto", NULL,
     "what every block makes again in the backward pass: none, act, norm, mlp, block, attention, "
     "a sum such as mlp+attention, or auto: none, or what the budget asks for",
     NULL},
    {"head-chunks", PLM_OPTION_COUNT, offsetof(bill_settings, choices.head_chunks), "N", NULL, NULL,
     "pieces in which head and loss run; default: 1, or what the budget asks for", NULL},
    {"budget", PLM_OPTION_SIZE, offsetof(bill_settings, budget_bytes), "SIZE", NULL, NULL,
     "the memory that may be used: 12GiB, 512MiB", NULL},
    {"strategy", PLM_OPTION_TEXT, offsetof(bill_settings, choices.strategy), "FILE", NULL, NULL,
     "JSON that fixes every choice; goes before --micro-batch, --attention, --recompute and "
     "--head-chunks",
     NULL},
    {"profile", PLM_OPTION_TEXT, offsetof(bill_settings, profile), "FILE", NULL, NULL,
     "rates of the device, as in plimsoll plan", NULL},
    {"threads", PLM_OPTION_INTEGER, offsetof(bill_settings, threads), "N", "0", NULL,
     "threads that would compute, each with a workspace of its own; 0: as many as the machine has",
     NULL},
    {"rows", PLM_OPTION_COUNT, offsetof(bill_settings, rows), "N", "12", NULL,
     "lines of the table of what is live at the peak", NULL},
    {"report", PLM_OPTION_TEXT, offsetof(bill_settings, report), "FILE", NULL, NULL,
     "write the plan over time as an HTML page too", NULL},
    {"json", PLM_OPTION_FLAG, offsetof(bill_settings, json), NULL, NULL, NULL,
     "print one JSON object on one line", NULL},
};

static const plm_syntax syntax = {
    .command = "plimsoll bill",
    .summary = "Tells to the byte what a training step needs and what is live at its peak. MODEL "
               "is gpt2, gpt2-medium, gpt2-large, gpt2-xl, bert-base, bert-large or a description. "
               "Nothing is run.",
    .operands = "MODEL",
    .operands_least = 1,
    .operands_most = 1,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .example =
        "plimsoll bill gpt2 --batch 8 --attention plain\n"
        "  plimsoll bill gpt:layers=6,width=384,heads=6,context=256,vocab=256 --budget 256MiB",
};

/* Plans as training would. When no plan fits the budget, *plan is the smallest one and *refusal
 * says so. */
static plm_status plan_within(const plm_job *job, plm_strategy strategy, size_t budget_bytes,
                              plm_device *device, plm_plan **plan, plm_error *refusal)
{
    size_t smallest = 0;
    if (budget_bytes == 0) {
        if (strategy.micro_batch == 0)
            strategy.micro_batch = job->batch;
        if (strategy.head_chunks == 0)
            strategy.head_chunks = 1;
        if (strategy.recompute & PLM_RECOMPUTE_AUTO)
            strategy.recompute = PLM_RECOMPUTE_NONE;
        return plm_plan_create(job, &strategy, device, plan);
    }
    plm_status status = plm_plan_for_budget(job, &strategy, device, budget_bytes, &smallest, plan);
    if (status != PLM_ERROR_BUDGET)
        return status;
    plm_error_get(refusal);
    return plm_plan_for_budget(job, &strategy, device, smallest, NULL, plan);
}

static plm_status make_plan(const plm_model *model, const bill_settings *settings,
                            const plm_strategy *strategy, const plm_device_profile *profile,
                            plm_plan **plan, plm_advice **treatments, plm_error *refusal)
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
    if (status == PLM_OK)
        plm_device_use_profile(device, profile);
    if (status == PLM_OK)
        status = plan_within(&job, *strategy, settings->budget_bytes, device, plan, refusal);
    if (status == PLM_OK) {
        plm_plan_summary made = plm_plan_summarize(*plan);
        status =
            plm_advise_treatments(&job, &made.strategy, device, settings->budget_bytes, treatments);
    }
    plm_device_destroy(device);
    return status;
}

/* The plan's trace, which the bill holds, as a page. */
static plm_status write_page(const plm_bill *bill, const char *model, const char *path)
{
    plm_export_source source = {.trace = bill->trace, .name = "plan of one training step"};
    return plm_export_page(path, model, &source, 1);
}

static plm_status print_bill(const plm_plan *plan, const plm_advice *treatments, const char *model,
                             const bill_settings *settings)
{
    plm_bill *bill = NULL;
    char *text = NULL;
    plm_status status = plm_plan_bill(plan, model, settings->budget_bytes, &bill);
    if (status == PLM_OK)
        bill->treatments = treatments;
    if (status == PLM_OK && settings->report)
        status = write_page(bill, model, settings->report);
    if (status == PLM_OK)
        status = settings->json ? plm_report_bill_json(bill, &text)
                                : plm_report_bill_text(bill, cli_style(settings->rows), &text);
    if (status == PLM_OK)
        printf("%s%s", text, settings->json ? "\n" : "");
    plm_report_free(text);
    plm_bill_destroy(bill);
    return status;
}

int cmd_bill(int argc, char **argv)
{
    bill_settings settings;
    plm_operands operands;
    plm_model model;
    plm_strategy strategy;
    plm_plan *plan = NULL;
    plm_advice *treatments = NULL;
    plm_error refusal = {0};
    plm_device_profile rates;
    const plm_device_profile *profile = NULL;
    int exit_status;
    if (!cli_parse(&syntax, argc, argv, &settings, &operands, &exit_status))
        return exit_status;
    plm_status status = cli_strategy(&settings.choices, &strategy);
    if (status == PLM_OK)
        status = cli_profile(settings.profile, &rates, &profile);
    if (status == PLM_OK)
        status = plm_model_parse(operands.items[0], &model);
    if (status == PLM_OK)
        cli_enlarge(&model, settings.sequence);
    if (status == PLM_OK)
        status = make_plan(&model, &settings, &strategy, profile, &plan, &treatments, &refusal);
    if (status == PLM_OK)
        status = print_bill(plan, treatments, operands.items[0], &settings);
    plm_advice_destroy(treatments);
    plm_plan_destroy(plan);
    if (status != PLM_OK || refusal.status == PLM_OK)
        return cli_finish(status);
    cli_wrong("%s", refusal.message);
    return CLI_NO;
}
