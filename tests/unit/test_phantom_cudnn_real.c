/* SPDX-License-Identifier: MIT */
/*
 * The stand-in in front of the real cuDNN, which needs no GPU: sizes that PyTorch would be told,
 * against recordings of an H200, and whether the rules of cudnn_split.c are still the library's.
 * The library is the libcudnn.so.9 that PLM_TEST_CUDNN names, or that the loader finds; a machine
 * without one, or with one that cannot be told of a device, skips.
 */
#include "phantom/cudnn_abi.h"
#include "phantom/cudnn_device.h"
#include "phantom/cudnn_split.h"
#include "phantom/phantom.h"

#include "phantom_cudnn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { FP32 = CUDNN_DATA_FLOAT, FP16 = CUDNN_DATA_HALF, BF16 = CUDNN_DATA_BFLOAT16, PLANS = 8 };
enum {
    TENSOR = 17,
    CONVOLUTION = 1,
    COMPUTE = 100,
    MODE = 101,
    DIMENSIONS = 106,
    POST_PADDINGS = 104,
    TENSOR_ID = 906,
    ALIGNMENT = 900,
    CONVOLUTION_MODE = 7,
    HEUR_MODE = 8,
    FLOAT = 4
};

/* cuDNN's graph interface, of the stand-in or of the real library. */
struct interface {
    int (*create)(int type, void **descriptor);
    int (*set)(void *descriptor, int name, int type, int64_t count, const void *value);
    int (*get)(void *descriptor, int name, int type, int64_t room, int64_t *count, void *value);
    int (*finalize)(void *descriptor);
    void *device; /* set on heuristics; NULL: the stand-in does so itself */
};

/* Asked by the leak sanitizer: descriptors live until the test ends, and cuDNN keeps some for good.
 */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libcudnn";
}

static struct interface interface_of(enum plm__test_library library)
{
    return (struct interface){
        .create = plm__test_symbol(library, "cudnnBackendCreateDescriptor"),
        .set = plm__test_symbol(library, "cudnnBackendSetAttribute"),
        .get = plm__test_symbol(library, "cudnnBackendGetAttribute"),
        .finalize = plm__test_symbol(library, "cudnnBackendFinalize"),
    };
}

static void *create(const struct interface *cudnn, int type)
{
    void *descriptor = NULL;
    assert_int_equal(cudnn->create(type, &descriptor), 0);
    return descriptor;
}

static void set(const struct interface *cudnn, void *descriptor, int name, int type, int64_t count,
                const void *value)
{
    assert_int_equal(cudnn->set(descriptor, name, type, count, value), 0);
}

static void *tensor(const struct interface *cudnn, const struct plm_cudnn_tensor *t, int64_t id)
{
    void *descriptor = create(cudnn, TENSOR);
    int64_t alignment = 32;
    set(cudnn, descriptor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t->type);
    set(cudnn, descriptor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, t->dimensions);
    set(cudnn, descriptor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, t->strides);
    set(cudnn, descriptor, TENSOR_ID, CUDNN_TYPE_INT64, 1, &id);
    set(cudnn, descriptor, ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    assert_int_equal(cudnn->finalize(descriptor), 0);
    return descriptor;
}

static void *geometry(const struct interface *cudnn, const struct plm_cudnn_convolution *c)
{
    void *descriptor = create(cudnn, CONVOLUTION);
    int compute = FP32, cross_correlation = 1;
    int64_t axes = 2;
    set(cudnn, descriptor, COMPUTE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set(cudnn, descriptor, MODE, CONVOLUTION_MODE, 1, &cross_correlation);
    set(cudnn, descriptor, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, c->dilation);
    set(cudnn, descriptor, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, c->stride);
    set(cudnn, descriptor, POST_PADDINGS, CUDNN_TYPE_INT64, 2, c->padding);
    set(cudnn, descriptor, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, c->padding);
    set(cudnn, descriptor, DIMENSIONS, CUDNN_TYPE_INT64, 1, &axes);
    assert_int_equal(cudnn->finalize(descriptor), 0);
    return descriptor;
}

/* The attributes of an operation start at 700 forward, 706 for the image's gradient and 712 for the
 * filter's. */
static void *graph_of(const struct interface *cudnn, const struct plm_cudnn_convolution *c)
{
    static const int types[] = {0, 10, 11, 12}, first[] = {0, 700, 712, 706};
    int name = first[c->direction];
    float one = 1, zero = 0;
    void *operation = create(cudnn, types[c->direction]),
         *graph = create(cudnn, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
         *parts[] = {geometry(cudnn, c), tensor(cudnn, &c->filter, 1), tensor(cudnn, &c->image, 2),
                     tensor(cudnn, &c->output, 3)};
    set(cudnn, operation, name, FLOAT, 1, &one);
    set(cudnn, operation, name + 1, FLOAT, 1, &zero);
    for (int i = 0; i < 4; i++)
        set(cudnn, operation, name + 2 + i, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[i]);
    assert_int_equal(cudnn->finalize(operation), 0);
    set(cudnn, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation);
    assert_int_equal(cudnn->finalize(graph), 0);
    return graph;
}

/* The foremost configurations of a list; returns how many. */
static int64_t configurations_of(const struct interface *cudnn, void *graph, int mode,
                                 void *configurations[PLANS])
{
    void *heuristic = create(cudnn, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t count = 0;
    set(cudnn, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
        &graph);
    set(cudnn, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, HEUR_MODE, 1, &mode);
    if (cudnn->device)
        set(cudnn, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
            &cudnn->device);
    assert_int_equal(cudnn->finalize(heuristic), 0);
    for (int i = 0; i < PLANS; i++)
        configurations[i] = create(cudnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    assert_int_equal(cudnn->get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, PLANS, &count, configurations),
                     0);
    return count < PLANS ? count : PLANS;
}

static int64_t plan_bytes(const struct interface *cudnn, void *configuration)
{
    void *plan = create(cudnn, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    int64_t bytes = -1, count = 0;
    set(cudnn, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
        &configuration);
    assert_int_equal(cudnn->finalize(plan), 0);
    assert_int_equal(cudnn->get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                &count, &bytes),
                     0);
    return bytes;
}

static int64_t largest_bytes(const struct interface *cudnn, void *graph, int mode)
{
    void *configurations[PLANS];
    int64_t count = configurations_of(cudnn, graph, mode, configurations), largest = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t bytes = plan_bytes(cudnn, configurations[i]);
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

static void skip_without_cudnn(void)
{
    if (!plm__test_libraries[PLM_TEST_CUDNN]) {
        print_message("no cuDNN that can be told of a device: set PLM_TEST_CUDNN to a "
                      "libcudnn.so.9 of 9.10 or newer\n");
        skip();
    }
}

static void a_dcgan_takes_the_workspaces_that_an_h200_recorded(void **state)
{
    (void)state;
    static const struct {
        enum plm_cudnn_direction direction;
        int64_t c, k, side, bytes;
    } recorded[] = {
        {PLM_CUDNN_FORWARD, 64, 128, 32, 34078736},
        {PLM_CUDNN_FORWARD, 128, 256, 16, 27262992},
        {PLM_CUDNN_FORWARD, 256, 512, 8, 20971536},
        {PLM_CUDNN_DATA_GRADIENT, 256, 512, 8, 31457296},
        {PLM_CUDNN_DATA_GRADIENT, 128, 256, 16, 27263123},
        {PLM_CUDNN_DATA_GRADIENT, 64, 128, 32, 50856083},
        {PLM_CUDNN_FILTER_GRADIENT, 256, 512, 8, 20971536},
        {PLM_CUDNN_FILTER_GRADIENT, 128, 256, 16, 35652143},
        {PLM_CUDNN_FILTER_GRADIENT, 64, 128, 32, 55050863},
        {PLM_CUDNN_FILTER_GRADIENT, 3, 64, 64, 0},
    };
    skip_without_cudnn();
    struct interface cudnn = interface_of(PLM_TEST_STANDIN);
    for (size_t i = 0; i < sizeof recorded / sizeof recorded[0]; i++) {
        struct plm_cudnn_convolution c =
            plm__test_convolution(recorded[i].direction, FP32, false, 128, recorded[i].c,
                                  recorded[i].k, recorded[i].side, 4, 1, 2);
        void *configurations[PLANS];
        assert_true(configurations_of(&cudnn, graph_of(&cudnn, &c), 0, configurations) > 0);
        assert_int_equal(plan_bytes(&cudnn, configurations[0]), recorded[i].bytes);
    }
}

static void benchmark_takes_the_transforms_workspace_among_the_fallbacks(void **state)
{
    (void)state;
    skip_without_cudnn();
    struct interface cudnn = interface_of(PLM_TEST_STANDIN);
    struct plm_cudnn_convolution c =
        plm__test_convolution(PLM_CUDNN_FORWARD, FP32, false, 32, 64, 64, 96, 3, 1, 1);
    void *graph = graph_of(&cudnn, &c);
    assert_int_equal(largest_bytes(&cudnn, graph, CUDNN_HEUR_MODE_FALLBACK), 818036736);
    assert_true(largest_bytes(&cudnn, graph, 0) < 818036736);
}

/* Which engine stood first on an H200 (its own log), and the block that followed: the first three
 * are products of matrices, whose flags (400 bytes at most) are a fit; the others are not. */
static void pointwise_convolutions_take_what_an_h200_recorded(void **state)
{
    (void)state;
    enum { PRODUCTS = 3 };
    static const struct {
        enum plm_cudnn_direction direction;
        int type;
        bool channels_last;
        int64_t c, k, side, bytes;
    } recorded[] = {
        {PLM_CUDNN_FILTER_GRADIENT, FP32, false, 256, 64, 56, 2097152},
        {PLM_CUDNN_DATA_GRADIENT, FP32, false, 64, 64, 56, 400},
        {PLM_CUDNN_FORWARD, BF16, true, 256, 64, 56, 0},
        {PLM_CUDNN_FILTER_GRADIENT, FP32, false, 2048, 512, 7, 16056336},
        {PLM_CUDNN_FILTER_GRADIENT, FP16, false, 256, 1024, 14, 16056336},
        {PLM_CUDNN_DATA_GRADIENT, BF16, true, 256, 64, 56, 131},
    };
    skip_without_cudnn();
    struct interface cudnn = interface_of(PLM_TEST_STANDIN);
    for (size_t i = 0; i < sizeof recorded / sizeof recorded[0]; i++) {
        struct plm_cudnn_convolution c = plm__test_convolution(
            recorded[i].direction, recorded[i].type, recorded[i].channels_last, 32, recorded[i].c,
            recorded[i].k, recorded[i].side, 1, 0, 1);
        void *configurations[PLANS];
        assert_true(configurations_of(&cudnn, graph_of(&cudnn, &c), 0, configurations) > 0);
        int64_t off = plan_bytes(&cudnn, configurations[0]) - recorded[i].bytes;
        assert_in_range(llabs(off), 0, i < PRODUCTS ? 400 : 0);
    }
}

/* Engines that come first on an H200 and are not offered without a card: of groups (forward 5,
 * image 6, filter 16), Winograd's (17) and of transforms (18). */
static void engines_that_are_not_offered_take_what_an_h200_answered(void **state)
{
    (void)state;
    static const struct {
        enum plm_cudnn_direction direction;
        int type;
        bool channels_last, groups;
        int64_t n, c, k, side, bytes;
    } answered[] = {
        {PLM_CUDNN_FORWARD, FP16, true, true, 100, 40, 40, 128, 0},
        {PLM_CUDNN_DATA_GRADIENT, FP16, false, true, 20, 192, 192, 16, 0},
        {PLM_CUDNN_FILTER_GRADIENT, FP16, true, true, 20, 2304, 2304, 8, 13271040},
        {PLM_CUDNN_FILTER_GRADIENT, FP32, false, false, 8, 256, 128, 32, 33030144},
        {PLM_CUDNN_FILTER_GRADIENT, FP32, false, false, 512, 128, 32, 28, 764411904},
    };
    skip_without_cudnn();
    struct interface cudnn = interface_of(PLM_TEST_STANDIN);
    for (size_t i = 0; i < sizeof answered / sizeof answered[0]; i++) {
        struct plm_cudnn_convolution c = plm__test_convolution(
            answered[i].direction, answered[i].type, answered[i].channels_last, answered[i].n,
            answered[i].c, answered[i].k, answered[i].side, 3, 1, 1);
        if (answered[i].groups)
            c.filter =
                plm__test_tensor(answered[i].type, answered[i].channels_last, answered[i].k, 1, 3);
        void *configurations[PLANS];
        assert_true(configurations_of(&cudnn, graph_of(&cudnn, &c), 0, configurations) > 0);
        assert_int_equal(plan_bytes(&cudnn, configurations[0]), answered[i].bytes);
    }
}

static int64_t knob_of(const struct interface *cudnn, void *configuration, int wanted)
{
    void *choices[32];
    int64_t count = 0, got = 0, value = -1;
    for (int i = 0; i < 32; i++)
        choices[i] = create(cudnn, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    cudnn->get(configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, 32,
               &count, choices);
    for (int64_t i = 0; i < count; i++) {
        int type = -1;
        cudnn->get(choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &got,
                   &type);
        if (type == wanted)
            cudnn->get(choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &got,
                       &value);
    }
    return value;
}

/* Counts configurations of kernels that split, and of those whose told size the rules give. */
static void compare(const struct interface *cudnn, const struct plm_cudnn_convolution *c,
                    int *splitting, int *explained)
{
    void *configurations[PLANS];
    int64_t count = configurations_of(cudnn, graph_of(cudnn, c), 0, configurations);
    for (int64_t i = 0; i < count; i++) {
        struct plm_cudnn_knobs knobs = {
            knob_of(cudnn, configurations[i], CUDNN_KNOB_TYPE_TILE_SIZE),
            knob_of(cudnn, configurations[i], CUDNN_KNOB_TYPE_TILEK),
            knob_of(cudnn, configurations[i], CUDNN_KNOB_TYPE_WORKSPACE),
            knob_of(cudnn, configurations[i], CUDNN_KNOB_TYPE_TILE_CGA_M),
            knob_of(cudnn, configurations[i], CUDNN_KNOB_TYPE_TILE_CGA_N)};
        struct plm_cudnn_work work;
        int64_t told = -1, got = 0;
        if (!plm__cudnn_work_of(c, &knobs, &work))
            continue;
        cudnn->get(configurations[i], CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                   &got, &told);
        ++*splitting;
        *explained += told == plm__cudnn_turned_bytes(c) +
                                  plm__cudnn_split_bytes(&work, PLM_CUDNN_TOLD_MULTIPROCESSORS);
    }
}

/* The real library with the H200 described to it, and no stand-in. */
static struct interface real_with_device(void)
{
    struct plm_phantom_device device = {.name = "NVIDIA H200",
                                        .memory_bytes = 150109880320,
                                        .multiprocessors = 132,
                                        .capability = 90,
                                        .threads_per_multiprocessor = 2048,
                                        .blocks_per_multiprocessor = 32,
                                        .shared_bytes_per_block_optin = 232448,
                                        .registers_per_multiprocessor = 65536,
                                        .l2_bytes = 62914560,
                                        .clock_khz = 1980000,
                                        .memory_clock_khz = 3201000,
                                        .driver = 13000};
    struct interface cudnn = interface_of(PLM_TEST_CUDNN);
    char json[PLM_CUDNN_DEVICE_BYTES];
    plm__cudnn_device_json(&device, json);
    cudnn.device = create(&cudnn, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    set(&cudnn, cudnn.device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
        (int64_t)strlen(json), json);
    assert_int_equal(cudnn.finalize(cudnn.device), 0);
    return cudnn;
}

/* Measured: 872 of 878 with cuDNN 9.19. What is not explained is mended from the told size. */
static void the_rules_of_splitting_are_the_librarys(void **state)
{
    (void)state;
    static const int types[] = {FP32, FP16, BF16};
    static const int64_t channels[] = {64, 128, 256, 512}, sides[] = {7, 14, 28, 56};
    int splitting = 0, explained = 0;
    skip_without_cudnn();
    struct interface cudnn = real_with_device();
    for (int i = 0; i < 4 * 4 * 3 * 3; i++) {
        struct plm_cudnn_convolution c =
            plm__test_convolution((enum plm_cudnn_direction)(1 + i % 3), types[i / 3 % 3], i % 2,
                                  i % 5 ? 32 : 4, channels[i / 9 % 4], channels[(i / 9 + i) % 4],
                                  sides[i / 36], i % 4 ? 3 : 1, i % 4 ? 1 : 0, 1);
        compare(&cudnn, &c, &splitting, &explained);
    }
    print_message("%d of %d sizes told are as the rules have them\n", explained, splitting);
    assert_true(splitting > 200);
    assert_true(explained * 100 >= splitting * 99);
}

/* lstm_lm: two layers of 1024 over 512, 128 steps of 64 sequences, in 32 bits. */
static void an_lstm_takes_the_sizes_that_an_h200_recorded(void **state)
{
    (void)state;
    skip_without_cudnn();
    int (*handle)(void **) = plm__test_symbol(PLM_TEST_STANDIN, "cudnnCreate");
    int (*weights)(void *, void *, size_t *) =
        plm__test_symbol(PLM_TEST_STANDIN, "cudnnGetRNNWeightSpaceSize");
    int (*temporary)(void *, void *, int, void *, size_t *, size_t *) =
        plm__test_symbol(PLM_TEST_STANDIN, "cudnnGetRNNTempSpaceSizes");
    int (*dropout_create)(void **) =
        plm__test_symbol(PLM_TEST_CUDNN, "cudnnCreateDropoutDescriptor");
    int (*dropout_set)(void *, void *, float, void *, size_t, unsigned long long) =
        plm__test_symbol(PLM_TEST_STANDIN, "cudnnSetDropoutDescriptor");
    int (*rnn_create)(void **) = plm__test_symbol(PLM_TEST_CUDNN, "cudnnCreateRNNDescriptor");
    int (*rnn_set)(void *, int, int, int, int, int, int, int, int, int32_t, int32_t, int32_t,
                   int32_t, void *, uint32_t) =
        plm__test_symbol(PLM_TEST_CUDNN, "cudnnSetRNNDescriptor_v8");
    int (*data_create)(void **) = plm__test_symbol(PLM_TEST_CUDNN, "cudnnCreateRNNDataDescriptor");
    int (*data_set)(void *, int, int, int, int, int, const int *, void *) =
        plm__test_symbol(PLM_TEST_CUDNN, "cudnnSetRNNDataDescriptor");
    void *zeros, *dropout, *rnn, *data, *states = calloc(1, 6488064);
    size_t bytes = 0, work = 0, reserve = 0;
    int lengths[64];
    for (int i = 0; i < 64; i++)
        lengths[i] = 128;
    assert_int_equal(handle(&zeros), 0);
    assert_int_equal(dropout_create(&dropout), 0);
    assert_int_equal(dropout_set(dropout, zeros, 0.2f, states, 6488064, 1), 0);
    assert_int_equal(rnn_create(&rnn), 0);
    /* standard algorithm, LSTM, two biases, one direction, linear input, default arithmetic, packed
     */
    assert_int_equal(rnn_set(rnn, 0, 2, 2, 0, 0, FP32, FP32, 0, 512, 1024, 1024, 2, dropout, 1), 0);
    assert_int_equal(data_create(&data), 0);
    assert_int_equal(data_set(data, FP32, 1, 128, 64, 512, lengths, NULL), 0);
    assert_int_equal(weights(zeros, rnn, &bytes), 0);
    assert_int_equal(bytes, 58785792);
    assert_int_equal(temporary(zeros, rnn, 1, data, &work, &reserve), 0);
    assert_int_equal(work, 298844928);
    assert_int_equal(reserve, 370147584);
    free(states);
}

/* Finds a cuDNN that takes a device's description; none: no library stays loaded for the tests. */
static void find_cudnn(void)
{
    const char *path = getenv("PLM_TEST_CUDNN");
    void *library = dlopen(path ? path : "libcudnn.so.9", RTLD_LAZY), *device = NULL;
    int (*make)(int, void **) =
        library ? (int (*)(int, void **))(uintptr_t)dlsym(library, "cudnnBackendCreateDescriptor")
                : NULL;
    if (make && !make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device))
        plm__test_load(path ? path : "libcudnn.so.9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dcgan_takes_the_workspaces_that_an_h200_recorded),
        cmocka_unit_test(engines_that_are_not_offered_take_what_an_h200_answered),
        cmocka_unit_test(pointwise_convolutions_take_what_an_h200_recorded),
        cmocka_unit_test(benchmark_takes_the_transforms_workspace_among_the_fallbacks),
        cmocka_unit_test(the_rules_of_splitting_are_the_librarys),
        cmocka_unit_test(an_lstm_takes_the_sizes_that_an_h200_recorded),
    };
    find_cudnn();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    plm__test_unload();
    return failed;
}
