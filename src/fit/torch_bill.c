/* SPDX-License-Identifier: MIT */
/*
 * The bill of PyTorch's training: each tensor of the model is asked what it is held as, whether it
 * is trained, and what a rank has of it; sums of those are the roles. PyTorch hands out memory in
 * pieces of 512 bytes, and a fused AdamW has a counter on the GPU for each tensor: both stand under
 * rounding, so that the other roles are what is asked for.
 */
#include "plimsoll/torch_bill.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "fit/stored.h"
#include "fit/torch_internal.h"

enum {
    SEQUENCE_MAX = 1 << 28,
    BATCH_MAX = 1 << 20,
    RANKS_MAX = 1 << 16,
    RANK_MAX = 1 << 16,
    PIECE = 512,           /* PyTorch's allocator rounds up to it */
    BLOCK_8BIT = 256,      /* moments with one scale */
    LEAST_8BIT = 4096,     /* elements of a tensor whose moments are in 8 bits */
    BOOKS_8BIT = 2 * 1024, /* bytes: two code books of fp32 */
    NF4_BOOK = 64,         /* bytes a tensor */
    NF4_NESTED = 1024 + 4, /* with quantised scales: their book and offset */
    NF4_BLOCK = 64,
    NESTED_BLOCK = 256,
    UNITS_MAX = 2 * PLM_CONFIG_LAYERS_MAX + 1
};

#define BYTES_MAX ((double)((int64_t)1 << 62))

static const char *const shard_texts[PLM_TORCH_SHARD_COUNT] = {
#define TEXT_ROW(name, text) [PLM_TORCH_##name] = text,
    PLM_TORCH_SHARD_MAP(TEXT_ROW)
#undef TEXT_ROW
};

static const char *const optim_texts[PLM_TORCH_OPTIM_COUNT] = {
#define TEXT_ROW(name, text) [PLM_TORCH_##name] = text,
    PLM_TORCH_OPTIM_MAP(TEXT_ROW)
#undef TEXT_ROW
};

static const char *const certainty_texts[] = {[PLM_TORCH_EXACT] = "exact",
                                              [PLM_TORCH_AT_MOST] = "at most",
                                              [PLM_TORCH_AT_LEAST] = "at least",
                                              [PLM_TORCH_ABOUT] = "about"};

const char *plm_torch_shard_text(plm_torch_shard shard)
{
    return (unsigned)shard < PLM_TORCH_SHARD_COUNT ? shard_texts[shard] : "unknown";
}

const char *plm_torch_optim_text(plm_torch_optim optim)
{
    return (unsigned)optim < PLM_TORCH_OPTIM_COUNT ? optim_texts[optim] : "unknown";
}

const char *plm_torch_certainty_text(plm_torch_certainty certainty)
{
    return (unsigned)certainty <= PLM_TORCH_ABOUT ? certainty_texts[certainty] : "unknown";
}

plm_torch_job plm_torch_job_default(void)
{
    return (plm_torch_job){.sequence = 1024,
                           .batch = 1,
                           .rank = 8,
                           .ranks = 1,
                           .reduce_bucket = 500000000,
                           .persistence = 100000,
                           .live = 1000000000,
                           .sub_group = 1000000000};
}

/* ---- the walk over the tensors -------------------------------------------------------------- */

typedef struct census {
    const plm_config *config;
    const plm_torch_job *job;
    const char *targets; /* of LoRA; "": none */
    plm_torch_bill *bill;
    int64_t decayed, undecayed; /* trained elements by optimizer group, as Trainer makes them */
    int64_t largest_matrix;     /* that is held in 4 bits */
    int64_t largest;            /* trained tensor */
    int64_t persistent;         /* elements of small parameters */
    /* of each unit that is gathered at once, the last for what is outside of layers */
    int64_t padded[UNITS_MAX], whole[UNITS_MAX];
} census;

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static bool is_zero_shard(const plm_torch_job *job)
{
    return job->shard == PLM_TORCH_ZERO1 || job->shard == PLM_TORCH_ZERO2 ||
           job->shard == PLM_TORCH_ZERO3;
}

static bool is_fsdp(const plm_torch_job *job)
{
    return job->shard == PLM_TORCH_FSDP1 || job->shard == PLM_TORCH_FSDP2;
}

/* Bytes of an element of weights that are not quantised. DeepSpeed keeps 16 bits beside masters. */
static int64_t weight_size(const plm_torch_job *job)
{
    if (job->weights != PLM_DTYPE_F32)
        return 2;
    return is_zero_shard(job) && job->autocasts ? 2 : 4;
}

/* Elements of a tensor that a rank holds. */
static int64_t local_elements(const plm_torch_job *job, int64_t elements, int64_t rows)
{
    if (job->shard == PLM_TORCH_FSDP2)
        return ceil_div(rows, job->ranks) * (elements / rows);
    if (job->shard == PLM_TORCH_ZERO3)
        return ceil_div(elements, job->ranks);
    return elements;
}

/* A tensor of the allocator's. */
static void hold(census *c, plm_torch_role role, int64_t bytes)
{
    c->bill->role_bytes[role] += (size_t)bytes;
    c->bill->role_bytes[PLM_TORCH_ROUNDING] += (size_t)(ceil_div(bytes, PIECE) * PIECE - bytes);
}

/* ---- moments -------------------------------------------------------------------------------- */

/* Adafactor keeps sums of rows and columns of what has two lengths, in fp32. */
static int64_t factored(const plm_weight *weight, int64_t elements)
{
    if (weight->rank < 2)
        return elements;
    int64_t columns = weight->shape[weight->rank - 1], rows = weight->shape[weight->rank - 2];
    return elements / columns + elements / rows;
}

static void hold_8bit(census *c, const plm_weight *weight, int64_t elements)
{
    bool is_table = weight->form == PLM_WEIGHT_TABLE && c->job->tables_keep_moments;
    if (elements < LEAST_8BIT || is_table) {
        hold(c, PLM_TORCH_OPTIMIZER, 4 * elements);
        hold(c, PLM_TORCH_OPTIMIZER, 4 * elements);
        return;
    }
    for (int moment = 0; moment < 2; moment++) {
        hold(c, PLM_TORCH_OPTIMIZER, elements);
        hold(c, PLM_TORCH_OPTIMIZER, 4 * ceil_div(elements, BLOCK_8BIT));
    }
}

/* Of a trained tensor outside of DeepSpeed, in its own type. */
static void hold_moments(census *c, const plm_weight *weight, int64_t elements, int64_t size)
{
    switch (c->job->optim) {
    case PLM_TORCH_ADAMW:
        hold(c, PLM_TORCH_OPTIMIZER, elements * size);
        hold(c, PLM_TORCH_OPTIMIZER, elements * size);
        c->bill->role_bytes[PLM_TORCH_ROUNDING] += PIECE; /* its counter */
        break;
    case PLM_TORCH_ADAMW8BIT:
        hold_8bit(c, weight, elements);
        break;
    case PLM_TORCH_MOMENTUM:
        hold(c, PLM_TORCH_OPTIMIZER, elements * size);
        break;
    case PLM_TORCH_ADAFACTOR:
        hold(c, PLM_TORCH_OPTIMIZER, 4 * factored(weight, elements));
        break;
    default: /* SGD keeps none */
        break;
    }
}

/* ---- one tensor ----------------------------------------------------------------------------- */

static void train(census *c, const plm_weight *weight, int64_t elements, int64_t local,
                  int64_t size)
{
    c->bill->trainable += elements;
    c->largest = elements > c->largest ? elements : c->largest;
    bool decays = weight->form != PLM_WEIGHT_SCALE && weight->form != PLM_WEIGHT_BIAS;
    *(decays ? &c->decayed : &c->undecayed) += elements;
    if (is_zero_shard(c->job))
        return; /* by group, when all are known */
    if (c->job->shard == PLM_TORCH_FSDP1)
        local = ceil_div(elements, c->job->ranks);
    hold(c, PLM_TORCH_GRADIENTS, local * size);
    hold_moments(c, weight, local, size);
}

/* A tensor of `elements` in so many rows, of `size` bytes each. */
static void hold_tensor(census *c, const plm_weight *weight, int64_t elements, int64_t rows,
                        int64_t size, bool is_trained)
{
    int unit = weight->unit == PLM_WEIGHT_NO_LAYER ? UNITS_MAX - 1 : weight->unit;
    int64_t local = local_elements(c->job, elements, rows);
    c->padded[unit] += local;
    c->whole[unit] += elements;
    if (c->job->shard != PLM_TORCH_FSDP1) { /* FSDP1 cuts units, not tensors */
        c->bill->rank_elements += local;
        hold(c, PLM_TORCH_PARAMETERS, local * size);
    }
    if (elements < c->job->persistence)
        c->persistent += elements;
    if (is_trained)
        train(c, weight, elements, local, size);
}

static void hold_quantised(census *c, const plm_weight *weight)
{
    int64_t n = weight->elements, blocks = ceil_div(n, NF4_BLOCK);
    int64_t scales =
        c->job->double_quantizes ? blocks + 4 * ceil_div(blocks, NESTED_BLOCK) : 4 * blocks;
    int64_t constants = NF4_BOOK + (c->job->double_quantizes ? NF4_NESTED : 0);
    int64_t local = is_fsdp(c->job) || c->job->shard == PLM_TORCH_ZERO3 ? c->job->ranks : 1;
    c->bill->quantized_weights += n;
    c->bill->quantized_bytes += (size_t)(ceil_div(n, 2) + scales);
    c->bill->quantized_constants_bytes += (size_t)constants;
    c->bill->rank_elements += ceil_div(n, local);
    hold(c, PLM_TORCH_PARAMETERS, ceil_div(ceil_div(n, 2), local));
    hold(c, PLM_TORCH_PARAMETERS, scales);
    hold(c, PLM_TORCH_PARAMETERS, constants);
    c->largest_matrix = n > c->largest_matrix ? n : c->largest_matrix;
}

/* A pair of matrices beside a module, in fp32 whatever the module is, but for DeepSpeed, which
 * makes 16 bits of all. */
static void hold_adapter(census *c, const plm_weight *weight, const plm_torch_adapter *adapter)
{
    int64_t rank = c->job->rank, size = is_zero_shard(c->job) ? weight_size(c->job) : 4;
    plm_weight part = *weight;
    part.form = PLM_WEIGHT_MATRIX;
    part.rank = 2;
    part.shape[0] = rank;
    part.shape[1] = adapter->in;
    hold_tensor(c, &part, rank * adapter->in, rank, size, true);
    part.shape[0] = adapter->out;
    part.shape[1] = rank;
    hold_tensor(c, &part, rank * adapter->out, adapter->out, size, true);
    c->bill->adapters += rank * (adapter->in + adapter->out);
    c->bill->adapted_modules++;
}

static plm_status add(const plm_weight *weight, void *user)
{
    census *c = user;
    plm_torch_adapter adapter = plm__torch_adapter_of(c->job, c->targets, weight);
    bool is_matrix = (weight->form == PLM_WEIGHT_MATRIX && weight->part != PLM_WEIGHT_LM_HEAD) ||
                     weight->form == PLM_WEIGHT_MATRIX_T;
    bool has_lora = c->targets[0] != '\0';
    int64_t size = weight_size(c->job);
    if (weight->form == PLM_WEIGHT_BUFFER) {
        hold(c, PLM_TORCH_PARAMETERS, 4 * weight->elements);
        return PLM_OK;
    }
    if (c->job->quantizes && c->job->prepares && !is_matrix)
        size = 4;
    if (c->job->quantizes && is_matrix)
        hold_quantised(c, weight);
    else
        hold_tensor(c, weight, weight->elements, weight->shape[0], size, !has_lora);
    if (adapter.is_adapted)
        hold_adapter(c, weight, &adapter);
    if (adapter.is_saved)
        hold_tensor(c, weight, weight->elements, weight->shape[0], size, true);
    return PLM_OK;
}

/* A tied head that is to be saved is copied too. */
static void save_tied_head(census *c)
{
    const plm_config *config = c->config;
    if (!c->targets[0] || !config->is_tied || !plm__torch_list_has(c->job->lora_saves, "lm_head"))
        return;
    plm_weight head = {.form = PLM_WEIGHT_MATRIX,
                       .part = PLM_WEIGHT_LM_HEAD,
                       .rank = 2,
                       .shape = {config->vocab, config->width},
                       .unit = PLM_WEIGHT_NO_LAYER};
    hold_tensor(c, &head, config->vocab * config->width, config->vocab, weight_size(c->job), true);
}

/* ---- what ranks share ----------------------------------------------------------------------- */

static void set(plm_torch_bill *bill, plm_torch_role role, double bytes,
                plm_torch_certainty certainty)
{
    bill->role_bytes[role] = bytes > 0 ? (size_t)bytes : 0;
    bill->certainty[role] = certainty;
}

/* DeepSpeed: a group of the optimizer is one flat piece, cut into equal parts. */
static void settle_zero(census *c)
{
    const plm_torch_job *job = c->job;
    plm_torch_bill *bill = c->bill;
    int64_t size = weight_size(job), unit = 2 * job->ranks, part = 0;
    bool has_masters = size == 2;
    if (job->shard == PLM_TORCH_ZERO3)
        part = ceil_div(c->decayed, job->ranks) + ceil_div(c->undecayed, job->ranks);
    else
        part = (ceil_div(c->decayed, unit) + ceil_div(c->undecayed, unit)) * 2;
    int64_t gradient = job->gradients_in_fp32 ? 4 : size;
    int64_t buckets = job->reduce_bucket * (job->overlaps ? 2 : 1);
    set(bill, PLM_TORCH_MASTER, has_masters && !job->offloads_optimizer ? 4.0 * (double)part : 0,
        PLM_TORCH_EXACT);
    set(bill, PLM_TORCH_OPTIMIZER, job->offloads_optimizer ? 0 : 8.0 * (double)part,
        PLM_TORCH_EXACT);
    if (job->shard == PLM_TORCH_ZERO1)
        set(bill, PLM_TORCH_GRADIENTS, (double)bill->trainable * (double)gradient, PLM_TORCH_EXACT);
    else
        set(bill, PLM_TORCH_GRADIENTS,
            job->offloads_optimizer ? 0 : (double)part * (double)gradient, PLM_TORCH_EXACT);
    double sums = job->shard == PLM_TORCH_ZERO1 ? 0 : (double)buckets * (double)size;
    if (job->shard == PLM_TORCH_ZERO3) {
        double live = (double)(job->live < bill->trainable ? job->live : bill->trainable);
        sums += (double)size * (live + (double)c->persistent);
        if (job->offloads_parameters)
            bill->role_bytes[PLM_TORCH_PARAMETERS] = 0;
    }
    set(bill, PLM_TORCH_BUCKETS, sums, PLM_TORCH_AT_MOST);
}

/* FSDP: what is outside of layers stays gathered; two layers are, one of them as it comes, and
 * one's gradients are on their way out. */
static void settle_fsdp(census *c)
{
    const plm_torch_job *job = c->job;
    int64_t layer = 0, flat = 0, all = 0, root = c->whole[UNITS_MAX - 1];
    double size = job->autocasts ? 2 : (double)weight_size(job);
    for (int i = 0; i + 1 < UNITS_MAX; i++) {
        int64_t gathered = c->padded[i] * job->ranks;
        layer = c->whole[i] > layer ? c->whole[i] : layer;
        flat = gathered > flat ? gathered : flat;
        all += c->whole[i];
    }
    double held = job->keeps_gathered ? (double)all : 2 * (double)layer;
    double reduced = (double)(c->padded[UNITS_MAX - 1] * job->ranks);
    reduced = reduced > (double)flat ? reduced : (double)flat;
    set(c->bill, PLM_TORCH_BUCKETS,
        size * ((double)root + held + (double)flat) + 2 * size * reduced, PLM_TORCH_AT_MOST);
}

/* FSDP1 cuts a unit's flat parameter, padded to the ranks. */
static void settle_flat_units(census *c)
{
    int64_t size = weight_size(c->job);
    for (int i = 0; i < UNITS_MAX; i++) {
        int64_t local = ceil_div(c->whole[i], c->job->ranks);
        c->padded[i] = local;
        c->bill->rank_elements += local;
        hold(c, PLM_TORCH_PARAMETERS, local * size);
    }
}

static void settle_ranks(census *c)
{
    const plm_torch_job *job = c->job;
    if (job->shard == PLM_TORCH_FSDP1)
        settle_flat_units(c);
    if (is_fsdp(job))
        settle_fsdp(c);
    else if (is_zero_shard(job))
        settle_zero(c);
    else if (job->shard == PLM_TORCH_DDP)
        set(c->bill, PLM_TORCH_BUCKETS,
            job->buckets_are_gradients ? 0 : (double)c->bill->role_bytes[PLM_TORCH_GRADIENTS],
            PLM_TORCH_EXACT);
    if (job->optim == PLM_TORCH_ADAMW8BIT && !is_zero_shard(job))
        hold(c, PLM_TORCH_OPTIMIZER, BOOKS_8BIT);
}

/* ---- the bill ------------------------------------------------------------------------------- */

static plm_status check_range(const char *what, int64_t found, int64_t most)
{
    PLM_FAIL_IF(found < 1 || found > most, PLM_ERROR_ARGUMENT,
                "wanted %s from 1 to %lld, found %lld", what, (long long)most, (long long)found);
    return PLM_OK;
}

static plm_status check(const plm_config *config, const plm_torch_job *job)
{
    PLM_TRY(check_range("tokens of a sequence", job->sequence, SEQUENCE_MAX));
    PLM_TRY(check_range("sequences", job->batch, BATCH_MAX));
    PLM_TRY(check_range("ranks", job->ranks, RANKS_MAX));
    PLM_TRY(check_range("a rank of adapters", job->rank, RANK_MAX));
    PLM_TRY(check_range("elements of a bucket", job->reduce_bucket, (int64_t)1 << 40));
    PLM_FAIL_IF(job->quantizes && !job->lora[0], PLM_ERROR_ARGUMENT,
                "%s: wanted LoRA for a base in 4 bits, which cannot be trained itself, found none",
                config->name);
    PLM_FAIL_IF(!(job->lora_dropout >= 0 && job->lora_dropout < 1), PLM_ERROR_ARGUMENT,
                "wanted a dropout of adapters of at least 0 and under 1, found %.3f",
                job->lora_dropout);
    PLM_FAIL_IF(job->shard != PLM_TORCH_UNSHARDED && job->shard != PLM_TORCH_DDP && job->ranks < 2,
                PLM_ERROR_ARGUMENT, "wanted 2 ranks or more to shard by %s, found %lld",
                plm_torch_shard_text(job->shard), (long long)job->ranks);
    return PLM_OK;
}

/* DeepSpeed's update works on fp32 gradients of the part; a base in 4 bits is unpacked a matrix at
 * a time. */
static double step_temporaries(const census *c)
{
    double bytes = 2.0 * (double)c->largest_matrix;
    int64_t trained = c->bill->trainable;
    if (is_zero_shard(c->job) && !c->job->offloads_optimizer) {
        int64_t part = ceil_div(trained, c->job->ranks);
        part =
            c->job->shard == PLM_TORCH_ZERO3 && part > c->job->sub_group ? c->job->sub_group : part;
        bytes += 4.0 * (double)part;
    }
    return bytes;
}

/* The fullest instant: activations at the end of the forward pass with what the loss makes, or all
 * gradients with what the update makes. */
static void settle_totals(census *c)
{
    plm_torch_bill *bill = c->bill;
    double kept = 0, beside = 0, step = step_temporaries(c);
    plm__torch_activations(c->config, c->job, bill, &kept, &beside);
    bool is_linear = c->config->convolution > 0; /* its kernels keep more, by version */
    set(bill, PLM_TORCH_ACTIVATIONS, kept, is_linear ? PLM_TORCH_AT_LEAST : PLM_TORCH_ABOUT);
    set(bill, PLM_TORCH_TEMPORARIES, beside > step ? beside : step, PLM_TORCH_ABOUT);
    bill->lasting_bytes =
        bill->role_bytes[PLM_TORCH_PARAMETERS] + bill->role_bytes[PLM_TORCH_MASTER] +
        bill->role_bytes[PLM_TORCH_OPTIMIZER] + bill->role_bytes[PLM_TORCH_ROUNDING];
    double gradients = (double)bill->role_bytes[PLM_TORCH_GRADIENTS];
    double forward = kept + beside, update = gradients + step;
    bill->total_bytes = bill->lasting_bytes + bill->role_bytes[PLM_TORCH_BUCKETS] +
                        (size_t)(forward > update ? forward : update);
}

static double sum_of(const plm_torch_bill *bill)
{
    double sum = 0;
    for (int role = 0; role < PLM_TORCH_ROLE_COUNT; role++)
        sum += (double)bill->role_bytes[role];
    return sum;
}

plm_status plm_torch_bill_make(const plm_config *config, const plm_torch_job *job,
                               plm_torch_bill *bill)
{
    char targets[PLM_TORCH_LIST_TEXT];
    plm_torch_bill made = {.job = *job};
    census c = {.config = config, .job = &made.job, .targets = targets, .bill = &made};
    PLM_TRY(check(config, job));
    PLM_TRY(plm_config_count(config, &made.counts));
    PLM_TRY(plm__torch_targets(config, job, targets));
    PLM_TRY(plm_config_weights(config, PLM_WEIGHTS_IN_MEMORY, add, &c));
    save_tied_head(&c);
    PLM_FAIL_IF(targets[0] && made.adapted_modules == 0, PLM_ERROR_ARGUMENT,
                "%s: wanted modules of the model for LoRA, found none called %.80s; try all-linear",
                config->name, targets);
    settle_ranks(&c);
    settle_totals(&c);
    PLM_FAIL_IF(sum_of(&made) > BYTES_MAX, PLM_ERROR_OVERFLOW,
                "%s: wanted a bill of less than 2^62 bytes, found more; ask for fewer tokens",
                config->name);
    *bill = made;
    return PLM_OK;
}
