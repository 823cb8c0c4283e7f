/* SPDX-License-Identifier: MIT */
/* Strategies as JSON: what is read, what is refused, and that a refusal changes nothing. */
#include "plimsoll/strategy.h"
#include "unit/test.h"
#include "graph/strategy.h"

static plm_status read_text(const char *text, plm_strategy *strategy)
{
    return plm_strategy_read("strategy", text, strlen(text), strategy);
}

static void fields_that_are_absent_keep_their_default(void **state)
{
    (void)state;
    plm_strategy strategy = {.micro_batch = 99};
    assert_ok(read_text("{}", &strategy));
    assert_int_equal(strategy.micro_batch, 0);
    assert_int_equal(strategy.precision, PLM_DTYPE_F32);
    assert_int_equal(strategy.attention, PLM_ATTENTION_FUSED);
    assert_ok(read_text("{\"attention\": \"plain\"}", &strategy));
    assert_int_equal(strategy.attention, PLM_ATTENTION_PLAIN);
    assert_ok(read_text("{\"attention\": \"auto\"}", &strategy));
    assert_int_equal(strategy.attention, PLM_ATTENTION_AUTO);
    assert_string_equal(plm_attention_text(strategy.attention), "auto");
    assert_int_equal(strategy.micro_batch, 0);
}

static void every_field_is_read(void **state)
{
    (void)state;
    plm_strategy strategy = plm_strategy_default();
    assert_ok(read_text("{\"micro_batch\": 4, \"precision\": \"fp32\", \"attention\": \"plain\"}\n",
                        &strategy));
    assert_int_equal(strategy.micro_batch, 4);
    assert_int_equal(strategy.precision, PLM_DTYPE_F32);
    assert_int_equal(strategy.attention, PLM_ATTENTION_PLAIN);
}

static void what_is_wrong_is_named_and_nothing_changes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        plm_status status;
        const char *named;
    } cases[] = {
        {"", PLM_ERROR_FORMAT, "strategy"},
        {"{\"micro_batch\": 4", PLM_ERROR_FORMAT, "strategy"},
        {"{\"micro_batch\": 4} x", PLM_ERROR_FORMAT, "strategy"},
        {"{\"micro_batch\": 4, \"micro_batch\": 5}", PLM_ERROR_FORMAT, "micro_batch"},
        {"[]", PLM_ERROR_FORMAT, "object"},
        {"3", PLM_ERROR_FORMAT, "JSON"},
        {"{\"micro_batch\": 0}", PLM_ERROR_ARGUMENT, "micro_batch"},
        {"{\"micro_batch\": -4}", PLM_ERROR_ARGUMENT, "micro_batch"},
        {"{\"micro_batch\": 1.5}", PLM_ERROR_ARGUMENT, "micro_batch"},
        {"{\"micro_batch\": \"4\"}", PLM_ERROR_ARGUMENT, "micro_batch"},
        {"{\"micro_batch\": 99999999999999999999}", PLM_ERROR_FORMAT, "strategy"},
        {"{\"micro_batch\": 2, \"precision\": \"fp8\"}", PLM_ERROR_ARGUMENT, "fp8"},
        {"{\"precision\": 32}", PLM_ERROR_ARGUMENT, "precision"},
        {"{\"precision\": \"int32\"}", PLM_ERROR_ARGUMENT, "int32"},
        {"{\"gradient\": \"fp16\"}", PLM_ERROR_ARGUMENT, "gradient"},
        {"{\"update\": \"soon\"}", PLM_ERROR_ARGUMENT, "soon"},
        {"{\"update\": true}", PLM_ERROR_ARGUMENT, "update"},
        {"{\"head_chunks\": 0}", PLM_ERROR_ARGUMENT, "head_chunks"},
        {"{\"mlp_chunks\": 0}", PLM_ERROR_ARGUMENT, "mlp_chunks"},
        {"{\"mlp_chunks\": true}", PLM_ERROR_ARGUMENT, "mlp_chunks"},
        {"{\"attention\": \"flash\"}", PLM_ERROR_ARGUMENT, "flash"},
        {"{\"recompute\": \"mlp+\"}", PLM_ERROR_ARGUMENT, "recompute"},
        {"{\"recompute\": \"mlp+auto\"}", PLM_ERROR_ARGUMENT, "mlp+auto"},
        {"{\"recompute\": \"ln1\\n\"}", PLM_ERROR_ARGUMENT, "recompute"},
        {"{\"recompute\": \"a.name.that.is.longer.than.any.has\"}", PLM_ERROR_ARGUMENT, "a.name"},
        {"{\"recompute\": \"a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p+q\"}", PLM_ERROR_ARGUMENT, "'q'"},
        {"{\"attention\": null}", PLM_ERROR_ARGUMENT, "attention"},
        {"{\"attention\": \"plain\", \"recomptue\": \"mlp\"}", PLM_ERROR_ARGUMENT, "recomptue"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_strategy strategy = {
            .micro_batch = 7, .precision = PLM_DTYPE_BF16, .attention = PLM_ATTENTION_PLAIN};
        plm_error error;
        if (read_text(cases[i].text, &strategy) != cases[i].status)
            fail_msg("%s is not %s", cases[i].text, plm_status_name(cases[i].status));
        plm_error_get(&error);
        if (!strstr(error.message, cases[i].named))
            fail_msg("'%s' does not name %s", error.message, cases[i].named);
        assert_int_equal(strategy.micro_batch, 7);
        assert_int_equal(strategy.precision, PLM_DTYPE_BF16);
        assert_int_equal(strategy.attention, PLM_ATTENTION_PLAIN);
    }
}

static void recompute_is_written_as_it_is_read(void **state)
{
    (void)state;
    static const char *const texts[] = {"none",
                                        "auto",
                                        "act",
                                        "block",
                                        "attention",
                                        "mlp+attention",
                                        "ln1",
                                        "act+attention.qkv",
                                        "attention+mlp.up+gelu",
                                        "a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        plm_strategy strategy = plm_strategy_default();
        char text[PLM_RECOMPUTE_TEXT];
        uint32_t bits, again;
        assert_ok(plm_strategy_recompute_parse(&strategy, texts[i], &bits));
        assert_string_equal(plm__recompute_format(&strategy, bits, text), texts[i]);
        assert_ok(plm_strategy_recompute_parse(&strategy, text, &again)); /* the names are there */
        assert_int_equal(again, bits);
    }
}

/* A network is asked for every name that a strategy has. */
static void names_of_a_refused_text_are_not_kept(void **state)
{
    (void)state;
    static const char *const texts[] = {"gelu+", "gelu+ln1+no\tname",
                                        "b+c+d+e+f+g+h+i+j+k+l+m+n+o+p+q"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        plm_strategy strategy = plm_strategy_default();
        uint32_t bits = 77, before;
        assert_ok(plm_strategy_recompute_parse(&strategy, "a", &before));
        assert_int_equal(plm_strategy_recompute_parse(&strategy, texts[i], &bits),
                         PLM_ERROR_ARGUMENT);
        assert_int_equal(strategy.recompute_name_count, 1);
        assert_int_equal(bits, 77);
    }
}

static void choices_that_are_none_have_a_text(void **state)
{
    (void)state;
    assert_string_equal(plm_attention_text((plm_attention_form)3), "unknown");
    assert_string_equal(plm_update_time_text((plm_update_time)2), "unknown");
}

static void a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    plm_strategy strategy = plm_strategy_default();
    plm_error error;
    assert_int_equal(plm_strategy_load("/nonexistent/strategy.json", &strategy), PLM_ERROR_IO);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "/nonexistent/strategy.json"));
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int persistent = 0; persistent < 2; persistent++) {
        bool fired = true;
        for (int64_t n = 1; fired; n++) {
            plm_strategy strategy = plm_strategy_default();
            plm__host_fail_at(n, persistent != 0);
            plm_status status =
                read_text("{\"micro_batch\": 4, \"attention\": \"plain\"}", &strategy);
            fired = plm__host_fail_at(0, false);
            assert_int_equal(status, fired ? PLM_ERROR_HOST_MEMORY : PLM_OK);
            assert_int_equal(strategy.micro_batch, fired ? 0 : 4);
            assert_int_equal(plm__host_stats_get().live_count, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_that_are_absent_keep_their_default),
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(what_is_wrong_is_named_and_nothing_changes),
        cmocka_unit_test(recompute_is_written_as_it_is_read),
        cmocka_unit_test(names_of_a_refused_text_are_not_kept),
        cmocka_unit_test(choices_that_are_none_have_a_text),
        cmocka_unit_test(a_file_that_is_not_there_is_named),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return run_test_group(tests);
}
