/* SPDX-License-Identifier: MIT */
/*
 * Are activations kept that need not be? Kept is what the program made in the forward of the step
 * that holds the peak, and what lives at the peak and on into the backward. It is grouped by line
 * and operation. Whatever a forward made it can make again: recompute leaves of a group what one
 * layer holds, and a chunked loss one chunk. The gain is bounded by the peak of the trace without
 * the group, since another instant becomes the largest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host.h"
#include "plimsoll/size.h"
#include "diagnose/checklist_internal.h"

enum {
    LEAST_PART = 20, /* of the peak: less is not worth a word */
    LOSS_CHUNKS = 8,
    GROUPS_MAX = 1 << 16 /* lines and operations; beyond it blocks are not grouped */
};

typedef struct kept_group {
    int32_t place;    /* of its site */
    const char *what; /* of its origin */
    const char *remedy;
    size_t bytes, checkpointed_bytes;
    int64_t blocks;
    size_t largest_bytes;   /* of a block */
    int64_t largest_blocks; /* of that size: as many layers */
    size_t gain_bytes;
} kept_group;

typedef struct kept_sum {
    plm_intern keys;
    PLM_ARRAY(kept_group) groups;
    size_t bytes, checkpointed_bytes;
} kept_sum;

typedef struct kept_key {
    const char *what; /* texts of a table: equal ones have one address */
    int64_t place;
} kept_key;

static bool is_forward(const plm_facts *facts, int64_t birth)
{
    uint8_t role = facts->roles[facts->events[birth].block];
    return plm__is_recorded(facts, birth) && birth > facts->cycle && birth > facts->first_work &&
           (role == PLM_BLOCK_OTHER || role == PLM_BLOCK_COPY) &&
           plm__origin_of(facts, birth).part == PLM_PART_PROGRAM;
}

/*
 * Made for a backward that is still to come, or that is under way. What no backward comes behind
 * was made for one only where none began in this step, or a failed request kept it from beginning;
 * else it was made inside of the last one.
 */
static bool is_kept(const plm_facts *facts, int64_t birth)
{
    int64_t block = facts->events[birth].block, backward = plm__backward_behind(facts, birth);
    if (!is_forward(facts, birth) || !plm__lives_at(facts, block, facts->findings->peak_event))
        return false;
    if (backward == facts->event_count)
        return facts->backward < 0 || facts->failure >= 0;
    return facts->deaths[block] > backward;
}

static plm_status add_kept(kept_sum *sum, const plm_facts *facts, int64_t birth)
{
    const plm_event *event = &facts->events[birth];
    plm_origin origin = plm__origin_of(facts, birth);
    kept_key key = {origin.what, facts->findings->site_of_block[event->block]};
    uint32_t number;
    sum->bytes += event->bytes_asked;
    sum->checkpointed_bytes += origin.checkpointed ? event->bytes_asked : 0;
    if (sum->groups.count >= GROUPS_MAX)
        return PLM_OK;
    PLM_TRY(plm__intern_add(&sum->keys, (const char *)&key, sizeof key, &number));
    if (sum->groups.count < (int64_t)number)
        PLM_TRY(PLM_ARRAY_PUSH(&sum->groups, (kept_group){.place = (int32_t)key.place,
                                                          .what = origin.what,
                                                          .remedy = origin.remedy}));
    kept_group *group = &sum->groups.items[number - 1];
    group->bytes += event->bytes_asked;
    group->checkpointed_bytes += origin.checkpointed ? event->bytes_asked : 0;
    group->blocks++;
    if (event->bytes_asked > group->largest_bytes) {
        group->largest_bytes = event->bytes_asked;
        group->largest_blocks = 0;
    }
    group->largest_blocks += event->bytes_asked == group->largest_bytes;
    return PLM_OK;
}

/* What would go: all but one layer's part, all but one chunk of a loss; nothing of what is kept
 * below checkpoint, to make the rest again from. */
static size_t part_to_save(const kept_group *group)
{
    if (group->checkpointed_bytes > group->bytes / 2)
        return 0;
    int64_t parts = strcmp(group->what, "loss") == 0 ? LOSS_CHUNKS : group->largest_blocks;
    return group->bytes - group->bytes / (size_t)parts;
}

static int most_first(const void *left, const void *right)
{
    const kept_group *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->place != b->place ? (a->place < b->place ? -1 : 1) : strcmp(a->what, b->what);
}

/* Where most of it is seen to die, what never does is no activation: a library's workspace, say. */
static bool most_dies(const plm_facts *facts)
{
    size_t dying = 0, lasting = 0;
    for (int64_t i = facts->findings->device->carried_in; i <= facts->findings->peak_event; i++)
        if (plm__is_recorded(facts, i) && is_kept(facts, i))
            *(facts->deaths[facts->events[i].block] < facts->event_count ? &dying : &lasting) +=
                facts->events[i].bytes_asked;
    return dying >= lasting;
}

static plm_status find_kept(const plm_facts *facts, kept_sum *sum)
{
    bool must_die = most_dies(facts);
    for (int64_t i = facts->findings->device->carried_in; i <= facts->findings->peak_event; i++)
        if (plm__is_recorded(facts, i) && is_kept(facts, i) &&
            (!must_die || facts->deaths[facts->events[i].block] < facts->event_count))
            PLM_TRY(add_kept(sum, facts, i));
    for (int64_t i = 0; i < sum->groups.count; i++)
        sum->groups.items[i].gain_bytes = part_to_save(&sum->groups.items[i]);
    PLM_ARRAY_SORT(&sum->groups, most_first);
    return PLM_OK;
}

/* The fall of the peak without a group, in whatever step its blocks were made. */
static plm_status bound_gain(const plm_facts *facts, kept_group *group)
{
    int64_t *from = NULL;
    size_t peak = 0;
    PLM_TRY(plm__host_alloc(((size_t)facts->findings->block_count + 1) * sizeof *from, &from));
    for (int64_t i = 0; i < facts->event_count; i++) {
        int64_t block = facts->events[i].block;
        if (facts->events[i].kind != PLM_EVENT_BLOCK_ALLOC)
            continue;
        bool is_of_group = plm__is_recorded(facts, i) &&
                           facts->findings->site_of_block[block] == group->place &&
                           plm__origin_of(facts, i).what == group->what;
        from[block] = is_of_group ? 0 : facts->event_count;
    }
    plm_status status = plm__peak_until(facts, from, &peak);
    plm__host_free(from);
    size_t fall = facts->peak_bytes - peak;
    group->gain_bytes = group->gain_bytes < fall ? group->gain_bytes : fall;
    return status;
}

/* Two lines that hold as many blocks, of one half the size: one tensor in two types, perhaps. */
static void say_pair(const plm_facts *facts, const kept_sum *sum, plm_checklist_item *check)
{
    char one[PLM_CALL_SITE_TEXT], other[PLM_CALL_SITE_TEXT];
    size_t used = strlen(check->reason);
    for (int64_t i = 0; i < sum->groups.count && i < PLM_CHECKLIST_FIGURES_MAX; i++)
        for (int64_t k = 0; k < sum->groups.count && k < PLM_CHECKLIST_FIGURES_MAX; k++) {
            const kept_group *a = &sum->groups.items[i], *b = &sum->groups.items[k];
            int64_t more = a->largest_blocks - b->largest_blocks;
            if (a->largest_bytes != 2 * b->largest_bytes || more < 0 || more > 1 ||
                b->largest_blocks < 2 || b->bytes < facts->peak_bytes / LEAST_PART)
                continue;
            snprintf(check->reason + used, sizeof check->reason - used,
                     "; blocks of %s are half as large as those of %s and as many, as one tensor "
                     "held in two types would be",
                     plm_call_site_text(facts->findings, b->place, one),
                     plm_call_site_text(facts->findings, a->place, other));
            return;
        }
}

static void answer(const plm_facts *facts, const kept_sum *sum, const kept_group *best,
                   plm_checklist_item *check)
{
    char bytes[PLM_SIZE_TEXT], peak[PLM_SIZE_TEXT], site[PLM_CALL_SITE_TEXT], own[PLM_SIZE_TEXT];
    bool much = sum->bytes >= facts->peak_bytes / LEAST_PART;
    plm_size_format(sum->bytes, bytes);
    plm_size_format(facts->peak_bytes, peak);
    check->answer =
        much && best->gain_bytes >= facts->peak_bytes / LEAST_PART ? PLM_ANSWER_YES : PLM_ANSWER_NO;
    snprintf(check->reason, sizeof check->reason,
             "%s of the peak's %s was made in the forward and is kept for the backward%s", bytes,
             peak, sum->checkpointed_bytes > 0 ? "; torch.utils.checkpoint is in use" : "");
    if (check->answer == PLM_ANSWER_NO) {
        size_t used = strlen(check->reason);
        if (much)
            snprintf(check->reason + used, sizeof check->reason - used,
                     ", but no line holds much of it for several layers outside of checkpoint, and "
                     "recompute frees all but one layer's");
        return;
    }
    check->gain_bytes = best->gain_bytes;
    snprintf(check->action, sizeof check->action, "%s, %s (%s): %s",
             plm_call_site_text(facts->findings, best->place, site), best->what,
             plm_size_format(best->bytes, own), best->remedy);
    say_pair(facts, sum, check);
}

static void say_basis(const plm_facts *facts, plm_checklist_item *check)
{
    snprintf(check->basis, sizeof check->basis,
             "births and deaths; operations are known where PyTorch's own functions stand in the "
             "stack, and a line of the program may be anything; %s; a group keeps what one layer "
             "holds, a loss an eighth",
             facts->backward >= 0
                 ? "kept is what lives on when backward begins"
                 : "backward did not begin in this step, so short-lived blocks are among them");
}

static void tell_unknown(const plm_facts *facts, plm_checklist_item *check)
{
    if (!facts->findings->has_stacks)
        snprintf(check->reason, sizeof check->reason,
                 "recorded without stacks, so what the forward made and what the backward made "
                 "look alike");
    else if (!facts->trains)
        snprintf(check->reason, sizeof check->reason,
                 "neither a backward nor an optimizer was seen, so nothing is known to be kept for "
                 "one");
    else
        snprintf(check->reason, sizeof check->reason,
                 "the largest instant holds nothing that a forward of its step made");
    snprintf(check->action, sizeof check->action,
             "record with Python stacks, over a whole step: plimsoll record");
    snprintf(check->basis, sizeof check->basis, "births, deaths and call stacks");
}

static plm_status decide(const plm_facts *facts, kept_sum *sum, plm_checklist_item *check)
{
    char site[PLM_CALL_SITE_TEXT];
    PLM_TRY(find_kept(facts, sum));
    if (!facts->findings->has_stacks || !facts->trains || sum->groups.count == 0) {
        tell_unknown(facts, check);
        return PLM_OK;
    }
    kept_group *best = &sum->groups.items[0];
    for (int64_t i = 1; i < sum->groups.count; i++)
        if (sum->groups.items[i].gain_bytes > best->gain_bytes)
            best = &sum->groups.items[i];
    PLM_TRY(bound_gain(facts, best));
    for (int64_t i = 0; i < sum->groups.count; i++)
        plm__checklist_add_figure(
            check, sum->groups.items[i].what,
            plm_call_site_text(facts->findings, sum->groups.items[i].place, site),
            sum->groups.items[i].blocks, sum->groups.items[i].bytes);
    say_basis(facts, check);
    answer(facts, sum, best, check);
    return PLM_OK;
}

plm_status plm__answer_activations(const plm_facts *facts, plm_checklist_item *check)
{
    kept_sum sum = {.bytes = 0};
    PLM_TRY(plm__intern_init(&sum.keys));
    plm_status status = decide(facts, &sum, check);
    PLM_ARRAY_FREE(&sum.groups);
    plm__intern_fini(&sum.keys);
    return status;
}
