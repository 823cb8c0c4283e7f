/* SPDX-License-Identifier: MIT */
/*
 * Could lifetimes be shorter? A recording shows frees, not last uses, so only lives that are too
 * long by their pattern are told: what outlives the step that made it, gradients that stay for the
 * next forward, temporaries of the optimizer at the peak, blocks that wait for a stream, what
 * leaks, and one short block that makes the peak. The gain of each is the fall of the trace's peak
 * when its blocks end where they begin to live too long.
 */
#include <stdio.h>
#include <string.h>

#include "base/host.h"
#include "plimsoll/size.h"
#include "diagnose/checklist_internal.h"

enum { LEAST_PART = 100 /* of the peak: less is not worth a word */ };

/* One row a pattern: name, what it is called, what to do. */
#define LIFE_MAP(ROW)                                                                              \
    ROW(LEAK, "more after every step",                                                             \
        "keep numbers, not tensors: loss.item(), or .detach() where a tensor is wanted")           \
    ROW(SPIKE, "one short-lived block",                                                            \
        "make it in parts, or write into a block made beforehand (out=, in place)")                \
    ROW(GRADIENTS, "gradients during the forward",                                                 \
        "optimizer.zero_grad(set_to_none=True) right behind step(), before the next forward")      \
    ROW(OPTIMIZER, "temporaries of the optimizer",                                                 \
        "fused=True, or foreach=False, which holds one parameter's at a time")                     \
    ROW(LEFTOVERS, "left from an earlier step",                                                    \
        "del loss, logits and the like before the next forward makes them anew")                   \
    ROW(WAITS, "freed, waiting for a stream",                                                      \
        "let the stream that made it wait for the other one before the free")

typedef enum life {
#define LIFE_ROW(name, what, action) LIFE_##name,
    LIFE_MAP(LIFE_ROW)
#undef LIFE_ROW
        LIFE_COUNT
} life;

static const struct {
    const char *what, *action;
} life_rows[LIFE_COUNT] = {
#define LIFE_ROW(name, what, action) {what, action},
    LIFE_MAP(LIFE_ROW)
#undef LIFE_ROW
};

typedef struct life_sum {
    int64_t blocks;
    size_t bytes;
    size_t largest_bytes; /* of a block, whose site is told */
    int32_t place;
    size_t gain_bytes;
} life_sum;

static bool leaks_there(const plm_findings *findings, int64_t birth, int32_t place)
{
    for (int64_t i = 0; i < findings->leak_count; i++)
        if (findings->leaks[i].place == place &&
            birth > findings->steps[findings->leaks[i].since_step])
            return true;
    return false;
}

/*
 * The short life that makes most of the peak: its alloc event, -1 for none. Not what is kept for
 * the backward, which is the question before this one, nor what died when a failed request undid
 * the step.
 */
static int64_t find_spike(const plm_facts *facts)
{
    for (int64_t i = 0; i < facts->findings->spike_count; i++) {
        int64_t birth = facts->findings->spikes[i].event;
        int64_t death = facts->deaths[facts->events[birth].block];
        bool kept = plm__origin_of(facts, birth).part == PLM_PART_PROGRAM &&
                    plm__backward_behind(facts, birth) < death;
        bool undone = facts->failure > birth && facts->failure < death;
        if (!kept && !undone)
            return birth;
    }
    return -1;
}

/* What decides a pattern, beside the facts. */
typedef struct life_view {
    const plm_facts *facts;
    int64_t spike;     /* of find_spike */
    int64_t *requests; /* by block: the event that asked for its free + 1, 0 without one */
    uint8_t *lives;    /* by block: its pattern, LIFE_COUNT for none */
    int64_t *from;     /* by block: the event from which it lives too long */
} life_view;

/* The pattern of a block, LIFE_COUNT for none, and from when on. */
static life life_of(const life_view *view, int64_t birth, int64_t *from)
{
    const plm_facts *facts = view->facts;
    const plm_findings *findings = facts->findings;
    int64_t block = facts->events[birth].block, death = facts->deaths[block];
    int64_t request = view->requests[block] - 1, step_end = plm__end_behind(facts, birth);
    plm_part part = plm__origin_of(facts, birth).part;
    uint8_t role = facts->roles[block];
    *from = step_end;
    if (death == facts->event_count && leaks_there(findings, birth, findings->site_of_block[block]))
        return LIFE_LEAK;
    if (role == PLM_BLOCK_GRADIENT)
        return LIFE_GRADIENTS;
    bool is_own = part == PLM_PART_PROGRAM || (!findings->has_stacks && death < facts->event_count);
    if (role == PLM_BLOCK_OTHER && is_own && birth > facts->first_work && step_end < death)
        return LIFE_LEFTOVERS;
    *from = request;
    if (request >= 0 && request + 1 < death)
        return LIFE_WAITS;
    *from = 0;
    if (part == PLM_PART_OPTIMIZER)
        return LIFE_OPTIMIZER;
    return birth == view->spike ? LIFE_SPIKE : LIFE_COUNT;
}

static plm_status life_view_init(life_view *view, const plm_facts *facts)
{
    size_t blocks = (size_t)facts->findings->block_count + 1;
    *view = (life_view){.facts = facts, .spike = find_spike(facts)};
    PLM_TRY(plm__host_alloc(blocks * sizeof *view->requests, &view->requests));
    PLM_TRY(plm__host_alloc(blocks * sizeof *view->from, &view->from));
    PLM_TRY(plm__host_alloc(blocks, &view->lives));
    memset(view->lives, LIFE_COUNT, blocks);
    for (int64_t i = 0; i < facts->event_count; i++)
        if (facts->events[i].kind == PLM_EVENT_BLOCK_FREE_REQUESTED && facts->events[i].block >= 0)
            view->requests[facts->events[i].block] = i + 1;
    return PLM_OK;
}

static void life_view_fini(life_view *view)
{
    plm__host_free(view->requests);
    plm__host_free(view->from);
    plm__host_free(view->lives);
}

/* Counts what lives too long already at the peak. */
static void sum_lives(const life_view *view, life_sum sums[LIFE_COUNT])
{
    const plm_facts *facts = view->facts;
    int64_t peak = facts->findings->peak_event;
    for (int64_t i = facts->findings->device->carried_in; i < facts->event_count; i++) {
        const plm_event *event = &facts->events[i];
        if (!plm__is_recorded(facts, i))
            continue;
        life found = life_of(view, i, &view->from[event->block]);
        view->lives[event->block] = (uint8_t)found;
        if (found == LIFE_COUNT || !plm__lives_at(facts, event->block, peak) ||
            view->from[event->block] > peak)
            continue;
        sums[found].blocks++;
        sums[found].bytes += event->bytes_asked;
        if (event->bytes_asked > sums[found].largest_bytes) {
            sums[found].largest_bytes = event->bytes_asked;
            sums[found].place = facts->findings->site_of_block[event->block];
        }
    }
}

/* The fall of the peak when the blocks of one pattern ended where they begin to live too long. */
static plm_status find_gain(const life_view *view, life wanted, int64_t *from, size_t *gain)
{
    size_t peak = 0;
    for (int64_t i = 0; i < view->facts->findings->block_count; i++)
        from[i] = view->lives[i] == wanted ? view->from[i] : view->facts->event_count;
    PLM_TRY(plm__peak_until(view->facts, from, &peak));
    *gain = view->facts->peak_bytes - peak;
    return PLM_OK;
}

static plm_status find_lives(const plm_facts *facts, life_sum sums[LIFE_COUNT])
{
    life_view view = {.facts = facts};
    int64_t *from = NULL;
    plm_status status;
    PLM_TRY_DONE(life_view_init(&view, facts));
    PLM_TRY_DONE(plm__host_alloc(((size_t)facts->findings->block_count + 1) * sizeof *from, &from));
    sum_lives(&view, sums);
    for (int i = 0; i < LIFE_COUNT; i++)
        if (sums[i].bytes >= facts->peak_bytes / LEAST_PART && sums[i].bytes > 0)
            PLM_TRY_DONE(find_gain(&view, (life)i, from, &sums[i].gain_bytes));
done:
    life_view_fini(&view);
    plm__host_free(from);
    return status;
}

static void answer_yes(const plm_facts *facts, const life_sum sums[LIFE_COUNT], life best,
                       plm_checklist_item *check)
{
    char bytes[PLM_SIZE_TEXT], gain[PLM_SIZE_TEXT], peak[PLM_SIZE_TEXT], site[PLM_CALL_SITE_TEXT];
    const life_sum *sum = &sums[best];
    check->answer = PLM_ANSWER_YES;
    check->gain_bytes = sum->gain_bytes;
    snprintf(check->reason, sizeof check->reason,
             "%s: %s at the peak, %s %s; without it the peak falls by %s from %s",
             life_rows[best].what, plm_size_format(sum->bytes, bytes),
             sum->blocks == 1 ? "from" : "most of it from",
             plm_call_site_text(facts->findings, sum->place, site),
             plm_size_format(sum->gain_bytes, gain), plm_size_format(facts->peak_bytes, peak));
    snprintf(check->action, sizeof check->action, "%s", life_rows[best].action);
}

static void answer_others(const plm_facts *facts, plm_checklist_item *check)
{
    if (facts->cycle >= 0) {
        check->answer = PLM_ANSWER_NO;
        snprintf(check->reason, sizeof check->reason,
                 "nothing leaks, no gradient and no tensor of an earlier step lives at the peak, "
                 "and no short-lived block or temporary of the optimizer makes it");
        return;
    }
    snprintf(check->reason, sizeof check->reason,
             "no step of an optimizer is seen to end before the peak, so what outlives a step "
             "cannot be told; nothing else lives too long by its pattern");
    snprintf(check->action, sizeof check->action,
             "record two whole steps or more: plimsoll record");
}

static size_t parameters_at_peak(const plm_facts *facts)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < facts->event_count; i++)
        if (facts->events[i].kind == PLM_EVENT_BLOCK_ALLOC &&
            facts->roles[facts->events[i].block] == PLM_BLOCK_PARAMETER &&
            plm__lives_at(facts, facts->events[i].block, facts->findings->peak_event))
            bytes += facts->events[i].bytes_asked;
    return bytes;
}

plm_status plm__answer_lifetimes(const plm_facts *facts, plm_checklist_item *check)
{
    life_sum sums[LIFE_COUNT] = {{0}};
    char site[PLM_CALL_SITE_TEXT];
    life best = LIFE_COUNT;
    PLM_TRY(find_lives(facts, sums));
    if (sums[LIFE_GRADIENTS].bytes < parameters_at_peak(facts) / 2)
        sums[LIFE_GRADIENTS].gain_bytes = 0; /* they come together; few are blocks of that size */
    for (int i = 0; i < LIFE_COUNT; i++) {
        if (sums[i].gain_bytes < facts->peak_bytes / LEAST_PART || sums[i].gain_bytes == 0)
            continue;
        plm__checklist_add_figure(check, life_rows[i].what,
                                  plm_call_site_text(facts->findings, sums[i].place, site),
                                  sums[i].blocks, sums[i].bytes);
        if (best == LIFE_COUNT || sums[i].gain_bytes > sums[best].gain_bytes)
            best = (life)i;
    }
    snprintf(check->basis, sizeof check->basis,
             "births and deaths, and the peak of the trace without each group; a free is recorded, "
             "a last use is not, so blocks that merely idle are not seen%s",
             facts->findings->has_stacks ? "" : "; without stacks sizes and instants decide");
    if (best != LIFE_COUNT)
        answer_yes(facts, sums, best, check);
    else
        answer_others(facts, check);
    return PLM_OK;
}
