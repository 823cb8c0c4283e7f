/* SPDX-License-Identifier: MIT */
/* Sites: blocks grouped by the line that asked for them, and what each group holds when. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "plimsoll/size.h"
#include "diagnose/views.h"
#include "trace/trace.h"

enum { SITES_MAX = 1 << 20 }; /* beyond it, blocks without a stack are one group */

/* What makes a group: a site, or without one a size. */
typedef struct site_key {
    uint32_t site;
    uint32_t is_older;
    uint64_t bytes; /* 0 for a site */
} site_key;

typedef PLM_ARRAY(plm_call_site) site_list;

static plm_status group_of(plm_intern *keys, const plm_owner *owners, const plm_event *event,
                           bool is_older, site_list *sites, int32_t *group)
{
    bool is_owned = event->owner != PLM_TRACE_NO_OWNER;
    site_key key = {.site = is_owned ? owners[event->owner].op : 0};
    key.is_older = key.site == 0 && is_older;
    if (key.site == 0 && !key.is_older && sites->count < SITES_MAX)
        key.bytes = event->bytes_asked;
    uint32_t number;
    PLM_TRY(plm__intern_add(keys, (const char *)&key, sizeof key, &number));
    if ((int64_t)number > sites->count)
        PLM_TRY(PLM_ARRAY_PUSH(
            sites,
            (plm_call_site){.site = key.site, .is_older = key.is_older, .owner = event->owner}));
    *group = (int32_t)number - 1;
    return PLM_OK;
}

/* Gives each block its group. */
static plm_status make_groups(plm_findings *findings, site_list *sites)
{
    int64_t count, owner_count;
    const plm_event *events = plm_trace_events(findings->device->trace, &count);
    const plm_owner *owners = plm_trace_owners(findings->device->trace, &owner_count);
    plm_intern keys;
    PLM_TRY(plm__intern_init(&keys));
    plm_status status = PLM_OK;
    for (int64_t i = 0; i < count && status == PLM_OK; i++) {
        if (events[i].kind != PLM_EVENT_BLOCK_ALLOC)
            continue;
        int32_t *group = &findings->site_of_block[events[i].block];
        status =
            group_of(&keys, owners, &events[i], i < findings->device->carried_in, sites, group);
        if (status != PLM_OK)
            break;
        plm_call_site *site = &sites->items[*group];
        site->requests++;
        if (events[i].bytes_taken > site->each_bytes)
            site->each_bytes = events[i].bytes_taken;
        findings->has_stacks |= site->site != 0 && i >= findings->device->carried_in;
    }
    plm__intern_fini(&keys);
    return status;
}

/* One pass: what each group holds at the peak and at the end. */
static void sum_groups(const plm_findings *findings, plm_call_site *sites, int64_t site_count)
{
    int64_t count;
    const plm_event *events = plm_trace_events(findings->device->trace, &count);
    for (int64_t i = 0; i < count; i++) {
        const plm_event *event = &events[i];
        if (event->kind != PLM_EVENT_BLOCK_ALLOC && event->kind != PLM_EVENT_BLOCK_FREE)
            continue;
        plm_call_site *site = &sites[findings->site_of_block[event->block]];
        bool is_birth = event->kind == PLM_EVENT_BLOCK_ALLOC;
        site->end_blocks += is_birth ? 1 : -1;
        site->end_bytes += is_birth ? event->bytes_taken : 0 - event->bytes_taken;
        for (int64_t k = 0; i == findings->peak_event && k < site_count; k++) {
            sites[k].peak_blocks = sites[k].end_blocks;
            sites[k].peak_bytes = sites[k].end_bytes;
        }
    }
}

typedef struct ranked_site {
    plm_call_site site;
    int32_t group;
} ranked_site;

static int most_first(const void *left, const void *right)
{
    const ranked_site *a = left, *b = right;
    if (a->site.peak_bytes != b->site.peak_bytes)
        return a->site.peak_bytes < b->site.peak_bytes ? 1 : -1;
    if (a->site.end_bytes != b->site.end_bytes)
        return a->site.end_bytes < b->site.end_bytes ? 1 : -1;
    return a->group - b->group;
}

/* Sorts the sites and renumbers the blocks' groups. */
static plm_status rank_sites(plm_findings *findings, site_list *sites)
{
    ranked_site *ranked = NULL;
    int32_t *places = NULL;
    plm_status status;
    size_t count = (size_t)sites->count + 1;
    PLM_TRY_DONE(plm__host_alloc(count * sizeof *ranked, &ranked));
    PLM_TRY_DONE(plm__host_alloc(count * sizeof *places, &places));
    for (int32_t i = 0; i < sites->count; i++)
        ranked[i] = (ranked_site){sites->items[i], i};
    qsort(ranked, (size_t)sites->count, sizeof *ranked, most_first);
    for (int32_t i = 0; i < sites->count; i++) {
        sites->items[i] = ranked[i].site;
        places[ranked[i].group] = i;
    }
    for (int64_t i = 0; i < findings->block_count; i++)
        if (findings->site_of_block[i] >= 0)
            findings->site_of_block[i] = places[findings->site_of_block[i]];
done:
    plm__host_free(ranked);
    plm__host_free(places);
    return status;
}

plm_status plm__find_sites(plm_findings *findings)
{
    const plm_trace *trace = findings->device->trace;
    site_list sites = {0};
    plm_status status;
    findings->block_count = plm__trace_block_count(trace);
    findings->peak_event = plm_trace_find_peak(trace).event;
    size_t bytes = ((size_t)findings->block_count + 1) * sizeof *findings->site_of_block;
    PLM_TRY_DONE(plm__host_alloc(bytes, &findings->site_of_block));
    memset(findings->site_of_block, 0xff, bytes);
    PLM_TRY_DONE(make_groups(findings, &sites));
    sum_groups(findings, sites.items, sites.count);
    PLM_TRY_DONE(rank_sites(findings, &sites));
    findings->sites = sites.items;
    findings->site_count = sites.count;
    sites.items = NULL;
done:
    plm__host_free(sites.items);
    return status;
}

plm_status plm__find_births(const plm_findings *findings, int64_t **births)
{
    int64_t count, *found = NULL;
    const plm_event *events = plm_trace_events(findings->device->trace, &count);
    PLM_TRY(plm__host_alloc(((size_t)findings->block_count + 1) * sizeof *found, &found));
    for (int64_t i = 0; i < count; i++)
        if (events[i].kind == PLM_EVENT_BLOCK_ALLOC)
            found[events[i].block] = i + 1;
    *births = found;
    return PLM_OK;
}

const char *plm_call_site_text(const plm_findings *findings, int64_t place,
                               char text[PLM_CALL_SITE_TEXT])
{
    char size[PLM_SIZE_TEXT];
    const plm_call_site *site = place >= 0 ? &findings->sites[place] : NULL;
    if (!site)
        snprintf(text, PLM_CALL_SITE_TEXT, "not in the recording");
    else if (site->site != 0)
        snprintf(text, PLM_CALL_SITE_TEXT, "%s",
                 plm_trace_text(findings->device->trace, site->site));
    else if (site->is_older)
        snprintf(text, PLM_CALL_SITE_TEXT, "from before recording began");
    else
        snprintf(text, PLM_CALL_SITE_TEXT, "no stack, blocks of %s",
                 plm_size_format(site->each_bytes, size));
    return text;
}
