/* SPDX-License-Identifier: MIT */
/* The parts of a bill of PyTorch's training. */
#ifndef PLM_FIT_TORCH_INTERNAL_H
#define PLM_FIT_TORCH_INTERNAL_H

#include "plimsoll/torch_bill.h"

/* What LoRA makes of a tensor. */
typedef struct plm_torch_adapter {
    bool is_adapted;
    bool is_saved; /* copied whole, and trained */
    int64_t in, out;
} plm_torch_adapter;

/* *targets = the modules that adapters go to: the job's, or peft's default. PLM_ERROR_ARGUMENT. */
PLM_MUST_USE plm_status plm__torch_targets(const plm_config *config, const plm_torch_job *job,
                                           char targets[PLM_TORCH_LIST_TEXT]);

/* What LoRA with these targets makes of a tensor. */
plm_torch_adapter plm__torch_adapter_of(const plm_torch_job *job, const char *targets,
                                        const plm_weight *weight);

/* Whether a comma-separated list has the word. */
bool plm__torch_list_has(const char *list, const char *word);

/* Activations that the backward pass reads, and what is held beside them at the step's fullest
 * instant; sums for the layers' adapted matrices stand in *counted. */
typedef struct plm_torch_adapted {
    double inputs;   /* elements a token of inputs that adapters copy, in the first layer */
    int64_t modules; /* in all layers */
} plm_torch_adapted;

void plm__torch_activations(const plm_config *config, const plm_torch_job *job,
                            const plm_torch_bill *bill, double *kept, double *temporary);

#endif
