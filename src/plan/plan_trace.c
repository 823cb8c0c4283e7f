/* SPDX-License-Identifier: MIT */
/*
 * A plan told as a trace. The walk tells the persistent blocks, then each pass of a program: every
 * program once, or what a tape holds. At an operation, outputs are born before anything dies,
 * except where an output takes a dying input's place: there the input's death comes first, at the
 * same address.
 */
#include "plan/tape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "trace/trace.h"

typedef struct writer {
    const plm_plan *plan;
    const plm_graph *graph;
    plm_trace *trace;
    uint32_t *op_texts;       /* by operation: "attention.qkv linear", interned */
    uint32_t *op_places;      /* by operation: the same behind its layer */
    int32_t *readers;         /* by tensor: PLM_TRACE_KEPT_MAX operations + 1, 0 when fewer */
    bool *live;               /* by storage */
    plm_event *births;        /* by storage: its alloc event */
    plm_tensor *tensor_of;    /* by call storage: its tensor */
    const plm_span *spans;    /* by operation of the passes; NULL: each is one instant */
    plm_export_slice *slices; /* likewise, to be filled; NULL: not wanted */
    int64_t next_block;
    int64_t time;
} writer;

static plm_status intern(writer *w, const char *text, uint32_t *id)
{
    return plm__trace_intern(w->trace, text, id);
}

static const char *graph_text(const writer *w, uint32_t id)
{
    return plm__intern_text(&w->graph->names, id);
}

/* "gelu gradient" for label "gelu", "attention.qkv linear" for label "attention.qkv". */
static plm_status name_op(writer *w, int64_t index)
{
    const plm_op *op = &w->graph->ops.items[index];
    const char *label = graph_text(w, op->label), *text = plm__op_info_of(op->kind)->text;
    const char *layer = graph_text(w, op->layer);
    bool says_it = strncmp(text, label, strlen(label)) == 0;
    char name[256], place[384];
    snprintf(name, sizeof name, "%s%s%s", says_it ? "" : label, says_it ? "" : " ", text);
    snprintf(place, sizeof place, "%s%s%s", layer, layer[0] ? " " : "", name);
    PLM_TRY(intern(w, name, &w->op_texts[index]));
    return intern(w, place, &w->op_places[index]);
}

static void add_reader(writer *w, plm_tensor tensor, int64_t op)
{
    if (tensor == PLM_TENSOR_NONE)
        return;
    const plm_storage *storage =
        &w->graph->storages.items[plm__graph_tensor(w->graph, tensor)->storage];
    if (storage->scope == PLM_SCOPE_CALL) /* a view is told with the whole */
        tensor = w->tensor_of[plm__graph_tensor(w->graph, tensor)->storage];
    if (plm__plan_is_kept(w->plan, tensor)) {
        plm_program program = storage->program;
        if (op <= plm__graph_tensor(w->graph, w->graph->loss[program])->producer)
            return; /* what it is kept for comes after the loss */
    }
    int32_t *list = &w->readers[(int64_t)tensor * PLM_TRACE_KEPT_MAX];
    for (int i = 0; i < PLM_TRACE_KEPT_MAX; i++) {
        if (list[i] == 0)
            list[i] = (int32_t)op + 1;
        if (w->op_places[list[i] - 1] == w->op_places[op])
            return; /* added, or the same operation of another program, told once */
    }
}

static plm_status name_ops(writer *w)
{
    for (int64_t i = 0; i < w->graph->ops.count; i++) {
        PLM_TRY(name_op(w, i));
        for (int k = 0; k < PLM_OP_INPUTS_MAX; k++)
            add_reader(w, w->graph->ops.items[i].in[k], i);
    }
    return PLM_OK;
}

static plm_role role_of(const writer *w, plm_tensor tensor)
{
    plm_role role = plm__graph_tensor(w->graph, tensor)->role;
    if (role == PLM_ROLE_ACTIVATION && !plm__plan_is_kept(w->plan, tensor))
        return PLM_ROLE_TEMPORARY;
    return role;
}

/* The tensor's own name, or what its operation calls that output. */
static const char *tensor_name(const writer *w, plm_tensor tensor)
{
    const plm_tensor_info *info = plm__graph_tensor(w->graph, tensor);
    if (info->name || info->producer < 0)
        return graph_text(w, info->name);
    const plm_op *op = &w->graph->ops.items[info->producer];
    for (int i = 0; i < PLM_OP_OUTPUTS_MAX; i++)
        if (op->out[i] != PLM_TENSOR_NONE &&
            plm__graph_tensor(w->graph, op->out[i])->storage == info->storage)
            return plm__op_output_name(op->kind, i);
    return "";
}

static plm_status add_owner(writer *w, plm_tensor tensor, int32_t *index)
{
    const plm_tensor_info *info = plm__graph_tensor(w->graph, tensor);
    plm_owner owner = {.role = (int32_t)role_of(w, tensor),
                       .dtype = (int32_t)info->shape.dtype,
                       .rank = info->shape.rank,
                       .frames = PLM_TRACE_NO_FRAMES};
    for (int32_t i = 0; i < info->shape.rank; i++)
        owner.shape[i] = info->shape.dims[i];
    PLM_TRY(intern(w, graph_text(w, info->layer), &owner.layer));
    PLM_TRY(intern(w, tensor_name(w, tensor), &owner.name));
    if (info->producer >= 0) {
        owner.op = w->op_texts[info->producer];
        owner.made_by = w->op_places[info->producer];
    }
    const int32_t *readers = &w->readers[(int64_t)tensor * PLM_TRACE_KEPT_MAX];
    for (int i = 0; i < PLM_TRACE_KEPT_MAX && readers[i]; i++)
        owner.kept_for[i] = w->op_places[readers[i] - 1];
    return plm__trace_add_owner(w->trace, &owner, index);
}

static plm_status add_alloc(writer *w, int32_t owner, size_t offset, size_t bytes, size_t taken,
                            plm_event *event)
{
    *event = (plm_event){.time = w->time,
                         .address = offset,
                         .bytes_asked = bytes,
                         .bytes_taken = taken,
                         .block = w->next_block++,
                         .owner = owner,
                         .kind = PLM_EVENT_BLOCK_ALLOC};
    return plm__trace_add_event(w->trace, event);
}

static plm_status add_free(writer *w, plm_event event)
{
    event.kind = PLM_EVENT_BLOCK_FREE;
    event.time = w->time;
    return plm__trace_add_event(w->trace, &event);
}

static plm_status add_mark(writer *w, const char *text)
{
    plm_event event = {
        .time = w->time, .block = -1, .owner = PLM_TRACE_NO_OWNER, .kind = PLM_EVENT_MARK};
    PLM_TRY(intern(w, text, &event.label));
    return plm__trace_add_event(w->trace, &event);
}

static plm_status add_block(writer *w, plm_tensor tensor, size_t offset, size_t taken,
                            plm_event *event)
{
    int32_t owner;
    PLM_TRY(add_owner(w, tensor, &owner));
    return add_alloc(w, owner, offset, plm__graph_tensor(w->graph, tensor)->bytes, taken, event);
}

static plm_status add_granules(writer *w, plm_tensor tensor, size_t offset, plm_event *event)
{
    size_t taken = plm__granules(plm__graph_tensor(w->graph, tensor)->bytes);
    return add_block(w, tensor, offset, taken, event);
}

static bool is_of_call_scope(const plm_graph *graph, plm_tensor tensor)
{
    int32_t storage = plm__graph_tensor(graph, tensor)->storage;
    return graph->storages.items[storage].scope == PLM_SCOPE_CALL;
}

/* The step record, then every tensor that belongs to a parameter, a block of its own in its flat
 * storage, and the parts of the slot. */
static plm_status add_persistent(writer *w)
{
    plm_event event;
    PLM_TRY(add_mark(w, "persistent"));
    PLM_TRY(add_granules(w, PLM_TENSOR_STEP, w->plan->places[0].offset, &event));
    for (int64_t i = 0; i < w->graph->parameters.count; i++) {
        for (int flat = 0; flat < PLM_FLAT_COUNT; flat++) {
            plm_tensor tensor = w->graph->parameters.items[i].flat[flat];
            if (tensor == PLM_TENSOR_NONE || is_of_call_scope(w->graph, tensor))
                continue;
            const plm_tensor_info *info = plm__graph_tensor(w->graph, tensor);
            PLM_TRY(add_block(w, tensor, w->plan->places[info->storage].offset + info->offset,
                              plm__graph_flat_room(w->graph, info), &event));
        }
    }
    for (int i = 0; i < PLM_SLOT_PARTS; i++) {
        plm_tensor tensor = w->plan->slot.parts[i];
        if (tensor != PLM_TENSOR_NONE)
            PLM_TRY(add_granules(
                w, tensor, w->plan->places[plm__graph_tensor(w->graph, tensor)->storage].offset,
                &event));
    }
    return PLM_OK;
}

/* A storage is born with the first tensor on it that is written, and told as its largest. */
static plm_status add_birth(writer *w, plm_tensor tensor)
{
    int32_t storage = plm__graph_tensor(w->graph, tensor)->storage;
    const plm_place *place = &w->plan->places[storage];
    if (w->live[storage])
        return PLM_OK;
    tensor = w->tensor_of[storage];
    if (place->takes >= 0) {
        PLM_TRY(add_free(w, w->births[place->takes]));
        w->live[place->takes] = false;
    }
    w->live[storage] = true;
    return add_granules(w, tensor, place->offset, &w->births[storage]);
}

static plm_status add_workspace(writer *w, int64_t index, plm_event *event)
{
    const plm_workspace *workspace = &w->plan->workspaces[index];
    plm_owner owner = {.role = PLM_ROLE_WORKSPACE,
                       .dtype = -1,
                       .frames = PLM_TRACE_NO_FRAMES,
                       .op = w->op_texts[index],
                       .made_by = w->op_places[index]};
    owner.kept_for[0] = w->op_places[index];
    int32_t owner_index;
    PLM_TRY(intern(w, graph_text(w, w->graph->ops.items[index].layer), &owner.layer));
    PLM_TRY(intern(w, "workspace", &owner.name));
    PLM_TRY(plm__trace_add_owner(w->trace, &owner, &owner_index));
    return add_alloc(w, owner_index, workspace->offset, workspace->bytes,
                     plm__granules(workspace->bytes), event);
}

/* The program's storages that die at `position`; `next` walks the storages sorted by death. */
static plm_status add_deaths(writer *w, const int32_t *by_death, int64_t count, int32_t position,
                             int64_t *next)
{
    for (; *next < count && w->plan->places[by_death[*next]].death <= position; ++*next) {
        int32_t storage = by_death[*next];
        if (w->live[storage])
            PLM_TRY(add_free(w, w->births[storage]));
        w->live[storage] = false;
    }
    return PLM_OK;
}

/* When the operation in place `at` of the passes runs, counted from the first's begin. */
static plm_span span_of(const writer *w, int64_t at)
{
    if (!w->spans)
        return (plm_span){at, at + 1};
    int64_t origin = w->spans[0].begin;
    return (plm_span){w->spans[at].begin - origin, w->spans[at].end - origin};
}

/* Births are told at the operation's begin; deaths at its end, or at its instant. */
static plm_status walk_op(writer *w, int64_t index, plm_span span)
{
    const plm_op *op = &w->graph->ops.items[index];
    plm_event workspace;
    w->time = span.begin;
    for (int k = 0; k < PLM_OP_OUTPUTS_MAX; k++)
        if (op->out[k] != PLM_TENSOR_NONE)
            PLM_TRY(add_birth(w, op->out[k]));
    for (int k = 0; k < PLM_OP_EFFECTS_MAX; k++)
        if (op->effect[k] != PLM_TENSOR_NONE && is_of_call_scope(w->graph, op->effect[k]))
            PLM_TRY(add_birth(w, op->effect[k]));
    bool has_workspace = w->plan->workspaces[index].bytes > 0;
    if (has_workspace)
        PLM_TRY(add_workspace(w, index, &workspace));
    if (w->spans)
        w->time = span.end;
    return has_workspace ? add_free(w, workspace) : PLM_OK;
}

static plm_status walk_ops(writer *w, plm_op_range range, int64_t first, const int32_t *by_death,
                           int64_t count)
{
    int64_t next = 0;
    for (int64_t i = range.begin; i < range.end; i++) {
        int64_t at = first + i - range.begin;
        plm_span span = span_of(w, at);
        PLM_TRY(walk_op(w, i, span));
        PLM_TRY(add_deaths(w, by_death, count, (int32_t)(i - range.begin), &next));
        if (w->slices)
            w->slices[at] = (plm_export_slice){w->op_places[i], span.begin, span.end};
    }
    return PLM_OK;
}

/* Sorts the program's call storages by death: counting sort, stable. */
static int64_t sort_by_death(const writer *w, plm_program program, int32_t *starts, int32_t *sorted)
{
    const plm_op_range range = w->graph->programs[program];
    int64_t count = 0, positions = range.end - range.begin;
    memset(starts, 0, (size_t)(positions + 1) * sizeof *starts);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < w->graph->storages.count; i++) {
            if (!plm__plan_is_call(w->graph, i, program) || w->plan->places[i].home < 0)
                continue;
            int32_t death = w->plan->places[i].death;
            if (pass == 0)
                starts[death + 1]++, count++;
            else
                sorted[starts[death]++] = (int32_t)i;
        }
        for (int64_t p = 0; pass == 0 && p < positions; p++)
            starts[p + 1] += starts[p];
    }
    return count;
}

/* "first", or "update 2: first" where a run is told. */
static plm_status mark_pass(writer *w, const plm_pass *pass)
{
    char text[64];
    const char *program = plm_program_text(pass->program);
    if (pass->step == 0)
        return add_mark(w, program);
    snprintf(text, sizeof text, "update %" PRId64 ": %s", pass->step, program);
    return add_mark(w, text);
}

static plm_status walk_pass(writer *w, const plm_pass *pass)
{
    const plm_program program = pass->program;
    const plm_op_range range = w->graph->programs[program];
    if (range.begin == range.end)
        return PLM_OK;
    int32_t *starts = NULL, *sorted = NULL;
    plm_status status;
    PLM_TRY_DONE(plm__host_alloc((size_t)(range.end - range.begin + 1) * sizeof *starts, &starts));
    PLM_TRY_DONE(plm__host_alloc((size_t)w->graph->storages.count * sizeof *sorted, &sorted));
    int64_t count = sort_by_death(w, program, starts, sorted);
    w->time = span_of(w, pass->first).begin;
    PLM_TRY_DONE(mark_pass(w, pass));
    for (int64_t i = 0; i < count; i++)
        if (plm__graph_tensor(w->graph, w->tensor_of[sorted[i]])->role == PLM_ROLE_INPUT)
            PLM_TRY_DONE(add_birth(w, w->tensor_of[sorted[i]]));
    status = walk_ops(w, range, pass->first, sorted, count);
done:
    plm__host_free(sorted);
    plm__host_free(starts);
    return status;
}

static void find_largest_tensors(writer *w)
{
    for (int64_t i = w->graph->tensors.count - 1; i >= 0; i--) {
        const plm_tensor_info *info = &w->graph->tensors.items[i];
        plm_tensor *largest =
            &w->tensor_of[info->storage]; /* 0, the step record, is none of these */
        if (*largest == 0 || info->bytes >= plm__graph_tensor(w->graph, *largest)->bytes)
            *largest = (plm_tensor)i;
    }
}

static plm_status start(writer *w)
{
    size_t ops = (size_t)w->graph->ops.count, storages = (size_t)w->graph->storages.count;
    PLM_TRY(plm__trace_create(&w->trace));
    PLM_TRY(plm__host_alloc(ops * sizeof *w->op_texts, &w->op_texts));
    PLM_TRY(plm__host_alloc(ops * sizeof *w->op_places, &w->op_places));
    PLM_TRY(plm__host_alloc(
        (size_t)w->graph->tensors.count * PLM_TRACE_KEPT_MAX * sizeof *w->readers, &w->readers));
    PLM_TRY(plm__host_alloc(storages * sizeof *w->live, &w->live));
    PLM_TRY(plm__host_alloc(storages * sizeof *w->births, &w->births));
    PLM_TRY(plm__host_alloc(storages * sizeof *w->tensor_of, &w->tensor_of));
    find_largest_tensors(w);
    return name_ops(w);
}

plm_status plm__plan_trace_passes(const plm_plan *plan, const plm_pass *passes, int64_t count,
                                  const plm_span *spans, plm_export_slice *slices,
                                  plm_trace **trace)
{
    writer w = {.plan = plan, .graph = plan->graph, .spans = spans, .slices = slices};
    plm_status status;
    PLM_TRY_DONE(start(&w));
    PLM_TRY_DONE(add_persistent(&w));
    for (int64_t i = 0; i < count; i++)
        PLM_TRY_DONE(walk_pass(&w, &passes[i]));
    *trace = w.trace;
    w.trace = NULL;
done:
    plm_trace_destroy(w.trace);
    plm__host_free(w.op_texts);
    plm__host_free(w.op_places);
    plm__host_free(w.readers);
    plm__host_free(w.live);
    plm__host_free(w.births);
    plm__host_free(w.tensor_of);
    return status;
}

plm_status plm_plan_trace(const plm_plan *plan, plm_trace **trace)
{
    plm_pass passes[PLM_PROGRAM_COUNT];
    int64_t first = 0;
    for (int program = 0; program < PLM_PROGRAM_COUNT; program++) {
        const plm_op_range range = plan->graph->programs[program];
        passes[program] = (plm_pass){.program = (plm_program)program, .first = first};
        first += range.end - range.begin;
    }
    return plm__plan_trace_passes(plan, passes, PLM_PROGRAM_COUNT, NULL, NULL, trace);
}
