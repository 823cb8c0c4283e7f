/* SPDX-License-Identifier: MIT */
/*
 * What every command that plans reads from its line: the job, the strategy, the device. Their
 * fields stand in one structure, their options in one list of rows, their reading in one place.
 *
 *     typedef struct bill_settings {
 *         cli_choices choices; // first, for the rows count from its start
 *         int64_t rows;
 *     } bill_settings;
 *     CLI_CHOICES_COME_FIRST(bill_settings);
 *
 *     static const plm_option options[] = {
 *         CLI_BATCH("sequences in one update"),
 *         CLI_STRATEGY_ROWS,
 *         ...
 *     };
 *
 *     bill_settings settings = {0}; // what a command has no row for is then at its first choice
 *     cli_request request;
 *     status = cli_request_open(&settings.choices, operands.items[0], &request);
 *
 * A further word of a choice is one row of its list below. A further option of every command is a
 * field and one row of CLI_STRATEGY_ROWS. What commands say in their own words is the rows'
 * argument.
 */
#ifndef PLM_CLI_CHOICES_H
#define PLM_CLI_CHOICES_H

#include <stddef.h>

#include "cli.h"
#include "plimsoll/model.h"

typedef struct cli_choices {
    /* the job */
    int64_t batch;
    int64_t sequence; /* 0: the model's context */
    int optimizer;    /* plm_optimizer */
    /* the strategy */
    const char *strategy; /* a file that fixes it; NULL: none, and the others hold */
    int64_t micro_batch;  /* 0: left to the plan */
    int64_t head_chunks;  /* 0: left to the plan */
    int64_t mlp_chunks;   /* 0: left to the plan */
    const char *recompute;
    int attention; /* the place in CLI_ATTENTIONS */
    int precision; /* the place in CLI_PRECISIONS */
    int gradient;  /* the place in CLI_GRADIENTS */
    int update;    /* the place in CLI_UPDATES */
    /* the device */
    const char *device;  /* where it runs */
    bool deterministic;  /* the same bits from run to run, where that costs time */
    int64_t threads;     /* 0: as many as the machine has */
    const char *profile; /* a file of rates; NULL: what calibration left */
    const char *target;  /* the device that is planned for; NULL: this machine */
    size_t budget_bytes; /* 0: none */
    bool json;
} cli_choices;

#define CLI_CHOICES_COME_FIRST(settings)                                                           \
    _Static_assert(offsetof(settings, choices) == 0, "the shared rows count from the start")

/* The words of a choice: name, text. */
#define CLI_ATTENTIONS(ROW)                                                                        \
    ROW(FUSED, "fused")                                                                            \
    ROW(PLAIN, "plain")                                                                            \
    ROW(AUTO, "auto")
#define CLI_PRECISIONS(ROW)                                                                        \
    ROW(F32, "fp32")                                                                               \
    ROW(BF16, "bf16")                                                                              \
    ROW(F16, "fp16")                                                                               \
    ROW(COUNT, "auto") /* PLM_PRECISION_AUTO */
#define CLI_PRECISION_PLACE(name, text) CLI_PRECISION_##name,
enum { CLI_PRECISIONS(CLI_PRECISION_PLACE) }; /* places in that list */
#define CLI_GRADIENTS(ROW)                                                                         \
    ROW(F32, "fp32")                                                                               \
    ROW(BF16, "bf16")
#define CLI_UPDATES(ROW)                                                                           \
    ROW(LATE, "late")                                                                              \
    ROW(EARLY, "early")

/* "fused|plain" of such a list */
#define CLI_WORDS(LIST)                            (&LIST(CLI_WORD_ROW)[1])
#define CLI_WORD_ROW(name, text)                   "|" text
#define CLI_OPTIMIZER_ROW(name, op, n, text, long) "|" text

/* A row: field, name, kind, name of the value, default, words, help. */
#define CLI_ROW(field, name, kind, value, fallback, words, help)                                   \
    {                                                                                              \
        name, PLM_OPTION_##kind, offsetof(cli_choices, field), value, fallback, words, help, NULL  \
    }

/* The options that every command says in the same words. */
#define CLI_STRATEGY_ROWS                                                                          \
    CLI_ROW(attention, "attention", CHOICE, "FORM", "fused", CLI_WORDS(CLI_ATTENTIONS),            \
            "how attention is computed; auto: fused, or what the budget asks for"),                \
        CLI_ROW(                                                                                   \
            precision, "precision", CHOICE, "TYPE", "fp32", CLI_WORDS(CLI_PRECISIONS),             \
            "of weights and activations; 16 bits come with fp32 masters, auto is the best that "   \
            "the device has"),                                                                     \
        CLI_ROW(gradient, "gradient", CHOICE, "TYPE", "fp32", CLI_WORDS(CLI_GRADIENTS),            \
                "of weights; bf16 goes with bf16 weights, one micro-batch, head and MLP whole"),   \
        CLI_ROW(                                                                                   \
            update, "update", CHOICE, "WHEN", "late", CLI_WORDS(CLI_UPDATES),                      \
            "early: each parameter as soon as its gradient is made, which is then not kept; one "  \
            "micro-batch, no clipping")

/* Those that differ: in a word, or in what holds where nothing is said. */
#define CLI_BATCH(help)       CLI_ROW(batch, "batch", COUNT, "N", "8", NULL, help)
#define CLI_BATCH_OPEN(help)  CLI_ROW(batch, "batch", COUNT, "N", NULL, NULL, help)
#define CLI_SEQUENCE(help)    CLI_ROW(sequence, "seq", COUNT, "N", NULL, NULL, help)
#define CLI_MICRO_BATCH(help) CLI_ROW(micro_batch, "micro-batch", COUNT, "N", NULL, NULL, help)
#define CLI_RECOMPUTE(fallback, help)                                                              \
    CLI_ROW(recompute, "recompute", TEXT, "RUNG", fallback, NULL, help)
#define CLI_HEAD_CHUNKS(fallback, help)                                                            \
    CLI_ROW(head_chunks, "head-chunks", COUNT, "N", fallback, NULL, help)
#define CLI_MLP_CHUNKS(fallback, help)                                                             \
    CLI_ROW(mlp_chunks, "mlp-chunks", COUNT, "N", fallback, NULL, help)
#define CLI_STRATEGY(help) CLI_ROW(strategy, "strategy", TEXT, "FILE", NULL, NULL, help)
#define CLI_OPTIMIZER(help)                                                                        \
    CLI_ROW(optimizer, "optimizer", CHOICE, "NAME", "adamw",                                       \
            (&PLM_OPTIMIZER_MAP(CLI_OPTIMIZER_ROW)[1]), help)
#define CLI_BUDGET(help) CLI_ROW(budget_bytes, "budget", SIZE, "SIZE", NULL, NULL, help)
#define CLI_DEVICE                                                                                 \
    CLI_ROW(device, "device", TEXT, "NAME", "cpu", NULL,                                           \
            "the device of this machine that is planned for and run on: cpu, or cuda for an "      \
            "NVIDIA GPU, cuda:1 for its second"),                                                  \
        CLI_ROW(deterministic, "deterministic", FLAG, NULL, NULL, NULL,                            \
                "the same bits from run to run: on a GPU attention's gradient is then summed in "  \
                "one order, which takes longer; the CPU always does")
#define CLI_THREADS(help) CLI_ROW(threads, "threads", INTEGER, "N", "0", NULL, help)
#define CLI_PROFILE(help) CLI_ROW(profile, "profile", TEXT, "FILE", NULL, NULL, help)
#define CLI_TARGET                                                                                 \
    CLI_ROW(                                                                                       \
        target, "target", TEXT, "NAME", NULL, NULL,                                                \
        "the device that is planned for, here or not: h200, rtx4090, ... (an unknown name lists "  \
        "all), or a profile of one's own, ./my.json; goes before --profile; default: this "        \
        "machine")
#define CLI_JSON(help) CLI_ROW(json, "json", FLAG, NULL, NULL, NULL, help)

enum { CLI_BATCH_DEFAULT = 8 };

/* Words that several of them share. */
#define CLI_MODEL_HELP                                                                             \
    "a name such as gpt2 or a description such as gpt:layers=4,width=128,heads=4,context=128,"     \
    "vocab=256,dropout=0.1; an unknown one lists all"
#define CLI_BATCH_HELP    "sequences in one update"
#define CLI_SEQUENCE_HELP "tokens of a sequence; default: the model's context"
#define CLI_MICRO_HELP    "sequences held at once, a divisor of the batch; default: "
#define CLI_RUNGS_HELP                                                                             \
    "what every block makes again in the backward pass: none, act, norm, mlp, block, attention, "  \
    "a sum such as mlp+attention, with operations by name, act+attention.qkv, or auto: "
#define CLI_RUNGS_SHORT_HELP                                                                       \
    "what every block makes again in the backward pass, as in plimsoll train"
#define CLI_CHUNKS_HELP     "pieces in which head and loss run"
#define CLI_MLP_CHUNKS_HELP "pieces in which an MLP runs that is made again"
#define CLI_STRATEGY_HELP                                                                          \
    "JSON that fixes every choice; goes before --micro-batch, --attention, --recompute, "          \
    "--head-chunks and --mlp-chunks"
#define CLI_OPTIMIZER_HELP       "what updates the parameters: sgd keeps one moment, adamw two"
#define CLI_OPTIMIZER_SHORT_HELP "what updates the parameters"
#define CLI_BUDGET_HELP          "the memory that may be used: 12GiB, 512MiB"
#define CLI_THREADS_PLAN_HELP                                                                      \
    "threads that would compute, each with a workspace of its own; 0: as many as the machine has"
#define CLI_THREADS_HELP "threads that compute; 0: as many as the machine has"
#define CLI_JSON_HELP    "print one JSON object on one line"
#define CLI_PROFILE_HELP "rates of the device, as in plimsoll plan"

/* A thread count of the line for the library, which refuses what is too large. */
int32_t cli_threads(int64_t threads);

/* What may be used of a target's memory, 0 where that is not known: what was stated, at most all of
 * it; where nothing was (0), 98 % of it. */
size_t cli_target_budget(size_t stated, size_t memory);

/* What a line asks for. Not to be moved: its job points at its model, its device at its rates. */
typedef struct cli_request {
    plm_model model; /* enlarged for the sequence of the line */
    plm_strategy strategy;
    plm_job job;        /* training, with whatever else training runs */
    plm_device *device; /* the only one that a command opens; with the profile, when there is one */
    plm_device_profile rates;
    /* The line's, at most the target's memory; without one, 98 % of that; 0: none. */
    size_t budget_bytes;
} cli_request;

/* Reads the choices for the model of that name. cli_request_close frees it; nothing is to be freed
 * after a failure. */
plm_status cli_request_open(const cli_choices *choices, const char *model, cli_request *request);

void cli_request_close(cli_request *request);

#endif
