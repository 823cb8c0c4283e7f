/* SPDX-License-Identifier: MIT */
/* The bill as JSON: sizes in bytes, keys in snake case. Other programs rely on the keys. */
#include "base/json.h"
#include "graph/strategy.h"
#include "plimsoll/plan_report.h"
#include "plan_report/advice_internal.h"
#include "plan_report/bill_internal.h"
#include "report/checklist.h"

/* The line of each role, its own maximum. */
static const struct {
    const char *key;
    plm_role role;
} role_lines[] = {
    {"parameters_bytes", PLM_ROLE_PARAMETER},  {"gradients_bytes", PLM_ROLE_GRADIENT},
    {"master_bytes", PLM_ROLE_MASTER},         {"optimizer_bytes", PLM_ROLE_OPTIMIZER},
    {"inputs_bytes", PLM_ROLE_INPUT},          {"activations_bytes", PLM_ROLE_ACTIVATION},
    {"temporaries_bytes", PLM_ROLE_TEMPORARY}, {"workspace_bytes", PLM_ROLE_WORKSPACE},
    {"cache_bytes", PLM_ROLE_CACHE},           {"state_bytes", PLM_ROLE_STATE},
};

/* An interned text; null for none. */
static void write_text(const plm_bill *bill, plm_json_writer *json, const char *key, uint32_t id)
{
    plm__json_text(json, key, id ? plm_trace_text(bill->trace, id) : NULL);
}

static void write_shape(plm_json_writer *json, const plm_owner *owner)
{
    if (owner->rank == 0) {
        plm__json_text(json, "shape", NULL);
        return;
    }
    plm__json_begin_array(json, "shape");
    for (int32_t i = 0; i < owner->rank; i++)
        plm__json_int(json, NULL, owner->shape[i]);
    plm__json_end(json);
}

/* The block of alloc event `index`. */
static void write_block(const plm_bill *bill, plm_json_writer *json, int64_t index)
{
    static const plm_owner nobody = {.role = -1, .dtype = -1};
    int64_t count;
    const plm_event *event = &plm_trace_events(bill->trace, &count)[index];
    const plm_owner *owner = plm__bill_owner(bill, index);
    if (!owner)
        owner = &nobody;
    plm__json_begin_object(json, NULL);
    write_text(bill, json, "layer", owner->layer);
    write_text(bill, json, "name", owner->name);
    write_text(bill, json, "op", owner->op);
    plm__json_text(json, "role", owner->role < 0 ? NULL : plm_role_text((plm_role)owner->role));
    write_shape(json, owner);
    plm__json_text(json, "dtype",
                   owner->dtype < 0 ? NULL : plm_dtype_text((plm_dtype)owner->dtype));
    plm__json_bytes(json, "bytes", event->bytes_asked);
    write_text(bill, json, "made_by", owner->made_by);
    plm__json_begin_array(json, "kept_for");
    for (int i = 0; i < PLM_TRACE_KEPT_MAX && owner->kept_for[i]; i++)
        write_text(bill, json, NULL, owner->kept_for[i]);
    plm__json_end(json);
    plm__json_end(json);
}

/* What is run. */
static void write_run(const plm_bill *bill, plm_json_writer *json)
{
    const plm_strategy *strategy = &bill->plan.strategy;
    plm__json_text(json, "model", bill->model);
    plm__json_int(json, "batch", bill->plan.batch);
    plm__json_int(json, "micro_batch", strategy->micro_batch);
    plm__json_int(json, "sequence", bill->plan.sequence);
    plm__json_int(json, "parameter_count", bill->plan.parameter_count);
    plm__json_text(json, "optimizer", plm_optimizer_text(bill->plan.optimizer));
    plm__strategy_json(json, "strategy", strategy);
}

static void write_figures(const plm_bill *bill, plm_json_writer *json)
{
    int64_t count;
    const plm_event *events = plm_trace_events(bill->trace, &count);
    for (size_t i = 0; i < sizeof role_lines / sizeof *role_lines; i++)
        plm__json_bytes(json, role_lines[i].key, bill->role_bytes[role_lines[i].role]);
    plm__json_bytes(json, "largest_temporary_bytes",
                    bill->largest_temporary < 0 ? 0 : events[bill->largest_temporary].bytes_asked);
    plm__json_bytes(json, "padding_bytes", bill->padding_bytes);
    if (bill->plan.batch == 0)
        return; /* no plan's regions */
    plm__json_bytes(json, "persistent_bytes", bill->plan.persistent_bytes);
    plm__json_bytes(json, "transient_bytes", bill->plan.transient_bytes);
    plm__json_bytes(json, "arena_bytes", bill->plan.arena_bytes);
    plm__json_bytes(json, "lower_bound_bytes", bill->plan.lower_bound_bytes);
    plm__json_bytes(json, "overhead_bytes", bill->plan.overhead_bytes);
    plm__json_bytes(json, "peak_bytes", bill->plan.peak_bytes);
    if (bill->budget_bytes)
        plm__json_bytes(json, "budget_bytes", bill->budget_bytes);
    else
        plm__json_text(json, "budget_bytes", NULL);
    plm__json_bool(json, "fits", bill->fits);
}

static void write_peak(const plm_bill *bill, plm_json_writer *json)
{
    plm__json_begin_object(json, "peak");
    plm__json_text(json, "at", bill->at);
    plm__json_bytes(json, "live_bytes", bill->live_bytes);
    plm__json_begin_array(json, "live");
    for (int64_t i = 0; i < bill->live_count; i++)
        write_block(bill, json, bill->live[i]);
    plm__json_end(json);
    plm__json_end(json);
}

plm_status plm_report_bill_json(const plm_bill *bill, char **line)
{
    plm_json_writer json = {0};
    plm_text verdict = {0};
    plm__bill_rows rows = {0};
    plm_status status;
    PLM_TRY_DONE(plm__bill_rows_make(bill, &rows));
    plm__bill_add_verdict(bill, &rows, &verdict);
    PLM_TRY_DONE(plm__text_status(&verdict));
    plm__json_begin_object(&json, NULL);
    if (bill->plan.batch > 0)
        write_run(bill, &json);
    write_figures(bill, &json);
    plm__json_text(&json, "verdict", verdict.items);
    if (bill->treatments) {
        plm_checklist list;
        plm__advice_write(&json, "treatments", bill->treatments, NULL);
        plm__bill_checklist(bill, &rows, &list);
        plm__checklist_json(&json, &list);
    }
    write_peak(bill, &json);
    status = plm__json_finish(&json, line);
done:
    plm__json_abandon(&json);
    plm__text_fini(&verdict);
    plm__bill_rows_free(&rows);
    return status;
}
