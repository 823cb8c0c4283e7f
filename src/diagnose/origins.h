/* SPDX-License-Identifier: MIT */
/*
 * Origins: what part of a training step a call stack belongs to, and which operation it is, read
 * from the names of PyTorch's own functions in it. What those do not say stays unknown.
 */
#ifndef PLM_DIAGNOSE_ORIGINS_H
#define PLM_DIAGNOSE_ORIGINS_H

#include <stdbool.h>

#include "plimsoll/trace.h"

typedef enum plm_part {
    PLM_PART_NO_STACK,        /* backward's own threads, C++ threads, a recording without stacks */
    PLM_PART_PROGRAM,         /* Python that is none of the following: the forward, mostly */
    PLM_PART_PARAMETERS,      /* modules made or moved */
    PLM_PART_OPTIMIZER,       /* a step of torch.optim */
    PLM_PART_OPTIMIZER_STATE, /* of it, where state is made */
    PLM_PART_BACKWARD,        /* where backward begins, or a backward function of C++ */
    PLM_PART_GRADIENTS,       /* sharded gradients as FSDP makes them */
    PLM_PART_WORKSPACE        /* cuBLAS's, which stays */
} plm_part;

typedef struct plm_origin {
    uint8_t part;       /* plm_part */
    bool checkpointed;  /* below torch.utils.checkpoint */
    const char *what;   /* of a program's block: "softmax", "linear layers"; static, never NULL */
    const char *remedy; /* what would keep it from being held; static, never NULL */
} plm_origin;

/* What a stack says; `stack` as plm_owner.frames. */
plm_origin plm__origin_of_stack(const plm_trace *trace, int32_t stack);

#endif
