/* SPDX-License-Identifier: MIT */
/*
 * The strategy: every choice that trades memory against time, in one plain structure. It never
 * changes what is computed beyond the order of sums. A plan prints one, training takes one, a test
 * writes one by hand; as JSON it is one object with the field names below.
 *
 * Thread-safe: a strategy is the caller's.
 */
#ifndef PLIMSOLL_STRATEGY_H
#define PLIMSOLL_STRATEGY_H

#include "plimsoll/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum plm_attention_form {
    PLM_ATTENTION_FUSED, /* blockwise: memory linear in the sequence length */
    PLM_ATTENTION_PLAIN, /* scores and probabilities are tensors, [batch, heads, T, T] */
    PLM_ATTENTION_AUTO   /* chosen by the plan */
} plm_attention_form;

/* When a parameter is updated. */
typedef enum plm_update_time {
    PLM_UPDATE_LATE, /* at the end of the window, when every gradient is there */
    PLM_UPDATE_EARLY /* as soon as its gradient is made, which then need not be kept */
} plm_update_time;

/*
 * What a block makes again in the backward instead of keeping it: bits that combine. In JSON the
 * rungs "none", "act", "norm", "mlp", "block" are cumulative ("norm" includes "act", "mlp" both),
 * and "attention" joins any with a plus: "mlp+attention". So does an operation by the name that
 * plans and profiles print, of which then nothing is kept: "act+attention.qkv", "ln1+gelu".
 */
typedef enum plm_recompute {
    PLM_RECOMPUTE_NONE = 0,
    PLM_RECOMPUTE_ACT = 1,       /* outputs of activation functions */
    PLM_RECOMPUTE_NORM = 2,      /* outputs of normalisations */
    PLM_RECOMPUTE_MLP = 4,       /* products that feed an activation function */
    PLM_RECOMPUTE_ATTENTION = 8, /* attention's output, statistics and probabilities */
    PLM_RECOMPUTE_BLOCK = 16,    /* everything but what leaves the block */
    PLM_RECOMPUTE_AUTO = 32      /* alone: chosen by the plan, block by block */
} plm_recompute;

enum {
    PLM_BLOCKS_MAX = 1024,         /* blocks of a network */
    PLM_RECOMPUTE_NAMES_MAX = 16,  /* operations by name in a strategy */
    PLM_RECOMPUTE_NAME_BYTES = 32, /* of a name, its end included */
    PLM_RECOMPUTE_NAMES_SHIFT = 8  /* the bit of the first name */
};

/* As a precision: the one that the device is best at, chosen by the plan. "auto" in JSON. */
#define PLM_PRECISION_AUTO PLM_DTYPE_COUNT

typedef struct plm_strategy {
    int64_t micro_batch; /* sequences held at once, a divisor of the batch; 0: chosen by the plan */
    plm_dtype precision; /* of weights and activations: fp32, or bf16 or fp16 with fp32 masters;
                            PLM_PRECISION_AUTO */
    plm_dtype gradient;  /* of the weights' gradients: fp32; bf16 with bf16 weights, when nothing
                            is added up: one micro-batch a window, head and MLP whole */
    plm_update_time update; /* early: with one micro-batch a window, no clipping, no loss scale */
    plm_attention_form attention;
    int64_t head_chunks; /* pieces in which head and loss run, 1: whole; 0: chosen by the plan */
    int64_t mlp_chunks;  /* pieces in which the MLP runs of each block that does not keep it; a
                            plan whose blocks all keep theirs tells 1 */
    uint32_t recompute;  /* plm_recompute bits of every block that is not listed, above them a bit
                            for each name */
    int32_t recompute_count;               /* blocks listed, from block 0 */
    uint32_t recompute_of[PLM_BLOCKS_MAX]; /* their bits */
    int32_t recompute_name_count;
    char recompute_names[PLM_RECOMPUTE_NAMES_MAX][PLM_RECOMPUTE_NAME_BYTES]; /* bit SHIFT + i */
} plm_strategy;

/* The defaults: micro-batch chosen by the plan, fp32, fused attention, update late. */
plm_strategy plm_strategy_default(void);

/* "late" or "early", "unknown" for neither; static. */
const char *plm_update_time_text(plm_update_time update);

/* "fused", "plain" or "auto", "unknown" for none of them; static. */
const char *plm_attention_text(plm_attention_form form);

/*
 * Reads the same and operations' names, for `strategy`, to which names are added that it does not
 * have. Whether a network has such operations is seen when it is planned. PLM_ERROR_ARGUMENT for
 * what can be no name, and for more than PLM_RECOMPUTE_NAMES_MAX of them.
 */
PLM_MUST_USE plm_status plm_strategy_recompute_parse(plm_strategy *strategy, const char *text,
                                                     uint32_t *bits);

enum { PLM_RECOMPUTE_TEXT = 24 + PLM_RECOMPUTE_NAMES_MAX * PLM_RECOMPUTE_NAME_BYTES };

/* "none", "mlp in every block", or "block in 4 blocks, then act in 8 blocks", what does not fit cut
 * off, into the caller's buffer, which is returned. */
enum { PLM_RECOMPUTE_LIST_TEXT = 160 };
const char *plm_strategy_recompute_format(const plm_strategy *strategy,
                                          char text[PLM_RECOMPUTE_LIST_TEXT]);

/*
 * Reads a strategy from JSON text of `byte_count` bytes; fields that are absent keep their default.
 * `what` names the input in messages. PLM_ERROR_FORMAT for anything malformed, PLM_ERROR_ARGUMENT
 * for an unknown field, a wrong type or a value out of range; *strategy is then as it was.
 */
PLM_MUST_USE plm_status plm_strategy_read(const char *what, const void *text, size_t byte_count,
                                          plm_strategy *strategy);

/* *line = the strategy as one JSON object on one line, which plm_strategy_read reads; owned by the
 * caller, freed with plm_free. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm_strategy_json(const plm_strategy *strategy, char **line);

/* Writes that line as a file, whole or not at all. PLM_ERROR_IO. */
PLM_MUST_USE plm_status plm_strategy_save(const plm_strategy *strategy, const char *path);

/* Reads a strategy from a file. PLM_ERROR_IO; else as plm_strategy_read. */
PLM_MUST_USE plm_status plm_strategy_load(const char *path, plm_strategy *strategy);

#ifdef __cplusplus
}
#endif
#endif
