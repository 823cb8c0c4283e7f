/* SPDX-License-Identifier: MIT */
/*
 * What the backward pass reads, by module, as transformers' own code leaves it in autograd's graph
 * (eager, scaled_dot_product_attention): bytes a token, times tokens. Of each module the formula
 * says what is saved; a frozen product saves no input, and an adapter a copy of its own.
 */
#include "fit/torch_internal.h"

/* Sizes and switches of a job. */
typedef struct measure {
    const plm_config *c;
    const plm_torch_job *job;
    double stream;   /* bytes of an element of the residual stream */
    double computed; /* of products' outputs: 2 under autocast */
    bool trains;     /* the base is trained, not adapters alone */
    bool casts;      /* autocast over fp32 */
} measure;

/* Of the norms of heads: products' outputs are what they see. */
static double head_norm_bytes(const measure *m, double width)
{
    bool is_gemma = m->c->query_scale > 0;
    return 4 * width + 4 + (m->trains ? (is_gemma ? 4 : m->computed) * width : 0);
}

/* A normalisation over `width`, and its output where a product saves it. RMS: an fp32 copy, or the
 * stream itself, and what is multiplied by the weight. LayerNorm: its input. */
static double norm_bytes(const measure *m, double width, bool feeds_products)
{
    bool is_layer_norm = m->c->family == PLM_CONFIG_GPT2 || m->c->family == PLM_CONFIG_BERT;
    bool is_gemma = m->c->query_scale > 0;
    double bytes = is_layer_norm ? m->stream * width + 8 : 4 * width + 4;
    if (!is_layer_norm && m->trains)
        bytes += (is_gemma ? 4 : m->stream) * width;
    if (feeds_products && m->trains && !m->casts)
        bytes += m->stream * width;
    return bytes;
}

/* Inputs of products that autocast makes 16 bits of, each product by itself. */
static double cast_bytes(const measure *m, double products, double width)
{
    return m->casts && m->trains ? products * 2 * width : 0;
}

/* Attention: queries, keys, values and output with a log-sum a head; the output is what the next
 * product saves too. */
static double attention_bytes(const measure *m)
{
    const plm_config *c = m->c;
    double queries = (double)(c->heads * c->head_width);
    double keys = (double)(c->kv_heads * c->head_width), values = keys;
    double out = queries, extra = 0;
    if (c->kv_rank > 0) { /* keys and values of all heads are made of the latent */
        keys = queries;
        out = (double)(c->heads * c->value_head_width);
        values = out + (double)(c->heads * c->plain_head_width); /* parts of one product */
        extra = norm_bytes(m, (double)c->kv_rank, true) +
                (c->query_rank > 0 ? norm_bytes(m, (double)c->query_rank, true) : 0);
    } else if (c->family == PLM_CONFIG_QWEN3 || c->family == PLM_CONFIG_QWEN3_MOE ||
               c->family == PLM_CONFIG_GEMMA3 || c->family == PLM_CONFIG_GEMMA3_TEXT) {
        extra = head_norm_bytes(m, queries) + head_norm_bytes(m, keys);
    }
    if (c->family == PLM_CONFIG_PHI3) /* values keep the product that they are a part of */
        extra = m->computed * (queries + keys) + 2 * (double)c->width;
    if (m->computed == 4 && c->kv_heads < c->heads) /* fp32 with shared keys takes the plain way */
        return 4 * (4 * queries + (double)c->heads * (double)m->job->sequence) + extra;
    return m->computed * (queries + keys + values + out) + 4 * (double)c->heads + extra;
}

/* Linear attention, chunked in fp32: queries, keys and values after their convolution, gates. */
static double linear_bytes(const measure *m)
{
    const plm_config *c = m->c;
    double keys = (double)(c->linear_key_heads * c->linear_key_width);
    double values = (double)(c->linear_value_heads * c->linear_value_width);
    return 2 * m->computed * (2 * keys + values) + 4 * (2 * keys + 2 * values) +
           m->computed * 3 * values;
}

/* gelu_new is written out: its input, a half of that, the tanh, one more than that, and the
 * product, of which autocast makes three in fp32. */
static double written_gelu_bytes(const measure *m)
{
    return m->casts ? 4 + 2 + 4 + 4 : 4 * m->computed;
}

/* Of `width` hidden elements: gate, its activation and up, or the activation's input; and what the
 * last product reads. */
static double mlp_bytes(const measure *m, double width)
{
    bool is_gated = m->c->family != PLM_CONFIG_GPT2 && m->c->family != PLM_CONFIG_BERT;
    double kept = is_gated ? 3 * m->computed : m->computed;
    if (m->c->family == PLM_CONFIG_GPT2)
        kept = written_gelu_bytes(m);
    return width * (kept + (m->trains ? m->computed : 0));
}

static double experts_bytes(const measure *m)
{
    const plm_config *c = m->c;
    double chosen = (double)c->chosen_experts;
    double shared = (double)(c->shared_width + c->shared_experts * c->expert_width);
    double router = c->kv_rank > 0 ? 4 * (double)c->width : 0; /* DeepSeek's is in fp32 */
    return router +
           chosen * (mlp_bytes(m, (double)c->expert_width) + 2 * m->computed * (double)c->width) +
           mlp_bytes(m, shared) + 8 * (double)c->experts;
}

/* A layer of the language model, a token. */
static double layer_bytes(const measure *m, int64_t layer)
{
    const plm_config *c = m->c;
    double width = (double)c->width;
    bool has_four = c->family == PLM_CONFIG_GEMMA2 || c->family == PLM_CONFIG_GEMMA3 ||
                    c->family == PLM_CONFIG_GEMMA3_TEXT;
    double bytes = 2 * norm_bytes(m, width, true);
    if (has_four)
        bytes += 2 * norm_bytes(m, width, false);
    bytes +=
        cast_bytes(m, c->family == PLM_CONFIG_GPT2 ? 1 : 3, width) +
        cast_bytes(m, c->family == PLM_CONFIG_GPT2 || c->family == PLM_CONFIG_BERT ? 1 : 2, width);
    bytes += c->mixing[layer] == PLM_CONFIG_LINEAR ? linear_bytes(m) : attention_bytes(m);
    bytes += c->has_experts[layer] ? experts_bytes(m) : mlp_bytes(m, (double)c->mlp_width);
    return bytes + (c->dropout > 0 ? 2 * width : 0); /* masks */
}

typedef struct adapters {
    const plm_torch_job *job;
    const char *targets;
    double bytes; /* a token, of all modules */
    double size;  /* of a copied element */
} adapters;

/* An adapter's copy of its input, what it makes of that, and with dropout the mask. */
static plm_status add_adapter(const plm_weight *weight, void *user)
{
    adapters *a = user;
    plm_torch_adapter adapter = plm__torch_adapter_of(a->job, a->targets, weight);
    if (adapter.is_adapted && !weight->is_in_tower)
        a->bytes += a->size * (double)(adapter.in + a->job->rank) +
                    (a->job->lora_dropout > 0 ? (double)adapter.in : 0);
    return PLM_OK;
}

static double adapter_bytes(const measure *m)
{
    char targets[PLM_TORCH_LIST_TEXT];
    adapters a = {.job = m->job, .targets = targets, .size = m->job->autocasts ? 2 : 4};
    if (plm__torch_targets(m->c, m->job, targets) != PLM_OK ||
        plm_config_weights(m->c, PLM_WEIGHTS_IN_MEMORY, add_adapter, &a) != PLM_OK)
        return 0;
    return a.bytes;
}

/* The head and the loss, a token: fp32 log-probabilities are kept, in BERT of the type of its
 * logits, which autocast keeps too; beside them stands, in the backward pass, their gradient, twice
 * but for BERT under autocast. */
static void head_bytes(const measure *m, double *kept, double *beside)
{
    double vocab = (double)m->c->vocab;
    bool is_bert = m->c->family == PLM_CONFIG_BERT;
    double size = is_bert && !m->casts ? m->computed : 4; /* of a log-probability */
    *kept = norm_bytes(m, (double)m->c->width, true) + cast_bytes(m, 1, (double)m->c->width);
    *beside = 0;
    if (m->c->head != PLM_CONFIG_HEAD_TOKENS || m->job->fuses_loss)
        return;
    bool keeps_logits = m->c->logit_cap > 0 || (is_bert && m->casts);
    *kept += (size + (keeps_logits ? m->computed : 0)) * vocab;
    *beside = (is_bert ? 4 : 8) * vocab;
}

void plm__torch_activations(const plm_config *config, const plm_torch_job *job,
                            const plm_torch_bill *bill, double *kept, double *temporary)
{
    bool gathers_half = job->autocasts && job->shard >= PLM_TORCH_ZERO1; /* weights, for products */
    bool is_half = job->weights != PLM_DTYPE_F32 || gathers_half;
    measure m = {.c = config,
                 .job = job,
                 .stream = is_half ? 2 : 4,
                 .computed = is_half || job->autocasts ? 2 : 4,
                 .trains = job->lora[0] == '\0',
                 .casts = !is_half && job->autocasts};
    double tokens = (double)job->sequence * (double)job->batch, layers = 0, largest = 0, head,
           beside;
    for (int64_t i = 0; i < config->layers; i++) {
        double bytes = layer_bytes(&m, i);
        layers += bytes;
        largest = bytes > largest ? bytes : largest;
    }
    double adapted = m.trains ? 0 : adapter_bytes(&m);
    layers += adapted;
    largest += adapted / (double)config->layers;
    head_bytes(&m, &head, &beside);
    double inputs = (double)config->layers * m.stream * (double)config->width;
    *kept = tokens * ((job->recomputes ? inputs : layers) + head);
    if (job->recomputes) /* a layer is made again when the loss is done */
        beside = beside > largest ? beside : largest;
    *temporary = tokens * beside;
    if (m.casts) /* 16-bit copies of weights, till the backward pass has read them */
        *kept += 2.0 * (double)(config->vocab * config->width +
                                (job->recomputes ? 0 : bill->counts.matrix_elements));
}
