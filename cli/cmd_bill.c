/* SPDX-License-Identifier: MIT */
/* plimsoll bill: reads the line, and hands it to whoever answers: a plan of ours, of which this
 * program must have the engine, or arithmetic over a config.json. */
#include <string.h>
#include <sys/stat.h>

#include "bill.h"
#include "plimsoll/serve_bill.h"
#include "plimsoll/torch_bill.h"

#define CONFIG_ROW(field, name, kind, value, fallback, words, help)                                \
    {                                                                                              \
        name, PLM_OPTION_##kind, offsetof(cli_bill_settings, config.field), value, fallback,       \
            words, help, NULL                                                                      \
    }

/* "file|fp32|..." */
#define STORED_WORD(name, text, elements, bytes) "|" text
#define NAME_WORD(name, text)                    "|" text

static const plm_option options[] = {
    CONFIG_ROW(serve, "serve", FLAG, NULL, NULL, NULL,
               "of serving MODEL, a config.json or a folder that has one"),
    CONFIG_ROW(as, "as", CHOICE, "WHAT", NULL, "torch",
               "of PyTorch's own training of MODEL, such a file or folder"),
    CLI_BATCH_OPEN("sequences in one update, held at once by PyTorch, or served at once; default: "
                   "8, or 1 with --as torch and --serve"),
    CLI_SEQUENCE(CLI_SEQUENCE_HELP ", at most 1024 with --as torch, 4096 with --serve"),
    CLI_BUDGET(CLI_BUDGET_HELP),
    CLI_ROW(
        target, "target", TEXT, "NAME", NULL, NULL,
        "the device that is planned for, here or not: h200, rtx4090, ... (an unknown name lists "
        "all), or a profile of one's own, ./my.json; several parted by commas for a config; "
        "goes before --profile; default: this machine"),
    CONFIG_ROW(weights, "weights", CHOICE, "TYPE", "file", &PLM_STORED_MAP(STORED_WORD)[1],
               "with --serve and --as torch: the type that weights are held in; file: as the "
               "checkpoint has them, or fp32 where PyTorch trains them"),
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
    CONFIG_ROW(settings, "settings", TEXT, "FILE", NULL, NULL,
               "with --as torch: JSON of TrainingArguments, DeepSpeed, peft or BitsAndBytesConfig, "
               "or an accelerate config; options of the line go first"),
    CONFIG_ROW(ranks, "ranks", COUNT, "N", NULL, NULL, "with --as torch: ranks, one GPU each"),
    CONFIG_ROW(shard, "shard", CHOICE, "HOW", NULL, &PLM_TORCH_SHARD_MAP(NAME_WORD)[1],
               "with --as torch: what ranks share"),
    CONFIG_ROW(lora, "lora", TEXT, "MODULES", NULL, NULL,
               "with --as torch: adapters on these, q_proj,v_proj, on all-linear, or on peft's "
               "default; the rest is frozen"),
    CONFIG_ROW(rank, "rank", COUNT, "N", NULL, NULL, "with --lora: of adapters; default: 8"),
    CONFIG_ROW(lora_dropout, "lora-dropout", REAL, "SHARE", NULL, NULL,
               "with --lora: of adapters' inputs"),
    CONFIG_ROW(lora_exclude, "lora-exclude", TEXT, "NAMES", NULL, NULL,
               "with --lora: parts of names of modules that are left out, vision_tower"),
    CONFIG_ROW(lora_saves, "modules-to-save", TEXT, "MODULES", NULL, NULL,
               "with --lora: modules that are trained whole, embed_tokens,lm_head"),
    CONFIG_ROW(quantize, "quantize", CHOICE, "TYPE", NULL, "nf4",
               "with --lora: the base in 4 bits, as bitsandbytes holds it"),
    CONFIG_ROW(double_quant, "double-quant", FLAG, NULL, NULL, NULL,
               "with --quantize: scales are quantised too"),
    CONFIG_ROW(
        prepare_kbit, "prepare-kbit", FLAG, NULL, NULL, NULL,
        "with --quantize: what is not in 4 bits is in fp32 (prepare_model_for_kbit_training)"),
    CONFIG_ROW(autocast, "autocast", FLAG, NULL, NULL, NULL,
               "with --as torch: compute in bf16 over fp32 weights, as bf16=True does"),
    CONFIG_ROW(optim, "optim", CHOICE, "NAME", NULL, &PLM_TORCH_OPTIM_MAP(NAME_WORD)[1],
               "with --as torch: the optimizer; default: adamw"),
    CONFIG_ROW(checkpointing, "checkpointing", FLAG, NULL, NULL, NULL,
               "with --as torch: gradient checkpointing of each layer"),
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
    .example =
        "plimsoll bill gpt2 --batch 8 --attention plain\n"
        "  plimsoll bill gpt:layers=6,width=384,heads=6,context=256,vocab=256 --budget "
        "256MiB\n"
        "  plimsoll bill models/Llama-3.1-8B --serve --target rtx4090 --seq 8192\n"
        "  plimsoll bill models/Qwen2.5-7B --as torch --lora all-linear --rank 16 --seq 2048",
};

#if !PLM_ENGINE
int cli_bill_training(cli_bill_settings *settings, const char *model)
{
    (void)settings;
    return cli_wrong(
        "wanted --serve or --as torch for '%s': this program has no engine and plans no training",
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
    if (settings.config.as >= 0)
        return cli_bill_torch(&settings, &operands);
    if (is_path(operands.items[0]))
        return cli_wrong(
            "wanted --serve or --as torch for the files of '%s', found neither; without, "
            "MODEL is a name such as gpt2 or a description",
            operands.items[0]);
    if (operands.count > 1)
        return cli_wrong("wanted one MODEL, found %d; several go with --serve and --as torch",
                         operands.count);
    return cli_bill_training(&settings, operands.items[0]);
}
