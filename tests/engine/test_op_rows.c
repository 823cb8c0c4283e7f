/* SPDX-License-Identifier: MIT */
/* The rows of the operation table: that their columns agree, and what the passes take them for. */
#include <string.h>

#include "graph/op.h"
#include "unit/test.h"

/* How many words stand in `text` up to a character of `ends`; *text is moved behind it. */
static int words_until(const char **text, const char *ends)
{
    int words = 0;
    while (**text && !strchr(ends, **text)) {
        words++;
        *text += strcspn(*text, " ");
        *text += strspn(*text, " ");
    }
    return words;
}

static void a_row_states_as_many_operands_as_it_counts(void **state)
{
    (void)state;
    for (int kind = 0; kind < PLM_OP_COUNT; kind++) {
        const plm_op_info *row = plm__op_info_of((plm_op_kind)kind);
        const char *at = row->operands;
        assert_int_equal(words_until(&at, ">;"), row->inputs);
        if (*at == '>')
            at += 2;
        assert_int_equal(words_until(&at, ";"), row->outputs);
        if (*at == ';')
            at += 2;
        assert_int_equal(words_until(&at, ""), row->effects);
    }
}

/* The first words of input i and of output 0 are then the same. */
static void an_output_takes_the_place_only_of_an_input_of_its_shape(void **state)
{
    (void)state;
    for (int kind = 0; kind < PLM_OP_COUNT; kind++) {
        const plm_op_info *row = plm__op_info_of((plm_op_kind)kind);
        assert_int_equal(row->overwrites >> row->inputs, 0);
        const char *input = row->operands, *output = strchr(row->operands, '>');
        for (int i = 0; i < row->inputs; i++, input = strchr(input, ' ') + 1)
            if (row->overwrites >> i & 1) {
                assert_non_null(output);
                size_t length = strcspn(input, " ");
                assert_int_equal(length, strcspn(output + 2, " "));
                assert_memory_equal(input, output + 2, length);
            }
    }
}

static void rows_have_the_classes_that_passes_go_by(void **state)
{
    (void)state;
    static const struct {
        plm_op_kind kind;
        plm_op_class class;
    } wanted[] = {
        {PLM_OP_LAYER_NORM, PLM_CLASS_NORMALISATION},
        {PLM_OP_LINEAR, PLM_CLASS_PRODUCT},
        {PLM_OP_GELU, PLM_CLASS_ACTIVATION},
        {PLM_OP_GELU_EXACT, PLM_CLASS_ACTIVATION},
        {PLM_OP_ATTENTION, PLM_CLASS_ATTENTION},
        {PLM_OP_ATTENTION_SCORES, PLM_CLASS_ATTENTION},
        {PLM_OP_SOFTMAX, PLM_CLASS_ATTENTION},
        {PLM_OP_ATTENTION_APPLY, PLM_CLASS_ATTENTION},
        {PLM_OP_LINEAR_GRAD_INPUT, PLM_CLASS_PRODUCT_GRADIENT},
        {PLM_OP_LINEAR_GRAD_WEIGHT, PLM_CLASS_PRODUCT_GRADIENT},
        {PLM_OP_LINEAR_GRAD_BIAS, PLM_CLASS_PRODUCT_GRADIENT},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_int_equal(plm__op_info_of(wanted[i].kind)->class, wanted[i].class);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_states_as_many_operands_as_it_counts),
        cmocka_unit_test(an_output_takes_the_place_only_of_an_input_of_its_shape),
        cmocka_unit_test(rows_have_the_classes_that_passes_go_by),
    };
    return run_test_group(tests);
}
