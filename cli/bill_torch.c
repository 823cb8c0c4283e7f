/* SPDX-License-Identifier: MIT */
/* plimsoll bill --as torch: what PyTorch's own training holds, of several configs and targets. */
#include <stdio.h>
#include <string.h>

#include "bill.h"
#include "bill_targets.h"
#include "plimsoll/optimizer.h"
#include "plimsoll/serve_bill.h"
#include "plimsoll/torch_bill.h"

/* The types that PyTorch's weights may have, by plm_stored; PLM_DTYPE_COUNT: none. */
static const plm_dtype dtypes[PLM_STORED_COUNT] = {
    [PLM_STORED_AS_FILE] = PLM_DTYPE_COUNT, [PLM_STORED_F32] = PLM_DTYPE_F32,
    [PLM_STORED_BF16] = PLM_DTYPE_BF16,     [PLM_STORED_F16] = PLM_DTYPE_F16,
    [PLM_STORED_FP8] = PLM_DTYPE_COUNT,     [PLM_STORED_Q8_0] = PLM_DTYPE_COUNT,
    [PLM_STORED_Q4_0] = PLM_DTYPE_COUNT,    [PLM_STORED_NF4] = PLM_DTYPE_COUNT,
};

static void put_text(const char *text, char field[PLM_TORCH_LIST_TEXT])
{
    if (text)
        snprintf(field, PLM_TORCH_LIST_TEXT, "%s", text);
}

/* --precision and --optimizer, where the program has them, say of PyTorch what their words say. */
static void read_shared(const cli_choices *choices, plm_torch_job *job)
{
    const char *optimizer = plm_optimizer_text((plm_optimizer)choices->optimizer);
    for (int optim = 0; optim < PLM_TORCH_OPTIM_COUNT && choices->optimizer > 0; optim++)
        if (strcmp(optimizer, plm_torch_optim_text((plm_torch_optim)optim)) == 0)
            job->optim = (plm_torch_optim)optim;
    if (choices->precision == CLI_PRECISION_BF16)
        job->weights = PLM_DTYPE_BF16;
    else if (choices->precision == CLI_PRECISION_F16)
        job->weights = PLM_DTYPE_F16;
}

/* What the line says, over what a settings file said. */
static void read_line(const cli_bill_settings *settings, const plm_config *config,
                      plm_torch_job *job)
{
    const cli_config_choices *c = &settings->config;
    bool is_base_kept = job->lora[0] || c->lora;
    put_text(c->lora, job->lora);
    put_text(c->lora_exclude, job->lora_exclude);
    put_text(c->lora_saves, job->lora_saves);
    if (settings->choices.batch > 0)
        job->batch = settings->choices.batch;
    if (settings->choices.sequence > 0)
        job->sequence = settings->choices.sequence;
    if (c->rank > 0)
        job->rank = c->rank;
    if (c->lora_dropout >= 0)
        job->lora_dropout = c->lora_dropout;
    if (c->ranks > 0)
        job->ranks = c->ranks;
    if (c->shard >= 0)
        job->shard = (plm_torch_shard)c->shard;
    job->autocasts |= c->autocast;
    job->recomputes |= c->checkpointing;
    job->quantizes |= c->quantize >= 0 || c->weights == PLM_STORED_NF4;
    job->double_quantizes |= c->double_quant;
    job->prepares |= c->prepare_kbit;
    /* A frozen base is loaded as it is stored; one that is trained is in fp32. */
    job->weights =
        (is_base_kept || job->quantizes) && config->tells_dtype ? config->dtype : PLM_DTYPE_F32;
    read_shared(&settings->choices, job);
    if (c->optim >= 0)
        job->optim = (plm_torch_optim)c->optim;
    if (dtypes[c->weights] != PLM_DTYPE_COUNT)
        job->weights = dtypes[c->weights];
}

static plm_status make(const cli_bill_settings *settings, const plm_config *config,
                       plm_torch_bill *bill)
{
    plm_torch_job job = plm_torch_job_default();
    if (config->positions < job.sequence)
        job.sequence = config->positions;
    if (settings->config.settings) {
        plm_status status = plm_torch_settings_load(settings->config.settings, config, &job);
        if (status != PLM_OK)
            return status;
    }
    read_line(settings, config, &job);
    return plm_torch_bill_make(config, &job, bill);
}

typedef struct table {
    plm_config configs[PLM_OPERANDS_MAX];
    plm_torch_bill bills[PLM_OPERANDS_MAX];
    plm_torch_entry entries[PLM_OPERANDS_MAX * CLI_BILL_TARGETS_MAX];
    int64_t count;
} table;

static plm_status fill(const cli_bill_settings *settings, const plm_operands *operands,
                       const cli_bill_targets *targets, table *filled)
{
    plm_status status = PLM_OK;
    for (int i = 0; i < operands->count && status == PLM_OK; i++) {
        status = plm_config_load(operands->items[i], &filled->configs[i]);
        if (status == PLM_OK)
            status = make(settings, &filled->configs[i], &filled->bills[i]);
        for (int t = 0; t < targets->count && status == PLM_OK; t++) {
            const cli_bill_target *target = &targets->items[t];
            filled->entries[filled->count++] = (plm_torch_entry){
                &filled->configs[i], &filled->bills[i], target->name[0] ? target->name : NULL,
                target->budget_bytes, target->overhead_bytes};
        }
    }
    return status;
}

/* Lists that a job has no room for. */
static bool lists_are_short(const cli_config_choices *c)
{
    const char *lists[] = {c->lora, c->lora_exclude, c->lora_saves};
    for (int i = 0; i < 3; i++)
        if (lists[i] && strlen(lists[i]) >= PLM_TORCH_LIST_TEXT)
            return false;
    return true;
}

static bool any_fits(const table *filled)
{
    for (int64_t i = 0; i < filled->count; i++)
        if (plm_torch_entry_fits(&filled->entries[i]))
            return true;
    return false;
}

int cli_bill_torch(const cli_bill_settings *settings, const plm_operands *operands)
{
    static table filled; /* of some kilobytes for each model */
    cli_bill_targets targets;
    char *text = NULL;
    int exit_status;
    if (!lists_are_short(&settings->config))
        return cli_wrong("wanted lists of modules of less than %d bytes, found a longer one",
                         PLM_TORCH_LIST_TEXT);
    if (!cli_bill_targets_find(&settings->choices, &targets, &exit_status))
        return exit_status;
    filled.count = 0;
    plm_status status = fill(settings, operands, &targets, &filled);
    if (status != PLM_OK)
        return cli_finish(status);
    status = settings->choices.json
                 ? plm_report_torch_bill_json(filled.entries, filled.count, &text)
                 : plm_report_torch_bill_text(filled.entries, filled.count, cli_style(0), &text);
    status = cli_print(status, text, settings->choices.json);
    if (status != PLM_OK)
        return cli_finish(status);
    return any_fits(&filled) ? CLI_DONE : CLI_NO;
}
