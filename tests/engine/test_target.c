/* SPDX-License-Identifier: MIT */
/* Devices that are not here: the profiles that travel along, and plans made for them. */
#include <dirent.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "graph/op_cost.h"
#include "plan/plan.h"
#include "device/device.h"
#include "plimsoll/device_profile.h"
#include "plimsoll/model.h"
#include "plimsoll/session.h"
#include "plan/search.h"
#include "unit/test.h"
#include "device/device_files.h"

#define DEVICES PLM_SOURCE_DIR "/data/devices"

static plm_device_profile profile_of(const char *name)
{
    plm_device_profile profile;
    assert_ok(plm_device_profile_find(name, &profile));
    return profile;
}

static plm_device *device_of(const char *name)
{
    plm_device_profile profile = profile_of(name);
    plm_device *device = NULL;
    assert_int_equal(profile.kind, PLM_DEVICE_CUDA); /* others borrow the profile */
    assert_ok(plm_device_create_target(&profile, &device));
    return device;
}

/* ---- profiles ------------------------------------------------------------------------------ */

static json_t *file_of(const char *name)
{
    char path[400];
    plm_file file;
    json_t *root = NULL;
    snprintf(path, sizeof path, DEVICES "/%s.json", name);
    assert_ok(plm__file_map(path, &file));
    assert_ok(plm__json_read(path, file.bytes, file.byte_count, &root));
    plm__file_unmap(&file);
    return root;
}

static void every_shipped_profile_is_its_file_with_a_source_for_every_figure(void **state)
{
    (void)state;
    for (int i = 0; plm__device_profile_name(i); i++) {
        const char *name = plm__device_profile_name(i), *key;
        plm_device_profile profile = profile_of(name);
        json_t *root = file_of(name), *value;
        assert_string_equal(profile.name, name);
        json_object_foreach (root, key, value) {
            if (strcmp(key, "name") == 0 || strcmp(key, "kind") == 0 || strcmp(key, "sources") == 0)
                continue;
            const char *source =
                json_string_value(json_object_get(json_object_get(root, "sources"), key));
            if (!source || strlen(source) < 10)
                fail_msg("%s: %s has no source", name, key);
        }
        json_decref(root);
    }
}

/* Whether the operation runs on this kind of device and takes time worth a figure. */
static bool wants_efficiency(const plm_device_profile *profile, plm_op_kind kind)
{
    bool calibrated = kind != PLM_OP_SELECT && kind != PLM_OP_CAST && kind != PLM_OP_INIT_NORMAL &&
                      kind != PLM_OP_INIT_CONSTANT;
    return profile->kind == PLM_DEVICE_CUDA || calibrated;
}

static void every_shipped_profile_has_all_rates(void **state)
{
    (void)state;
    for (int i = 0; plm__device_profile_name(i); i++) {
        plm_device_profile profile = profile_of(plm__device_profile_name(i));
        bool is_gpu = profile.kind == PLM_DEVICE_CUDA;
        assert_true(profile.product_flops[PLM_DTYPE_F32] > 0 && profile.bandwidth > 0);
        assert_true(profile.launch_seconds > 0);
        assert_true(!is_gpu || profile.product_flops[PLM_DTYPE_F16] > 0);
        assert_true(!is_gpu || profile.memory_bytes > (size_t)14 << 30);
        assert_true(!is_gpu || profile.overhead_bytes > (size_t)400 << 20);
        for (int kind = 0; kind < PLM_OP_COUNT; kind++) {
            char text[PLM_OP_KEY_TEXT];
            if (wants_efficiency(&profile, (plm_op_kind)kind) && profile.efficiency[kind] == 0)
                fail_msg("%s: no efficiency of %s", profile.name,
                         plm__op_key((plm_op_kind)kind, text));
        }
    }
}

static void every_file_of_the_folder_travels(void **state)
{
    (void)state;
    DIR *folder = opendir(DEVICES);
    int files = 0, names = 0;
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        files += strstr(entry->d_name, ".json") != NULL;
    closedir(folder);
    while (plm__device_profile_name(names))
        names++;
    assert_int_equal(files, names);
    assert_null(plm__device_profile_name(-1));
}

static void an_unknown_target_is_refused_with_those_that_are_known(void **state)
{
    (void)state;
    plm_device_profile profile = profile_of("t4"), before = profile;
    plm_error error;
    assert_int_equal(plm_device_profile_find("h2000", &profile), PLM_ERROR_ARGUMENT);
    plm_error_get(&error);
    for (int i = 0; plm__device_profile_name(i); i++)
        assert_non_null(strstr(error.message, plm__device_profile_name(i)));
    assert_int_equal(plm_device_profile_find("./h200", &profile), PLM_ERROR_IO);
    assert_int_equal(plm_device_profile_find("mine.json", &profile), PLM_ERROR_IO);
    assert_memory_equal(&profile, &before, sizeof profile);
}

static void a_profile_of_ones_own_is_found_by_its_path(void **state)
{
    (void)state;
    plm_device_profile shipped = profile_of("l40s"), own;
    assert_ok(plm_device_profile_find(DEVICES "/l40s.json", &own));
    assert_memory_equal(&own, &shipped, sizeof own);
}

static void auto_precision_is_what_the_silicon_has(void **state)
{
    (void)state;
    plm_device *device = device_of("h200");
    assert_int_equal(plm_device_precision(device), PLM_DTYPE_BF16);
    plm_device_destroy(device);
    device = device_of("t4");
    assert_int_equal(plm_device_precision(device), PLM_DTYPE_F16);
    assert_false(plm__device_has(device, PLM_PRECISION_AUTO)); /* no type, and beyond tables */
    plm_device_destroy(device);
    assert_ok(plm_device_open("cpu", 1, 0, &device));
    assert_int_equal(plm_device_precision(device),
                     plm__device_has(device, PLM_DTYPE_BF16) ? PLM_DTYPE_BF16 : PLM_DTYPE_F32);
    assert_false(plm__device_has(device, PLM_PRECISION_AUTO)); /* no type, and beyond tables */
    plm_device_destroy(device);
}

/* ---- what it refuses ----------------------------------------------------------------------- */

static void a_target_hands_out_nothing_and_runs_nothing(void **state)
{
    (void)state;
    plm_device *device = device_of("h200");
    void *made = NULL;
    plm_error error;
    assert_int_equal(device->table->reserve(device, 64, &made), PLM_ERROR_UNSUPPORTED);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "h200, which is planned for and not here"));
    assert_null(made);
    assert_int_equal(device->usage.peak_bytes, 0);
    plm_device_destroy(device);
}

static plm_status create_target(void *context)
{
    plm_device *device = NULL;
    plm_status status = plm_device_create_target(context, &device);
    plm_device_destroy(device);
    return status;
}

static void every_allocation_of_a_target_may_fail(void **state)
{
    (void)state;
    plm_device_profile profile = profile_of("l4");
    sweep_failures(create_target, &profile);
}

/* ---- workspaces by hand -------------------------------------------------------------------- */

enum { B = 3, T = 128, C = 64, HEADS = 4 };

static plm_operand operand(plm_dtype dtype, int32_t rank, int64_t d0, int64_t d1, int64_t d2)
{
    plm_operand made = {.dtype = dtype, .rank = rank, .shape = {d0, d1, d2}};
    for (int32_t i = rank - 1, step = 1; i >= 0; step *= (int32_t)made.shape[i--])
        made.stride[i] = step;
    return made;
}

static size_t workspace_of(plm_device *device, const plm_launch *launch)
{
    size_t bytes = SIZE_MAX;
    assert_ok(device->table->workspace(device, launch, &bytes));
    return bytes;
}

static void workspaces_are_those_of_the_formulas(void **state)
{
    (void)state;
    plm_device *device = device_of("h200");
    const plm_dtype half = PLM_DTYPE_BF16;
    const plm_operand x = operand(half, 3, B, T, C), qkv = operand(half, 3, B, T, 3 * C);
    const plm_operand ids = operand(PLM_DTYPE_I32, 2, B, T, 1);
    const plm_operand flat = operand(PLM_DTYPE_F32, 1, 10000, 1, 1);
    plm_launch attention = {.kind = PLM_OP_ATTENTION_GRAD,
                            .attr = {.heads = HEADS, .key_heads = HEADS},
                            .in = {x, qkv, x}};
    assert_int_equal(workspace_of(device, &attention), B * T * C * 4 + B * HEADS * T * 4 + 256);
    plm_launch grouped = attention; /* one head of keys and values, heads of 8 */
    grouped.attr.key_heads = 1;
    grouped.in[1] = operand(half, 3, B, T, (HEADS + 2) * 8);
    assert_int_equal(workspace_of(device, &grouped), B * T * HEADS * (8 + 1) * 4 + 256);
    plm_launch product = {.kind = PLM_OP_LINEAR, .in = {x, operand(half, 2, C, C, 1)}, .out = {x}};
    assert_int_equal(workspace_of(device, &product), 32 << 20);
    plm_launch norm = {.kind = PLM_OP_LAYER_NORM_GRAD_WEIGHT, .in = {x, x}};
    assert_int_equal(workspace_of(device, &norm), B * T / 32 * 2 * C * 4);
    plm_launch bias = {.kind = PLM_OP_LINEAR_GRAD_BIAS, .in = {operand(half, 3, 1000, T, C)}};
    assert_int_equal(workspace_of(device, &bias), 512 * C * 4); /* no more than 512 parts */
    plm_launch sort = {.kind = PLM_OP_EMBEDDING_GRAD, .in = {ids, x}};
    assert_int_equal(workspace_of(device, &sort), B * T * 16 + 2 * 256 * 4);
    plm_launch squares = {.kind = PLM_OP_GRADIENT_NORM, .in = {flat, flat}};
    assert_int_equal(workspace_of(device, &squares), 2 * 3 * 8);
    plm_launch gelu = {.kind = PLM_OP_GELU, .in = {x}, .out = {x}};
    assert_int_equal(workspace_of(device, &gelu), 0);
    plm_device_destroy(device);
}

static void empty_operands_want_no_sums(void **state)
{
    (void)state;
    plm_device *device = device_of("h200");
    const plm_operand none = operand(PLM_DTYPE_BF16, 2, 0, 0, 1);
    plm_launch norm = {.kind = PLM_OP_LAYER_NORM_GRAD_WEIGHT, .in = {none, none}};
    assert_int_equal(workspace_of(device, &norm), 0);
    plm_launch squares = {.kind = PLM_OP_GRADIENT_NORM, .in = {operand(PLM_DTYPE_F32, 1, 0, 1, 1)}};
    assert_int_equal(workspace_of(device, &squares), 0);
    plm_device_destroy(device);
}

/* ---- plans --------------------------------------------------------------------------------- */

/* A plan's job; its network points at *model. */
static plm_job job_of(const char *name, int64_t batch, int64_t sequence, plm_model *model)
{
    assert_ok(plm_model_parse(name, model));
    if (sequence > model->context)
        model->context = sequence;
    return (plm_job){.network = plm_model_network(model),
                     .batch = batch,
                     .sequence = sequence,
                     .trains = true,
                     .evaluates = true,
                     .generates = !plm_model_is_masked(model)};
}

static plm_strategy open_strategy(plm_dtype precision)
{
    plm_strategy strategy = plm_strategy_default();
    strategy.precision = precision;
    strategy.head_chunks = strategy.mlp_chunks = 0;
    strategy.recompute = PLM_RECOMPUTE_AUTO;
    return strategy;
}

static void every_model_is_planned_for_every_gpu(void **state)
{
    (void)state;
    static const char *const models[] = {
        "gpt:layers=2,width=64,heads=4,context=64,vocab=128,dropout=0.1",
        "bert:layers=2,width=64,heads=4,context=64,vocab=128"};
    for (int i = 0; plm__device_profile_name(i); i++) {
        plm_device_profile profile = profile_of(plm__device_profile_name(i));
        plm_device *device = NULL;
        assert_ok(plm_device_create_target(&profile, &device));
        for (int m = 0; m < 4; m++) {
            plm_model model;
            plm_plan *plan = NULL;
            plm_job job = job_of(models[m / 2], 4, 64, &model);
            plm_strategy strategy = plm_strategy_default();
            strategy.micro_batch = 2;
            strategy.attention = m % 2 ? PLM_ATTENTION_PLAIN : PLM_ATTENTION_FUSED;
            strategy.precision = plm_device_precision(device);
            assert_ok(plm_plan_create(&job, &strategy, device, &plan));
            plm_plan_summary summary = plm_plan_summarize(plan);
            assert_int_equal(summary.overhead_bytes, device->table->overhead_bytes(device));
            assert_true(summary.step_seconds > 0);
            plm_session *session = NULL; /* a GPU's plan is told, not run */
            bool runs = plm_session_create(plan, device, 1, &session) == PLM_OK;
            assert_true(runs == (profile.kind == PLM_DEVICE_CPU));
            plm_session_destroy(session);
            plm_plan_destroy(plan);
        }
        plm_device_destroy(device);
    }
}

static void a_type_that_a_gpu_lacks_is_refused_by_name(void **state)
{
    (void)state;
    plm_model model;
    plm_plan *plan = NULL;
    plm_error error;
    plm_device *device = device_of("t4");
    plm_job job = job_of("gpt:layers=1,width=32,heads=2,context=16,vocab=64", 2, 16, &model);
    plm_strategy strategy = plm_strategy_default();
    strategy.micro_batch = 2;
    strategy.precision = PLM_DTYPE_BF16;
    assert_int_equal(plm_plan_create(&job, &strategy, device, &plan), PLM_ERROR_UNSUPPORTED);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "t4 does not run bf16; it runs fp16"));
    plm_device_destroy(device);
}

static size_t smallest_of(const char *target, const plm_job *job, const plm_strategy *strategy,
                          size_t budget, plm_plan_summary *chosen)
{
    plm_device *device = device_of(target);
    plm_plan *plan = NULL;
    size_t smallest = 0;
    plm_status status = plm_plan_for_budget(job, strategy, device, budget, &smallest, &plan);
    assert_true(status == PLM_OK || status == PLM_ERROR_BUDGET);
    if (status == PLM_OK && chosen)
        *chosen = plm_plan_summarize(plan);
    plm_plan_destroy(plan);
    plm_device_destroy(device);
    return smallest;
}

/* GPT-2 medium, 2048 tokens, 12 GiB of an H200, context included. */
static void twelve_gibibytes_hold_24_sequences_of_gpt2_medium(void **state)
{
    (void)state;
    const size_t budget = (size_t)12 << 30;
    plm_model model;
    plm_plan_summary chosen = {0};
    plm_job job = job_of("gpt2-medium", 24, 2048, &model);
    plm_strategy strategy = open_strategy(PLM_DTYPE_BF16);
    strategy.micro_batch = 24;
    assert_true(smallest_of("h200", &job, &strategy, budget, &chosen) <= budget);
    assert_true(chosen.peak_bytes <= budget && chosen.strategy.micro_batch == 24);
    job.batch = strategy.micro_batch = 4; /* plain and nothing made again: not even 4 */
    strategy.attention = PLM_ATTENTION_PLAIN;
    strategy.recompute = PLM_RECOMPUTE_NONE;
    strategy.head_chunks = strategy.mlp_chunks = 1;
    assert_true(smallest_of("h200", &job, &strategy, budget, NULL) > budget);
}

/* 18 bytes for each of 1,557,611,200 parameters are 26.1 GiB. */
static void gpt2_xl_does_not_fit_a_4090_with_gradients_in_fp32(void **state)
{
    (void)state;
    const plm_device_profile profile = profile_of("rtx4090");
    plm_model model;
    plm_job job = job_of("gpt2-xl", 1, 1024, &model);
    plm_strategy strategy = open_strategy(PLM_DTYPE_BF16);
    size_t late = smallest_of("rtx4090", &job, &strategy, SIZE_MAX, NULL);
    assert_true(late > (size_t)1557611200 * 18 && late > profile.memory_bytes);
    strategy.update = PLM_UPDATE_EARLY;
    size_t early = smallest_of("rtx4090", &job, &strategy, SIZE_MAX, NULL);
    assert_true(early < profile.memory_bytes);
}

static void a_gpu_is_known_by_the_name_that_its_driver_says(void **state)
{
    (void)state;
    plm_device gpu = {.name = "NVIDIA H200"}, other = {.name = "NVIDIA H200 NVL"}, cpu = {0};
    plm_device_profile profile = {.name = "as it was"};
    assert_false(plm_device_profile_known(&cpu, &profile));
    assert_false(plm_device_profile_known(&other, &profile));
    assert_string_equal(profile.name, "as it was");
    assert_true(plm_device_profile_known(&gpu, &profile));
    assert_string_equal(profile.name, "h200");
    assert_int_equal(profile.gpu.multiprocessors, 132);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gpu_is_known_by_the_name_that_its_driver_says),
        cmocka_unit_test(every_shipped_profile_is_its_file_with_a_source_for_every_figure),
        cmocka_unit_test(every_shipped_profile_has_all_rates),
        cmocka_unit_test(every_file_of_the_folder_travels),
        cmocka_unit_test(an_unknown_target_is_refused_with_those_that_are_known),
        cmocka_unit_test(a_profile_of_ones_own_is_found_by_its_path),
        cmocka_unit_test(auto_precision_is_what_the_silicon_has),
        cmocka_unit_test(a_target_hands_out_nothing_and_runs_nothing),
        cmocka_unit_test(every_allocation_of_a_target_may_fail),
        cmocka_unit_test(workspaces_are_those_of_the_formulas),
        cmocka_unit_test(empty_operands_want_no_sums),
        cmocka_unit_test(every_model_is_planned_for_every_gpu),
        cmocka_unit_test(a_type_that_a_gpu_lacks_is_refused_by_name),
        cmocka_unit_test(twelve_gibibytes_hold_24_sequences_of_gpt2_medium),
        cmocka_unit_test(gpt2_xl_does_not_fit_a_4090_with_gradients_in_fp32),
    };
    return run_test_group(tests);
}
