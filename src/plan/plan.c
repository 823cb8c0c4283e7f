/* SPDX-License-Identifier: MIT */
/* Making a plan: the programs' graphs, then places for everything in them. */
#include "plan/plan.h"

#include <inttypes.h>
#include <string.h>

#include "base/size.h"
#include "pass/pass.h"
#include "plan/step_cost.h"
#include "base/dtype.h"

void plm_plan_destroy(plm_plan *plan)
{
    if (!plan)
        return;
    plm__graph_destroy(plan->graph);
    plm__host_free(plan->places);
    plm__host_free(plan->workspaces);
    plm__host_free(plan);
}

plm_plan_summary plm_plan_summarize(const plm_plan *plan)
{
    return plan->summary;
}

/* Counts the input among those that are known; nobody would fill another, or one of another shape.
 */
static plm_status check_input(const plm_graph *graph, const plm_job *job, plm_program program,
                              int64_t sequences, const plm_tensor_info *input,
                              int counts[PLM_INPUT_COUNT])
{
    const char *name = plm__intern_text(&graph->names, input->name);
    int which = plm__plan_input(graph, input);
    PLM_FAIL_IF(which == PLM_INPUT_COUNT || ++counts[which] > 1, PLM_ERROR_ARGUMENT,
                "%s: wanted one input tokens, one targets and at most one types, found %s '%.40s'",
                plm_program_text(program), which == PLM_INPUT_COUNT ? "the input" : "another",
                name);
    const plm_shape wanted = {PLM_DTYPE_I32, 2, {sequences, job->sequence}};
    char wanted_text[PLM_SHAPE_TEXT], found_text[PLM_SHAPE_TEXT];
    PLM_FAIL_IF(memcmp(&input->shape, &wanted, sizeof wanted) != 0, PLM_ERROR_ARGUMENT,
                "%s: wanted %s as %s, found %s", plm_program_text(program), name,
                plm__shape_format(&wanted, wanted_text),
                plm__shape_format(&input->shape, found_text));
    return PLM_OK;
}

/* What plm_network promises, and the executor relies on. */
static plm_status check_program(const plm_graph *graph, const plm_job *job, plm_program program,
                                int64_t sequences)
{
    int counts[PLM_INPUT_COUNT] = {0}, outputs = 0;
    for (int64_t i = 0; i < graph->tensors.count; i++) {
        const plm_tensor_info *info = &graph->tensors.items[i];
        const plm_storage *storage = &graph->storages.items[info->storage];
        if (storage->scope != PLM_SCOPE_CALL || storage->program != program)
            continue;
        outputs += info->is_output;
        if (info->role == PLM_ROLE_INPUT)
            PLM_TRY(check_input(graph, job, program, sequences, info, counts));
    }
    PLM_FAIL_IF(program == PLM_PROGRAM_GENERATE && outputs != 1, PLM_ERROR_ARGUMENT,
                "generate: wanted one plm_output, the logits, found %d", outputs);
    PLM_FAIL_IF(program != PLM_PROGRAM_GENERATE && graph->loss[program] == PLM_TENSOR_NONE,
                PLM_ERROR_ARGUMENT, "%s: the network ends without a cross entropy",
                plm_program_text(program));
    return PLM_OK;
}

static plm_status build_program(plm_graph *graph, const plm_job *job, plm_program program,
                                int64_t sequences)
{
    plm__graph_begin(graph, program);
    job->network.build(graph, job->network.config, program, sequences, job->sequence);
    PLM_TRY(plm__graph_status(graph));
    PLM_TRY(check_program(graph, job, program, sequences));
    bool trains = program == PLM_PROGRAM_FIRST || program == PLM_PROGRAM_NEXT;
    if (trains)
        PLM_TRY(plm__pass_backward(graph));
    if (program != PLM_PROGRAM_GENERATE)
        PLM_TRY(plm__pass_chunk_head(graph));
    if (trains)
        PLM_TRY(plm__pass_recompute(graph));
    PLM_TRY(plm__pass_chunk_mlp(graph));
    if (!trains)
        return PLM_OK;
    return plm__pass_update_early(graph, job->optimizer);
}

static plm_status build_programs(plm_graph *graph, const plm_job *job)
{
    int64_t micro_batch = graph->strategy.micro_batch;
    if (job->trains) {
        PLM_TRY(build_program(graph, job, PLM_PROGRAM_FIRST, micro_batch));
        if (micro_batch < job->batch)
            PLM_TRY(build_program(graph, job, PLM_PROGRAM_NEXT, micro_batch));
        PLM_TRY(plm__pass_update(graph, job->optimizer));
    }
    if (job->evaluates)
        PLM_TRY(build_program(graph, job, PLM_PROGRAM_EVALUATE, micro_batch));
    if (job->generates)
        PLM_TRY(build_program(graph, job, PLM_PROGRAM_GENERATE, 1));
    return plm__pass_initialize(graph);
}

static void set_operand(const plm_graph *graph, plm_tensor tensor, plm_operand *operand)
{
    if (tensor == PLM_TENSOR_NONE)
        return;
    const plm_tensor_info *info = plm__graph_tensor(graph, tensor);
    operand->dtype = info->shape.dtype;
    operand->rank = info->shape.rank;
    for (int32_t i = 0; i < info->shape.rank; i++) {
        operand->shape[i] = info->shape.dims[i];
        operand->stride[i] = info->stride[i];
    }
}

void plm__plan_launch(const plm_graph *graph, const plm_op *op, plm_launch *launch)
{
    *launch = (plm_launch){.kind = op->kind, .attr = op->attr};
    for (int i = 0; i < PLM_OP_INPUTS_MAX; i++)
        set_operand(graph, op->in[i], &launch->in[i]);
    for (int i = 0; i < PLM_OP_OUTPUTS_MAX; i++)
        set_operand(graph, op->out[i], &launch->out[i]);
    for (int i = 0; i < PLM_OP_EFFECTS_MAX; i++)
        set_operand(graph, op->effect[i], &launch->effect[i]);
}

static plm_status ask_workspaces(plm_plan *plan, plm_device *device)
{
    const plm_graph *graph = plan->graph;
    PLM_TRY(
        plm__host_alloc((size_t)graph->ops.count * sizeof *plan->workspaces, &plan->workspaces));
    for (int64_t i = 0; i < graph->ops.count; i++) {
        plm_launch launch;
        plm__plan_launch(graph, &graph->ops.items[i], &launch);
        PLM_TRY(device->table->workspace(device, &launch, &plan->workspaces[i].bytes));
    }
    return PLM_OK;
}

/* Lifetimes of everything, and the persistent region. */
static plm_status find_lifetimes(plm_plan *plan)
{
    const plm_graph *graph = plan->graph;
    PLM_TRY(plm__host_alloc((size_t)graph->storages.count * sizeof *plan->places, &plan->places));
    PLM_TRY(plm__plan_place_persistent(graph, plan->places, &plan->summary.persistent_bytes));
    for (int p = 0; p < PLM_PROGRAM_COUNT; p++)
        plm__plan_lifetimes(graph, (plm_program)p, plan->places);
    return PLM_OK;
}

static plm_status pack_all(plm_plan *plan)
{
    const plm_graph *graph = plan->graph;
    plm_plan_summary *summary = &plan->summary;
    for (int p = 0; p < PLM_PROGRAM_COUNT; p++) {
        size_t bytes, bound;
        PLM_TRY(plm__plan_place_program(graph, (plm_program)p, summary->persistent_bytes,
                                        plan->places, plan->workspaces, &bytes, &bound));
        if (bytes > summary->transient_bytes)
            summary->transient_bytes = bytes;
        if (bound > summary->transient_bound_bytes)
            summary->transient_bound_bytes = bound;
    }
    return PLM_OK;
}

static plm_status add_up(plm_plan *plan, plm_device *device)
{
    plm_plan_summary *summary = &plan->summary;
    for (int64_t i = 0; i < plan->graph->parameters.count; i++) {
        summary->parameter_count += plm__shape_elements(&plan->graph->parameters.items[i].shape);
    }
    summary->overhead_bytes = device->table->overhead_bytes(device);
    PLM_TRY(
        plm__add_bytes(summary->persistent_bytes, summary->transient_bytes, &summary->arena_bytes));
    summary->lower_bound_bytes = summary->persistent_bytes + summary->transient_bound_bytes;
    return plm__add_bytes(summary->arena_bytes, summary->overhead_bytes, &summary->peak_bytes);
}

/* What an update costs by the device's rates, over the schedule of programs. */
static void add_up_time(plm_plan *plan, const plm_device *device)
{
    plm_plan_summary *summary = &plan->summary;
    for (int p = 0; p < PLM_PROGRAM_COUNT; p++) {
        const plm_op_range range = plan->graph->programs[p];
        int64_t runs =
            plm__program_runs((plm_program)p, summary->batch, summary->strategy.micro_batch);
        for (int64_t i = range.begin; runs > 0 && i < range.end; i++)
            summary->step_cost = plm__cost_add(
                summary->step_cost, runs,
                plm__op_cost(device->profile, plan->graph, &plan->graph->ops.items[i]));
    }
    if (device->profile)
        summary->step_seconds = (double)summary->step_cost / PLM_COSTS_A_SECOND;
}

static plm_status sketch(const plm_job *job, const plm_strategy *strategy, plm_device *device,
                         int32_t blocks_most, plm_plan *plan)
{
    plan->summary.strategy = *strategy;
    plan->summary.batch = job->batch;
    plan->summary.sequence = job->sequence;
    plan->summary.optimizer = job->optimizer;
    for (int i = 0; i < PLM_SLOT_PARTS; i++)
        plan->slot.parts[i] = PLM_TENSOR_NONE;
    PLM_TRY(plm__graph_create(strategy, &plan->graph));
    plan->graph->blocks_most = blocks_most;
    if (device->table->row_multiple > 1)
        plan->graph->row_multiple = device->table->row_multiple;
    PLM_TRY(build_programs(plan->graph, job));
    if (device->table->has_copy_queue && job->trains)
        PLM_TRY(plm__plan_add_slot(plan));
    if (!plan->graph->cuts_mlps) /* every MLP is kept, and nothing was cut */
        plan->summary.strategy.mlp_chunks = 1;
    PLM_TRY(ask_workspaces(plan, device));
    return find_lifetimes(plan);
}

static plm_status finish(plm_plan *plan, plm_device *device)
{
    PLM_TRY(pack_all(plan));
    add_up_time(plan, device);
    return add_up(plan, device);
}

/* Types that go together: a sum of many gradients in bf16 stops growing, and an early update sees
 * no norm of all of them. */
static plm_status check_types(const plm_job *job, const plm_strategy *strategy)
{
    PLM_FAIL_IF(!plm__dtype_is_real(strategy->precision), PLM_ERROR_ARGUMENT,
                "wanted the precision fp32, bf16 or fp16, found %s",
                plm_dtype_text(strategy->precision));
    bool whole = strategy->micro_batch == job->batch;
    bool half = strategy->gradient != PLM_DTYPE_F32;
    PLM_FAIL_IF(half &&
                    (strategy->gradient != PLM_DTYPE_BF16 || strategy->precision != PLM_DTYPE_BF16),
                PLM_ERROR_ARGUMENT,
                "wanted fp32 gradients, or bf16 gradients of bf16 weights; found %s gradients of "
                "%s weights: try precision bf16",
                plm_dtype_text(strategy->gradient), plm_dtype_text(strategy->precision));
    PLM_FAIL_IF(half && (!whole || strategy->head_chunks > 1 || strategy->mlp_chunks > 1),
                PLM_ERROR_ARGUMENT,
                "bf16 gradients cannot be sums: wanted the batch of %" PRId64
                " in one micro-batch, head and MLP whole; found a micro-batch of %" PRId64
                ", the head in %" PRId64 " and the MLP in %" PRId64,
                job->batch, strategy->micro_batch, strategy->head_chunks, strategy->mlp_chunks);
    PLM_FAIL_IF(strategy->update != PLM_UPDATE_LATE &&
                    (strategy->update != PLM_UPDATE_EARLY || !whole ||
                     strategy->precision == PLM_DTYPE_F16),
                PLM_ERROR_ARGUMENT,
                "wanted an update at the end, or early with the batch of %" PRId64
                " in one micro-batch and fp32 or bf16 weights; found a micro-batch of %" PRId64
                " and %s weights: %s",
                job->batch, strategy->micro_batch, plm_dtype_text(strategy->precision),
                strategy->precision == PLM_DTYPE_F16 ? "try bf16, or update late"
                                                     : "try a smaller batch, or update late");
    return PLM_OK;
}

plm_status plm__plan_check_extents(const plm_job *job, int64_t micro_batch)
{
    PLM_FAIL_IF(job->batch < 1 || job->batch > PLM_BATCH_MAX, PLM_ERROR_ARGUMENT,
                "wanted a batch of 1 to %d, found %" PRId64, PLM_BATCH_MAX, job->batch);
    PLM_FAIL_IF(job->sequence < 1 || job->sequence > PLM_SEQUENCE_MAX, PLM_ERROR_ARGUMENT,
                "wanted a sequence of 1 to %d tokens, found %" PRId64, PLM_SEQUENCE_MAX,
                job->sequence);
    PLM_FAIL_IF(micro_batch < 0 || (micro_batch > 0 && job->batch % micro_batch != 0),
                PLM_ERROR_ARGUMENT,
                "wanted a micro-batch that divides the batch of %" PRId64 ", found %" PRId64,
                job->batch, micro_batch);
    return PLM_OK;
}

/* A strategy may come from anywhere, not only from plm_strategy_read. */
static plm_status check_strategy(const plm_job *job, const plm_strategy *strategy)
{
    PLM_TRY(plm__plan_check_extents(job, strategy->micro_batch));
    PLM_FAIL_IF(strategy->micro_batch == 0 || strategy->head_chunks < 1 ||
                    strategy->mlp_chunks < 1 || (strategy->recompute & PLM_RECOMPUTE_AUTO) ||
                    strategy->attention == PLM_ATTENTION_AUTO ||
                    strategy->precision == PLM_PRECISION_AUTO,
                PLM_ERROR_ARGUMENT,
                "wanted a strategy whose choices are made; plm_plan_for_budget makes them");
    PLM_FAIL_IF(strategy->head_chunks > PLM_GRAPH_OPS_MAX ||
                    strategy->mlp_chunks > PLM_GRAPH_OPS_MAX,
                PLM_ERROR_ARGUMENT,
                "wanted at most %d chunks, found %" PRId64 " of the head and %" PRId64 " of an MLP",
                PLM_GRAPH_OPS_MAX, strategy->head_chunks, strategy->mlp_chunks);
    PLM_TRY(check_types(job, strategy));
    PLM_FAIL_IF((unsigned)strategy->attention > PLM_ATTENTION_AUTO, PLM_ERROR_ARGUMENT,
                "wanted attention fused or plain, found form %d", (int)strategy->attention);
    PLM_FAIL_IF(strategy->recompute_count < 0 || strategy->recompute_count > PLM_BLOCKS_MAX,
                PLM_ERROR_ARGUMENT, "wanted recompute for 0 to %d blocks, found %d", PLM_BLOCKS_MAX,
                strategy->recompute_count);
    PLM_FAIL_IF(strategy->recompute_name_count < 0 ||
                    strategy->recompute_name_count > PLM_RECOMPUTE_NAMES_MAX,
                PLM_ERROR_ARGUMENT, "wanted recompute of 0 to %d operations by name, found %d",
                PLM_RECOMPUTE_NAMES_MAX, strategy->recompute_name_count);
    return PLM_OK;
}

plm_status plm__plan_sketch(const plm_job *job, const plm_strategy *strategy, plm_device *device,
                            int32_t blocks_most, plm_plan **plan)
{
    PLM_TRY(check_strategy(job, strategy));
    plm_plan *made = NULL;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    plm_status status = sketch(job, strategy, device, blocks_most, made);
    return PLM_HAND_OVER(status, made, plm_plan_destroy, plan);
}

plm_status plm_plan_create(const plm_job *job, const plm_strategy *strategy, plm_device *device,
                           plm_plan **plan)
{
    plm_plan *made = NULL;
    PLM_TRY(plm__plan_sketch(job, strategy, device, 0, &made));
    plm_status status = finish(made, device);
    return PLM_HAND_OVER(status, made, plm_plan_destroy, plan);
}

bool plm__plan_is_kept(const plm_plan *plan, plm_tensor tensor)
{
    const plm_graph *graph = plan->graph;
    const plm_tensor_info *info = plm__graph_tensor(graph, tensor);
    const plm_storage *storage = &graph->storages.items[info->storage];
    plm_tensor loss = graph->loss[storage->program];
    if (storage->scope != PLM_SCOPE_CALL || loss == PLM_TENSOR_NONE || info->producer < 0)
        return false;
    int32_t turn = plm__graph_tensor(graph, loss)->producer;
    int64_t begin = graph->programs[storage->program].begin;
    return info->producer < turn && plan->places[info->storage].death > turn - begin;
}
