/* SPDX-License-Identifier: MIT */
/* Advice as a page and as JSON. */
#include <math.h>
#include <stdarg.h>

#include "base/number.h"
#include "graph/strategy.h"
#include "plimsoll/plan_report.h"
#include "plimsoll/size.h"
#include "plan_report/advice_internal.h"

static void add_row(plm_table *table, const char *what, const char *format, ...) PLM_PRINTF(3, 4);

static void add_row(plm_table *table, const char *what, const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    plm__print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    plm__table_row(table, PLM_TABLE_PLAIN);
    plm__table_cell(table, "%s", what);
    plm__table_cell(table, "%s", text);
}

static void add_figures(const plm_page *page, const plm_advice *advice, plm_table *table)
{
    const plm_plan_summary *plan = &advice->plan;
    char peak[PLM_SIZE_TEXT], other[PLM_SIZE_TEXT], overhead[PLM_SIZE_TEXT];
    add_row(table, "peak", "%s (%zu bytes) of %s", plm_size_format(plan->peak_bytes, peak),
            plan->peak_bytes, plm_size_format(advice->budget_bytes, other));
    if (plan->overhead_bytes > 0)
        add_row(table, "of which", "%s persistent, %s transient, %s overhead",
                plm_size_format(plan->persistent_bytes, peak),
                plm_size_format(plan->transient_bytes, other),
                plm_size_format(plan->overhead_bytes, overhead));
    else
        add_row(table, "of which", "%s persistent, %s transient",
                plm_size_format(plan->persistent_bytes, peak),
                plm_size_format(plan->transient_bytes, other));
    if (advice->timed)
        add_row(table, "step time", "%.3g s predicted, %.0f tokens/s, by the rates of %s",
                plan->step_seconds,
                (double)plan->batch * (double)plan->sequence / plan->step_seconds, advice->rates);
    else
        add_row(table, "step time", "relative; %s measures this machine",
                plm__hint_text(page->hints, PLM_HINT_CALIBRATE));
    add_row(table, "smallest budget", "%s (%zu bytes)",
            plm_size_format(advice->smallest_budget_bytes, peak), advice->smallest_budget_bytes);
}

static void add_strategy(plm_page *page, const plm_advice *advice)
{
    static const plm_table_column columns[] = {{0}, {0}};
    const plm_plan_summary *plan = &advice->plan;
    const plm_strategy *s = &plan->strategy;
    int64_t parts = plan->batch / s->micro_batch;
    char recompute[PLM_RECOMPUTE_LIST_TEXT];
    plm_table table;
    plm__table_init(&table, columns, 2);
    add_row(&table, "micro-batch", "%lld sequence%s, %lld time%s an update",
            (long long)s->micro_batch, s->micro_batch == 1 ? "" : "s", (long long)parts,
            parts == 1 ? "" : "s");
    add_row(&table, "recompute", "%s", plm_strategy_recompute_format(s, recompute));
    if (s->head_chunks == 1)
        add_row(&table, "head", "whole");
    else
        add_row(&table, "head", "in %lld chunks", (long long)s->head_chunks);
    if (s->mlp_chunks > 1)
        add_row(&table, "MLP", "in %lld chunks", (long long)s->mlp_chunks);
    add_row(&table, "attention", "%s", plm_attention_text(s->attention));
    add_row(&table, "precision", "%s", plm_dtype_text(s->precision));
    add_figures(page, advice, &table);
    plm__page_section(page, &table);
}

static double relative_time(const plm_advice *advice, const plm_alternative *other)
{
    return (double)other->plan.step_cost / (double)advice->plan.step_cost;
}

static void add_difference(plm_table *table, size_t now, size_t other)
{
    char text[PLM_SIZE_TEXT];
    size_t difference = now > other ? now - other : other - now;
    plm__table_cell(table, "%s%s",
                    now == other  ? ""
                    : now > other ? "-"
                                  : "+",
                    plm_size_format(difference, text));
}

/* What is faster and fits was not open to the plan, or it would be the plan. Without a budget there
 * is nothing to say. */
static const char *verdict(const plm_advice *advice, const plm_alternative *other, bool narrow)
{
    if (advice->budget_bytes == SIZE_MAX)
        return "";
    if (!other->fits)
        return narrow ? "too big" : "does not fit";
    bool searched = advice->looked_at.priced > 0;
    if (searched && other->plan.step_cost < advice->plan.step_cost)
        return narrow ? "not open" : "fits, not open";
    return "fits";
}

/* A table of titles alone, the first to the left and the others to the right. */
static void init_table(plm_table *table, const char *const *titles, int count)
{
    plm_table_column columns[PLM_TABLE_COLUMNS_MAX] = {{0}};
    for (int i = 0; i < count; i++)
        columns[i] = (plm_table_column){.title = titles[i], .right = i > 0 && titles[i] != NULL};
    plm__table_init(table, columns, count);
}

void plm__advice_add_table(plm_page *page, const plm_advice *advice)
{
    static const char *const wide[] = {"instead", "peak", "memory", "time", "step", NULL};
    static const char *const slim[] = {"instead", "peak", "time", "step", NULL};
    bool narrow = page->columns < PLM_REPORT_COLUMNS_DEFAULT;
    plm_table table;
    char peak[PLM_SIZE_TEXT];
    init_table(&table, narrow ? slim : wide, narrow ? 5 : 6);
    for (int i = 0; i < advice->alternative_count; i++) {
        const plm_alternative *other = &advice->alternatives[i];
        plm__table_row(&table, other->fits ? PLM_TABLE_PLAIN : PLM_TABLE_DIM);
        plm__table_cell(&table, "%s", other->what);
        plm__table_cell(&table, "%s", plm_size_format(other->plan.peak_bytes, peak));
        if (!narrow)
            add_difference(&table, advice->plan.peak_bytes, other->plan.peak_bytes);
        plm__table_cell(&table, "%+.1f %%", 100 * (relative_time(advice, other) - 1));
        if (advice->timed)
            plm__table_cell(&table, "%.3g s", other->plan.step_seconds);
        else
            plm__table_cell(&table, "%s", "");
        plm__table_cell(&table, "%s", verdict(advice, other, narrow));
    }
    plm__page_section(page, &table);
}

/* "--update early --batch 1": the changes in the program's words. */
static void add_changes(plm_text *out, const plm_alternative *other, const char *const *hints)
{
    for (int i = 0; i < other->change_count; i++)
        plm__text_add(out, "%s%s %s", i ? " " : "", plm__hint_text(hints, other->changes[i].choice),
                      other->changes[i].value);
}

/* The treatments that fit, as a reader would ask for each; what changes the training least comes
 * first. */
static void add_what_to_type(plm_page *page, const plm_advice *advice)
{
    plm_text words = {0};
    for (int i = advice->alternative_count - 1; i >= 0; i--) {
        const plm_alternative *other = &advice->alternatives[i];
        if (!other->fits || other->change_count == 0)
            continue;
        plm__text_add(&words, words.count ? ", or " : "to make it fit, add ");
        add_changes(&words, other, page->hints);
    }
    if (words.count > 0)
        plm__text_add(&words, "\n");
    plm__page_words(page, &words);
}

/* What would help when nothing fits. */
static void add_treatments(plm_page *page, const plm_advice *advice)
{
    static const char *const wide[] = {"with", "smallest budget", "saves", NULL};
    static const char *const slim[] = {"with", "smallest budget", NULL};
    bool narrow = page->columns < PLM_REPORT_COLUMNS_DEFAULT;
    plm_table table;
    char smallest[PLM_SIZE_TEXT], saved[PLM_SIZE_TEXT];
    init_table(&table, narrow ? slim : wide, narrow ? 3 : 4);
    for (int i = 0; i < advice->alternative_count; i++) {
        const plm_alternative *other = &advice->alternatives[i];
        plm__table_row(&table, PLM_TABLE_PLAIN);
        plm__table_cell(&table, "%s", other->what);
        plm__table_cell(&table, "%s", plm_size_format(other->plan.peak_bytes, smallest));
        if (!narrow)
            plm__table_cell(
                &table, "%s",
                plm_size_format(advice->smallest_budget_bytes - other->plan.peak_bytes, saved));
        plm__table_cell(&table, "%s", other->fits ? "fits" : "still too much");
    }
    plm__page_section(page, &table);
    add_what_to_type(page, advice);
}

static void add_page(plm_page *page, const plm_advice *advice, const char *model)
{
    char budget[PLM_SIZE_TEXT], wanted[PLM_SIZE_TEXT];
    plm_size_format(advice->budget_bytes, budget);
    plm_size_format(advice->smallest_budget_bytes, wanted);
    if (advice->fits)
        plm__page_heading(page, "%.128s, batch %lld of %lld tokens, within %s", model,
                          (long long)advice->plan.batch, (long long)advice->plan.sequence, budget);
    else
        plm__page_heading(page, "%.128s does not fit %s; the smallest budget is %s", model, budget,
                          wanted);
    if (!advice->fits)
        plm__text_add(&page->text, "the smallest plan:\n");
    add_strategy(page, advice);
    if (advice->alternative_count > 0)
        plm__page_heading(page, advice->fits ? "turned down" : "what would help, most first");
    if (advice->fits && advice->alternative_count > 0)
        plm__advice_add_table(page, advice);
    else if (advice->alternative_count > 0)
        add_treatments(page, advice);
    plm__text_add(&page->text,
                  "%lld strategies priced from %lld plans; %lld of them no other beats\n",
                  (long long)advice->looked_at.priced, (long long)advice->looked_at.sketched,
                  (long long)advice->looked_at.frontier);
}

plm_status plm_report_advice_text(const plm_advice *advice, const char *model,
                                  plm_report_style style, char **text)
{
    plm_page page = plm__page_begin(style);
    add_page(&page, advice, model);
    return plm__page_end(&page, text);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void write_seconds(plm_json_writer *json, const char *key, const plm_advice *advice,
                          double seconds)
{
    plm__json_real(json, key, advice->timed ? seconds : NAN);
}

static void write_other(plm_json_writer *json, const plm_advice *advice,
                        const plm_alternative *other, const char *const *hints)
{
    plm__json_begin_object(json, NULL);
    plm__json_text(json, "what", other->what);
    if (other->change_count > 0) {
        plm_text options = {0};
        add_changes(&options, other, hints);
        plm__json_text(json, "options", options.items);
        json->failed |= options.status != PLM_OK;
        plm__text_fini(&options);
    }
    plm__json_bytes(json, "peak_bytes", other->plan.peak_bytes);
    write_seconds(json, "step_seconds", advice, other->plan.step_seconds);
    plm__json_real(json, "relative_time", relative_time(advice, other));
    plm__json_bool(json, "fits", other->fits);
    plm__strategy_json(json, "strategy", &other->plan.strategy);
    plm__json_end(json);
}

void plm__advice_write(plm_json_writer *json, const char *key, const plm_advice *advice,
                       const char *const *hints)
{
    plm__json_begin_array(json, key);
    for (int i = 0; i < advice->alternative_count; i++)
        write_other(json, advice, &advice->alternatives[i], hints);
    plm__json_end(json);
}

plm_status plm_report_advice_json(const plm_advice *advice, const char *model,
                                  const char *const *hints, char **line)
{
    const plm_plan_summary *plan = &advice->plan;
    plm_json_writer json = {0};
    plm__json_begin_object(&json, NULL);
    plm__json_text(&json, "model", model);
    plm__json_int(&json, "batch", plan->batch);
    plm__json_int(&json, "sequence", plan->sequence);
    plm__json_bool(&json, "fits", advice->fits);
    plm__json_bytes(&json, "predicted_peak_bytes", plan->peak_bytes);
    write_seconds(&json, "predicted_step_seconds", advice, plan->step_seconds);
    plm__json_bytes(&json, "budget_bytes", advice->budget_bytes);
    plm__json_bytes(&json, "smallest_budget_bytes", advice->smallest_budget_bytes);
    plm__strategy_json(&json, "strategy", &plan->strategy);
    plm__advice_write(&json, advice->fits ? "alternatives" : "treatments", advice, hints);
    return plm__json_finish(&json, line);
}
