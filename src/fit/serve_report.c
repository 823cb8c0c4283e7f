/* SPDX-License-Identifier: MIT */
/* Bills of serving for people and for programs. */
#include <stdio.h>

#include "base/json.h"
#include "fit/bill_json.h"
#include "plimsoll/serve_bill.h"
#include "plimsoll/size.h"
#include "report/terminal.h"
#include "report/wrap.h"

/* ---- one bill in full ----------------------------------------------------------------------- */

static void add_head(plm_page *page, const plm_serve_entry *entry)
{
    const plm_serve_bill *bill = entry->bill;
    const plm_serve_job *job = &bill->job;
    plm_text count = {0}, words = {0};
    plm__text_count(&count, bill->counts.parameters);
    plm__text_add(&words, "serving on %s", entry->target ? entry->target : "one GPU");
    if (job->parallel > 1)
        plm__text_add(&words, ", one of %lld that share each layer", (long long)job->parallel);
    plm__text_add(&words, " · %lld sequence%s of %lld tokens · weights %s · cache %s",
                  (long long)job->batch, job->batch == 1 ? "" : "s", (long long)job->sequence,
                  plm_stored_text(job->weights), plm_stored_text(job->keys));
    if (job->values != job->keys)
        plm__text_add(&words, " and %s", plm_stored_text(job->values));
    if (count.status != PLM_OK)
        page->text.status = count.status;
    plm__page_heading(page, "%s, %s parameters", entry->config->name,
                      count.items ? count.items : "");
    plm__page_words(page, &words);
    plm__page_gap(page);
    plm__text_fini(&count);
}

static void add_row(plm_table *table, const char *what, size_t bytes, size_t total,
                    const char *remark)
{
    if (bytes == 0)
        return;
    plm__table_row(table, PLM_TABLE_PLAIN);
    plm__table_cell(table, "%s", what);
    plm__page_size_cell(table, bytes);
    plm__table_cell(table, "%.1f %%", 100 * (double)bytes / (double)total);
    plm__table_cell(table, "%s", remark);
}

static void add_table(plm_page *page, const plm_serve_bill *bill)
{
    static const plm_table_column columns[] = {{.title = "what"},
                                               {.title = "bytes", .right = true},
                                               {.title = "share", .right = true},
                                               {.title = "how sure"}};
    plm_table table;
    plm__table_init(&table, columns, 4);
    add_row(&table, "weights", bill->weights_bytes, bill->total_bytes, "exact");
    add_row(&table, "cache", bill->cache_bytes, bill->total_bytes, "exact");
    add_row(&table, "state of linear attention", bill->state_bytes, bill->total_bytes, "exact");
    add_row(&table, "activations of a chunk", bill->activations_bytes, bill->total_bytes,
            "at most");
    add_row(&table, "context and libraries", bill->overhead_bytes, bill->total_bytes, "measured");
    plm__table_rule(&table);
    plm__table_row(&table, PLM_TABLE_BOLD);
    plm__table_cell(&table, "total");
    plm__page_size_cell(&table, bill->total_bytes);
    plm__page_section(page, &table);
}

/* How the cache grows. */
static void say_cache(plm_page *page, const plm_config *c, const plm_serve_bill *bill)
{
    char each[PLM_SIZE_TEXT], all[PLM_SIZE_TEXT];
    plm__page_say(page, 0, "A token adds %s to the cache: %lld elements in each of %lld layers.",
                  plm_size_format(bill->cache_bytes_per_token, each),
                  (long long)bill->cached_elements,
                  (long long)(bill->full_layers + bill->sliding_layers));
    if (bill->sliding_layers > 0)
        plm__page_say(page, 0, "%lld of %lld layers see %lld tokens only and keep %s.",
                      (long long)bill->sliding_layers, (long long)c->layers, (long long)c->window,
                      bill->job.caches_all_tokens ? "all the same" : "no more");
    if (bill->linear_layers > 0)
        plm__page_say(page, 0, "%lld layers keep a state in place of tokens: %s a sequence.",
                      (long long)bill->linear_layers,
                      plm_size_format(bill->state_bytes / (size_t)bill->job.batch, each));
    plm__page_say(page, 0, "transformers' DynamicCache would hold %s in bf16.",
                  plm_size_format(bill->dynamic_cache_bytes, all));
}

static void say_what_fits(plm_page *page, const plm_config *c, const plm_serve_bill *bill)
{
    const plm_serve_job *job = &bill->job;
    char budget[PLM_SIZE_TEXT];
    if (job->sequence > c->positions)
        plm__page_say(page, 0, "The model knows %lld positions; %lld tokens are more.",
                      (long long)c->positions, (long long)job->sequence);
    if (job->budget_bytes == 0)
        return;
    plm__page_gap(page);
    plm__page_heading(page, "%s %s", bill->fits ? "It fits" : "It does not fit",
                      plm_size_format(job->budget_bytes, budget));
    if (bill->fits_tokens == 0)
        plm__page_say(page, 0, "Not one token fits beside the weights.");
    else
        plm__page_say(
            page, 0, "%lld sequence%s of up to %lld tokens, or %lld of %lld tokens, fit at once.",
            (long long)job->batch, job->batch == 1 ? "" : "s", (long long)bill->fits_tokens,
            (long long)bill->fits_sequences, (long long)job->sequence);
}

/* vLLM takes 90 % of a card whatever it needs, and makes pages of 16 tokens of what is left. */
static void say_vllm(plm_page *page, const plm_serve_entry *entry)
{
    const plm_serve_bill *bill = entry->bill;
    char taken[PLM_SIZE_TEXT];
    size_t share = entry->memory_bytes / 10 * 9;
    size_t others = bill->weights_bytes + bill->activations_bytes + bill->overhead_bytes;
    if (entry->memory_bytes == 0 || bill->sliding_layers > 0 || bill->linear_layers > 0 ||
        share <= others)
        return;
    int64_t tokens = (int64_t)((share - others) / bill->cache_bytes_per_token) / 16 * 16;
    plm__page_say(page, 0,
                  "vLLM would take %s, 90 %% of the card whatever it needs, and have a cache of "
                  "about %lld tokens.",
                  plm_size_format(share, taken), (long long)tokens);
}

static void add_bill(plm_page *page, const plm_serve_entry *entry)
{
    add_head(page, entry);
    add_table(page, entry->bill);
    say_cache(page, entry->config, entry->bill);
    say_what_fits(page, entry->config, entry->bill);
    say_vllm(page, entry);
}

/* ---- several as one table ------------------------------------------------------------------- */

static void number_cell(plm_table *table, int64_t number)
{
    if (number < 0)
        plm__table_cell(table, "%s", "");
    else
        plm__table_cell(table, "%lld", (long long)number);
}

static void add_comparison(plm_page *page, const plm_serve_entry *entries, int64_t count)
{
    static const plm_table_column columns[] = {{.title = "model"},
                                               {.title = "target"},
                                               {.title = "weights", .right = true},
                                               {.title = "cache", .right = true},
                                               {.title = "total", .right = true},
                                               {.title = "fits"},
                                               {.title = "tokens that fit", .right = true},
                                               {.title = "sequences", .right = true}};
    plm_table table;
    plm__table_init(&table, columns, 8);
    for (int64_t i = 0; i < count; i++) {
        const plm_serve_bill *bill = entries[i].bill;
        plm__table_row(&table, PLM_TABLE_PLAIN);
        plm__table_cell(&table, "%s", entries[i].config->name);
        plm__table_cell(&table, "%s", entries[i].target ? entries[i].target : "");
        plm__page_size_cell(&table, bill->weights_bytes);
        plm__page_size_cell(&table, bill->cache_bytes + bill->state_bytes);
        plm__page_size_cell(&table, bill->total_bytes);
        plm__table_cell(&table, "%s", bill->job.budget_bytes == 0 ? "" : bill->fits ? "yes" : "no");
        number_cell(&table, bill->fits_tokens);
        number_cell(&table, bill->fits_sequences);
    }
    const plm_serve_job *job = &entries[0].bill->job;
    plm__page_heading(page, "Serving %lld sequence%s of %lld tokens", (long long)job->batch,
                      job->batch == 1 ? "" : "s", (long long)job->sequence);
    plm__page_gap(page);
    plm__page_table(page, &table);
}

plm_status plm_report_serve_text(const plm_serve_entry *entries, int64_t count,
                                 plm_report_style style, char **text)
{
    plm_page page = plm__page_begin(style);
    if (count == 1)
        add_bill(&page, &entries[0]);
    else
        add_comparison(&page, entries, count);
    return plm__page_end(&page, text);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void write_bill(plm_json_writer *json, const plm_serve_entry *entry)
{
    const plm_serve_bill *bill = entry->bill;
    const plm_serve_job *job = &bill->job;
    plm__json_begin_object(json, NULL);
    plm__bill_model_json(json, entry->config, &bill->counts, 0);
    plm__json_text(json, "target", entry->target);
    plm__json_int(json, "sequence", job->sequence);
    plm__json_int(json, "batch", job->batch);
    plm__json_int(json, "tensor_parallel", job->parallel);
    plm__json_text(json, "weights_type", plm_stored_text(job->weights));
    plm__json_text(json, "cache_type", plm_stored_text(job->keys));
    plm__json_text(json, "cache_values_type", plm_stored_text(job->values));
    plm__json_int(json, "cached_elements_per_token_and_layer", bill->cached_elements);
    plm__json_bytes(json, "weights_bytes", bill->weights_bytes);
    plm__json_bytes(json, "cache_bytes_per_token", bill->cache_bytes_per_token);
    plm__json_bytes(json, "cache_bytes_per_sequence", bill->cache_bytes_per_sequence);
    plm__json_bytes(json, "cache_bytes", bill->cache_bytes);
    plm__json_bytes(json, "state_bytes", bill->state_bytes);
    plm__json_bytes(json, "activations_bytes", bill->activations_bytes);
    plm__json_bytes(json, "overhead_bytes", bill->overhead_bytes);
    plm__json_bytes(json, "total_bytes", bill->total_bytes);
    plm__json_bytes(json, "dynamic_cache_bytes", bill->dynamic_cache_bytes);
    if (job->budget_bytes > 0) {
        plm__json_bytes(json, "budget_bytes", job->budget_bytes);
        plm__json_int(json, "fits_tokens", bill->fits_tokens);
        plm__json_int(json, "fits_sequences", bill->fits_sequences);
    } else {
        plm__json_text(json, "budget_bytes", NULL);
        plm__json_text(json, "fits_tokens", NULL);
        plm__json_text(json, "fits_sequences", NULL);
    }
    plm__json_bool(json, "fits", bill->fits);
    plm__json_end(json);
}

plm_status plm_report_serve_json(const plm_serve_entry *entries, int64_t count, char **line)
{
    plm_json_writer json = {0};
    plm__bill_list_begin(&json, count);
    for (int64_t i = 0; i < count; i++)
        write_bill(&json, &entries[i]);
    return plm__bill_list_finish(&json, count, line);
}
