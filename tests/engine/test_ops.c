/* SPDX-License-Identifier: MIT */
/*
 * The CPU's kernels, from one table of operations: against the double-precision reference, with
 * every instruction set of this machine, on one and two threads, in place where ops.def allows it,
 * with canaries around every operand and the workspace, empty, and against finite differences; most
 * of it for every type that tensors and gradients are stored in.
 */
#include "unit/test.h"

#include <math.h>

#include "base/size.h"
#include "device/cpu/cpu_internal.h"
#include "device/cpu/kernel/vector_math.h"
#include "device/device.h"
#include "engine/op_fixture.h"

static plm_device *open_device(int threads)
{
    plm_device *device = NULL;
    assert_ok(plm_device_open("cpu", threads, 0, &device));
    return device;
}

static void compare_with_reference(plm_device *device, plm_op_kind kind, const extents *n,
                                   int variant, op_types types)
{
    fixture f;
    fixture_open_as(&f, device, kind, *n, attributes(n, variant & 1, variant >> 1), types);
    references[f.launch.kind](&f.truth);
    run_op(device, &f.launch);
    assert_matches(&f, 1e-5);
    assert_canaries(&f);
    fixture_close(&f);
}

/* The library's products do not know the instruction set: they run with the first one. */
static void compare_types_with_reference(plm_device *device, int set, op_types types)
{
    /* Others: not the large shape, and neither or both of causal and accumulate. */
    bool plain = types.precision == PLM_DTYPE_F32;
    for (int kind = 0; kind < PLM_OP_COUNT; kind++)
        for (int shape = 0; shape < SHAPES; shape++)
            for (int variant = 0; variant < 4; variant += plain && !SANITIZED ? 1 : 3)
                if ((plain || shape != LARGE) && is_for(&shapes[shape], (plm_op_kind)kind) &&
                    (set == 0 || !plm__products_run((plm_op_kind)kind)))
                    compare_with_reference(device, (plm_op_kind)kind, &shapes[shape], variant,
                                           types);
}

static void every_kernel_of_every_instruction_set_and_type_matches_the_reference(void **state)
{
    (void)state;
    plm_device *device = open_device(2);
    const plm_cpu_kernels *kernels;
    for (int set = 0; (kernels = plm__cpu_kernels_at(set)); set++) {
        plm__cpu_use_kernels(device, kernels);
        for (int types = 0; types < TYPES; types++)
            compare_types_with_reference(device, set, all_types[types]);
    }
    plm_device_destroy(device);
}

/* The shapes above are too small for it. */
static void products_whose_rows_meet_in_the_cache_are_packed_and_match_the_reference(void **state)
{
    (void)state;
    static const plm_op_kind kinds[] = {PLM_OP_LINEAR_GRAD_INPUT, PLM_OP_LINEAR_GRAD_WEIGHT};
    const extents n = {.B = 2, .T = 128, .C = 1, .H = 1, .V = 1, .K = 3072, .N = 257, .P = 128};
    plm_device *device = open_device(2);
    for (int i = 0; i < 2; i++) {
        fixture f;
        fixture_open(&f, device, kinds[i], n, attributes(&n, false, true));
        size_t rows = i == 0 ? (size_t)n.N : (size_t)(n.B * n.T);
        bool packed = f.launch.workspace_bytes >= rows * (size_t)n.K * sizeof(float);
        assert_true(packed || device->table->overhead_bytes(device) > 0);
        references[f.launch.kind](&f.truth);
        run_op(device, &f.launch);
        assert_matches(&f, 1e-5);
        assert_canaries(&f);
        fixture_close(&f);
    }
    plm_device_destroy(device);
}

/* A NaN may be any NaN. */
static void assert_same_half(plm_dtype dtype, uint16_t found, uint16_t wanted)
{
    int infinity = dtype == PLM_DTYPE_BF16 ? 0x7f80 : 0x7c00;
    if ((wanted & 0x7fff) > infinity)
        assert_true((found & 0x7fff) > infinity);
    else
        assert_int_equal(found, wanted);
}

/* Rounds a sample of all fp32 numbers, and adds -0 to every 16-bit one, which keeps it. */
static void check_conversions(plm_device *device, plm_dtype dtype)
{
    const extents n = {.B = 1, .T = 1, .C = 65537, .H = 1, .V = 1, .K = 1, .N = 1, .P = 1};
    op_types types = {dtype, PLM_DTYPE_F32};
    fixture cast, add;
    fixture_open_as(&cast, device, PLM_OP_CAST, n, attributes(&n, false, false), types);
    fixture_open_as(&add, device, PLM_OP_ADD, n, attributes(&n, false, false), types);
    float *masters = cast.launch.in[0].data;
    uint16_t *a = add.launch.in[0].data, *b = add.launch.in[1].data;
    for (int64_t i = 0; i < n.C; i++) {
        masters[i] = plm__of_bits((uint32_t)i * 65521U);
        a[i] = (uint16_t)i;
        b[i] = 0x8000;
    }
    run_op(device, &cast.launch);
    run_op(device, &add.launch);
    const uint16_t *weights = cast.launch.effect[0].data, *sum = add.launch.out[0].data;
    for (int64_t i = 0; i < n.C; i++) {
        assert_same_half(dtype, sum[i], a[i]);
        assert_same_half(dtype, weights[i],
                         dtype == PLM_DTYPE_BF16 ? plm__to_bf16(masters[i])
                                                 : plm__to_fp16(masters[i]));
    }
    fixture_close(&cast);
    fixture_close(&add);
}

static void kernels_convert_as_the_types_are_defined(void **state)
{
    (void)state;
    plm_device *device = open_device(1);
    const plm_cpu_kernels *kernels;
    for (int set = 0; (kernels = plm__cpu_kernels_at(set)); set++) {
        plm__cpu_use_kernels(device, kernels);
        check_conversions(device, PLM_DTYPE_BF16);
        check_conversions(device, PLM_DTYPE_F16);
    }
    plm_device_destroy(device);
}

static bool half_product(int kind, op_types types)
{
    return plm__products_run((plm_op_kind)kind) && types.precision != PLM_DTYPE_F32;
}

/* Large enough for several blocks each way; only the second run may be the library's. */
static void products_of_16_bit_types_are_right_in_converted_blocks_and_in_silicon(void **state)
{
    (void)state;
    const extents n = {.B = 2, .T = 101, .C = 1, .H = 1, .V = 1, .K = 275, .N = 203, .P = 101};
    plm_device *device = open_device(2);
    const plm_cpu_kernels *kernels;
    for (int silicon = 0; silicon < 2; silicon++)
        for (int set = 0; (kernels = plm__cpu_kernels_at(set)); set++)
            for (int kind = 0; kind < PLM_OP_COUNT; kind++)
                for (int i = 0; i < 2 * TYPES; i++) {
                    plm__cpu_use_silicon(device, silicon);
                    plm__cpu_use_kernels(device, kernels);
                    if (half_product(kind, all_types[i / 2]) && (!silicon || set == 0))
                        compare_with_reference(device, (plm_op_kind)kind, &n, 2 * (i % 2),
                                               all_types[i / 2]);
                }
    plm_device_destroy(device);
}

static void a_16_bit_product_has_a_workspace_that_does_not_grow_with_it(void **state)
{
    (void)state;
    plm_device *device = open_device(2);
    plm__cpu_use_silicon(device, false);
    for (int64_t rows = 1; rows <= 1 << 20; rows *= 32) {
        const extents n = {.B = 1, .T = rows, .C = 1, .H = 1, .V = 1, .K = rows, .N = rows, .P = 1};
        plm_launch launch = {.kind = PLM_OP_LINEAR_GRAD_INPUT};
        shape_operand(&n, all_types[1], "BTN", &launch.in[0]);
        shape_operand(&n, all_types[1], "NK", &launch.in[1]);
        shape_operand(&n, all_types[1], "BTK", &launch.out[0]);
        size_t bytes = 0;
        assert_ok(device->table->workspace(device, &launch, &bytes));
        assert_true(bytes > 0 && bytes < (size_t)2 << 18); /* 256 KiB a thread */
    }
    plm_device_destroy(device);
}

static void the_table_of_kernels_covers_every_operation(void **state)
{
    (void)state;
    const plm_cpu_kernels *kernels;
    for (int set = 0; (kernels = plm__cpu_kernels_at(set)); set++)
        for (int kind = 0; kind < PLM_OP_COUNT; kind++) {
            assert_non_null(references[kind]);
            assert_non_null(kernels->run[kind]);
        }
}

/* Runs the operation on its own fixture and keeps a copy of everything it wrote. */
static char *result_of(plm_device *device, plm_op_kind kind, const extents *n, op_types types,
                       fixture *f)
{
    fixture_open_as(f, device, kind, *n, attributes(n, true, true), types);
    run_op(device, &f->launch);
    char *copy = malloc(f->start[OPERANDS]);
    memcpy(copy, f->block, f->start[OPERANDS]);
    return copy;
}

static void assert_same_bits(plm_device *one, plm_device *three, plm_op_kind kind, const extents *n,
                             op_types types)
{
    fixture f, g;
    char *first = result_of(one, kind, n, types, &f);
    char *second = result_of(three, kind, n, types, &g);
    if (memcmp(first, second, f.start[OPERANDS]) != 0)
        fail_msg("%s in %s depends on the number of threads", f.words->name,
                 plm_dtype_text(types.precision));
    assert_memory_equal(&f.step, &g.step, sizeof f.step);
    free(first);
    free(second);
    fixture_close(&f);
    fixture_close(&g);
}

static void results_are_the_same_bits_on_any_number_of_threads(void **state)
{
    (void)state;
    plm_device *one = open_device(1), *three = open_device(3);
    plm__cpu_use_silicon(one, false); /* the library promises no bits */
    plm__cpu_use_silicon(three, false);
    extents n = {.B = 4, .T = 130, .C = 80, .H = 4, .V = 300, .K = 64, .N = 96, .P = 130, .G = 2};
    for (int kind = 0; kind < PLM_OP_COUNT; kind++)
        for (int types = 0; types < TYPES; types++)
            if (!plm__products_run((plm_op_kind)kind) || half_product(kind, all_types[types]))
                assert_same_bits(one, three, (plm_op_kind)kind, &n, all_types[types]);
    plm_device_destroy(one);
    plm_device_destroy(three);
}

/* The result over input `input` is the result beside it. */
static void assert_in_place(plm_device *device, plm_op_kind kind, int input, op_types types)
{
    const extents *n = &shapes[4];
    fixture f, g;
    fixture_open_as(&f, device, kind, *n, attributes(n, true, false), types);
    fixture_open_as(&g, device, kind, *n, attributes(n, true, false), types);
    run_op(device, &f.launch);
    size_t bytes = g.bytes[PLM_OP_INPUTS_MAX];
    assert_int_equal(bytes, g.bytes[input]);
    g.launch.out[0].data = g.launch.in[input].data;
    run_op(device, &g.launch);
    if (memcmp(f.launch.out[0].data, g.launch.out[0].data, bytes) != 0)
        fail_msg("%s in %s is wrong over its input %d", f.words->name,
                 plm_dtype_text(types.precision), input);
    fixture_close(&f);
    fixture_close(&g);
}

static void an_output_may_take_the_place_of_an_input_where_the_table_says_so(void **state)
{
    (void)state;
    plm_device *device = open_device(2);
    for (int kind = 0; kind < PLM_OP_COUNT; kind++)
        for (int input = 0; input < PLM_OP_INPUTS_MAX; input++)
            for (int types = 0; types < TYPES; types++)
                if (op_table[kind].overwrites >> input & 1)
                    assert_in_place(device, (plm_op_kind)kind, input, all_types[types]);
    plm_device_destroy(device);
}

static void empty_tensors_are_fine_and_empty_sums_are_zero(void **state)
{
    (void)state;
    static const extents empty[] = {
        {.B = 0, .T = 5, .C = 8, .H = 2, .V = 5, .K = 4, .N = 6, .P = 7},
        {.B = 2, .T = 0, .C = 8, .H = 2, .V = 5, .K = 4, .N = 6, .P = 7},
        {.B = 2, .T = 5, .C = 8, .H = 2, .V = 5, .K = 0, .N = 6, .P = 7},
        {.B = 2, .T = 5, .C = 8, .H = 2, .V = 5, .K = 4, .N = 0, .P = 7},
    };
    plm_device *device = open_device(2);
    for (int kind = 0; kind < PLM_OP_COUNT; kind++)
        for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
            for (int variant = 0; variant < 4 * TYPES; variant++)
                if (kind != PLM_OP_SELECT || empty[i].T > 0)
                    compare_with_reference(device, (plm_op_kind)kind, &empty[i], variant % 4,
                                           all_types[variant / 4]);
    plm_device_destroy(device);
}

static void shapes_that_do_not_fit_together_are_refused(void **state)
{
    (void)state;
    plm_device *device = open_device(1);
    const extents *n = &shapes[2];
    for (int kind = 0; kind < PLM_OP_COUNT; kind++)
        for (int i = 0; i < OPERANDS; i++) {
            if (!word_at(&op_table[kind], i) || kind == PLM_OP_GRADIENT_NORM)
                continue;
            fixture f;
            size_t bytes = 77;
            fixture_open(&f, device, (plm_op_kind)kind, *n, attributes(n, true, false));
            plm_operand *operand = operand_at(&f.launch, i), good = *operand;
            operand->stride[0] *= 2;
            assert_int_equal(device->table->workspace(device, &f.launch, &bytes),
                             PLM_ERROR_UNSUPPORTED);
            *operand = good;
            operand->dtype = PLM_DTYPE_U8;
            assert_int_equal(device->table->workspace(device, &f.launch, &bytes),
                             PLM_ERROR_UNSUPPORTED);
            *operand = good;
            operand->rank = 0;
            if (kind != PLM_OP_LINEAR || i != 2)
                assert_int_equal(device->table->workspace(device, &f.launch, &bytes),
                                 PLM_ERROR_ARGUMENT);
            assert_int_equal(bytes, 77);
            fixture_close(&f);
        }
    plm_device_destroy(device);
}

static void types_mixed_in_one_launch_are_refused_by_name(void **state)
{
    (void)state;
    plm_device *device = open_device(1);
    const extents *n = &shapes[2];
    fixture f;
    size_t bytes = 77;
    plm_error error;
    fixture_open_as(&f, device, PLM_OP_GELU_GRAD, *n, attributes(n, true, false), all_types[1]);
    f.launch.in[1].dtype = PLM_DTYPE_F16;
    assert_int_equal(device->table->workspace(device, &f.launch, &bytes), PLM_ERROR_UNSUPPORTED);
    plm_error_get(&error);
    assert_string_equal(error.message, "gelu gradient, input 1: wanted bf16, found fp16");
    fixture_close(&f);
    fixture_open_as(&f, device, PLM_OP_LAYER_NORM, *n, attributes(n, true, false), all_types[3]);
    f.launch.out[1].dtype = PLM_DTYPE_F16; /* the mean */
    assert_int_equal(device->table->workspace(device, &f.launch, &bytes), PLM_ERROR_UNSUPPORTED);
    plm_error_get(&error);
    assert_string_equal(error.message, "layer norm, output 1: wanted fp32, found fp16");
    fixture_close(&f);
    fixture_open_as(&f, device, PLM_OP_ADAMW, *n, attributes(n, true, false), all_types[2]);
    f.launch.in[0].dtype = PLM_DTYPE_F16;
    assert_int_equal(device->table->workspace(device, &f.launch, &bytes), PLM_ERROR_UNSUPPORTED);
    plm_error_get(&error);
    assert_string_equal(error.message, "adamw, input 0: wanted fp32 or bf16, found fp16");
    assert_int_equal(bytes, 77);
    fixture_close(&f);
    plm_device_destroy(device);
}

static void a_dimension_that_disagrees_is_named(void **state)
{
    (void)state;
    plm_device *device = open_device(1);
    fixture f;
    size_t bytes;
    fixture_open(&f, device, PLM_OP_LAYER_NORM, shapes[2], attributes(&shapes[2], true, false));
    f.launch.in[1].shape[0]--;
    assert_int_equal(device->table->workspace(device, &f.launch, &bytes), PLM_ERROR_ARGUMENT);
    plm_error error;
    plm_error_get(&error);
    assert_string_equal(error.message, "layer norm, input 1: wanted C = 24, found 23");
    f.launch.in[1].shape[0] = -1;
    assert_int_equal(device->table->workspace(device, &f.launch, &bytes), PLM_ERROR_ARGUMENT);
    fixture_close(&f);
    fixture_open(&f, device, PLM_OP_ATTENTION, shapes[2], attributes(&shapes[2], true, false));
    f.launch.attr.heads = 0;
    assert_int_equal(device->table->workspace(device, &f.launch, &bytes), PLM_ERROR_ARGUMENT);
    f.launch.attr.heads = 5;
    assert_int_equal(device->table->workspace(device, &f.launch, &bytes), PLM_ERROR_ARGUMENT);
    fixture_close(&f);
    plm_device_destroy(device);
}

static void assert_heads_refused(plm_device *device, plm_launch *launch, int32_t heads,
                                 int32_t key_heads, const char *said)
{
    size_t bytes;
    plm_error error;
    launch->attr.heads = heads;
    launch->attr.key_heads = key_heads;
    assert_int_equal(device->table->workspace(device, launch, &bytes), PLM_ERROR_ARGUMENT);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, said));
}

/* 6 heads of 5 elements and 2 of keys and values: 50 columns packed, 30 plain. */
static void heads_that_do_not_fit_the_columns_are_refused(void **state)
{
    (void)state;
    static const plm_op_kind all[] = {
        PLM_OP_ATTENTION,      PLM_OP_ATTENTION_SCORES,     PLM_OP_ATTENTION_APPLY,
        PLM_OP_ATTENTION_GRAD, PLM_OP_ATTENTION_GRAD_PROBS, PLM_OP_ATTENTION_GRAD_QKV};
    const extents *n = &shapes[6];
    plm_device *device = open_device(1);
    fixture f;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        fixture_open(&f, device, all[i], *n, attributes(n, true, false));
        assert_heads_refused(device, &f.launch, 6, 0, "6 heads and 0 key-value heads");
        assert_heads_refused(device, &f.launch, 6, 4, "6 heads and 4 key-value heads");
        assert_heads_refused(device, &f.launch, 2, 6, "2 heads and 6 key-value heads");
        fixture_close(&f);
    }
    fixture_open(&f, device, PLM_OP_ATTENTION, *n, attributes(n, true, false));
    shape_operand(&(extents){.B = n->B, .T = n->T, .C = 51}, all_types[0], "BTC", &f.launch.in[0]);
    assert_heads_refused(device, &f.launch, 6, 2, "one size, found 51 columns packed and 30 plain");
    shape_operand(n, all_types[0], "BTQ", &f.launch.in[0]);
    shape_operand(&(extents){.B = n->B, .T = n->T, .C = 24}, all_types[0], "BTC", &f.launch.out[0]);
    assert_heads_refused(device, &f.launch, 6, 2, "one size, found 50 columns packed and 24 plain");
    fixture_close(&f);
    plm_device_destroy(device);
}

/* The packed tensor of whole heads in which each of queries has the keys and values that it shares
 * in a grouped one. */
static void repeat_keys(const extents *n, const plm_operand *grouped, const plm_operand *whole)
{
    int64_t G = n->G, H = n->H, bytes = n->D * (int64_t)element_bytes(grouped);
    for (int64_t row = 0; row < n->B * n->T; row++)
        for (int64_t head = 0; head < 3 * H; head++) {
            int64_t from = head < H ? head : H + (head / H - 1) * G + head % H * G / H;
            memcpy((char *)whole->data + (row * 3 * H + head) * bytes,
                   (char *)grouped->data + (row * (H + 2 * G) + from) * bytes, (size_t)bytes);
        }
}

static void heads_that_share_keys_are_the_bits_of_heads_that_repeat_them(void **state)
{
    (void)state;
    static const plm_op_kind forward[] = {PLM_OP_ATTENTION, PLM_OP_ATTENTION_SCORES};
    plm_device *device = open_device(2);
    for (int variant = 0; variant < 4 * TYPES; variant++) {
        extents few = shapes[6 + variant % 2], all = few;
        op_types types = all_types[variant / 4];
        plm_op_kind kind = forward[variant / 2 % 2];
        fixture f, g;
        all.G = all.H;
        fixture_open_as(&f, device, kind, few, attributes(&few, true, false), types);
        fixture_open_as(&g, device, kind, all, attributes(&all, true, false), types);
        repeat_keys(&few, &f.launch.in[0], &g.launch.in[0]);
        run_op(device, &f.launch);
        run_op(device, &g.launch);
        for (int i = 0; i < PLM_OP_OUTPUTS_MAX; i++)
            if (f.launch.out[i].rank)
                assert_memory_equal(f.launch.out[i].data, g.launch.out[i].data,
                                    f.bytes[PLM_OP_INPUTS_MAX + i]);
        fixture_close(&f);
        fixture_close(&g);
    }
    plm_device_destroy(device);
}

/* How a backward operation's inputs are found: d the gradient of output 0; a b c the forward's
 * inputs; x y z its outputs. The gradient is of forward input `input`, in output 0 or effect
 * `effect`. */
typedef struct gradient_pair {
    plm_op_kind forward, backward;
    int input;
    const char *from;
    int effect; /* -1: output 0 */
} gradient_pair;

static const gradient_pair pairs[] = {
    {PLM_OP_EMBEDDING, PLM_OP_EMBEDDING_GRAD, 1, "ad", 0},
    {PLM_OP_POSITION, PLM_OP_POSITION_GRAD, 1, "d", 0},
    {PLM_OP_LAYER_NORM, PLM_OP_LAYER_NORM_GRAD_INPUT, 0, "dabyz", -1},
    {PLM_OP_LAYER_NORM, PLM_OP_LAYER_NORM_GRAD_WEIGHT, 1, "dayz", 0},
    {PLM_OP_LAYER_NORM, PLM_OP_LAYER_NORM_GRAD_WEIGHT, 2, "dayz", 1},
    {PLM_OP_LINEAR, PLM_OP_LINEAR_GRAD_INPUT, 0, "db", -1},
    {PLM_OP_LINEAR, PLM_OP_LINEAR_GRAD_WEIGHT, 1, "ad", 0},
    {PLM_OP_LINEAR, PLM_OP_LINEAR_GRAD_BIAS, 2, "d", 0},
    {PLM_OP_GELU, PLM_OP_GELU_GRAD, 0, "da", -1},
    {PLM_OP_GELU_EXACT, PLM_OP_GELU_EXACT_GRAD, 0, "da", -1},
    {PLM_OP_DROPOUT, PLM_OP_DROPOUT, 0, "d", -1},
    {PLM_OP_ATTENTION, PLM_OP_ATTENTION_GRAD, 0, "daxy", -1},
    {PLM_OP_SOFTMAX, PLM_OP_SOFTMAX_GRAD, 0, "dx", -1},
    {PLM_OP_ATTENTION_APPLY, PLM_OP_ATTENTION_GRAD_PROBS, 0, "db", -1},
    {PLM_OP_CROSS_ENTROPY, PLM_OP_CROSS_ENTROPY_GRAD, 0, "aby", -1},
};

enum { PAIRS = sizeof pairs / sizeof *pairs };

/* sum_i weight_i out_i over output 0 */
static double weighted(const double *out, const double *weight, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += out[i] * weight[i];
    return sum;
}

/* Fills the backward's inputs from the forward's operands after its run. */
static void connect(const gradient_pair *pair, fixture *forward, fixture *backward,
                    const double *weight)
{
    for (int i = 0; pair->from[i]; i++) {
        char code = pair->from[i];
        plm_operand *to = &backward->launch.in[i];
        if (code == 'd') {
            for (int64_t e = 0; e < plm__operand_count(to); e++)
                ((float *)to->data)[e] = (float)weight[e];
            continue;
        }
        plm_operand *source =
            code < 'd' ? &forward->launch.in[code - 'a'] : &forward->launch.out[code - 'x'];
        assert_int_equal(plm__operand_count(to), plm__operand_count(source));
        memcpy(to->data, source->data, (size_t)plm__operand_count(to) * 4);
    }
    widen(backward);
}

/* Derivative along `way` by central differences of the double reference. */
static double difference(fixture *forward, const gradient_pair *pair, const double *weight,
                         const double *way)
{
    const double h = 1e-5;
    reference *r = &forward->truth;
    double side[2];
    for (int s = 0; s < 2; s++) {
        for (int64_t i = 0; i < r->in_count[pair->input]; i++)
            r->in[pair->input][i] += (s ? -2 : 1) * h * way[i];
        references[forward->launch.kind](r);
        side[s] = weighted(r->out[0], weight, r->out_count[0]);
    }
    for (int64_t i = 0; i < r->in_count[pair->input]; i++)
        r->in[pair->input][i] += h * way[i];
    return (side[0] - side[1]) / (2 * h);
}

/* The backward kernel's gradient along a random way, against differences of the forward. */
static void check_pair(plm_device *device, const gradient_pair *pair, const extents *n, bool causal)
{
    fixture forward, backward;
    fixture_open(&forward, device, pair->forward, *n, attributes(n, causal, false));
    fixture_open(&backward, device, pair->backward, *n, attributes(n, causal, false));
    run_op(device, &forward.launch);
    int64_t outputs = plm__operand_count(&forward.launch.out[0]);
    int64_t inputs = plm__operand_count(&forward.launch.in[pair->input]);
    double *weight = calloc((size_t)outputs, sizeof *weight);
    double *way = calloc((size_t)inputs, sizeof *way);
    uint64_t index = 5;
    for (int64_t i = 0; i < outputs; i++)
        weight[i] = (double)(float)next_number(&index);
    for (int64_t i = 0; pair->forward == PLM_OP_CROSS_ENTROPY && i < outputs; i++)
        weight[i] = (double)(backward.step.loss_scale * backward.step.inverse_count);
    connect(pair, &forward, &backward, weight);
    run_op(device, &backward.launch);
    const plm_operand *result =
        pair->effect < 0 ? &backward.launch.out[0] : &backward.launch.effect[pair->effect];
    const float *gradient = result->data;
    assert_int_equal(plm__operand_count(result), inputs);
    for (int round = 0; round < 3; round++) {
        double along = 0, size = 0;
        for (int64_t i = 0; i < inputs; i++) {
            way[i] = next_number(&index);
            along += (double)gradient[i] * way[i];
            size += (double)gradient[i] * (double)gradient[i];
        }
        double wanted = difference(&forward, pair, weight, way);
        if (!(fabs(along - wanted) <= 1e-5 * (1 + sqrt(size))))
            fail_msg("%s of input %d: %.9g, differences say %.9g", backward.words->name,
                     pair->input, along, wanted);
    }
    free(weight);
    free(way);
    fixture_close(&forward);
    fixture_close(&backward);
}

static void gradients_agree_with_finite_differences(void **state)
{
    (void)state;
    plm_device *device = open_device(2);
    for (int pair = 0; pair < PAIRS; pair++)
        for (int shape = 0; shape < SHAPES; shape++)
            for (int causal = 0; causal < 2; causal++)
                if ((shape < 4 || shapes[shape].G) && is_for(&shapes[shape], pairs[pair].forward) &&
                    (!causal || pairs[pair].forward != PLM_OP_ATTENTION_APPLY))
                    check_pair(device, &pairs[pair], &shapes[shape], causal);
    plm_device_destroy(device);
}

/* Gives an operand of one fixture the data of another's. */
static void hand_over(fixture *to, int input, const plm_operand *from)
{
    assert_int_equal(plm__operand_count(&to->launch.in[input]), plm__operand_count(from));
    memcpy(to->launch.in[input].data, from->data, (size_t)plm__operand_count(from) * 4);
}

static void assert_close(const plm_operand *a, const plm_operand *b, double tolerance)
{
    const float *x = a->data, *y = b->data;
    for (int64_t i = 0; i < plm__operand_count(a); i++)
        if (!(fabs((double)x[i] - (double)y[i]) <= tolerance))
            fail_msg("element %d: %g and %g", (int)i, (double)x[i], (double)y[i]);
}

static void fused_and_plain_attention_agree_forward_and_backward(void **state)
{
    (void)state;
    static const plm_op_kind kinds[] = {PLM_OP_ATTENTION_SCORES,     PLM_OP_SOFTMAX,
                                        PLM_OP_ATTENTION_APPLY,      PLM_OP_ATTENTION,
                                        PLM_OP_ATTENTION_GRAD_PROBS, PLM_OP_SOFTMAX_GRAD,
                                        PLM_OP_ATTENTION_GRAD_QKV,   PLM_OP_ATTENTION_GRAD};
    enum { SCORES, PROBS, APPLY, FUSED, DPROBS, DSCORES, DQKV, FUSED_GRAD, STEPS };
    plm_device *device = open_device(2);
    for (int variant = 0; variant < 2 * SHAPES; variant++) {
        const extents *n = &shapes[variant / 2];
        fixture f[STEPS];
        for (int i = 0; i < STEPS; i++)
            fixture_open(&f[i], device, kinds[i], *n, attributes(n, variant % 2, false));
        const plm_operand *qkv = &f[SCORES].launch.in[0], *dout = &f[DPROBS].launch.in[0];
        run_op(device, &f[SCORES].launch);
        hand_over(&f[PROBS], 0, &f[SCORES].launch.out[0]);
        run_op(device, &f[PROBS].launch);
        hand_over(&f[APPLY], 0, &f[PROBS].launch.out[0]);
        hand_over(&f[APPLY], 1, qkv);
        run_op(device, &f[APPLY].launch);
        hand_over(&f[FUSED], 0, qkv);
        run_op(device, &f[FUSED].launch);
        assert_close(&f[APPLY].launch.out[0], &f[FUSED].launch.out[0], 2e-5);

        hand_over(&f[DPROBS], 1, qkv);
        run_op(device, &f[DPROBS].launch);
        hand_over(&f[DSCORES], 0, &f[DPROBS].launch.out[0]);
        hand_over(&f[DSCORES], 1, &f[PROBS].launch.out[0]);
        run_op(device, &f[DSCORES].launch);
        hand_over(&f[DQKV], 0, dout);
        hand_over(&f[DQKV], 1, qkv);
        hand_over(&f[DQKV], 2, &f[PROBS].launch.out[0]);
        hand_over(&f[DQKV], 3, &f[DSCORES].launch.out[0]);
        run_op(device, &f[DQKV].launch);
        hand_over(&f[FUSED_GRAD], 0, dout);
        hand_over(&f[FUSED_GRAD], 1, qkv);
        hand_over(&f[FUSED_GRAD], 2, &f[FUSED].launch.out[0]);
        hand_over(&f[FUSED_GRAD], 3, &f[FUSED].launch.out[1]);
        run_op(device, &f[FUSED_GRAD].launch);
        assert_close(&f[DQKV].launch.out[0], &f[FUSED_GRAD].launch.out[0], 5e-5);
        for (int i = 0; i < STEPS; i++)
            fixture_close(&f[i]);
    }
    plm_device_destroy(device);
}

static void a_dropout_mask_does_not_depend_on_the_micro_batch(void **state)
{
    (void)state;
    plm_device *device = open_device(2);
    extents whole = {.B = 6, .T = 7, .C = 9, .H = 1, .V = 5, .K = 1, .N = 1, .P = 7}, part = whole;
    fixture f, g;
    fixture_open(&f, device, PLM_OP_DROPOUT, whole, attributes(&whole, false, false));
    f.step.sample_offset = 0;
    run_op(device, &f.launch);
    part.B = 2;
    int64_t count = part.B * part.T * part.C;
    for (int i = 0; i < 3; i++) {
        fixture_open(&g, device, PLM_OP_DROPOUT, part, attributes(&part, false, false));
        memcpy(g.launch.in[0].data, (float *)f.launch.in[0].data + i * count, (size_t)count * 4);
        g.step.sample_offset = (uint32_t)(i * part.B);
        run_op(device, &g.launch);
        assert_memory_equal(g.launch.out[0].data, (float *)f.launch.out[0].data + i * count,
                            (size_t)count * 4);
        fixture_close(&g);
    }
    fixture_close(&f);
    plm_device_destroy(device);
}

static void assert_skipped(plm_device *device, plm_op_kind optimizer)
{
    fixture norm, update;
    const extents *n = &shapes[1];
    fixture_open(&norm, device, PLM_OP_GRADIENT_NORM, *n, attributes(n, false, false));
    fixture_open(&update, device, optimizer, *n, attributes(n, false, false));
    ((float *)norm.launch.in[1].data)[3] = NAN;
    run_op(device, &norm.launch);
    assert_int_equal(norm.step.skip, 1);
    assert_int_equal(norm.step.skipped_count, 1);
    assert_int_equal(norm.step.update_count, step_record().update_count);
    char *before = malloc(update.block_bytes);
    memcpy(before, update.block, update.block_bytes);
    update.launch.step = &norm.step;
    run_op(device, &update.launch);
    assert_memory_equal(before, update.block, update.block_bytes);
    free(before);
    fixture_close(&norm);
    fixture_close(&update);
}

static void a_gradient_that_is_not_finite_skips_the_update(void **state)
{
    (void)state;
    plm_device *device = open_device(2);
    assert_skipped(device, PLM_OP_ADAMW);
    assert_skipped(device, PLM_OP_SGD);
    plm_device_destroy(device);
}

static void a_long_gradient_norm_is_exact_to_fp32(void **state)
{
    (void)state;
    plm_device *device = open_device(2);
    extents n = {.B = 1, .T = 1, .C = 1021, .H = 1, .V = 2200, .K = 1, .N = 1, .P = 3};
    fixture f;
    fixture_open(&f, device, PLM_OP_GRADIENT_NORM, n, attributes(&n, false, false));
    references[f.launch.kind](&f.truth);
    run_op(device, &f.launch);
    assert_true(fabsf(f.step.gradient_norm - f.truth.step.gradient_norm) <=
                1e-7f * f.truth.step.gradient_norm);
    fixture_close(&f);
    plm_device_destroy(device);
}

/* Distance in units in the last place of the true value. */
static double units(float x, double truth)
{
    int exponent;
    frexp(truth, &exponent);
    return fabs((double)x - truth) / ldexp(1.0, exponent - 24);
}

static void exponential_and_sigmoid_are_right_to_a_few_units(void **state)
{
    (void)state;
    double worst_exp = 0, worst_sigmoid = 0;
    for (double x = -87.2; x < 88.72; x += 0.00037) {
        worst_exp = fmax(worst_exp, units(plm__exp((float)x), exp((double)(float)x)));
        if (x < 87)
            worst_sigmoid = fmax(worst_sigmoid,
                                 units(plm__sigmoid((float)-x), 1 / (1 + exp((double)(float)x))));
    }
    assert_true(worst_exp < 1.5);
    assert_true(worst_sigmoid < 3);
    assert_true(plm__exp(0.0f) == 1.0f);
    assert_true(plm__exp(-INFINITY) == 0.0f && plm__exp(-100.0f) == 0.0f);
    assert_true(isinf(plm__exp(INFINITY)) && isinf(plm__exp(89.0f)));
    for (int bit = 0; bit < 22; bit++) { /* a NaN, whatever else its bits say */
        uint32_t bits = 0xFFC00000u | ((1u << (bit + 1)) - 1);
        float nan;
        memcpy(&nan, &bits, sizeof nan);
        assert_true(isnan(plm__exp(nan)));
    }
    assert_true(isnan(plm__exp(NAN)));
}

static void the_normal_distribution_is_right_to_a_few_units(void **state)
{
    (void)state;
    double worst = 0;
    for (double wide = -13.2; wide < 13.3; wide += 0.000037) {
        float x = (float)wide;
        double truth = erfc(-(double)x / sqrt(2)) / 2;
        float found = plm__normal_below(x, plm__exp(-0.5f * x * x));
        worst = fmax(worst, fabs((double)found - truth));
        if (x < 0)
            assert_true(units(found, truth) < 5 + (double)(x * x) / 2);
    }
    print_message("worst error of the normal distribution %.2e\n", worst);
    assert_true(worst < 1.2e-7);
    assert_true(plm__normal_below(0.0f, 1.0f) == 0.5f);
    assert_true(plm__normal_below(20.0f, plm__exp(-200.0f)) == 1.0f);
    assert_true(plm__normal_below(-20.0f, plm__exp(-200.0f)) == 0.0f);
    assert_true(isnan(plm__normal_below(NAN, NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_of_every_instruction_set_and_type_matches_the_reference),
        cmocka_unit_test(products_whose_rows_meet_in_the_cache_are_packed_and_match_the_reference),
        cmocka_unit_test(kernels_convert_as_the_types_are_defined),
        cmocka_unit_test(products_of_16_bit_types_are_right_in_converted_blocks_and_in_silicon),
        cmocka_unit_test(a_16_bit_product_has_a_workspace_that_does_not_grow_with_it),
        cmocka_unit_test(the_table_of_kernels_covers_every_operation),
        cmocka_unit_test(results_are_the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(an_output_may_take_the_place_of_an_input_where_the_table_says_so),
        cmocka_unit_test(empty_tensors_are_fine_and_empty_sums_are_zero),
        cmocka_unit_test(shapes_that_do_not_fit_together_are_refused),
        cmocka_unit_test(types_mixed_in_one_launch_are_refused_by_name),
        cmocka_unit_test(a_dimension_that_disagrees_is_named),
        cmocka_unit_test(heads_that_do_not_fit_the_columns_are_refused),
        cmocka_unit_test(heads_that_share_keys_are_the_bits_of_heads_that_repeat_them),
        cmocka_unit_test(gradients_agree_with_finite_differences),
        cmocka_unit_test(fused_and_plain_attention_agree_forward_and_backward),
        cmocka_unit_test(a_dropout_mask_does_not_depend_on_the_micro_batch),
        cmocka_unit_test(a_gradient_that_is_not_finite_skips_the_update),
        cmocka_unit_test(a_long_gradient_norm_is_exact_to_fp32),
        cmocka_unit_test(exponential_and_sigmoid_are_right_to_a_few_units),
        cmocka_unit_test(the_normal_distribution_is_right_to_a_few_units),
    };
    return run_test_group(tests);
}
