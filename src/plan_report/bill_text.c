/* SPDX-License-Identifier: MIT */
/*
 * The bill as a page for a terminal: head, bytes by role, regions, the peak's story, what is live
 * then, the verdict.
 */
#include <stdio.h>
#include <string.h>

#include "plimsoll/size.h"
#include "plimsoll/plan_report.h"
#include "plan_report/advice_internal.h"
#include "plan_report/bill_internal.h"
#include "report/checklist.h"
#include "report/terminal.h"
#include "report/wrap.h"

enum {
    INDENT = 2,
    BAR_CELLS = 20,
    SIZE_CELLS = 10, /* "1023.9 MiB" */
    NAME_CELLS = 36, /* of the longest name in the table of live blocks */
    NAME_CELLS_MIN = 8,
    KEPT_CELLS_MIN = 9, /* narrower, and the column is left out */
    WIDE_COLUMNS = 120  /* from here on each block's size has a column */
};

#define SHARE_SHOWN 0.0005 /* a smaller share is printed as 0.0 % and draws no bar */

/* What a text holds; the page takes its failure. */
static const char *items(plm_page *page, const plm_text *text)
{
    if (text->status != PLM_OK)
        page->text.status = text->status;
    return text->count ? text->items : "";
}

/* ---- head ---------------------------------------------------------------------------------- */

static void add_head(plm_page *page, const plm_bill *bill)
{
    const plm_plan_summary *plan = &bill->plan;
    const plm_strategy *strategy = &plan->strategy;
    plm_text count = {0}, run = {0};
    char recompute[PLM_RECOMPUTE_LIST_TEXT];
    plm__text_count(&count, plan->parameter_count);
    plm__text_add(&run, "batch %lld, ", (long long)plan->batch);
    if (strategy->micro_batch == plan->batch)
        plm__text_add(&run, "held at once");
    else
        plm__text_add(&run, "in %lld micro-batches of %lld",
                      (long long)(plan->batch / strategy->micro_batch),
                      (long long)strategy->micro_batch);
    plm__text_add(&run, " · sequence %lld · %s · %s attention", (long long)plan->sequence,
                  plm_dtype_text(strategy->precision), plm_attention_text(strategy->attention));
    if (strategy->recompute_count > 0 || strategy->recompute)
        plm__text_add(&run, " · recompute %s", plm_strategy_recompute_format(strategy, recompute));
    if (strategy->head_chunks > 1)
        plm__text_add(&run, " · head in %lld chunks", (long long)strategy->head_chunks);
    if (strategy->mlp_chunks > 1)
        plm__text_add(&run, " · MLP in %lld chunks", (long long)strategy->mlp_chunks);
    if (bill->role_bytes[PLM_ROLE_OPTIMIZER] > 0)
        plm__text_add(&run, " · %s", plm_optimizer_title(plan->optimizer));
    plm__page_heading(page, "%s, %s parameters", bill->model[0] ? bill->model : "model",
                      items(page, &count));
    plm__page_words(page, &run);
    plm__page_gap(page);
    plm__text_fini(&count);
}

/* ---- bytes by role ------------------------------------------------------------------------- */

/* One line: a role's own maximum (0: it has none), its bytes at the peak and their share. */
static void add_line(plm_table *table, plm_table_emphasis emphasis, const char *what,
                     size_t largest, size_t bytes, size_t peak)
{
    char text[PLM_SIZE_TEXT];
    double share = peak ? (double)bytes / (double)peak : 0;
    plm__table_row(table, emphasis);
    plm__table_cell(table, "%s", what);
    plm__table_cell(table, "%s", largest ? plm_size_format(largest, text) : "");
    plm__table_cell(table, "%s", plm_size_format(bytes, text));
    plm__table_cell(table, "%.1f %%", 100 * share);
    if (emphasis == PLM_TABLE_PLAIN && share >= SHARE_SHOWN)
        plm__table_bar(table, share);
}

static void add_roles(plm_page *page, const plm_bill *bill)
{
    static const plm_table_column columns[] = {
        {.title = "role"},
        {.title = "largest", .right = true},
        {.title = "at the peak", .right = true},
        {.title = "share", .right = true},
        {.bar_cells = BAR_CELLS},
    };
    size_t placement = bill->plan.arena_bytes - bill->plan.lower_bound_bytes;
    size_t peak = bill->plan.batch ? bill->plan.peak_bytes : bill->live_bytes;
    size_t unknown = bill->live_bytes - bill->padding_bytes;
    for (int role = 0; role < PLM_ROLE_COUNT; role++)
        unknown -= bill->at_peak_bytes[role];
    plm_table table;
    plm__table_init(&table, columns, sizeof columns / sizeof *columns);
    for (int role = 0; role < PLM_ROLE_COUNT; role++)
        if (bill->role_bytes[role] > 0)
            add_line(&table, PLM_TABLE_PLAIN, plm__bill_role_words((plm_role)role),
                     bill->role_bytes[role], bill->at_peak_bytes[role], peak);
    if (unknown > 0)
        add_line(&table, PLM_TABLE_PLAIN, "role not known", 0, unknown, peak);
    add_line(&table, PLM_TABLE_PLAIN, "padding", 0, bill->padding_bytes, peak);
    if (placement > 0)
        add_line(&table, PLM_TABLE_PLAIN, "lost in placement", 0, placement, peak);
    if (bill->plan.overhead_bytes > 0)
        add_line(&table, PLM_TABLE_PLAIN, "device overhead", 0, bill->plan.overhead_bytes, peak);
    plm__table_rule(&table);
    add_line(&table, PLM_TABLE_BOLD, "peak", 0, peak, peak);
    plm__page_section(page, &table);
}

/* ---- regions ------------------------------------------------------------------------------- */

static void add_region(plm_table *table, plm_table_emphasis emphasis, const char *what,
                       size_t bytes, const char *remark)
{
    char text[PLM_SIZE_TEXT];
    plm__table_row(table, emphasis);
    plm__table_cell(table, "%s", what);
    plm__table_cell(table, "%s", plm_size_format(bytes, text));
    plm__table_cell(table, "%s", remark);
}

/* "8,527,499,456 bytes: the persistent and the transient region" */
static void add_exact_region(plm_page *page, plm_table *table, const char *what, size_t bytes,
                             const char *remark)
{
    plm_text exact = {0};
    plm__text_count(&exact, (int64_t)bytes);
    plm__text_add(&exact, " bytes%s", remark);
    add_region(table, PLM_TABLE_PLAIN, what, bytes, items(page, &exact));
    plm__text_fini(&exact);
}

static void add_budget(plm_table *table, const plm_bill *bill)
{
    char text[PLM_SIZE_TEXT], remark[64];
    size_t peak = bill->plan.peak_bytes, budget = bill->budget_bytes;
    if (bill->fits)
        snprintf(remark, sizeof remark, "fits, %s to spare", plm_size_format(budget - peak, text));
    else
        snprintf(remark, sizeof remark, "does not fit, %s short",
                 plm_size_format(peak - budget, text));
    add_region(table, PLM_TABLE_BOLD, "budget", budget, remark);
}

static void add_regions(plm_page *page, const plm_bill *bill)
{
    static const plm_table_column columns[] = {{0}, {.right = true}, {0}};
    const plm_plan_summary *plan = &bill->plan;
    plm_table table;
    plm__table_init(&table, columns, 3);
    add_region(&table, PLM_TABLE_PLAIN, "persistent region", plan->persistent_bytes,
               "the same for every micro-batch");
    add_region(&table, PLM_TABLE_PLAIN, "transient region", plan->transient_bytes,
               plan->transient_bytes == plan->transient_bound_bytes
                   ? "as small as any placement could be"
                   : "used again as tensors die");
    add_exact_region(page, &table, "arena", plan->arena_bytes, ", the two regions");
    add_exact_region(page, &table, "peak", plan->peak_bytes,
                     plan->overhead_bytes ? ", with the device's overhead" : "");
    if (bill->budget_bytes > 0)
        add_budget(&table, bill);
    plm__page_section(page, &table);
}

/* ---- what is live -------------------------------------------------------------------------- */

/* The cells of one row before it is known how wide each column may be. */
typedef struct live_row {
    plm_text layer, name, shape, kept;
} live_row;

static void live_row_fini(live_row *row)
{
    plm__text_fini(&row->layer);
    plm__text_fini(&row->name);
    plm__text_fini(&row->shape);
    plm__text_fini(&row->kept);
}

/* Shortens a text to `cells`, its last one an ellipsis. */
static void cut(plm_text *text, int64_t cells)
{
    if (text->status != PLM_OK || text->count == 0 ||
        plm__text_cells(text->items, text->count) <= cells)
        return;
    while (text->count > 0 && plm__text_cells(text->items, text->count) > cells - 1)
        do
            text->count--;
        while (text->count > 0 && ((unsigned char)text->items[text->count] & 0xc0) == 0x80);
    while (text->count > 0 && strchr(" ,", text->items[text->count - 1]))
        text->count--;
    plm__text_add(text, "…");
}

/* Whether the operation says it all: its plain result, or a gradient of a gradient operation. */
static bool op_says_it(const char *name, const char *op)
{
    size_t name_bytes = strlen(name), op_bytes = strlen(op);
    if (op_bytes == 0)
        return false;
    return strcmp(name, "output") == 0 ||
           (op_bytes > name_bytes && strcmp(op + op_bytes - name_bytes, name) == 0);
}

/* "mlp.up.weight (gradient)" for what belongs to a parameter, else "mlp.up linear" for an output,
 * "probabilities by softmax" for other results. */
static void fill_name(const plm_bill *bill, const plm_owner *owner, plm_text *out)
{
    if (!owner) {
        plm__text_add(out, "no owner");
        return;
    }
    plm_role role = (plm_role)owner->role;
    const char *name = plm__bill_name(bill, owner), *op = plm_trace_text(bill->trace, owner->op);
    if (op_says_it(name, op))
        plm__text_add(out, "%s", op);
    else if (op[0])
        plm__text_add(out, "%s by %s", name, op);
    else if (role == PLM_ROLE_MASTER || role == PLM_ROLE_GRADIENT || role == PLM_ROLE_OPTIMIZER)
        plm__text_add(out, "%s (%s)", name, plm_role_text(role));
    else
        plm__text_add(out, "%s", name);
}

static void fill_kept(const plm_bill *bill, const plm_owner *owner, plm_text *out)
{
    if (!owner)
        return;
    if (plm__bill_role_persists((plm_role)owner->role)) {
        plm__text_add(out, "all steps");
        return;
    }
    if (owner->role == PLM_ROLE_WORKSPACE) {
        plm__text_add(out, "its operation");
        return;
    }
    for (int i = 0; i < PLM_TRACE_KEPT_MAX && owner->kept_for[i]; i++) {
        plm__text_add(out, "%s", i ? ", " : "");
        plm__bill_add_place(bill, owner, owner->kept_for[i], out);
    }
}

static int64_t wider(int64_t cells, const plm_text *text)
{
    int64_t wanted = text->count ? plm__text_cells(text->items, text->count) : 0;
    return wanted > cells ? wanted : cells;
}

/* Fills the texts of the rows shown and cuts names to what there is room for; returns the cells
 * that are left for the last column. */
static int64_t fill_rows(const plm_page *page, const plm_bill *bill, const plm__bill_row *rows,
                         int64_t shown, live_row *texts)
{
    int64_t layer = 5, name = 4, shape = 5; /* the titles' */
    for (int64_t i = 0; i < shown; i++) {
        plm__bill_add_layer(bill, &rows[i], &texts[i].layer);
        plm__bill_add_shape(rows[i].owner, &texts[i].shape);
        layer = wider(layer, &texts[i].layer);
        shape = wider(shape, &texts[i].shape);
    }
    int64_t room = page->columns - INDENT - layer - shape - SIZE_CELLS - 4 * PLM_TABLE_GAP_CELLS;
    for (int64_t count = bill->live_count; count > 0; count /= 10)
        room--;
    if (page->columns >= WIDE_COLUMNS)
        room -= SIZE_CELLS + PLM_TABLE_GAP_CELLS;
    int64_t most = room < NAME_CELLS ? room : NAME_CELLS;
    for (int64_t i = 0; i < shown; i++) {
        fill_name(bill, rows[i].owner, &texts[i].name);
        fill_kept(bill, rows[i].owner, &texts[i].kept);
        cut(&texts[i].name, most > NAME_CELLS_MIN ? most : NAME_CELLS_MIN);
        name = wider(name, &texts[i].name);
    }
    return room - name - PLM_TABLE_GAP_CELLS;
}

static void add_live_row(plm_page *page, plm_table *table, const plm__bill_row *row, live_row *text,
                         bool with_kept)
{
    char bytes[PLM_SIZE_TEXT];
    plm__table_row(table, PLM_TABLE_PLAIN);
    plm__table_cell(table, "%s", items(page, &text->layer));
    plm__table_cell(table, "%s", items(page, &text->name));
    plm__table_cell(table, "%s", items(page, &text->shape));
    if (page->columns >= WIDE_COLUMNS)
        plm__table_cell(table, "%s", plm_size_format(row->each_bytes, bytes));
    plm__table_cell(table, "%lld", (long long)row->count);
    plm__table_cell(table, "%s", plm_size_format(row->total_bytes, bytes));
    if (with_kept)
        plm__table_cell(table, "%s", items(page, &text->kept));
}

/* Sums what is not shown, and everything. */
static void add_sums(const plm_page *page, plm_table *table, const plm__bill_rows *rows,
                     int64_t shown)
{
    struct {
        int64_t count;
        size_t bytes;
    } rest = {0}, all = {0};
    char bytes[PLM_SIZE_TEXT];
    bool wide = page->columns >= WIDE_COLUMNS;
    for (int64_t i = 0; i < rows->list.count; i++) {
        const plm__bill_row *row = &rows->list.items[i];
        all.count += row->count;
        all.bytes += row->total_bytes;
        if (i >= shown) {
            rest.count += row->count;
            rest.bytes += row->total_bytes;
        }
    }
    for (int line = 0; line < 2; line++) {
        if (line == 0 && rest.count == 0)
            continue;
        if (line == 1)
            plm__table_rule(table);
        plm__table_row(table, line == 0 ? PLM_TABLE_DIM : PLM_TABLE_BOLD);
        plm__table_cell(table, "%s", line == 0 ? "" : "all");
        if (line == 0)
            plm__table_cell(table, "%lld smaller row%s", (long long)(rows->list.count - shown),
                            rows->list.count - shown == 1 ? "" : "s");
        else
            plm__table_cell(table, "%s", "");
        plm__table_cell(table, "%s", "");
        if (wide)
            plm__table_cell(table, "%s", "");
        plm__table_cell(table, "%lld", (long long)(line == 0 ? rest.count : all.count));
        plm__table_cell(table, "%s", plm_size_format(line == 0 ? rest.bytes : all.bytes, bytes));
    }
}

static void init_live_table(const plm_page *page, bool with_kept, plm_table *table)
{
    plm_table_column columns[7];
    int count = 0;
    columns[count++] = (plm_table_column){.title = "layer"};
    columns[count++] = (plm_table_column){.title = "what"};
    columns[count++] = (plm_table_column){.title = "shape"};
    if (page->columns >= WIDE_COLUMNS)
        columns[count++] = (plm_table_column){.title = "each", .right = true};
    columns[count++] = (plm_table_column){.title = "×", .right = true};
    columns[count++] = (plm_table_column){.title = "in all", .right = true};
    if (with_kept)
        columns[count++] = (plm_table_column){.title = "kept for"};
    plm__table_init(table, columns, count);
}

static plm_status add_live(plm_page *page, const plm_bill *bill, const plm__bill_rows *rows)
{
    int64_t shown = rows->list.count < page->rows ? rows->list.count : page->rows;
    live_row *texts = NULL;
    plm_table table;
    PLM_TRY(plm__host_alloc((size_t)shown * sizeof *texts, &texts));
    int64_t left = fill_rows(page, bill, rows->list.items, shown, texts);
    init_live_table(page, left >= KEPT_CELLS_MIN, &table);
    for (int64_t i = 0; i < shown; i++) {
        cut(&texts[i].kept, left);
        add_live_row(page, &table, &rows->list.items[i], &texts[i], left >= KEPT_CELLS_MIN);
    }
    add_sums(page, &table, rows, shown);
    plm__page_heading(page, "Live at the peak, largest first");
    plm__page_section(page, &table);
    for (int64_t i = 0; i < shown; i++)
        live_row_fini(&texts[i]);
    plm__host_free(texts);
    return PLM_OK;
}

/* ---- the page ------------------------------------------------------------------------------ */

/* What would shrink the peak, and the four questions. */
static void add_treatments(plm_page *page, const plm_bill *bill, const plm__bill_rows *rows)
{
    plm_checklist list;
    plm__page_gap(page);
    if (bill->treatments->alternative_count > 0) {
        plm__page_heading(page, "What would shrink the peak, each alone");
        plm__advice_add_table(page, bill->treatments);
    }
    if (bill->plan.batch == 0)
        return;
    plm__bill_checklist(bill, rows, &list);
    plm__checklist_page(page, &list);
}

static plm_status add_page(plm_page *page, const plm_bill *bill, const plm__bill_rows *rows)
{
    plm_text story = {0}, verdict = {0};
    if (bill->plan.batch > 0)
        add_head(page, bill);
    add_roles(page, bill);
    if (bill->plan.batch > 0)
        add_regions(page, bill);
    plm__bill_add_story(bill, rows, &story);
    plm__page_words(page, &story);
    plm__page_gap(page);
    PLM_TRY(add_live(page, bill, rows));
    plm__bill_add_verdict(bill, rows, &verdict);
    plm__page_words(page, &verdict);
    if (bill->treatments)
        add_treatments(page, bill, rows);
    return PLM_OK;
}

plm_status plm_report_bill_text(const plm_bill *bill, plm_report_style style, char **text)
{
    plm_page page = plm__page_begin(style);
    plm__bill_rows rows = {0};
    plm_status status = plm__bill_rows_make(bill, &rows);
    if (status == PLM_OK)
        status = add_page(&page, bill, &rows);
    if (status != PLM_OK)
        page.text.status = status;
    plm__bill_rows_free(&rows);
    return plm__page_end(&page, text);
}
