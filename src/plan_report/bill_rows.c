/* SPDX-License-Identifier: MIT */
/* Live blocks into rows: alike is what has the same key, a text of all that is told but the number
 * of the layer. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "plan_report/bill_internal.h"

static const struct {
    const char *words;
    bool persists;
} roles[PLM_ROLE_COUNT] = {
    [PLM_ROLE_PARAMETER] = {"parameters", true},   [PLM_ROLE_MASTER] = {"master copies", true},
    [PLM_ROLE_GRADIENT] = {"gradients", true},     [PLM_ROLE_OPTIMIZER] = {"optimizer state", true},
    [PLM_ROLE_INPUT] = {"inputs", false},          [PLM_ROLE_ACTIVATION] = {"activations", false},
    [PLM_ROLE_TEMPORARY] = {"temporaries", false}, [PLM_ROLE_WORKSPACE] = {"workspaces", false},
    [PLM_ROLE_CACHE] = {"caches", false},          [PLM_ROLE_STATE] = {"step record", true},
};

const char *plm__bill_role_words(plm_role role)
{
    return roles[role].words;
}

bool plm__bill_role_persists(plm_role role)
{
    return (unsigned)role < PLM_ROLE_COUNT && roles[role].persists;
}

const plm_owner *plm__bill_owner(const plm_bill *bill, int64_t event)
{
    int64_t count;
    if (event < 0)
        return NULL;
    const plm_event *events = plm_trace_events(bill->trace, &count);
    const plm_owner *owners = plm_trace_owners(bill->trace, &count);
    int32_t owner = events[event].owner;
    return owner == PLM_TRACE_NO_OWNER ? NULL : &owners[owner];
}

/* The same for the first `bytes` of a text. */
static int64_t family_bytes(const char *text, int64_t bytes)
{
    int64_t end = bytes;
    while (end > 0 && isdigit((unsigned char)text[end - 1]))
        end--;
    return end < bytes && end > 1 && text[end - 1] == '.' ? end - 1 : bytes;
}

int64_t plm__bill_family_bytes(const char *layer)
{
    return family_bytes(layer, (int64_t)strlen(layer));
}

void plm__bill_add_layer(const plm_bill *bill, const plm__bill_row *row, plm_text *out)
{
    if (!row->owner)
        return;
    const char *layer = plm_trace_text(bill->trace, row->owner->layer);
    int64_t family = plm__bill_family_bytes(layer);
    if (row->layer_count > 1)
        plm__text_add(out, "%lld %.*ss", (long long)row->layer_count, (int)family, layer);
    else if (layer[family])
        plm__text_add(out, "%.*s %s", (int)family, layer, layer + family + 1);
    else
        plm__text_add(out, "%s", layer);
}

const char *plm__bill_name(const plm_bill *bill, const plm_owner *owner)
{
    const char *name = plm_trace_text(bill->trace, owner->name);
    const char *layer = plm_trace_text(bill->trace, owner->layer);
    size_t bytes = strlen(layer);
    bool led = bytes > 0 && strncmp(name, layer, bytes) == 0 && name[bytes] && name[bytes + 1];
    return led && strchr("./", name[bytes]) ? name + bytes + 1 : name;
}

void plm__bill_add_place(const plm_bill *bill, const plm_owner *owner, uint32_t place,
                         plm_text *out)
{
    const char *text = plm_trace_text(bill->trace, place);
    const char *layer = owner ? plm_trace_text(bill->trace, owner->layer) : "";
    int64_t word = (int64_t)strcspn(text, " "), family = family_bytes(text, word);
    int64_t own = plm__bill_family_bytes(layer);
    bool at_home = own > 0 && own == family && memcmp(text, layer, (size_t)own) == 0 && text[word];
    if (at_home)
        plm__text_add(out, "%s", text + word + 1);
    else
        plm__text_add(out, "%.*s%s", (int)family, text, text + word);
}

void plm__bill_add_shape(const plm_owner *owner, plm_text *out)
{
    if (!owner || owner->rank == 0)
        return;
    for (int32_t i = 0; i < owner->rank; i++)
        plm__text_add(out, "%s%lld", i ? "," : "[", (long long)owner->shape[i]);
    plm__text_add(out, "]");
    if (owner->dtype >= 0)
        plm__text_add(out, " %s", plm_dtype_text((plm_dtype)owner->dtype));
}

/* Fields are separated by a byte that no name holds in earnest. */
static void add_key(const plm_bill *bill, const plm_event *event, const plm_owner *owner,
                    plm_text *key)
{
    plm__text_add(key, "%zu", event->bytes_asked);
    if (!owner)
        return;
    const char *layer = plm_trace_text(bill->trace, owner->layer);
    plm__text_add(key, "\1%d\1%.*s\1%s\1%u\1", (int)owner->role, (int)plm__bill_family_bytes(layer),
                  layer, plm__bill_name(bill, owner), (unsigned)owner->op);
    plm__bill_add_shape(owner, key);
    for (int i = 0; i < PLM_TRACE_KEPT_MAX && owner->kept_for[i]; i++) {
        plm__text_add(key, "\1");
        plm__bill_add_place(bill, NULL, owner->kept_for[i], key);
    }
}

typedef struct gathering {
    plm_intern keys;   /* key + 1 is the row: "" is key 0 */
    plm_intern layers; /* key and layer, to count layers */
    plm_text key;
    plm__bill_rows rows;
} gathering;

static plm_status add_block(const plm_bill *bill, const plm_event *event, const plm_owner *owner,
                            gathering *made)
{
    uint32_t key, pair;
    made->key.count = 0;
    add_key(bill, event, owner, &made->key);
    PLM_TRY(plm__text_status(&made->key));
    PLM_TRY(plm__intern_add(&made->keys, made->key.items, (size_t)made->key.count, &key));
    if (key > made->rows.list.count)
        PLM_TRY(PLM_ARRAY_PUSH(&made->rows.list,
                               (plm__bill_row){.owner = owner, .each_bytes = event->bytes_asked}));
    plm__bill_row *row = &made->rows.list.items[key - 1];
    row->count++;
    row->total_bytes += event->bytes_asked;
    plm__text_add(&made->key, "\1%u", owner ? (unsigned)owner->layer : 0u);
    PLM_TRY(plm__text_status(&made->key));
    int64_t known = made->layers.entries.count;
    PLM_TRY(plm__intern_add(&made->layers, made->key.items, (size_t)made->key.count, &pair));
    row->layer_count += made->layers.entries.count > known;
    return PLM_OK;
}

/* Ties stay in the order of birth: a row's place in the list tells it. */
static int largest_first(const void *left, const void *right)
{
    const plm__bill_row *a = left, *b = right;
    if (a->total_bytes != b->total_bytes)
        return a->total_bytes < b->total_bytes ? 1 : -1;
    return a->owner < b->owner ? -1 : a->owner > b->owner;
}

plm_status plm__bill_rows_make(const plm_bill *bill, plm__bill_rows *rows)
{
    gathering made = {0};
    plm_status status;
    int64_t count;
    const plm_event *events = plm_trace_events(bill->trace, &count);
    PLM_TRY(plm__intern_init(&made.keys));
    PLM_TRY_DONE(plm__intern_init(&made.layers));
    for (int64_t i = 0; i < bill->live_count; i++)
        PLM_TRY_DONE(
            add_block(bill, &events[bill->live[i]], plm__bill_owner(bill, bill->live[i]), &made));
    PLM_ARRAY_SORT(&made.rows.list, largest_first);
    *rows = made.rows;
    made.rows = (plm__bill_rows){0};
done:
    plm__bill_rows_free(&made.rows);
    plm__text_fini(&made.key);
    plm__intern_fini(&made.layers);
    plm__intern_fini(&made.keys);
    return status;
}

void plm__bill_rows_free(plm__bill_rows *rows)
{
    PLM_ARRAY_FREE(&rows->list);
}
