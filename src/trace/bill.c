/* SPDX-License-Identifier: MIT */
/* The bill as a view of any trace. */
#include "plimsoll/bill.h"

#include <stdio.h>
#include <string.h>

#include "base/host.h"
#include "trace/trace.h"

void plm_bill_destroy(plm_bill *bill)
{
    if (!bill)
        return;
    plm_trace_destroy(bill->trace);
    plm_free(bill->live);
    plm__host_free(bill);
}

static void sum_at_peak(plm_bill *bill)
{
    int64_t count;
    const plm_event *events = plm_trace_events(bill->trace, &count);
    const plm_owner *owners = plm_trace_owners(bill->trace, &count);
    size_t asked = 0;
    for (int64_t i = 0; i < bill->live_count; i++) {
        const plm_event *event = &events[bill->live[i]];
        asked += event->bytes_asked;
        bill->live_bytes += event->bytes_taken;
        int32_t role = event->owner == PLM_TRACE_NO_OWNER ? -1 : owners[event->owner].role;
        if (role >= 0)
            bill->at_peak_bytes[role] += event->bytes_asked;
    }
    bill->padding_bytes = bill->live_bytes - asked;
}

static void find_largest_temporary(plm_bill *bill)
{
    int64_t count, owner_count;
    const plm_event *events = plm_trace_events(bill->trace, &count);
    const plm_owner *owners = plm_trace_owners(bill->trace, &owner_count);
    size_t largest = 0;
    bill->largest_temporary = -1;
    for (int64_t i = 0; i < count; i++) {
        if (events[i].kind != PLM_EVENT_BLOCK_ALLOC || events[i].owner == PLM_TRACE_NO_OWNER ||
            owners[events[i].owner].role != PLM_ROLE_TEMPORARY || events[i].bytes_asked <= largest)
            continue;
        largest = events[i].bytes_asked;
        bill->largest_temporary = i;
    }
}

/* "program: layer operation" of the block whose birth reaches the peak. */
static void tell_where(plm_bill *bill)
{
    int64_t count;
    const plm_event *events = plm_trace_events(bill->trace, &count);
    const plm_owner *owners = plm_trace_owners(bill->trace, &count);
    uint32_t program = 0;
    for (int64_t i = 0; i <= bill->peak_event; i++)
        if (events[i].kind == PLM_EVENT_MARK)
            program = events[i].label;
    if (bill->peak_event < 0 || events[bill->peak_event].owner == PLM_TRACE_NO_OWNER)
        return;
    const plm_owner *owner = &owners[events[bill->peak_event].owner];
    const char *what = plm_trace_text(bill->trace, owner->made_by ? owner->made_by : owner->name);
    snprintf(bill->at, sizeof bill->at, "%s%s%s", plm_trace_text(bill->trace, program),
             program ? ": " : "", what);
}

static plm_status fill(plm_bill *bill)
{
    plm__trace_role_maxima(bill->trace, bill->role_bytes);
    bill->peak_event = plm_trace_find_peak(bill->trace).event;
    find_largest_temporary(bill);
    tell_where(bill);
    if (bill->peak_event < 0)
        return PLM_OK;
    PLM_TRY(plm_trace_live_at(bill->trace, bill->peak_event, &bill->live, &bill->live_count));
    sum_at_peak(bill);
    return PLM_OK;
}

plm_status plm_bill_create(plm_trace *trace, plm_bill **bill)
{
    plm_bill *made = NULL;
    plm_status status = plm__host_alloc(sizeof *made, &made);
    if (status != PLM_OK) {
        plm_trace_destroy(trace);
        return status;
    }
    made->trace = trace;
    made->fits = true;
    status = fill(made);
    return PLM_HAND_OVER(status, made, plm_bill_destroy, bill);
}
