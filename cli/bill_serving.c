/* SPDX-License-Identifier: MIT */
/* plimsoll bill --serve: what serving takes, of several configs on several targets. */
#include <string.h>

#include "bill.h"
#include "bill_targets.h"
#include "plimsoll/serve_bill.h"

/* The types of CLI_CACHES, in that order. */
static const plm_stored caches[] = {PLM_STORED_BF16, PLM_STORED_F16,  PLM_STORED_F32,
                                    PLM_STORED_FP8,  PLM_STORED_Q8_0, PLM_STORED_Q4_0};

/* What the line asks for, of one model on one target. */
static plm_serve_job job_of(const cli_bill_settings *settings, const plm_config *config,
                            const cli_bill_target *target)
{
    plm_serve_job job = plm_serve_job_default();
    const cli_config_choices *c = &settings->config;
    if (settings->choices.sequence > 0)
        job.sequence = settings->choices.sequence;
    else if (config->positions < job.sequence)
        job.sequence = config->positions;
    if (settings->choices.batch > 0)
        job.batch = settings->choices.batch;
    job.weights = (plm_stored)c->weights;
    job.keys = caches[c->cache];
    job.values = c->cache_values >= 0 ? caches[c->cache_values] : job.keys;
    job.parallel = c->tensor_parallel;
    job.prefill = c->prefill;
    job.page = c->page;
    job.caches_all_tokens = c->cache_all_tokens;
    job.budget_bytes = target->budget_bytes;
    job.overhead_bytes = target->overhead_bytes;
    return job;
}

typedef struct table {
    plm_config configs[PLM_OPERANDS_MAX];
    plm_serve_bill bills[PLM_OPERANDS_MAX * CLI_BILL_TARGETS_MAX];
    plm_serve_entry entries[PLM_OPERANDS_MAX * CLI_BILL_TARGETS_MAX];
    int64_t count;
} table;

static plm_status fill(const cli_bill_settings *settings, const plm_operands *operands,
                       const cli_bill_targets *targets, table *filled)
{
    plm_status status = PLM_OK;
    for (int i = 0; i < operands->count && status == PLM_OK; i++) {
        plm_config *config = &filled->configs[i];
        status = plm_config_load(operands->items[i], config);
        for (int t = 0; t < targets->count && status == PLM_OK; t++) {
            const cli_bill_target *target = &targets->items[t];
            plm_serve_job job = job_of(settings, config, target);
            plm_serve_bill *bill = &filled->bills[filled->count];
            status = plm_serve_bill_make(config, &job, bill);
            filled->entries[filled->count++] = (plm_serve_entry){
                config, bill, target->name[0] ? target->name : NULL, target->memory_bytes};
        }
    }
    return status;
}

int cli_bill_serving(const cli_bill_settings *settings, const plm_operands *operands)
{
    static table filled; /* of some kilobytes for each model */
    cli_bill_targets targets;
    char *text = NULL;
    int exit_status;
    if (!cli_bill_targets_find(&settings->choices, &targets, &exit_status))
        return exit_status;
    filled.count = 0;
    plm_status status = fill(settings, operands, &targets, &filled);
    if (status != PLM_OK)
        return cli_finish(status);
    status = settings->choices.json
                 ? plm_report_serve_json(filled.entries, filled.count, &text)
                 : plm_report_serve_text(filled.entries, filled.count, cli_style(0), &text);
    status = cli_print(status, text, settings->choices.json);
    if (status != PLM_OK)
        return cli_finish(status);
    bool fits = false; /* any of them */
    for (int64_t i = 0; i < filled.count; i++)
        fits |= filled.bills[i].fits;
    return fits ? CLI_DONE : CLI_NO;
}
