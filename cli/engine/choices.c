/* SPDX-License-Identifier: MIT */
/* The choices of a line become a model, a job, a strategy and a device. */
#include "choices.h"

#include <stdio.h>

#include "plimsoll/size.h"

/* What the words of a choice stand for, in the lists' order. */
static const plm_attention_form attentions[] = {
#define ATTENTION_ROW(name, text) PLM_ATTENTION_##name,
    CLI_ATTENTIONS(ATTENTION_ROW)
#undef ATTENTION_ROW
};
static const plm_dtype precisions[] = {
#define PRECISION_ROW(name, text) PLM_DTYPE_##name,
    CLI_PRECISIONS(PRECISION_ROW)
#undef PRECISION_ROW
};
static const plm_dtype gradients[] = {
#define GRADIENT_ROW(name, text) PLM_DTYPE_##name,
    CLI_GRADIENTS(GRADIENT_ROW)
#undef GRADIENT_ROW
};
static const plm_update_time updates[] = {
#define UPDATE_ROW(name, text) PLM_UPDATE_##name,
    CLI_UPDATES(UPDATE_ROW)
#undef UPDATE_ROW
};

/* *strategy = the choices of the file, or those of the line. */
static plm_status read_strategy(const cli_choices *choices, plm_strategy *strategy)
{
    *strategy = plm_strategy_default();
    if (choices->strategy)
        return plm_strategy_load(choices->strategy, strategy);
    strategy->micro_batch = choices->micro_batch;
    strategy->head_chunks = choices->head_chunks;
    strategy->mlp_chunks = choices->mlp_chunks;
    strategy->attention = attentions[choices->attention];
    strategy->precision = precisions[choices->precision];
    strategy->gradient = gradients[choices->gradient];
    strategy->update = updates[choices->update];
    return plm_strategy_recompute_parse(strategy, choices->recompute, &strategy->recompute);
}

int32_t cli_threads(int64_t threads)
{
    return threads < INT32_MAX ? (int32_t)threads : INT32_MAX;
}

/* Gives a model a position for each token of a sequence. */
static void enlarge(plm_model *model, int64_t sequence)
{
    if (sequence <= model->context || sequence > PLM_SEQUENCE_MAX)
        return; /* a sequence beyond the largest is for the plan to refuse */
    fprintf(stderr, "plimsoll: the position table of %s is enlarged from %lld to %lld rows\n",
            model->name, (long long)model->context, (long long)sequence);
    model->context = sequence;
}

static plm_status open_here(const cli_choices *choices, cli_request *request)
{
    const plm_device_profile *profile = NULL;
    plm_status status =
        plm_device_open(choices->device, cli_threads(choices->threads), 0, &request->device);
    if (status == PLM_OK)
        status = cli_profile(choices->profile, choices->device, request->device, &request->rates,
                             &profile);
    if (status != PLM_OK)
        return status;
    plm_device_be_deterministic(request->device, choices->deterministic);
    plm_device_use_profile(request->device, profile);
    return PLM_OK;
}

static plm_status open_target(const cli_choices *choices, cli_request *request)
{
    plm_status status = plm_device_profile_find(choices->target, &request->rates);
    if (status != PLM_OK)
        return status;
    if (choices->threads > 0)
        request->rates.threads = cli_threads(choices->threads);
    return plm_device_create_target(&request->rates, &request->device);
}

/* No plan for a device is over what it has. */
static void settle_budget(const cli_choices *choices, cli_request *request)
{
    char wanted[PLM_SIZE_TEXT], found[PLM_SIZE_TEXT];
    size_t memory = choices->target ? request->rates.memory_bytes : 0;
    request->budget_bytes = cli_target_budget(choices->budget_bytes, memory);
    if (request->budget_bytes == choices->budget_bytes)
        return;
    if (choices->budget_bytes == 0) {
        fprintf(stderr,
                "plimsoll: the budget is %s: the %s of %s less 2 %% that drivers and other "
                "programs may hold; --budget states another\n",
                plm_size_format(request->budget_bytes, wanted), plm_size_format(memory, found),
                request->rates.name);
    } else {
        fprintf(stderr, "plimsoll: the budget of %s is over the %s of %s, which is planned for\n",
                plm_size_format(choices->budget_bytes, wanted), plm_size_format(memory, found),
                request->rates.name);
    }
}

void cli_request_close(cli_request *request)
{
    plm_device_destroy(request->device);
}

plm_status cli_request_open(const cli_choices *choices, const char *model, cli_request *request)
{
    request->device = NULL;
    plm_status status = read_strategy(choices, &request->strategy);
    if (status == PLM_OK)
        status = plm_model_parse(model, &request->model);
    if (status == PLM_OK)
        status = choices->target ? open_target(choices, request) : open_here(choices, request);
    if (status != PLM_OK) {
        cli_request_close(request);
        return status;
    }
    settle_budget(choices, request);
    if (request->strategy.precision == PLM_PRECISION_AUTO)
        request->strategy.precision = plm_device_precision(request->device);
    enlarge(&request->model, choices->sequence);
    request->job =
        (plm_job){.network = plm_model_network(&request->model),
                  .batch = choices->batch,
                  .sequence = choices->sequence ? choices->sequence : request->model.context,
                  .trains = true,
                  .evaluates = true,
                  .generates = !plm_model_is_masked(&request->model),
                  .optimizer = (plm_optimizer)choices->optimizer};
    return PLM_OK;
}
