/* SPDX-License-Identifier: MIT */
/* plimsoll tokens from outside: texts, files, ids, and what is refused. */
#include <jansson.h>

#include "base/file.h"
#include "plimsoll/tokenizer.h"
#include "unit/program.h"
#include "unit/scratch.h"

#define LLAMA PLM_SOURCE_DIR "/tests/data/tokenizers/llama.json"

static char output[OUTPUT_BYTES];

static void assert_ids(const json_t *answer, const char *wanted)
{
    char *ids = json_dumps(json_object_get(answer, "ids"), JSON_COMPACT);
    assert_string_equal(ids, wanted);
    plm_free(ids);
}

static void a_text_becomes_ids_pieces_and_offsets(void **state)
{
    (void)state;
    json_t *answer = run_json("tokens", LLAMA " 'Hello w\"'", 0);
    assert_ids(answer, "[325,39,68,75,303,265,1]");
    json_t *pieces = json_object_get(answer, "pieces");
    json_t *last = json_array_get(json_object_get(answer, "offsets"), 6);
    assert_int_equal(json_array_size(pieces), 7);
    assert_string_equal(json_string_value(json_array_get(pieces, 0)), "<|begin_of_text|>");
    assert_string_equal(json_string_value(json_array_get(pieces, 6)), "\"");
    assert_int_equal(json_integer_value(json_array_get(last, 0)), 7);
    assert_int_equal(json_integer_value(json_array_get(last, 1)), 8);
    json_decref(answer);
}

static void no_special_leaves_out_what_the_model_wants_round_a_text(void **state)
{
    (void)state;
    json_t *answer = run_json("tokens", LLAMA " 'Hello w' --no-special", 0);
    assert_ids(answer, "[39,68,75,303,265]");
    json_decref(answer);
}

static void without_json_a_token_is_a_line(void **state)
{
    (void)state;
    assert_int_equal(run_program("tokens " LLAMA " 'Hello w'", to_output, output), 0);
    assert_string_equal(output,
                        "     325  <|begin_of_text|>\n      39  H\n      68  e\n      75  l\n"
                        "     303  lo\n     265  \xc4\xa0w\n6 tokens of 7 bytes\n");
}

static void ids_become_text(void **state)
{
    (void)state;
    assert_int_equal(run_program("tokens " LLAMA " --decode 325,39,68,75,303", to_output, output),
                     0);
    assert_string_equal(output, "<|begin_of_text|>Hello\n");
    assert_int_equal(
        run_program("tokens " LLAMA " --decode '325 39, 68' --no-special", to_output, output), 0);
    assert_string_equal(output, "He\n");
    json_t *answer = run_json("tokens", LLAMA " --decode 39,198,1", 0);
    assert_string_equal(json_string_value(json_object_get(answer, "text")), "H\n\"");
    json_decref(answer);
}

static void a_folder_and_the_text_of_a_file_do_too(void **state)
{
    (void)state;
    char folder[SCRATCH_BYTES], line[512];
    assert_true(scratch_folder(folder));
    snprintf(line, sizeof line, "cp " LLAMA " %s/tokenizer.json && printf 'x y' >%s/text", folder,
             folder);
    assert_int_equal(system(line), 0);
    snprintf(line, sizeof line, "%s --file %s/text --no-special", folder, folder);
    json_t *answer = run_json("tokens", line, 0);
    assert_ids(answer, "[87,308]");
    json_decref(answer);
    snprintf(line, sizeof line, "rm -r %s", folder);
    assert_int_equal(system(line), 0);
}

static void the_configuration_beside_says_which_special_token_is_what(void **state)
{
    (void)state;
    static const char config[] = "{\"bos_token\":\"<|begin_of_text|>\",\"eos_token\":{\"content\":"
                                 "\"<|eot_id|>\"},\"pad_token\":null,\"unk_token\":\"none\"}";
    char folder[SCRATCH_BYTES], line[512];
    plm_tokenizer *tokenizer = NULL;
    assert_true(scratch_folder(folder));
    snprintf(line, sizeof line, "cp " LLAMA " %s/tokenizer.json", folder);
    assert_int_equal(system(line), 0);
    snprintf(line, sizeof line, "%s/tokenizer_config.json", folder);
    assert_ok(plm__file_write(line, config, sizeof config - 1));
    assert_ok(plm_tokenizer_create(folder, &tokenizer));
    assert_int_equal(plm_tokenizer_special(tokenizer, PLM_SPECIAL_BOS), 325);
    assert_int_equal(plm_tokenizer_special(tokenizer, PLM_SPECIAL_EOS), 329);
    assert_int_equal(plm_tokenizer_special(tokenizer, PLM_SPECIAL_PAD), -1);
    assert_int_equal(plm_tokenizer_special(tokenizer, PLM_SPECIAL_UNK), -1);
    assert_int_equal(plm_tokenizer_special(tokenizer, PLM_SPECIAL_COUNT), -1);
    plm_tokenizer_destroy(tokenizer);
    assert_ok(plm__file_write(line, "{", 1));
    tokenizer = NULL;
    assert_int_equal(plm_tokenizer_create(folder, &tokenizer), PLM_ERROR_FORMAT);
    assert_null(tokenizer);
    snprintf(line, sizeof line, "rm -r %s", folder);
    assert_int_equal(system(line), 0);
}

static void what_is_wrong_is_told_in_one_line(void **state)
{
    (void)state;
    assert_refused("tokens", "", "MODEL");
    assert_refused("tokens", LLAMA, "wants one of TEXT");
    assert_refused("tokens", LLAMA " x --decode 1", "wants one of TEXT");
    assert_refused("tokens", "/no/such x", "/no/such");
    assert_refused("tokens", "/tmp x", "wanted tokenizer.json in '/tmp'");
    assert_refused("tokens", LLAMA " --file /no/text", "/no/text");
    assert_refused("tokens", LLAMA " --decode 330", "below 330, found 330");
    assert_refused("tokens", LLAMA " --decode 99999999999999999999", "below 330");
    assert_refused("tokens", LLAMA " --decode 1,x", "found 'x'");
    assert_refused("tokens", LLAMA " --decode 1x", "found 'x'");
    assert_refused("tokens", LLAMA " --decode=-1", "found '-1'");
    assert_refused("tokens", LLAMA " \"$(printf 'a\\377')\"", "byte 0xff at 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_becomes_ids_pieces_and_offsets),
        cmocka_unit_test(no_special_leaves_out_what_the_model_wants_round_a_text),
        cmocka_unit_test(without_json_a_token_is_a_line),
        cmocka_unit_test(ids_become_text),
        cmocka_unit_test(a_folder_and_the_text_of_a_file_do_too),
        cmocka_unit_test(the_configuration_beside_says_which_special_token_is_what),
        cmocka_unit_test(what_is_wrong_is_told_in_one_line),
    };
    return run_test_group(tests);
}
