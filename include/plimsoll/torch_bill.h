/* SPDX-License-Identifier: MIT */
/*
 * What PyTorch's own training of a model holds on one GPU, from the model's config alone: full
 * training in fp32, under autocast or in 16 bits, LoRA as peft holds it, a base in 4 bits as
 * bitsandbytes does, moments in 8 bits, and shards of DDP, DeepSpeed's ZeRO and FSDP.
 *
 *     plm_torch_job job = plm_torch_job_default();
 *     plm_torch_bill bill;
 *     job.shard = PLM_TORCH_FSDP2;
 *     job.ranks = 8;
 *     if (plm_torch_bill_make(&config, &job, &bill) == PLM_OK)
 *         ... bill.rank_elements, bill.role_bytes[PLM_TORCH_OPTIMIZER] ...
 *
 * Each role says how sure its bytes are. What lasts from step to step is exact; what a step holds
 * in between depends on the versions of the libraries and on the script, of which the exact answer
 * is a forecast's (plimsoll/forecast.h). Pure functions; thread-safe.
 */
#ifndef PLIMSOLL_TORCH_BILL_H
#define PLIMSOLL_TORCH_BILL_H

#include "plimsoll/config.h"
#include "plimsoll/report.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One row a way to share the work of several ranks: name, text. */
#define PLM_TORCH_SHARD_MAP(ROW)                                                                   \
    ROW(UNSHARDED, "none")                                                                         \
    ROW(DDP, "ddp")                                                                                \
    ROW(ZERO1, "zero1")                                                                            \
    ROW(ZERO2, "zero2")                                                                            \
    ROW(ZERO3, "zero3")                                                                            \
    ROW(FSDP1, "fsdp1")                                                                            \
    ROW(FSDP2, "fsdp2")

typedef enum plm_torch_shard {
#define PLM_TORCH_SHARD_ROW(name, text) PLM_TORCH_##name,
    PLM_TORCH_SHARD_MAP(PLM_TORCH_SHARD_ROW)
#undef PLM_TORCH_SHARD_ROW
        PLM_TORCH_SHARD_COUNT
} plm_torch_shard;

/* One row an optimizer: name, text. */
#define PLM_TORCH_OPTIM_MAP(ROW)                                                                   \
    ROW(ADAMW, "adamw")                                                                            \
    ROW(ADAMW8BIT, "adamw8bit") /* bitsandbytes: blocks of 256 */                                  \
    ROW(SGD, "sgd")                                                                                \
    ROW(MOMENTUM, "momentum")                                                                      \
    ROW(ADAFACTOR, "adafactor")

typedef enum plm_torch_optim {
#define PLM_TORCH_OPTIM_ROW(name, text) PLM_TORCH_##name,
    PLM_TORCH_OPTIM_MAP(PLM_TORCH_OPTIM_ROW)
#undef PLM_TORCH_OPTIM_ROW
        PLM_TORCH_OPTIM_COUNT
} plm_torch_optim;

enum { PLM_TORCH_LIST_TEXT = 256 };

typedef struct plm_torch_job {
    int64_t sequence;
    int64_t batch;     /* sequences held at once, on each rank */
    plm_dtype weights; /* that the model is loaded in: fp32, bf16 or fp16 */
    bool autocasts;    /* computes in bf16 over fp32 weights; of FSDP its param_dtype, of ZeRO with
                          masters */
    bool recomputes;   /* gradient checkpointing of each layer */
    bool fuses_loss;   /* Liger's kernels: logits are never whole */
    plm_torch_optim optim;
    bool tables_keep_moments; /* ADAMW8BIT: moments of embeddings in fp32, as Trainer has them */
    /* a quantised base */
    bool quantizes;        /* to NF4 */
    bool double_quantizes; /* its scales too */
    bool prepares;         /* prepare_model_for_kbit_training: the rest in fp32 */
    /* LoRA */
    char lora[PLM_TORCH_LIST_TEXT]; /* modules by name, parted by commas; "all-linear"; "default":
                                       peft's for the family; "": none, all is trained */
    char lora_exclude[PLM_TORCH_LIST_TEXT]; /* parts of names of modules that are left out */
    char lora_saves[PLM_TORCH_LIST_TEXT];   /* modules_to_save: embed_tokens, lm_head */
    int64_t rank;                           /* of adapters */
    double lora_dropout;
    /* ranks */
    plm_torch_shard shard;
    int64_t ranks;
    bool buckets_are_gradients; /* DDP's gradient_as_bucket_view */
    bool keeps_gathered;        /* FSDP: reshard_after_forward false */
    int64_t reduce_bucket;      /* ZeRO-2 and 3, elements; as the next three */
    int64_t persistence;        /* ZeRO-3: parameters of fewer elements stay whole */
    int64_t live;               /* ZeRO-3: most that is gathered at once */
    int64_t sub_group;
    bool overlaps;           /* ZeRO: overlap_comm, a second bucket */
    bool gradients_in_fp32;  /* ZeRO: grad_accum_dtype */
    bool offloads_optimizer; /* ZeRO: to the host, as the next */
    bool offloads_parameters;
} plm_torch_job;

/* One sequence of 1024 tokens, weights in fp32, AdamW, one rank; DeepSpeed's own defaults. */
plm_torch_job plm_torch_job_default(void);

/*
 * Changes what a settings file speaks of: the JSON of TrainingArguments, of DeepSpeed (also inside
 * of the former), of peft's adapter_config, of a BitsAndBytesConfig, or an accelerate config in
 * JSON or YAML. Other keys are passed over; "auto" is what transformers makes of it for the config.
 * PLM_ERROR_IO; PLM_ERROR_FORMAT names file and key; *job is then as it was.
 */
PLM_MUST_USE plm_status plm_torch_settings_load(const char *path, const plm_config *config,
                                                plm_torch_job *job);

/* The same from memory. */
PLM_MUST_USE plm_status plm_torch_settings_read(const char *name, const void *bytes,
                                                size_t byte_count, const plm_config *config,
                                                plm_torch_job *job);

/* What bytes are for. One row a role: name, text, key in JSON. Lasting ones come first. */
#define PLM_TORCH_ROLE_MAP(ROW)                                                                    \
    ROW(PARAMETERS, "parameters", "parameters_bytes")                                              \
    ROW(MASTER, "fp32 masters", "master_bytes")                                                    \
    ROW(GRADIENTS, "gradients", "gradients_bytes")                                                 \
    ROW(OPTIMIZER, "optimizer", "optimizer_bytes")                                                 \
    ROW(ACTIVATIONS, "activations", "activations_bytes")                                           \
    ROW(TEMPORARIES, "temporaries", "temporaries_bytes")                                           \
    ROW(BUCKETS, "gathered layers and buckets", "buckets_bytes")                                   \
    ROW(ROUNDING, "rounding to 512 bytes", "rounding_bytes")

typedef enum plm_torch_role {
#define PLM_TORCH_ROLE_ROW(name, text, key) PLM_TORCH_##name,
    PLM_TORCH_ROLE_MAP(PLM_TORCH_ROLE_ROW)
#undef PLM_TORCH_ROLE_ROW
        PLM_TORCH_ROLE_COUNT
} plm_torch_role;

typedef enum plm_torch_certainty {
    PLM_TORCH_EXACT,
    PLM_TORCH_AT_MOST,
    PLM_TORCH_AT_LEAST,
    PLM_TORCH_ABOUT /* within some percent */
} plm_torch_certainty;

/* Bytes are of one rank: the first, which has no fewer than another. */
typedef struct plm_torch_bill {
    plm_torch_job job;
    plm_config_counts counts;
    int64_t trainable; /* parameters that get gradients */
    int64_t adapters;  /* of LoRA alone, in modules */
    int64_t adapted_modules;
    int64_t rank_elements;            /* parameters that the rank allocates, padding included */
    int64_t quantized_weights;        /* held in 4 bits */
    size_t quantized_bytes;           /* theirs, with the scales of blocks */
    size_t quantized_constants_bytes; /* code books and offsets, beside */
    size_t role_bytes[PLM_TORCH_ROLE_COUNT];
    plm_torch_certainty certainty[PLM_TORCH_ROLE_COUNT];
    size_t lasting_bytes; /* from step to step: parameters, masters, moments, what is held */
    size_t total_bytes;
} plm_torch_bill;

/*
 * *bill = what the job holds. PLM_ERROR_ARGUMENT for a job out of range, modules that the model
 * does not have, a family without default modules; PLM_ERROR_OVERFLOW beyond 2^62 bytes.
 */
PLM_MUST_USE plm_status plm_torch_bill_make(const plm_config *config, const plm_torch_job *job,
                                            plm_torch_bill *bill);

/* "fsdp2", ...; "adamw", ...; "exact", "at most", ...; static. */
const char *plm_torch_shard_text(plm_torch_shard shard);
const char *plm_torch_optim_text(plm_torch_optim optim);
const char *plm_torch_certainty_text(plm_torch_certainty certainty);

/* A bill with what it is of, for a report; texts are borrowed. */
typedef struct plm_torch_entry {
    const plm_config *config;
    const plm_torch_bill *bill;
    const char *target;    /* NULL: none */
    size_t budget_bytes;   /* 0: none */
    size_t overhead_bytes; /* context and libraries */
} plm_torch_entry;

/* Whether the bill and the overhead are within the budget; without a budget everything is. */
bool plm_torch_entry_fits(const plm_torch_entry *entry);

/*
 * *text = the bills as a page: one in full, several as one table. Owned by the caller, freed with
 * plm_free. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_report_torch_bill_text(const plm_torch_entry *entries, int64_t count,
                                                   plm_report_style style, char **text);

/* *line = the same as one line of JSON: an object, of several {"bills": [...]}. As above. */
PLM_MUST_USE plm_status plm_report_torch_bill_json(const plm_torch_entry *entries, int64_t count,
                                                   char **line);

#ifdef __cplusplus
}
#endif
#endif
