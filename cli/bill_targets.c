/* SPDX-License-Identifier: MIT */
/* Targets by name for bills of configs. */
#include "bill_targets.h"

#include <stdio.h>
#include <string.h>

enum { MARGIN_PART = 50 }; /* of a target's memory stays free: see TARGET_MARGIN_PART */

static plm_status find_target(const char *name, size_t budget_bytes, cli_bill_target *target)
{
    plm_device_profile profile;
    plm_status status = plm_device_profile_find(name, &profile);
    if (status != PLM_OK)
        return status;
    size_t memory = profile.memory_bytes;
    snprintf(target->name, sizeof target->name, "%s", profile.name);
    target->overhead_bytes = profile.overhead_bytes;
    target->memory_bytes = memory;
    target->budget_bytes = budget_bytes > 0 && (budget_bytes < memory || memory == 0)
                               ? budget_bytes
                               : memory - (budget_bytes > 0 ? 0 : memory / MARGIN_PART);
    return PLM_OK;
}

plm_status cli_bill_targets_find(const cli_choices *choices, cli_bill_targets *targets)
{
    char names[256], *rest = NULL;
    *targets = (cli_bill_targets){0};
    targets->items[0].budget_bytes = choices->budget_bytes;
    targets->count = 1;
    if (!choices->target)
        return PLM_OK;
    targets->count = 0;
    snprintf(names, sizeof names, "%s", choices->target);
    for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        if (targets->count == CLI_BILL_TARGETS_MAX)
            break;
        plm_status status =
            find_target(name, choices->budget_bytes, &targets->items[targets->count]);
        if (status != PLM_OK)
            return status;
        targets->count++;
    }
    return targets->count > 0 ? PLM_OK : find_target("", 0, &targets->items[0]);
}
