/* SPDX-License-Identifier: MIT */
/*
 * The two passes. The first learns what there is: sites, the groups worth showing, sizes of blocks,
 * the peak. The second fills the bins and keeps the blocks.
 */
#include "report/timeline.h"

#include <string.h>

/* Classes rise with size: eight to each power of two. */
static int size_class(size_t bytes)
{
    int log = 0;
    for (size_t rest = bytes; rest > 1; rest >>= 1)
        log++;
    int eighth = log >= 3 ? (int)(bytes >> (log - 3) & 7) : 0;
    return log * 8 + eighth;
}

static size_t class_floor(int class)
{
    int log = class / 8;
    size_t eighth = (size_t)(class % 8);
    return log >= 3 ? (8 + eighth) << (log - 3) : (size_t)1 << log;
}

/* Block numbers are dense by contract, so two tables by number do. */
static plm_status make_block_tables(plm_timeline *t)
{
    int64_t largest = -1;
    for (int64_t i = 0; i < t->event_count; i++)
        if (t->events[i].block > largest)
            largest = t->events[i].block;
    t->block_ids = largest + 1;
    PLM_TRY(plm__host_alloc((size_t)t->block_ids * sizeof *t->site_of_block, &t->site_of_block));
    PLM_TRY(plm__host_alloc((size_t)t->block_ids * sizeof *t->kept_of_block, &t->kept_of_block));
    return plm__host_alloc(PLM_TIMELINE_SIZE_CLASSES * sizeof *t->size_classes, &t->size_classes);
}

static plm_status find_site(plm_timeline *t, const plm_event *event, uint32_t *site)
{
    PLM_TRY(plm__holders_find(&t->sites, t->trace, event, site));
    for (int k = 0; k < PLM_GROUPING_COUNT; k++)
        if (t->groupings[k].key_of_site.count < t->sites.items.count)
            PLM_TRY(plm__grouping_add_site(&t->groupings[k], (plm_grouping_kind)k, t->trace,
                                           &t->sites.items.items[*site].key));
    return PLM_OK;
}

static void change_site(plm_timeline *t, uint32_t site, size_t bytes, int64_t count, int64_t event)
{
    plm_holder *it = &t->sites.items.items[site];
    it->live_bytes += bytes;
    it->live_count += count;
    if (it->live_bytes > it->largest_bytes)
        it->largest_bytes = it->live_bytes;
    for (int k = 0; k < PLM_GROUPING_COUNT; k++)
        plm__grouping_change(&t->groupings[k], site, bytes, event);
}

/* A free of a block that does not live is not believed. */
static bool is_death(const plm_timeline *t, const plm_event *event)
{
    return event->kind == PLM_EVENT_BLOCK_FREE && event->block >= 0 &&
           t->site_of_block[event->block] > 0;
}

static plm_status learn_event(plm_timeline *t, int64_t index)
{
    const plm_event *event = &t->events[index];
    if (event->kind == PLM_EVENT_BLOCK_ALLOC) {
        uint32_t site;
        PLM_TRY(find_site(t, event, &site));
        t->site_of_block[event->block] = site + 1;
        t->sites.items.items[site].total_bytes += event->bytes_taken;
        t->sites.items.items[site].total_count++;
        t->recorded |= t->sites.items.items[site].key.owner.frames >= 0;
        t->has_roles |= t->sites.items.items[site].key.owner.role >= 0;
        change_site(t, site, event->bytes_taken, 1, index);
        t->size_classes[size_class(event->bytes_taken)]++;
        t->block_count++;
    } else if (is_death(t, event)) {
        change_site(t, t->site_of_block[event->block] - 1, 0 - event->bytes_taken, -1, index);
        t->site_of_block[event->block] = 0;
    }
    t->oom_count += event->kind == PLM_EVENT_OUT_OF_MEMORY;
    t->mark_count += event->kind == PLM_EVENT_MARK;
    return PLM_OK;
}

/* The size from which on blocks are kept: as many whole classes as there is room for. */
static void choose_kept(plm_timeline *t)
{
    int64_t kept = 0;
    int class = PLM_TIMELINE_SIZE_CLASSES - 1;
    while (class >= 0 && kept + t->size_classes[class] <= PLM_EXPORT_BLOCKS_MAX)
        kept += t->size_classes[class --];
    t->smallest_kept_bytes = class < 0 ? 0 : class_floor(class + 1);
}

static plm_status learn(plm_timeline *t)
{
    for (int64_t i = 0; i < t->event_count; i++)
        PLM_TRY(learn_event(t, i));
    t->peak = plm_trace_find_peak(t->trace);
    choose_kept(t);
    for (int k = 0; k < PLM_GROUPING_COUNT; k++)
        PLM_TRY(plm__grouping_choose(&t->groupings[k], t->event_count));
    for (int64_t i = 0; i < t->sites.items.count; i++) {
        t->sites.items.items[i].live_bytes = 0;
        t->sites.items.items[i].live_count = 0;
    }
    for (int64_t i = 0; i < t->block_ids; i++)
        t->site_of_block[i] = 0;
    return PLM_OK;
}

static void choose_bins(plm_timeline *t)
{
    t->bin_events = t->event_count <= PLM_TIMELINE_SHORT_TRACE_EVENTS ? 1 : 2;
    while (t->bin_events < PLM_TIMELINE_BIN_EVENTS_MIN &&
           t->event_count / t->bin_events > PLM_TIMELINE_SHORT_TRACE_EVENTS)
        t->bin_events *= 2;
    while ((t->event_count + t->bin_events - 1) / t->bin_events > PLM_TIMELINE_BINS_MAX)
        t->bin_events *= 2;
}

static plm_status make_bins(plm_timeline *t)
{
    choose_bins(t);
    int64_t bins = (t->event_count + t->bin_events - 1) / t->bin_events;
    PLM_TRY(PLM_ARRAY_RESERVE(&t->bins, bins));
    for (int k = 0; k < PLM_GROUPING_COUNT; k++)
        PLM_TRY(plm__host_alloc((size_t)bins * PLM_GROUPS_MAX * sizeof *t->group_bytes[k],
                                &t->group_bytes[k]));
    return PLM_OK;
}

static plm_status keep_block(plm_timeline *t, const plm_event *event, int64_t index, uint32_t site)
{
    if (event->bytes_taken < t->smallest_kept_bytes)
        return PLM_OK;
    PLM_TRY(PLM_ARRAY_PUSH(&t->blocks,
                           (plm_timeline_block){index, -1, -1, event->address, event->bytes_asked,
                                                event->bytes_taken, site}));
    t->kept_of_block[event->block] = (uint32_t)t->blocks.count;
    return PLM_OK;
}

typedef struct sums {
    size_t group[PLM_GROUPING_COUNT][PLM_GROUPS_MAX];
    size_t live;
    int64_t blocks;
} sums;

static void change_sums(const plm_timeline *t, sums *now, uint32_t site, size_t bytes)
{
    now->live += bytes;
    for (int k = 0; k < PLM_GROUPING_COUNT; k++)
        now->group[k][plm__grouping_of_site(&t->groupings[k], site)] += bytes;
}

static void note_let_go(plm_timeline *t, const plm_event *event, int64_t index)
{
    if (event->kind == PLM_EVENT_BLOCK_FREE_REQUESTED && event->block >= 0 &&
        t->kept_of_block[event->block] > 0)
        t->blocks.items[t->kept_of_block[event->block] - 1].let_go = index;
}

static plm_status tell_event(plm_timeline *t, int64_t index, sums *now)
{
    const plm_event *event = &t->events[index];
    bool birth = event->kind == PLM_EVENT_BLOCK_ALLOC;
    if (!birth && !is_death(t, event)) {
        note_let_go(t, event, index);
        return PLM_OK;
    }
    uint32_t site = birth ? 0 : t->site_of_block[event->block] - 1;
    if (birth)
        PLM_TRY(plm__holders_find(&t->sites, t->trace, event, &site));
    plm_holder *it = &t->sites.items.items[site];
    size_t bytes = birth ? event->bytes_taken : 0 - event->bytes_taken;
    change_sums(t, now, site, bytes);
    it->live_bytes += bytes;
    it->live_count += birth ? 1 : -1;
    now->blocks += birth ? 1 : -1;
    t->site_of_block[event->block] = birth ? site + 1 : 0;
    if (birth)
        return keep_block(t, event, index, site);
    if (t->kept_of_block[event->block] > 0)
        t->blocks.items[t->kept_of_block[event->block] - 1].death = index;
    return PLM_OK;
}

static void remember_peak(plm_timeline *t, const sums *now)
{
    t->peak_blocks = now->blocks;
    for (int64_t i = 0; i < t->sites.items.count; i++) {
        plm_holder *site = &t->sites.items.items[i];
        site->peak_bytes = site->live_bytes;
        site->peak_count = site->live_count;
    }
}

/* Puts the sums after event `index` into its bin. */
static void fill_bin(plm_timeline *t, int64_t index, const sums *now, size_t reserved)
{
    int64_t place = index / t->bin_events;
    bool first = place == t->bins.count;
    if (first)
        t->bins.items[t->bins.count++] = (plm_timeline_bin){.least = SIZE_MAX};
    plm_timeline_bin *bin = &t->bins.items[place];
    if (now->live < bin->least)
        bin->least = now->live;
    if (reserved > bin->reserved)
        bin->reserved = reserved;
    if (!first && now->live <= bin->bytes)
        return;
    bin->event = index;
    bin->bytes = now->live;
    for (int k = 0; k < PLM_GROUPING_COUNT; k++)
        memcpy(&t->group_bytes[k][place * PLM_GROUPS_MAX], now->group[k], sizeof now->group[k]);
}

static plm_status tell(plm_timeline *t)
{
    sums now = {0};
    const plm_reserved_step *steps = t->extents.steps.items;
    int64_t step = 0;
    PLM_TRY(make_bins(t));
    for (int64_t i = 0; i < t->event_count; i++) {
        PLM_TRY(tell_event(t, i, &now));
        while (step + 1 < t->extents.steps.count && steps[step + 1].event <= i)
            step++;
        fill_bin(t, i, &now, steps[step].bytes);
        if (i == t->peak.event)
            remember_peak(t, &now);
    }
    t->end_bytes = now.live;
    t->end_blocks = now.blocks;
    return PLM_OK;
}

/* The sum of the segments right after an event. */
static size_t reserved_at(const plm_timeline *timeline, int64_t event)
{
    int64_t low = 0, high = timeline->extents.steps.count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (timeline->extents.steps.items[middle].event <= event)
            low = middle;
        else
            high = middle;
    }
    return timeline->extents.steps.items[low].bytes;
}

plm_status plm__timeline_init(const plm_export_source *source, plm_timeline *timeline)
{
    plm_timeline *t = timeline;
    t->trace = source->trace;
    t->events = plm_trace_events(t->trace, &t->event_count);
    t->peak.event = -1;
    PLM_TRY(plm__extents_init(source, &t->extents));
    PLM_TRY(plm__holders_init(&t->sites, t->trace));
    for (int k = 0; k < PLM_GROUPING_COUNT; k++)
        PLM_TRY(plm__grouping_init(&t->groupings[k]));
    PLM_TRY(make_block_tables(t));
    PLM_TRY(learn(t));
    PLM_TRY(tell(t));
    for (int64_t i = 0; i < t->extents.steps.count; i++)
        if (t->extents.steps.items[i].bytes > t->reserved_peak)
            t->reserved_peak = t->extents.steps.items[i].bytes;
    t->reserved_at_peak = reserved_at(t, t->peak.event);
    plm__host_free(t->site_of_block);
    plm__host_free(t->kept_of_block);
    plm__host_free(t->size_classes);
    t->site_of_block = t->kept_of_block = NULL;
    t->size_classes = NULL;
    return PLM_OK;
}

void plm__timeline_fini(plm_timeline *timeline)
{
    plm__extents_fini(&timeline->extents);
    plm__holders_fini(&timeline->sites);
    for (int k = 0; k < PLM_GROUPING_COUNT; k++) {
        plm__grouping_fini(&timeline->groupings[k]);
        plm__host_free(timeline->group_bytes[k]);
    }
    PLM_ARRAY_FREE(&timeline->bins);
    PLM_ARRAY_FREE(&timeline->blocks);
    plm__host_free(timeline->site_of_block);
    plm__host_free(timeline->kept_of_block);
    plm__host_free(timeline->size_classes);
    *timeline = (plm_timeline){0};
}
