/* SPDX-License-Identifier: MIT */
/* Where each storage lies: the persistent region from the bottom, each program's storages packed
 * above it. */
#include "plan/plan.h"

#include "base/size.h"
#include "pack/pack.h"

plm_status plm__plan_place_persistent(const plm_graph *graph, plm_place *places, size_t *end)
{
    size_t offset = 0;
    for (int64_t i = 0; i < graph->storages.count; i++) {
        const plm_storage *storage = &graph->storages.items[i];
        if (storage->scope == PLM_SCOPE_CALL)
            continue;
        size_t bytes;
        PLM_TRY(plm__round_up_bytes(storage->bytes, PLM_GRANULE_BYTES, &bytes));
        places[i].offset = offset;
        PLM_TRY(plm__add_bytes(offset, bytes, &offset));
    }
    *end = offset;
    return PLM_OK;
}

/* What is packed: the program's home storages, then its workspaces in order of operation. */
typedef struct pack_job {
    PLM_ARRAY(plm_pack_item) items;
    PLM_ARRAY(int32_t) storages; /* of the first items */
    size_t *offsets;             /* by item */
    size_t total;                /* end of the highest */
} pack_job;

static plm_status add_item(pack_job *packing, int32_t birth, int32_t death, size_t bytes)
{
    size_t rounded;
    PLM_TRY(plm__round_up_bytes(bytes, PLM_GRANULE_BYTES, &rounded));
    return PLM_ARRAY_PUSH(&packing->items, (plm_pack_item){birth, death, rounded});
}

static plm_status collect_items(const plm_graph *graph, plm_program program,
                                const plm_place *places, const plm_workspace *workspaces,
                                pack_job *packing)
{
    for (int64_t i = 0; i < graph->storages.count; i++) {
        if (!plm__plan_is_call(graph, i, program) || places[i].home != i)
            continue;
        PLM_TRY(
            add_item(packing, places[i].birth, places[i].until, graph->storages.items[i].bytes));
        PLM_TRY(PLM_ARRAY_PUSH(&packing->storages, (int32_t)i));
    }
    const plm_op_range range = graph->programs[program];
    for (int64_t i = range.begin; i < range.end; i++) {
        int32_t position = (int32_t)(i - range.begin);
        if (workspaces[i].bytes > 0)
            PLM_TRY(add_item(packing, position, position, workspaces[i].bytes));
    }
    return PLM_OK;
}

/*
 * The packing is turned over, top to bottom: what lives longest lies at its bottom, and so comes to
 * the end of the arena, where a run can be seen to write; a workspace's end may never be written.
 */
static size_t turned_over(const pack_job *packing, int64_t item)
{
    return packing->total - packing->offsets[item] - packing->items.items[item].bytes;
}

/* Hands the offsets out in the order in which the items were collected. */
static void take_offsets(const plm_graph *graph, plm_program program, size_t base,
                         const pack_job *packing, plm_place *places, plm_workspace *workspaces)
{
    int64_t item = 0;
    for (int64_t i = 0; i < packing->storages.count; i++)
        places[packing->storages.items[i]].offset = base + turned_over(packing, item++);
    const plm_op_range range = graph->programs[program];
    for (int64_t i = range.begin; i < range.end; i++)
        if (workspaces[i].bytes > 0)
            workspaces[i].offset = base + turned_over(packing, item++);
    for (int64_t i = 0; i < graph->storages.count; i++)
        if (plm__plan_is_call(graph, i, program) && places[i].home >= 0)
            places[i].offset = places[places[i].home].offset;
}

plm_status plm__plan_place_program(const plm_graph *graph, plm_program program, size_t base,
                                   plm_place *places, plm_workspace *workspaces, size_t *bytes,
                                   size_t *bound)
{
    pack_job packing = {0};
    plm_status status;
    PLM_TRY_DONE(collect_items(graph, program, places, workspaces, &packing));
    PLM_TRY_DONE(
        plm__host_alloc((size_t)packing.items.count * sizeof *packing.offsets, &packing.offsets));
    PLM_TRY_DONE(
        plm__pack(packing.items.items, packing.items.count, packing.offsets, &packing.total));
    PLM_TRY_DONE(plm__pack_bound(packing.items.items, packing.items.count, bound, NULL));
    *bytes = packing.total;
    take_offsets(graph, program, base, &packing, places, workspaces);
done:
    plm__host_free(packing.offsets);
    PLM_ARRAY_FREE(&packing.storages);
    PLM_ARRAY_FREE(&packing.items);
    return status;
}
