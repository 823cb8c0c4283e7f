/* SPDX-License-Identifier: MIT */
/* plimsoll curve: how peak and step time grow with batch or length. */
#include <stdio.h>

#include "choices.h"
#include "plimsoll/size.h"
#include "plimsoll/plan_report.h"

typedef struct curve_settings {
    cli_choices choices;
    int axis;
    int64_t last; /* 0: not given */
    int64_t points;
    int64_t forecast; /* 0: not given */
    bool measure;
    const char *svg; /* file, NULL: none */
} curve_settings;
CLI_CHOICES_COME_FIRST(curve_settings);

static const plm_option options[] = {
    {"vary", PLM_OPTION_CHOICE, offsetof(curve_settings, axis), "WHAT", "batch", "batch|seq",
     "sequences of an update, all held at once, or the length of each", NULL},
    {"to", PLM_OPTION_COUNT, offsetof(curve_settings, last), "N", NULL, NULL,
     "the last point; default: a batch of 32, or twice the model's context", NULL},
    {"points", PLM_OPTION_COUNT, offsetof(curve_settings, points), "N", "8", NULL,
     "evenly spaced, from 3 to 16", NULL},
    {"forecast", PLM_OPTION_COUNT, offsetof(curve_settings, forecast), "N", NULL, NULL,
     "a larger run to tell of, by the fit; default: twice the last point", NULL},
    {"measure", PLM_OPTION_FLAG, offsetof(curve_settings, measure), NULL, NULL, NULL,
     "run each point that fits the budget, or the machine, in exactly its plan's memory", NULL},
    {"svg", PLM_OPTION_TEXT, offsetof(curve_settings, svg), "FILE", NULL, NULL,
     "draw it as a picture too", NULL},
    CLI_BATCH("sequences in one update, where the length is varied"),
    CLI_MICRO_BATCH("sequences held at once, where the length is varied; default: the batch"),
    CLI_SEQUENCE("tokens of a sequence, where the batch is varied; default: the model's context"),
    CLI_RECOMPUTE("none", CLI_RUNGS_SHORT_HELP),
    CLI_HEAD_CHUNKS("1", CLI_CHUNKS_HELP),
    CLI_MLP_CHUNKS("1", CLI_MLP_CHUNKS_HELP),
    CLI_STRATEGY_ROWS,
    CLI_STRATEGY("JSON that fixes these choices"),
    CLI_OPTIMIZER(CLI_OPTIMIZER_SHORT_HELP),
    CLI_DEVICE,
    CLI_THREADS("threads that would compute; 0: as many as the machine has"),
    CLI_BUDGET("also say the largest batch and the longest sequence that fit"),
    CLI_TARGET,
    CLI_PROFILE(CLI_PROFILE_HELP),
    CLI_JSON(CLI_JSON_HELP),
};

static const plm_syntax syntax = {
    .command = "plimsoll curve",
    .summary = "Tells how the peak of a training step grows with batch or length, and how much of "
               "it is constant, in proportion, or with the square. Nothing is run unless --measure "
               "says so.",
    CLI_ONE_OPERAND("MODEL"),
    CLI_OPTIONS(options),
    .example = "plimsoll curve gpt2 --vary seq --attention plain",
};

/* A model with a position for each token of whatever sequence is planned. */
static void build_enlarged(plm_graph *graph, const void *config, plm_program program, int64_t batch,
                           int64_t sequence)
{
    plm_model model = *(const plm_model *)config;
    if (sequence > model.context)
        model.context = sequence;
    plm_network network = plm_model_network(&model);
    network.build(graph, network.config, program, batch, sequence);
}

static plm_status make_curve(cli_request *request, const curve_settings *settings,
                             plm_curve **curve)
{
    plm_curve_axis axis = (plm_curve_axis)settings->axis;
    bool batch = axis == PLM_CURVE_BATCH;
    int64_t last = settings->last ? settings->last : batch ? 32 : 2 * request->model.context;
    int points = settings->points < last ? (int)settings->points : (int)last;
    if (!batch && last > request->model.context)
        fprintf(stderr, "plimsoll: beyond %lld tokens the position table of %s grows with them\n",
                (long long)request->model.context, request->model.name);
    if (request->strategy.micro_batch == 0)
        request->strategy.micro_batch = request->job.batch;
    request->job.network = (plm_network){build_enlarged, &request->model};
    plm_status status = plm_curve_create(&request->job, &request->strategy, request->device, axis,
                                         last, points, request->budget_bytes, curve);
    if (status == PLM_OK && settings->forecast)
        (*curve)->forecast_x = settings->forecast;
    return status;
}

static void tell_begin(const plm_curve *curve, int index, void *user)
{
    const plm_curve_point *point = &curve->points[index];
    char peak[PLM_SIZE_TEXT];
    (void)user;
    fprintf(stderr, "plimsoll: point %d of %d, %s %lld: %s, ", index + 1, curve->count,
            curve->axis == PLM_CURVE_BATCH ? "batch" : "sequence", (long long)point->x,
            plm_size_format(point->plan.peak_bytes, peak));
    fflush(stderr);
}

static void tell_end(const plm_curve *curve, int index, void *user)
{
    const plm_curve_point *point = &curve->points[index];
    (void)user;
    if (point->measured_peak_bytes > 0)
        fprintf(stderr, "%s in the run, %.3g s an update\n",
                point->measured_peak_bytes == point->plan.peak_bytes ? "the same" : "NOT THE SAME",
                point->measured_seconds);
    else
        fprintf(stderr, "plimsoll: point %d of %d is not run, for it is too large\n", index + 1,
                curve->count);
}

static plm_status measure_curve(const cli_request *request, const curve_settings *settings,
                                plm_curve *curve)
{
    static const plm_curve_observer observer = {tell_begin, tell_end, NULL};
    if (!settings->measure)
        return PLM_OK;
    return plm_curve_measure(curve, &request->job, &request->strategy, request->device,
                             request->budget_bytes, &observer);
}

/* Nonzero where a run took other memory than was planned. */
static int judge(const plm_curve *curve)
{
    for (int i = 0; i < curve->count; i++) {
        const plm_curve_point *point = &curve->points[i];
        if (point->measured_peak_bytes > 0 && point->measured_peak_bytes != point->plan.peak_bytes)
            return CLI_NO;
    }
    return CLI_DONE;
}

static plm_status print_curve(const plm_curve *curve, const char *model, bool json)
{
    char *text = NULL;
    plm_status status = json ? plm_report_curve_json(curve, model, &text)
                             : plm_report_curve_text(curve, model, cli_style(0), &text);
    return cli_print(status, text, json);
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
    if (settings.measure && settings.choices.target)
        return cli_wrong("--measure runs on this machine, not on a target; leave one of them out");
    if (settings.axis == PLM_CURVE_SEQUENCE)
        settings.choices.sequence = 0; /* it is what varies */
    plm_status status = cli_request_open(&settings.choices, operands.items[0], &request);
    if (status != PLM_OK)
        return cli_finish(status);
    status = make_curve(&request, &settings, &curve);
    if (status == PLM_OK)
        status = measure_curve(&request, &settings, curve);
    if (status == PLM_OK && settings.svg)
        status = plm_report_curve_svg(curve, operands.items[0], settings.svg);
    if (status == PLM_OK)
        status = print_curve(curve, operands.items[0], settings.choices.json);
    exit_status = status == PLM_OK ? judge(curve) : cli_finish(status);
    plm_curve_destroy(curve);
    cli_request_close(&request);
    return exit_status;
}
