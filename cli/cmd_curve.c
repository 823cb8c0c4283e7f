/* SPDX-License-Identifier: MIT */
/* plimsoll curve: how peak and step time grow with batch or length. */
#include <stdio.h>

#include "cli.h"

typedef struct curve_settings {
    int axis;
    int64_t last; /* 0: not given */
    int64_t points;
    int64_t batch;
    int64_t sequence; /* 0: the model's context */
    int precision;    /* what is built is the only choice */
    int optimizer;
    int64_t threads;
    size_t budget_bytes; /* 0: none */
    cli_choices choices;
    const char *profile;
    bool json;
} curve_settings;

static const plm_option options[] = {
    {"vary", PLM_OPTION_CHOICE, offsetof(curve_settings, axis), "WHAT", "batch", "batch|seq",
     "sequences of an update, all held at once, or the length of each", NULL},
    {"to", PLM_OPTION_COUNT, offsetof(curve_settings, last), "N", NULL, NULL,
     "the last point; default: a batch of 32, or twice the model's context", NULL},
    {"points", PLM_OPTION_COUNT, offsetof(curve_settings, points), "N", "8", NULL,
     "evenly spaced, from 3 to 16", NULL},
    {"batch", PLM_OPTION_COUNT, offsetof(curve_settings, batch), "N", "8", NULL,
     "sequences in one update, where the length is varied", NULL},
    {"micro-batch", PLM_OPTION_COUNT, offsetof(curve_settings, choices.micro_batch), "N", NULL,
     NULL, "sequences held at once, where the length is varied; default: the batch", NULL},
    {"seq", PLM_OPTION_COUNT, offsetof(curve_settings, sequence), "N", NULL, NULL,
     "tokens of a sequence, where the batch is varied; default: the model's context", NULL},
    {"recompute", PLM_OPTION_TEXT, offsetof(curve_settings, choices.recompute), "RUNG", "none",
     NULL, "what every block makes again in the backward pass, as in plimsoll train", NULL},
    {"head-chunks", PLM_OPTION_COUNT, offsetof(curve_settings, choices.head_chunks), "N", "1", NULL,
     "pieces in which head and loss run", NULL},
    {"attention", PLM_OPTION_CHOICE, offsetof(curve_settings, choices.attention), "FORM", "fused",
     "fused|plain", "how attention is computed", NULL},
    {"strategy", PLM_OPTION_TEXT, offsetof(curve_settings, choices.strategy), "FILE", NULL, NULL,
     "JSON that fixes these choices", NULL},
    {"precision", PLM_OPTION_CHOICE, offsetof(curve_settings, precision), "TYPE", "fp32", "fp32",
     "of weights and activations", NULL},
    {"optimizer", PLM_OPTION_CHOICE, offsetof(curve_settings, optimizer), "NAME", "adamw",
     "adamw|sgd", "what updates the parameters", NULL},
    {"threads", PLM_OPTION_INTEGER, offsetof(curve_settings, threads), "N", "0", NULL,
     "threads that would compute; 0: as many as the machine has", NULL},
    {"budget", PLM_OPTION_SIZE, offsetof(curve_settings, budget_bytes), "SIZE", NULL, NULL,
     "also say the largest that fits", NULL},
    {"profile", PLM_OPTION_TEXT, offsetof(curve_settings, profile), "FILE", NULL, NULL,
     "rates of the device, as in plimsoll plan", NULL},
    {"json", PLM_OPTION_FLAG, offsetof(curve_settings, json), NULL, NULL, NULL,
     "print one JSON object on one line", NULL},
};

static const plm_syntax syntax = {
    .command = "plimsoll curve",
    .summary = "Tells how the peak of a training step grows with batch or length, and how much of "
               "it is constant, in proportion, or with the square. Nothing is run.",
    .operands = "MODEL",
    .operands_least = 1,
    .operands_most = 1,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .example = "plimsoll curve gpt2 --vary seq --attention plain",
};

static plm_status make_curve(plm_model *model, const curve_settings *settings,
                             plm_strategy *strategy, plm_device *device, plm_curve **curve)
{
    plm_curve_axis axis = (plm_curve_axis)settings->axis;
    int64_t last = settings->last            ? settings->last
                   : axis == PLM_CURVE_BATCH ? 32
                                             : 2 * model->context;
    plm_job job = {.batch = settings->batch,
                   .sequence = settings->sequence ? settings->sequence : model->context,
                   .trains = true,
                   .evaluates = true,
                   .generates = !plm_model_is_masked(model),
                   .optimizer = (plm_optimizer)settings->optimizer};
    cli_enlarge(model, axis == PLM_CURVE_BATCH ? job.sequence : last);
    job.network = plm_model_network(model);
    if (strategy->micro_batch == 0)
        strategy->micro_batch = job.batch;
    int points = settings->points < last ? (int)settings->points : (int)last;
    return plm_curve_create(&job, strategy, device, axis, last, points, settings->budget_bytes,
                            curve);
}

static plm_status print_curve(const plm_curve *curve, const char *model,
                              const curve_settings *settings)
{
    char *text = NULL;
    plm_status status = settings->json ? plm_report_curve_json(curve, model, &text)
                                       : plm_report_curve_text(curve, model, cli_style(0), &text);
    if (status == PLM_OK)
        printf("%s%s", text, settings->json ? "\n" : "");
    plm_report_free(text);
    return status;
}

int cmd_curve(int argc, char **argv)
{
    curve_settings settings;
    plm_operands operands;
    plm_model model;
    plm_strategy strategy;
    plm_device *device = NULL;
    plm_curve *curve = NULL;
    plm_device_profile rates;
    const plm_device_profile *profile = NULL;
    int exit_status;
    if (!cli_parse(&syntax, argc, argv, &settings, &operands, &exit_status))
        return exit_status;
    plm_status status = cli_strategy(&settings.choices, &strategy);
    if (status == PLM_OK)
        status = plm_model_parse(operands.items[0], &model);
    if (status == PLM_OK)
        status = cli_profile(settings.profile, &rates, &profile);
    if (status == PLM_OK)
        status = plm_device_create_cpu(cli_threads(settings.threads), 0, &device);
    if (status == PLM_OK) {
        plm_device_use_profile(device, profile);
        status = make_curve(&model, &settings, &strategy, device, &curve);
    }
    if (status == PLM_OK)
        status = print_curve(curve, operands.items[0], &settings);
    plm_curve_destroy(curve);
    plm_device_destroy(device);
    return cli_finish(status);
}
