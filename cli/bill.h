/* SPDX-License-Identifier: MIT */
/* The parts of plimsoll bill: one line is read, and what it asks for decides who answers. */
#ifndef PLM_CLI_BILL_H
#define PLM_CLI_BILL_H

#include "choices.h"

/* The types that a cache may have. */
#define CLI_CACHES "bf16|fp16|fp32|fp8|q8_0|q4_0"

/* What is asked of a model that only its config.json is known of. */
typedef struct cli_config_choices {
    bool serve;
    int weights;      /* plm_stored */
    int cache;        /* the place in CLI_CACHES, as the next */
    int cache_values; /* -1: as the keys */
    bool cache_all_tokens;
    int64_t tensor_parallel;
    int64_t prefill;
    int64_t page;
    int as;               /* -1: a plan of ours; 0: PyTorch's training */
    const char *settings; /* a file; NULL: none */
    int quantize;         /* -1: no; 0: NF4 */
    bool double_quant;
    bool prepare_kbit;
    bool autocast;
    bool checkpointing;
    int optim;        /* plm_torch_optim; -1: as the settings say */
    const char *lora; /* NULL: as the settings say */
    const char *lora_exclude;
    const char *lora_saves;
    int64_t rank;        /* 0: as the settings say */
    double lora_dropout; /* NaN likewise */
    int64_t ranks;       /* 0 likewise */
    int shard;           /* plm_torch_shard; -1 likewise */
} cli_config_choices;

typedef struct cli_bill_settings {
    cli_choices choices; /* first, for the shared rows count from its start */
    cli_config_choices config;
    int64_t rows;
    const char *report; /* file of the page, NULL: none */
    const char *trace;  /* file of the trace, NULL: none */
} cli_bill_settings;
CLI_CHOICES_COME_FIRST(cli_bill_settings);

/* Return the exit status. Of a training step of our own (the engine): one model. */
int cli_bill_training(cli_bill_settings *settings, const char *model);

/* Of serving: several configs, several targets. */
int cli_bill_serving(const cli_bill_settings *settings, const plm_operands *operands);

/* Of PyTorch's own training: likewise. */
int cli_bill_torch(const cli_bill_settings *settings, const plm_operands *operands);

#endif
