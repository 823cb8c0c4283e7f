/* SPDX-License-Identifier: MIT */
/* The profile as JSON: times in nanoseconds, sizes in bytes. */
#include <math.h>

#include "base/json.h"
#include "plimsoll/plan_report.h"
#include "plan_report/profile_internal.h"
#include "run/profile.h"

static void write_row(plm_json_writer *json, const plm_profile_row *row)
{
    plm__json_begin_object(json, NULL);
    plm__json_text(json, "program", plm_program_text(row->program));
    plm__json_text(json, "layer", row->layer);
    plm__json_text(json, "label", row->label);
    plm__json_text(json, "op", row->op);
    plm__json_text(json, "shape", row->shape);
    plm__json_int(json, "runs", row->runs);
    plm__json_int(json, "timed", row->timed);
    plm__json_int(json, "best_ns", row->best_ns);
    plm__json_int(json, "total_ns", row->total_ns);
    plm__json_real(json, "predicted_ns", row->predicted_ns > 0 ? row->predicted_ns : NAN);
    plm__json_real(json, "floor_ns", row->floor_ns > 0 ? row->floor_ns : NAN);
    plm__json_real(json, "flops", row->flops);
    plm__json_real(json, "moved_bytes", row->bytes);
    plm__json_bytes(json, "made_bytes", row->made_bytes);
    plm__json_bytes(json, "kept_bytes", row->kept_bytes);
    plm__json_bytes(json, "freed_bytes", row->freed_bytes);
    plm__json_bytes(json, "workspace_bytes", row->workspace_bytes);
    plm__json_bytes(json, "live_bytes", row->live_bytes);
    plm__json_bool(json, "is_peak", row->is_peak);
    plm__json_end(json);
}

static void write_layer(plm_json_writer *json, const plm__profile_sum *sum)
{
    plm__json_begin_object(json, NULL);
    plm__json_text(json, "layer", sum->row->layer);
    plm__json_real(json, "ns", sum->ns);
    plm__json_real(json, "floor_ns", sum->floor_ns > 0 ? sum->floor_ns : NAN);
    plm__json_bytes(json, "made_bytes", sum->made_bytes);
    plm__json_bytes(json, "kept_bytes", sum->kept_bytes);
    plm__json_bytes(json, "freed_bytes", sum->freed_bytes);
    plm__json_bytes(json, "live_bytes", sum->live_bytes);
    plm__json_end(json);
}

static void write_run(plm_json_writer *json, const plm_profile *profile, const char *model)
{
    plm_plan_summary plan = plm_plan_summarize(plm__profile_plan(profile));
    double seconds = plm_profile_step_seconds(profile);
    plm__json_text(json, "model", model);
    plm__json_int(json, "batch", plan.batch);
    plm__json_int(json, "micro_batch", plan.strategy.micro_batch);
    plm__json_int(json, "sequence", plan.sequence);
    plm__json_real(json, "step_seconds", seconds);
    plm__json_real(json, "predicted_step_seconds", plan.step_seconds > 0 ? plan.step_seconds : NAN);
    plm__json_real(json, "tokens_per_second", (double)plan.batch * (double)plan.sequence / seconds);
    plm__json_bytes(json, "peak_bytes", plan.peak_bytes);
}

/* Operations in order of running; layers in the order wanted. */
plm_status plm_report_profile_json(const plm_profile *profile, const char *model,
                                   plm_profile_order order, char **line)
{
    plm__profile_sums layers = {0};
    plm_json_writer json = {0};
    int64_t count;
    const plm_profile_row *rows = plm_profile_rows(profile, &count);
    PLM_TRY(plm__profile_gather(profile, true, order, &layers));
    plm__json_begin_object(&json, NULL);
    write_run(&json, profile, model);
    plm__json_begin_array(&json, "operations");
    for (int64_t i = 0; i < count; i++)
        if (rows[i].runs > 0)
            write_row(&json, &rows[i]);
    plm__json_end(&json);
    plm__json_begin_array(&json, "layers");
    for (int64_t i = 0; i < layers.list.count; i++)
        write_layer(&json, &layers.list.items[i]);
    plm__profile_sums_free(&layers);
    return plm__json_finish(&json, line);
}
