/* SPDX-License-Identifier: MIT */
/*
 * The strategy: every choice that trades memory against time, in one plain structure. It never
 * changes what is computed beyond the order of sums. A plan prints one, training takes one, a test
 * writes one by hand; as JSON it is one object with the field names below.
 */
#ifndef PLIMSOLL_STRATEGY_H
#define PLIMSOLL_STRATEGY_H

#include "plimsoll/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum plm_attention_form {
    PLM_ATTENTION_FUSED, /* blockwise: memory linear in the sequence length */
    PLM_ATTENTION_PLAIN  /* scores and probabilities are tensors, [batch, heads, T, T] */
} plm_attention_form;

typedef struct plm_strategy {
    int64_t micro_batch; /* sequences held at once, a divisor of the batch; 0: chosen by the plan */
    plm_dtype precision; /* of weights and activations; PLM_DTYPE_F32 is built */
    plm_attention_form attention;
} plm_strategy;

/* The defaults: micro-batch chosen by the plan, fp32, fused attention. */
plm_strategy plm_strategy_default(void);

/* "fused" or "plain"; static. */
const char *plm_attention_text(plm_attention_form form);

/*
 * Reads a strategy from JSON text of `byte_count` bytes; fields that are absent keep their default.
 * `what` names the input in messages. PLM_ERROR_FORMAT for anything malformed, PLM_ERROR_ARGUMENT
 * for an unknown field, a wrong type or a value out of range; *strategy is then as it was.
 */
PLM_MUST_USE plm_status plm_strategy_read(const char *what, const void *text, size_t byte_count,
                                          plm_strategy *strategy);

/* The same from a file. PLM_ERROR_IO. */
PLM_MUST_USE plm_status plm_strategy_load(const char *path, plm_strategy *strategy);

#ifdef __cplusplus
}
#endif
#endif
