/* SPDX-License-Identifier: MIT */
/*
 * Tokenizers against what the reference makes of the same texts: tests/data/tokenizers holds
 * NAME.json and NAME.cases, made by scripts/tokenizer_cases.py.
 */
#include <pthread.h>

#include <jansson.h>

#include "base/file.h"
#include "plimsoll/tokenizer.h"
#include "tokens/vocabulary.h"
#include "unit/test.h"

#define FOLDER PLM_SOURCE_DIR "/tests/data/tokenizers/"

static const char *const names[] = {
    "gpt2",        "llama",   "mistral",     "qwen2", "gemma3",
    "bert",        "unigram", "roberta",     "clip",  "prefixed",
    "gpt4",        "kimi",    "llama_first", "spans", "wordpiece_cased",
    "xlm_roberta",
};

static plm_tokenizer *open_named(const char *name)
{
    char path[512];
    plm_tokenizer *tokenizer = NULL;
    snprintf(path, sizeof path, FOLDER "%s.json", name);
    assert_ok(plm_tokenizer_create(path, &tokenizer));
    return tokenizer;
}

static plm_tokenizer *read_text(const char *json)
{
    plm_tokenizer *tokenizer = NULL;
    assert_ok(plm_tokenizer_create_from_memory("given", json, strlen(json), &tokenizer));
    return tokenizer;
}

/* What is refused, with these words in its one line. */
static void assert_refused(const char *json, plm_status wanted, const char *words)
{
    plm_tokenizer *tokenizer = NULL;
    plm_error error;
    assert_int_equal(plm_tokenizer_create_from_memory("given", json, strlen(json), &tokenizer),
                     wanted);
    assert_null(tokenizer);
    plm_error_get(&error);
    if (!strstr(error.message, words))
        fail_msg("'%s' lacks '%s'", error.message, words);
    assert_null(strpbrk(error.message, "\n\r"));
}

/* The cases. */

static void check_ids(const char *where, const char *key, const json_t *row,
                      const plm_encoding *encoding)
{
    const json_t *wanted = json_object_get(row, key);
    bool is_equal = (int64_t)json_array_size(wanted) == encoding->count;
    for (int64_t i = 0; i < encoding->count && is_equal; i++)
        is_equal = json_integer_value(json_array_get(wanted, (size_t)i)) == encoding->ids[i];
    if (!is_equal)
        fail_msg("%s: %s of '%s' differ", where, key,
                 json_string_value(json_object_get(row, "text")));
}

static void check_pieces(const char *where, const plm_tokenizer *tokenizer, const json_t *row,
                         const plm_encoding *encoding)
{
    const json_t *wanted = json_object_get(row, "pieces"), *text = json_object_get(row, "text");
    for (int64_t i = 0; i < encoding->count; i++) {
        const plm_piece *piece = &encoding->pieces[i];
        size_t count = 0;
        const char *expected = plm_tokenizer_token(tokenizer, encoding->ids[i], &count);
        if (wanted) {
            const json_t *item = json_array_get(wanted, (size_t)i);
            expected = json_string_value(item);
            count = json_string_length(item);
        }
        if (piece->byte_count != count || memcmp(piece->text, expected, count) != 0)
            fail_msg("%s: piece %d of '%s' is '%s'", where, (int)i, json_string_value(text),
                     piece->text);
        assert_int_equal(piece->text[count], '\0');
        assert_true(piece->start <= piece->end && piece->end <= json_string_length(text));
    }
}

static void check_decoded(const char *where, const plm_tokenizer *tokenizer, const json_t *row,
                          const plm_encoding *encoding)
{
    for (int skip = 0; skip < 2; skip++) {
        const json_t *wanted = json_object_get(row, skip ? "skipped" : "decoded");
        char *text = NULL;
        size_t count = 0;
        assert_ok(
            plm_tokenizer_decode(tokenizer, encoding->ids, encoding->count, skip, &text, &count));
        if (count != json_string_length(wanted) ||
            memcmp(text, json_string_value(wanted), count) != 0)
            fail_msg("%s: decoded '%s', wanted '%s'", where, text, json_string_value(wanted));
        plm_free(text);
    }
}

static void check_case(const char *where, const plm_tokenizer *tokenizer, const json_t *row)
{
    const json_t *text = json_object_get(row, "text");
    const char *bytes = json_string_value(text);
    size_t count = json_string_length(text);
    plm_encoding whole = {0}, bare = {0};
    assert_ok(plm_tokenizer_encode(tokenizer, bytes, count, PLM_ENCODE_SPECIAL | PLM_ENCODE_PIECES,
                                   &whole));
    assert_ok(plm_tokenizer_encode(tokenizer, bytes, count, 0, &bare));
    check_ids(where, "ids", row, &whole);
    check_ids(where, "bare", row, &bare);
    check_pieces(where, tokenizer, row, &whole);
    check_decoded(where, tokenizer, row, &whole);
    assert_null(bare.pieces);
    plm_encoding_fini(&whole);
    plm_encoding_fini(&bare);
}

static void ids_pieces_and_decoded_texts_are_those_of_the_reference(void **state)
{
    (void)state;
    int cases = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        plm_tokenizer *tokenizer = open_named(names[i]);
        plm_file file = {0};
        snprintf(path, sizeof path, FOLDER "%s.cases", names[i]);
        assert_ok(plm__file_map(path, &file));
        const char *at = (const char *)file.bytes, *end = at + file.byte_count;
        for (const char *line; at < end; at = line + 1) {
            line = memchr(at, '\n', (size_t)(end - at));
            json_t *row = json_loadb(at, (size_t)(line - at), JSON_ALLOW_NUL, NULL);
            assert_non_null(row);
            check_case(names[i], tokenizer, row);
            json_decref(row);
            cases++;
        }
        plm__file_unmap(&file);
        plm_tokenizer_destroy(tokenizer);
    }
    assert_true(cases > 1000);
}

static void offsets_are_the_bytes_of_whole_characters(void **state)
{
    (void)state;
    static const char text[] = "a é x";
    static const size_t wanted[][2] = {{0, 0}, {0, 1}, {1, 2}, {2, 4}, {4, 5}, {5, 6}};
    plm_tokenizer *tokenizer = open_named("llama");
    plm_encoding encoding = {0};
    assert_ok(plm_tokenizer_encode(tokenizer, text, sizeof text - 1,
                                   PLM_ENCODE_SPECIAL | PLM_ENCODE_PIECES, &encoding));
    assert_int_equal(encoding.count, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(encoding.pieces[i].start, wanted[i][0]);
        assert_int_equal(encoding.pieces[i].end, wanted[i][1]);
    }
    plm_encoding_fini(&encoding);
    plm_tokenizer_destroy(tokenizer);
}

static void offsets_go_back_through_normalizers_to_the_text(void **state)
{
    (void)state;
    static const char text[] = "A\xcc\x8a \xef\xbc\xb8."; /* A, a ring above, fullwidth X */
    plm_tokenizer *tokenizer = read_text(
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},"
        "{\"type\":\"Lowercase\"},{\"type\":\"Prepend\",\"prepend\":\"_\"}]},\"model\":{"
        "\"type\":\"BPE\",\"unk_token\":null,\"vocab\":{\"_\":0,\"\xc3\xa5\":1,\" \":2,\"x\":3,"
        "\".\":4},\"merges\":[]}}");
    static const size_t wanted[][2] = {{0, 0}, {0, 3}, {3, 4}, {4, 7}, {7, 8}};
    plm_encoding encoding = {0};
    assert_ok(plm_tokenizer_encode(tokenizer, text, sizeof text - 1, PLM_ENCODE_PIECES, &encoding));
    assert_int_equal(encoding.count, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(encoding.ids[i], i);
        assert_int_equal(encoding.pieces[i].start, wanted[i][0]);
        assert_int_equal(encoding.pieces[i].end, wanted[i][1]);
    }
    plm_encoding_fini(&encoding);
    plm_tokenizer_destroy(tokenizer);
}

/* utf8proc would join U+11A7 to the syllable before, and lose it. */
static void a_hangul_tail_that_is_none_stays(void **state)
{
    (void)state;
    plm_tokenizer *tokenizer = open_named("qwen2");
    plm_encoding encoding = {0};
    assert_ok(plm_tokenizer_encode(tokenizer, "\xea\xb7\x9c\xe1\x86\xa7", 6, 0, &encoding));
    assert_int_equal(encoding.count, 6);
    plm_encoding_fini(&encoding);
    plm_tokenizer_destroy(tokenizer);
}

/* The ids of a text are `wanted`, as many as `count`. */
static void assert_ids(const char *json, const char *text, const int32_t *wanted, int64_t count)
{
    plm_tokenizer *tokenizer = read_text(json);
    plm_encoding encoding = {0};
    assert_ok(plm_tokenizer_encode(tokenizer, text, strlen(text), 0, &encoding));
    assert_int_equal(encoding.count, count);
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(encoding.ids[i], wanted[i]);
    plm_encoding_fini(&encoding);
    plm_tokenizer_destroy(tokenizer);
}

#define ADDED(id, content, more)                                                                   \
    "{\"id\":" id ",\"content\":\"" content "\",\"normalized\":false," more "}"
#define LETTERS                                                                                    \
    "],\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0,\"b\":1,\" \":2,\"-\":3}}}"

static void blanks_that_a_token_took_along_may_begin_the_next(void **state)
{
    (void)state;
    static const int32_t wanted[] = {0, 4, 5, 1};
    assert_ids("{\"added_tokens\":[" ADDED("4", "<x>", "\"rstrip\":true") "," ADDED(
                   "5", "  ", "\"special\":true") LETTERS,
               "a<x>  b", wanted, 4);
    assert_ids("{\"added_tokens\":[" ADDED("4", "<x>", "\"rstrip\":true") "," ADDED(
                   "5", "  ", "\"special\":true") LETTERS,
               "a<x>  ", wanted, 3); /* at the end too */
}

static void a_token_that_is_no_word_by_itself_is_passed_over_whole(void **state)
{
    (void)state;
    static const int32_t wanted[] = {1, 0, 3, 0, 3, 0, 2, 4, 2};
    assert_ids("{\"added_tokens\":[" ADDED("4", "a-a", "\"single_word\":true") LETTERS,
               "ba-a-a a-a ", wanted, 9);
}

static void characters_newer_than_pcre2_are_what_the_reference_takes_them_for(void **state)
{
    (void)state;
    static const int32_t unknown[] = {0, 0};
#define REMOVES(pattern)                                                                           \
    "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Removed\",\"pattern\":{\"Regex\":"      \
    "\"" pattern                                                                                   \
    "\"}},\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0}}}"
    assert_ids(REMOVES("\\\\p{Han}"), "\xf0\xb2\x8e\xaf", unknown, 0);  /* U+323AF, Unicode 15 */
    assert_ids(REMOVES("\\\\p{L}"), "-\xf0\x90\xb5\x8a-", unknown, 2);  /* U+10D4A, Unicode 16 */
    assert_ids(REMOVES("\\\\p{Lu}"), "-\xe1\xb2\x89-", unknown, 2);     /* U+1C89 */
    assert_ids(REMOVES("\\\\p{Mn}"), "-\xe0\xa2\x97-", unknown, 2);     /* U+0897 */
    assert_ids(REMOVES("\\\\p{Nd}"), "-\xf0\x96\x84\xb0-", unknown, 2); /* U+16130 */
}

static void an_unknown_character_costs_ten_more_than_the_worst_token(void **state)
{
    (void)state;
    static const int32_t wanted[] = {1}, other[] = {0, 2};
#define SCORES(score)                                                                              \
    "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"u\",0],[\"xy\",-12],["            \
    "\"y\"," score "]]}}"
    assert_ids(SCORES("9.9"), "xy", wanted, 1); /* -12 - 10 + 9.9 < -12 */
    assert_ids(SCORES("10.1"), "xy", other, 2);
}

static void unknown_characters_are_one_token_in_a_long_word_too(void **state)
{
    (void)state;
    static const int32_t wanted[] = {1, 0, 1};
    char text[256] = "a";
    for (int i = 0; i < 40; i++)
        strcat(text, i % 2 ? "\xc3\xa9" : "\xc3\xa8");
    strcat(text, "a");
    assert_ids("{\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"fuse_unk\":true,\"merges\":[],"
               "\"vocab\":{\"u\":0,\"a\":1}}}",
               text, wanted, 3);
}

/* What a tokenizer knows. */

static void a_tokenizer_knows_its_tokens(void **state)
{
    (void)state;
    plm_tokenizer *tokenizer = open_named("llama");
    size_t count = 0;
    assert_int_equal(plm_tokenizer_count(tokenizer), 330);
    assert_int_equal(plm_tokenizer_id_limit(tokenizer), 330);
    assert_int_equal(plm_tokenizer_find(tokenizer, "<|eot_id|>", 10), 329);
    assert_int_equal(plm_tokenizer_find(tokenizer, "<|eot_id|", 9), -1);
    assert_string_equal(plm_tokenizer_token(tokenizer, 329, &count), "<|eot_id|>");
    assert_int_equal(count, 10);
    assert_null(plm_tokenizer_token(tokenizer, 330, &count));
    assert_null(plm_tokenizer_token(tokenizer, -1, &count));
    assert_true(plm_tokenizer_is_special(tokenizer, 329));
    assert_false(plm_tokenizer_is_special(tokenizer, 0));
    assert_false(plm_tokenizer_is_special(tokenizer, 330));
    assert_int_equal(plm_tokenizer_special(tokenizer, PLM_SPECIAL_BOS), -1);
    plm_tokenizer_destroy(tokenizer);
}

static void ids_need_not_be_dense(void **state)
{
    (void)state;
    plm_tokenizer *tokenizer = read_text(
        "{\"added_tokens\":[{\"id\":268435455,\"content\":\"<e>\",\"special\":true}],\"model\":{"
        "\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":7,\"a\":100,\"b\":5}}}");
    static const int32_t ids[] = {5, 268435455, 6, 7, 100};
    char *text = NULL;
    size_t count = 0;
    assert_int_equal(plm_tokenizer_count(tokenizer), 4);
    assert_int_equal(plm_tokenizer_id_limit(tokenizer), 268435456);
    assert_ok(plm_tokenizer_decode(tokenizer, ids, 5, false, &text, &count));
    assert_string_equal(text, "b <e> u a");
    plm_free(text);
    assert_ok(plm_tokenizer_decode(tokenizer, ids, 5, true, &text, &count));
    assert_string_equal(text, "b u a");
    plm_free(text);
    plm_tokenizer_destroy(tokenizer);
}

static void bytes_that_are_no_text_decode_to_the_replacement_character(void **state)
{
    (void)state;
    plm_tokenizer *tokenizer = open_named("gpt2");
    int32_t half = plm_tokenizer_find(tokenizer, "\xc3\x83", 2); /* byte 0xC3 as GPT-2 writes it */
    char *text = NULL;
    size_t count = 0;
    assert_true(half >= 0);
    assert_ok(plm_tokenizer_decode(tokenizer, &half, 1, false, &text, &count));
    assert_string_equal(text, "\xef\xbf\xbd");
    plm_free(text);
    plm_tokenizer_destroy(tokenizer);
}

/* Refusals. */

static void a_text_that_is_no_utf8_is_refused_with_the_place(void **state)
{
    (void)state;
    plm_tokenizer *tokenizer = open_named("gpt2");
    plm_encoding encoding = {.count = 17};
    plm_error error;
    assert_int_equal(plm_tokenizer_encode(tokenizer, "long enough \xff", 13, 0, &encoding),
                     PLM_ERROR_ARGUMENT);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "byte 0xff at 12"));
    assert_int_equal(encoding.count, 17);
    assert_int_equal(plm_tokenizer_encode(tokenizer, "\xed\xa0\x80", 3, 0, &encoding),
                     PLM_ERROR_ARGUMENT);
    assert_int_equal(plm_tokenizer_encode(tokenizer, "\xe4\xb8", 2, 0, &encoding),
                     PLM_ERROR_ARGUMENT);
    plm_tokenizer_destroy(tokenizer);
}

#define MODEL(fields) "{\"model\":{" fields "}}"
#define BPE(fields)   MODEL("\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2}," fields)
#define WITH(part)    "{" part ",\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}}}"

static void malformed_files_are_refused_with_file_and_place(void **state)
{
    (void)state;
    static const struct {
        const char *json, *words;
    } rows[] = {
        {"{\"model\":", "given is not valid JSON"},
        {"[]", "wanted an object for the file, found an array"},
        {"{}", "given: wanted an object for model, found nothing"},
        {MODEL("\"type\":\"Magic\",\"vocab\":{}"), "model.type, found 'Magic'"},
        {MODEL("\"type\":\"BPE\",\"vocab\":[],\"merges\":[]"), "model.vocab, found an array"},
        {MODEL("\"type\":\"BPE\",\"vocab\":{\"a\":268435456},\"merges\":[]"), "found 268435456"},
        {MODEL("\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]"), "model.vocab, found -1"},
        {MODEL("\"type\":\"BPE\",\"vocab\":{\"a\":1e400},\"merges\":[]"), "not valid JSON"},
        {BPE("\"merges\":{}"), "model.merges, found an object"},
        {BPE("\"merges\":[\"a b\",\"b a\"]"), "model.merges[1] 'b' and 'a'"},
        {BPE("\"merges\":[[\"a\",\"c\"]]"), "model.merges[0] 'a' and 'c'"},
        {BPE("\"merges\":[\"a b c\"]"), "pairs of tokens"},
        {BPE("\"merges\":[[\"a\"]]"), "pairs of tokens"},
        {MODEL("\"type\":\"Unigram\",\"vocab\":[]"), "model.vocab, found an array"},
        {MODEL("\"type\":\"Unigram\",\"vocab\":[[\"a\"]]"), "a score for model.vocab"},
        {MODEL("\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":1"), "unk_id, found 1"},
        {WITH("\"normalizer\":{\"type\":\"X\"}"), "normalizer.type, found 'X'"},
        {WITH("\"normalizer\":7"), "normalizer, found 7"},
        {WITH("\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}"),
         "precompiled_charsmap"},
        {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\","
              "\"pattern\":{\"Regex\":\"(a\"}}"),
         "pre_tokenizer: wanted a regular expression, found '(a'"},
        {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Odd\","
              "\"pattern\":{\"String\":\"a\"}}"),
         "pre_tokenizer.behavior, found 'Odd'"},
        {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
              "{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{}}"),
         "post_processor.special_tokens"},
        {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[],"
              "\"special_tokens\":{}}"),
         "the text once"},
        {WITH("\"decoder\":{\"type\":\"Strip\",\"content\":\"\"}"), "decoder.content"},
        {WITH("\"added_tokens\":{}"), "added_tokens, found an object"},
        {WITH("\"added_tokens\":[{\"content\":\"<s>\"}]"), "added_tokens.id, found nothing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_refused(rows[i].json, PLM_ERROR_FORMAT, rows[i].words);
}

static void what_is_not_done_here_is_refused(void **state)
{
    (void)state;
    assert_refused(BPE("\"dropout\":0.1,\"merges\":[]"), PLM_ERROR_UNSUPPORTED, "model.dropout");
    assert_refused(WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\","
                        "\"pattern\":{\"Regex\":\"a{2}+\"}}"),
                   PLM_ERROR_UNSUPPORTED, "{n}+");
}

static void a_file_that_is_cut_anywhere_is_refused(void **state)
{
    (void)state;
    plm_file file = {0};
    assert_ok(plm__file_map(FOLDER "xlm_roberta.json", &file));
    for (size_t count = 0; count + 2 < file.byte_count; count += 1 + SANITIZED * 97) {
        plm_tokenizer *tokenizer = NULL;
        plm_status status = plm_tokenizer_create_from_memory("cut", file.bytes, count, &tokenizer);
        assert_int_equal(status, PLM_ERROR_FORMAT);
        assert_null(tokenizer);
    }
    plm__file_unmap(&file);
}

static void sequences_in_sequences_end_somewhere(void **state)
{
    (void)state;
    char json[8192] = "{\"normalizer\":";
    for (int i = 0; i < 50; i++)
        strcat(json, "{\"type\":\"Sequence\",\"normalizers\":[");
    strcat(json, "{\"type\":\"NFC\"}");
    for (int i = 0; i < 50; i++)
        strcat(json, "]}");
    strcat(json, ",\"model\":{}}");
    assert_refused(json, PLM_ERROR_FORMAT, "at most 8 sequences");
}

/* Attacks. */

#define SPLIT(regex)                                                                               \
    "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":"     \
    "\"" regex "\"}},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"aa\":2,\"aaaa\":3}," \
    "\"merges\":["                                                                                 \
    "\"a a\",\"aa aa\"]}}"

static void an_expression_that_goes_back_without_end_is_one_error(void **state)
{
    (void)state;
    plm_tokenizer *tokenizer = read_text(SPLIT("(a+)+$"));
    plm_encoding encoding = {0};
    plm_error error;
    assert_int_equal(plm_tokenizer_encode(tokenizer, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
                                          43, 0, &encoding),
                     PLM_ERROR_UNSUPPORTED);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "goes back without end"));
    assert_ok(plm_tokenizer_encode(tokenizer, "aaaab", 5, 0, &encoding)); /* and it lives on */
    plm_encoding_fini(&encoding);
    plm_tokenizer_destroy(tokenizer);
}

/* Each start takes some thousands of steps and does not fail: their sum is what is bounded. */
static void the_steps_of_a_whole_text_are_bounded(void **state)
{
    (void)state;
    enum { GROUP = 22, GROUPS = 3000 };
    plm_tokenizer *tokenizer = read_text(SPLIT("(a+)+$"));
    char *text = malloc(GROUP * GROUPS);
    plm_encoding encoding = {0};
    for (int i = 0; i < GROUP * GROUPS; i++)
        text[i] = i % GROUP == GROUP - 1 ? 'b' : 'a';
    assert_int_equal(plm_tokenizer_encode(tokenizer, text, GROUP * GROUPS, 0, &encoding),
                     PLM_ERROR_UNSUPPORTED);
    assert_ok(plm_tokenizer_encode(tokenizer, text, GROUP / 2, 0, &encoding));
    plm_encoding_fini(&encoding);
    free(text);
    plm_tokenizer_destroy(tokenizer);
}

enum { LONG_WORD = 10 * 1000 * 1000 / (1 + 19 * SANITIZED) };

static void check_long_word(const char *name, char letter, int64_t least, int64_t most)
{
    plm_tokenizer *tokenizer = name ? open_named(name) : read_text(SPLIT("a+"));
    char *word = malloc(LONG_WORD);
    plm_encoding encoding = {0};
    memset(word, letter, LONG_WORD);
    assert_ok(plm_tokenizer_encode(tokenizer, word, LONG_WORD, 0, &encoding));
    assert_in_range(encoding.count, least, most);
    plm_encoding_fini(&encoding);
    free(word);
    plm_tokenizer_destroy(tokenizer);
}

static void a_word_of_ten_megabytes_takes_seconds(void **state)
{
    (void)state;
    check_long_word(NULL, 'a', LONG_WORD / 4, LONG_WORD / 4);
    check_long_word("mistral", 'x', LONG_WORD / 2, LONG_WORD + 1);
    check_long_word("unigram", 'x', LONG_WORD / 2, LONG_WORD + 1);
    check_long_word("gpt2", ' ', LONG_WORD / 8, LONG_WORD);
    check_long_word("llama", ' ', LONG_WORD / 8, LONG_WORD); /* given back one by one */
    check_long_word("gpt4", '-', LONG_WORD / 8, LONG_WORD);
    check_long_word("bert", 'x', 1, 1);
}

/* A step for each letter: more in all than a short text is allowed. */
static void a_long_text_may_take_more_steps(void **state)
{
    (void)state;
    enum { RUN = 100 * 1000, RUNS = 10 };
    plm_tokenizer *tokenizer = read_text(SPLIT("(?:a|b)+"));
    char *text = malloc(RUN * RUNS);
    plm_encoding encoding = {0};
    for (int i = 0; i < RUN * RUNS; i++)
        text[i] = i % RUN == 0 ? '-' : 'b';
    assert_ok(plm_tokenizer_encode(tokenizer, text, RUN * RUNS, 0, &encoding));
    assert_int_equal(encoding.count, RUN * RUNS - RUNS);
    plm_encoding_fini(&encoding);
    free(text);
    plm_tokenizer_destroy(tokenizer);
}

static void marks_without_end_are_ordered_in_bounded_time(void **state)
{
    (void)state;
    plm_tokenizer *tokenizer = open_named("qwen2");
    enum { MARKS = 400 * 1000 };
    char *text = malloc(2 * MARKS);
    plm_encoding encoding = {0};
    for (int i = 0; i < MARKS; i++) /* an acute above and a dot below in turns */
        memcpy(text + (size_t)2 * (size_t)i, i % 2 ? "\xcc\xa3" : "\xcc\x81", 2);
    assert_ok(plm_tokenizer_encode(tokenizer, text, 2 * MARKS, 0, &encoding));
    assert_int_equal(encoding.count, 2 * MARKS); /* two bytes each, no merges */
    plm_encoding_fini(&encoding);
    free(text);
    plm_tokenizer_destroy(tokenizer);
}

static void a_replacement_that_makes_too_much_is_refused(void **state)
{
    (void)state;
    char json[8192];
    plm_encoding encoding = {0};
    snprintf(json, sizeof json,
             "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\""
             "%04000d\"},\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}",
             0);
    plm_tokenizer *tokenizer = read_text(json);
    assert_ok(plm_tokenizer_encode(tokenizer, "aaaaaaaa", 8, 0, &encoding));
    plm_encoding_fini(&encoding);
    assert_int_equal(plm_tokenizer_encode(tokenizer, "aaaaaaaaaaaaaaaaaaaaaaaa", 24, 0, &encoding),
                     PLM_ERROR_UNSUPPORTED);
    plm_tokenizer_destroy(tokenizer);
}

/* Threads and failures. */

static void *encode_often(void *user)
{
    const plm_tokenizer *tokenizer = user;
    static const char text[] = "Hello world, threads share a tokenizer";
    for (int i = 0; i < 500; i++) {
        plm_encoding encoding = {0};
        if (plm_tokenizer_encode(tokenizer, text, sizeof text - 1, 0, &encoding) != PLM_OK ||
            encoding.count != 28)
            return user;
        plm_encoding_fini(&encoding);
    }
    return NULL;
}

static void threads_share_a_tokenizer(void **state)
{
    (void)state;
    plm_tokenizer *tokenizer = open_named("gpt2");
    pthread_t threads[4];
    void *failed;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, tokenizer), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    plm_tokenizer_destroy(tokenizer);
}

static plm_status use_once(void *user)
{
    static const char text[] = "It's  <m> lorem, e\xcc\x81 \xf0\x9f\x98\x80 \xef\xac\x81 12";
    const char *json = user;
    plm_tokenizer *tokenizer = NULL;
    plm_encoding encoding = {0};
    char *line = NULL, *decoded = NULL;
    size_t count;
    plm_status status = plm_tokenizer_create_from_memory("given", json, strlen(json), &tokenizer);
    if (status == PLM_OK)
        status = plm_tokenizer_encode(tokenizer, text, sizeof text - 1,
                                      PLM_ENCODE_SPECIAL | PLM_ENCODE_PIECES, &encoding);
    if (status == PLM_OK)
        status = plm_encoding_json(&encoding, &line);
    if (status == PLM_OK)
        status =
            plm_tokenizer_decode(tokenizer, encoding.ids, encoding.count, false, &decoded, &count);
    plm_free(line);
    plm_free(decoded);
    plm_encoding_fini(&encoding);
    plm_tokenizer_destroy(tokenizer);
    return status;
}

static void every_failing_allocation_is_told_and_leaves_nothing(void **state)
{
    (void)state;
    static char bpe[] =
        "{\"added_tokens\":[{\"id\":3,\"content\":\"<m>\",\"special\":true,\"lstrip\":true},"
        "{\"id\":4,\"content\":\"Lorem\",\"normalized\":true}],\"normalizer\":{\"type\":"
        "\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":\"Lowercase\"},{\"type\":"
        "\"Replace\",\"pattern\":{\"Regex\":\" +\"},\"content\":\" \"}]},\"pre_tokenizer\":"
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":true},\"post_processor\":{\"type\":"
        "\"BertProcessing\",\"sep\":[\"<m>\",3],\"cls\":[\"<m>\",3]},\"decoder\":{\"type\":"
        "\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"unk_token\":\"a\",\"vocab\":{\"a\":0,"
        "\"i\":1,\"t\":2,\"it\":5},\"merges\":[\"i t\"]}}";
    static char unigram[] =
        "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},"
        "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\"}]},"
        "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
        "{\"String\":\"_\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
        "{\"type\":\"Strip\",\"content\":\" \",\"start\":1}]},\"model\":{\"type\":\"Unigram\","
        "\"unk_id\":0,\"vocab\":[[\"u\",0],[\"_\",-1],[\"o\",-2.5],[\"lo\",-3]]}}";
    static char wordpiece[] =
        "{\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":"
        "\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\"},\"model\":{\"type\":"
        "\"WordPiece\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"it\":1,\"lo\":2,\"##rem\":3}}}";
    static char *const files[] = {bpe, unigram, wordpiece};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        /* jansson 2.14 frees what it never took when some of its own allocations fail: behind it.
         */
        int64_t before = plm__host_stats_get().alloc_calls;
        json_t *root = NULL;
        assert_ok(plm__json_read("given", files[i], strlen(files[i]), &root));
        json_decref(root);
        int64_t calls = plm__host_stats_get().alloc_calls - before;
        sweep_failures_from(1 + calls + 1, use_once, files[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_pieces_and_decoded_texts_are_those_of_the_reference),
        cmocka_unit_test(offsets_are_the_bytes_of_whole_characters),
        cmocka_unit_test(offsets_go_back_through_normalizers_to_the_text),
        cmocka_unit_test(a_hangul_tail_that_is_none_stays),
        cmocka_unit_test(blanks_that_a_token_took_along_may_begin_the_next),
        cmocka_unit_test(a_token_that_is_no_word_by_itself_is_passed_over_whole),
        cmocka_unit_test(characters_newer_than_pcre2_are_what_the_reference_takes_them_for),
        cmocka_unit_test(an_unknown_character_costs_ten_more_than_the_worst_token),
        cmocka_unit_test(unknown_characters_are_one_token_in_a_long_word_too),
        cmocka_unit_test(a_tokenizer_knows_its_tokens),
        cmocka_unit_test(ids_need_not_be_dense),
        cmocka_unit_test(bytes_that_are_no_text_decode_to_the_replacement_character),
        cmocka_unit_test(a_text_that_is_no_utf8_is_refused_with_the_place),
        cmocka_unit_test(malformed_files_are_refused_with_file_and_place),
        cmocka_unit_test(what_is_not_done_here_is_refused),
        cmocka_unit_test(a_file_that_is_cut_anywhere_is_refused),
        cmocka_unit_test(sequences_in_sequences_end_somewhere),
        cmocka_unit_test(an_expression_that_goes_back_without_end_is_one_error),
        cmocka_unit_test(the_steps_of_a_whole_text_are_bounded),
        cmocka_unit_test(a_word_of_ten_megabytes_takes_seconds),
        cmocka_unit_test(a_long_text_may_take_more_steps),
        cmocka_unit_test(marks_without_end_are_ordered_in_bounded_time),
        cmocka_unit_test(a_replacement_that_makes_too_much_is_refused),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(every_failing_allocation_is_told_and_leaves_nothing),
    };
    return run_test_group(tests);
}
