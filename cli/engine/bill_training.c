/* SPDX-License-Identifier: MIT */
/* plimsoll bill of a training step of our own: where its memory goes, told from a plan that is not
 * run. */
#include <stdio.h>

#include "bill.h"
#include "plimsoll/export.h"
#include "plimsoll/plan_report.h"
#include "plimsoll/size.h"
#include "plimsoll/tape.h"

/* What is left open, as training would choose it without a budget. */
static void settle(const plm_job *job, plm_strategy *strategy)
{
    if (strategy->micro_batch == 0)
        strategy->micro_batch = job->batch;
    if (strategy->head_chunks == 0)
        strategy->head_chunks = 1;
    if (strategy->mlp_chunks == 0)
        strategy->mlp_chunks = 1;
    if (strategy->recompute & PLM_RECOMPUTE_AUTO)
        strategy->recompute = PLM_RECOMPUTE_NONE;
    if (strategy->attention == PLM_ATTENTION_AUTO)
        strategy->attention = PLM_ATTENTION_FUSED;
}

/* Plans as training would: for a budget when the line states one. When no plan fits it, *plan is
 * the smallest one and *refusal says so. */
static plm_status plan_within(const plm_job *job, plm_strategy strategy, size_t budget_bytes,
                              plm_device *device, plm_plan **plan, plm_error *refusal)
{
    size_t smallest = 0;
    if (budget_bytes == 0) {
        settle(job, &strategy);
        return plm_plan_create(job, &strategy, device, plan);
    }
    plm_status status = plm_plan_for_budget(job, &strategy, device, budget_bytes, &smallest, plan);
    if (status != PLM_ERROR_BUDGET)
        return status;
    plm_error_get(refusal);
    return plm_plan_for_budget(job, &strategy, device, smallest, NULL, plan);
}

static plm_status make_plan(const cli_request *request, bool has_budget, plm_plan **plan,
                            plm_advice **treatments, plm_error *refusal)
{
    plm_status status =
        plan_within(&request->job, request->strategy, has_budget ? request->budget_bytes : 0,
                    request->device, plan, refusal);
    if (status != PLM_OK)
        return status;
    plm_plan_summary made = plm_plan_summarize(*plan);
    return plm_advise_treatments(&request->job, &made.strategy, request->device,
                                 request->budget_bytes, treatments);
}

/* The plan's trace, which the bill holds, as a page. */
static plm_status write_page(const plm_bill *bill, const char *model, const char *path)
{
    plm_export_source source = {.trace = bill->trace, .name = "plan of one training step"};
    return plm_export_page(path, model, &source, 1);
}

/* The plan in the time that the device's rates predict. */
static plm_status write_trace(const plm_plan *plan, const plm_device *device, const char *model,
                              const char *path)
{
    plm_tape *tape = NULL;
    plm_status status = plm_tape_predict(plan, device, &tape);
    if (status == PLM_OK)
        status = plm_tape_export(tape, path, model);
    plm_tape_destroy(tape);
    return status;
}

static plm_status print_bill(const plm_plan *plan, const plm_advice *treatments, const char *model,
                             size_t budget_bytes, const cli_bill_settings *settings)
{
    plm_bill *bill = NULL;
    char *text = NULL;
    plm_status status = plm_plan_bill(plan, model, budget_bytes, &bill);
    if (status == PLM_OK)
        bill->treatments = treatments;
    if (status == PLM_OK && settings->report)
        status = write_page(bill, model, settings->report);
    if (status == PLM_OK)
        status = settings->choices.json
                     ? plm_report_bill_json(bill, &text)
                     : plm_report_bill_text(bill, cli_style(settings->rows), &text);
    plm_bill_destroy(bill);
    return cli_print(status, text, settings->choices.json);
}

/* Of a plan that nothing was searched for: whether it is over the memory of its target. */
static int say_no(const plm_plan_summary *plan, const cli_request *request)
{
    char peak[PLM_SIZE_TEXT], memory[PLM_SIZE_TEXT];
    cli_wrong("a peak of %s does not fit the budget of %s on %s; plimsoll plan finds what does",
              plm_size_format(plan->peak_bytes, peak),
              plm_size_format(request->budget_bytes, memory), request->rates.name);
    return CLI_NO;
}

int cli_bill_training(cli_bill_settings *settings, const char *model)
{
    cli_request request;
    plm_plan *plan = NULL;
    plm_advice *treatments = NULL;
    plm_error refusal = {0};
    if (settings->choices.batch == 0)
        settings->choices.batch = CLI_BATCH_DEFAULT;
    plm_status status = cli_request_open(&settings->choices, model, &request);
    if (status != PLM_OK)
        return cli_finish(status);
    status = make_plan(&request, settings->choices.budget_bytes > 0, &plan, &treatments, &refusal);
    if (status == PLM_OK && settings->trace)
        status = write_trace(plan, request.device, model, settings->trace);
    if (status == PLM_OK)
        status = print_bill(plan, treatments, model, request.budget_bytes, settings);
    plm_plan_summary made = {0};
    if (status == PLM_OK)
        made = plm_plan_summarize(plan);
    plm_advice_destroy(treatments);
    plm_plan_destroy(plan);
    cli_request_close(&request);
    if (status != PLM_OK)
        return cli_finish(status);
    if (refusal.status != PLM_OK) {
        cli_wrong("%s", refusal.message);
        return CLI_NO;
    }
    bool fits = request.budget_bytes == 0 || made.peak_bytes <= request.budget_bytes;
    return fits ? CLI_DONE : say_no(&made, &request);
}
