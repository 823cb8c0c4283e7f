/* SPDX-License-Identifier: MIT */
/* Prices read from one plan that is not packed. */
#include <string.h>

#include "base/size.h"
#include "plan/step_cost.h"
#include "plan/search_internal.h"

/* The live bytes of each operation of a program, and of each block what it keeps. */
typedef struct curve {
    size_t *live;     /* by position */
    size_t *kept;     /* by block */
    int64_t position; /* of the turn from forward to backward, the count when there is none */
} curve;

/* Adds the program's homes and workspaces to the curve: first differences, then their sum. */
static void trace_program(const plm_plan *plan, plm_program program, curve *c)
{
    const plm_graph *graph = plan->graph;
    const plm_op_range range = graph->programs[program];
    int64_t count = range.end - range.begin;
    for (int64_t i = 0; i < graph->storages.count; i++) {
        const plm_place *place = &plan->places[i];
        if (!plm__plan_is_call(graph, i, program) || place->home != i)
            continue;
        size_t bytes = plm__granules(graph->storages.items[i].bytes);
        int32_t block = graph->ops.items[range.begin + place->birth].block;
        c->live[place->birth] += bytes;
        if (place->until + 1 < count)
            c->live[place->until + 1] -= bytes;
        if (block >= 0 && place->birth < c->position && place->until > c->position)
            c->kept[block] += bytes;
    }
    for (int64_t i = 1; i < count; i++)
        c->live[i] += c->live[i - 1];
    for (int64_t i = 0; i < count; i++)
        c->live[i] += plm__granules(plan->workspaces[range.begin + i].bytes);
}

static void raise_to(size_t *most, size_t value)
{
    if (value > *most)
        *most = value;
}

/*
 * Splits the curve by blocks. `below` counts the blocks whose keep stands under an operation: all
 * that ran forward, less those that ran backward.
 */
static void split_curve(const plm_graph *graph, plm_program program, const curve *c,
                        plm__price *price)
{
    const plm_op_range range = graph->programs[program];
    int32_t below = 0;
    size_t base = 0; /* what those blocks keep */
    for (int64_t i = 0; i < range.end - range.begin; i++) {
        int32_t block = graph->ops.items[range.begin + i].block;
        int32_t wanted = block < 0 ? below : block;
        for (; below < wanted; below++)
            base += c->kept[below];
        for (; below > wanted; below--)
            base -= c->kept[below - 1];
        size_t beyond = c->live[i] > base ? c->live[i] - base : 0;
        if (block < 0) {
            raise_to(&price->outside[below], beyond);
            continue;
        }
        raise_to(&price->block[block].local, beyond);
        if (i < c->position) { /* a block that ran forward is below what follows */
            base += c->kept[block];
            below = block + 1;
        }
    }
    for (int32_t i = 0; i < price->blocks; i++)
        raise_to(&price->block[i].kept, c->kept[i]);
}

static plm_status take_program(const plm_plan *plan, plm_program program, plm__price *price)
{
    const plm_graph *graph = plan->graph;
    const plm_op_range range = graph->programs[program];
    const plm_tensor loss = graph->loss[program];
    int64_t count = range.end - range.begin;
    bool turns = program == PLM_PROGRAM_FIRST || program == PLM_PROGRAM_NEXT;
    curve c = {.position = count};
    plm_status status;
    if (count == 0)
        return PLM_OK;
    if (turns && loss != PLM_TENSOR_NONE)
        c.position = plm__graph_tensor(graph, loss)->producer - range.begin;
    PLM_TRY_DONE(plm__host_alloc((size_t)count * sizeof *c.live, &c.live));
    PLM_TRY_DONE(plm__host_alloc(((size_t)price->blocks + 1) * sizeof *c.kept, &c.kept));
    trace_program(plan, program, &c);
    if (turns)
        split_curve(graph, program, &c, price);
    for (int64_t i = 0; !turns && i < count; i++) {
        int32_t block = graph->ops.items[range.begin + i].block;
        raise_to(block < 0 ? &price->elsewhere : &price->block[block].elsewhere, c.live[i]);
    }
done:
    plm__host_free(c.live);
    plm__host_free(c.kept);
    return status;
}

static void take_costs(const plm_plan *plan, const plm_device *device, plm__price *price)
{
    const plm_plan_summary *summary = &plan->summary;
    for (int p = 0; p < PLM_PROGRAM_COUNT; p++) {
        const plm_op_range range = plan->graph->programs[p];
        int64_t runs =
            plm__program_runs((plm_program)p, summary->batch, summary->strategy.micro_batch);
        for (int64_t i = range.begin; runs > 0 && i < range.end; i++) {
            const plm_op *op = &plan->graph->ops.items[i];
            int64_t *sum = op->block < 0 ? &price->rest : &price->block[op->block].cost;
            *sum = plm__cost_add(*sum, runs, plm__op_cost(device->profile, plan->graph, op));
        }
    }
}

static plm_status take_all(const plm_plan *plan, plm_device *device, plm__price *price)
{
    price->blocks = plan->graph->block_count;
    price->persistent = plan->summary.persistent_bytes;
    price->overhead = device->table->overhead_bytes(device);
    PLM_TRY(plm__host_alloc(((size_t)price->blocks + 1) * sizeof *price->block, &price->block));
    PLM_TRY(plm__host_alloc(((size_t)price->blocks + 1) * sizeof *price->outside, &price->outside));
    for (int p = 0; p < PLM_PROGRAM_COUNT; p++)
        PLM_TRY(take_program(plan, (plm_program)p, price));
    take_costs(plan, device, price);
    return PLM_OK;
}

plm_status plm__price_make(const plm_job *job, const plm_strategy *strategy, plm_device *device,
                           plm__price *price)
{
    plm_plan *plan = NULL;
    plm__price made = {0};
    PLM_TRY(plm__plan_sketch(job, strategy, device, &plan));
    plm_status status = take_all(plan, device, &made);
    plm_plan_destroy(plan);
    if (status != PLM_OK) {
        plm__price_fini(&made);
        return status;
    }
    *price = made;
    return PLM_OK;
}

void plm__price_fini(plm__price *price)
{
    plm__host_free(price->block);
    plm__host_free(price->outside);
    *price = (plm__price){0};
}

void plm__price_mix(const plm__price *head, const plm__price *first, const plm__price *later,
                    int32_t split, size_t *peak_bound, int64_t *cost)
{
    size_t below = 0, most = head->elsewhere;
    *cost = head->rest;
    for (int32_t i = 0; i <= head->blocks; i++) {
        raise_to(&most, below + head->outside[i]);
        if (i == head->blocks)
            break;
        const plm__block_price *block = i < split ? &first->block[i] : &later->block[i];
        raise_to(&most, below + block->local);
        raise_to(&most, block->elsewhere);
        below += block->kept;
        *cost = plm__cost_add(*cost, 1, block->cost);
    }
    *peak_bound = head->persistent + most + head->overhead;
}
