/* SPDX-License-Identifier: MIT */
/* plimsoll curve: how peak and step time grow with batch or length. */
#include <stdio.h>

#include "choices.h"

typedef struct curve_settings {
    cli_choices choices;
    int axis;
    int64_t last; /* 0: not given */
    int64_t points;
} curve_settings;
CLI_CHOICES_COME_FIRST(curve_settings);

static const plm_option options[] = {
    {"vary", PLM_OPTION_CHOICE, offsetof(curve_settings, axis), "WHAT", "batch", "batch|seq",
     "sequences of an update, all held at once, or the length of each", NULL},
    {"to", PLM_OPTION_COUNT, offsetof(curve_settings, last), "N", NULL, NULL,
     "the last point; default: a batch of 32, or twice the model's context", NULL},
    {"points", PLM_OPTION_COUNT, offsetof(curve_settings, points), "N", "8", NULL,
     "evenly spaced, from 3 to 16", NULL},
    CLI_BATCH("sequences in one update, where the length is varied"),
    CLI_MICRO_BATCH("sequences held at once, where the length is varied; default: the batch"),
    CLI_SEQUENCE("tokens of a sequence, where the batch is varied; default: the model's context"),
    CLI_RECOMPUTE("none", CLI_RUNGS_SHORT_HELP),
    CLI_HEAD_CHUNKS("1", CLI_CHUNKS_HELP),
    CLI_STRATEGY_ROWS,
    CLI_STRATEGY("JSON that fixes these choices"),
    CLI_OPTIMIZER(CLI_OPTIMIZER_SHORT_HELP),
    CLI_THREADS("threads that would compute; 0: as many as the machine has"),
    CLI_BUDGET("also say the largest that fits"),
    CLI_PROFILE(CLI_PROFILE_HELP),
    CLI_JSON(CLI_JSON_HELP),
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

/* The last point, of which a sequence has a position for each token. */
static int64_t last_point(const curve_settings *settings, plm_model *model)
{
    bool batch = (plm_curve_axis)settings->axis == PLM_CURVE_BATCH;
    int64_t last = settings->last ? settings->last : batch ? 32 : 2 * model->context;
    if (!batch)
        cli_enlarge(model, last);
    return last;
}

static plm_status make_curve(cli_request *request, const curve_settings *settings,
                             plm_curve **curve)
{
    int64_t last = last_point(settings, &request->model);
    int points = settings->points < last ? (int)settings->points : (int)last;
    if (request->strategy.micro_batch == 0)
        request->strategy.micro_batch = request->job.batch;
    return plm_curve_create(&request->job, &request->strategy, request->device,
                            (plm_curve_axis)settings->axis, last, points,
                            settings->choices.budget_bytes, curve);
}

static plm_status print_curve(const plm_curve *curve, const char *model, bool json)
{
    char *text = NULL;
    plm_status status = json ? plm_report_curve_json(curve, model, &text)
                             : plm_report_curve_text(curve, model, cli_style(0), &text);
    if (status == PLM_OK)
        printf("%s%s", text, json ? "\n" : "");
    plm_report_free(text);
    return status;
}

int cmd_curve(int argc, char **argv)
{
    curve_settings settings = {0};
    plm_operands operands;
    cli_request request;
    plm_curve *curve = NULL;
    int exit_status;
    if (!cli_parse(&syntax, argc, argv, &settings, &operands, &exit_status))
        return exit_status;
    if (settings.axis == PLM_CURVE_SEQUENCE)
        settings.choices.sequence = 0; /* it is what varies */
    plm_status status = cli_request_open(&settings.choices, operands.items[0], &request);
    if (status != PLM_OK)
        return cli_finish(status);
    status = make_curve(&request, &settings, &curve);
    if (status == PLM_OK)
        status = print_curve(curve, operands.items[0], settings.choices.json);
    plm_curve_destroy(curve);
    cli_request_close(&request);
    return cli_finish(status);
}
