/* SPDX-License-Identifier: MIT */
/*
 * Is fp32 state held without need? Element types are not recorded; ratios of bytes are. Where the
 * program made 16-bit copies of its parameters, which have half of their sizes, the parameters are
 * fp32, and what has their size is too. What AdamW in mixed precision needs, fp32 parameters,
 * gradients and two moments, is no waste; a program that never trains needs none of it.
 */
#include <stdio.h>

#include "plimsoll/size.h"
#include "base/number.h"
#include "diagnose/checklist_internal.h"

enum {
    COPIED_SIZES_LEAST = 2,  /* one size may agree by chance */
    TWINS_MISSING_PART = 20, /* of the parameters' bytes, at most */
    COUNTER_BYTES = 8        /* state of this size counts steps */
};

typedef struct state_sum {
    int64_t blocks;
    size_t bytes;
} state_sum;

typedef struct state_sums {
    int64_t at; /* the event behind which they are taken */
    state_sum parameters, moments, gradients, copies;
    state_sum twins; /* made by the program, of parameters' sizes, still there behind a step */
    double moments_part, gradients_part; /* of the parameters' bytes */
    double moment_size;                  /* mean size of a moment, of a parameter's */
} state_sums;

static void add(state_sum *sum, const plm_event *event)
{
    sum->blocks++;
    sum->bytes += event->bytes_asked;
}

/* Adds a block of a parameter's size, at most as many of a size as there are parameters. */
static plm_status add_like(plm_sizes *left, const plm_event *event, state_sum *sum)
{
    int64_t *count;
    PLM_TRY(plm__sizes_find(left, event->bytes_asked, &count));
    if (*count > 0)
        add(sum, event);
    (*count)--;
    return PLM_OK;
}

static plm_status sum_parameters(const plm_facts *facts, plm_sizes left[2], state_sums *sums)
{
    for (int64_t i = 0; i < facts->event_count; i++) {
        const plm_event *event = &facts->events[i];
        int64_t *count;
        if (event->kind != PLM_EVENT_BLOCK_ALLOC ||
            facts->roles[event->block] != PLM_BLOCK_PARAMETER ||
            !plm__lives_at(facts, event->block, sums->at))
            continue;
        add(&sums->parameters, event);
        for (int k = 0; k < 2; k++) {
            PLM_TRY(plm__sizes_find(&left[k], event->bytes_asked, &count));
            (*count)++;
        }
    }
    return PLM_OK;
}

static plm_status sum_others(const plm_facts *facts, plm_sizes left[2], state_sums *sums)
{
    for (int64_t i = 0; i < facts->event_count; i++) {
        const plm_event *event = &facts->events[i];
        if (event->kind != PLM_EVENT_BLOCK_ALLOC)
            continue;
        uint8_t role = facts->roles[event->block];
        plm_part part = plm__origin_of(facts, i).part;
        if (role == PLM_BLOCK_COPY &&
            plm__lives_at(facts, event->block, facts->findings->peak_event))
            add(&sums->copies, event);
        if (!plm__lives_at(facts, event->block, sums->at))
            continue;
        if (role == PLM_BLOCK_STATE && event->bytes_asked > COUNTER_BYTES)
            add(&sums->moments, event);
        else if (role == PLM_BLOCK_GRADIENT && part == PLM_PART_GRADIENTS)
            add(&sums->gradients, event);
        else if (role == PLM_BLOCK_GRADIENT)
            PLM_TRY(add_like(&left[0], event, &sums->gradients));
        else if (role == PLM_BLOCK_OTHER && part == PLM_PART_PROGRAM && facts->last_end >= 0)
            PLM_TRY(add_like(&left[1], event, &sums->twins));
    }
    return PLM_OK;
}

static plm_status sum_state(const plm_facts *facts, state_sums *sums)
{
    plm_sizes left[2];
    *sums =
        (state_sums){.at = facts->last_end >= 0 ? facts->last_end : facts->findings->peak_event};
    PLM_TRY(plm__sizes_init(&left[0]));
    plm_status status = plm__sizes_init(&left[1]);
    if (status == PLM_OK) {
        status = sum_parameters(facts, left, sums);
        if (status == PLM_OK)
            status = sum_others(facts, left, sums);
        plm__sizes_fini(&left[1]);
    }
    plm__sizes_fini(&left[0]);
    return status;
}

static void take_ratios(state_sums *sums)
{
    double whole = (double)sums->parameters.bytes;
    if (sums->parameters.bytes == 0)
        return;
    sums->moments_part = (double)sums->moments.bytes / whole;
    sums->gradients_part = (double)sums->gradients.bytes / whole;
    if (sums->moments.blocks > 0)
        sums->moment_size =
            sums->moments_part * (double)sums->parameters.blocks / (double)sums->moments.blocks;
}

/* Copies are believed when they are of most bytes in a whole step, of most sizes in a part of one.
 * Activations could have those sizes only where the tokens held at once are half the width. */
static bool has_copies(const plm_facts *facts)
{
    if (facts->copied_sizes < COPIED_SIZES_LEAST)
        return false;
    return facts->last_end >= 0 ? facts->copied_bytes >= facts->whole_bytes / 2
                                : facts->copied_sizes * 2 >= facts->parameter_sizes;
}

static bool is_near(double value, double wanted)
{
    return value > wanted * 0.95 && value < wanted * 1.05;
}

static void say_basis(const plm_facts *facts, plm_checklist_item *check)
{
    const char *who =
        facts->findings->has_stacks
            ? "call stacks say what is a parameter and what is the optimizer's"
            : "no stacks: parameters were made before the optimizer's first call, its "
              "state in its first step";
    snprintf(check->basis, sizeof check->basis,
             "%s; element types are not recorded and are inferred from sizes, of what lived at %s",
             who, facts->last_end >= 0 ? "the end of the last whole step" : "the peak");
}

/* "optimizer state takes 2.00 times their bytes, gradients 1.00 times" */
static void say_parts(const plm_facts *facts, const state_sums *sums, char *text, size_t size)
{
    if (facts->last_end < 0)
        snprintf(text, size,
                 "no step ended in the recording, so gradients and optimizer state are not in "
                 "these figures%s",
                 facts->trains ? " (AdamW's two moments add twice the parameters)" : "");
    else if (sums->moments.bytes == 0)
        plm__print(text, size,
                   "the optimizer keeps no state, gradients take %.2f times their bytes",
                   sums->gradients_part);
    else
        plm__print(text, size, "optimizer state takes %.2f times their bytes, gradients %.2f times",
                   sums->moments_part, sums->gradients_part);
}

static void answer_mixed(const plm_facts *facts, const state_sums *sums, plm_checklist_item *check)
{
    char parts[160];
    say_parts(facts, sums, parts, sizeof parts);
    int used =
        snprintf(check->reason, sizeof check->reason,
                 "by their sizes parameters are fp32: blocks half as large, as 16-bit copies would "
                 "be, were made in %lld of their %lld sizes; %s",
                 (long long)facts->copied_sizes, (long long)facts->parameter_sizes, parts);
    if (!facts->trains) {
        check->answer = PLM_ANSWER_YES;
        check->gain_bytes = sums->parameters.bytes / 2;
        snprintf(check->reason + used, sizeof check->reason - (size_t)used,
                 "; nothing trains them");
        snprintf(check->action, sizeof check->action,
                 "load the parameters in 16 bits (torch_dtype, or .to(torch.bfloat16))");
        return;
    }
    check->answer = PLM_ANSWER_NO;
    if (facts->last_end < 0 || !is_near(sums->moment_size, 1))
        return;
    plm__print(check->reason + used, sizeof check->reason - (size_t)used,
               ": %.0f bytes a parameter, as mixed precision needs",
               4 * (1 + sums->moments_part + sums->gradients_part));
    check->gain_bytes = sums->moments.bytes / 4 * 3;
    snprintf(check->action, sizeof check->action,
             "only where changed arithmetic is acceptable: moments in 8 bits");
}

/* State of twice the size of what it belongs to: 16-bit parameters. */
static void answer_narrow(const state_sums *sums, plm_checklist_item *check)
{
    check->answer = PLM_ANSWER_NO;
    plm__print(check->reason, sizeof check->reason,
               "blocks of optimizer state are twice as large as the parameters', %.2f times their "
               "bytes in all: parameters of 16 bits with state of 32, as mixed precision needs",
               sums->moments_part);
}

/* Nearly every parameter once more. */
static bool has_twins(const state_sums *sums)
{
    return sums->parameters.bytes > 0 &&
           sums->twins.bytes >=
               sums->parameters.bytes - sums->parameters.bytes / TWINS_MISSING_PART;
}

static void answer_twins(const state_sums *sums, plm_checklist_item *check)
{
    char twins[PLM_SIZE_TEXT];
    check->answer = PLM_ANSWER_YES;
    check->gain_bytes = sums->twins.bytes;
    snprintf(check->reason, sizeof check->reason,
             "the parameters are there twice: %lld blocks of their sizes, %s, were made by the "
             "program and stay from step to step",
             (long long)sums->twins.blocks, plm_size_format(sums->twins.bytes, twins));
    snprintf(check->action, sizeof check->action,
             "let go of the state_dict that was loaded, or hold an average of the weights on the "
             "host");
}

static void answer_open(const plm_facts *facts, const state_sums *sums, plm_checklist_item *check)
{
    char parts[160];
    say_parts(facts, sums, parts, sizeof parts);
    if (sums->parameters.bytes == 0) {
        snprintf(check->reason, sizeof check->reason, "%s",
                 facts->findings->device->history.older_blocks > 0
                     ? "parameters are older than the recording, or it shows none"
                     : "the recording shows no parameters");
        snprintf(check->action, sizeof check->action,
                 "record from before the model is made, over two steps or more");
        return;
    }
    snprintf(check->reason, sizeof check->reason,
             "no 16-bit copies of the parameters were seen, so they may be of either type; %s",
             parts);
    snprintf(check->action, sizeof check->action,
             "print next(model.parameters()).dtype: where it is fp32 and nothing is cast, autocast "
             "halves what is kept for backward, not this state");
}

static void add_figures(const plm_facts *facts, const state_sums *sums, plm_checklist_item *check)
{
    static const state_sum none;
    const struct {
        const char *what;
        const state_sum *sum;
    } rows[] = {{"parameters", &sums->parameters},
                {"gradients", &sums->gradients},
                {"optimizer state", &sums->moments},
                {"the parameters again", has_twins(sums) ? &sums->twins : &none},
                {"16-bit copies at the peak", has_copies(facts) ? &sums->copies : &none}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].sum->bytes > 0)
            plm__checklist_add_figure(check, rows[i].what, NULL, rows[i].sum->blocks,
                                      rows[i].sum->bytes);
}

plm_status plm__answer_state(const plm_facts *facts, plm_checklist_item *check)
{
    state_sums sums;
    PLM_TRY(sum_state(facts, &sums));
    take_ratios(&sums);
    say_basis(facts, check);
    add_figures(facts, &sums, check);
    if (has_twins(&sums))
        answer_twins(&sums, check);
    else if (sums.parameters.bytes > 0 && has_copies(facts))
        answer_mixed(facts, &sums, check);
    else if (sums.parameters.bytes > 0 && is_near(sums.moment_size, 2))
        answer_narrow(&sums, check);
    else
        answer_open(facts, &sums, check);
    return PLM_OK;
}
