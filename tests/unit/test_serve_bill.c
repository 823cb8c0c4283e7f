/* SPDX-License-Identifier: MIT */
/* Bills of serving: caches against those of the reference, weights by type, shares, what fits. */
#include "plimsoll/serve_bill.h"

#include "unit/models.h"
#include "unit/program.h"

static plm_serve_bill bill_of(const char *model, const plm_serve_job *job)
{
    plm_config config;
    plm_serve_bill bill;
    load_model(model, &config);
    assert_ok(plm_serve_bill_make(&config, job, &bill));
    return bill;
}

static plm_serve_bill bill_at(const char *model, int64_t sequence)
{
    plm_serve_job job = plm_serve_job_default();
    job.sequence = sequence;
    return bill_of(model, &job);
}

static void check_lengths(const char *name, const json_t *truth)
{
    const char *length;
    json_t *wanted;
    json_object_foreach (json_object_get(truth, "kv_bf16"), length, wanted) {
        plm_serve_job job = plm_serve_job_default();
        job.sequence = strtoll(length, NULL, 10);
        plm_serve_bill bill = bill_of(name, &job);
        assert_int_equal(bill.cache_bytes_per_sequence, model_number(wanted, "window_kept"));
        job.caches_all_tokens = true;
        bill = bill_of(name, &job);
        assert_int_equal(bill.cache_bytes_per_sequence, model_number(wanted, "all_tokens_kept"));
    }
    json_object_foreach (json_object_get(truth, "kv_bf16_hf_dynamic"), length, wanted) {
        plm_serve_bill bill = bill_at(name, strtoll(length, NULL, 10));
        assert_int_equal(bill.dynamic_cache_bytes, model_number(wanted, "bytes"));
    }
}

static void every_true_answer_of_caches_holds(void **state)
{
    (void)state;
    json_t *document, *models = read_truth(&document), *truth;
    const char *name;
    int checked = 0;
    json_object_foreach (models, name, truth) {
        json_t *elements = json_object_get(truth, "kv_elements_per_token_per_attention_layer");
        if (!elements)
            continue;
        check_lengths(name, truth);
        assert_int_equal(bill_at(name, 1000).cached_elements, json_integer_value(elements));
        checked++;
    }
    assert_int_equal(checked, 26); /* all but the two BERTs */
    json_decref(document);
}

static void weights_are_counted_in_the_type_that_they_are_stored_in(void **state)
{
    (void)state;
    plm_serve_job job = plm_serve_job_default();
    assert_int_equal(bill_of("Llama-3.2-1B", &job).weights_bytes, 2 * 1235814400ll);
    assert_int_equal(bill_of("gemma-2-2b", &job).weights_bytes, 4 * 2614341888ll);
    assert_int_equal(bill_of("gpt2", &job).weights_bytes, 4 * 124439808ll); /* says no type */
    assert_int_equal(bill_of("DeepSeek-V3", &job).weights_bytes, 2 * 671026404352ll + 4 * 14848);
    job.weights = PLM_STORED_NF4;
    assert_int_equal(bill_of("Llama-3.2-1B", &job).weights_bytes,
                     486539264ll + 60817408 + 2 * (1235814400ll - 973078528));
    job.weights = PLM_STORED_Q8_0;
    assert_int_equal(bill_of("Llama-3.2-1B", &job).weights_bytes,
                     (1235814400ll - 67584) / 32 * 34 + 4 * 67584);
    job.weights = PLM_STORED_FP8;
    assert_int_equal(bill_of("Mixtral-8x7B-v0.1", &job).weights_bytes,
                     46702792704ll + 2 * 131072000ll + 266240 + 1048576);
}

static void a_quantised_checkpoint_is_counted_by_its_scheme(void **state)
{
    (void)state;
    static const char text[] =
        "{\"model_type\":\"llama\",\"hidden_size\":256,\"intermediate_size\":512,\"vocab_size\":"
        "320,\"num_hidden_layers\":1,\"num_attention_heads\":4,\"dtype\":\"bfloat16\","
        "\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}}";
    plm_config config;
    plm_serve_bill bill;
    plm_serve_job job = plm_serve_job_default();
    int64_t matrices = 4 * 256 * 256 + 3 * 256 * 512, others = 2 * 320 * 256 + 3 * 256;
    assert_ok(plm_config_read("text", text, strlen(text), &config));
    assert_ok(plm_serve_bill_make(&config, &job, &bill));
    assert_int_equal(bill.weights_bytes, matrices + matrices / (128 * 128) * 4 + 2 * others);
    config.quantizer = PLM_CONFIG_QUANTIZER_GPTQ;
    config.quantizer_bits = 4;
    assert_ok(plm_serve_bill_make(&config, &job, &bill));
    int64_t groups = matrices / 128, inputs = 6 * 256 + 512;
    assert_int_equal(bill.weights_bytes,
                     matrices / 2 + groups * 2 + groups / 2 + 4 * inputs + 2 * others);
    config.quantizer = PLM_CONFIG_QUANTIZER_OTHER;
    assert_int_equal(plm_serve_bill_make(&config, &job, &bill), PLM_ERROR_UNSUPPORTED);
    job.weights = PLM_STORED_BF16;
    assert_ok(plm_serve_bill_make(&config, &job, &bill));
}

static void caches_may_be_quantised_keys_and_values_apart(void **state)
{
    (void)state;
    plm_serve_job job = plm_serve_job_default();
    job.sequence = 1000;
    int64_t elements = 16 * 1000 * 512ll; /* of keys in Llama-3.2-1B */
    job.keys = job.values = PLM_STORED_Q8_0;
    assert_int_equal(bill_of("Llama-3.2-1B", &job).cache_bytes, 2 * elements / 32 * 34);
    job.values = PLM_STORED_Q4_0;
    assert_int_equal(bill_of("Llama-3.2-1B", &job).cache_bytes,
                     elements / 32 * 34 + elements / 32 * 18);
    job.keys = job.values = PLM_STORED_FP8;
    assert_int_equal(bill_of("Llama-3.2-1B", &job).cache_bytes, 2 * elements);
    job.batch = 3;
    assert_int_equal(bill_of("Llama-3.2-1B", &job).cache_bytes, 3 * 2 * elements);
}

static void heads_are_shared_by_gpus_but_never_split(void **state)
{
    (void)state;
    plm_serve_job job = plm_serve_job_default();
    job.sequence = 1000;
    size_t whole = bill_of("Llama-3.1-8B", &job).cache_bytes;
    job.parallel = 8;
    assert_int_equal(bill_of("Llama-3.1-8B", &job).cache_bytes, whole / 8);
    job.parallel = 16; /* of 8 heads with keys, each on two GPUs */
    assert_int_equal(bill_of("Llama-3.1-8B", &job).cache_bytes, whole / 8);
    job.parallel = 1;
    whole = bill_of("DeepSeek-V3", &job).cache_bytes;
    job.parallel = 8; /* a latent is on each */
    assert_int_equal(bill_of("DeepSeek-V3", &job).cache_bytes, whole);
    job.parallel = 3;
    plm_config config;
    plm_serve_bill bill;
    load_model("Llama-3.1-8B", &config);
    assert_int_equal(plm_serve_bill_make(&config, &job, &bill), PLM_ERROR_ARGUMENT);
}

static void weights_are_shared_but_for_normalisations(void **state)
{
    (void)state;
    plm_serve_job job = plm_serve_job_default();
    job.parallel = 2;
    int64_t norms = 32 * 2 * 4096 + 4096;
    assert_int_equal(bill_of("Llama-3.1-8B", &job).weights_bytes,
                     2 * ((8030261248ll - norms) / 2 + norms));
    job.parallel = 16; /* keys and values of one head in place of half a one */
    int64_t keys = 32 * 2 * 1024 * 4096ll;
    assert_int_equal(bill_of("Llama-3.1-8B", &job).weights_bytes,
                     2 * ((8030261248ll - norms - keys) / 16 + keys / 8 + norms));
}

static void pages_round_up_what_is_kept(void **state)
{
    (void)state;
    plm_serve_job job = plm_serve_job_default();
    job.page = 16;
    job.sequence = 1008;
    size_t full = bill_of("Llama-3.2-1B", &job).cache_bytes;
    job.sequence = 1007;
    assert_int_equal(bill_of("Llama-3.2-1B", &job).cache_bytes, full);
    job.sequence = 1009;
    assert_int_equal(bill_of("Llama-3.2-1B", &job).cache_bytes, full / 63 * 64);
}

static void what_is_said_to_fit_fits_and_one_more_does_not(void **state)
{
    (void)state;
    static const char *const models[] = {"Llama-3.2-1B", "gemma-3-4b-pt",
                                         "Qwen3-Next-80B-A3B-Instruct", "DeepSeek-V2-Lite"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        plm_serve_job job = plm_serve_job_default();
        job.batch = 3;
        job.sequence = 5000;
        size_t total = bill_of(models[i], &job).total_bytes;
        job.budget_bytes = total;
        plm_serve_bill bill = bill_of(models[i], &job);
        assert_true(bill.fits);
        assert_true(bill.fits_tokens >= 5000 && bill.fits_sequences == 3);
        job.budget_bytes = total - 1;
        bill = bill_of(models[i], &job);
        assert_false(bill.fits);
        assert_true(bill.fits_tokens == 4999 && bill.fits_sequences == 2);
    }
}

static void jobs_out_of_range_are_refused(void **state)
{
    (void)state;
    plm_config config;
    plm_serve_bill bill;
    plm_serve_job good = plm_serve_job_default();
    load_model("Llama-3.2-1B", &config);
    plm_serve_job jobs[] = {good, good, good, good, good, good};
    jobs[0].sequence = 0;
    jobs[1].sequence = (1 << 28) + 1;
    jobs[2].batch = 0;
    jobs[3].keys = PLM_STORED_NF4;
    jobs[4].page = 0;
    jobs[5].prefill = 0;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        assert_int_equal(plm_serve_bill_make(&config, &jobs[i], &bill), PLM_ERROR_ARGUMENT);
    good.sequence = 1 << 28;
    good.batch = 1 << 20;
    assert_int_equal(plm_serve_bill_make(&config, &good, &bill), PLM_ERROR_OVERFLOW);
    load_model("bert-base-uncased", &config);
    good = plm_serve_job_default();
    assert_int_equal(plm_serve_bill_make(&config, &good, &bill), PLM_ERROR_UNSUPPORTED);
}

typedef struct report {
    plm_config config;
    plm_serve_bill bill;
} report;

static plm_status write_reports(void *context)
{
    report *r = context;
    plm_serve_entry entries[] = {{&r->config, &r->bill, "card", (size_t)1 << 35},
                                 {&r->config, &r->bill, NULL, 0}};
    plm_report_style style = {0};
    for (int count = 1; count <= 2; count++) {
        char *text = NULL, *line = NULL;
        plm_status status = plm_report_serve_text(entries, count, style, &text);
        if (status == PLM_OK)
            status = plm_report_serve_json(entries, count, &line);
        plm_free(text);
        plm_free(line);
        if (status != PLM_OK)
            return status;
    }
    return PLM_OK;
}

static void reports_fail_at_every_allocation_and_leave_nothing(void **state)
{
    (void)state;
    report r;
    plm_serve_job job = plm_serve_job_default();
    job.budget_bytes = (size_t)1 << 34;
    load_model("gemma-3-4b-pt", &r.config);
    assert_ok(plm_serve_bill_make(&r.config, &job, &r.bill));
    sweep_failures(write_reports, &r);
    load_model("Llama-3.2-1B", &r.config);
    assert_ok(plm_serve_bill_make(&r.config, &job, &r.bill));
    sweep_failures(write_reports, &r);
}

static void the_program_tells_what_fits(void **state)
{
    (void)state;
    static char output[OUTPUT_BYTES];
    json_t *answer = run_json(
        "bill", MODELS "configs/gemma-3-4b-pt.json --serve --seq 8192 --batch 2 --budget 12GiB", 0);
    assert_int_equal(json_number(answer, "parameter_count"), 4300079472);
    assert_int_equal(json_number(answer, "cache_bytes_per_sequence"), 289406976);
    assert_int_equal(json_number(answer, "cache_bytes"), 2 * 289406976);
    assert_int_equal(json_number(answer, "weights_bytes"), 2 * 4300079472);
    assert_int_equal(json_number(answer, "state_bytes"), 0);
    assert_true(json_number(answer, "fits_sequences") > 2);
    json_decref(answer);
    answer = run_json("bill", MODELS "configs/gpt2.json --serve --json", 0);
    assert_int_equal(json_number(answer, "sequence"), 1024); /* that it knows */
    assert_true(json_is_null(json_object_get(answer, "fits_tokens")));
    json_decref(answer);
    assert_int_equal(run_program("bill " MODELS
                                 "configs/Llama-2-70b-hf.json --serve --target rtx4090",
                                 to_output, output),
                     1);
    assert_non_null(strstr(output, "It does not fit 23.04 GiB"));
}

static void vllm_takes_nine_tenths_of_a_card(void **state)
{
    (void)state;
    static char output[OUTPUT_BYTES];
    assert_int_equal(run_program("bill " MODELS
                                 "configs/Llama-3.1-8B.json --serve --target rtx4090",
                                 to_output, output),
                     0);
    assert_non_null(strstr(output, "vLLM would take 21.16 GiB"));
}

static void several_models_and_targets_make_one_table(void **state)
{
    (void)state;
    static char output[OUTPUT_BYTES];
    json_t *answer = run_json(
        "bill",
        MODELS "configs/gpt2.json " MODELS "configs/SmolLM2-135M.json --serve --target l4,t4", 0);
    json_t *bills = json_object_get(answer, "bills");
    assert_int_equal(json_array_size(bills), 4);
    assert_string_equal(json_string_value(json_object_get(json_array_get(bills, 3), "target")),
                        "t4");
    json_decref(answer);
    assert_int_equal(run_program("bill " MODELS "configs/gpt2.json " MODELS
                                 "configs/SmolLM2-135M.json --serve",
                                 to_output, output),
                     0);
    assert_non_null(strstr(output, "SmolLM2-135M"));
}

static void what_is_wrong_is_told_in_one_line(void **state)
{
    (void)state;
    assert_refused("bill", MODELS "configs/gpt2.json", "wanted --serve or --as torch");
    assert_refused("bill", "/no/such.json --serve", "/no/such.json");
    assert_refused("bill", MODELS "configs/gpt2.json --serve --target nonesuch", "nonesuch");
    assert_refused("bill", MODELS "configs/gpt2.json --serve --target ,", "unknown");
    assert_refused("bill", MODELS "configs/gpt2.json --serve --target=", "unknown");
    assert_refused("bill", MODELS "configs/gpt2.json --serve --target l4,l4,l4,l4,l4,l4,l4,l4,l4",
                   "at most 8 targets");
    assert_refused("bill", MODELS "configs/gpt2.json --serve --tensor-parallel 5", "12 heads");
    assert_refused("bill", MODELS "configs/bert-base-uncased.json --serve", "found a bert");
    assert_refused("bill", MODELS "configs/gpt2.json --serve --cache nf4", "--cache");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_true_answer_of_caches_holds),
        cmocka_unit_test(weights_are_counted_in_the_type_that_they_are_stored_in),
        cmocka_unit_test(a_quantised_checkpoint_is_counted_by_its_scheme),
        cmocka_unit_test(caches_may_be_quantised_keys_and_values_apart),
        cmocka_unit_test(heads_are_shared_by_gpus_but_never_split),
        cmocka_unit_test(weights_are_shared_but_for_normalisations),
        cmocka_unit_test(pages_round_up_what_is_kept),
        cmocka_unit_test(what_is_said_to_fit_fits_and_one_more_does_not),
        cmocka_unit_test(jobs_out_of_range_are_refused),
        cmocka_unit_test(reports_fail_at_every_allocation_and_leave_nothing),
        cmocka_unit_test(the_program_tells_what_fits),
        cmocka_unit_test(vllm_takes_nine_tenths_of_a_card),
        cmocka_unit_test(several_models_and_targets_make_one_table),
        cmocka_unit_test(what_is_wrong_is_told_in_one_line),
    };
    return run_test_group(tests);
}
