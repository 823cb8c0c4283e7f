/* SPDX-License-Identifier: MIT */
/* Bills of PyTorch's training: adapters, 4 bits, shards and moments against the reference's
 * answers; settings files; what is refused. */
#include "plimsoll/torch_bill.h"

#include "unit/models.h"
#include "unit/program.h"

static plm_torch_bill bill_of(const char *model, const plm_torch_job *job)
{
    plm_config config;
    plm_torch_bill bill;
    load_model(model, &config);
    assert_ok(plm_torch_bill_make(&config, job, &bill));
    return bill;
}

static size_t role(const plm_torch_bill *bill, plm_torch_role role)
{
    return bill->role_bytes[role];
}

static void put(char field[PLM_TORCH_LIST_TEXT], const char *text)
{
    snprintf(field, PLM_TORCH_LIST_TEXT, "%s", text);
}

static plm_torch_job lora_job(const char *targets, int64_t rank)
{
    plm_torch_job job = plm_torch_job_default();
    put(job.lora, targets);
    job.rank = rank;
    return job;
}

/* The reference's runs by name: what was adapted, and its rank. */
static const struct {
    const char *name, *targets, *saves, *exclude;
    int64_t rank;
} runs[] = {
    {"peft_default_r8", "default", "", "", 8},
    {"all-linear_r16", "all-linear", "", "", 16},
    {"seven_r64", "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj", "", "", 64},
    {"language_seven_r64", "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj", "",
     "vision_tower", 64},
    {"q_v_r16", "q_proj,v_proj", "", "", 16},
    {"q_v_r16_modules_to_save_embed_lm_head", "q_proj,v_proj", "embed_tokens,lm_head", "", 16},
    {"attention_r16", "q_proj,k_proj,v_proj,o_proj,q_a_proj,q_b_proj,kv_a_proj_with_mqa,kv_b_proj",
     "", "", 16},
};

static void check_run(const char *model, const char *name, const json_t *truth)
{
    size_t i = 0;
    while (i < sizeof runs / sizeof *runs && strcmp(runs[i].name, name) != 0)
        i++;
    if (i == sizeof runs / sizeof *runs)
        fail_msg("%s: no run is called %s", model, name);
    plm_torch_job job = lora_job(runs[i].targets, runs[i].rank);
    put(job.lora_saves, runs[i].saves);
    put(job.lora_exclude, runs[i].exclude);
    plm_config config;
    plm_torch_bill bill;
    load_model(model, &config);
    if (json_object_get(truth, "error")) {
        assert_int_equal(plm_torch_bill_make(&config, &job, &bill), PLM_ERROR_ARGUMENT);
        return;
    }
    assert_ok(plm_torch_bill_make(&config, &job, &bill));
    json_int_t modules = 0;
    const char *module;
    json_t *count;
    json_object_foreach (json_object_get(truth, "modules"), module, count)
        modules += json_integer_value(count);
    if (bill.trainable != model_number(truth, "trainable") || bill.adapted_modules != modules)
        fail_msg("%s, %s: %lld trained in %lld modules, wanted %lld in %lld", model, name,
                 (long long)bill.trainable, (long long)bill.adapted_modules,
                 model_number(truth, "trainable"), modules);
}

static void every_true_answer_of_adapters_holds(void **state)
{
    (void)state;
    json_t *document, *models = read_truth(&document), *truth, *run;
    const char *model, *name;
    int checked = 0;
    json_object_foreach (models, model, truth)
        json_object_foreach (json_object_get(truth, "lora"), name, run) {
            check_run(model, name, run);
            checked++;
        }
    assert_true(checked > 80);
    json_decref(document);
}

static void every_true_answer_of_four_bits_holds(void **state)
{
    (void)state;
    json_t *document, *models = read_truth(&document), *truth;
    const char *model;
    json_object_foreach (models, model, truth) {
        const json_t *nf4 = json_object_get(truth, "nf4");
        plm_torch_job job = lora_job("all-linear", 8);
        job.quantizes = true;
        plm_torch_bill bill = bill_of(model, &job);
        json_int_t packed = model_number(nf4, "packed_bytes");
        assert_int_equal(bill.quantized_weights, model_number(nf4, "linear_weights"));
        assert_int_equal(bill.quantized_bytes, packed + model_number(nf4, "absmax_fp32_bytes"));
        assert_int_equal(bill.quantized_constants_bytes, 64 * model_number(nf4, "linear_tensors"));
        job.double_quantizes = true;
        bill = bill_of(model, &job);
        assert_int_equal(bill.quantized_bytes, packed + model_number(nf4, "double_quant_bytes"));
        assert_int_equal(bill.quantized_constants_bytes,
                         (64 + 1028) * model_number(nf4, "linear_tensors"));
    }
    json_decref(document);
}

static void every_true_answer_of_shards_holds(void **state)
{
    (void)state;
    json_t *document, *models = read_truth(&document), *truth;
    const char *model;
    int checked = 0;
    json_object_foreach (models, model, truth) {
        const json_t *shards = json_object_get(truth, "fsdp2");
        for (size_t i = 0; i < json_array_size(shards); i++) {
            const json_t *shard = json_array_get(shards, i);
            plm_torch_job job = plm_torch_job_default();
            job.shard = PLM_TORCH_FSDP2;
            job.ranks = model_number(shard, "world");
            plm_torch_bill bill = bill_of(model, &job);
            assert_int_equal(bill.rank_elements, model_number(shard, "padded_local_numel"));
            assert_int_equal(role(&bill, PLM_TORCH_PARAMETERS), 4 * bill.rank_elements);
            assert_int_equal(role(&bill, PLM_TORCH_OPTIMIZER), 8 * bill.rank_elements);
            checked++;
        }
    }
    assert_true(checked >= 20);
    json_decref(document);
}

static void full_training_holds_sixteen_bytes_a_parameter_in_fp32_and_eight_in_bf16(void **state)
{
    (void)state;
    plm_torch_job job = plm_torch_job_default();
    plm_torch_bill bill = bill_of("Llama-3.2-1B", &job);
    const int64_t n = 1235814400;
    assert_int_equal(role(&bill, PLM_TORCH_PARAMETERS), 4 * n);
    assert_int_equal(role(&bill, PLM_TORCH_GRADIENTS), 4 * n);
    assert_int_equal(role(&bill, PLM_TORCH_OPTIMIZER), 8 * n);
    assert_int_equal(bill.trainable, n);
    assert_int_equal(bill.rank_elements, n);
    job.weights = PLM_DTYPE_BF16;
    bill = bill_of("Llama-3.2-1B", &job);
    assert_int_equal(role(&bill, PLM_TORCH_PARAMETERS), 2 * n);
    assert_int_equal(role(&bill, PLM_TORCH_OPTIMIZER), 4 * n);
}

static void moments_in_eight_bits_have_a_scale_for_256_and_small_tensors_keep_fp32(void **state)
{
    (void)state;
    static const char text[] = "{\"model_type\":\"llama\",\"hidden_size\":%d,\"intermediate_size\":"
                               "8,\"num_hidden_layers\":1,\"num_attention_heads\":1,\"vocab_size\":"
                               "1,\"tie_word_embeddings\":true}";
    plm_config config;
    plm_torch_bill bill;
    plm_torch_job job = plm_torch_job_default();
    char full[512];
    job.optim = PLM_TORCH_ADAMW8BIT;
    for (int width = 4095; width <= 4096; width++) { /* of the normalisations and the table */
        snprintf(full, sizeof full, text, width);
        assert_ok(plm_config_read("text", full, strlen(full), &config));
        assert_ok(plm_torch_bill_make(&config, &job, &bill));
        int64_t square = (int64_t)width * width, flat = 8 * (int64_t)width;
        int64_t large = 4 * (2 * square + 8 * ((square + 255) / 256)) +
                        3 * (2 * flat + 8 * ((flat + 255) / 256));
        int64_t small = 4 * (width < 4096 ? 8 * width : 2 * width + 8 * 16);
        assert_int_equal(role(&bill, PLM_TORCH_OPTIMIZER), large + small + 2048);
    }
    job.tables_keep_moments = true;
    size_t before = role(&bill, PLM_TORCH_OPTIMIZER);
    assert_ok(plm_torch_bill_make(&config, &job, &bill));
    assert_int_equal(role(&bill, PLM_TORCH_OPTIMIZER), before + 8 * 4096 - (2 * 4096 + 8 * 16));
}

static void other_optimizers_keep_what_they_keep(void **state)
{
    (void)state;
    plm_torch_job job = plm_torch_job_default();
    job.optim = PLM_TORCH_SGD;
    plm_torch_bill bill = bill_of("gpt2", &job);
    assert_int_equal(role(&bill, PLM_TORCH_OPTIMIZER), 0);
    job.optim = PLM_TORCH_MOMENTUM;
    bill = bill_of("gpt2", &job);
    assert_int_equal(role(&bill, PLM_TORCH_OPTIMIZER), 4 * 124439808);
    job.optim = PLM_TORCH_ADAFACTOR;
    bill = bill_of("gpt2", &job);
    int64_t layer = (768 + 2304) + (768 + 768) + 2 * (768 + 3072) + 2304 + 768 + 3072 + 768 +
                    4 * 768; /* matrices, biases, normalisations */
    assert_int_equal(role(&bill, PLM_TORCH_OPTIMIZER),
                     4 * (12 * layer + 50257 + 768 + 1024 + 768 + 2 * 768));
}

static void modules_are_meant_by_their_whole_names(void **state)
{
    (void)state;
    plm_config config;
    plm_torch_bill bill;
    plm_torch_job job = lora_job("proj", 8); /* the end of q_proj, and no module */
    load_model("Llama-3.2-1B", &config);
    assert_int_equal(plm_torch_bill_make(&config, &job, &bill), PLM_ERROR_ARGUMENT);
    put(job.lora, "self_attn.q_proj");
    assert_ok(plm_torch_bill_make(&config, &job, &bill));
    assert_int_equal(bill.adapted_modules, 16);
}

static void adapters_are_in_fp32_on_a_base_of_16_bits(void **state)
{
    (void)state;
    plm_torch_job job = lora_job("q_proj,v_proj", 16);
    job.weights = PLM_DTYPE_BF16;
    plm_torch_bill bill = bill_of("Llama-3.2-1B", &job);
    assert_int_equal(role(&bill, PLM_TORCH_PARAMETERS), 2 * 1235814400ll + 4 * 1703936);
    assert_int_equal(role(&bill, PLM_TORCH_GRADIENTS), 4 * 1703936);
    assert_int_equal(role(&bill, PLM_TORCH_OPTIMIZER), 8 * 1703936);
    job.shard = PLM_TORCH_ZERO2; /* DeepSpeed casts them too */
    job.ranks = 2;
    bill = bill_of("Llama-3.2-1B", &job);
    assert_int_equal(role(&bill, PLM_TORCH_PARAMETERS), 2 * (1235814400ll + 1703936));
    assert_int_equal(role(&bill, PLM_TORCH_MASTER), 4 * 1703936 / 2);
    job = lora_job("q_proj,v_proj", 16);
    job.weights = PLM_DTYPE_BF16;
    put(job.lora_saves, "embed_tokens,lm_head"); /* two copies of a tied table */
    bill = bill_of("Llama-3.2-1B", &job);
    assert_int_equal(bill.trainable, 527040512);
    assert_int_equal(role(&bill, PLM_TORCH_PARAMETERS),
                     2 * (1235814400 + 2 * 128256 * 2048ll) + 4 * 1703936);
}

static void a_base_in_four_bits_keeps_the_rest_or_makes_it_fp32(void **state)
{
    (void)state;
    plm_torch_job job = lora_job("all-linear", 16);
    const int64_t rest = 8030261248ll - 6979321856ll, packed = 3489660928ll + 436207616 + 64 * 224;
    job.weights = PLM_DTYPE_BF16;
    job.quantizes = true;
    plm_torch_bill bill = bill_of("Meta-Llama-3-8B", &job);
    assert_int_equal(role(&bill, PLM_TORCH_PARAMETERS), packed + 2 * rest + 4 * 41943040ll);
    job.prepares = true;
    bill = bill_of("Meta-Llama-3-8B", &job);
    assert_int_equal(role(&bill, PLM_TORCH_PARAMETERS), packed + 4 * rest + 4 * 41943040ll);
    job.lora[0] = '\0';
    plm_config config;
    load_model("Meta-Llama-3-8B", &config);
    assert_int_equal(plm_torch_bill_make(&config, &job, &bill), PLM_ERROR_ARGUMENT);
}

static void ddp_holds_buckets_as_large_as_its_gradients(void **state)
{
    (void)state;
    plm_torch_job job = plm_torch_job_default();
    job.shard = PLM_TORCH_DDP;
    job.ranks = 8;
    plm_torch_bill bill = bill_of("gpt2", &job);
    assert_int_equal(role(&bill, PLM_TORCH_BUCKETS), 4 * 124439808);
    assert_int_equal(bill.rank_elements, 124439808);
    job.buckets_are_gradients = true;
    bill = bill_of("gpt2", &job);
    assert_int_equal(role(&bill, PLM_TORCH_BUCKETS), 0);
}

static void zero_cuts_moments_then_gradients_then_parameters(void **state)
{
    (void)state;
    plm_torch_job job = plm_torch_job_default();
    const int64_t n = 1235814400, ranks = 8, part = n / ranks; /* divides */
    job.shard = PLM_TORCH_ZERO1;
    job.ranks = ranks;
    job.autocasts = true;
    plm_torch_bill bill = bill_of("Llama-3.2-1B", &job);
    assert_int_equal(role(&bill, PLM_TORCH_PARAMETERS), 2 * n);
    assert_int_equal(role(&bill, PLM_TORCH_MASTER), 4 * part);
    assert_int_equal(role(&bill, PLM_TORCH_OPTIMIZER), 8 * part);
    assert_int_equal(role(&bill, PLM_TORCH_GRADIENTS), 2 * n);
    job.shard = PLM_TORCH_ZERO2;
    bill = bill_of("Llama-3.2-1B", &job);
    assert_int_equal(role(&bill, PLM_TORCH_GRADIENTS), 2 * part);
    assert_int_equal(role(&bill, PLM_TORCH_BUCKETS), 2 * 500000000);
    job.overlaps = true;
    job.shard = PLM_TORCH_ZERO3;
    bill = bill_of("Llama-3.2-1B", &job);
    assert_int_equal(role(&bill, PLM_TORCH_PARAMETERS), 2 * part);
    assert_int_equal(bill.rank_elements, part);
    job.offloads_optimizer = true;
    bill = bill_of("Llama-3.2-1B", &job);
    assert_int_equal(role(&bill, PLM_TORCH_OPTIMIZER) + role(&bill, PLM_TORCH_MASTER), 0);
    job.ranks = 7; /* each tensor is padded to the ranks */
    job.offloads_optimizer = false;
    bill = bill_of("Llama-3.2-1B", &job);
    assert_true(bill.rank_elements * 7 >= n && bill.rank_elements * 7 < n + 7 * 146);
    job.shard = PLM_TORCH_ZERO1; /* a group of the optimizer to twice the ranks */
    bill = bill_of("Llama-3.2-1B", &job);
    int64_t norms = 67584, others = n - norms;
    assert_int_equal(role(&bill, PLM_TORCH_MASTER),
                     4 * 2 * ((others + 13) / 14 + (norms + 13) / 14));
}

static void ranks_that_gather_16_bits_keep_the_activations_of_16_bits(void **state)
{
    (void)state;
    plm_torch_job job = plm_torch_job_default();
    job.weights = PLM_DTYPE_BF16;
    plm_torch_bill bill = bill_of("Llama-3.2-1B", &job);
    size_t half = role(&bill, PLM_TORCH_ACTIVATIONS);
    job.weights = PLM_DTYPE_F32;
    job.autocasts = true;
    bill = bill_of("Llama-3.2-1B", &job);
    assert_true(role(&bill, PLM_TORCH_ACTIVATIONS) > half);
    job.ranks = 2;
    for (int shard = PLM_TORCH_ZERO1; shard <= PLM_TORCH_FSDP2; shard++) {
        job.shard = (plm_torch_shard)shard;
        bill = bill_of("Llama-3.2-1B", &job);
        assert_int_equal(role(&bill, PLM_TORCH_ACTIVATIONS), half);
    }
}

static void fsdp_1_cuts_units_and_not_tensors(void **state)
{
    (void)state;
    plm_torch_job job = plm_torch_job_default();
    job.shard = PLM_TORCH_FSDP1;
    job.ranks = 6;
    plm_torch_bill bill = bill_of("Llama-3.2-1B", &job);
    const int64_t layer = 60821504, root = 262670336;
    assert_int_equal(bill.rank_elements, 16 * ((layer + 5) / 6) + (root + 5) / 6);
}

/* Activations that forecasts of real scripts measured, in megabytes, with sequences of 1024 tokens:
 * transformers 5.17, peft 0.21, PyTorch 2.11. */
static const struct {
    const char *config, *lora;
    plm_dtype weights;
    bool autocasts, recomputes;
    int64_t rank, batch;
    double measured;
} measured[] = {
#define LLAMA(kv)                                                                                  \
    "{\"model_type\":\"llama\",\"hidden_size\":1024,\"intermediate_size\":2816,"                   \
    "\"num_hidden_layers\":4,\"num_attention_heads\":16,\"num_key_value_heads\":" #kv              \
    ",\"vocab_size\":32000}"
    {LLAMA(16), "", PLM_DTYPE_BF16, 0, 0, 8, 4, 1332.1},
    {LLAMA(4), "", PLM_DTYPE_BF16, 0, 0, 8, 4, 1283.9},
    {LLAMA(4), "", PLM_DTYPE_F32, 1, 0, 8, 4, 1631.8},
    {LLAMA(4), "", PLM_DTYPE_F32, 0, 0, 8, 4, 3058.4},
    {LLAMA(4), "", PLM_DTYPE_BF16, 0, 1, 8, 4, 591.7},
    {LLAMA(4), "", PLM_DTYPE_F32, 1, 1, 8, 4, 699.5},
    {LLAMA(4), "q_proj,v_proj", PLM_DTYPE_BF16, 0, 0, 8, 4, 1157.0},
    {LLAMA(4), "all-linear", PLM_DTYPE_BF16, 0, 0, 16, 4, 1616.3},
    {LLAMA(4), "all-linear", PLM_DTYPE_BF16, 1, 0, 16, 4, 1321.2},
    {LLAMA(4), "q_proj,v_proj", PLM_DTYPE_F32, 1, 0, 8, 4, 1245.5},
    {LLAMA(4), "all-linear", PLM_DTYPE_BF16, 0, 1, 8, 4, 559.2},
    {"{\"model_type\":\"qwen3\",\"hidden_size\":1024,\"intermediate_size\":3072,\"num_hidden_"
     "layers\":4,\"num_attention_heads\":16,\"num_key_value_heads\":8,\"head_dim\":128,\"vocab_"
     "size\":32000}",
     "", PLM_DTYPE_BF16, 0, 0, 8, 4, 1735.6},
    {"{\"model_type\":\"qwen3\",\"hidden_size\":1024,\"intermediate_size\":3072,\"num_hidden_"
     "layers\":4,\"num_attention_heads\":16,\"num_key_value_heads\":8,\"head_dim\":128,\"vocab_"
     "size\":32000}",
     "", PLM_DTYPE_F32, 1, 0, 8, 4, 2104.7},
    {"{\"model_type\":\"qwen3\",\"hidden_size\":1024,\"intermediate_size\":3072,\"num_hidden_"
     "layers\":4,\"num_attention_heads\":16,\"num_key_value_heads\":8,\"head_dim\":128,\"vocab_"
     "size\":32000}",
     "all-linear", PLM_DTYPE_BF16, 0, 0, 8, 4, 2041.2},
    {"{\"model_type\":\"gemma3_text\",\"hidden_size\":1152,\"intermediate_size\":6912,\"num_hidden_"
     "layers\":4,\"num_attention_heads\":4,\"num_key_value_heads\":1,\"head_dim\":256,\"vocab_"
     "size\":32000}",
     "", PLM_DTYPE_BF16, 0, 0, 8, 4, 2415.7},
    {"{\"model_type\":\"gemma3_text\",\"hidden_size\":1152,\"intermediate_size\":6912,\"num_hidden_"
     "layers\":4,\"num_attention_heads\":4,\"num_key_value_heads\":1,\"head_dim\":256,\"vocab_"
     "size\":32000}",
     "", PLM_DTYPE_F32, 1, 0, 8, 4, 2825.8},
    {"{\"model_type\":\"gemma3_text\",\"hidden_size\":1152,\"intermediate_size\":6912,\"num_hidden_"
     "layers\":4,\"num_attention_heads\":4,\"num_key_value_heads\":1,\"head_dim\":256,\"vocab_"
     "size\":32000}",
     "all-linear", PLM_DTYPE_BF16, 0, 0, 8, 4, 2581.0},
    {"{\"model_type\":\"gemma2\",\"hidden_size\":1152,\"intermediate_size\":6912,\"num_hidden_"
     "layers\":4,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":256,\"vocab_"
     "size\":32000}",
     "", PLM_DTYPE_BF16, 0, 0, 8, 4, 2526.0},
    {"{\"model_type\":\"phi3\",\"hidden_size\":1024,\"intermediate_size\":2816,\"num_hidden_"
     "layers\":4,\"num_attention_heads\":16,\"num_key_value_heads\":4,\"vocab_size\":32000}",
     "", PLM_DTYPE_BF16, 0, 0, 8, 4, 1357.8},
    {"{\"model_type\":\"gpt2\",\"n_layer\":4}", "", PLM_DTYPE_BF16, 0, 0, 8, 4, 1571.8},
    {"{\"model_type\":\"gpt2\",\"n_layer\":4}", "", PLM_DTYPE_F32, 1, 0, 8, 4, 2065.7},
    {"{\"model_type\":\"gpt2\",\"n_layer\":4}", "", PLM_DTYPE_F32, 0, 0, 8, 4, 2288.9},
    {"{\"model_type\":\"gpt2\",\"n_layer\":4}", "c_attn", PLM_DTYPE_BF16, 0, 0, 8, 4, 1455.1},
    {"{\"model_type\":\"bert\",\"num_hidden_layers\":4}", "", PLM_DTYPE_BF16, 0, 0, 8, 4, 713.7},
    {"{\"model_type\":\"bert\",\"num_hidden_layers\":4}", "", PLM_DTYPE_F32, 1, 0, 8, 4, 1443.2},
    {"{\"model_type\":\"deepseek_v3\",\"hidden_size\":512,\"intermediate_size\":1024,\"moe_"
     "intermediate_size\":256,\"num_hidden_layers\":3,\"first_k_dense_replace\":1,\"num_attention_"
     "heads\":8,\"num_key_value_heads\":8,\"n_routed_experts\":8,\"n_group\":2,\"topk_group\":1,"
     "\"num_experts_per_tok\":2,\"q_lora_rank\":256,\"kv_lora_rank\":128,\"vocab_size\":32000}",
     "", PLM_DTYPE_BF16, 0, 0, 8, 2, 496.0},
    {"{\"model_type\":\"qwen3_moe\",\"hidden_size\":512,\"moe_intermediate_size\":256,\"num_hidden_"
     "layers\":3,\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":64,\"num_"
     "experts\":8,\"num_experts_per_tok\":2,\"vocab_size\":32000}",
     "", PLM_DTYPE_BF16, 0, 0, 8, 2, 411.9},
};

static void activations_are_within_five_percent_of_what_forecasts_measure(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        plm_config config;
        plm_torch_bill bill;
        plm_torch_job job = lora_job(measured[i].lora, measured[i].rank);
        job.weights = measured[i].weights;
        job.autocasts = measured[i].autocasts;
        job.recomputes = measured[i].recomputes;
        job.batch = measured[i].batch;
        assert_ok(plm_config_read("text", measured[i].config, strlen(measured[i].config), &config));
        assert_ok(plm_torch_bill_make(&config, &job, &bill));
        double share = (double)role(&bill, PLM_TORCH_ACTIVATIONS) / measured[i].measured / 1e6;
        if (!(share > 0.95 && share < 1.05))
            fail_msg("case %zu: %.3f of what was measured", i, share);
    }
}

/* ---- settings ------------------------------------------------------------------------------- */

static plm_status read_settings(const char *name, const char *text, plm_torch_job *job)
{
    plm_config config;
    load_model("Llama-3.2-1B", &config);
    return plm_torch_settings_read(name, text, strlen(text), &config, job);
}

static void training_arguments_are_read(void **state)
{
    (void)state;
    plm_torch_job job = plm_torch_job_default();
    assert_ok(read_settings("arguments.json",
                            "{\"per_device_train_batch_size\":4,\"gradient_checkpointing\":true,"
                            "\"bf16\":true,\"optim\":\"adamw_bnb_8bit\",\"max_length\":512,"
                            "\"use_liger_kernel\":true,\"learning_rate\":1e-5,\"fsdp\":"
                            "\"full_shard auto_wrap\",\"fsdp_config\":{\"version\":2,"
                            "\"reshard_after_forward\":false}}",
                            &job));
    assert_int_equal(job.batch, 4);
    assert_int_equal(job.sequence, 512);
    assert_true(job.recomputes && job.autocasts && job.fuses_loss && job.keeps_gathered);
    assert_int_equal(job.optim, PLM_TORCH_ADAMW8BIT);
    assert_true(job.tables_keep_moments);
    assert_int_equal(job.shard, PLM_TORCH_FSDP2);
}

static void deepspeed_s_settings_are_read_alone_and_inside_of_others(void **state)
{
    (void)state;
    plm_torch_job job = plm_torch_job_default();
    assert_ok(read_settings(
        "ds.json",
        "{\"train_micro_batch_size_per_gpu\":2,\"bf16\":{\"enabled\":true},\"zero_optimization\":"
        "{\"stage\":3,\"reduce_bucket_size\":\"auto\",\"stage3_param_persistence_threshold\":"
        "\"auto\",\"offload_optimizer\":{\"device\":\"cpu\"},"
        "\"overlap_comm\":false},\"data_types\":{\"grad_accum_dtype\":\"fp32\"}}",
        &job));
    assert_int_equal(job.shard, PLM_TORCH_ZERO3);
    assert_int_equal(job.batch, 2);
    assert_int_equal(job.reduce_bucket, 2048 * 2048);
    assert_int_equal(job.persistence, 20480);
    assert_true(job.autocasts && job.offloads_optimizer && job.gradients_in_fp32);
    assert_false(job.overlaps);
    job = plm_torch_job_default();
    assert_ok(
        read_settings("arguments.json",
                      "{\"per_device_train_batch_size\":8,\"deepspeed\":{\"zero_optimization\""
                      ":{\"stage\":2},\"train_micro_batch_size_per_gpu\":\"auto\"}}",
                      &job));
    assert_int_equal(job.shard, PLM_TORCH_ZERO2);
    assert_int_equal(job.batch, 8);
}

static void accelerate_s_config_is_read_in_yaml(void **state)
{
    (void)state;
    plm_torch_job job = plm_torch_job_default();
    assert_ok(read_settings("default_config.yaml",
                            "compute_environment: LOCAL_MACHINE # here\n"
                            "distributed_type: FSDP\n"
                            "downcast_bf16: 'no'\n"
                            "fsdp_config:\n"
                            "  fsdp_version: 2\n"
                            "  fsdp_reshard_after_forward: true\n"
                            "  fsdp_activation_checkpointing: true\n"
                            "mixed_precision: bf16\n"
                            "num_processes: 4\n"
                            "use_cpu: false\n",
                            &job));
    assert_int_equal(job.shard, PLM_TORCH_FSDP2);
    assert_int_equal(job.ranks, 4);
    assert_true(job.autocasts && job.recomputes && !job.keeps_gathered);
}

static void adapters_and_four_bits_are_read(void **state)
{
    (void)state;
    plm_torch_job job = plm_torch_job_default();
    assert_ok(read_settings("adapter_config.json",
                            "{\"r\":16,\"lora_dropout\":0.05,\"target_modules\":[\"q_proj\","
                            "\"v_proj\"],\"modules_to_save\":null,\"load_in_4bit\":true,"
                            "\"bnb_4bit_use_double_quant\":true}",
                            &job));
    assert_string_equal(job.lora, "q_proj,v_proj");
    assert_int_equal(job.rank, 16);
    assert_true(job.lora_dropout == 0.05 && job.quantizes && job.double_quantizes);
}

static const struct {
    const char *name, *text, *told;
} refusals[] = {
    {"a.json", "[]", "a.json: wanted an object of settings"},
    {"a.json", "{\"optim\":\"lion_8bit_\"}", "for optim, found 'lion_8bit_'"},
    {"a.json", "{\"bf16\":\"yes\"}", "wanted true or false for bf16, found 'yes'"},
    {"a.json", "{\"per_device_train_batch_size\":0}", "per_device_train_batch_size, found 0"},
    {"a.json", "{\"zero_optimization\":{\"stage\":4}}", "a stage from 0 to 3"},
    {"a.json", "{\"deepspeed\":\"ds.json\"}", "found the name of a file"},
    {"a.json", "{\"r\":1.5}", "a whole number for r"},
    {"a.json", "{\"target_modules\":[1]}", "names of at most 256 bytes"},
    {"a.json", "{\"mixed_precision\":\"int8\"}", "for mixed_precision, found 'int8'"},
    {"a.yaml", "a: 1\n- b\n", "wanted 'key: value', found another line at 2"},
    {"a.yaml", "  a: 1\n", "found another line at 1"},
    {"a.yaml", "a: \xff\n", "wanted UTF-8"},
};

static void wrong_settings_are_named_and_nothing_changes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        plm_torch_job job = plm_torch_job_default(), before = job;
        plm_error error;
        assert_int_equal(read_settings(refusals[i].name, refusals[i].text, &job), PLM_ERROR_FORMAT);
        plm_error_get(&error);
        if (!strstr(error.message, refusals[i].told))
            fail_msg("%s: %s", refusals[i].text, error.message);
        assert_memory_equal(&job, &before, sizeof job);
    }
}

typedef struct sweep {
    plm_config config;
    plm_torch_job job;
    plm_torch_bill bill;
    const char *name, *text;
} sweep;

static plm_status read_again(void *context)
{
    sweep *s = context;
    return plm_torch_settings_read(s->name, s->text, strlen(s->text), &s->config, &s->job);
}

static plm_status write_reports(void *context)
{
    sweep *s = context;
    plm_torch_entry entries[] = {{&s->config, &s->bill, "card", (size_t)1 << 34, 1 << 29},
                                 {&s->config, &s->bill, NULL, 0, 0}};
    plm_report_style style = {0};
    for (int count = 1; count <= 2; count++) {
        char *text = NULL, *line = NULL;
        plm_status status = plm_report_torch_bill_text(entries, count, style, &text);
        if (status == PLM_OK)
            status = plm_report_torch_bill_json(entries, count, &line);
        plm_free(text);
        plm_free(line);
        if (status != PLM_OK)
            return status;
    }
    return PLM_OK;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    sweep s = {.job = lora_job("all-linear", 16)};
    s.job.quantizes = true;
    s.job.shard = PLM_TORCH_FSDP2;
    s.job.ranks = 2;
    load_model("Llama-3.2-1B", &s.config);
    assert_ok(plm_torch_bill_make(&s.config, &s.job, &s.bill));
    sweep_failures(write_reports, &s);
    s.name = "a.json";
    s.text = "{\"bf16\":true,\"zero_optimization\":{\"stage\":2}}";
    sweep_failures(read_again, &s);
    s.name = "a.yaml";
    s.text = "mixed_precision: bf16\nfsdp_config:\n  fsdp_version: 2\nnum_processes: 2\n";
    sweep_failures(read_again, &s);
}

/* ---- the program ---------------------------------------------------------------------------- */

static void the_program_bills_pytorch(void **state)
{
    (void)state;
    static char output[OUTPUT_BYTES];
    json_t *answer =
        run_json("bill", MODELS "configs/Llama-3.2-1B.json --as torch --ranks 6 --shard fsdp2", 0);
    assert_int_equal(json_number(answer, "rank_elements"), 206187542);
    assert_int_equal(json_number(answer, "trainable_parameter_count"), 1235814400);
    json_decref(answer);
    answer = run_json("bill",
                      MODELS "configs/Mixtral-8x7B-v0.1.json --as torch --quantize nf4 --lora "
                             "q_proj,v_proj --rank 16",
                      0);
    assert_int_equal(json_number(answer, "quantized_weight_count"), 1342177280);
    assert_int_equal(json_number(answer, "trainable_parameter_count"), 6815744);
    json_decref(answer);
    assert_int_equal(run_program("bill " MODELS "configs/Qwen2.5-7B.json --as torch --lora "
                                 "all-linear --rank 16 --seq 2048 --batch 4 --target rtx4090",
                                 to_output, output),
                     1);
    assert_non_null(strstr(output, "It does not fit 23.04 GiB on rtx4090"));
    assert_non_null(strstr(output, "plimsoll forecast gives the exact answer"));
    assert_refused("bill", MODELS "configs/phi-4.json --as torch --lora default", "peft has none");
    assert_refused("bill", MODELS "configs/gpt2.json --as torch --lora q_proj", "called q_proj");
    assert_refused("bill", MODELS "configs/gpt2.json --as torch --shard zero1", "2 ranks or more");
    assert_refused("bill", MODELS "configs/gpt2.json --as torch --quantize nf4", "wanted LoRA");
    assert_refused("bill", MODELS "configs/gpt2.json --as torch --settings /no/such", "/no/such");
    assert_refused("bill", MODELS "configs/gpt2.json --as torch --lora \"$(printf '%0256d' 1)\"",
                   "less than 256 bytes");
}

static void several_models_make_one_table_of_training_too(void **state)
{
    (void)state;
    static char output[OUTPUT_BYTES];
    assert_int_equal(run_program("bill " MODELS "configs/gpt2.json " MODELS
                                 "configs/SmolLM2-135M.json --as torch --target l4,h200",
                                 to_output, output),
                     0);
    assert_non_null(strstr(output, "SmolLM2-135M  h200"));
    json_t *answer = run_json(
        "bill", MODELS "configs/gpt2.json " MODELS "configs/SmolLM2-135M.json --as torch", 0);
    assert_int_equal(json_array_size(json_object_get(answer, "bills")), 2);
    json_decref(answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_true_answer_of_adapters_holds),
        cmocka_unit_test(every_true_answer_of_four_bits_holds),
        cmocka_unit_test(every_true_answer_of_shards_holds),
        cmocka_unit_test(full_training_holds_sixteen_bytes_a_parameter_in_fp32_and_eight_in_bf16),
        cmocka_unit_test(moments_in_eight_bits_have_a_scale_for_256_and_small_tensors_keep_fp32),
        cmocka_unit_test(other_optimizers_keep_what_they_keep),
        cmocka_unit_test(modules_are_meant_by_their_whole_names),
        cmocka_unit_test(adapters_are_in_fp32_on_a_base_of_16_bits),
        cmocka_unit_test(a_base_in_four_bits_keeps_the_rest_or_makes_it_fp32),
        cmocka_unit_test(ddp_holds_buckets_as_large_as_its_gradients),
        cmocka_unit_test(zero_cuts_moments_then_gradients_then_parameters),
        cmocka_unit_test(ranks_that_gather_16_bits_keep_the_activations_of_16_bits),
        cmocka_unit_test(fsdp_1_cuts_units_and_not_tensors),
        cmocka_unit_test(activations_are_within_five_percent_of_what_forecasts_measure),
        cmocka_unit_test(training_arguments_are_read),
        cmocka_unit_test(deepspeed_s_settings_are_read_alone_and_inside_of_others),
        cmocka_unit_test(accelerate_s_config_is_read_in_yaml),
        cmocka_unit_test(adapters_and_four_bits_are_read),
        cmocka_unit_test(wrong_settings_are_named_and_nothing_changes),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(the_program_bills_pytorch),
        cmocka_unit_test(several_models_make_one_table_of_training_too),
    };
    return run_test_group(tests);
}
