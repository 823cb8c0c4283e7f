/* SPDX-License-Identifier: MIT */
/* The families of models: each row is whole, and messages and checkpoints are told from the rows.
 */
#include "unit/test.h"

#include "model/family.h"

static void every_family_has_presets_an_example_and_trials_that_parse(void **state)
{
    (void)state;
    for (const plm_family *const *row = plm__families; *row; row++) {
        plm_model model, gpu, cpu, quick;
        assert_ptr_equal(plm__family_find((*row)->name), *row);
        for (const plm_model *preset = (*row)->presets; preset->name[0]; preset++) {
            assert_ok(plm_model_parse(preset->name, &model));
            assert_ptr_equal(model.family, *row);
            assert_ok((*row)->check(&model));
        }
        assert_ok(plm_model_parse((*row)->example, &model));
        assert_string_equal(model.name, (*row)->example);
        assert_ok(plm_model_parse((*row)->trials.gpu, &gpu));
        assert_ok(plm_model_parse((*row)->trials.cpu, &cpu));
        assert_ok(plm_model_parse((*row)->trials.quick, &quick));
        assert_true(gpu.vocab > cpu.vocab && gpu.context > cpu.context);
        assert_true(cpu.vocab > quick.vocab && cpu.context > quick.context);
    }
}

static void assert_refused(const char *text, const char *told)
{
    plm_model model = {.name = "as it was"};
    plm_error error;
    assert_int_equal(plm_model_parse(text, &model), PLM_ERROR_ARGUMENT);
    plm_error_get(&error);
    if (!strstr(error.message, told))
        fail_msg("'%s' is not in: %s", told, error.message);
    assert_string_equal(model.name, "as it was");
}

static void what_is_unknown_is_answered_by_all_that_is_known(void **state)
{
    (void)state;
    assert_refused("gpt3",
                   "unknown model 'gpt3'; known are gpt2, gpt2-medium, gpt2-large, gpt2-xl, "
                   "bert-base, bert-large and descriptions such as gpt:layers=4,width=128,"
                   "heads=4,context=128,vocab=256 and bert:layers=4,width=128,heads=4,"
                   "context=128,vocab=257");
    assert_refused("gpt", "unknown model 'gpt'");
    assert_refused("bert:depth=3", "unknown key 'depth'; known are layers, width, heads, context, "
                                   "vocab, dropout");
    assert_refused("gpt:layers=2", "width is missing; try gpt:layers=4");
    assert_refused("gpt:layers=2,layers=2", "wanted layers once");
    assert_refused("gpt:dropout=1", "wanted dropout of at least 0 and under 1");
}

/* A checkpoint holds this text: one that was saved before must still be known. */
static void a_model_is_told_by_its_familys_keys_in_their_order(void **state)
{
    (void)state;
    plm_model model;
    char text[192];
    assert_ok(
        plm_model_parse("bert:vocab=300,dropout=0.1,layers=2,width=8,heads=2,context=4", &model));
    plm__model_tell(&model, text, sizeof text);
    assert_string_equal(text,
                        "bert layers=2 width=8 heads=2 context=4 vocab=300 dropout=0.100000001");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_has_presets_an_example_and_trials_that_parse),
        cmocka_unit_test(what_is_unknown_is_answered_by_all_that_is_known),
        cmocka_unit_test(a_model_is_told_by_its_familys_keys_in_their_order),
    };
    return run_test_group(tests);
}
