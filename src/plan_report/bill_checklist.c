/* SPDX-License-Identifier: MIT */
/*
 * The checklist of a plan. Here nothing is inferred: owners say role and type, the order says last
 * uses, and gains are those of plans that were made (the bill's treatments).
 */
#include <stdio.h>
#include <string.h>

#include "plimsoll/size.h"
#include "base/number.h"
#include "plan_report/bill_internal.h"
#include "report/checklist.h"
#include "diagnose/checklist.h"

enum {
    LEAST_PART = 20,     /* of the peak: a smaller gain is not worth a word */
    UNUSED_PER_CENT = 2, /* of the arena: less suits */
    FIGURES = 4
};

/* Whether a plan differs from another in what a question is about. */
typedef bool differs(const plm_plan_summary *now, const plm_plan_summary *then);

static const plm_alternative *find_treatment(const plm_bill *bill, differs *suits)
{
    const plm_advice *advice = bill->treatments;
    for (int i = 0; advice && i < advice->alternative_count; i++)
        if (suits(&bill->plan, &advice->alternatives[i].plan))
            return &advice->alternatives[i]; /* the smallest peak comes first */
    return NULL;
}

static size_t gain_of(const plm_bill *bill, const plm_alternative *other)
{
    size_t now = bill->plan.peak_bytes, then = other ? other->plan.peak_bytes : now;
    return now > then ? now - then : 0;
}

/* ---- state ---- */

static bool changes_optimizer(const plm_plan_summary *now, const plm_plan_summary *then)
{
    return now->optimizer != then->optimizer;
}

static bool narrows_gradients(const plm_plan_summary *now, const plm_plan_summary *then)
{
    return now->strategy.gradient == PLM_DTYPE_F32 && then->strategy.gradient != PLM_DTYPE_F32;
}

static bool is_state(int32_t role)
{
    return role == PLM_ROLE_PARAMETER || role == PLM_ROLE_MASTER || role == PLM_ROLE_GRADIENT ||
           role == PLM_ROLE_OPTIMIZER;
}

static void answer_state(const plm_bill *bill, plm_checklist_item *check)
{
    static const plm_role roles[] = {PLM_ROLE_PARAMETER, PLM_ROLE_MASTER, PLM_ROLE_GRADIENT,
                                     PLM_ROLE_OPTIMIZER};
    char wide[PLM_SIZE_TEXT];
    size_t fp32 = 0, all = 0;
    int64_t blocks[PLM_ROLE_COUNT] = {0}, count;
    const plm_event *events = plm_trace_events(bill->trace, &count);
    for (int64_t i = 0; i < bill->live_count; i++) {
        const plm_owner *owner = plm__bill_owner(bill, bill->live[i]);
        if (!owner || !is_state(owner->role))
            continue;
        blocks[owner->role]++;
        all += events[bill->live[i]].bytes_asked;
        fp32 += owner->dtype == PLM_DTYPE_F32 ? events[bill->live[i]].bytes_asked : 0;
    }
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (blocks[roles[i]] > 0)
            plm__checklist_add_figure(check, plm__bill_role_words(roles[i]), NULL, blocks[roles[i]],
                                      bill->at_peak_bytes[roles[i]]);
    const plm_alternative *narrow = find_treatment(bill, narrows_gradients);
    const plm_alternative *other = narrow ? narrow : find_treatment(bill, changes_optimizer);
    check->answer = narrow ? PLM_ANSWER_YES : PLM_ANSWER_NO;
    check->gain_bytes = gain_of(bill, other);
    plm__print(check->reason, sizeof check->reason,
               "%s of state are fp32, %.1f bytes a parameter in all; %s",
               plm_size_format(fp32, wide), (double)all / (double)bill->plan.parameter_count,
               narrow ? "nothing is added up in the gradients, so they need no more bits than the "
                        "weights"
                      : "each is held once, and the update reads and writes it");
    if (check->gain_bytes > 0)
        snprintf(check->action, sizeof check->action, "%s%s",
                 narrow ? "" : "only where another optimizer is acceptable: ", other->what);
    snprintf(check->basis, sizeof check->basis, "roles and types of what lives at the peak");
}

/* ---- activations ---- */

static bool drops_activations(const plm_plan_summary *now, const plm_plan_summary *then)
{
    return now->strategy.recompute != then->strategy.recompute ||
           now->strategy.recompute_count != then->strategy.recompute_count ||
           now->strategy.attention != then->strategy.attention ||
           now->strategy.head_chunks != then->strategy.head_chunks;
}

static void add_kept(const plm_bill *bill, const plm__bill_rows *rows, plm_checklist_item *check)
{
    for (int64_t i = 0; i < rows->list.count && check->figure_count < FIGURES; i++) {
        const plm__bill_row *row = &rows->list.items[i];
        plm_text layer = {0};
        if (!row->owner || row->owner->role != PLM_ROLE_ACTIVATION)
            continue;
        plm__bill_add_layer(bill, row, &layer);
        plm__checklist_add_figure(check, plm_trace_text(bill->trace, row->owner->op),
                                  layer.status == PLM_OK && layer.count > 0 ? layer.items : "",
                                  row->count, row->total_bytes);
        plm__text_fini(&layer);
    }
}

static void answer_activations(const plm_bill *bill, const plm__bill_rows *rows,
                               plm_checklist_item *check)
{
    char kept[PLM_SIZE_TEXT], peak[PLM_SIZE_TEXT];
    const plm_alternative *other = find_treatment(bill, drops_activations);
    size_t gain = gain_of(bill, other);
    bool much = gain >= bill->plan.peak_bytes / LEAST_PART && gain > 0;
    add_kept(bill, rows, check);
    snprintf(check->reason, sizeof check->reason,
             "%s of the peak's %s are activations that the backward reads%s",
             plm_size_format(bill->at_peak_bytes[PLM_ROLE_ACTIVATION], kept),
             plm_size_format(bill->live_bytes, peak),
             much ? ", and can be made again or never be whole"
                  : "; no choice that is left open makes the peak much smaller");
    check->answer = much ? PLM_ANSWER_YES : PLM_ANSWER_NO;
    check->gain_bytes = much ? gain : 0;
    if (much)
        snprintf(check->action, sizeof check->action, "%s", other->what);
    snprintf(check->basis, sizeof check->basis, "the plan with that one choice made otherwise");
}

/* ---- lifetimes, placement ---- */

static bool ends_gradients_early(const plm_plan_summary *now, const plm_plan_summary *then)
{
    return now->strategy.update == PLM_UPDATE_LATE && then->strategy.update == PLM_UPDATE_EARLY;
}

static void answer_lifetimes(const plm_bill *bill, plm_checklist_item *check)
{
    char gradients[PLM_SIZE_TEXT];
    size_t held = bill->at_peak_bytes[PLM_ROLE_GRADIENT];
    const plm_strategy *strategy = &bill->plan.strategy;
    const plm_alternative *early = find_treatment(bill, ends_gradients_early);
    check->answer = early ? PLM_ANSWER_YES : PLM_ANSWER_NO;
    check->gain_bytes = gain_of(bill, early);
    if (early)
        snprintf(check->reason, sizeof check->reason,
                 "gradients have a place through the whole step, %s, though each could be used up "
                 "when it is made; all else dies with its last reader",
                 plm_size_format(held, gradients));
    else
        snprintf(check->reason, sizeof check->reason,
                 "every block that comes and goes dies with its last reader%s",
                 strategy->update == PLM_UPDATE_EARLY ? ", gradients with their update"
                 : strategy->micro_batch < bill->plan.batch
                     ? "; gradients wait for the rest of the "
                       "window's micro-batches"
                     : "");
    if (early)
        snprintf(check->action, sizeof check->action, "%s", early->what);
    if (held > 0)
        plm__checklist_add_figure(check, plm__bill_role_words(PLM_ROLE_GRADIENT), NULL, 0, held);
    snprintf(check->basis, sizeof check->basis,
             "the order of the operations, which is the one that runs");
}

static void answer_allocator(const plm_bill *bill, plm_checklist_item *check)
{
    char arena[PLM_SIZE_TEXT], bound[PLM_SIZE_TEXT];
    const plm_plan_summary *plan = &bill->plan;
    size_t unused = plan->arena_bytes - plan->lower_bound_bytes;
    bool suits = unused <= plan->arena_bytes / 100 * UNUSED_PER_CENT;
    check->answer = suits ? PLM_ANSWER_YES : PLM_ANSWER_NO;
    check->gain_bytes = suits ? 0 : unused;
    plm__checklist_add_figure(check, "arena", NULL, 0, plan->arena_bytes);
    plm__checklist_add_figure(check, "no placement is smaller than", NULL, 0,
                              plan->lower_bound_bytes);
    snprintf(check->reason, sizeof check->reason,
             "the arena is %s where no placement could be below %s; nothing is allocated in a run",
             plm_size_format(plan->arena_bytes, arena),
             plm_size_format(plan->lower_bound_bytes, bound));
    snprintf(check->basis, sizeof check->basis, "the packing that the run uses, and its bound");
}

void plm__bill_checklist(const plm_bill *bill, const plm__bill_rows *rows, plm_checklist *list)
{
    memset(list, 0, sizeof *list);
    answer_state(bill, &list->items[PLM_QUESTION_STATE]);
    answer_activations(bill, rows, &list->items[PLM_QUESTION_ACTIVATIONS]);
    answer_lifetimes(bill, &list->items[PLM_QUESTION_LIFETIMES]);
    answer_allocator(bill, &list->items[PLM_QUESTION_ALLOCATOR]);
}
