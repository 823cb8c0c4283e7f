/* SPDX-License-Identifier: MIT */
/* plimsoll bill: reads the line, and hands it to whoever answers: a plan of ours, of which this
 * program must have the engine, or arithmetic over a config.json. */
#include <string.h>
#include <sys/stat.h>

#include "bill.h"
#include "plimsoll/serve_bill.h"

#define CONFIG_ROW(field, name, kind, value, fallback, words, help)                                \
    {                                                                                              \
        name, PLM_OPTION_##kind, offsetof(cli_bill_settings, config.field), value, fallback,       \
            words, help, NULL                                                                      \
    }

/* "file|fp32|..." */
#define STORED_WORD(name, text, elements, bytes) "|" text

static const plm_option options[] = {
    CONFIG_ROW(serve, "serve", FLAG, NULL, NULL, NULL,
               "of serving MODEL, a config.json or a folder that has one"),
    CLI_BATCH_OPEN("sequences in one update, or served at once; default: 8, with --serve 1"),
    CLI_SEQUENCE(CLI_SEQUENCE_HELP ", with --serve at most 4096"),
    CLI_BUDGET(CLI_BUDGET_HELP),
    CLI_ROW(
        target, "target", TEXT, "NAME", NULL, NULL,
        "the device that is planned for, here or not: h200, rtx4090, ... (an unknown name lists "
        "all), or a profile of one's own, ./my.json; several parted by commas with --serve; "
        "goes before --profile; default: this machine"),
    CONFIG_ROW(weights, "weights", CHOICE, "TYPE", "file", &PLM_STORED_MAP(STORED_WORD)[1],
               "with --serve: the type that weights are stored in; file: as the checkpoint has "
               "them"),
    CONFIG_ROW(cache, "cache", CHOICE, "TYPE", "bf16", CLI_CACHES,
               "with --serve: the type of the cache"),
    CONFIG_ROW(cache_values, "cache-values", CHOICE, "TYPE", NULL, CLI_CACHES,
               "with --serve: that of its values, where it is another"),
    CONFIG_ROW(cache_all_tokens, "cache-all-tokens", FLAG, NULL, NULL, NULL,
               "with --serve: sliding layers keep all tokens, as in servers without windows"),
    CONFIG_ROW(tensor_parallel, "tensor-parallel", COUNT, "N", "1", NULL,
               "with --serve: GPUs that share each layer; the bill is of one"),
    CONFIG_ROW(prefill, "prefill", COUNT, "N", "2048", NULL,
               "with --serve: tokens of prompts that are computed at once"),
    CONFIG_ROW(page, "page", COUNT, "N", "1", NULL,
               "with --serve: tokens that a cache grows by; 16 in vLLM"),
#if PLM_ENGINE
    CLI_MICRO_BATCH(CLI_MICRO_HELP "the batch, or the most that fit the budget"),
    CLI_OPTIMIZER(CLI_OPTIMIZER_HELP),
    CLI_STRATEGY_ROWS,
    CLI_RECOMPUTE("auto", CLI_RUNGS_HELP "none, or what the budget asks for"),
    CLI_HEAD_CHUNKS(NULL, CLI_CHUNKS_HELP "; default: 1, or what the budget asks for"),
    CLI_MLP_CHUNKS(NULL, CLI_MLP_CHUNKS_HELP "; default: 1, or what the budget asks for"),
    CLI_STRATEGY(CLI_STRATEGY_HELP),
    CLI_PROFILE(CLI_PROFILE_HELP),
    CLI_DEVICE,
    CLI_THREADS(CLI_THREADS_PLAN_HELP),
    {"rows", PLM_OPTION_COUNT, offsetof(cli_bill_settings, rows), "N", "12", NULL,
     "lines of the table of what is live at the peak", NULL},
    {"report", PLM_OPTION_TEXT, offsetof(cli_bill_settings, report), "FILE", NULL, NULL,
     "write the plan over time as an HTML page too", NULL},
    {"trace", PLM_OPTION_TEXT, offsetof(cli_bill_settings, trace), "FILE", NULL, NULL,
     "write the plan over time as Chrome's JSON too, which ui.perfetto.dev opens: memory, and each "
     "operation, as long as the rates of --profile predict",
     NULL},
#endif
    CLI_JSON(CLI_JSON_HELP),
};

static const plm_syntax syntax = {
    .command = "plimsoll bill",
    .summary =
        "Tells to the byte what a training step needs and what is live at its peak. MODEL "
        "is " CLI_MODEL_HELP ". With --serve, what serving takes and what fits; MODEL is then "
        "a config.json or a folder that has one, and several make one table. Nothing is "
        "run.",
    .operands = "MODEL...",
    .operands_least = 1,
    .operands_most = PLM_OPERANDS_MAX,
    CLI_OPTIONS(options),
    .example = "plimsoll bill gpt2 --batch 8 --attention plain\n"
               "  plimsoll bill gpt:layers=6,width=384,heads=6,context=256,vocab=256 --budget "
               "256MiB\n"
               "  plimsoll bill models/Llama-3.1-8B --serve --target rtx4090 --seq 8192",
};

#if !PLM_ENGINE
int cli_bill_training(cli_bill_settings *settings, const char *model)
{
    (void)settings;
    return cli_wrong("wanted --serve for '%s': this program has no engine and plans no training",
                     model);
}
#endif

/* Whether a model is meant by its files. */
static bool is_path(const char *model)
{
    struct stat found;
    size_t length = strlen(model);
    return strchr(model, '/') || (length > 5 && strcmp(model + length - 5, ".json") == 0) ||
           stat(model, &found) == 0;
}

int cmd_bill(int argc, char **argv)
{
    cli_bill_settings settings = {0};
    plm_operands operands;
    int exit_status;
    if (!cli_parse(&syntax, argc, argv, &settings, &operands, &exit_status))
        return exit_status;
    if (settings.config.serve)
        return cli_bill_serving(&settings, &operands);
    if (is_path(operands.items[0]))
        return cli_wrong("wanted --serve for the files of '%s', found neither; without, MODEL "
                         "is a name such as gpt2 or a description",
                         operands.items[0]);
    if (operands.count > 1)
        return cli_wrong("wanted one MODEL, found %d; several go with --serve", operands.count);
    return cli_bill_training(&settings, operands.items[0]);
}
