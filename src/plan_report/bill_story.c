/* SPDX-License-Identifier: MIT */
/*
 * The peak in words. Sentences are put together from the trace: which operation of which program
 * reaches the peak, what is always there, what else is large, what it is kept for.
 */
#include <string.h>

#include "plimsoll/size.h"
#include "plan_report/bill_internal.h"
#include "report/wrap.h"

enum { STORY_ROWS = 3 }; /* that are told one by one */

/* Of the peak: smaller rows are not worth a clause, smaller roles not a word. */
static const double row_share = 0.02, role_share = 0.0005;

/* The last mark up to the peak: the program that runs. "" when there is none. */
static const char *find_program(const plm_bill *bill)
{
    int64_t count;
    const plm_event *events = plm_trace_events(bill->trace, &count);
    for (int64_t i = bill->peak_event; i >= 0; i--)
        if (events[i].kind == PLM_EVENT_MARK)
            return plm_trace_text(bill->trace, events[i].label);
    return "";
}

/* Who runs, in words: "the first micro-batch". */
static void add_program(const char *program, plm_text *out)
{
    static const struct {
        const char *name, *words;
    } programs[] = {
        {"first", "the first micro-batch"}, {"next", "a later micro-batch"},
        {"update", "the update"},           {"evaluate", "an evaluation"},
        {"generate", "a generation"},
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (strcmp(program, programs[i].name) == 0) {
            plm__text_add(out, "%s", programs[i].words);
            return;
        }
    plm__text_add(out, "`%s`", program);
}

static void add_where(const plm_bill *bill, plm_text *out)
{
    const plm_owner *owner = plm__bill_owner(bill, bill->peak_event);
    const char *program = find_program(bill);
    plm__bill_row row = {.owner = owner, .count = 1, .layer_count = 1};
    bool has_layer = owner && plm_trace_text(bill->trace, owner->layer)[0];
    plm__text_add(out, "The peak is ");
    if (has_layer) {
        const char *layer = plm_trace_text(bill->trace, owner->layer);
        plm__text_add(out, "in %s", layer[plm__bill_family_bytes(layer)] ? "" : "the ");
        plm__bill_add_layer(bill, &row, out);
        plm__text_add(out, ", ");
    }
    plm__text_add(out, "when ");
    if (program[0]) {
        add_program(program, out);
        plm__text_add(out, " runs ");
    }
    if (owner && owner->op)
        plm__text_add(out, "%s", plm_trace_text(bill->trace, owner->op));
    else if (owner)
        plm__text_add(out, "%s is made", plm__bill_name(bill, owner));
    else
        plm__text_add(out, "a block without an owner is made");
    plm__text_add(out, ".");
}

static bool is_named(const plm_bill *bill, int role)
{
    return plm__bill_role_persists((plm_role)role) &&
           (double)bill->at_peak_bytes[role] > role_share * (double)bill->live_bytes;
}

/* "Of the 7.94 GiB live then, 1.85 GiB (23 %) is there all the time: parameters and gradients." */
static void add_persistent(const plm_bill *bill, plm_text *out)
{
    char all[PLM_SIZE_TEXT], always[PLM_SIZE_TEXT];
    size_t bytes = 0;
    int64_t count = 0, index = 0;
    for (int role = 0; role < PLM_ROLE_COUNT; role++) {
        bytes += plm__bill_role_persists((plm_role)role) ? bill->at_peak_bytes[role] : 0;
        count += is_named(bill, role);
    }
    if (count == 0)
        return;
    plm__text_add(out, " Of the %s live then, %s (%.0f %%) is there all the time: ",
                  plm_size_format(bill->live_bytes, all), plm_size_format(bytes, always),
                  100.0 * (double)bytes / (double)bill->live_bytes);
    for (int role = 0; role < PLM_ROLE_COUNT; role++)
        if (is_named(bill, role))
            plm__text_list(out, plm__bill_role_words((plm_role)role), index++, count);
    plm__text_add(out, ".");
}

static void add_name(const plm_bill *bill, const plm__bill_row *row, plm_text *out)
{
    const plm_owner *owner = row->owner;
    const char *op = owner ? plm_trace_text(bill->trace, owner->op) : "";
    if (!owner)
        plm__text_add(out, "blocks without an owner");
    else if (owner->role == PLM_ROLE_WORKSPACE)
        plm__text_add(out, "the workspace of %s", op);
    else if (owner->role == PLM_ROLE_INPUT)
        plm__text_add(out, "the input %s", plm__bill_name(bill, owner));
    else
        plm__text_add(out, "the %s%s%s", plm__bill_name(bill, owner), op[0] ? " made by " : "", op);
    if (owner && owner->rank > 0) {
        plm__text_add(out, ", ");
        plm__bill_add_shape(owner, out);
    }
}

/* ", 96.0 MiB in each of 12 blocks" */
static void add_amount(const plm_bill *bill, const plm__bill_row *row, plm_text *out)
{
    char each[PLM_SIZE_TEXT], total[PLM_SIZE_TEXT];
    plm_text layers = {0};
    plm__bill_add_layer(bill, row, &layers);
    plm__text_add(out, ", %s", plm_size_format(row->each_bytes, each));
    if (row->count > 1 && row->count == row->layer_count)
        plm__text_add(out, " in each of %s (%s)", layers.items,
                      plm_size_format(row->total_bytes, total));
    else if (row->count > 1)
        plm__text_add(out, " %lld times (%s)", (long long)row->count,
                      plm_size_format(row->total_bytes, total));
    if (layers.status != PLM_OK)
        out->status = layers.status;
    plm__text_fini(&layers);
}

/* ", kept because gelu gradient needs it" */
static void add_reason(const plm_bill *bill, const plm__bill_row *row, plm_text *out)
{
    int64_t count = 0;
    while (row->owner && count < PLM_TRACE_KEPT_MAX && row->owner->kept_for[count])
        count++;
    if (count == 0 || row->owner->role == PLM_ROLE_WORKSPACE)
        return;
    bool kept = row->owner->role == PLM_ROLE_ACTIVATION;
    plm__text_add(out, kept ? ", kept because " : ", which ");
    for (int64_t i = 0; i < count; i++) {
        plm_text place = {0};
        plm__bill_add_place(bill, row->owner, row->owner->kept_for[i], &place);
        plm__text_list(out, place.status == PLM_OK ? place.items : "", i, count);
        if (place.status != PLM_OK)
            out->status = place.status;
        plm__text_fini(&place);
    }
    if (kept)
        plm__text_add(out, " %s %s", count == 1 ? "needs" : "need", row->count > 1 ? "them" : "it");
    else
        plm__text_add(out, " %s", count == 1 ? "reads" : "read");
}

static bool is_told(const plm_bill *bill, const plm__bill_row *row)
{
    bool persists = row->owner && plm__bill_role_persists((plm_role)row->owner->role);
    return !persists && (double)row->total_bytes >= row_share * (double)bill->live_bytes;
}

static void add_largest(const plm_bill *bill, const plm__bill_rows *rows, plm_text *out)
{
    int told = 0;
    for (int64_t i = 0; i < rows->list.count && told < STORY_ROWS; i++) {
        const plm__bill_row *row = &rows->list.items[i];
        if (!is_told(bill, row))
            continue;
        plm__text_add(out, "%s", told == 0 ? " The largest of what comes and goes: " : "; then ");
        add_name(bill, row, out);
        add_amount(bill, row, out);
        add_reason(bill, row, out);
        told++;
    }
    if (told > 0)
        plm__text_add(out, ".");
}

void plm__bill_add_story(const plm_bill *bill, const plm__bill_rows *rows, plm_text *out)
{
    if (bill->peak_event < 0) {
        plm__text_add(out, "Nothing was ever live.");
        return;
    }
    add_where(bill, out);
    add_persistent(bill, out);
    add_largest(bill, rows, out);
}

/* What it means that a role holds most. */
static const char *const meanings[PLM_ROLE_COUNT] = {
    [PLM_ROLE_PARAMETER] = "they are the model itself: no batch or length makes them smaller",
    [PLM_ROLE_MASTER] = "they are as many as the parameters: no batch or length makes them smaller",
    [PLM_ROLE_GRADIENT] =
        "they are as many as the parameters: no batch or length makes them smaller",
    [PLM_ROLE_OPTIMIZER] =
        "it grows with the parameters alone: no batch or length makes it smaller",
    [PLM_ROLE_INPUT] = "they grow with micro-batch and length",
    [PLM_ROLE_ACTIVATION] =
        "they are kept for the backward pass and grow with micro-batch, length and depth",
    [PLM_ROLE_TEMPORARY] = "they live for a few operations: the largest single one decides",
    [PLM_ROLE_WORKSPACE] = "they belong to the device's kernels, one operation at a time",
    [PLM_ROLE_CACHE] = "they grow with the tokens that are remembered",
    [PLM_ROLE_STATE] = "everything else is smaller still",
};

/* The largest row of a role, when that is over a third of it; else NULL. */
static const plm__bill_row *find_main_row(const plm_bill *bill, const plm__bill_rows *rows,
                                          plm_role role)
{
    for (int64_t i = 0; i < rows->list.count; i++) {
        const plm__bill_row *row = &rows->list.items[i];
        if (row->owner && row->owner->role == (int32_t)role)
            return 3 * (double)row->total_bytes > (double)bill->at_peak_bytes[role] ? row : NULL;
    }
    return NULL;
}

/* Whether a tensor has an element for each pair of positions. */
static bool is_quadratic(const plm_bill *bill, const plm_owner *owner)
{
    int64_t sequence = bill->plan.sequence;
    return owner->rank >= 2 && sequence > 1 && owner->shape[owner->rank - 1] == sequence &&
           owner->shape[owner->rank - 2] == sequence;
}

static void add_main_row(const plm_bill *bill, const plm__bill_row *row, plm_text *out)
{
    const char *op = plm_trace_text(bill->trace, row->owner->op);
    plm__text_add(out, " %.0f %% of that is the %s%s%s",
                  100.0 * (double)row->total_bytes / (double)bill->at_peak_bytes[row->owner->role],
                  plm__bill_name(bill, row->owner), op[0] ? " made by " : "", op);
    if (is_quadratic(bill, row->owner))
        plm__text_add(out, ", which grows with the square of the sequence%s",
                      bill->plan.strategy.attention == PLM_ATTENTION_PLAIN
                          ? "; fused attention never holds it"
                          : "");
    plm__text_add(out, ".");
}

/* A smaller micro-batch helps what grows with it, as long as there is one. */
static void add_treatment(const plm_bill *bill, plm_role role, plm_text *out)
{
    int64_t micro_batch = bill->plan.strategy.micro_batch;
    bool grows =
        role == PLM_ROLE_ACTIVATION || role == PLM_ROLE_TEMPORARY || role == PLM_ROLE_INPUT;
    if (!grows || micro_batch == 0)
        return;
    if (micro_batch > 1)
        plm__text_add(out, "; a smaller micro-batch than %lld shrinks them in proportion",
                      (long long)micro_batch);
    else
        plm__text_add(out, "; the micro-batch is 1 already, a shorter sequence is what is left");
}

/* The role that holds most at the peak. */
static plm_role largest_role(const plm_bill *bill)
{
    int largest = 0;
    for (int role = 1; role < PLM_ROLE_COUNT; role++)
        if (bill->at_peak_bytes[role] > bill->at_peak_bytes[largest])
            largest = role;
    return (plm_role)largest;
}

void plm__bill_add_verdict(const plm_bill *bill, const plm__bill_rows *rows, plm_text *out)
{
    plm_role role = largest_role(bill);
    size_t bytes = bill->at_peak_bytes[role];
    size_t peak = bill->plan.peak_bytes ? bill->plan.peak_bytes : bill->live_bytes;
    char text[PLM_SIZE_TEXT];
    if (bytes == 0) {
        plm__text_add(out, "No role holds anything at the peak.");
        return;
    }
    plm__text_add(out, "Most is held by %s, %s or %.0f %% of the peak: %s",
                  plm__bill_role_words(role), plm_size_format(bytes, text),
                  100.0 * (double)bytes / (double)peak, meanings[role]);
    add_treatment(bill, role, out);
    plm__text_add(out, ".");
    const plm__bill_row *row = find_main_row(bill, rows, role);
    if (row)
        add_main_row(bill, row, out);
}
