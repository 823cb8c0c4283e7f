/* SPDX-License-Identifier: MIT */
/*
 * The work of every operation as literal numbers, worked out by hand from the formulas of ops.def:
 * a change of a factor, of a shape that counts or of what moves fails here.
 */
#include "graph/op_cost.h"
#include "unit/test.h"

enum { B = 2, T = 5, C = 12, H = 3, V = 17, K = 8, N = 11 };

/*
 * Operands are written as words: a letter an extent, 3C three times C; fp32, but # int32 and %
 * bf16. Bytes of the operands that many rows share: BTC 480   BT3C 1440   BHTT 600   BHT 120   BT
 * 40   VC 816   C 48 A product over the square of positions, B T T C multiplications and additions,
 * is 1200.
 */
typedef struct work_row {
    const char *in[PLM_OP_INPUTS_MAX], *out[PLM_OP_OUTPUTS_MAX], *effect[PLM_OP_EFFECTS_MAX];
    double flops, bytes;
    double bytes_when_adding; /* with attr.accumulate; 0: no operation that sums */
    bool is_products;
    bool is_square; /* causal attention does half of it */
} work_row;

#define IN(...)     .in = {__VA_ARGS__}
#define OUT(...)    .out = {__VA_ARGS__}
#define EFFECT(...) .effect = {__VA_ARGS__}

static const work_row table[PLM_OP_COUNT] = {
    /* ids, the ten rows that they name, the result */
    [PLM_OP_EMBEDDING] = {IN("#BT", "VC"), OUT("BTC"), .flops = 0, .bytes = 40 + 480 + 480},
    [PLM_OP_POSITION] = {IN("BTC", "TC"), OUT("BTC"), .flops = 120, .bytes = 480 + 240 + 480},
    [PLM_OP_LAYER_NORM] = {IN("BTC", "C", "C"), OUT("BTC", "BT", "BT"), .flops = 8 * 120,
                           .bytes = 480 + 48 + 48 + 480 + 40 + 40},
    [PLM_OP_LINEAR] = {IN("BTK", "NK", "N"), OUT("BTN"), .flops = 2 * 10 * 8 * 11,
                       .bytes = 320 + 352 + 44 + 440, .is_products = true},
    [PLM_OP_GELU] = {IN("BTC"), OUT("BTC"), .flops = 9 * 120, .bytes = 480 + 480},
    [PLM_OP_GELU_EXACT] = {IN("BTC"), OUT("BTC"), .flops = 4 * 120, .bytes = 480 + 480},
    [PLM_OP_ADD] = {IN("BTC", "BTC"), OUT("BTC"), .flops = 120, .bytes = 480 + 480 + 480},
    [PLM_OP_DROPOUT] = {IN("BTC"), OUT("BTC"), .flops = 2 * 120, .bytes = 480 + 480},
    [PLM_OP_ATTENTION] = {IN("BT3C"), OUT("BTC", "BHT"), .flops = 2 * 1200,
                          .bytes = 1440 + 480 + 120, .is_products = true, .is_square = true},
    [PLM_OP_ATTENTION_SCORES] = {IN("BT3C"), OUT("BHTT"), .flops = 1200, .bytes = 1440 + 600,
                                 .is_products = true, .is_square = true},
    [PLM_OP_SOFTMAX] = {IN("BHTT"), OUT("BHTT"), .flops = 4 * 150, .bytes = 600 + 600},
    [PLM_OP_ATTENTION_APPLY] = {IN("BHTT", "BT3C"), OUT("BTC"), .flops = 1200,
                                .bytes = 600 + 1440 + 480, .is_products = true, .is_square = true},
    /* one position of each sequence, read and written */
    [PLM_OP_SELECT] = {IN("BTC"), OUT("BC"), .flops = 0, .bytes = 96 + 96},
    [PLM_OP_CROSS_ENTROPY] = {IN("BTV", "#BT"), OUT("BT", "BT"), .flops = 4 * 170,
                              .bytes = 680 + 40 + 40 + 40},
    [PLM_OP_LOSS_SUM] = {IN("BT"), .flops = 0, .bytes = 40},
    /* written whole, then ten rows read and written */
    [PLM_OP_EMBEDDING_GRAD] = {IN("#BT", "BTC"), EFFECT("VC"), .flops = 0,
                               .bytes = 40 + 480 + 816 + 2 * 480,
                               .bytes_when_adding = 40 + 480 + 2 * 480},
    [PLM_OP_POSITION_GRAD] = {IN("BTC"), EFFECT("TC"), .flops = 120, .bytes = 480 + 240 + 2 * 480,
                              .bytes_when_adding = 480 + 2 * 480},
    [PLM_OP_LAYER_NORM_GRAD_INPUT] = {IN("BTC", "BTC", "C", "BT", "BT"), OUT("BTC"),
                                      .flops = 12 * 120, .bytes = 480 + 480 + 48 + 40 + 40 + 480},
    [PLM_OP_LAYER_NORM_GRAD_WEIGHT] = {IN("BTC", "BTC", "BT", "BT"), EFFECT("C", "C"),
                                       .flops = 5 * 120, .bytes = 480 + 480 + 40 + 40 + 48 + 48,
                                       .bytes_when_adding = 480 + 480 + 40 + 40 + 2 * (48 + 48)},
    [PLM_OP_LINEAR_GRAD_INPUT] = {IN("BTN", "NK"), OUT("BTK"), .flops = 2 * 10 * 8 * 11,
                                  .bytes = 440 + 352 + 320, .is_products = true},
    [PLM_OP_LINEAR_GRAD_WEIGHT] = {IN("BTK", "BTN"), EFFECT("NK"), .flops = 2 * 10 * 8 * 11,
                                   .bytes = 320 + 440 + 352,
                                   .bytes_when_adding = 320 + 440 + 2 * 352, .is_products = true},
    [PLM_OP_LINEAR_GRAD_BIAS] = {IN("BTN"), EFFECT("N"), .flops = 110, .bytes = 440 + 44,
                                 .bytes_when_adding = 440 + 2 * 44},
    [PLM_OP_GELU_GRAD] = {IN("BTC", "BTC"), OUT("BTC"), .flops = 14 * 120,
                          .bytes = 480 + 480 + 480},
    [PLM_OP_GELU_EXACT_GRAD] = {IN("BTC", "BTC"), OUT("BTC"), .flops = 8 * 120,
                                .bytes = 480 + 480 + 480},
    /* scores again, dv, dP, dq, dk */
    [PLM_OP_ATTENTION_GRAD] = {IN("BTC", "BT3C", "BTC", "BHT"), OUT("BT3C"), .flops = 5 * 1200,
                               .bytes = 480 + 1440 + 480 + 120 + 1440, .is_products = true,
                               .is_square = true},
    [PLM_OP_ATTENTION_GRAD_PROBS] = {IN("BTC", "BT3C"), OUT("BHTT"), .flops = 1200,
                                     .bytes = 480 + 1440 + 600, .is_products = true,
                                     .is_square = true},
    [PLM_OP_SOFTMAX_GRAD] = {IN("BHTT", "BHTT"), OUT("BHTT"), .flops = 4 * 150,
                             .bytes = 600 + 600 + 600},
    [PLM_OP_ATTENTION_GRAD_QKV] = {IN("BTC", "BT3C", "BHTT", "BHTT"), OUT("BT3C"),
                                   .flops = 3 * 1200, .bytes = 480 + 1440 + 600 + 600 + 1440,
                                   .is_products = true, .is_square = true},
    [PLM_OP_CROSS_ENTROPY_GRAD] = {IN("BTV", "#BT", "BT"), OUT("BTV"), .flops = 4 * 170,
                                   .bytes = 680 + 40 + 40 + 680},
    [PLM_OP_GRADIENT_NORM] = {IN("VC"), .flops = 2 * 204, .bytes = 816},
    [PLM_OP_GRADIENT_PART] = {IN("VC"), .flops = 2 * 204, .bytes = 816},
    /* the gradient is read; parameter and moments are read and written */
    [PLM_OP_ADAMW] = {IN("VC"), EFFECT("VC", "VC", "VC"), .flops = 12 * 204,
                      .bytes = 816 + 2 * 3 * 816},
    [PLM_OP_SGD] = {IN("VC"), EFFECT("VC", "VC"), .flops = 5 * 204, .bytes = 816 + 2 * 2 * 816},
    [PLM_OP_CAST] = {IN("VC"), EFFECT("%VC"), .flops = 204, .bytes = 816 + 408},
    [PLM_OP_INIT_NORMAL] = {EFFECT("VC"), .flops = 0, .bytes = 816},
    [PLM_OP_INIT_CONSTANT] = {EFFECT("VC"), .flops = 0, .bytes = 816},
};

static int64_t extent_of(char letter)
{
    switch (letter) {
    case 'B':
        return B;
    case 'T':
        return T;
    case 'C':
        return C;
    case 'H':
        return H;
    case 'V':
        return V;
    case 'K':
        return K;
    default:
        assert_int_equal(letter, 'N');
        return N;
    }
}

static plm_tensor tensor_of(plm_graph *graph, const char *word, plm_dtype real)
{
    plm_shape shape = {.dtype = real};
    plm_tensor tensor = PLM_TENSOR_NONE;
    if (!word)
        return PLM_TENSOR_NONE;
    for (int64_t factor = 1; *word; word++) {
        if (*word == '#')
            shape.dtype = PLM_DTYPE_I32;
        else if (*word == '%')
            shape.dtype = PLM_DTYPE_BF16;
        else if (*word == '3')
            factor = 3;
        else
            shape.dims[shape.rank++] = factor * extent_of(*word), factor = 1;
    }
    assert_ok(plm__graph_call_tensor(graph, &shape, PLM_ROLE_ACTIVATION, &tensor));
    return tensor;
}

static plm_work work_of(plm_op_kind kind, const work_row *row, plm_op_attr attr, plm_dtype real)
{
    plm_graph *graph = NULL;
    plm_strategy strategy = plm_strategy_default();
    plm_op op = {.kind = kind, .attr = attr};
    op.attr.heads = op.attr.key_heads = H;
    assert_ok(plm__graph_create(&strategy, &graph));
    for (int i = 0; i < PLM_OP_INPUTS_MAX; i++)
        op.in[i] = tensor_of(graph, row->in[i], real);
    for (int i = 0; i < PLM_OP_OUTPUTS_MAX; i++)
        op.out[i] = tensor_of(graph, row->out[i], real);
    for (int i = 0; i < PLM_OP_EFFECTS_MAX; i++)
        op.effect[i] = tensor_of(graph, row->effect[i], real);
    plm_work work = plm__op_work(graph, &op);
    plm__graph_destroy(graph);
    return work;
}

static void assert_work(plm_op_kind kind, plm_work work, double flops, double bytes)
{
    char key[PLM_OP_KEY_TEXT];
    if (work.flops != flops || work.bytes != bytes)
        fail_msg("%s: wanted %.0f operations and %.0f bytes, found %.0f and %.0f",
                 plm__op_key(kind, key), flops, bytes, work.flops, work.bytes);
}

static void every_operation_does_the_work_of_its_formula(void **state)
{
    (void)state;
    for (int kind = 0; kind < PLM_OP_COUNT; kind++) {
        const work_row *row = &table[kind];
        assert_true(row->in[0] || row->effect[0]); /* else the table lacks an operation */
        plm_work work = work_of((plm_op_kind)kind, row, (plm_op_attr){0}, PLM_DTYPE_F32);
        assert_work((plm_op_kind)kind, work, row->flops, row->bytes);
        assert_int_equal(work.is_products, row->is_products);
        assert_int_equal(work.dtype, PLM_DTYPE_F32);
    }
}

static void sums_are_read_before_they_are_written_again(void **state)
{
    (void)state;
    int sums = 0;
    for (int kind = 0; kind < PLM_OP_COUNT; kind++) {
        const work_row *row = &table[kind];
        if (row->bytes_when_adding == 0)
            continue;
        assert_work(
            (plm_op_kind)kind,
            work_of((plm_op_kind)kind, row, (plm_op_attr){.accumulate = true}, PLM_DTYPE_F32),
            row->flops, row->bytes_when_adding);
        sums++;
    }
    assert_int_equal(sums, 5);
}

static void causal_attention_does_half_of_the_square(void **state)
{
    (void)state;
    for (int kind = 0; kind < PLM_OP_COUNT; kind++) {
        const work_row *row = &table[kind];
        plm_work work =
            work_of((plm_op_kind)kind, row, (plm_op_attr){.causal = true}, PLM_DTYPE_F32);
        if (row->is_square)
            assert_work((plm_op_kind)kind, work, row->flops / 2, row->bytes);
    }
}

static void half_as_wide_elements_move_half_the_bytes(void **state)
{
    (void)state;
    const work_row *row = &table[PLM_OP_LINEAR];
    plm_work work = work_of(PLM_OP_LINEAR, row, (plm_op_attr){0}, PLM_DTYPE_BF16);
    assert_work(PLM_OP_LINEAR, work, row->flops, row->bytes / 2);
    assert_int_equal(work.dtype, PLM_DTYPE_BF16);
    /* ids have no arithmetic: the type is that of the table */
    work = work_of(PLM_OP_EMBEDDING, &table[PLM_OP_EMBEDDING], (plm_op_attr){0}, PLM_DTYPE_BF16);
    assert_int_equal(work.dtype, PLM_DTYPE_BF16);
}

/* Ten positions name ten rows; a table of eight rows has no more than eight. */
static void no_more_rows_of_a_table_are_read_than_it_has(void **state)
{
    (void)state;
    const work_row small = {IN("#BT", "KC"), OUT("BTC")}; /* K rows of 48 bytes */
    plm_work work = work_of(PLM_OP_EMBEDDING, &small, (plm_op_attr){0}, PLM_DTYPE_F32);
    assert_work(PLM_OP_EMBEDDING, work, 0, 40 + 384 + 480);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_does_the_work_of_its_formula),
        cmocka_unit_test(sums_are_read_before_they_are_written_again),
        cmocka_unit_test(causal_attention_does_half_of_the_square),
        cmocka_unit_test(half_as_wide_elements_move_half_the_bytes),
        cmocka_unit_test(no_more_rows_of_a_table_are_read_than_it_has),
    };
    return run_test_group(tests);
}
