/* SPDX-License-Identifier: MIT */
/*
 * Passes: what the backward emits and in which order, that gradients are written once and then
 * added to, what frozen parameters spare, and how the update is grouped.
 */
#include "pass/pass.h"
#include "plimsoll/model.h"
#include "unit/test.h"

enum { BATCH = 2, LENGTH = 4, WIDTH = 8, VOCABULARY = 10 };

#define NONE PLM_TENSOR_NONE

static plm_graph *new_graph(void)
{
    plm_graph *g = NULL;
    plm_strategy strategy = plm_strategy_default();
    assert_ok(plm__graph_create(&strategy, &g));
    return g;
}

static plm_tensor matrix(plm_graph *g, const char *name, int64_t rows, int64_t columns)
{
    return plm_parameter(g, name, 2, (int64_t[]){rows, columns}, plm_init_normal(1), true);
}

static plm_tensor vector(plm_graph *g, const char *name, int64_t count)
{
    return plm_parameter(g, name, 1, &count, plm_init_constant(0), false);
}

static plm_tensor tokens(plm_graph *g)
{
    return plm_input(g, "tokens", 2, (int64_t[]){BATCH, LENGTH});
}

/* A parameter that does not learn; to be frozen before its first use. */
static plm_tensor freeze(plm_graph *g, plm_tensor parameter)
{
    g->tensors.items[parameter].trainable = g->tensors.items[parameter].needs_gradient = false;
    return parameter;
}

/* Checks that the program's operations from `from` on are these kinds. */
static void assert_kinds(const plm_graph *g, plm_program program, int64_t from,
                         const plm_op_kind *kinds, int64_t count)
{
    plm_op_range range = g->programs[program];
    for (int64_t i = 0; i < count && range.begin + from + i < range.end; i++)
        assert_string_equal(plm__op_info_of(g->ops.items[range.begin + from + i].kind)->text,
                            plm__op_info_of(kinds[i])->text);
    assert_int_equal(range.end - range.begin - from, count);
}

#define ASSERT_KINDS(g, program, from, ...)                                                        \
    assert_kinds(g, program, from, (const plm_op_kind[]){__VA_ARGS__},                             \
                 sizeof((const plm_op_kind[]){__VA_ARGS__}) / sizeof(plm_op_kind))

/* ---- backward ------------------------------------------------------------------------------ */

/* x reaches the loss directly and through a GELU; the head is tied. Forward: 5 operations. */
static void build_branch(plm_graph *g, plm_program program)
{
    plm__graph_begin(g, program);
    plm_tensor ids = tokens(g), table = matrix(g, "table", VOCABULARY, WIDTH);
    plm_tensor x = plm_embedding(g, ids, table);
    plm_tensor sum = plm_add(g, plm_gelu(g, x), x);
    plm_cross_entropy(g, plm_linear(g, sum, table, NONE), ids);
    assert_ok(plm__pass_backward(g));
}

static void gradients_that_meet_are_summed_by_operations_in_order(void **state)
{
    (void)state;
    plm_graph *g = new_graph();
    build_branch(g, PLM_PROGRAM_FIRST);
    ASSERT_KINDS(g, PLM_PROGRAM_FIRST, 6, PLM_OP_CROSS_ENTROPY_GRAD, PLM_OP_LINEAR_GRAD_WEIGHT,
                 PLM_OP_LINEAR_GRAD_INPUT, PLM_OP_GELU_GRAD, PLM_OP_ADD, PLM_OP_EMBEDDING_GRAD);
    const plm_op *ops = &g->ops.items[g->programs[PLM_PROGRAM_FIRST].begin + 6];
    assert_int_equal(ops[3].in[0], ops[2].out[0]); /* the gradient of the sum is its terms' */
    assert_int_equal(ops[4].in[0], ops[2].out[0]); /* what came first stands first */
    assert_int_equal(ops[4].in[1], ops[3].out[0]);
    assert_int_equal(ops[5].in[1], ops[4].out[0]);
    plm__graph_destroy(g);
}

static void a_window_is_written_first_and_added_to_from_then_on(void **state)
{
    (void)state;
    plm_graph *g = new_graph();
    build_branch(g, PLM_PROGRAM_FIRST);
    build_branch(g, PLM_PROGRAM_NEXT);
    for (int program = PLM_PROGRAM_FIRST; program <= PLM_PROGRAM_NEXT; program++) {
        const plm_op *ops = &g->ops.items[g->programs[program].begin + 6];
        assert_int_equal(ops[1].attr.accumulate, program == PLM_PROGRAM_NEXT); /* of the head */
        assert_true(ops[5].attr.accumulate); /* of the embedding, the same weight */
        assert_int_equal(ops[1].effect[0], ops[5].effect[0]);
    }
    plm__graph_destroy(g);
}

/* In every program of a whole GPT, dropout and all. */
static void each_gradient_of_a_gpt_is_written_once_in_first_and_never_in_next(void **state)
{
    (void)state;
    plm_model model;
    assert_ok(
        plm_model_parse("gpt:layers=3,width=16,heads=2,context=8,vocab=12,dropout=0.1", &model));
    for (int form = 0; form < 2; form++) {
        plm_graph *g = new_graph();
        g->strategy.attention = (plm_attention_form)form;
        for (int program = PLM_PROGRAM_FIRST; program <= PLM_PROGRAM_NEXT; program++) {
            plm__graph_begin(g, (plm_program)program);
            plm_network network = plm_model_network(&model);
            network.build(g, network.config, (plm_program)program, 2, 8);
            assert_ok(plm__pass_backward(g));
            int32_t *writes = calloc((size_t)g->tensors.count, sizeof *writes);
            int32_t *all = calloc((size_t)g->tensors.count, sizeof *all);
            for (int64_t i = g->programs[program].begin; i < g->programs[program].end; i++)
                for (int k = 0; k < PLM_OP_EFFECTS_MAX; k++) {
                    const plm_op *op = &g->ops.items[i];
                    if (op->effect[k] == NONE)
                        continue;
                    if (!op->attr.accumulate)
                        assert_int_equal(all[op->effect[k]], 0); /* a write comes first */
                    writes[op->effect[k]] += !op->attr.accumulate;
                    all[op->effect[k]]++;
                }
            for (int64_t i = 0; i < g->parameters.count; i++) {
                plm_tensor gradient = g->parameters.items[i].flat[PLM_FLAT_GRADIENT];
                assert_true(gradient != NONE);
                assert_int_equal(writes[gradient], program == PLM_PROGRAM_FIRST);
                assert_int_equal(all[gradient], i == 0 ? 2 : 1); /* the token table is tied */
            }
            free(writes);
            free(all);
        }
        plm__graph_destroy(g);
    }
}

static void nothing_is_made_for_what_does_not_learn(void **state)
{
    (void)state;
    plm_graph *g = new_graph();
    plm__graph_begin(g, PLM_PROGRAM_FIRST);
    plm_tensor ids = tokens(g);
    plm_tensor table = freeze(g, matrix(g, "table", VOCABULARY, WIDTH));
    plm_tensor below = freeze(g, matrix(g, "below", WIDTH, WIDTH));
    plm_tensor learns = matrix(g, "learns", WIDTH, WIDTH);
    plm_tensor bias = freeze(g, vector(g, "bias", WIDTH));
    plm_tensor x = plm_gelu(g, plm_linear(g, plm_embedding(g, ids, table), below, NONE));
    plm_tensor y = plm_linear(g, x, learns, bias);
    plm_cross_entropy(g, plm_linear(g, y, table, NONE), ids);
    assert_ok(plm__pass_backward(g));
    /* the frozen head passes its input's gradient on; below `learns` there is nothing */
    ASSERT_KINDS(g, PLM_PROGRAM_FIRST, 7, PLM_OP_CROSS_ENTROPY_GRAD, PLM_OP_LINEAR_GRAD_INPUT,
                 PLM_OP_LINEAR_GRAD_WEIGHT);
    for (int64_t i = 0; i < g->parameters.count; i++) {
        plm_tensor parameter = g->parameters.items[i].flat[PLM_FLAT_PARAMETER];
        assert_int_equal(g->parameters.items[i].flat[PLM_FLAT_GRADIENT] != NONE,
                         parameter == learns);
    }
    plm__graph_destroy(g);
}

static void a_network_that_learns_nothing_has_no_backward(void **state)
{
    (void)state;
    plm_graph *g = new_graph();
    plm__graph_begin(g, PLM_PROGRAM_FIRST);
    plm_tensor ids = tokens(g), table = freeze(g, matrix(g, "table", VOCABULARY, WIDTH));
    plm_cross_entropy(g, plm_linear(g, plm_embedding(g, ids, table), table, NONE), ids);
    int64_t count = g->ops.count;
    assert_ok(plm__pass_backward(g));
    assert_int_equal(g->ops.count, count);
    plm__graph_destroy(g);
}

static void a_branch_that_the_loss_does_not_see_has_no_backward(void **state)
{
    (void)state;
    plm_graph *g = new_graph();
    plm__graph_begin(g, PLM_PROGRAM_FIRST);
    plm_tensor ids = tokens(g), table = matrix(g, "table", VOCABULARY, WIDTH);
    plm_tensor x = plm_embedding(g, ids, table);
    plm_tensor unseen = plm_linear(g, x, matrix(g, "unseen", WIDTH, WIDTH), NONE);
    plm_output(g, plm_gelu(g, unseen));
    plm_cross_entropy(g, plm_linear(g, x, table, NONE), ids);
    assert_ok(plm__pass_backward(g));
    ASSERT_KINDS(g, PLM_PROGRAM_FIRST, 6, PLM_OP_CROSS_ENTROPY_GRAD, PLM_OP_LINEAR_GRAD_WEIGHT,
                 PLM_OP_LINEAR_GRAD_INPUT, PLM_OP_EMBEDDING_GRAD);
    plm__graph_destroy(g);
}

static void dropout_goes_back_through_the_same_mask(void **state)
{
    (void)state;
    plm_graph *g = new_graph();
    plm__graph_begin(g, PLM_PROGRAM_FIRST);
    plm_tensor ids = tokens(g), table = matrix(g, "table", VOCABULARY, WIDTH);
    plm_tensor x = plm_dropout(g, plm_embedding(g, ids, table), 0.25f);
    plm_op forward = g->ops.items[g->ops.count - 1];
    plm_cross_entropy(g, plm_linear(g, x, table, NONE), ids);
    assert_ok(plm__pass_backward(g));
    const plm_op *back = &g->ops.items[g->ops.count - 2];
    assert_int_equal(back->kind, PLM_OP_DROPOUT);
    assert_int_equal(back->attr.site, forward.attr.site);
    assert_true(back->attr.probability == forward.attr.probability);
    plm__graph_destroy(g);
}

static void backward_operations_carry_the_layer_and_name_of_their_forward(void **state)
{
    (void)state;
    plm_graph *g = new_graph();
    plm__graph_begin(g, PLM_PROGRAM_FIRST);
    g->strategy.attention = PLM_ATTENTION_PLAIN;
    plm_tensor ids = tokens(g), table = matrix(g, "table", VOCABULARY, WIDTH);
    plm_tensor x = plm_embedding(g, ids, table);
    plm_layer(g, "block.7");
    plm_tensor qkv = plm_linear(g, x, matrix(g, "qkv.weight", 3 * WIDTH, WIDTH), NONE);
    x = plm_attention(g, qkv, 2, 2, true);
    plm_layer(g, "head");
    plm_cross_entropy(g, plm_linear(g, x, table, NONE), ids);
    assert_ok(plm__pass_backward(g));
    int found = 0;
    for (int64_t i = g->programs[PLM_PROGRAM_FIRST].begin; i < g->ops.count; i++) {
        const plm_op *op = &g->ops.items[i];
        const char *label = plm__intern_text(&g->names, op->label), *wanted = NULL;
        if (op->kind == PLM_OP_SOFTMAX_GRAD)
            wanted = "softmax gradient";
        else if (op->kind == PLM_OP_ATTENTION_GRAD_QKV)
            wanted = "attention gradient";
        else if (op->kind == PLM_OP_LINEAR_GRAD_WEIGHT && strcmp(label, "table") != 0)
            wanted = "qkv";
        if (!wanted)
            continue;
        found++;
        assert_string_equal(label, wanted);
        assert_string_equal(plm__intern_text(&g->names, op->layer), "block.7");
    }
    assert_int_equal(found, 3);
    plm__graph_destroy(g);
}

static void a_backward_without_a_loss_is_refused(void **state)
{
    (void)state;
    plm_graph *g = new_graph();
    plm_error error;
    plm__graph_begin(g, PLM_PROGRAM_FIRST);
    plm_gelu(g, plm_embedding(g, tokens(g), matrix(g, "table", VOCABULARY, WIDTH)));
    assert_int_equal(plm__pass_backward(g), PLM_ERROR_ARGUMENT);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "without a cross entropy"));
    plm__graph_destroy(g);
}

static void a_normalisation_that_shares_or_freezes_half_of_its_weights_is_refused(void **state)
{
    (void)state;
    plm_graph *g = new_graph();
    plm_error error;
    plm__graph_begin(g, PLM_PROGRAM_FIRST);
    plm_tensor ids = tokens(g), table = matrix(g, "table", VOCABULARY, WIDTH);
    plm_tensor scale = vector(g, "scale", WIDTH);
    plm_tensor x = plm_embedding(g, ids, table);
    x = plm_layer_norm(g, x, scale, vector(g, "first", WIDTH), 1e-5f);
    x = plm_layer_norm(g, x, scale, vector(g, "second", WIDTH), 1e-5f);
    plm_cross_entropy(g, plm_linear(g, x, table, NONE), ids);
    assert_int_equal(plm__pass_backward(g), PLM_ERROR_UNSUPPORTED);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "share both"));
    plm__graph_destroy(g);
    for (int which = 0; which < 2; which++) {
        g = new_graph();
        plm__graph_begin(g, PLM_PROGRAM_FIRST);
        ids = tokens(g), table = matrix(g, "table", VOCABULARY, WIDTH);
        plm_tensor weights[2] = {vector(g, "scale", WIDTH), vector(g, "bias", WIDTH)};
        freeze(g, weights[which]);
        x = plm_layer_norm(g, plm_embedding(g, ids, table), weights[0], weights[1], 1e-5f);
        plm_cross_entropy(g, plm_linear(g, x, table, NONE), ids);
        assert_int_equal(plm__pass_backward(g), PLM_ERROR_UNSUPPORTED);
        plm__graph_destroy(g);
    }
}

static void a_backward_through_an_operation_that_has_none_is_refused(void **state)
{
    (void)state;
    plm_graph *g = new_graph();
    plm_error error;
    plm__graph_begin(g, PLM_PROGRAM_FIRST);
    plm_tensor table = matrix(g, "table", VOCABULARY, WIDTH);
    plm_tensor x = plm_select(g, plm_embedding(g, tokens(g), table));
    plm_tensor targets = plm_input(g, "targets", 1, &plm__graph_tensor(g, x)->shape.dims[0]);
    plm_cross_entropy(g, plm_linear(g, x, table, NONE), targets);
    assert_int_equal(plm__pass_backward(g), PLM_ERROR_UNSUPPORTED);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "select has no backward"));
    plm__graph_destroy(g);
}

/* ---- update and first values --------------------------------------------------------------- */

static void the_update_decays_one_group_and_not_the_other(void **state)
{
    (void)state;
    plm_graph *g = new_graph();
    build_branch(g, PLM_PROGRAM_FIRST);
    vector(g, "bias", 5);
    assert_ok(plm__pass_update(g, PLM_OPTIMIZER_ADAMW));
    ASSERT_KINDS(g, PLM_PROGRAM_UPDATE, 0, PLM_OP_GRADIENT_NORM, PLM_OP_ADAMW, PLM_OP_ADAMW);
    const plm_op *ops = &g->ops.items[g->programs[PLM_PROGRAM_UPDATE].begin];
    for (int group = 0; group < PLM_GROUP_COUNT; group++) {
        const plm_op *adamw = &ops[1 + group];
        assert_int_equal(adamw->attr.decay, group == PLM_GROUP_DECAY);
        size_t bytes = group == PLM_GROUP_DECAY ? VOCABULARY * WIDTH * 4 : 64;
        const plm_tensor_info *normed = plm__graph_tensor(g, ops[0].in[group]); /* over both */
        assert_int_equal(normed->storage, g->flat_storage[PLM_FLAT_GRADIENT][group]);
        assert_int_equal(normed->bytes, bytes);
        for (int flat = PLM_FLAT_PARAMETER, k = 0; flat < PLM_FLAT_COUNT; flat++) {
            if (flat == PLM_FLAT_MASTER) /* of 16-bit weights only */
                continue;
            plm_tensor tensor = flat == PLM_FLAT_GRADIENT ? adamw->in[0] : adamw->effect[k++];
            assert_int_equal(plm__graph_tensor(g, tensor)->storage, g->flat_storage[flat][group]);
            assert_int_equal(plm__graph_tensor(g, tensor)->bytes, bytes);
        }
    }
    assert_int_equal(ops[0].in[2], NONE);
    plm__graph_destroy(g);
}

static void a_group_that_a_network_lacks_has_no_update(void **state)
{
    (void)state;
    plm_graph *g = new_graph();
    build_branch(g, PLM_PROGRAM_FIRST);
    assert_ok(plm__pass_update(g, PLM_OPTIMIZER_ADAMW));
    ASSERT_KINDS(g, PLM_PROGRAM_UPDATE, 0, PLM_OP_GRADIENT_NORM, PLM_OP_ADAMW);
    plm__graph_destroy(g);
}

static void every_parameter_gets_its_first_values_from_its_own_site(void **state)
{
    (void)state;
    plm_graph *g = new_graph();
    build_branch(g, PLM_PROGRAM_FIRST);
    plm_parameter(g, "ones", 1, (int64_t[]){3}, plm_init_constant(1), false);
    assert_ok(plm__pass_initialize(g));
    ASSERT_KINDS(g, PLM_PROGRAM_INITIALIZE, 0, PLM_OP_INIT_NORMAL, PLM_OP_INIT_CONSTANT);
    const plm_op *ops = &g->ops.items[g->programs[PLM_PROGRAM_INITIALIZE].begin];
    for (int64_t i = 0; i < g->parameters.count; i++) {
        assert_int_equal(ops[i].effect[0], g->parameters.items[i].flat[PLM_FLAT_PARAMETER]);
        assert_int_equal(ops[i].attr.site, PLM_HOLDER_INIT + i);
        assert_true(ops[i].attr.scale == 1);
    }
    plm__graph_destroy(g);
}

/* ---- failures ------------------------------------------------------------------------------ */

static plm_status run_passes(void *context)
{
    (void)context;
    plm_graph *g = NULL;
    plm_strategy strategy = plm_strategy_default();
    plm_status status = plm__graph_create(&strategy, &g);
    if (status != PLM_OK)
        return status;
    plm__graph_begin(g, PLM_PROGRAM_FIRST);
    plm_tensor ids = tokens(g), table = matrix(g, "table", VOCABULARY, WIDTH);
    plm_tensor x = plm_embedding(g, ids, table);
    for (int i = 0; i < 8; i++) {
        plm_layer(g, "block.%d", i);
        x = plm_add(g, x, plm_gelu(g, plm_linear(g, x, matrix(g, "w", WIDTH, WIDTH), NONE)));
        x = plm_layer_norm(g, x, vector(g, "scale", WIDTH), vector(g, "bias", WIDTH), 1e-5f);
    }
    plm_cross_entropy(g, plm_linear(g, x, table, NONE), ids);
    status = plm__pass_backward(g);
    if (status == PLM_OK)
        status = plm__pass_update(g, PLM_OPTIMIZER_ADAMW);
    if (status == PLM_OK)
        status = plm__pass_initialize(g);
    plm__graph_destroy(g);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    sweep_failures(run_passes, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_that_meet_are_summed_by_operations_in_order),
        cmocka_unit_test(a_window_is_written_first_and_added_to_from_then_on),
        cmocka_unit_test(each_gradient_of_a_gpt_is_written_once_in_first_and_never_in_next),
        cmocka_unit_test(nothing_is_made_for_what_does_not_learn),
        cmocka_unit_test(a_network_that_learns_nothing_has_no_backward),
        cmocka_unit_test(a_branch_that_the_loss_does_not_see_has_no_backward),
        cmocka_unit_test(dropout_goes_back_through_the_same_mask),
        cmocka_unit_test(backward_operations_carry_the_layer_and_name_of_their_forward),
        cmocka_unit_test(a_backward_without_a_loss_is_refused),
        cmocka_unit_test(a_normalisation_that_shares_or_freezes_half_of_its_weights_is_refused),
        cmocka_unit_test(a_backward_through_an_operation_that_has_none_is_refused),
        cmocka_unit_test(the_update_decays_one_group_and_not_the_other),
        cmocka_unit_test(a_group_that_a_network_lacks_has_no_update),
        cmocka_unit_test(every_parameter_gets_its_first_values_from_its_own_site),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return run_test_group(tests);
}
