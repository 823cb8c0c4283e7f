/* SPDX-License-Identifier: MIT */
/* torch/pickle and torch/json_form: each opcode, what is refused, and that nothing is ever run. */
#include "unit/torch.h"

#include "torch/json_form.h"
#include "torch/pickle.h"

/* Writes a value as people would: [1, 'a', {'k': None}]. */
static void tell(const plm_document *document, const plm_value *value, plm_text *text)
{
    switch (value->kind) {
    case PLM_VALUE_NONE:
        plm__text_add(text, "None");
        return;
    case PLM_VALUE_BOOL:
        plm__text_add(text, value->integer ? "True" : "False");
        return;
    case PLM_VALUE_INTEGER:
        plm__text_add(text, "%lld", (long long)value->integer);
        return;
    case PLM_VALUE_NATURAL:
        plm__text_add(text, "%llu", (unsigned long long)value->natural);
        return;
    case PLM_VALUE_REAL:
        plm__text_add(text, "%.17g", value->real);
        return;
    case PLM_VALUE_TEXT:
        plm__text_add(text, "'%s'", plm__document_text(document, value->index));
        return;
    case PLM_VALUE_LIST:
    case PLM_VALUE_EMPTY_LIST:
        plm__text_add(text, "[");
        for (int64_t i = 0; i < plm__document_count(document, value); i++) {
            plm_value item = plm__document_item(document, value, i);
            plm__text_add(text, i ? ", " : "");
            tell(document, &item, text);
        }
        plm__text_add(text, "]");
        return;
    case PLM_VALUE_EMPTY_DICT:
        plm__text_add(text, "{}");
        return;
    default:
        assert_int_equal(value->kind, PLM_VALUE_DICT);
    }
    const plm_dict *dict = &document->dicts.items[value->index];
    plm__text_add(text, "{");
    for (int64_t i = 0; i < dict->pairs.count; i++) {
        plm__text_add(text, i == 0 ? "" : i % 2 ? ": " : ", ");
        tell(document, &dict->pairs.items[i], text);
    }
    plm__text_add(text, "}");
}

typedef plm_status (*form_reader)(plm_stream *stream, plm_document *document, plm_value *root);

/* Reads bytes; with `told` also writes what they say. */
static plm_status read_value(form_reader read, const void *bytes, size_t count, plm_text *told)
{
    plm_document document;
    plm_stream stream;
    plm_value root;
    PLM_TRY(plm__document_init(&document, NULL, 0, (plm_fold){0}));
    plm_status status = plm__stream_over("the file", bytes, count, &stream);
    if (status == PLM_OK)
        status = read(&stream, &document, &root);
    if (status == PLM_OK && told)
        tell(&document, &root, told);
    plm__stream_close(&stream);
    plm__document_fini(&document);
    return status;
}

static void assert_tells(form_reader read, const void *bytes, size_t count, const char *wanted)
{
    plm_text told = {0};
    assert_ok(read_value(read, bytes, count, &told));
    assert_ok(plm__text_status(&told));
    assert_string_equal(told.items, wanted);
    plm__text_fini(&told);
}

#define PICKLE(bytes) bytes, sizeof(bytes) - 1

static const struct {
    const char *bytes;
    size_t count;
    const char *wanted;
} pickles[] = {
    {PICKLE("N."), "None"},
    {PICKLE("\x80\x02\x88."), "True"},
    {PICKLE("\x80\x05\x89."), "False"},
    {PICKLE("J\xfe\xff\xff\xff."), "-2"},
    {PICKLE("K\xff."), "255"},
    {PICKLE("M\x01\x02."), "513"},
    {PICKLE("\x8a\x00."), "0"},
    {PICKLE("\x8a\x01\x80."), "-128"},
    {PICKLE("\x8a\x05\x00\x00\x00\x00\x01."), "4294967296"},
    {PICKLE("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."), "9223372036854775807"},
    {PICKLE("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."), "-9223372036854775808"},
    {PICKLE("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00."), "9223372036854775808"},
    {PICKLE("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00."), "18446744073709551615"},
    {PICKLE("\x8a\x09\x01\x00\x00\x00\x00\x00\x00\x00\x00."), "1"},
    {PICKLE("\x8b\x02\x00\x00\x00\x00\xff."), "-256"},
    {PICKLE("\x8b\x00\x00\x00\x00."), "0"},
    {PICKLE("G\x3f\xf8\x00\x00\x00\x00\x00\x00."), "1.5"},
    {PICKLE("U\x02hi."), "'hi'"},
    {PICKLE("T\x02\x00\x00\x00hi."), "'hi'"},
    {PICKLE("X\x02\x00\x00\x00hi."), "'hi'"},
    {PICKLE("C\x02hi."), "'hi'"},
    {PICKLE("B\x02\x00\x00\x00hi."), "'hi'"},
    {PICKLE("\x8c\x00."), "''"},
    {PICKLE("\x8c\x02hi."), "'hi'"},
    {PICKLE("\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi."), "'hi'"},
    {PICKLE("\x8e\x02\x00\x00\x00\x00\x00\x00\x00hi."), "'hi'"},
    {PICKLE("\x96\x02\x00\x00\x00\x00\x00\x00\x00hi."), "'hi'"},
    {PICKLE("]."), "[]"},
    {PICKLE(")."), "[]"},
    {PICKLE("}."), "{}"},
    {PICKLE("]K\x01\x61."), "[1]"},
    {PICKLE("](K\x01K\x02\x65K\x03\x61."), "[1, 2, 3]"},
    {PICKLE("](e."), "[]"},
    {PICKLE("(K\x01K\x02l."), "[1, 2]"},
    {PICKLE("(K\x01t."), "[1]"},
    {PICKLE("(t."), "[]"},
    {PICKLE("K\x01\x85."), "[1]"},
    {PICKLE("K\x01K\x02\x86."), "[1, 2]"},
    {PICKLE("K\x01K\x02K\x03\x87."), "[1, 2, 3]"},
    {PICKLE("}U\x01kK\x01s."), "{'k': 1}"},
    {PICKLE("}(U\x01kK\x01U\x01lK\x02u."), "{'k': 1, 'l': 2}"},
    {PICKLE("(U\x01kK\x01\x64."), "{'k': 1}"},
    {PICKLE("}K\x01K\x02s."), "{1: 2}"},
    {PICKLE("U\x01xq\x00h\x00\x86."), "['x', 'x']"},
    {PICKLE("U\x01xr\x05\x00\x00\x00j\x05\x00\x00\x00\x86."), "['x', 'x']"},
    {PICKLE("U\x01xp5\ng5\n\x86."), "['x', 'x']"},
    {PICKLE("U\x01x\x94h\x00\x86."), "['x', 'x']"},
    {PICKLE("K\x07\x94h\x00\x86."), "[7, 7]"},
    {PICKLE("(]\x94K\x01\x61h\x00t."), "[[1], [1]]"},
    {PICKLE("(}\x94U\x01kK\x01sh\x00t."), "[{'k': 1}, {'k': 1}]"},
    {PICKLE("(]\x94h\x00h\x00t."), "[[], [], []]"},
    {PICKLE("}(U\x01kK\x01uq\x00h\x00\x86."), "[{'k': 1}, {'k': 1}]"},
    {PICKLE("\x80\x04\x95\x02\x00\x00\x00\x00\x00\x00\x00K\x01."), "1"},
};

static void each_opcode_of_plain_data_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++)
        assert_tells(plm__pickle_read, pickles[i].bytes, pickles[i].count, pickles[i].wanted);
}

/* The inner loop reads common opcodes only when enough bytes follow: pad, so that it does. */
static void each_opcode_means_the_same_far_from_the_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++) {
        char bytes[128] = "(";
        size_t count = pickles[i].count - 1; /* without STOP */
        memcpy(bytes + 1, pickles[i].bytes, count);
        memset(bytes + 1 + count, 'N', 32);
        memcpy(bytes + 33 + count, "t.", 2);
        plm_text wanted = {0};
        plm__text_add(&wanted, "[%s", pickles[i].wanted);
        plm__text_repeat(&wanted, ", None", 32);
        plm__text_add(&wanted, "]");
        assert_tells(plm__pickle_read, bytes, count + 35, wanted.items);
        plm__text_fini(&wanted);
    }
}

static void opcodes_that_import_call_or_build_are_refused_by_name_and_place(void **state)
{
    (void)state;
    static const struct {
        uint8_t code;
        const char *name;
    } refused[] = {{'c', "GLOBAL"},        {'i', "INST"},         {'o', "OBJ"},
                   {'b', "BUILD"},         {'R', "REDUCE"},       {'P', "PERSID"},
                   {'Q', "BINPERSID"},     {0x81, "NEWOBJ"},      {0x82, "EXT1"},
                   {0x83, "EXT2"},         {0x84, "EXT4"},        {0x92, "NEWOBJ_EX"},
                   {0x93, "STACK_GLOBAL"}, {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"},
                   {'0', "POP"},           {'1', "POP_MARK"},     {'2', "DUP"},
                   {'I', "INT"},           {'S', "STRING"},       {0x8f, "EMPTY_SET"},
                   {0x91, "FROZENSET"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        uint8_t bytes[] = {0x80, 4, '(', 'U', 2, 'o', 's', refused[i].code, 'o', 's', '\n', '.'};
        char wanted[64];
        snprintf(wanted, sizeof wanted, "'the file', byte 7: opcode %s is refused",
                 refused[i].name);
        assert_int_equal(read_value(plm__pickle_read, bytes, sizeof bytes, NULL), PLM_ERROR_FORMAT);
        assert_message_has(wanted);
    }
}

static void malformed_pickles_are_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        const char *words;
    } cases[] = {
        {PICKLE(""), "cut off"},
        {PICKLE("\xff."), "0xff is no pickle opcode"},
        {PICKLE("\x80\x01N."), "protocol 1: wanted 2 to 5"},
        {PICKLE("\x80\x06N."), "protocol 6"},
        {PICKLE("."), "wanted one value at the end, found 0"},
        {PICKLE("NN."), "wanted one value at the end, found 2"},
        {PICKLE("(N."), "1 open marks"},
        {PICKLE("NN.N"), "wanted one value"},
        {PICKLE("N.N"), "goes on after its end at byte 2"},
        {PICKLE("e."), "no mark is open"},
        {PICKLE("(e."), "without a list"},
        {PICKLE("Na."), "wanted 2 values"},
        {PICKLE("NNa."), "no list"},
        {PICKLE("N(Ne."), "no list"},
        {PICKLE("N(Nu."), "a key without its value"},
        {PICKLE("N(NNu."), "no dictionary"},
        {PICKLE("NNs."), "wanted 3 values"},
        {PICKLE("h\x00."), "memo slot 0 was never set"},
        {PICKLE("\x94."), "wanted 1 values"},
        {PICKLE("Nr\xff\xff\xff\x7f."), "memo slot 2147483647, when 0 values were stored"},
        {PICKLE("g12x\n."), "memo slot in digits"},
        {PICKLE("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."), "at most 64 bits"},
        {PICKLE("\x8b\xff\xff\xff\xff."), "integer of -1 bytes"},
        {PICKLE("\x8d\x00\x00\x00\x00\x00\x00\x00\x80."), "text of 9223372036854775808 bytes"},
        {PICKLE("]\x94h\x00\x61."), "it holds itself"},
        {PICKLE("}\x94U\x01kh\x00s."), "it holds itself"},
        {PICKLE("(\x85."), "wanted 1 values"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(read_value(plm__pickle_read, cases[i].bytes, cases[i].count, NULL),
                         PLM_ERROR_FORMAT);
        assert_message_has("'the file'");
        assert_message_has(cases[i].words);
    }
}

static void nesting_beyond_the_maximum_is_refused(void **state)
{
    (void)state;
    char bytes[2 * PLM_DOCUMENT_DEPTH_MAX + 8];
    memset(bytes, '(', sizeof bytes);
    assert_int_equal(read_value(plm__pickle_read, bytes, sizeof bytes, NULL), PLM_ERROR_FORMAT);
    assert_message_has("nested deeper than 256");
    memset(bytes, '[', sizeof bytes);
    assert_int_equal(read_value(plm__json_form_read, bytes, sizeof bytes, NULL), PLM_ERROR_FORMAT);
    assert_message_has("nested deeper than 256");
}

static void json_gives_the_same_values(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"null", "None"},
        {" [true,\tfalse]\n", "[True, False]"},
        {"-7", "-7"},
        {"18446744073709551615", "18446744073709551615"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"[1.5, 1e3, -0.25E-1, 0]", "[1.5, 1000, -0.025000000000000001, 0]"},
        {"\"\"", "''"},
        {"\"a\\\"\\\\\\/\\n\\u0041\\u00e9\\ud83d\\ude00\"", "'a\"\\/\nA\xc3\xa9\xf0\x9f\x98\x80'"},
        {"\xef\xbb\xbf{}", "{}"},
        {"[]", "[]"},
        {"{\"a\": [1, {\"b\": []}, 2], \"c\": {}}", "{'a': [1, {'b': []}, 2], 'c': {}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_tells(plm__json_form_read, cases[i][0], strlen(cases[i][0]), cases[i][1]);
}

static void malformed_json_is_refused_with_the_reason(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"[1, 2", "cut off: wanted ',' or ']'"},
        {"{\"a\" 1}", "wanted ':' after a key, found '1'"},
        {"{a: 1}", "wanted a key in quotes, found 'a'"},
        {"[1,]", "wanted a value, found ']'"},
        {"[01]", "'01' is no number"},
        {"[1.]", "'1.' is no number"},
        {"[-]", "'-' is no number"},
        {"18446744073709551616", "does not fit 64 bits"},
        {"-9223372036854775809", "does not fit 64 bits"},
        {"\"a\\x\"", "wanted an escape, found 'x'"},
        {"\"a\\u00g0\"", "wanted four hexadecimal digits"},
        {"\"a\nb\"", "wanted the rest of a text, found the byte 0x0a"},
        {"\"a", "cut off"},
        {"nul", "wanted a value, found 'n'"},
        {"[] []", "wanted the end of the file, found '['"},
        {"[}", "wanted a value, found '}'"},
        {"[1}", "wanted ',' or ']', found '}'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(read_value(plm__json_form_read, cases[i][0], strlen(cases[i][0]), NULL),
                         PLM_ERROR_FORMAT);
        assert_message_has("'the file', byte ");
        assert_message_has(cases[i][1]);
    }
}

static void a_long_json_array_is_taken_in_batches(void **state)
{
    (void)state;
    plm_text text = {0};
    plm__text_add(&text, "[0");
    for (int i = 1; i < 2500; i++)
        plm__text_add(&text, ", %d", i);
    plm__text_add(&text, "]");
    assert_tells(plm__json_form_read, text.items, (size_t)text.count, text.items);
    plm__text_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_opcode_of_plain_data_is_read),
        cmocka_unit_test(each_opcode_means_the_same_far_from_the_end),
        cmocka_unit_test(opcodes_that_import_call_or_build_are_refused_by_name_and_place),
        cmocka_unit_test(malformed_pickles_are_refused_with_the_reason),
        cmocka_unit_test(nesting_beyond_the_maximum_is_refused),
        cmocka_unit_test(json_gives_the_same_values),
        cmocka_unit_test(malformed_json_is_refused_with_the_reason),
        cmocka_unit_test(a_long_json_array_is_taken_in_batches),
    };
    return run_test_group(tests);
}
