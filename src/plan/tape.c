/* SPDX-License-Identifier: MIT */
/* Tapes: passes of programs and the spans of their operations, and what is made of them. */
#include "plan/tape.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/host.h"
#include "plan/step_cost.h"

struct plm_tape {
    const plm_plan *plan;
    plm_pass *passes;
    plm_span *spans; /* NULL: an operation is one instant */
    int64_t pass_count, launches;
    int64_t pass_limit, launch_limit; /* what the arrays hold */
    int64_t wanted, steps;            /* updates */
    bool measured, is_cut, is_full;
};

static int64_t op_count(const plm_plan *plan, plm_program program)
{
    const plm_op_range range = plan->graph->programs[program];
    return range.end - range.begin;
}

static plm_status create(const plm_plan *plan, int64_t passes, int64_t launches, plm_tape **tape)
{
    plm_tape *made = NULL;
    plm_status status;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    *made = (plm_tape){.plan = plan, .pass_limit = passes, .launch_limit = launches};
    PLM_TRY_DONE(plm__host_alloc((size_t)passes * sizeof *made->passes, &made->passes));
    PLM_TRY_DONE(plm__host_alloc((size_t)launches * sizeof *made->spans, &made->spans));
    *tape = made;
    return PLM_OK;
done:
    plm_tape_destroy(made);
    return status;
}

static int64_t at_most(int64_t value, int64_t most)
{
    return value < most ? value : most;
}

plm_status plm_tape_create(const plm_plan *plan, int64_t steps, plm_tape **tape)
{
    const plm_plan_summary *s = &plan->summary;
    int64_t next = plm__program_runs(PLM_PROGRAM_NEXT, s->batch, s->strategy.micro_batch);
    int64_t passes = 1 + next + 1; /* of one update */
    int64_t launches = op_count(plan, PLM_PROGRAM_FIRST) + next * op_count(plan, PLM_PROGRAM_NEXT) +
                       op_count(plan, PLM_PROGRAM_UPDATE);
    PLM_FAIL_IF(steps < 1 || launches < 1, PLM_ERROR_ARGUMENT,
                "wanted a plan that trains and 1 step or more on its tape, found %" PRId64, steps);
    int64_t whole = at_most(steps, PLM_TAPE_LAUNCHES_MAX); /* an update has a launch or more */
    PLM_TRY(create(
        plan, at_most(whole * at_most(passes, PLM_TAPE_LAUNCHES_MAX), PLM_TAPE_LAUNCHES_MAX),
        at_most(whole * at_most(launches, PLM_TAPE_LAUNCHES_MAX), PLM_TAPE_LAUNCHES_MAX), tape));
    (*tape)->wanted = steps;
    (*tape)->measured = true;
    return PLM_OK;
}

static plm_pass *add_pass(plm_tape *tape, plm_program program)
{
    plm_pass *pass = &tape->passes[tape->pass_count++];
    *pass = (plm_pass){
        .program = program, .step = tape->measured ? tape->steps + 1 : 0, .first = tape->launches};
    tape->launches += op_count(tape->plan, program);
    return pass;
}

plm_span *plm__tape_begin(plm_tape *tape, plm_program program)
{
    bool updates = program == PLM_PROGRAM_UPDATE;
    if (!updates && program != PLM_PROGRAM_FIRST && program != PLM_PROGRAM_NEXT)
        return NULL;
    if (tape->launches + op_count(tape->plan, program) > tape->launch_limit ||
        tape->pass_count == tape->pass_limit) {
        tape->is_cut = tape->is_full = true;
        return NULL;
    }
    plm_span *spans = tape->spans + add_pass(tape, program)->first;
    tape->steps += updates;
    tape->is_full = tape->steps == tape->wanted;
    return spans;
}

bool plm__tape_is_full(const plm_tape *tape)
{
    return tape->is_full;
}

plm_status plm_tape_predict(const plm_plan *plan, const plm_device *device, plm_tape **tape)
{
    plm_tape *made = NULL;
    int64_t now = 0;
    PLM_TRY(create(plan, PLM_PROGRAM_COUNT, plan->graph->ops.count, &made));
    for (int p = 0; p < PLM_PROGRAM_COUNT; p++) {
        const plm_op_range range = plan->graph->programs[p];
        if (range.begin == range.end)
            continue;
        plm_span *span = made->spans + add_pass(made, (plm_program)p)->first;
        for (int64_t i = range.begin; device->profile && i < range.end; i++, span++) {
            span->begin = now;
            now += plm__op_cost(device->profile, plan->graph, &plan->graph->ops.items[i]);
            span->end = now;
        }
    }
    if (!device->profile) {
        plm__host_free(made->spans);
        made->spans = NULL;
    }
    *tape = made;
    return PLM_OK;
}

void plm_tape_destroy(plm_tape *tape)
{
    if (!tape)
        return;
    plm__host_free(tape->passes);
    plm__host_free(tape->spans);
    plm__host_free(tape);
}

plm_tape_summary plm_tape_summarize(const plm_tape *tape)
{
    plm_tape_summary summary = {.steps = tape->steps,
                                .launches = tape->launches,
                                .timed = tape->spans != NULL,
                                .measured = tape->measured,
                                .is_cut = tape->is_cut};
    if (tape->spans && tape->launches > 0)
        summary.seconds =
            (double)(tape->spans[tape->launches - 1].end - tape->spans[0].begin) * 1e-9;
    return summary;
}

static plm_status trace_of(const plm_tape *tape, plm_export_slice *slices, plm_trace **trace)
{
    PLM_FAIL_IF(tape->launches == 0, PLM_ERROR_STATE, "nothing ran that could be told as a trace");
    return plm__plan_trace_passes(tape->plan, tape->passes, tape->pass_count, tape->spans, slices,
                                  trace);
}

plm_status plm_tape_trace(const plm_tape *tape, plm_trace **trace)
{
    return trace_of(tape, NULL, trace);
}

/* What the device holds: the arena, and what it took for itself, together the plan's peak. */
static int64_t make_segments(const plm_plan_summary *summary, plm_export_segment segments[2])
{
    segments[0] = (plm_export_segment){.bytes = summary->arena_bytes};
    segments[1] =
        (plm_export_segment){.address = summary->arena_bytes, .bytes = summary->overhead_bytes};
    return summary->overhead_bytes > 0 ? 2 : 1;
}

plm_status plm_tape_export(const plm_tape *tape, const char *path, const char *model)
{
    plm_export_slice *slices = NULL;
    plm_export_segment segments[2];
    plm_trace *trace = NULL;
    char name[256];
    plm_status status;
    snprintf(name, sizeof name, "%s of %.128s: the plan's lifetimes, %s",
             tape->measured ? "run" : "plan", model,
             tape->measured ? "times as measured"
             : tape->spans  ? "times as predicted, each program once"
                            : "no times, each program once");
    PLM_TRY_DONE(plm__host_alloc((size_t)tape->launches * sizeof *slices, &slices));
    PLM_TRY_DONE(trace_of(tape, slices, &trace));
    const plm_export_source source = {.trace = trace,
                                      .name = name,
                                      .segments = segments,
                                      .segment_count =
                                          make_segments(&tape->plan->summary, segments),
                                      .timed = tape->spans != NULL,
                                      .slices = slices,
                                      .slice_count = tape->launches};
    status = plm_export_perfetto(path, &source, 1);
done:
    plm_trace_destroy(trace);
    plm__host_free(slices);
    return status;
}
