/* SPDX-License-Identifier: MIT */
/* The devices that a bill of a config is for: a list of names, each with what may be used there. */
#ifndef PLM_CLI_BILL_TARGETS_H
#define PLM_CLI_BILL_TARGETS_H

#include "choices.h"

enum { CLI_BILL_TARGETS_MAX = 8 };

typedef struct cli_bill_target {
    char name[64];         /* "": the line names none */
    size_t budget_bytes;   /* 0: none */
    size_t overhead_bytes; /* context and libraries */
    size_t memory_bytes;   /* 0: not known */
} cli_bill_target;

typedef struct cli_bill_targets {
    cli_bill_target items[CLI_BILL_TARGETS_MAX];
    int count; /* 1 at least */
} cli_bill_targets;

/* *targets = those of --target, parted by commas, with what --budget states, at most the memory of
 * the device; without --budget 98 % of that, as for plans. False when *exit_status is the answer
 * already: the line that says what was wrong was printed. */
bool cli_bill_targets_find(const cli_choices *choices, cli_bill_targets *targets, int *exit_status);

#endif
