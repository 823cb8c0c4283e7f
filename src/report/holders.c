/* SPDX-License-Identifier: MIT */
/* Sites are interned by their bytes; the site that an owner had last is remembered, as it is nearly
 * always the next one. */
#include "report/holders.h"

#include <string.h>

plm_status plm__holders_init(plm_holders *sites, const plm_trace *trace)
{
    int64_t owner_count;
    plm_trace_owners(trace, &owner_count);
    *sites = (plm_holders){0};
    PLM_TRY(plm__intern_init(&sites->keys));
    plm_status status = plm__host_alloc((size_t)(owner_count + 1) * sizeof *sites->site_of_owner,
                                        &sites->site_of_owner);
    if (status != PLM_OK)
        plm__holders_fini(sites);
    return status;
}

void plm__holders_fini(plm_holders *sites)
{
    PLM_ARRAY_FREE(&sites->items);
    plm__intern_fini(&sites->keys);
    plm__host_free(sites->site_of_owner);
    *sites = (plm_holders){0};
}

static const size_t size_floors[] = {
#define SIZE_ROW(from, text) from,
    PLM_HOLDER_SIZE_MAP(SIZE_ROW)
#undef SIZE_ROW
};

const char *plm__holder_unknown_text(uint32_t size_class)
{
    static const char *const texts[] = {"unknown owner",
#define SIZE_ROW(from, text) "unknown owner, " text,
                                        PLM_HOLDER_SIZE_MAP(SIZE_ROW)
#undef SIZE_ROW
    };
    return texts[size_class];
}

static uint32_t class_of(size_t bytes)
{
    uint32_t class = 0;
    while (class < sizeof size_floors / sizeof *size_floors && bytes >= size_floors[class])
        class ++;
    return class;
}

static void make_key(const plm_trace *trace, const plm_event *event, plm_holder_key *key)
{
    int64_t owner_count;
    const plm_owner *owners = plm_trace_owners(trace, &owner_count);
    memset(key, 0, sizeof *key);
    key->owner.role = key->owner.dtype = key->owner.frames = -1;
    if (event->owner != PLM_TRACE_NO_OWNER)
        key->owner = owners[event->owner];
    key->queue = event->queue;
    key->pool = event->pool;
    const plm_owner *owner = &key->owner;
    if (owner->role < 0 && owner->frames < 0 && !owner->name && !owner->layer && !owner->op)
        key->size_class = class_of(event->bytes_taken);
}

plm_status plm__holders_find(plm_holders *sites, const plm_trace *trace, const plm_event *event,
                             uint32_t *site)
{
    uint32_t *last = &sites->site_of_owner[event->owner + 1];
    if (*last > 0) {
        const plm_holder_key *key = &sites->items.items[*last - 1].key;
        if (key->queue == event->queue && key->pool == event->pool &&
            (key->size_class == 0 || key->size_class == class_of(event->bytes_taken))) {
            *site = *last - 1;
            return PLM_OK;
        }
    }
    plm_holder_key key;
    make_key(trace, event, &key);
    uint32_t number;
    PLM_TRY(plm__intern_add(&sites->keys, (const char *)&key, sizeof key, &number));
    if (number > sites->items.count)
        PLM_TRY(PLM_ARRAY_PUSH(&sites->items, (plm_holder){.key = key}));
    *last = number;
    *site = number - 1;
    return PLM_OK;
}
