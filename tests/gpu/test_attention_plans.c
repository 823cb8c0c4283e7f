/* SPDX-License-Identifier: MIT */
/*
 * The workspaces of attention, against what cuDNN wants for the same shapes on every GPU that has a
 * profile. No GPU is needed: each is described to the real library, which says what it would run.
 * Without a cuDNN that can be told of a GPU the program says so and ends with status 77, which
 * skips the test. PLM_TEST_CUDNN names the library to ask.
 *
 *     build/test_attention_plans          some shapes on every GPU, in seconds
 *     build/test_attention_plans --all    each shape on each, in twenty minutes
 */
#include "gpu/attention_kit.h"

#include "device/device_files.h"
#include "phantom/cudnn_device.h"
#include "phantom/phantom.h"

enum { SKIPPED = 77, LEAST_VERSION = 91000, AMPERE = 80, HOPPER = 90, DRIVER = 13000 };
enum { OWN_SUMS_BYTES = 128 }; /* that cuDNN takes beside sums of its own */

static const int64_t lengths[] = {1,   2,   7,    8,    9,    63,   64,   65,    127,
                                  128, 129, 1000, 1023, 1024, 1025, 4096, 32767, 32768};
static const int64_t sizes[] = {8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128};
static const int64_t counts[][2] = {{1, 1}, {3, 5}, {1, 12}, {8, 12}, {32, 25}, {64, 32}};
static const plm_dtype types[] = {PLM_DTYPE_BF16, PLM_DTYPE_F16};

#define LENGTH(array) ((int64_t)(sizeof(array) / sizeof *(array)))
enum { WAYS = 4 }; /* causal or not, forward and backward */

/* Of the shapes every so many are asked for, on each GPU others. A prime that divides no count
 * above comes by every length, size and way. */
static int64_t stride = 251;

static int64_t shape_count(void)
{
    return LENGTH(lengths) * LENGTH(sizes) * LENGTH(counts) * LENGTH(types) * WAYS;
}

/* Every combination has a number; the ways change first. */
static plm_attention_graph numbered_shape(int64_t i)
{
    plm_attention_graph shape = {.causal = i & 1, .is_backward = i >> 1 & 1};
    i /= WAYS;
    shape.length = lengths[i % LENGTH(lengths)];
    i /= LENGTH(lengths);
    shape.size = sizes[i % LENGTH(sizes)];
    i /= LENGTH(sizes);
    shape.dtype = types[i % LENGTH(types)];
    i /= LENGTH(types);
    shape.batch = counts[i][0];
    shape.heads = counts[i][1];
    return shape;
}

/* ---- without cuDNN ---- */

static const plm_attention_graph usual = {.batch = 2,
                                          .length = 129,
                                          .heads = 4,
                                          .size = 64,
                                          .dtype = PLM_DTYPE_BF16,
                                          .is_backward = true};

static bool is_planned(plm_attention_graph shape, int64_t key_heads, bool deterministic,
                       size_t version)
{
    plm_launch launch = attention_launch(&shape, key_heads);
    return plm__attention_is_planned(&launch, deterministic, version);
}

static void what_cudnn_runs_depends_on_shape_type_and_version(void **state)
{
    (void)state;
    plm_attention_graph aligned = usual, forward = usual, full = usual;
    plm_attention_graph large = usual, odd = usual, none = usual;
    aligned.length = 128;
    forward.is_backward = false;
    full.dtype = PLM_DTYPE_F32;
    large.size = 136;
    odd.size = 60;
    none.length = 0;
    assert_true(is_planned(usual, 4, false, 91501));
    assert_false(is_planned(usual, 4, false, 91500)); /* its backward reads past 129 positions */
    assert_true(is_planned(aligned, 4, false, 91500));
    assert_true(is_planned(forward, 4, false, 91500));
    assert_false(is_planned(usual, 4, true, 91501));
    assert_true(is_planned(forward, 4, true, 91501));
    assert_false(is_planned(usual, 2, false, 91501));
    assert_false(is_planned(full, 4, false, 91501));
    assert_false(is_planned(large, 4, false, 91501));
    large.size = 128;
    assert_true(is_planned(large, 4, false, 91501));
    assert_false(is_planned(odd, 4, false, 91501));
    assert_false(is_planned(none, 4, false, 91501));
}

/* They have the row sums at the start of the workspace and nothing else. */
static void kernels_of_our_own_have_room_for_their_row_sums(void **state)
{
    (void)state;
    static const int64_t key_heads[] = {1, 2, 6, 12};
    for (int64_t i = 0; i < LENGTH(lengths); i++)
        for (int64_t k = 0; k < LENGTH(key_heads); k++) {
            plm_attention_graph shape = {8, lengths[i], 12, 64, PLM_DTYPE_F32, true, true};
            plm_launch launch = attention_launch(&shape, key_heads[k]);
            assert_true(formula_of(&launch) >= row_sums_of(&shape));
        }
}

static void a_longer_sequence_never_has_less_workspace(void **state)
{
    (void)state;
    size_t before = 0;
    plm_attention_graph shape = usual;
    for (shape.length = 1; shape.length <= 300; shape.length++) {
        plm_launch launch = attention_launch(&shape, 4);
        size_t bytes = formula_of(&launch);
        assert_true(bytes > before);
        before = bytes;
    }
}

/* ---- what cuDNN says ---- */

/* A GPU that is described to cuDNN. */
typedef struct card {
    const char *name;
    int64_t capability;
    cudnnBackendDescriptor_t described;
} card;

static bool describe(card *to, const plm_device_profile *profile)
{
    const plm_gpu *gpu = &profile->gpu;
    char json[PLM_CUDNN_DEVICE_BYTES];
    struct plm_phantom_device device = {
        .memory_bytes = profile->memory_bytes,
        .multiprocessors = (int)gpu->multiprocessors,
        .capability = (int)gpu->capability,
        .threads_per_multiprocessor = (int)gpu->threads_per_multiprocessor,
        .blocks_per_multiprocessor = (int)gpu->blocks_per_multiprocessor,
        .shared_bytes_per_multiprocessor = (size_t)gpu->shared_bytes_per_multiprocessor,
        .shared_bytes_per_block_optin = (size_t)gpu->shared_bytes_per_block_optin,
        .registers_per_multiprocessor = (int)gpu->registers_per_multiprocessor,
        .l2_bytes = (size_t)gpu->l2_bytes,
        .clock_khz = (int)gpu->clock_khz,
        .memory_clock_khz = (int)gpu->memory_clock_khz,
        .driver = DRIVER};
    snprintf(device.name, sizeof device.name, "%s", gpu->name);
    plm__cudnn_device_json(&device, json);
    to->capability = gpu->capability;
    return dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &to->described) ==
               CUDNN_STATUS_SUCCESS &&
           dnn.cudnnBackendSetAttribute(to->described, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                        CUDNN_TYPE_CHAR, (int64_t)strlen(json),
                                        json) == CUDNN_STATUS_SUCCESS &&
           dnn.cudnnBackendFinalize(to->described) == CUDNN_STATUS_SUCCESS;
}

/* The workspace of cuDNN's best offer, -1 without one. */
static int64_t best_offer(const card *on, const plm_attention_graph *shape, plm_attention_sums sums)
{
    plm_attention_offers offers;
    int64_t bytes = -1, count = 0;
    assert_ok(plm__attention_ask(&dnn, shape, sums,
                                 (plm_attention_card){.described = on->described}, &offers));
    if (offers.count > 0 &&
        dnn.cudnnBackendGetAttribute(offers.configs[0], CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &count, &bytes) != CUDNN_STATUS_SUCCESS)
        bytes = -1;
    plm__attention_forget_offers(&dnn, &offers);
    return bytes;
}

/* What the formula has for cuDNN alone and what it wants, where the two differ by a rule. */
static int64_t expected_bytes(const card *on, const plm_attention_graph *s)
{
    size_t sums;
    if (on->capability >= HOPPER)
        return s->length == 1 && !s->is_backward ? 0 : PLM_CUDA_GRAPH_BYTES;
    if (!s->is_backward)
        return 0;
    assert_ok(plm__cuda_attention_sums(s->batch * s->heads, s->length, s->size, &sums));
    return (int64_t)sums + OWN_SUMS_BYTES;
}

static void ask_for(const card *on, const plm_attention_graph *shape)
{
    plm_launch launch = attention_launch(shape, shape->heads);
    plm_attention_sums sums = shape->is_backward && on->capability < HOPPER
                                  ? PLM_ATTENTION_SUMS_INSIDE
                                  : PLM_ATTENTION_SUMS_GIVEN;
    size_t room, formula = formula_of(&launch);
    if (!plm__attention_is_planned(&launch, false, dnn.version))
        return;
    int64_t bytes = best_offer(on, shape, sums);
    if (bytes < 0)
        fail_at_shape(on->name, shape, "no offer");
    assert_ok(plm__attention_room(shape, sums, &room));
    if ((size_t)bytes > room || needed_bytes(shape, sums, (size_t)bytes) > formula)
        fail_at_shape(on->name, shape, "the formula is smaller than what cuDNN wants");
    if (bytes != expected_bytes(on, shape)) {
        print_error("wanted %lld bytes, cuDNN's are %lld\n", (long long)expected_bytes(on, shape),
                    (long long)bytes);
        fail_at_shape(on->name, shape, "another workspace than the rule says");
    }
    if (sums == PLM_ATTENTION_SUMS_INSIDE &&
        best_offer(on, shape, PLM_ATTENTION_SUMS_GIVEN) <= PLM_CUDA_GRAPH_BYTES)
        fail_at_shape(on->name, shape, "sums that are given would do");
}

static void the_formulas_hold_what_cudnn_wants_on_every_gpu(void **state)
{
    (void)state;
    const char *name;
    for (int index = 0; (name = plm__device_profile_name(index)) != NULL; index++) {
        plm_device_profile profile;
        card on = {.name = name};
        assert_ok(plm_device_profile_find(name, &profile));
        if (profile.kind != PLM_DEVICE_CUDA || profile.gpu.capability < AMPERE)
            continue;
        assert_true(describe(&on, &profile));
        for (int64_t i = index; i < shape_count(); i += stride) {
            plm_attention_graph shape = numbered_shape(i);
            ask_for(&on, &shape);
        }
        dnn.cudnnBackendDestroyDescriptor(on.described);
    }
}

/* cuDNN looks for a driver; the toolkit's, which has the names alone, will do. */
static const char *find_library(void)
{
    plm_device_profile profile;
    card first = {0};
    if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) &&
        !dlopen(PLM_CUDA_ROOT "/lib64/stubs/libcuda.so", RTLD_NOW | RTLD_GLOBAL))
        return "found neither a driver nor the toolkit's stub of one";
    open_cudnn();
    if (!dnn.library)
        return "found no libcudnn.so.9; PLM_TEST_CUDNN names one";
    if (dnn.version < LEAST_VERSION)
        return "found a cuDNN before 9.10";
    assert_ok(plm_device_profile_find("h200", &profile));
    return describe(&first, &profile) ? NULL : "found a cuDNN that cannot be told of a GPU";
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--all") == 0)
        stride = 1;
    const struct CMUnitTest pure[] = {
        cmocka_unit_test(what_cudnn_runs_depends_on_shape_type_and_version),
        cmocka_unit_test(kernels_of_our_own_have_room_for_their_row_sums),
        cmocka_unit_test(a_longer_sequence_never_has_less_workspace),
    };
    const struct CMUnitTest asked[] = {
        cmocka_unit_test(the_formulas_hold_what_cudnn_wants_on_every_gpu),
    };
    int failed = cmocka_run_group_tests(pure, NULL, NULL);
    const char *missing = find_library();
    if (missing && !failed) {
        printf("skipped: wanted cuDNN 9.10 or newer to ask for workspaces, %s\n", missing);
        return SKIPPED;
    }
    return failed + cmocka_run_group_tests(asked, NULL, NULL);
}
