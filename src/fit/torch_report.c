/* SPDX-License-Identifier: MIT */
/* Bills of PyTorch's training for people and for programs. */
#include <stdio.h>

#include "base/json.h"
#include "fit/bill_json.h"
#include "plimsoll/size.h"
#include "plimsoll/torch_bill.h"
#include "report/terminal.h"
#include "report/wrap.h"

static const char *const role_texts[PLM_TORCH_ROLE_COUNT] = {
#define TEXT_ROW(name, text, key) [PLM_TORCH_##name] = text,
    PLM_TORCH_ROLE_MAP(TEXT_ROW)
#undef TEXT_ROW
};

static const char *const role_keys[PLM_TORCH_ROLE_COUNT] = {
#define KEY_ROW(name, text, key) [PLM_TORCH_##name] = key,
    PLM_TORCH_ROLE_MAP(KEY_ROW)
#undef KEY_ROW
};

static const char forecast_line[] =
    "plimsoll forecast gives the exact answer for a script: it runs the script itself, without a "
    "GPU.";

/* A failure of words that were gathered is the page's. */
static void add_words(plm_page *page, plm_text *words)
{
    if (words->status != PLM_OK)
        page->text.status = words->status;
    plm__page_words(page, words);
}

/* ---- one bill in full ----------------------------------------------------------------------- */

static void describe(plm_text *words, const plm_torch_job *job)
{
    plm__text_add(words,
                  "PyTorch's training · %lld sequence%s of %lld tokens held at once · "
                  "weights %s%s",
                  (long long)job->batch, job->batch == 1 ? "" : "s", (long long)job->sequence,
                  job->quantizes ? "in 4 bits, the rest " : "", plm_dtype_text(job->weights));
    if (job->autocasts)
        plm__text_add(words, ", computed in bf16");
    plm__text_add(words, " · %s", plm_torch_optim_text(job->optim));
    if (job->lora[0])
        plm__text_add(words, " · LoRA of rank %lld on %s", (long long)job->rank, job->lora);
    if (job->recomputes)
        plm__text_add(words, " · layers made again in the backward pass");
    if (job->shard != PLM_TORCH_UNSHARDED)
        plm__text_add(words, " · one of %lld ranks by %s", (long long)job->ranks,
                      plm_torch_shard_text(job->shard));
}

static void add_head(plm_page *page, const plm_torch_entry *entry)
{
    const plm_torch_bill *bill = entry->bill;
    plm_text count = {0}, trained = {0}, words = {0};
    plm__text_count(&count, bill->counts.parameters);
    plm__text_count(&trained, bill->trainable);
    if (count.status != PLM_OK || trained.status != PLM_OK)
        page->text.status = PLM_ERROR_HOST_MEMORY;
    else
        plm__page_heading(page, "%s, %s parameters, %s of them trained", entry->config->name,
                          count.items,
                          bill->trainable == bill->counts.parameters ? "all" : trained.items);
    describe(&words, &bill->job);
    add_words(page, &words);
    plm__page_gap(page);
    plm__text_fini(&count);
    plm__text_fini(&trained);
}

static void add_table(plm_page *page, const plm_torch_bill *bill)
{
    static const plm_table_column columns[] = {
        {.title = "what"}, {.title = "bytes", .right = true}, {.title = "how sure"}};
    plm_table table;
    plm__table_init(&table, columns, 3);
    for (int role = 0; role < PLM_TORCH_ROLE_COUNT; role++)
        if (bill->role_bytes[role] > 0)
            plm__page_size_row(&table, role_texts[role], bill->role_bytes[role],
                               plm_torch_certainty_text(bill->certainty[role]));
    plm__table_rule(&table);
    plm__page_size_row(&table, "from step to step", bill->lasting_bytes, "exact");
    plm__table_row(&table, PLM_TABLE_BOLD);
    plm__table_cell(&table, "at the fullest instant");
    plm__page_size_cell(&table, bill->total_bytes);
    plm__table_cell(&table, "%s", plm_torch_certainty_text(PLM_TORCH_ABOUT));
    plm__page_section(page, &table);
}

static void say_parts(plm_page *page, const plm_torch_bill *bill)
{
    char bytes[PLM_SIZE_TEXT];
    if (bill->job.shard != PLM_TORCH_UNSHARDED)
        plm__page_say(page, 0, "A rank holds %lld elements of parameters, padding included.",
                      (long long)bill->rank_elements);
    if (bill->quantized_weights > 0)
        plm__page_say(page, 0,
                      "%lld of %lld weights are in 4 bits, %s with their scales; embeddings, head, "
                      "normalisations and fused experts stay as they are.",
                      (long long)bill->quantized_weights, (long long)bill->counts.parameters,
                      plm_size_format(bill->quantized_bytes, bytes));
    if (bill->adapted_modules > 0)
        plm__page_say(page, 0, "Adapters of %lld modules are held in fp32: %lld parameters.",
                      (long long)bill->adapted_modules, (long long)bill->adapters);
    plm__page_say(page, 0,
                  "At the fullest instant stand activations with what the loss makes, or all "
                  "gradients with what the update makes, whichever is more. cuBLAS's workspaces, "
                  "64 MiB on a Hopper GPU, come beside.");
}

bool plm_torch_entry_fits(const plm_torch_entry *entry)
{
    return entry->budget_bytes == 0 ||
           entry->bill->total_bytes + entry->overhead_bytes <= entry->budget_bytes;
}

static void say_whether_it_fits(plm_page *page, const plm_torch_entry *entry)
{
    char budget[PLM_SIZE_TEXT], overhead[PLM_SIZE_TEXT];
    if (entry->budget_bytes == 0)
        return;
    plm__page_gap(page);
    plm__page_heading(page, "It %s %s%s%s", plm_torch_entry_fits(entry) ? "fits" : "does not fit",
                      plm_size_format(entry->budget_bytes, budget), entry->target ? " on " : "",
                      entry->target ? entry->target : "");
    if (entry->overhead_bytes > 0)
        plm__page_say(page, 0, "Context and libraries take %s of that.",
                      plm_size_format(entry->overhead_bytes, overhead));
}

static void add_bill(plm_page *page, const plm_torch_entry *entry)
{
    add_head(page, entry);
    add_table(page, entry->bill);
    say_parts(page, entry->bill);
    say_whether_it_fits(page, entry);
    plm__page_say(page, 0, "%s", forecast_line);
}

/* ---- several as one table ------------------------------------------------------------------- */

static void add_comparison(plm_page *page, const plm_torch_entry *entries, int64_t count)
{
    static const plm_table_column columns[] = {{.title = "model"},
                                               {.title = "target"},
                                               {.title = "trained", .right = true},
                                               {.title = "parameters", .right = true},
                                               {.title = "step to step", .right = true},
                                               {.title = "activations", .right = true},
                                               {.title = "fullest", .right = true},
                                               {.title = "fits"}};
    plm_table table;
    plm_text words = {0};
    plm__table_init(&table, columns, 8);
    for (int64_t i = 0; i < count; i++) {
        const plm_torch_entry *entry = &entries[i];
        plm__table_row(&table, PLM_TABLE_PLAIN);
        plm__table_cell(&table, "%s", entry->config->name);
        plm__table_cell(&table, "%s", entry->target ? entry->target : "");
        plm__table_cell(&table, "%lld", (long long)entry->bill->trainable);
        plm__page_size_cell(&table, entry->bill->role_bytes[PLM_TORCH_PARAMETERS]);
        plm__page_size_cell(&table, entry->bill->lasting_bytes);
        plm__page_size_cell(&table, entry->bill->role_bytes[PLM_TORCH_ACTIVATIONS]);
        plm__page_size_cell(&table, entry->bill->total_bytes);
        plm__table_cell(&table, "%s",
                        entry->budget_bytes == 0      ? ""
                        : plm_torch_entry_fits(entry) ? "yes"
                                                      : "no");
    }
    describe(&words, &entries[0].bill->job);
    add_words(page, &words);
    plm__page_gap(page);
    plm__page_table(page, &table);
    plm__page_gap(page);
    plm__page_say(page, 0, "%s", forecast_line);
}

plm_status plm_report_torch_bill_text(const plm_torch_entry *entries, int64_t count,
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

static void write_job(plm_json_writer *json, const plm_torch_job *job)
{
    plm__json_int(json, "sequence", job->sequence);
    plm__json_int(json, "batch", job->batch);
    plm__json_text(json, "weights_type", plm_dtype_text(job->weights));
    plm__json_bool(json, "autocast", job->autocasts);
    plm__json_text(json, "optimizer", plm_torch_optim_text(job->optim));
    plm__json_text(json, "shard", plm_torch_shard_text(job->shard));
    plm__json_int(json, "ranks", job->ranks);
    plm__json_text(json, "lora", job->lora[0] ? job->lora : NULL);
    plm__json_int(json, "lora_rank", job->lora[0] ? job->rank : 0);
    plm__json_bool(json, "recompute", job->recomputes);
}

static void write_roles(plm_json_writer *json, const plm_torch_bill *bill)
{
    for (int role = 0; role < PLM_TORCH_ROLE_COUNT; role++)
        plm__json_bytes(json, role_keys[role], bill->role_bytes[role]);
    plm__json_begin_object(json, "certainty");
    for (int role = 0; role < PLM_TORCH_ROLE_COUNT; role++)
        plm__json_text(json, role_keys[role], plm_torch_certainty_text(bill->certainty[role]));
    plm__json_end(json);
}

static void write_bill(plm_json_writer *json, const plm_torch_entry *entry)
{
    const plm_torch_bill *bill = entry->bill;
    plm__json_begin_object(json, NULL);
    plm__bill_model_json(json, entry->config, &bill->counts, bill->trainable);
    plm__json_text(json, "target", entry->target);
    write_job(json, &bill->job);
    plm__json_int(json, "adapter_parameter_count", bill->adapters);
    plm__json_int(json, "rank_elements", bill->rank_elements);
    plm__json_int(json, "quantized_weight_count", bill->quantized_weights);
    plm__json_bytes(json, "quantized_bytes", bill->quantized_bytes);
    plm__json_bytes(json, "quantized_constants_bytes", bill->quantized_constants_bytes);
    write_roles(json, bill);
    plm__json_bytes(json, "lasting_bytes", bill->lasting_bytes);
    plm__json_bytes(json, "overhead_bytes", entry->overhead_bytes);
    plm__json_bytes(json, "total_bytes", bill->total_bytes);
    if (entry->budget_bytes > 0)
        plm__json_bytes(json, "budget_bytes", entry->budget_bytes);
    else
        plm__json_text(json, "budget_bytes", NULL);
    plm__json_bool(json, "fits", plm_torch_entry_fits(entry));
    plm__json_end(json);
}

plm_status plm_report_torch_bill_json(const plm_torch_entry *entries, int64_t count, char **line)
{
    plm_json_writer json = {0};
    plm__bill_list_begin(&json, count);
    for (int64_t i = 0; i < count; i++)
        write_bill(&json, &entries[i]);
    return plm__bill_list_finish(&json, count, line);
}
