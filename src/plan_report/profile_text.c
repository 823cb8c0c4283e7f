/* SPDX-License-Identifier: MIT */
/* The profile of an update as a page for a terminal: the whole, operations, layers. */
#include <stdio.h>
#include <string.h>

#include "plimsoll/size.h"
#include "plimsoll/plan_report.h"
#include "base/number.h"
#include "plan_report/profile_internal.h"
#include "report/terminal.h"
#include "run/profile.h"

enum { BAR_CELLS = 12 };

typedef struct profile_page {
    const plm_profile *profile;
    plm_profile_order order;
    double all_ns;   /* of an update */
    double floor_ns; /* of an update; 0: no rates are known */
    size_t all_kept; /* bytes */
    plm_page to;
} profile_page;

/* "1.23 s", "45.6 ms", "789 us" */
static const char *time_text(double ns, char text[24])
{
    if (ns >= 1e9)
        plm__print(text, 24, "%.2f s", ns * 1e-9);
    else if (ns >= 1e6)
        plm__print(text, 24, "%.1f ms", ns * 1e-6);
    else
        plm__print(text, 24, "%.0f us", ns * 1e-3);
    return text;
}

static const char *bytes_text(size_t bytes, char text[PLM_SIZE_TEXT])
{
    if (bytes == 0)
        return "";
    return plm_size_format(bytes, text);
}

static void add_head(profile_page *page, const char *model)
{
    plm_plan_summary plan = plm_plan_summarize(plm__profile_plan(page->profile));
    char step[24];
    plm_text words = {0};
    double tokens = (double)plan.batch * (double)plan.sequence;
    plm__page_heading(&page->to, "%.100s, one update in %s: %.0f tokens/s", model,
                      time_text(page->all_ns, step), tokens / (page->all_ns * 1e-9));
    plm__text_add(&words, "batch %lld in micro-batches of %lld, sequence %lld, %s attention, %s",
                  (long long)plan.batch, (long long)plan.strategy.micro_batch,
                  (long long)plan.sequence, plm_attention_text(plan.strategy.attention),
                  plm_dtype_text(plan.strategy.precision));
    if (plan.step_seconds > 0)
        plm__text_add(&words, "; predicted %s, %+.0f %%", time_text(plan.step_seconds * 1e9, step),
                      100 * (plan.step_seconds * 1e9 / page->all_ns - 1));
    if (page->floor_ns > 0)
        plm__text_add(&words, "; floor %s", time_text(page->floor_ns, step));
    plm__page_words(&page->to, &words);
}

/* Which operation runs at the transient region's fullest. */
static void add_peak(profile_page *page)
{
    int64_t count;
    char live[PLM_SIZE_TEXT], made[PLM_SIZE_TEXT];
    const plm_profile_row *rows = plm_profile_rows(page->profile, &count);
    plm_text words = {0};
    for (int64_t i = 0; i < count; i++) {
        if (!rows[i].is_peak)
            continue;
        plm__text_add(&words, "the transient region is fullest, %s, while %s %s runs",
                      plm_size_format(rows[i].live_bytes, live), rows[i].layer, rows[i].op);
        if (rows[i].made_bytes > 0)
            plm__text_add(&words, ", which makes %s", plm_size_format(rows[i].made_bytes, made));
        break;
    }
    plm__page_words(&page->to, &words);
    plm__page_gap(&page->to);
}

/* "12 blocks" or the layer, then the label when it is not the operation's own name. */
static void add_place(plm_table *table, const plm__profile_sum *sum)
{
    const plm_profile_row *row = sum->row;
    char where[64];
    if (row->block >= 0 && sum->blocks > 1)
        snprintf(where, sizeof where, "blocks");
    else
        snprintf(where, sizeof where, "%.40s",
                 row->layer[0] ? row->layer : plm_program_text(row->program));
    bool named = strcmp(row->label, row->op) != 0;
    plm__table_cell(table, "%s%s%s", where, named ? " " : "", named ? row->label : "");
}

/* GFLOP/s or GB/s, whichever the operation is more about. */
static void add_rate(plm_table *table, const plm__profile_sum *sum)
{
    if (sum->ns <= 0)
        plm__table_cell(table, "%s", "");
    else if (sum->flops > 8 * sum->bytes)
        plm__table_cell(table, "%.1f GFLOP/s", sum->flops / sum->ns);
    else
        plm__table_cell(table, "%.1f GB/s", sum->bytes / sum->ns);
}

static double share_of(const profile_page *page, const plm__profile_sum *sum)
{
    double excess_ns = page->all_ns - page->floor_ns;
    switch (page->order) {
    case PLM_PROFILE_BY_EXCESS:
        return excess_ns > 0 ? (sum->ns - sum->floor_ns) / excess_ns : 0;
    case PLM_PROFILE_BY_TIME:
        return sum->ns / page->all_ns;
    default:
        return page->all_kept ? (double)sum->kept_bytes / (double)page->all_kept : 0;
    }
}

/* Columns of operations. `least` is the page's width from which one is shown, by the page's order:
 * what the order asks about stays on a narrow page. */
typedef enum measure {
    WHERE,
    OPERATION,
    TIMES,
    RATE,
    TIME,
    FLOOR,
    EXCESS,
    KEPT,
    MADE,
    SHARE,
    BAR,
    SHAPE
} measure;

static const struct {
    plm_table_column column;
    int64_t least[3]; /* by excess, by time, by memory */
} measures[] = {
    [WHERE] = {{.title = "where"}, {0, 0, 0}},
    [OPERATION] = {{.title = "operation"}, {0, 0, 0}},
    [TIMES] = {{.title = "times", .right = true}, {128, 120, 120}},
    [RATE] = {{.title = "rate", .right = true}, {94, 90, 112}},
    [TIME] = {{.title = "time", .right = true}, {0, 0, 90}},
    [FLOOR] = {{.title = "floor", .right = true}, {0, 128, 144}},
    [EXCESS] = {{.title = "over it", .right = true}, {0, 144, 144}},
    [KEPT] = {{.title = "kept", .right = true}, {112, 100, 0}},
    [MADE] = {{.title = "made", .right = true}, {120, 112, 100}},
    [SHARE] = {{.title = "share", .right = true}, {0, 0, 0}},
    [BAR] = {{.bar_cells = BAR_CELLS}, {144, 144, 144}},
    [SHAPE] = {{.title = "shape"}, {170, 170, 170}},
};

enum { MEASURE_COUNT = sizeof measures / sizeof *measures };

static bool is_shown(const profile_page *page, measure m)
{
    bool wants_floor = m == FLOOR || m == EXCESS;
    return page->to.columns >= measures[m].least[page->order] &&
           (page->floor_ns > 0 || !wants_floor);
}

static void add_measure(const profile_page *page, plm_table *table, measure m,
                        const plm__profile_sum *sum)
{
    char text[PLM_SIZE_TEXT > 24 ? PLM_SIZE_TEXT : 24];
    switch (m) {
    case WHERE:
        add_place(table, sum);
        break;
    case OPERATION:
        plm__table_cell(table, "%s", sum->row->op);
        break;
    case TIMES:
        plm__table_cell(table, "%lld", (long long)sum->blocks);
        break;
    case RATE:
        add_rate(table, sum);
        break;
    case TIME:
        plm__table_cell(table, "%s", time_text(sum->ns, text));
        break;
    case FLOOR:
        plm__table_cell(table, "%s", time_text(sum->floor_ns, text));
        break;
    case EXCESS:
        plm__table_cell(table, "%s", time_text(sum->ns - sum->floor_ns, text));
        break;
    case KEPT:
        plm__table_cell(table, "%s", bytes_text(sum->kept_bytes, text));
        break;
    case MADE:
        plm__table_cell(table, "%s", bytes_text(sum->made_bytes, text));
        break;
    case SHARE:
        plm__table_cell(table, "%.1f %%", 100 * share_of(page, sum));
        break;
    case BAR:
        plm__table_bar(table, share_of(page, sum));
        break;
    case SHAPE:
        plm__table_cell(table, "%s", sum->row->shape);
        break;
    }
}

/* Of `count` rows no more than the page's are there. */
static void end_table(profile_page *page, plm_table *table, int64_t count)
{
    plm__page_section(&page->to, table);
    if (count > page->to.rows)
        plm__text_add(&page->to.text, "  and %lld more; %s shows them\n\n",
                      (long long)(count - page->to.rows),
                      plm__hint_text(page->to.hints, PLM_HINT_ROWS));
}

static void add_operations(profile_page *page, const plm__profile_sums *sums)
{
    plm_table_column columns[MEASURE_COUNT];
    plm_table table;
    int shown = 0;
    for (int m = 0; m < MEASURE_COUNT; m++)
        if (is_shown(page, (measure)m))
            columns[shown++] = measures[m].column;
    plm__table_init(&table, columns, shown);
    for (int64_t i = 0; i < sums->list.count && i < page->to.rows; i++) {
        plm__table_row(&table, PLM_TABLE_PLAIN);
        for (int m = 0; m < MEASURE_COUNT; m++)
            if (is_shown(page, (measure)m))
                add_measure(page, &table, (measure)m, &sums->list.items[i]);
    }
    end_table(page, &table, sums->list.count);
}

static void add_layers(profile_page *page, const plm__profile_sums *sums)
{
    static const plm_table_column columns[] = {
        {.title = "layer"},
        {.title = "time", .right = true},
        {.title = "kept", .right = true},
        {.title = "made", .right = true},
        {.title = "share", .right = true},
        {.bar_cells = BAR_CELLS},
        {.title = "live at most", .right = true},
    };
    static const measure told[] = {TIME, KEPT, MADE, SHARE, BAR};
    plm_table table;
    char live[PLM_SIZE_TEXT];
    plm__table_init(&table, columns, sizeof columns / sizeof *columns);
    for (int64_t i = 0; i < sums->list.count && i < page->to.rows; i++) {
        const plm__profile_sum *sum = &sums->list.items[i];
        plm__table_row(&table, PLM_TABLE_PLAIN);
        plm__table_cell(&table, "%s",
                        sum->row->layer[0] ? sum->row->layer : plm_program_text(sum->row->program));
        for (size_t m = 0; m < sizeof told / sizeof *told; m++)
            add_measure(page, &table, told[m], sum);
        plm__table_cell(&table, "%s", bytes_text(sum->live_bytes, live));
    }
    end_table(page, &table, sums->list.count);
}

static void add_all(profile_page *page, const char *model, const plm__profile_sums *operations,
                    const plm__profile_sums *layers)
{
    for (int64_t i = 0; i < operations->list.count; i++) {
        page->all_kept += operations->list.items[i].kept_bytes;
        page->floor_ns += operations->list.items[i].floor_ns;
    }
    add_head(page, model);
    add_peak(page);
    add_operations(page, operations);
    add_layers(page, layers);
    plm__page_say(&page->to, 0,
                  "time: of an update, each operation by its fastest run; kept: waits for the "
                  "backward; made: begins to live there, of one micro-batch; times: in one "
                  "micro-batch");
    if (page->floor_ns > 0)
        plm__page_say(
            &page->to, 0,
            "floor: what the operation would take at the device's full rates, products or "
            "memory, whichever is longer; over it: what a better kernel could save");
}

plm_status plm_report_profile_text(const plm_profile *profile, const char *model,
                                   plm_profile_order order, plm_report_style style, char **text)
{
    plm__profile_sums operations = {0}, layers = {0};
    plm_status status;
    profile_page page = {.profile = profile,
                         .order = order,
                         .all_ns = plm_profile_step_seconds(profile) * 1e9,
                         .to = plm__page_begin(style)};
    PLM_TRY_DONE(plm__profile_gather(profile, false, order, &operations));
    PLM_TRY_DONE(plm__profile_gather(profile, true, order, &layers));
    add_all(&page, model, &operations, &layers);
    status = plm__page_end(&page.to, text);
done:
    plm__profile_sums_free(&operations);
    plm__profile_sums_free(&layers);
    return status;
}
