/* SPDX-License-Identifier: MIT */
/* The trace told in a few sentences. */
#include "report/page_internal.h"

#include <stdio.h>
#include <string.h>

#include "plimsoll/size.h"
#include "report/escape.h"
#include "report/wrap.h"

enum { HOLDERS_MAX = 3 };

void plm__page_add_site(plm_text *out, const plm_trace *trace, const plm_holder_key *site)
{
    const plm_owner *owner = &site->owner;
    const char *op = plm_trace_text(trace, owner->op), *name = plm_trace_text(trace, owner->name);
    const char *layer = plm_trace_text(trace, owner->layer);
    if (owner->frames >= 0 && op[0])
        plm__text_add(out, "%s", op);
    else if (layer[0] || name[0] || op[0])
        plm__text_add(out, "%s%s%s", layer, layer[0] ? " " : "", name[0] ? name : op);
    else
        plm__text_add(out, "%s",
                      owner->role < 0 ? plm__holder_unknown_text(site->size_class)
                                      : plm_role_text((plm_role)owner->role));
}

static void add_size(plm_text *out, size_t bytes)
{
    char text[PLM_SIZE_TEXT];
    plm__text_add(out, "%s", plm_size_format(bytes, text));
}

static void add_share(plm_text *out, size_t part, size_t whole)
{
    plm__text_add(out, "%.0f %%", whole > 0 ? 100.0 * (double)part / (double)whole : 0.0);
}

/* "event 71,204 of 85,311 (3.420 s in)" */
static void add_instant(plm_text *out, const plm_timeline *t, const plm_export_source *source,
                        int64_t event)
{
    plm__text_add(out, "event ");
    plm__text_count(out, event);
    plm__text_add(out, " of ");
    plm__text_count(out, t->event_count);
    if (source->timed)
        plm__text_add(out, ", %.3f s in",
                      (double)(t->events[event].time - t->events[0].time) * 1e-9);
}

/* The mark that the instant follows: a program of a plan, a step. */
static void add_mark(plm_text *out, const plm_timeline *t, int64_t event)
{
    int64_t i = event;
    while (i >= 0 && t->events[i].kind != PLM_EVENT_MARK)
        i--;
    if (i >= 0)
        plm__text_add(out, ", in %s", plm_trace_text(t->trace, t->events[i].label));
}

static void add_event_site(plm_text *out, const plm_timeline *t, const plm_event *event)
{
    int64_t count;
    const plm_owner *owners = plm_trace_owners(t->trace, &count);
    plm_holder_key key = {.owner = {.role = -1, .dtype = -1, .frames = PLM_TRACE_NO_FRAMES}};
    if (event->owner != PLM_TRACE_NO_OWNER)
        key.owner = owners[event->owner];
    plm__page_add_site(out, t->trace, &key);
}

static void tell_peak(plm_text *out, const plm_timeline *t, const plm_export_source *source)
{
    if (t->peak.event < 0) {
        plm__text_add(out, "No block is told of: there is no peak to find.");
        return;
    }
    if (source->carried_in >= t->event_count) {
        plm__text_add(out, "No history was recorded, so there is no peak to find: this is one "
                           "instant, the state of the snapshot.");
        return;
    }
    const plm_event *event = &t->events[t->peak.event];
    plm__text_add(out, "Memory peaks at ");
    add_size(out, t->peak.bytes_taken);
    plm__text_add(out, " at ");
    add_instant(out, t, source, t->peak.event);
    add_mark(out, t, t->peak.event);
    plm__text_add(out, ", when ");
    add_event_site(out, t, event);
    plm__text_add(out, " takes ");
    add_size(out, event->bytes_taken);
    plm__text_add(out, ".");
}

/* The groups that hold most at the peak; `taken` marks those already told. */
static int next_holder(const plm_timeline *t, int grouping, int64_t bin, const bool *taken)
{
    const plm_grouping *groups = &t->groupings[grouping];
    int best = -1;
    for (int g = 0; g < groups->group_count - groups->has_others; g++)
        if (!taken[g] && plm__timeline_group_bytes(t, grouping, bin, g) > 0 &&
            (best < 0 || plm__timeline_group_bytes(t, grouping, bin, g) >
                             plm__timeline_group_bytes(t, grouping, bin, best)))
            best = g;
    return best;
}

static void tell_holders(plm_text *out, const plm_timeline *t)
{
    int grouping = plm__timeline_first_grouping(t);
    int64_t bin = t->peak.event / t->bin_events;
    bool taken[PLM_GROUPS_MAX] = {false};
    plm__text_count(out, t->peak_blocks);
    plm__text_add(out, " block%s live then. Most is held by", t->peak_blocks == 1 ? "" : "s");
    for (int i = 0; i < HOLDERS_MAX; i++) {
        int group = next_holder(t, grouping, bin, taken);
        if (group < 0)
            break;
        size_t bytes = plm__timeline_group_bytes(t, grouping, bin, group);
        taken[group] = true;
        plm__text_add(out, "%s %s (", i == 0 ? "" : ",",
                      plm__grouping_label(&t->groupings[grouping], group));
        add_size(out, bytes);
        plm__text_add(out, ", ");
        add_share(out, bytes, t->peak.bytes_taken);
        plm__text_add(out, ")");
    }
    plm__text_add(out, ".");
}

static void tell_reserved(plm_text *out, const plm_timeline *t)
{
    size_t unused = t->reserved_at_peak - t->peak.bytes_taken;
    plm__text_add(out, "At the peak ");
    add_size(out, t->reserved_at_peak);
    plm__text_add(out, " were reserved, of which ");
    add_size(out, unused);
    plm__text_add(out, " (");
    add_share(out, unused, t->reserved_at_peak);
    plm__text_add(out, ") held no live block");
    if (t->reserved_peak - t->reserved_at_peak > t->reserved_peak / 100) {
        plm__text_add(out, "; reserved rose to ");
        add_size(out, t->reserved_peak);
    }
    plm__text_add(out, ".");
}

static void tell_failures(plm_text *out, const plm_timeline *t, const plm_export_source *source)
{
    int64_t i = 0;
    while (t->events[i].kind != PLM_EVENT_OUT_OF_MEMORY)
        i++;
    plm__text_count(out, t->oom_count);
    plm__text_add(out, " request%s failed for want of memory. The first, of ",
                  t->oom_count == 1 ? "" : "s");
    add_size(out, t->events[i].bytes_asked);
    plm__text_add(out, " by ");
    add_event_site(out, t, &t->events[i]);
    plm__text_add(out, ", came at ");
    add_instant(out, t, source, i);
    plm__text_add(out, ".");
}

static void tell_end(plm_text *out, const plm_timeline *t)
{
    plm__text_add(out, "At the end ");
    plm__text_count(out, t->end_blocks);
    plm__text_add(out, " block%s still live: ", t->end_blocks == 1 ? " is" : "s are");
    add_size(out, t->end_bytes);
    plm__text_add(out, ".");
}

static void tell_limits(plm_text *out, const plm_timeline *t, const plm_export_source *source)
{
    if (source->carried_in > 0 && source->carried_in < t->event_count) {
        plm__text_add(out, "Recording began late: the first ");
        plm__text_count(out, source->carried_in);
        plm__text_add(out, " events stand for blocks that lived already. ");
    }
    if (t->smallest_kept_bytes > 0) {
        plm__text_add(out, "Of ");
        plm__text_count(out, t->block_count);
        plm__text_add(out, " blocks, those under ");
        add_size(out, t->smallest_kept_bytes);
        plm__text_add(out, " are told in sums only.");
    }
}

/* Adds a sentence to the list and empties it. */
static void end_sentence(plm_text *sentence, plm_text *out, bool first)
{
    if (out->status == PLM_OK)
        out->status = sentence->status;
    if (sentence->count > 0) {
        plm__text_add(out, first ? "" : ",");
        plm__escape_add_bytes(out, sentence->items, sentence->count);
    }
    sentence->count = 0;
}

void plm__page_add_story(plm_text *out, const plm_timeline *timeline,
                         const plm_export_source *source)
{
    plm_text sentence = {0};
    tell_peak(&sentence, timeline, source);
    end_sentence(&sentence, out, true);
    if (timeline->peak.event >= 0) {
        tell_holders(&sentence, timeline);
        end_sentence(&sentence, out, false);
    }
    if (timeline->peak.event >= 0 && timeline->reserved_at_peak >= timeline->peak.bytes_taken) {
        tell_reserved(&sentence, timeline);
        end_sentence(&sentence, out, false);
    }
    if (timeline->oom_count > 0) {
        tell_failures(&sentence, timeline, source);
        end_sentence(&sentence, out, false);
    }
    if (timeline->peak.event >= 0) {
        tell_end(&sentence, timeline);
        end_sentence(&sentence, out, false);
    }
    tell_limits(&sentence, timeline, source);
    end_sentence(&sentence, out, false);
    plm__text_fini(&sentence);
}
