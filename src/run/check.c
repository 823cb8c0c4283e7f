/* SPDX-License-Identifier: MIT */
/* Launches that are watched: by the address sanitizer, or by comparing the arena before and after.
 */
#include "run/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/track.h"
#include "base/dtype.h"

/* What a launch may do with a piece of the arena. */
enum {
    LIVE = 1,   /* holds data, somebody's */
    READ = 2,   /* may be read: its content before counts */
    WRITE = 4,  /* may be written, and is a result */
    SCRATCH = 8 /* may be written, and is nothing afterwards */
};

enum {
    PIECE_BYTES = 1 << 15,
    NAN_BYTE = 0xFF,    /* four of them are a NaN */
    OTHER_BYTE = 0,     /* what NaN becomes when it must become something else */
    OPERANDS_SPANS = 16 /* operands, workspace, step record, persistent region */
};

/* A piece of the arena, begin <= at < end. */
typedef struct span {
    size_t begin, end;
    unsigned flags;
} span;

typedef struct spans {
    span *items;
    int64_t count;
} spans;

struct plm_check {
    const plm_plan *plan;
    plm_device *device;
    const plm_device_table *table;
    uint8_t *arena;
    bool *is_read_later; /* by storage: the host reads it after the program */
    size_t *cuts;        /* where spans begin and end */
    spans declared;      /* what is live and what the launch declares; they overlap */
    spans parts;         /* the whole arena, cut so that flags do not change inside a part */
    uint32_t *launches;  /* by operation, so far */
    uint8_t *before;     /* a copy of the arena before a launch */
    uint8_t *after;      /* and of what it wrote, at the same offsets */
    uint8_t piece[PIECE_BYTES];
};

/* ---- making -------------------------------------------------------------------------------- */

static void find_outputs(plm_check *check)
{
    const plm_graph *graph = check->plan->graph;
    for (int64_t i = 0; i < graph->tensors.count; i++) {
        int32_t home = check->plan->places[graph->tensors.items[i].storage].home;
        if (graph->tensors.items[i].is_output && home >= 0)
            check->is_read_later[home] = true;
    }
}

plm_status plm__check_create(const plm_plan *plan, plm_device *device, uint8_t *arena,
                             plm_check **check)
{
    plm_check *made = NULL;
    plm_status status;
    size_t storages = (size_t)plan->graph->storages.count, most = storages + OPERANDS_SPANS;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    made->plan = plan;
    made->device = device;
    made->table = device->table;
    made->arena = arena;
    PLM_TRY_DONE(plm__host_alloc(storages * sizeof *made->is_read_later, &made->is_read_later));
    PLM_TRY_DONE(plm__host_alloc((2 * most + 2) * sizeof *made->cuts, &made->cuts));
    PLM_TRY_DONE(plm__host_alloc(most * sizeof *made->declared.items, &made->declared.items));
    PLM_TRY_DONE(plm__host_alloc((2 * most + 2) * sizeof *made->parts.items, &made->parts.items));
    PLM_TRY_DONE(
        plm__host_alloc((size_t)plan->graph->ops.count * sizeof *made->launches, &made->launches));
    PLM_TRY_DONE(plm__host_alloc(plan->summary.arena_bytes, &made->before));
    PLM_TRY_DONE(plm__host_alloc(plan->summary.arena_bytes, &made->after));
    find_outputs(made);
    *check = made;
    made = NULL;
done:
    plm__check_destroy(made);
    return status;
}

void plm__check_destroy(plm_check *check)
{
    if (!check)
        return;
    plm__host_free(check->is_read_later);
    plm__host_free(check->cuts);
    plm__host_free(check->declared.items);
    plm__host_free(check->parts.items);
    plm__host_free(check->launches);
    plm__host_free(check->before);
    plm__host_free(check->after);
    plm__host_free(check);
}

/* ---- what is declared ---------------------------------------------------------------------- */

static void add_span(spans *to, size_t begin, size_t bytes, unsigned flags)
{
    if (bytes > 0)
        to->items[to->count++] = (span){begin, begin + bytes, flags};
}

/* A tensor, from its first byte to its last; with strides, what lies between too. */
static void add_operand(plm_check *check, const plm_operand *operand, unsigned flags)
{
    int64_t last = 0;
    size_t element, end;
    if (operand->rank == 0 || !operand->data ||
        plm__dtype_bytes(operand->dtype, 1, &element) != PLM_OK)
        return;
    for (int32_t i = 0; i < operand->rank; i++) {
        if (operand->shape[i] == 0)
            return;
        last += (operand->shape[i] - 1) * operand->stride[i];
    }
    end = ((size_t)last + 1) * element;
    add_span(&check->declared, (size_t)((uint8_t *)operand->data - check->arena), end, flags);
}

/* The call storages that hold something while operation `position` of the program runs. */
static void add_live(plm_check *check, plm_program program, int32_t position)
{
    const plm_graph *graph = check->plan->graph;
    add_span(&check->declared, 0, check->plan->summary.persistent_bytes, LIVE);
    for (int64_t i = 0; i < graph->storages.count; i++) {
        const plm_place *place = &check->plan->places[i];
        if (plm__plan_is_call(graph, i, program) && place->home == i && place->birth <= position &&
            position <= place->until)
            add_span(&check->declared, place->offset, graph->storages.items[i].bytes, LIVE);
    }
}

static void add_launch(plm_check *check, const plm_launch *launch)
{
    spans *to = &check->declared;
    for (int i = 0; i < PLM_OP_INPUTS_MAX; i++)
        add_operand(check, &launch->in[i], READ);
    for (int i = 0; i < PLM_OP_OUTPUTS_MAX; i++)
        add_operand(check, &launch->out[i], WRITE);
    for (int i = 0; i < PLM_OP_EFFECTS_MAX; i++)
        add_operand(check, &launch->effect[i], READ | WRITE);
    if (launch->workspace_bytes > 0)
        add_span(to, (size_t)((uint8_t *)launch->workspace - check->arena), launch->workspace_bytes,
                 SCRATCH);
    add_span(to, (size_t)((uint8_t *)launch->step - check->arena), sizeof *launch->step,
             READ | WRITE);
}

static int by_size(const void *left, const void *right)
{
    size_t a = *(const size_t *)left, b = *(const size_t *)right;
    return (a > b) - (a < b);
}

/* Cuts the arena where a span begins or ends; a part has the flags of all spans over it. */
static void cut_into_parts(plm_check *check)
{
    int64_t count = 0;
    check->cuts[count++] = 0;
    check->cuts[count++] = check->plan->summary.arena_bytes;
    for (int64_t i = 0; i < check->declared.count; i++) {
        check->cuts[count++] = check->declared.items[i].begin;
        check->cuts[count++] = check->declared.items[i].end;
    }
    qsort(check->cuts, (size_t)count, sizeof *check->cuts, by_size);
    check->parts.count = 0;
    for (int64_t i = 0; i + 1 < count; i++) {
        size_t begin = check->cuts[i], end = check->cuts[i + 1];
        unsigned flags = 0;
        for (int64_t k = 0; begin < end && k < check->declared.count; k++) {
            const span *over = &check->declared.items[k];
            flags |= over->begin <= begin && end <= over->end ? over->flags : 0;
        }
        add_span(&check->parts, begin, end - begin, flags);
    }
}

/* ---- what is dead -------------------------------------------------------------------------- */

/* NaN into a range, but for the arena's last granule. */
static plm_status fill_dead(plm_check *check, size_t begin, size_t bytes)
{
    size_t last = check->plan->summary.arena_bytes - PLM_GRANULE_BYTES;
    if (begin >= last || bytes == 0)
        return PLM_OK;
    return check->table->fill(check->device, check->arena + begin, NAN_BYTE,
                              bytes < last - begin ? bytes : last - begin);
}

plm_status plm__check_begin(plm_check *check, plm_program program)
{
    const plm_graph *graph = check->plan->graph;
    check->declared.count = 0;
    add_span(&check->declared, 0, check->plan->summary.persistent_bytes, LIVE);
    for (int64_t i = 0; i < graph->tensors.count; i++) {
        const plm_tensor_info *info = &graph->tensors.items[i];
        const plm_place *place = &check->plan->places[info->storage];
        bool is_whole =
            info->offset == 0 && info->bytes == graph->storages.items[info->storage].bytes;
        if (info->role == PLM_ROLE_INPUT && is_whole && place->home == info->storage &&
            plm__plan_is_call(graph, info->storage, program))
            add_span(&check->declared, place->offset, info->bytes, LIVE);
    }
    cut_into_parts(check);
    for (int64_t i = 0; i < check->parts.count; i++) {
        const span *part = &check->parts.items[i];
        if (!(part->flags & LIVE))
            PLM_TRY(fill_dead(check, part->begin, part->end - part->begin));
    }
    return PLM_OK;
}

static plm_status bury(plm_check *check, plm_program program, int32_t position,
                       const plm_launch *launch)
{
    const plm_graph *graph = check->plan->graph;
    for (int64_t i = 0; i < graph->storages.count; i++) {
        const plm_place *place = &check->plan->places[i];
        if (plm__plan_is_call(graph, i, program) && place->home == i && place->until == position &&
            !check->is_read_later[i])
            PLM_TRY(fill_dead(check, place->offset, graph->storages.items[i].bytes));
    }
    if (launch->workspace_bytes == 0)
        return PLM_OK;
    return fill_dead(check, (size_t)((uint8_t *)launch->workspace - check->arena),
                     launch->workspace_bytes);
}

/* ---- launching ----------------------------------------------------------------------------- */

/* The address sanitizer watches. */
static plm_status launch_guarded(plm_check *check, const plm_launch *launch, void *prepared)
{
    size_t bytes = check->plan->summary.arena_bytes;
    PLM_TRACK_FORBID(check->arena, bytes);
    for (int64_t i = 0; i < check->declared.count; i++) {
        const span *one = &check->declared.items[i];
        if (one->flags & (READ | WRITE | SCRATCH))
            PLM_TRACK_ALLOW(check->arena + one->begin, one->end - one->begin);
    }
    plm_status status = check->table->launch(check->device, launch, prepared);
    PLM_TRACK_ALLOW(check->arena, bytes);
    return status;
}

static plm_status broken(const plm_check *check, int64_t index, const char *what, size_t offset)
{
    const plm_graph *graph = check->plan->graph;
    const plm_op *op = &graph->ops.items[index];
    return plm_fail(PLM_ERROR_DEVICE,
                    "operation '%s' (%s) of layer '%s' %s, at offset %zu of the arena",
                    plm__intern_text(&graph->names, op->label), plm__op_info_of(op->kind)->text,
                    plm__intern_text(&graph->names, op->layer), what, offset);
}

/* *at = the first byte of the part that is not as in the copy, the part's end when all are. */
static plm_status find_difference(plm_check *check, const span *part, const uint8_t *copy,
                                  size_t *at)
{
    *at = part->begin;
    while (*at < part->end) {
        size_t bytes = part->end - *at < PIECE_BYTES ? part->end - *at : PIECE_BYTES, same = 0;
        PLM_TRY(check->table->copy_out(check->device, check->piece, check->arena + *at, bytes));
        PLM_TRY(check->table->fence(check->device));
        if (memcmp(check->piece, copy + *at, bytes) == 0)
            same = bytes;
        while (same < bytes && check->piece[same] == copy[*at + same])
            same++;
        *at += same;
        if (same < bytes)
            return PLM_OK;
    }
    return PLM_OK;
}

static plm_status copy_part_out(plm_check *check, const span *part, uint8_t *copy)
{
    return check->table->copy_out(check->device, copy + part->begin, check->arena + part->begin,
                                  part->end - part->begin);
}

static plm_status copy_part_in(plm_check *check, const span *part, const uint8_t *copy)
{
    return check->table->copy_in(check->device, check->arena + part->begin, copy + part->begin,
                                 part->end - part->begin);
}

/* After a launch: nothing may have changed but what it may write, and that is copied. */
static plm_status look_for_writes(plm_check *check, int64_t index)
{
    for (int64_t i = 0; i < check->parts.count; i++) {
        const span *part = &check->parts.items[i];
        size_t at;
        if (part->flags & WRITE)
            PLM_TRY(copy_part_out(check, part, check->after));
        if (part->flags & (WRITE | SCRATCH))
            continue;
        PLM_TRY(find_difference(check, part, check->before, &at));
        if (at < part->end)
            return broken(check, index, "wrote where it may not", at);
    }
    return check->table->fence(check->device);
}

/* What may be read becomes what it was before the launch, everything else something else. */
static plm_status change_undeclared(plm_check *check)
{
    for (int64_t i = 0; i < check->parts.count; i++) {
        const span *part = &check->parts.items[i];
        bool held_nan = !(part->flags & LIVE) || (part->flags & (WRITE | SCRATCH));
        if (part->flags & READ)
            PLM_TRY(copy_part_in(check, part, check->before));
        else
            PLM_TRY(check->table->fill(check->device, check->arena + part->begin,
                                       held_nan ? OTHER_BYTE : NAN_BYTE, part->end - part->begin));
    }
    return PLM_OK;
}

/* Launches again when undeclared memory has changed: the results must be those of the first time.
 * Then the changed memory is as it was. */
static plm_status launch_again(plm_check *check, int64_t index, const plm_launch *launch,
                               void *prepared)
{
    PLM_TRY(change_undeclared(check));
    PLM_TRY(check->table->launch(check->device, launch, prepared));
    for (int64_t i = 0; i < check->parts.count; i++) {
        const span *part = &check->parts.items[i];
        size_t at = part->end;
        if (part->flags & WRITE)
            PLM_TRY(find_difference(check, part, check->after, &at));
        if (at < part->end)
            return broken(check, index,
                          "gives other results when memory that it may not read changes", at);
        if (!(part->flags & (READ | WRITE)))
            PLM_TRY(copy_part_in(check, part, check->before));
    }
    return PLM_OK;
}

/* The arena is compared. */
static plm_status launch_compared(plm_check *check, int64_t index, const plm_launch *launch,
                                  void *prepared)
{
    const span whole = {.end = check->plan->summary.arena_bytes};
    cut_into_parts(check);
    PLM_TRY(copy_part_out(check, &whole, check->before));
    PLM_TRY(check->table->fence(check->device));
    PLM_TRY(check->table->launch(check->device, launch, prepared));
    PLM_TRY(look_for_writes(check, index));
    PLM_TRY(launch_again(check, index, launch, prepared));
    return check->table->fence(check->device); /* before the copy queue fills the slot anew */
}

/* Whether this launch of an operation is one to compare: the 1st, 2nd, 4th, 8th ... */
static bool is_compared(plm_check *check, int64_t index)
{
    uint32_t count = ++check->launches[index];
    return (count & (count - 1)) == 0;
}

static plm_status launch_watched(plm_check *check, int64_t index, const plm_launch *launch,
                                 void *prepared)
{
    bool (*is_instrumented)(plm_op_kind) = check->table->is_instrumented;
    if (PLM_TRACK && is_instrumented && is_instrumented(launch->kind))
        return launch_guarded(check, launch, prepared);
    if (is_compared(check, index))
        return launch_compared(check, index, launch, prepared);
    return check->table->launch(check->device, launch, prepared);
}

plm_status plm__check_launch(plm_check *check, int64_t index, const plm_launch *launch,
                             void *prepared)
{
    const plm_graph *graph = check->plan->graph;
    plm_program program = PLM_PROGRAM_INITIALIZE;
    while (index < graph->programs[program].begin || index >= graph->programs[program].end)
        program++;
    int32_t position = (int32_t)(index - graph->programs[program].begin);
    check->declared.count = 0;
    add_live(check, program, position);
    add_launch(check, launch);
    PLM_TRY(launch_watched(check, index, launch, prepared));
    return bury(check, program, position, launch);
}
