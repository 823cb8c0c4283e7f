/* SPDX-License-Identifier: MIT */
/* Questions that people asked in public after an estimate had misled them, and the right answers:
 * each a line of plimsoll bill and one figure of what it says. */
#include "unit/models.h"
#include "unit/program.h"

static void check(const char *model, const char *arguments, const char *key, json_int_t wanted)
{
    char line[512];
    static char output[OUTPUT_BYTES];
    json_t *root = NULL;
    snprintf(line, sizeof line, "bill " MODELS "configs/%s.json %s --json", model, arguments);
    assert_true(run_program(line, to_output, output) <= 1); /* what does not fit is an answer too */
    assert_ok(plm__json_read(model, output, strlen(output), &root));
    if (json_number(root, key) != wanted)
        fail_msg("%s %s: %s is %lld, wanted %lld", model, arguments, key, json_number(root, key),
                 wanted);
    json_decref(root);
}

static void windows_are_not_counted_as_if_all_tokens_were_kept(void **state)
{
    (void)state;
    check("gemma-3-4b-pt", "--serve --seq 8192", "cache_bytes_per_sequence", 289406976);
    check("gemma-3-4b-pt", "--serve --seq 8192 --cache-all-tokens", "cache_bytes_per_sequence",
          1140850688);
}

static void a_latent_cache_has_576_elements_and_not_40960(void **state)
{
    (void)state;
    check("DeepSeek-V3", "--serve", "cached_elements_per_token_and_layer", 576);
    check("DeepSeek-V3", "--serve --seq 1000", "cache_bytes_per_sequence", 61 * 576 * 2 * 1000);
}

static void a_head_size_that_the_file_states_is_taken(void **state)
{
    (void)state;
    check("Qwen3-0.6B", "--serve", "cached_elements_per_token_and_layer", 2 * 8 * 128);
    check("Qwen3-0.6B", "--serve", "parameter_count", 596049920);
}

static void fused_experts_are_not_quantised(void **state)
{
    (void)state;
    check("Mixtral-8x7B-v0.1", "--as torch --quantize nf4 --lora q_proj,v_proj",
          "quantized_weight_count", 1342177280);
    check("Mixtral-8x7B-v0.1", "--serve --weights nf4", "weights_bytes",
          1342177280 / 2 + 83886080 + 2 * (46702792704 - 1342177280));
}

static void a_tied_head_that_is_saved_is_trained_twice(void **state)
{
    (void)state;
    check("Llama-3.2-1B",
          "--as torch --lora q_proj,v_proj --rank 16 --modules-to-save embed_tokens,lm_head",
          "trainable_parameter_count", 527040512);
}

static void ranks_hold_the_padding_of_their_shards(void **state)
{
    (void)state;
    check("Llama-3.2-1B", "--as torch --shard fsdp2 --ranks 6", "rank_elements", 206187542);
}

static void grouped_heads_share_keys_and_values(void **state)
{
    (void)state;
    check("Llama-2-70b-hf", "--serve --seq 4096", "cache_bytes_per_token", 327680);
}

static void
a_hybrid_model_caches_tokens_in_every_fourth_layer_and_a_state_in_the_others(void **state)
{
    (void)state;
    check("Qwen3-Next-80B-A3B-Instruct", "--serve --seq 8192", "cache_bytes_per_sequence",
          201326592);
    check("Qwen3-Next-80B-A3B-Instruct", "--serve --seq 8192", "state_bytes", 77856768);
    check("Qwen3-Next-80B-A3B-Instruct", "--serve", "active_parameter_count", 3874929408);
}

static void more_gpus_than_heads_with_keys_do_not_make_the_cache_smaller(void **state)
{
    (void)state;
    check("Qwen2.5-7B", "--serve --seq 8192 --tensor-parallel 4", "cache_bytes_per_sequence",
          469762048 / 4);
    check("Qwen2.5-7B", "--serve --seq 8192 --tensor-parallel 28", "cache_bytes_per_sequence",
          469762048 / 4);
}

static void the_vision_tower_is_in_the_weights(void **state)
{
    (void)state;
    check("gemma-3-4b-pt", "--serve", "weights_bytes", 2 * 4300079472);
    check("gemma-3-4b-pt", "--as torch --lora all-linear --rank 16", "trainable_parameter_count",
          38497792);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_not_counted_as_if_all_tokens_were_kept),
        cmocka_unit_test(a_latent_cache_has_576_elements_and_not_40960),
        cmocka_unit_test(a_head_size_that_the_file_states_is_taken),
        cmocka_unit_test(fused_experts_are_not_quantised),
        cmocka_unit_test(a_tied_head_that_is_saved_is_trained_twice),
        cmocka_unit_test(ranks_hold_the_padding_of_their_shards),
        cmocka_unit_test(grouped_heads_share_keys_and_values),
        cmocka_unit_test(
            a_hybrid_model_caches_tokens_in_every_fourth_layer_and_a_state_in_the_others),
        cmocka_unit_test(more_gpus_than_heads_with_keys_do_not_make_the_cache_smaller),
        cmocka_unit_test(the_vision_tower_is_in_the_weights),
    };
    return run_test_group(tests);
}
