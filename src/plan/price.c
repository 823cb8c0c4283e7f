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

static void take_costs(const plm_plan *plan, plm_program program, const plm_device *device,
                       plm__price *price)
{
    const plm_plan_summary *summary = &plan->summary;
    const plm_op_range range = plan->graph->programs[program];
    int64_t runs = plm__program_runs(program, summary->batch, summary->strategy.micro_batch);
    for (int64_t i = range.begin; runs > 0 && i < range.end; i++) {
        const plm_op *op = &plan->graph->ops.items[i];
        int64_t *sum = op->block < 0 ? &price->rest : &price->block[op->block].cost;
        *sum = plm__cost_add(*sum, runs, plm__op_cost(device->profile, plan->graph, op));
    }
}

/* Which programs a price is of: those in which no choice of a search shows are the frame's. */
typedef enum part { FRAME = 1, REST = 2, ALL = FRAME | REST } part;

static plm_status take(const plm_plan *plan, plm_device *device, part wanted, plm__price *price)
{
    price->blocks = plan->graph->block_count;
    price->repeats = 1;
    price->persistent = plan->summary.persistent_bytes;
    price->slot = plan->slot.bytes;
    price->overhead = device->table->overhead_bytes(device);
    PLM_TRY(plm__host_alloc(((size_t)price->blocks + 1) * sizeof *price->block, &price->block));
    PLM_TRY(plm__host_alloc(((size_t)price->blocks + 1) * sizeof *price->outside, &price->outside));
    for (int p = 0; p < PLM_PROGRAM_COUNT; p++) {
        bool once = p == PLM_PROGRAM_INITIALIZE || p == PLM_PROGRAM_UPDATE;
        if (!(wanted & (once ? FRAME : REST)))
            continue;
        PLM_TRY(take_program(plan, (plm_program)p, price));
        take_costs(plan, (plm_program)p, device, price);
    }
    return PLM_OK;
}

/* Whether all blocks between the first and the last have one price. */
static bool are_alike(const plm__price *price)
{
    for (int32_t i = 2; i < price->blocks - 1; i++)
        if (memcmp(&price->block[1], &price->block[i], sizeof *price->block) != 0)
            return false;
    return price->blocks > PLM__BLOCKS_PRICED;
}

static plm_status take_frame(const plm_plan *plan, plm_device *device, plm__price_frame *frame)
{
    plm__price all = {0}, once = {0};
    plm_status status;
    PLM_TRY_DONE(take(plan, device, ALL, &all));
    PLM_TRY_DONE(take(plan, device, FRAME, &once));
    *frame = (plm__price_frame){.blocks = all.blocks,
                                .alike = are_alike(&all),
                                .persistent = once.persistent - once.slot,
                                .elsewhere = once.elsewhere,
                                .cost = once.rest};
    for (int32_t i = 0; i < once.blocks; i++) {
        raise_to(&frame->elsewhere, once.block[i].elsewhere);
        frame->cost = plm__cost_add(frame->cost, 1, once.block[i].cost);
    }
done:
    plm__price_fini(&all);
    plm__price_fini(&once);
    return status;
}

plm_status plm__price_frame_make(const plm_job *job, const plm_strategy *strategy,
                                 plm_device *device, plm__price_frame *frame)
{
    plm_plan *plan = NULL;
    PLM_TRY(plm__plan_sketch(job, strategy, device, 0, &plan));
    plm_status status = take_frame(plan, device, frame);
    plm_plan_destroy(plan);
    return status;
}

static void add_frame(const plm__price_frame *frame, plm__price *price)
{
    price->repeats = frame->blocks - price->blocks + 1;
    price->persistent = frame->persistent + price->slot;
    price->rest = plm__cost_add(price->rest, 1, frame->cost);
    raise_to(&price->elsewhere, frame->elsewhere);
}

plm_status plm__price_make(const plm_job *job, const plm_strategy *strategy, plm_device *device,
                           const plm__price_frame *frame, plm__price *price)
{
    plm_plan *plan = NULL;
    plm__price made = {0};
    bool few = frame && frame->alike;
    PLM_TRY(plm__plan_sketch(job, strategy, device, few ? PLM__BLOCKS_PRICED : 0, &plan));
    plm_status status = take(plan, device, few ? REST : ALL, &made);
    plm_plan_destroy(plan);
    if (status != PLM_OK) {
        plm__price_fini(&made);
        return status;
    }
    if (few)
        add_frame(frame, &made);
    *price = made;
    return PLM_OK;
}

void plm__price_fini(plm__price *price)
{
    plm__host_free(price->block);
    plm__host_free(price->outside);
    *price = (plm__price){0};
}

int32_t plm__price_blocks(const plm__price *price)
{
    return price->blocks == 0 ? 0 : price->blocks + price->repeats - 1;
}

/* A sum of prices from the first block on. */
typedef struct pile {
    size_t below, most;
    int64_t cost;
} pile;

/* `count` blocks of one price: the last of them stands highest. */
static void pile_up(pile *sum, const plm__block_price *block, int32_t count)
{
    if (count <= 0)
        return;
    sum->below += (size_t)(count - 1) * block->kept;
    raise_to(&sum->most, sum->below + block->local);
    raise_to(&sum->most, block->elsewhere);
    sum->below += block->kept;
    sum->cost = plm__cost_add(sum->cost, count, block->cost);
}

void plm__price_mix(const plm__price *head, const plm__price *first, const plm__price *later,
                    int32_t split, size_t *peak_bound, int64_t *cost)
{
    pile sum = {.most = head->elsewhere, .cost = head->rest};
    for (int32_t i = 0; i < head->blocks; i++) {
        int32_t count = i == 1 ? head->repeats : 1;
        int32_t before = split < 0 ? 0 : split < count ? split : count;
        raise_to(&sum.most, sum.below + head->outside[i]);
        pile_up(&sum, &first->block[i], before);
        pile_up(&sum, &later->block[i], count - before);
        split -= before;
    }
    raise_to(&sum.most, sum.below + head->outside[head->blocks]);
    *cost = sum.cost;
    *peak_bound = head->persistent + sum.most + head->overhead;
}
