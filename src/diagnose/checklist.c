/* SPDX-License-Identifier: MIT */
/*
 * The checklist of a recording: the facts that its questions share, found in two passes over the
 * events, and the questions in their order. Steps are told by the optimizer's own annotations, the
 * backward by the frame in which PyTorch makes its first gradient.
 */
#include <stdio.h>
#include <string.h>

#include "diagnose/checklist_internal.h"
#include "diagnose/views.h"
#include "trace/trace.h"

static const struct {
    const char *key, *question;
} rows[PLM_QUESTION_COUNT] = {
#define PLM_QUESTION_ROW(name, key, question, good) {key, question},
    PLM_QUESTION_MAP(PLM_QUESTION_ROW)
#undef PLM_QUESTION_ROW
};

const char *plm_question_key(plm_question kind)
{
    return (unsigned)kind < PLM_QUESTION_COUNT ? rows[kind].key : "unknown";
}

const char *plm_question_text(plm_question kind)
{
    return (unsigned)kind < PLM_QUESTION_COUNT ? rows[kind].question : "unknown";
}

/* ---- what the questions share ---- */

plm_status plm__sizes_init(plm_sizes *sizes)
{
    *sizes = (plm_sizes){.counts = {0}};
    return plm__intern_init(&sizes->keys);
}

void plm__sizes_fini(plm_sizes *sizes)
{
    PLM_ARRAY_FREE(&sizes->counts);
    plm__intern_fini(&sizes->keys);
}

plm_status plm__sizes_find(plm_sizes *sizes, size_t bytes, int64_t **count)
{
    uint32_t number;
    PLM_TRY(plm__intern_add(&sizes->keys, (const char *)&bytes, sizeof bytes, &number));
    while (sizes->counts.count < (int64_t)number)
        PLM_TRY(PLM_ARRAY_PUSH(&sizes->counts, 0));
    *count = &sizes->counts.items[number - 1];
    return PLM_OK;
}

void plm__checklist_add_figure(plm_checklist_item *check, const char *what, const char *site,
                               int64_t blocks, size_t bytes)
{
    if (check->figure_count == PLM_CHECKLIST_FIGURES_MAX)
        return;
    plm_checklist_figure *figure = &check->figures[check->figure_count++];
    *figure = (plm_checklist_figure){.blocks = blocks, .bytes = bytes};
    snprintf(figure->what, sizeof figure->what, "%s", what);
    snprintf(figure->site, sizeof figure->site, "%s", site ? site : "");
}

plm_origin plm__origin_of(const plm_facts *facts, int64_t birth)
{
    static const plm_origin none = {.what = "", .remedy = ""};
    int32_t owner = facts->events[birth].owner;
    return owner == PLM_TRACE_NO_OWNER ? none : facts->origins[owner];
}

plm_status plm__peak_until(const plm_facts *facts, const int64_t *from, size_t *peak)
{
    size_t live = 0, most = 0, *falls = NULL; /* by event: what ceases to count behind it */
    PLM_TRY(plm__host_alloc(((size_t)facts->event_count + 1) * sizeof *falls, &falls));
    for (int64_t i = 0; i < facts->event_count; i++) {
        const plm_event *event = &facts->events[i];
        if (event->kind == PLM_EVENT_BLOCK_ALLOC && from[event->block] > i) {
            int64_t death = facts->deaths[event->block], until = from[event->block];
            live += event->bytes_taken;
            falls[until < death ? until : death] += event->bytes_taken;
        }
        most = live > most ? live : most;
        live -= falls[i];
    }
    plm__host_free(falls);
    *peak = most;
    return PLM_OK;
}

/* ---- facts ---- */

static plm_status find_origins(plm_facts *facts)
{
    int64_t count;
    const plm_trace *trace = facts->findings->device->trace;
    const plm_owner *owners = plm_trace_owners(trace, &count);
    PLM_TRY(plm__host_alloc(((size_t)count + 1) * sizeof *facts->origins, &facts->origins));
    for (int64_t i = 0; i < count; i++)
        facts->origins[i] = plm__origin_of_stack(trace, owners[i].frames);
    return PLM_OK;
}

static plm_status find_lives(plm_facts *facts)
{
    size_t bytes = ((size_t)facts->findings->block_count + 1) * sizeof *facts->deaths;
    PLM_TRY(plm__find_births(facts->findings, &facts->births));
    PLM_TRY(plm__host_alloc(bytes, &facts->deaths));
    for (int64_t i = 0; i < facts->findings->block_count; i++)
        facts->deaths[i] = facts->event_count;
    for (int64_t i = 0; i < facts->event_count; i++)
        if (facts->events[i].kind == PLM_EVENT_BLOCK_FREE)
            facts->deaths[facts->events[i].block] = i;
    return PLM_OK;
}

/* The optimizer's annotations; they and the events are in order of time. */
static plm_status find_steps(plm_facts *facts)
{
    const plm_snapshot_device *device = facts->findings->device;
    int64_t event = device->carried_in - 1, begun = -1;
    bool timed = device->history.timed;
    for (int64_t i = 0; i < device->annotation_count; i++) {
        const plm_snapshot_annotation *item = &device->annotations[i];
        if (strncmp(item->name, "Optimizer.", 10) != 0)
            continue;
        facts->trains = true;
        if (!timed || item->time == 0)
            continue;
        while (event + 1 < facts->event_count && facts->events[event + 1].time <= item->time)
            event++;
        if (event < facts->findings->device->carried_in) {
            facts->is_late = true;
            continue;
        }
        if (facts->first_work < 0)
            facts->first_work = event;
        if (strncmp(item->name, "Optimizer.step#", 15) != 0)
            continue;
        if (!item->ends) {
            begun = event;
            continue;
        }
        if (begun < 0)
            continue;
        facts->first_begin = facts->first_end < 0 ? begun : facts->first_begin;
        facts->first_end = facts->first_end < 0 ? event : facts->first_end;
        facts->last_begin = begun;
        facts->last_end = event;
        if (event < facts->findings->peak_event)
            facts->cycle = event;
        PLM_TRY(PLM_ARRAY_PUSH(&facts->ends, event));
    }
    return PLM_OK;
}

/* Where backwards begin, and whether one begins behind the last step before the peak. */
static plm_status find_backward(plm_facts *facts)
{
    for (int64_t i = facts->findings->device->carried_in; i < facts->event_count; i++) {
        if (facts->events[i].kind != PLM_EVENT_BLOCK_ALLOC ||
            plm__origin_of(facts, i).part != PLM_PART_BACKWARD)
            continue;
        PLM_TRY(PLM_ARRAY_PUSH(&facts->backwards, i));
        facts->trains = true;
        if (facts->backward < 0 && i > facts->cycle)
            facts->backward = i;
    }
    return PLM_OK;
}

static plm_status find_facts(const plm_findings *findings, plm_facts *facts)
{
    *facts = (plm_facts){.findings = findings,
                         .first_work = -1,
                         .first_begin = -1,
                         .first_end = -1,
                         .last_begin = -1,
                         .last_end = -1,
                         .cycle = -1,
                         .failure = -1,
                         .backward = -1};
    facts->events = plm_trace_events(findings->device->trace, &facts->event_count);
    facts->peak_bytes = plm_trace_find_peak(findings->device->trace).bytes_taken;
    PLM_TRY(find_origins(facts));
    PLM_TRY(find_lives(facts));
    PLM_TRY(find_steps(facts));
    PLM_TRY(find_backward(facts));
    for (int64_t i = findings->peak_event; i < facts->event_count && facts->failure < 0; i++)
        if (facts->events[i].kind == PLM_EVENT_OUT_OF_MEMORY)
            facts->failure = i;
    return plm__find_roles(facts);
}

static void facts_fini(plm_facts *facts)
{
    plm__host_free(facts->origins);
    plm__host_free(facts->births);
    plm__host_free(facts->deaths);
    plm__host_free(facts->roles);
    PLM_ARRAY_FREE(&facts->ends);
    PLM_ARRAY_FREE(&facts->backwards);
}

/* Without a history all that is known is the state of one instant. */
static void tell_nothing(plm_checklist *list)
{
    for (int i = 0; i < PLM_QUESTION_COUNT; i++) {
        plm_checklist_item *check = &list->items[i];
        snprintf(check->reason, sizeof check->reason,
                 "no history was recorded, so births, deaths and call stacks are not known");
        snprintf(check->action, sizeof check->action,
                 "record a run from its beginning, over two steps or more: plimsoll record");
        snprintf(check->basis, sizeof check->basis, "the state at one instant");
    }
}

static plm_status answer_all(const plm_findings *findings, plm_checklist *list)
{
    plm_facts facts = {.findings = findings};
    plm_status status;
    PLM_TRY_DONE(find_facts(findings, &facts));
    PLM_TRY_DONE(plm__answer_state(&facts, &list->items[PLM_QUESTION_STATE]));
    PLM_TRY_DONE(plm__answer_activations(&facts, &list->items[PLM_QUESTION_ACTIVATIONS]));
    PLM_TRY_DONE(plm__answer_lifetimes(&facts, &list->items[PLM_QUESTION_LIFETIMES]));
    PLM_TRY_DONE(plm__answer_allocator(&facts, &list->items[PLM_QUESTION_ALLOCATOR]));
done:
    facts_fini(&facts);
    return status;
}

plm_status plm_checklist_create(const plm_findings *findings, plm_checklist **list)
{
    plm_checklist *made = NULL;
    plm_status status = PLM_OK;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    if (findings->peak_event < 0 || !findings->device->history.recorded)
        tell_nothing(made);
    else
        status = answer_all(findings, made);
    return PLM_HAND_OVER(status, made, plm_checklist_destroy, list);
}

void plm_checklist_destroy(plm_checklist *list)
{
    plm__host_free(list);
}
