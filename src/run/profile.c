/* SPDX-License-Identifier: MIT */
/* Profiles: the plan's memory for each operation, and the times that the executor adds. */
#include "run/profile.h"

#include "base/clock.h"
#include "base/host.h"
#include "base/size.h"
#include "device/device.h"
#include "graph/op_cost.h"
#include "plan/step_cost.h"
#include "plan/plan.h"
#include "run/drawn.h"

/* Steps before the profiled ones where programs are recorded as graphs: what a step takes whose
 * operations nobody waits for. */
enum { GRAPH_STEPS = 5 };

struct plm_profile {
    const plm_plan *plan;
    plm_profile_row *rows; /* by operation */
    int64_t count;
    int64_t best_step_ns;  /* the fastest whole step of plm_profile_run; 0: none */
    int64_t plain_step_ns; /* the same of steps that were not profiled; 0: none */
};

static plm_tensor shown_tensor(const plm_op *op)
{
    return op->out[0] != PLM_TENSOR_NONE      ? op->out[0]
           : op->effect[0] != PLM_TENSOR_NONE ? op->effect[0]
                                              : op->in[0];
}

static void describe(const plm_plan *plan, const plm_device *device, plm_program program,
                     int64_t index, plm_profile_row *row)
{
    const plm_graph *graph = plan->graph;
    const plm_op *op = &graph->ops.items[index];
    plm_work work = plm__op_work(graph, op);
    *row = (plm_profile_row){
        .program = program,
        .block = op->block,
        .layer = plm__intern_text(&graph->names, op->layer),
        .label = plm__intern_text(&graph->names, op->label),
        .op = plm__op_info_of(op->kind)->text,
        .runs = plm__program_runs(program, plan->summary.batch, plan->summary.strategy.micro_batch),
        .flops = work.flops,
        .bytes = work.bytes,
        .workspace_bytes = plan->workspaces[index].bytes};
    if (device->profile) {
        row->predicted_ns = (double)plm__op_cost(device->profile, graph, op);
        row->floor_ns = plm__op_ideal_seconds(device->profile, graph, op) * 1e9;
    }
    plm_tensor shown = shown_tensor(op);
    if (shown != PLM_TENSOR_NONE)
        plm__shape_format(&plm__graph_tensor(graph, shown)->shape, row->shape);
}

/* Births and deaths of the program's storages; a storage that takes another's place makes nothing
 * new, and what it took is not freed. */
static void add_memory(const plm_plan *plan, plm_program program, plm_profile_row *rows)
{
    const plm_graph *graph = plan->graph;
    const plm_op_range range = graph->programs[program];
    const plm_tensor loss = graph->loss[program];
    int64_t turn = loss == PLM_TENSOR_NONE ? range.end
                                           : plm__graph_tensor(graph, loss)->producer - range.begin;
    for (int64_t i = 0; i < graph->storages.count; i++) {
        const plm_place *place = &plan->places[i];
        if (!plm__plan_is_call(graph, i, program) || place->home != i)
            continue;
        size_t bytes = plm__granules(graph->storages.items[i].bytes);
        rows[range.begin + place->birth].made_bytes += bytes;
        rows[range.begin + place->until].freed_bytes += bytes;
        if (place->birth < turn && place->until > turn)
            rows[range.begin + place->birth].kept_bytes += bytes;
    }
    size_t live = 0;
    for (int64_t i = range.begin; i < range.end; i++) {
        live += rows[i].made_bytes;
        rows[i].live_bytes = live + plm__granules(rows[i].workspace_bytes);
        live -= rows[i].freed_bytes;
    }
}

static void mark_peak(plm_profile *profile)
{
    plm_profile_row *peak = NULL;
    for (int64_t i = 0; i < profile->count; i++)
        if (!peak || profile->rows[i].live_bytes > peak->live_bytes)
            peak = &profile->rows[i];
    if (peak)
        peak->is_peak = true;
}

plm_status plm_profile_create(const plm_plan *plan, const plm_device *device, plm_profile **profile)
{
    plm_profile *made = NULL;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    made->plan = plan;
    made->count = plan->graph->ops.count;
    plm_status status = plm__host_alloc((size_t)made->count * sizeof *made->rows, &made->rows);
    if (status != PLM_OK) {
        plm__host_free(made);
        return status;
    }
    for (int p = 0; p < PLM_PROGRAM_COUNT; p++) {
        const plm_op_range range = plan->graph->programs[p];
        for (int64_t i = range.begin; i < range.end; i++)
            describe(plan, device, (plm_program)p, i, &made->rows[i]);
        add_memory(plan, (plm_program)p, made->rows);
    }
    mark_peak(made);
    *profile = made;
    return PLM_OK;
}

void plm_profile_destroy(plm_profile *profile)
{
    if (!profile)
        return;
    plm__host_free(profile->rows);
    plm__host_free(profile);
}

void plm__profile_add(plm_profile *profile, int64_t index, int64_t ns)
{
    plm_profile_row *row = &profile->rows[index];
    if (row->timed == 0 || ns < row->best_ns)
        row->best_ns = ns;
    row->total_ns += ns;
    row->timed++;
}

const plm_profile_row *plm_profile_rows(const plm_profile *profile, int64_t *count)
{
    *count = profile->count;
    return profile->rows;
}

double plm_profile_step_seconds(const plm_profile *profile)
{
    double ns = 0;
    for (int64_t i = 0; i < profile->count; i++)
        ns += (double)profile->rows[i].runs * (double)profile->rows[i].best_ns;
    return ns * 1e-9;
}

const plm_plan *plm__profile_plan(const plm_profile *profile)
{
    return profile->plan;
}

double plm__profile_slack(const plm_profile *profile)
{
    double parts = plm_profile_step_seconds(profile) * 1e9;
    return parts > 0 && (double)profile->best_step_ns > parts
               ? (double)profile->best_step_ns / parts
               : 1;
}

double plm__profile_plain_seconds(const plm_profile *profile)
{
    return (double)profile->plain_step_ns * 1e-9;
}

static void keep_least(int64_t *least, int64_t ns)
{
    if (*least == 0 || ns < *least)
        *least = ns;
}

static plm_status run_steps(plm_profile *profile, plm_session *session, const plm_device *device,
                            int64_t steps, double seconds, const int32_t *ids)
{
    const plm_plan_summary *summary = &profile->plan->summary;
    const int32_t *targets = ids + summary->batch * summary->sequence;
    const plm_hyper hyper = plm__drawn_hyper(profile->plan);
    const int64_t unprofiled = device->table->begin_graph ? GRAPH_STEPS : 1;
    int64_t end_ns = 0;
    for (int64_t step = 0; step < unprofiled + steps || plm__clock_ns() < end_ns; step++) {
        plm_step_result result;
        int64_t began_ns = plm__clock_ns();
        PLM_TRY(plm_session_step(session, step, &hyper, summary->batch, ids, targets, &result));
        int64_t spent_ns = plm__clock_ns() - began_ns;
        if (step > 0)
            keep_least(step < unprofiled ? &profile->plain_step_ns : &profile->best_step_ns,
                       spent_ns);
        if (step != unprofiled - 1)
            continue;
        plm_session_profile(session, profile);
        end_ns = plm__clock_ns() + (int64_t)(seconds * 1e9);
    }
    return PLM_OK;
}

plm_status plm_profile_run(plm_profile *profile, plm_device *device, int64_t steps, double seconds)
{
    plm_session *session = NULL;
    int32_t *ids = NULL;
    plm_status status;
    PLM_FAIL_IF(steps < 1, PLM_ERROR_ARGUMENT, "wanted 1 step or more to profile, found %lld",
                (long long)steps);
    PLM_TRY(
        plm__session_create_as(profile->plan, device, 1, false, &session)); /* checks take time */
    PLM_TRY_DONE(plm__drawn_window(session, profile->plan, &ids));
    status = run_steps(profile, session, device, steps, seconds, ids);
done:
    plm_session_destroy(session);
    plm__host_free(ids);
    return status;
}
