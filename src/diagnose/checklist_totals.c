/* SPDX-License-Identifier: MIT */
/*
 * The checklist where only totals are known: statistics, a trace of torch.profiler. Three questions
 * are about blocks and stay open. For the allocator's, the largest need and the largest reserve are
 * enough, whenever each was: no allocator can do with less than the first.
 */
#include <stdio.h>
#include <string.h>

#include "plimsoll/size.h"
#include "diagnose/checklist_internal.h"

static void leave_open(const plm_totals *totals, plm_checklist_item *check)
{
    snprintf(check->reason, sizeof check->reason,
             "%s, without which parameters, activations and lives cannot be told apart",
             totals->lacks);
    snprintf(check->action, sizeof check->action,
             "record a snapshot with its history, over two steps or more: plimsoll record");
    snprintf(check->basis, sizeof check->basis, "totals");
}

void plm__checklist_of_totals(const plm_totals *totals, plm_checklist *list)
{
    char reserved[PLM_SIZE_TEXT], needed[PLM_SIZE_TEXT];
    size_t most = totals->reserved_peak_bytes, need = totals->needed_peak_bytes;
    plm_checklist_item *check = &list->items[PLM_QUESTION_ALLOCATOR];
    memset(list, 0, sizeof *list);
    for (int i = 0; i < PLM_QUESTION_COUNT; i++)
        leave_open(totals, &list->items[i]);
    if (most == 0 || need == 0)
        return;
    bool wastes = plm__is_waste(most, need);
    if (!wastes)
        check->answer = PLM_ANSWER_YES;
    else if (totals->same_span)
        check->answer = PLM_ANSWER_NO;
    snprintf(check->reason, sizeof check->reason,
             "%s were reserved at most where blocks needed %s at most%s",
             plm_size_format(most, reserved), plm_size_format(need, needed),
             wastes && !totals->same_span ? ", but the reserve may be from before the trace" : "");
    snprintf(check->basis, sizeof check->basis, "%s", totals->span);
    if (check->answer == PLM_ANSWER_YES)
        check->action[0] = '\0';
    plm__checklist_add_figure(check, "reserved peak", NULL, 0, most);
    plm__checklist_add_figure(check, "needed by blocks", NULL, 0, need);
}
