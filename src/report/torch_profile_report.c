/* SPDX-License-Identifier: MIT */
/* A trace of torch.profiler as a page and as JSON: operations that hold its peak. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "plimsoll/report_torch.h"
#include "report/checklist.h"
#include "report/terminal.h"
#include "diagnose/checklist.h"

/* What one operation holds at the peak. */
typedef struct op_share {
    uint32_t op; /* interned in the trace */
    int64_t blocks;
    size_t bytes;
} op_share;

typedef PLM_ARRAY(op_share) op_shares;

static int by_op(const void *left, const void *right)
{
    uint32_t a = ((const op_share *)left)->op, b = ((const op_share *)right)->op;
    return a < b ? -1 : a > b;
}

static int most_first(const void *left, const void *right)
{
    const op_share *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->op < b->op ? -1 : a->op > b->op;
}

/* *shares = the operations whose blocks live at the peak, most bytes first. */
static plm_status share_peak(const plm_torch_profile *profile, op_shares *shares)
{
    int64_t count, live_count, owner_count, *live = NULL;
    int64_t peak = plm_trace_find_peak(profile->trace).event;
    const plm_event *events = plm_trace_events(profile->trace, &count);
    const plm_owner *owners = plm_trace_owners(profile->trace, &owner_count);
    if (peak < 0)
        return PLM_OK;
    PLM_TRY(plm_trace_live_at(profile->trace, peak, &live, &live_count));
    plm_status status = PLM_OK;
    for (int64_t i = 0; i < live_count && status == PLM_OK; i++) {
        const plm_event *event = &events[live[i]];
        uint32_t op = event->owner == PLM_TRACE_NO_OWNER ? 0 : owners[event->owner].op;
        status = PLM_ARRAY_PUSH(shares, (op_share){op, 1, event->bytes_taken});
    }
    plm_free(live);
    if (status != PLM_OK)
        PLM_ARRAY_FREE(shares);
    if (shares->count == 0)
        return status;
    PLM_ARRAY_SORT(shares, by_op);
    op_share *last = shares->items;
    for (int64_t i = 1; i < shares->count; i++) {
        if (shares->items[i].op == last->op) {
            last->blocks++;
            last->bytes += shares->items[i].bytes;
        } else {
            *++last = shares->items[i];
        }
    }
    shares->count = last - shares->items + 1;
    PLM_ARRAY_SORT(shares, most_first);
    return PLM_OK;
}

static const char *op_text(const plm_torch_profile *profile, const op_share *share)
{
    const char *text = plm_trace_text(profile->trace, share->op);
    return text[0] ? text : "outside of any operation";
}

static void add_totals(plm_page *page, const plm_torch_profile *profile)
{
    static const plm_table_column columns[] = {{0}, {.right = true}, {0}};
    plm_table table;
    plm__table_init(&table, columns, 3);
    plm__page_size_row(&table, "allocated", profile->allocated_bytes, "after the last event");
    plm__page_size_row(&table, "reserved", profile->reserved_bytes, "");
    plm__page_size_row(&table, "allocated peak", profile->allocated_peak_bytes,
                       "while the trace ran");
    plm__page_size_row(&table, "reserved peak", profile->reserved_peak_bytes, "");
    plm__page_size_row(&table, "peak of traced blocks", profile->traced_peak_bytes,
                       "blocks from before the trace left out");
    if (profile->capacity_bytes > 0)
        plm__page_size_row(&table, "capacity", profile->capacity_bytes, "of the device");
    plm__page_section(page, &table);
}

static plm_checklist ask(const plm_torch_profile *profile)
{
    plm_checklist list;
    plm_totals totals = {.needed_peak_bytes = profile->allocated_peak_bytes,
                         .reserved_peak_bytes = profile->reserved_peak_bytes,
                         .span = "the totals that memory events tell, while the trace ran",
                         .lacks = "a profiler's trace holds neither call stacks nor segments"};
    plm__checklist_of_totals(&totals, &list);
    return list;
}

plm_status plm_report_torch_profile_text(const char *name, const plm_torch_profile *profile,
                                         plm_report_style style, char **text)
{
    static const plm_table_column columns[] = {{.title = "operation"},
                                               {.title = "×", .right = true},
                                               {.title = "at the traced peak", .right = true}};
    op_shares shares = {0};
    plm_table table;
    PLM_TRY(share_peak(profile, &shares));
    plm_page page = plm__page_begin(style);
    plm__page_heading(&page, "%s, device %d: a trace of torch.profiler", name,
                      (int)profile->device);
    plm__page_say(&page, 0,
                  "%lld memory events; %lld freed blocks from before it. Segments and call stacks "
                  "are not in such a trace: record a snapshot for fragments, leaks and replays.",
                  (long long)profile->events, (long long)profile->older_frees);
    plm__page_gap(&page);
    add_totals(&page, profile);
    plm__table_init(&table, columns, 3);
    for (int64_t i = 0; i < shares.count && i < page.rows; i++) {
        plm__table_row(&table, PLM_TABLE_PLAIN);
        plm__page_cut_cell(&table, op_text(profile, &shares.items[i]), page.columns - 40);
        plm__table_cell(&table, "%lld", (long long)shares.items[i].blocks);
        plm__page_size_cell(&table, shares.items[i].bytes);
    }
    plm__page_table(&page, &table);
    PLM_ARRAY_FREE(&shares);
    plm_checklist list = ask(profile);
    plm__page_gap(&page);
    plm__checklist_page(&page, &list);
    return plm__page_end(&page, text);
}

plm_status plm_report_torch_profile_json(const char *name, const plm_torch_profile *profile,
                                         char **line)
{
    op_shares shares = {0};
    plm_json_writer json = {0};
    PLM_TRY(share_peak(profile, &shares));
    plm__json_begin_object(&json, NULL);
    plm__json_begin_array(&json, "devices");
    plm__json_begin_object(&json, NULL);
    plm__json_text(&json, "file", name);
    plm__json_text(&json, "kind", "profile");
    plm__json_int(&json, "device", profile->device);
    plm__json_int(&json, "trace_entries", profile->events);
    plm__json_bytes(&json, "allocated_bytes", profile->allocated_bytes);
    plm__json_bytes(&json, "reserved_bytes", profile->reserved_bytes);
    plm__json_bytes(&json, "allocated_peak_bytes", profile->allocated_peak_bytes);
    plm__json_bytes(&json, "reserved_peak_bytes", profile->reserved_peak_bytes);
    plm__json_bytes(&json, "traced_peak_bytes", profile->traced_peak_bytes);
    plm__json_begin_array(&json, "top");
    for (int64_t i = 0; i < shares.count; i++) {
        plm__json_begin_object(&json, NULL);
        plm__json_text(&json, "site", op_text(profile, &shares.items[i]));
        plm__json_bytes(&json, "peak_bytes", shares.items[i].bytes);
        plm__json_int(&json, "peak_blocks", shares.items[i].blocks);
        plm__json_end(&json);
    }
    plm__json_end(&json);
    plm_checklist list = ask(profile);
    plm__checklist_json(&json, &list);
    PLM_ARRAY_FREE(&shares);
    return plm__json_finish(&json, line);
}
