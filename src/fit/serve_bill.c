/* SPDX-License-Identifier: MIT */
/*
 * The bill of serving. Sizes are checked once, for the most that a job can ask: the products below
 * stay within 64 bits for every config that was read and every job in range.
 */
#include "plimsoll/serve_bill.h"

#include "base/status.h"
#include "fit/stored.h"

enum {
    SEQUENCE_MAX = 1 << 28,
    BATCH_MAX = 1 << 20,
    PARALLEL_MAX = 1 << 10,
    PREFILL_MAX = 1 << 24,
    PAGE_MAX = 1 << 16
};

/* No sum of a bill comes near the end of 64 bits below this. */
#define BYTES_MAX ((double)((int64_t)1 << 62))

plm_serve_job plm_serve_job_default(void)
{
    return (plm_serve_job){.sequence = 4096,
                           .batch = 1,
                           .weights = PLM_STORED_AS_FILE,
                           .keys = PLM_STORED_BF16,
                           .values = PLM_STORED_BF16,
                           .parallel = 1,
                           .prefill = 2048,
                           .page = 1};
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- the cache ------------------------------------------------------------------------------ */

/* Of a token in one layer of attention, on one GPU. A latent is on each. */
static size_t token_bytes(const plm_config *c, const plm_serve_job *job)
{
    if (c->kv_rank > 0)
        return plm__stored_bytes(job->keys, c->kv_rank) +
               plm__stored_bytes(job->values, c->rotary_head_width);
    int64_t elements = ceil_div(c->kv_heads, job->parallel) * c->head_width;
    return plm__stored_bytes(job->keys, elements) + plm__stored_bytes(job->values, elements);
}

static int64_t paged(const plm_serve_job *job, int64_t tokens)
{
    return ceil_div(tokens, job->page) * job->page;
}

/* Tokens that all layers together keep of a sequence. */
static int64_t kept_tokens(const plm_serve_bill *bill, const plm_config *c, int64_t sequence)
{
    int64_t window = bill->job.caches_all_tokens ? sequence : least(sequence, c->window);
    return bill->full_layers * paged(&bill->job, sequence) +
           bill->sliding_layers * paged(&bill->job, window);
}

static size_t sequence_bytes(const plm_serve_bill *bill, const plm_config *c, int64_t sequence)
{
    return (size_t)kept_tokens(bill, c, sequence) * token_bytes(c, &bill->job);
}

/* The state of linear attention: the last inputs of its convolution, and an fp32 matrix a head. */
static size_t state_bytes(const plm_serve_bill *bill, const plm_config *c)
{
    int64_t keys = c->linear_key_heads * c->linear_key_width;
    int64_t values = c->linear_value_heads * c->linear_value_width;
    plm_stored type = plm__stored_of(c->tells_dtype ? c->dtype : PLM_DTYPE_BF16);
    size_t layer = plm__stored_bytes(type, (2 * keys + values) * c->convolution) +
                   plm__stored_bytes(PLM_STORED_F32, values * c->linear_key_width);
    return (size_t)bill->linear_layers * (layer / (size_t)bill->job.parallel);
}

/* ---- activations ---------------------------------------------------------------------------- */

/* The widest moment of a layer, in elements a token: attention holds queries, keys, values and its
 * output; an MLP gate, up and their product; experts those of all that a token has. */
static int64_t widest(const plm_config *c, int64_t parallel)
{
    int64_t attention = 2 * c->heads * c->head_width + 2 * c->kv_heads * c->head_width;
    int64_t linear = 4 * c->linear_value_heads * c->linear_value_width +
                     2 * c->linear_key_heads * c->linear_key_width;
    int64_t dense = 3 * c->mlp_width;
    int64_t experts = c->chosen_experts * (3 * c->expert_width + c->width) +
                      3 * (c->shared_width + c->shared_experts * c->expert_width);
    int64_t widest = attention > linear ? attention : linear;
    widest = widest > dense ? widest : dense;
    widest = widest > experts ? widest : experts;
    return ceil_div(widest, parallel);
}

/* A chunk of prompts in one layer, with the residual stream twice and a normalisation's fp32 copy,
 * and the logits of the last token of each sequence, in 16 bits and in fp32. */
static size_t activations_bytes(const plm_config *c, const plm_serve_job *job, int64_t sequence)
{
    int64_t tokens = least(job->prefill, sequence * job->batch);
    int64_t layer = tokens * (2 * widest(c, job->parallel) + (2 + 2 + 4) * c->width);
    int64_t logits = c->head == PLM_CONFIG_HEAD_TOKENS ? job->batch * c->vocab * (2 + 4) : 0;
    return (size_t)layer + (size_t)logits;
}

/* ---- what fits ------------------------------------------------------------------------------ */

/* What a job of other lengths would take. */
static double total_of(const plm_serve_bill *bill, const plm_config *c, int64_t sequence,
                       int64_t batch)
{
    plm_serve_job job = bill->job;
    job.batch = batch;
    return (double)bill->weights_bytes + (double)bill->overhead_bytes +
           (double)activations_bytes(c, &job, sequence) +
           (double)batch *
               ((double)sequence_bytes(bill, c, sequence) + (double)state_bytes(bill, c));
}

/* The largest length, or count of sequences, that is within the budget; totals grow with both. */
static int64_t search(const plm_serve_bill *bill, const plm_config *c, bool of_length, int64_t most)
{
    int64_t low = 0, high = most + 1; /* low fits, high does not */
    double budget = (double)bill->job.budget_bytes;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        double total = of_length ? total_of(bill, c, middle, bill->job.batch)
                                 : total_of(bill, c, bill->job.sequence, middle);
        if (total <= budget)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- the bill ------------------------------------------------------------------------------- */

static plm_status check_range(const char *what, int64_t found, int64_t most)
{
    PLM_FAIL_IF(found < 1 || found > most, PLM_ERROR_ARGUMENT,
                "wanted %s from 1 to %lld, found %lld", what, (long long)most, (long long)found);
    return PLM_OK;
}

static plm_status check(const plm_config *c, const plm_serve_job *job)
{
    PLM_TRY(check_range("tokens of a sequence", job->sequence, SEQUENCE_MAX));
    PLM_TRY(check_range("sequences", job->batch, BATCH_MAX));
    PLM_TRY(check_range("GPUs that share a layer", job->parallel, PARALLEL_MAX));
    PLM_TRY(check_range("tokens of a chunk", job->prefill, PREFILL_MAX));
    PLM_TRY(check_range("tokens of a page", job->page, PAGE_MAX));
    PLM_FAIL_IF(c->heads % job->parallel != 0, PLM_ERROR_ARGUMENT,
                "%s: wanted a number of GPUs that divides its %lld heads, found %lld", c->name,
                (long long)c->heads, (long long)job->parallel);
    PLM_FAIL_IF(job->keys == PLM_STORED_AS_FILE || job->values == PLM_STORED_AS_FILE ||
                    job->keys == PLM_STORED_NF4 || job->values == PLM_STORED_NF4,
                PLM_ERROR_ARGUMENT,
                "wanted a cache of fp32, bf16, fp16, fp8, q8_0 or q4_0, found another type");
    PLM_FAIL_IF(c->family == PLM_CONFIG_BERT, PLM_ERROR_UNSUPPORTED,
                "%s: wanted a model that continues a text, found a bert, which keeps no cache",
                c->name);
    return PLM_OK;
}

static void count_layers(const plm_config *c, plm_serve_bill *bill)
{
    for (int64_t i = 0; i < c->layers; i++) {
        bill->full_layers += c->mixing[i] == PLM_CONFIG_FULL;
        bill->sliding_layers += c->mixing[i] == PLM_CONFIG_SLIDING;
        bill->linear_layers += c->mixing[i] == PLM_CONFIG_LINEAR;
    }
}

/* DynamicCache, in the model's own 16 bits: a sliding layer keeps what the next token can see. */
static size_t dynamic_bytes(const plm_serve_bill *bill, const plm_config *c)
{
    plm_serve_job job = {.keys = PLM_STORED_BF16, .values = PLM_STORED_BF16, .parallel = 1};
    int64_t slid = least(bill->job.sequence, c->window > 0 ? c->window - 1 : 0);
    size_t tokens = (size_t)(bill->full_layers * bill->job.sequence + bill->sliding_layers * slid);
    return (size_t)bill->job.batch *
           (tokens * token_bytes(c, &job) + state_bytes(bill, c) * (size_t)bill->job.parallel);
}

/* What the budget has room for. */
static void fill_what_fits(const plm_config *c, plm_serve_bill *bill)
{
    const plm_serve_job *job = &bill->job;
    bill->fits = true;
    bill->fits_tokens = bill->fits_sequences = -1;
    if (job->budget_bytes == 0)
        return;
    bill->fits = bill->total_bytes <= job->budget_bytes;
    bill->fits_tokens = search(bill, c, true, SEQUENCE_MAX);
    bill->fits_sequences = search(bill, c, false, BATCH_MAX);
}

plm_status plm_serve_bill_make(const plm_config *config, const plm_serve_job *job,
                               plm_serve_bill *bill)
{
    plm_serve_bill made = {.job = *job, .overhead_bytes = job->overhead_bytes};
    PLM_TRY(check(config, job));
    PLM_TRY(plm_config_count(config, &made.counts));
    PLM_TRY(plm__stored_weights(config, job->weights, job->parallel, &made.weights_bytes));
    count_layers(config, &made);
    made.cached_elements = config->kv_rank > 0 ? config->kv_rank + config->rotary_head_width
                                               : 2 * config->kv_heads * config->head_width;
    PLM_FAIL_IF(total_of(&made, config, job->sequence, job->batch) > BYTES_MAX, PLM_ERROR_OVERFLOW,
                "%s: wanted a bill of less than 2^62 bytes, found more; ask for fewer tokens",
                config->name);
    made.cache_bytes_per_token =
        (size_t)(made.full_layers + made.sliding_layers) * token_bytes(config, job);
    made.cache_bytes_per_sequence = sequence_bytes(&made, config, job->sequence);
    made.cache_bytes = (size_t)job->batch * made.cache_bytes_per_sequence;
    made.state_bytes = (size_t)job->batch * state_bytes(&made, config);
    made.activations_bytes = activations_bytes(config, job, job->sequence);
    made.dynamic_cache_bytes = dynamic_bytes(&made, config);
    made.total_bytes = made.weights_bytes + made.cache_bytes + made.state_bytes +
                       made.activations_bytes + made.overhead_bytes;
    fill_what_fits(config, &made);
    *bill = made;
    return PLM_OK;
}
