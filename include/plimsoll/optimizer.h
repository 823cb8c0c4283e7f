/* SPDX-License-Identifier: MIT */
/*
 * The optimizers: what an update does with a gradient, and how many moments it keeps for each
 * parameter. The choice changes what is computed, so it belongs to the job, not to the strategy.
 *
 *     AdamW    two moments; weight decay apart from the gradient
 *     SGD      one moment, the momentum's sum; weight decay as a part of the gradient
 *
 * Thread-safe.
 */
#ifndef PLIMSOLL_OPTIMIZER_H
#define PLIMSOLL_OPTIMIZER_H

#ifdef __cplusplus
extern "C" {
#endif

/* One row an optimizer: name, operation, moments, text on the command line, text for people. */
#define PLM_OPTIMIZER_MAP(ROW)                                                                     \
    ROW(ADAMW, ADAMW, 2, "adamw", "AdamW")                                                         \
    ROW(SGD, SGD, 1, "sgd", "SGD with momentum")

typedef enum plm_optimizer {
#define PLM_OPTIMIZER_ROW(name, ...) PLM_OPTIMIZER_##name,
    PLM_OPTIMIZER_MAP(PLM_OPTIMIZER_ROW)
#undef PLM_OPTIMIZER_ROW
        PLM_OPTIMIZER_COUNT
} plm_optimizer;

/* "adamw", "sgd", "unknown"; static. */
const char *plm_optimizer_text(plm_optimizer optimizer);

/* "AdamW", "SGD with momentum"; static. */
const char *plm_optimizer_title(plm_optimizer optimizer);

#ifdef __cplusplus
}
#endif
#endif
