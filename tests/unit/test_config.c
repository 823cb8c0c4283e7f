/* SPDX-License-Identifier: MIT */
/* config.json: what is read, what is refused, and the list of a model's tensors against those of
 * the reference (tests/data/models). */
#include "plimsoll/config.h"

#include "base/array.h"
#include "base/file.h"
#include "unit/models.h"
#include "unit/scratch.h"
#include "unit/test.h"

static plm_status read_text(const char *text, plm_config *config)
{
    return plm_config_read("config.json", text, strlen(text), config);
}

/* Lines of "NAME [SHAPE]", to be compared as sets. */
typedef struct line_list {
    PLM_ARRAY(char *) list;
} line_list;

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static plm_status add_line(line_list *lines, const char *text)
{
    char *copy = strdup(text);
    assert_non_null(copy);
    return PLM_ARRAY_PUSH(&lines->list, copy);
}

static void free_lines(line_list *lines)
{
    for (int64_t i = 0; i < lines->list.count; i++)
        free(lines->list.items[i]);
    PLM_ARRAY_FREE(&lines->list);
}

static plm_status add_weight(const plm_weight *weight, void *user)
{
    char text[256];
    int length = snprintf(text, sizeof text, "%s [", weight->name);
    for (int i = 0; i < weight->rank; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%lld", i ? ", " : "",
                           (long long)weight->shape[i]);
    snprintf(text + length, sizeof text - (size_t)length, "]");
    return add_line(user, text);
}

static void read_names(const char *path, line_list *found)
{
    char text[512];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(text, sizeof text, file)) {
        if (strchr(text, '\n'))
            *strchr(text, '\n') = '\0';
        if (text[0] != '#' && strchr(text, '['))
            assert_ok(add_line(found, text));
    }
    fclose(file);
}

static void names_and_shapes_are_those_that_transformers_saves(void **state)
{
    (void)state;
    json_t *shrunk = read_models("shrunk.json");
    const char *family;
    json_t *document;
    json_object_foreach (shrunk, family, document) {
        char path[512];
        line_list wanted = {0}, found = {0};
        plm_config config;
        read_model_value(document, &config);
        snprintf(path, sizeof path, MODELS "names/%s.txt", family);
        read_names(path, &wanted);
        assert_ok(plm_config_weights(&config, PLM_WEIGHTS_IN_FILES, add_weight, &found));
        PLM_ARRAY_SORT(&wanted.list, by_text);
        PLM_ARRAY_SORT(&found.list, by_text);
        for (int64_t i = 0; i < wanted.list.count && i < found.list.count; i++)
            if (strcmp(wanted.list.items[i], found.list.items[i]) != 0)
                fail_msg("%s: wanted %s, found %s", family, wanted.list.items[i],
                         found.list.items[i]);
        assert_int_equal(wanted.list.count, found.list.count);
        free_lines(&wanted);
        free_lines(&found);
    }
    assert_int_equal(json_object_size(shrunk), 16);
    json_decref(shrunk);
}

/* Of a model in memory: "4096,1024" and how many there are, whatever they are called. */
static plm_status add_shape(const plm_weight *weight, void *user)
{
    char key[128];
    int length = 0;
    if (weight->form == PLM_WEIGHT_BUFFER)
        return PLM_OK;
    for (int i = 0; i < weight->rank; i++)
        length += snprintf(key + length, sizeof key - (size_t)length, "%lld,",
                           (long long)weight->shape[i]);
    json_t *count = json_object_get(user, key);
    json_object_set_new(user, key, json_integer(json_integer_value(count) + 1));
    return PLM_OK;
}

static json_t *shapes_of_truth(const json_t *tensors)
{
    json_t *shapes = json_object();
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        char key[128];
        int length = 0;
        const json_t *tensor = json_array_get(tensors, i), *shape = json_array_get(tensor, 1);
        for (size_t j = 0; j < json_array_size(shape); j++)
            length += snprintf(key + length, sizeof key - (size_t)length, "%lld,",
                               (long long)json_integer_value(json_array_get(shape, j)));
        json_int_t count = json_integer_value(json_array_get(tensor, 2)) +
                           json_integer_value(json_object_get(shapes, key));
        json_object_set_new(shapes, key, json_integer(count));
    }
    return shapes;
}

static void check_parts(const char *name, const json_t *roles, const plm_config_counts *counts)
{
    size_t known = 0;
    for (int part = 0; part < PLM_WEIGHT_PART_COUNT; part++) {
        const json_t *role = json_object_get(roles, plm_weight_part_text((plm_weight_part)part));
        known += role != NULL;
        if (json_integer_value(role) != counts->parts[part])
            fail_msg("%s: %s: wanted %lld, found %lld", name,
                     plm_weight_part_text((plm_weight_part)part),
                     (long long)json_integer_value(role), (long long)counts->parts[part]);
    }
    assert_int_equal(known, json_object_size(roles));
}

static void check_layers(const json_t *truth, const plm_config *config)
{
    static const char *const texts[] = {"full_attention", "sliding_attention", "linear_attention"};
    json_int_t counts[3] = {0};
    const json_t *types = json_object_get(truth, "layer_types");
    for (int64_t i = 0; i < config->layers; i++)
        counts[config->mixing[i]]++;
    for (int i = 0; i < 3 && types; i++)
        assert_int_equal(counts[i], json_integer_value(json_object_get(types, texts[i])));
    if (types)
        assert_int_equal(config->window,
                         json_integer_value(json_object_get(truth, "sliding_window")));
}

static void every_true_answer_of_parameters_holds(void **state)
{
    (void)state;
    json_t *document, *models = read_truth(&document);
    const char *name;
    json_t *truth;
    json_object_foreach (models, name, truth) {
        plm_config config;
        plm_config_counts counts;
        load_model(name, &config);
        assert_string_equal(config.name, name);
        assert_ok(plm_config_count(&config, &counts));
        assert_int_equal(counts.parameters, model_number(truth, "parameters"));
        assert_int_equal(counts.buffers, model_number(truth, "buffers_saved"));
        json_t *active = json_object_get(truth, "active_parameters");
        assert_int_equal(counts.active_parameters,
                         active ? json_integer_value(active) : counts.parameters);
        check_parts(name, json_object_get(truth, "by_role"), &counts);
        check_layers(truth, &config);
        json_t *nf4 = json_object_get(truth, "nf4");
        assert_int_equal(counts.matrices, model_number(nf4, "linear_tensors"));
        assert_int_equal(counts.matrix_elements, model_number(nf4, "linear_weights"));
        json_t *wanted = shapes_of_truth(json_object_get(truth, "tensors"));
        json_t *found = json_object();
        assert_ok(plm_config_weights(&config, PLM_WEIGHTS_IN_MEMORY, add_shape, found));
        if (!json_equal(wanted, found))
            fail_msg("%s: tensors differ", name);
        json_decref(wanted);
        json_decref(found);
    }
    assert_int_equal(json_object_size(models), 28);
    json_decref(document);
}

typedef struct sums {
    int64_t tensors, elements;
} sums;

static plm_status add_to_tally(const plm_weight *weight, void *user)
{
    sums *tally = user;
    if (weight->form != PLM_WEIGHT_BUFFER) {
        tally->tensors++;
        tally->elements += weight->elements;
    }
    return PLM_OK;
}

static void absent_keys_biases_and_layers_are_as_transformers_has_them(void **state)
{
    (void)state;
    json_t *cases = read_models("cases.json");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *made = json_array_get(cases, i);
        plm_config config;
        plm_config_counts counts;
        sums tally = {0}, files = {0};
        read_model_value(json_object_get(made, "config"), &config);
        assert_ok(plm_config_count(&config, &counts));
        assert_ok(plm_config_weights(&config, PLM_WEIGHTS_IN_MEMORY, add_to_tally, &tally));
        assert_ok(plm_config_weights(&config, PLM_WEIGHTS_IN_FILES, add_to_tally, &files));
        if (counts.parameters != model_number(made, "parameters") ||
            tally.tensors != model_number(made, "tensors") || files.elements != tally.elements ||
            counts.matrix_elements != model_number(made, "linear_weights"))
            fail_msg("case %zu, %s: %lld parameters in %lld tensors (%lld in files), %lld of "
                     "matrices; wanted %lld in %lld, %lld",
                     i, plm_config_family_text(config.family), (long long)counts.parameters,
                     (long long)tally.tensors, (long long)files.elements,
                     (long long)counts.matrix_elements, model_number(made, "parameters"),
                     model_number(made, "tensors"), model_number(made, "linear_weights"));
    }
    assert_true(json_array_size(cases) > 40);
    json_decref(cases);
}

static void both_dialects_say_the_same(void **state)
{
    (void)state;
    plm_config old, new;
    assert_ok(read_text("{\"model_type\":\"llama\",\"torch_dtype\":\"bfloat16\",\"rope_theta\":5e5,"
                        "\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}}",
                        &old));
    assert_ok(read_text("{\"model_type\":\"llama\",\"dtype\":\"bfloat16\",\"rope_parameters\":"
                        "{\"rope_type\":\"linear\",\"factor\":4.0,\"rope_theta\":500000.0}}",
                        &new));
    assert_memory_equal(&old, &new, sizeof old);
    assert_int_equal(old.dtype, PLM_DTYPE_BF16);
    assert_int_equal(old.rope.kind, PLM_CONFIG_ROPE_LINEAR);
    assert_true(old.rope.theta == 5e5 && old.rope.factor == 4);
}

static void rope_scaling_goes_before_rope_parameters(void **state)
{
    (void)state;
    plm_config config;
    assert_ok(read_text("{\"model_type\":\"qwen2\",\"rope_scaling\":{\"rope_type\":\"yarn\","
                        "\"factor\":4,\"original_max_position_embeddings\":32768},"
                        "\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2}}",
                        &config));
    assert_int_equal(config.rope.kind, PLM_CONFIG_ROPE_YARN);
    assert_true(config.rope.factor == 4 && config.rope.beta_fast == 32 &&
                config.rope.beta_slow == 1 && config.rope.theta == 1e4);
    assert_int_equal(config.rope.original_positions, 32768);
}

static void sliding_layers_of_gemma_3_have_positions_of_their_own(void **state)
{
    (void)state;
    plm_config old, new;
    assert_ok(read_text("{\"model_type\":\"gemma3_text\",\"rope_theta\":1e6,"
                        "\"rope_local_base_freq\":20000,\"rope_scaling\":{\"rope_type\":\"linear\","
                        "\"factor\":8.0}}",
                        &old));
    assert_ok(read_text("{\"model_type\":\"gemma3_text\",\"rope_parameters\":{\"full_attention\":"
                        "{\"rope_type\":\"linear\",\"factor\":8.0,\"rope_theta\":1e6},"
                        "\"sliding_attention\":{\"rope_theta\":20000}}}",
                        &new));
    assert_memory_equal(&old, &new, sizeof old);
    assert_true(old.rope.theta == 1e6 && old.rope.factor == 8);
    assert_int_equal(old.local_rope.kind, PLM_CONFIG_ROPE_PLAIN);
    assert_true(old.local_rope.theta == 2e4);
}

static void factors_of_long_positions_are_read_for_each_pair(void **state)
{
    (void)state;
    plm_config config;
    const char text[] = "{\"model_type\":\"phi3\",\"hidden_size\":64,\"num_attention_heads\":4,"
                        "\"partial_rotary_factor\":0.5,\"max_position_embeddings\":131072,"
                        "\"rope_scaling\":{\"type\":\"su\",\"short_factor\":[1,1.5,2,%s],"
                        "\"long_factor\":[2,3,4,5]}}";
    char full[512];
    snprintf(full, sizeof full, text, "3");
    assert_ok(read_text(full, &config));
    assert_int_equal(config.rope.kind, PLM_CONFIG_ROPE_LONG);
    assert_int_equal(config.rope.factor_count, 4);
    assert_int_equal(config.rope.original_positions, 4096); /* the class's default */
    assert_true(config.rope.short_factors[1] == 1.5f && config.rope.long_factors[3] == 5);
    snprintf(full, sizeof full, text, "3,4");
    assert_int_equal(read_text(full, &config), PLM_ERROR_FORMAT);
}

static void windows_follow_each_family_s_rule(void **state)
{
    (void)state;
    plm_config config;
    assert_ok(read_text("{\"model_type\":\"mistral\"}", &config)); /* absent is not null */
    assert_int_equal(config.window, 4096);
    assert_int_equal(config.mixing[0], PLM_CONFIG_SLIDING);
    assert_ok(read_text("{\"model_type\":\"mistral\",\"sliding_window\":null}", &config));
    assert_int_equal(config.window, 0);
    assert_int_equal(config.mixing[0], PLM_CONFIG_FULL);
    assert_ok(read_text("{\"model_type\":\"qwen2\",\"sliding_window\":64}", &config));
    assert_int_equal(config.window, 0);
    assert_ok(read_text("{\"model_type\":\"qwen2\",\"sliding_window\":64,\"max_window_layers\":30,"
                        "\"use_sliding_window\":true}",
                        &config));
    assert_int_equal(config.window, 64);
    assert_int_equal(config.mixing[29], PLM_CONFIG_FULL);
    assert_int_equal(config.mixing[30], PLM_CONFIG_SLIDING);
    assert_ok(read_text("{\"model_type\":\"gemma3_text\",\"sliding_window_pattern\":3}", &config));
    assert_int_equal(config.mixing[1], PLM_CONFIG_SLIDING);
    assert_int_equal(config.mixing[2], PLM_CONFIG_FULL);
    assert_ok(read_text("{\"model_type\":\"gemma3_text\",\"sliding_window\":512,"
                        "\"use_bidirectional_attention\":true}",
                        &config));
    assert_int_equal(config.window, 257);
    assert_ok(read_text("{\"model_type\":\"gemma2\",\"num_hidden_layers\":2,\"layer_types\":"
                        "[\"full_attention\",\"full_attention\"]}",
                        &config));
    assert_int_equal(config.window, 0);
}

static void a_head_is_tied_as_the_outer_object_says(void **state)
{
    (void)state;
    plm_config config;
    assert_ok(read_text("{\"model_type\":\"gemma3\",\"text_config\":{\"tie_word_embeddings\":"
                        "false}}",
                        &config));
    assert_true(config.is_tied);
    assert_ok(read_text("{\"model_type\":\"qwen3_5\",\"text_config\":{\"tie_word_embeddings\":"
                        "true}}",
                        &config));
    assert_false(config.is_tied);
    assert_true(config.rotary_share == 0.25);
    assert_ok(read_text("{\"model_type\":\"qwen3_5\",\"text_config\":{},\"tie_word_embeddings\":"
                        "true}",
                        &config));
    assert_true(config.is_tied);
}

static void quantised_checkpoints_say_so(void **state)
{
    (void)state;
    plm_config config;
    assert_ok(read_text("{\"model_type\":\"llama\",\"quantization_config\":{\"quant_method\":"
                        "\"gptq\",\"bits\":4,\"group_size\":32}}",
                        &config));
    assert_int_equal(config.quantizer, PLM_CONFIG_QUANTIZER_GPTQ);
    assert_int_equal(config.quantizer_bits, 4);
    assert_int_equal(config.quantizer_group, 32);
    assert_ok(read_text("{\"model_type\":\"deepseek_v3\",\"quantization_config\":{\"quant_method\":"
                        "\"fp8\",\"weight_block_size\":[128,128]}}",
                        &config));
    assert_int_equal(config.quantizer, PLM_CONFIG_QUANTIZER_FP8);
    assert_int_equal(config.quantizer_group, 128);
    assert_ok(read_text("{\"model_type\":\"llama\",\"quantization_config\":{\"quant_method\":"
                        "\"bitsandbytes\",\"load_in_4bit\":true}}",
                        &config));
    assert_int_equal(config.quantizer_bits, 4);
    assert_ok(read_text("{\"model_type\":\"llama\",\"quantization_config\":{\"quant_method\":"
                        "\"hqq\"}}",
                        &config));
    assert_int_equal(config.quantizer, PLM_CONFIG_QUANTIZER_OTHER);
    assert_string_equal(config.quantizer_name, "hqq");
}

static const struct {
    const char *text, *told;
} refusals[] = {
    {"[]", "config.json: wanted an object"},
    {"{}", "wanted a known architecture for model_type, found nothing; known are gpt2, bert"},
    {"{\"model_type\":\"mamba\"}", "found 'mamba'"},
    {"{\"model_type\":\"llama\",\"architectures\":[\"LlamaForSequenceClassification\"]}",
     "for architectures, found 'LlamaForSequenceClassification'"},
    {"{\"model_type\":\"llama\",\"architectures\":\"LlamaForCausalLM\"}", "a list of names"},
    {"{\"model_type\":\"llama\",\"torch_dtype\":\"int4\"}", "for torch_dtype, found 'int4'"},
    {"{\"model_type\":\"llama\",\"hidden_size\":\"big\"}",
     "config.json: wanted a whole number from 1 to 1048576 for hidden_size, found 'big'"},
    {"{\"model_type\":\"llama\",\"hidden_size\":4096.5}", "for hidden_size, found 4096.5"},
    {"{\"model_type\":\"llama\",\"hidden_size\":0}", "for hidden_size, found 0"},
    {"{\"model_type\":\"llama\",\"num_hidden_layers\":513}", "for num_hidden_layers, found 513"},
    {"{\"model_type\":\"llama\",\"vocab_size\":1e30}", "for vocab_size"},
    {"{\"model_type\":\"llama\",\"tie_word_embeddings\":1}", "wanted true or false"},
    {"{\"model_type\":\"llama\",\"num_key_value_heads\":5}",
     "wanted a divisor of num_attention_heads (32) for num_key_value_heads, found 5"},
    {"{\"model_type\":\"llama\",\"num_attention_heads\":3}", "for num_attention_heads, found 3"},
    {"{\"model_type\":\"gpt2\",\"n_head\":5}", "for n_head, found 5"},
    {"{\"model_type\":\"llama\",\"hidden_act\":\"quick_gelu\"}", "for hidden_act"},
    {"{\"model_type\":\"llama\",\"rope_scaling\":{\"rope_type\":\"spiral\"}}",
     "for rope_type, found 'spiral'"},
    {"{\"model_type\":\"llama\",\"rope_scaling\":{\"rope_type\":\"linear\"}}",
     "wanted a number over 0 for factor, found nothing"},
    {"{\"model_type\":\"llama\",\"rope_scaling\":[8]}", "wanted an object for rope_scaling"},
    {"{\"model_type\":\"gemma3\"}", "wanted an object for text_config, found nothing"},
    {"{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":-1}}",
     "for text_config.hidden_size, found -1"},
    {"{\"model_type\":\"gemma3\",\"text_config\":{},\"vision_config\":{\"patch_size\":0}}",
     "for vision_config.patch_size, found 0"},
    {"{\"model_type\":\"gemma3\",\"text_config\":{},\"vision_config\":{\"patch_size\":225}}",
     "at most image_size (224) for vision_config.patch_size, found 225"},
    {"{\"model_type\":\"qwen2\",\"layer_types\":[\"full_attention\"]}", "an item for each layer"},
    {"{\"model_type\":\"qwen2\",\"num_hidden_layers\":1,\"layer_types\":[\"linear_attention\"]}",
     "for layer_types, found 'linear_attention'"},
    {"{\"model_type\":\"qwen3_moe\",\"mlp_only_layers\":[24]}", "for mlp_only_layers, found 24"},
    {"{\"model_type\":\"qwen3_moe\",\"num_experts_per_tok\":129}",
     "at most the number of experts (128) for num_experts_per_tok, found 129"},
    {"{\"model_type\":\"deepseek_v2\"}", "for num_experts_per_tok, found nothing"},
    {"{\"model_type\":\"qwen3_next\",\"linear_num_key_heads\":3}", "for linear_num_key_heads"},
    {"{\"model_type\":\"llama\",\"quantization_config\":{}}", "quantization_config.quant_method"},
    {"{\"model_type\":\"llama\",\"hidden_size\":1048576,\"intermediate_size\":16777216,"
     "\"num_hidden_layers\":512}",
     "at most 2^50 parameters"},
    {"{\"model_type\":\"llama\",\"hidden_size\":1,\"hidden_size\":2}", "duplicate"},
};

static void what_is_wrong_is_named_and_nothing_changes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        plm_config config, before;
        plm_error error;
        memset(&before, 0x5a, sizeof before);
        memcpy(&config, &before, sizeof before);
        plm_status status = read_text(refusals[i].text, &config);
        plm_error_get(&error);
        if (status == PLM_OK || !strstr(error.message, refusals[i].told) ||
            strchr(error.message, '\n'))
            fail_msg("%s: %s", refusals[i].text, error.message);
        assert_memory_equal(&config, &before, sizeof before);
    }
}

static void a_folder_is_read_by_its_config(void **state)
{
    (void)state;
    static const char text[] = "{\"model_type\":\"gpt2\"}";
    char folder[SCRATCH_BYTES], path[128];
    plm_config config;
    plm_error error;
    assert_true(scratch_folder(folder));
    assert_int_equal(plm_config_load(folder, &config), PLM_ERROR_IO);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "wanted config.json in"));
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_ok(plm__file_write(path, text, sizeof text - 1));
    assert_ok(plm_config_load(folder, &config));
    assert_string_equal(config.name, strrchr(folder, '/') + 1);
    assert_ok(plm_config_load(path, &config));
    assert_string_equal(config.name, strrchr(folder, '/') + 1);
    snprintf(path, sizeof path, "%s/.", folder);
    assert_ok(plm_config_load(path, &config));
    assert_string_equal(config.name, "gpt2");
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_true(plm__file_remove(path));
    assert_int_equal(plm_config_load(path, &config), PLM_ERROR_IO);
    assert_int_equal(rmdir(folder), 0);
}

/* jansson 2.14 reads past a text of 14, 30 or 62 bytes whose closing quote it found no memory for,
 * so there is none here. */
static plm_status read_gemma(void *context)
{
    return read_text("{\"model_type\":\"gemma3\",\"text_config\":{\"num_hidden_layers\":1,"
                     "\"layer_types\":[\"sliding_attention\"]},\"vision_config\":"
                     "{\"patch_size\":14},\"dtype\":\"float16\"}",
                     context);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    plm_config config;
    sweep_failures(read_gemma, &config);
}

static plm_status stop(const plm_weight *weight, void *user)
{
    (void)weight;
    return --*(int *)user == 0 ? PLM_ERROR_STATE : PLM_OK;
}

static void a_visit_can_end_the_list(void **state)
{
    (void)state;
    plm_config config;
    int left = 3;
    load_model("gemma-3-4b-pt", &config);
    assert_int_equal(plm_config_weights(&config, PLM_WEIGHTS_IN_FILES, stop, &left),
                     PLM_ERROR_STATE);
    assert_int_equal(left, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_shapes_are_those_that_transformers_saves),
        cmocka_unit_test(every_true_answer_of_parameters_holds),
        cmocka_unit_test(absent_keys_biases_and_layers_are_as_transformers_has_them),
        cmocka_unit_test(both_dialects_say_the_same),
        cmocka_unit_test(rope_scaling_goes_before_rope_parameters),
        cmocka_unit_test(sliding_layers_of_gemma_3_have_positions_of_their_own),
        cmocka_unit_test(factors_of_long_positions_are_read_for_each_pair),
        cmocka_unit_test(windows_follow_each_family_s_rule),
        cmocka_unit_test(a_head_is_tied_as_the_outer_object_says),
        cmocka_unit_test(quantised_checkpoints_say_so),
        cmocka_unit_test(what_is_wrong_is_named_and_nothing_changes),
        cmocka_unit_test(a_folder_is_read_by_its_config),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_visit_can_end_the_list),
    };
    return run_test_group(tests);
}
