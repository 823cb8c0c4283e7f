/* SPDX-License-Identifier: MIT */
/* Keys of sites, and the choice of the groups that are shown. */
#include "report/groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *plm__grouping_title(plm_grouping_kind kind, bool recorded)
{
    static const char *const titles[PLM_GROUPING_COUNT][2] = {
#define GROUPING_ROW(name, ours, recorded_title) [PLM_GROUPING_##name] = {ours, recorded_title},
        PLM_GROUPING_MAP(GROUPING_ROW)
#undef GROUPING_ROW
    };
    return titles[kind][recorded];
}

plm_status plm__grouping_init(plm_grouping *grouping)
{
    *grouping = (plm_grouping){0};
    return plm__intern_init(&grouping->labels);
}

void plm__grouping_fini(plm_grouping *grouping)
{
    plm__intern_fini(&grouping->labels);
    PLM_ARRAY_FREE(&grouping->keys);
    PLM_ARRAY_FREE(&grouping->key_of_site);
    *grouping = (plm_grouping){0};
}

static void label_text(const plm_trace *trace, uint32_t id, const char *without, char *label)
{
    const char *text = plm_trace_text(trace, id);
    snprintf(label, PLM_GROUP_LABEL_MAX, "%s", text[0] ? text : without);
}

static void label_of(plm_grouping_kind kind, const plm_trace *trace, const plm_holder_key *site,
                     char *label)
{
    const plm_owner *owner = &site->owner;
    switch (kind) {
    case PLM_GROUPING_ROLE:
        snprintf(label, PLM_GROUP_LABEL_MAX, "%s",
                 owner->role >= 0 ? plm_role_text((plm_role)owner->role)
                                  : plm__holder_unknown_text(site->size_class));
        break;
    case PLM_GROUPING_LAYER:
        label_text(trace, owner->layer, "no layer", label);
        break;
    case PLM_GROUPING_OP:
        label_text(trace, owner->op,
                   owner->frames < 0 ? plm__holder_unknown_text(site->size_class)
                                     : "no Python frame",
                   label);
        break;
    case PLM_GROUPING_NAME:
        label_text(trace, owner->name, "without a name", label);
        break;
    case PLM_GROUPING_QUEUE:
        snprintf(label, PLM_GROUP_LABEL_MAX, "%d", site->queue);
        break;
    default:
        snprintf(label, PLM_GROUP_LABEL_MAX, "%d", site->pool);
        break;
    }
}

plm_status plm__grouping_add_site(plm_grouping *grouping, plm_grouping_kind kind,
                                  const plm_trace *trace, const plm_holder_key *site)
{
    char label[PLM_GROUP_LABEL_MAX];
    uint32_t key;
    label_of(kind, trace, site, label);
    PLM_TRY(plm__intern_add(&grouping->labels, label, strlen(label), &key));
    PLM_TRY(PLM_ARRAY_RESERVE(&grouping->keys, grouping->labels.entries.count));
    grouping->keys.count = grouping->labels.entries.count;
    return PLM_ARRAY_PUSH(&grouping->key_of_site, key);
}

static void age(plm_group_key *key, int64_t event)
{
    key->area += (double)key->live_bytes * (double)(event - key->changed);
    key->changed = event;
}

void plm__grouping_change(plm_grouping *grouping, uint32_t site, size_t bytes, int64_t event)
{
    plm_group_key *key = &grouping->keys.items[grouping->key_of_site.items[site]];
    age(key, event);
    key->live_bytes += bytes;
    if (key->live_bytes > key->largest_bytes)
        key->largest_bytes = key->live_bytes;
}

typedef struct choice {
    uint32_t key;
    size_t largest_bytes;
    double steadiness; /* mean over maximum: 1 for what never changes */
} choice;

static int largest_first(const void *left, const void *right)
{
    const choice *a = left, *b = right;
    if (a->largest_bytes != b->largest_bytes)
        return a->largest_bytes < b->largest_bytes ? 1 : -1;
    return a->key < b->key ? -1 : a->key > b->key;
}

static int steadiest_first(const void *left, const void *right)
{
    const choice *a = left, *b = right;
    if (a->steadiness != b->steadiness)
        return a->steadiness < b->steadiness ? 1 : -1;
    return a->key < b->key ? -1 : a->key > b->key;
}

plm_status plm__grouping_choose(plm_grouping *grouping, int64_t event_count)
{
    choice *choices = NULL;
    int64_t count = 0;
    PLM_TRY(plm__host_alloc((size_t)(grouping->keys.count + 1) * sizeof *choices, &choices));
    for (int64_t i = 0; i < grouping->keys.count; i++) {
        plm_group_key *key = &grouping->keys.items[i];
        age(key, event_count);
        if (key->largest_bytes > 0)
            choices[count++] =
                (choice){(uint32_t)i, key->largest_bytes, key->area / (double)key->largest_bytes};
    }
    qsort(choices, (size_t)count, sizeof *choices, largest_first);
    grouping->used_keys = (int)count;
    grouping->has_others = count > PLM_GROUPS_MAX;
    int named = grouping->has_others ? PLM_GROUPS_MAX - 1 : (int)count;
    grouping->group_count = named + grouping->has_others;
    qsort(choices, (size_t)named, sizeof *choices, steadiest_first);
    for (int64_t i = 0; i < grouping->keys.count; i++)
        grouping->keys.items[i].group = (uint8_t)(named > 0 && !grouping->has_others ? 0 : named);
    for (int i = 0; i < named; i++) {
        grouping->key_of_group[i] = choices[i].key;
        grouping->keys.items[choices[i].key].group = (uint8_t)i;
    }
    plm__host_free(choices);
    return PLM_OK;
}

const char *plm__grouping_label(const plm_grouping *grouping, int group)
{
    if (grouping->has_others && group == grouping->group_count - 1)
        return "all others";
    return plm__intern_text(&grouping->labels, grouping->key_of_group[group]);
}
