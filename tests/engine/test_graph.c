/* SPDX-License-Identifier: MIT */
/*
 * Graphs: what the builder refuses and how it says so, names and sharing of parameters, the
 * failure that sticks.
 */
#include "graph/graph.h"
#include "base/size.h"
#include "unit/test.h"

enum { BATCH = 2, LENGTH = 4, WIDTH = 6, VOCABULARY = 10 };

#define NONE PLM_TENSOR_NONE

/* What most networks begin with. */
typedef struct net {
    plm_graph *g;
    plm_tensor ids, table, x, weight, bias, scale;
} net;

static plm_tensor parameter(plm_graph *g, const char *name, int32_t rank, int64_t a, int64_t b)
{
    return plm_parameter(g, name, rank, (int64_t[]){a, b}, plm_init_constant(1), rank > 1);
}

static net begin(plm_program program)
{
    net n = {0};
    plm_strategy strategy = plm_strategy_default();
    assert_ok(plm__graph_create(&strategy, &n.g));
    plm__graph_begin(n.g, program);
    n.ids = plm_input(n.g, "tokens", 2, (int64_t[]){BATCH, LENGTH});
    n.table = parameter(n.g, "table", 2, VOCABULARY, WIDTH);
    n.x = plm_embedding(n.g, n.ids, n.table);
    n.weight = parameter(n.g, "weight", 2, 3 * WIDTH, WIDTH);
    n.bias = parameter(n.g, "bias", 1, 3 * WIDTH, 0);
    n.scale = parameter(n.g, "scale", 1, WIDTH, 0);
    assert_ok(plm__graph_status(n.g));
    return n;
}

static const plm_op *last_op(const plm_graph *g)
{
    return &g->ops.items[g->ops.count - 1];
}

static void assert_shape(const plm_graph *g, plm_tensor tensor, const char *wanted)
{
    char text[PLM_SHAPE_TEXT];
    assert_true(tensor != NONE);
    assert_string_equal(plm__shape_format(&plm__graph_tensor(g, tensor)->shape, text), wanted);
}

/* ---- shapes -------------------------------------------------------------------------------- */

static void results_have_the_shapes_that_the_table_says(void **state)
{
    (void)state;
    net n = begin(PLM_PROGRAM_EVALUATE);
    assert_shape(n.g, n.ids, "[2,4] int32");
    assert_shape(n.g, n.x, "[2,4,6] fp32");
    plm_tensor qkv = plm_linear(n.g, n.x, n.weight, n.bias);
    assert_shape(n.g, qkv, "[2,4,18] fp32");
    plm_tensor attended = plm_attention(n.g, qkv, 3, 3, true);
    assert_shape(n.g, attended, "[2,4,6] fp32");
    assert_shape(n.g, last_op(n.g)->out[1], "[2,3,4] fp32");
    plm_tensor normalised = plm_layer_norm(n.g, attended, n.scale, n.scale, 1e-5f);
    assert_shape(n.g, normalised, "[2,4,6] fp32");
    assert_shape(n.g, last_op(n.g)->out[1], "[8] fp32");
    assert_shape(n.g, last_op(n.g)->out[2], "[8] fp32");
    assert_shape(n.g, plm_select(n.g, normalised), "[2,6] fp32");
    plm_tensor logits = plm_linear(n.g, normalised, n.table, NONE);
    assert_shape(n.g, logits, "[2,4,10] fp32");
    assert_shape(n.g, plm_cross_entropy(n.g, logits, n.ids), "[8] fp32");
    assert_ok(plm__graph_status(n.g));
    plm__graph_destroy(n.g);
}

static void plain_attention_holds_a_matrix_for_each_head(void **state)
{
    (void)state;
    net n = begin(PLM_PROGRAM_EVALUATE);
    n.g->strategy.attention = PLM_ATTENTION_PLAIN;
    int64_t before = n.g->ops.count;
    plm_tensor qkv = plm_linear(n.g, n.x, n.weight, n.bias);
    assert_shape(n.g, plm_attention(n.g, qkv, 3, 3, true), "[2,4,6] fp32");
    assert_int_equal(n.g->ops.count, before + 4);
    assert_int_equal(n.g->ops.items[before + 1].kind, PLM_OP_ATTENTION_SCORES);
    assert_shape(n.g, n.g->ops.items[before + 1].out[0], "[2,3,4,4] fp32");
    assert_shape(n.g, n.g->ops.items[before + 2].out[0], "[2,3,4,4] fp32");
    plm__graph_destroy(n.g);
}

static void grouped_heads_share_keys_and_have_a_size_of_their_own(void **state)
{
    (void)state;
    for (int form = PLM_ATTENTION_FUSED; form <= PLM_ATTENTION_PLAIN; form++) {
        net n = begin(PLM_PROGRAM_EVALUATE);
        n.g->strategy.attention = (plm_attention_form)form;
        plm_tensor qkv = plm_linear(n.g, n.x, n.weight, n.bias); /* 18 columns of a width of 6 */
        assert_shape(n.g, plm_attention(n.g, qkv, 4, 1, true), "[2,4,12] fp32");
        assert_shape(n.g, plm_attention(n.g, qkv, 2, 2, true), "[2,4,6] fp32");
        assert_shape(n.g, plm_attention(n.g, qkv, 12, 3, true), "[2,4,12] fp32");
        assert_ok(plm__graph_status(n.g));
        plm__graph_destroy(n.g);
    }
}

static plm_tensor wrong_ids(net *n)
{
    return plm_embedding(n->g, n->x, n->table);
}
static plm_tensor wrong_table(net *n)
{
    return plm_embedding(n->g, n->ids, n->scale);
}
static plm_tensor short_table(net *n)
{
    return plm_position(n->g, n->x, parameter(n->g, "p", 2, LENGTH - 1, WIDTH));
}
static plm_tensor narrow_table(net *n)
{
    return plm_position(n->g, n->x, parameter(n->g, "p", 2, LENGTH, WIDTH - 1));
}
static plm_tensor wrong_weight(net *n)
{
    return plm_linear(n->g, n->x, parameter(n->g, "w", 2, WIDTH, WIDTH + 1), NONE);
}
static plm_tensor wrong_bias(net *n)
{
    return plm_linear(n->g, n->x, n->weight, n->scale);
}
static plm_tensor linear_of_ids(net *n)
{
    return plm_linear(n->g, n->ids, parameter(n->g, "w", 2, WIDTH, LENGTH), NONE);
}
static plm_tensor gelu_of_ids(net *n)
{
    return plm_gelu(n->g, n->ids);
}
static plm_tensor wrong_scale(net *n)
{
    return plm_layer_norm(n->g, n->x, n->bias, n->scale, 1e-5f);
}
static plm_tensor different_terms(net *n)
{
    return plm_add(n->g, n->x, plm_linear(n->g, n->x, n->weight, NONE));
}
static plm_tensor odd_heads(net *n)
{
    return plm_attention(n->g, plm_linear(n->g, n->x, n->weight, NONE), 4, 4, true);
}
static plm_tensor no_heads(net *n)
{
    return plm_attention(n->g, plm_linear(n->g, n->x, n->weight, NONE), 0, 0, true);
}
static plm_tensor no_key_heads(net *n)
{
    return plm_attention(n->g, plm_linear(n->g, n->x, n->weight, NONE), 3, 0, true);
}
static plm_tensor uneven_heads(net *n)
{
    return plm_attention(n->g, plm_linear(n->g, n->x, n->weight, NONE), 3, 2, true);
}
static plm_tensor more_key_heads(net *n)
{
    return plm_attention(n->g, plm_linear(n->g, n->x, n->weight, NONE), 3, 6, true);
}
static plm_tensor flat_packed(net *n)
{
    return plm_attention(n->g, plm_select(n->g, n->x), 1, 1, true);
}
static plm_tensor not_packed(net *n)
{
    return plm_attention(n->g, plm_linear(n->g, n->x, n->table, NONE), 1, 1, true);
}
static plm_tensor too_few_targets(net *n)
{
    plm_tensor targets = plm_input(n->g, "targets", 2, (int64_t[]){BATCH, LENGTH - 1});
    return plm_cross_entropy(n->g, n->x, targets);
}
static plm_tensor targets_of_fp32(net *n)
{
    return plm_cross_entropy(n->g, n->x, n->x);
}
static plm_tensor a_second_loss(net *n)
{
    plm_cross_entropy(n->g, n->x, n->ids);
    return plm_cross_entropy(n->g, n->x, n->ids);
}
static plm_tensor flat_select(net *n)
{
    return plm_select(n->g, plm_select(n->g, n->x));
}
static plm_tensor all_dropped(net *n)
{
    return plm_dropout(n->g, n->x, 1);
}
static plm_tensor nothing(net *n)
{
    return plm_gelu(n->g, NONE);
}
static plm_tensor foreign(net *n)
{
    return plm_gelu(n->g, 1000);
}
static plm_tensor foreign_term(net *n)
{
    return plm_add(n->g, n->x, 1000);
}
static plm_tensor result_as_weight(net *n)
{
    plm_layer(n->g, "block.0");
    return plm_linear(n->g, n->x, plm_select(n->g, n->x), NONE);
}
static plm_tensor result_as_bias(net *n)
{
    plm_tensor losses = plm_cross_entropy(n->g, n->x, n->ids); /* [8] */
    return plm_linear(n->g, n->x, parameter(n->g, "w", 2, BATCH * LENGTH, WIDTH), losses);
}
static plm_tensor result_as_table(net *n)
{
    return plm_embedding(n->g, n->ids, plm_select(n->g, n->x));
}
static plm_tensor renamed_parameter(net *n)
{
    return plm_name(n->g, n->weight, "other");
}
static plm_tensor foreign_name(net *n)
{
    return plm_name(n->g, 1000, "other");
}
static plm_tensor parameter_after_training(net *n)
{
    plm__graph_begin(n->g, PLM_PROGRAM_FIRST);
    n->ids = plm_input(n->g, "tokens", 2, (int64_t[]){BATCH, LENGTH});
    plm_embedding(n->g, n->ids, n->table);
    plm__graph_begin(n->g, PLM_PROGRAM_GENERATE);
    assert_int_equal(parameter(n->g, "table", 2, VOCABULARY, WIDTH), n->table);
    return parameter(n->g, "late", 1, WIDTH, 0);
}
static plm_tensor of_another_program(net *n)
{
    plm__graph_begin(n->g, PLM_PROGRAM_GENERATE);
    return plm_gelu(n->g, n->x);
}
static plm_tensor another_shape(net *n)
{
    return parameter(n->g, "table", 2, VOCABULARY, WIDTH + 1);
}
static plm_tensor another_rank(net *n)
{
    return parameter(n->g, "table", 1, VOCABULARY, 0);
}
static plm_tensor no_rows(net *n)
{
    return parameter(n->g, "p", 2, 0, WIDTH);
}
static plm_tensor no_dimensions(net *n)
{
    return parameter(n->g, "p", 0, 0, 0);
}
static plm_tensor five_dimensions(net *n)
{
    return plm_parameter(n->g, "p", 5, (int64_t[]){1, 1, 1, 1, 1}, plm_init_constant(0), true);
}
static plm_tensor unknown_name(net *n)
{
    return plm_parameter_named(n->g, "head.weight");
}
static plm_tensor beyond_counting(net *n)
{
    return parameter(n->g, "p", 2, INT64_MAX / 2, 4);
}
static plm_tensor long_name(net *n)
{
    char name[300];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    return parameter(n->g, name, 1, 1, 0);
}
static plm_tensor long_layer(net *n)
{
    plm_layer(n->g, "%0200d", 7);
    return parameter(n->g, "p", 1, 1, 0);
}

static const struct {
    plm_tensor (*call)(net *n);
    const char *said[2]; /* pieces of the message: what was wanted, what was found */
} mistakes[] = {
    {wrong_ids, {"ids [batch,length] int32", "[2,4,6] fp32"}},
    {wrong_table, {"table [vocabulary,width]", "[6] fp32"}},
    {short_table, {"a row for each position", "[3,6] fp32"}},
    {narrow_table, {"the width of x", "[4,5] fp32"}},
    {wrong_weight, {"[outputs,inputs]", "[6,7] fp32"}},
    {wrong_bias, {"a bias as long as", "[6] fp32"}},
    {linear_of_ids, {"linear wanted real numbers", "[2,4] int32"}},
    {gelu_of_ids, {"gelu wanted real numbers", "[2,4] int32"}},
    {wrong_scale, {"as wide as x", "[18] fp32"}},
    {different_terms, {"[2,4,6] fp32", "[2,4,18] fp32"}},
    {odd_heads, {"12 x head size], 4 heads and 2 x 4", "[2,4,18] fp32"}},
    {no_heads, {"divides that of its heads", "found 0 for 0"}},
    {no_key_heads, {"divides that of its heads", "found 0 for 3"}},
    {uneven_heads, {"divides that of its heads", "found 2 for 3"}},
    {more_key_heads, {"divides that of its heads", "found 6 for 3"}},
    {not_packed, {"3 x head size], 1 heads and 2 x 1", "[2,4,10] fp32"}},
    {flat_packed, {"3 x head size]", "[2,6] fp32"}},
    {too_few_targets, {"one int32 target a row", "[2,3] int32"}},
    {targets_of_fp32, {"one int32 target a row", "[2,4,6] fp32"}},
    {a_second_loss, {"one cross entropy", "a second"}},
    {flat_select, {"[batch,length,width]", "[2,6] fp32"}},
    {all_dropped, {"under 1", "found 1"}},
    {nothing, {"gelu wanted a tensor", "found none"}},
    {foreign, {"gelu wanted a tensor", "found none"}},
    {foreign_term, {"add wanted a tensor", "found none"}},
    {result_as_weight, {"linear wanted a parameter", "[2,6] fp32"}},
    {result_as_bias, {"linear wanted a parameter", "[8] fp32"}},
    {result_as_table, {"embedding wanted a parameter", "[2,6] fp32"}},
    {renamed_parameter, {"to name", "a parameter"}},
    {foreign_name, {"to name", "found none"}},
    {parameter_after_training, {"'late' is made in generate", "in first"}},
    {of_another_program, {"gelu wanted a tensor of generate", "of evaluate"}},
    {another_shape, {"'table' wanted as [10,7] fp32", "made as [10,6] fp32"}},
    {another_rank, {"'table' wanted as [10] fp32", "made as [10,6] fp32"}},
    {no_rows, {"1 or more", "found 0"}},
    {no_dimensions, {"1 to 4 dimensions", "found 0"}},
    {five_dimensions, {"1 to 4 dimensions", "found 5"}},
    {unknown_name, {"head.weight", "no parameter"}},
    {beyond_counting, {"", ""}},
    {long_name, {"under 256 bytes", "xxxx"}},
    {long_layer, {"layer name", "under 128 bytes"}},
};

static void a_mistake_is_told_with_what_was_wanted_and_what_was_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        net n = begin(PLM_PROGRAM_EVALUATE);
        plm_error error;
        assert_int_equal(mistakes[i].call(&n), NONE);
        plm_status status = plm__graph_status(n.g);
        assert_true(status == PLM_ERROR_ARGUMENT || status == PLM_ERROR_OVERFLOW);
        plm_error_get(&error);
        for (int k = 0; k < 2; k++)
            if (!strstr(error.message, mistakes[i].said[k]))
                fail_msg("case %zu: '%s' lacks '%s'", i, error.message, mistakes[i].said[k]);
        plm__graph_destroy(n.g);
    }
}

static void the_first_failure_sticks_and_later_calls_do_nothing(void **state)
{
    (void)state;
    net n = begin(PLM_PROGRAM_EVALUATE);
    plm_error first, later;
    assert_int_equal(wrong_bias(&n), NONE);
    assert_int_equal(plm__graph_status(n.g), PLM_ERROR_ARGUMENT);
    plm_error_get(&first);
    int64_t ops = n.g->ops.count, tensors = n.g->tensors.count, parameters = n.g->parameters.count;
    assert_int_equal(plm_gelu(n.g, n.x), NONE);
    assert_int_equal(plm_add(n.g, n.x, n.x), NONE);
    assert_int_equal(plm_dropout(n.g, NONE, 0.5f), NONE);
    assert_int_equal(parameter(n.g, "new", 1, 8, 0), NONE);
    assert_int_equal(plm_parameter_named(n.g, "table"), NONE);
    assert_int_equal(plm_input(n.g, "more", 1, (int64_t[]){1}), NONE);
    assert_int_equal(plm_cross_entropy(n.g, n.x, n.ids), NONE);
    assert_int_equal(plm_name(n.g, NONE, "logits"), NONE);
    plm_output(n.g, NONE);
    assert_int_equal(n.g->ops.count, ops);
    assert_int_equal(n.g->tensors.count, tensors);
    assert_int_equal(n.g->parameters.count, parameters);
    assert_int_equal(unknown_name(&n), NONE); /* another mistake */
    assert_int_equal(plm__graph_status(n.g), PLM_ERROR_ARGUMENT);
    plm_error_get(&later);
    assert_string_equal(later.message, first.message);
    plm__graph_destroy(n.g);
}

/* ---- parameters ---------------------------------------------------------------------------- */

static void programs_share_parameters_by_their_full_name(void **state)
{
    (void)state;
    net n = begin(PLM_PROGRAM_FIRST);
    plm_layer(n.g, "block.%d", 3);
    plm_tensor made = parameter(n.g, "up.weight", 2, 5, WIDTH);
    int64_t parameters = n.g->parameters.count, storages = n.g->storages.count;
    plm_layer(n.g, "block.%d", 4);
    assert_int_not_equal(parameter(n.g, "up.weight", 2, 5, WIDTH), made);
    plm__graph_begin(n.g, PLM_PROGRAM_EVALUATE);
    assert_int_equal(plm_parameter_named(n.g, "block.3.up.weight"), made);
    plm_layer(n.g, "block.%d", 3);
    assert_int_equal(parameter(n.g, "up.weight", 2, 5, WIDTH), made);
    assert_int_equal(n.g->parameters.count, parameters + 1);
    assert_int_equal(n.g->storages.count, storages); /* flat: no storage of its own */
    assert_ok(plm__graph_status(n.g));
    plm__graph_destroy(n.g);
}

static void a_tied_weight_is_one_parameter(void **state)
{
    (void)state;
    net n = begin(PLM_PROGRAM_FIRST);
    int64_t parameters = n.g->parameters.count;
    size_t elements = n.g->group_elements[PLM_GROUP_DECAY];
    plm_linear(n.g, n.x, plm_parameter_named(n.g, "table"), NONE);
    assert_int_equal(n.g->parameters.count, parameters);
    assert_int_equal(n.g->group_elements[PLM_GROUP_DECAY], elements);
    assert_int_equal(last_op(n.g)->in[1], n.table);
    plm__graph_destroy(n.g);
}

static void parameters_lie_flat_by_decay_group_on_granules(void **state)
{
    (void)state;
    net n = begin(PLM_PROGRAM_FIRST);
    size_t end[PLM_GROUP_COUNT] = {0};
    for (int64_t i = 0; i < n.g->parameters.count; i++) {
        const plm_parameter_info *p = &n.g->parameters.items[i];
        const plm_tensor_info *t = plm__graph_tensor(n.g, p->flat[PLM_FLAT_PARAMETER]);
        assert_int_equal(p->group, t->shape.rank > 1 ? PLM_GROUP_DECAY : PLM_GROUP_NO_DECAY);
        assert_int_equal(t->storage, n.g->flat_storage[PLM_FLAT_PARAMETER][p->group]);
        assert_int_equal(t->offset, end[p->group]);
        assert_int_equal(t->offset % PLM_GRANULE_BYTES, 0);
        end[p->group] += plm__granules(t->bytes);
    }
    for (int group = 0; group < PLM_GROUP_COUNT; group++) {
        assert_int_equal(n.g->group_elements[group] * sizeof(float), end[group]);
        int32_t storage = n.g->flat_storage[PLM_FLAT_PARAMETER][group];
        assert_int_equal(n.g->storages.items[storage].bytes, end[group]);
        assert_int_equal(n.g->storages.items[storage].scope, PLM_SCOPE_RUN);
    }
    plm__graph_destroy(n.g);
}

static void what_belongs_to_a_parameter_lies_where_it_lies(void **state)
{
    (void)state;
    net n = begin(PLM_PROGRAM_FIRST);
    for (int flat = 0; flat < PLM_FLAT_COUNT; flat++) {
        plm_tensor made = plm__graph_flat(n.g, n.weight, (plm_flat)flat);
        assert_int_equal(plm__graph_flat(n.g, n.weight, (plm_flat)flat), made);
        const plm_tensor_info *t = plm__graph_tensor(n.g, made);
        assert_int_equal(t->offset, plm__graph_tensor(n.g, n.weight)->offset);
        assert_int_equal(t->bytes, plm__graph_tensor(n.g, n.weight)->bytes);
        assert_int_equal(n.g->storages.items[t->storage].scope,
                         flat == PLM_FLAT_GRADIENT ? PLM_SCOPE_WINDOW : PLM_SCOPE_RUN);
    }
    parameter(n.g, "late", 2, 64, 64); /* every flat storage of the group grows */
    for (int flat = 0; flat < PLM_FLAT_COUNT; flat++) {
        int32_t storage = n.g->flat_storage[flat][PLM_GROUP_DECAY];
        assert_int_equal(n.g->storages.items[storage].bytes,
                         n.g->group_elements[PLM_GROUP_DECAY] * sizeof(float));
    }
    plm__graph_destroy(n.g);
}

/* ---- names and random numbers -------------------------------------------------------------- */

static void a_product_is_called_by_its_weight(void **state)
{
    (void)state;
    net n = begin(PLM_PROGRAM_EVALUATE);
    plm_layer(n.g, "block.0");
    plm_linear(n.g, n.x, parameter(n.g, "mlp.up.weight", 2, 5, WIDTH), NONE);
    assert_string_equal(plm__intern_text(&n.g->names, last_op(n.g)->label), "mlp.up");
    assert_string_equal(plm__intern_text(&n.g->names, last_op(n.g)->layer), "block.0");
    plm_gelu(n.g, n.x);
    assert_string_equal(plm__intern_text(&n.g->names, last_op(n.g)->label), "gelu");
    plm__graph_destroy(n.g);
}

static void dropout_is_nothing_outside_training_but_keeps_its_sites(void **state)
{
    (void)state;
    uint32_t sites[2];
    net n = begin(PLM_PROGRAM_FIRST);
    for (int i = 0; i < 2; i++) {
        if (i == 1) {
            plm__graph_begin(n.g, PLM_PROGRAM_NEXT);
            n.ids = plm_input(n.g, "tokens", 2, (int64_t[]){BATCH, LENGTH});
            n.x = plm_embedding(n.g, n.ids, n.table);
        }
        assert_int_equal(plm_dropout(n.g, n.x, 0), n.x);
        assert_int_not_equal(plm_dropout(n.g, n.x, 0.5f), n.x);
        assert_int_equal(last_op(n.g)->kind, PLM_OP_DROPOUT);
        sites[i] = last_op(n.g)->attr.site;
        plm_dropout(n.g, n.x, 0.5f);
        assert_int_not_equal(last_op(n.g)->attr.site, sites[i]);
    }
    assert_ok(plm__graph_status(n.g));
    plm__graph_destroy(n.g);
    assert_int_equal(sites[0], sites[1]);
    n = begin(PLM_PROGRAM_EVALUATE);
    assert_int_equal(plm_dropout(n.g, n.x, 0.5f), n.x);
    plm__graph_destroy(n.g);
}

/* ---- failures ------------------------------------------------------------------------------ */

static plm_status build_once(void *context)
{
    (void)context;
    plm_graph *g = NULL;
    plm_strategy strategy = plm_strategy_default();
    plm_status status = plm__graph_create(&strategy, &g);
    if (status != PLM_OK)
        return status;
    for (int program = PLM_PROGRAM_FIRST; program <= PLM_PROGRAM_NEXT; program++) {
        plm__graph_begin(g, (plm_program)program);
        plm_tensor ids = plm_input(g, "tokens", 2, (int64_t[]){1, 2});
        plm_layer(g, "embedding");
        plm_tensor table = parameter(g, "table", 2, 4, 8);
        plm_tensor x = plm_embedding(g, ids, table);
        for (int i = 0; i < 20; i++) {
            plm_layer(g, "block.%d", i);
            x = plm_add(g, x, plm_name(g, plm_gelu(g, x), "bend"));
            x = plm_dropout(g, plm_linear(g, x, parameter(g, "w", 2, 8, 8), NONE), 0.5f);
        }
        plm_cross_entropy(g, plm_linear(g, x, plm_parameter_named(g, "embedding.table"), NONE),
                          ids);
    }
    status = plm__graph_status(g);
    plm__graph_destroy(g);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    sweep_failures(build_once, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_have_the_shapes_that_the_table_says),
        cmocka_unit_test(plain_attention_holds_a_matrix_for_each_head),
        cmocka_unit_test(grouped_heads_share_keys_and_have_a_size_of_their_own),
        cmocka_unit_test(a_mistake_is_told_with_what_was_wanted_and_what_was_found),
        cmocka_unit_test(the_first_failure_sticks_and_later_calls_do_nothing),
        cmocka_unit_test(programs_share_parameters_by_their_full_name),
        cmocka_unit_test(a_tied_weight_is_one_parameter),
        cmocka_unit_test(parameters_lie_flat_by_decay_group_on_granules),
        cmocka_unit_test(what_belongs_to_a_parameter_lies_where_it_lies),
        cmocka_unit_test(a_product_is_called_by_its_weight),
        cmocka_unit_test(dropout_is_nothing_outside_training_but_keeps_its_sites),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return run_test_group(tests);
}
