/* SPDX-License-Identifier: MIT */
/* Targets by name for bills of configs. */
#include "bill_targets.h"

#include <stdio.h>
#include <string.h>

static plm_status find_target(const char *name, size_t budget_bytes, cli_bill_target *target)
{
    plm_device_profile profile;
    plm_status status = plm_device_profile_find(name, &profile);
    if (status != PLM_OK)
        return status;
    snprintf(target->name, sizeof target->name, "%s", profile.name);
    target->overhead_bytes = profile.overhead_bytes;
    target->memory_bytes = profile.memory_bytes;
    target->budget_bytes = cli_target_budget(budget_bytes, profile.memory_bytes);
    return PLM_OK;
}

bool cli_bill_targets_find(const cli_choices *choices, cli_bill_targets *targets, int *exit_status)
{
    const char *at = choices->target;
    *targets = (cli_bill_targets){.items[0].budget_bytes = choices->budget_bytes, .count = 1};
    if (!at)
        return true;
    targets->count = 0;
    do {
        char name[256];
        size_t count = strcspn(at, ",");
        if (targets->count == CLI_BILL_TARGETS_MAX || count >= sizeof name) {
            *exit_status =
                cli_wrong("wanted at most %d targets, each a name or a path of less than "
                          "256 bytes, found '%s'",
                          CLI_BILL_TARGETS_MAX, choices->target);
            return false;
        }
        snprintf(name, sizeof name, "%.*s", (int)count, at);
        plm_status status =
            find_target(name, choices->budget_bytes, &targets->items[targets->count]);
        if (status != PLM_OK) {
            *exit_status = cli_finish(status);
            return false;
        }
        targets->count++;
        at += count + (at[count] == ',');
    } while (*at);
    return true;
}
