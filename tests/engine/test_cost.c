/* SPDX-License-Identifier: MIT */
/* The work and cost of operations by hand, and device profiles as files. */
#include "graph/op_cost.h"
#include "plan/step_cost.h"
#include "plan/plan.h"
#include "engine/fake_plan.h"
#include "unit/scratch.h"
#include "device/device_files.h"

enum { B = 2, T = 16, C = 32, V = 40, LAYERS = 2 };

#define MODEL "gpt:layers=2,width=32,heads=2,context=16,vocab=40,dropout=0.1"

/* The work of every operation of a kind in FIRST, added up. */
static plm_work work_of(const plm_plan *plan, plm_op_kind kind)
{
    plm_work sum = {0};
    const plm_op_range range = plan->graph->programs[PLM_PROGRAM_FIRST];
    for (int64_t i = range.begin; i < range.end; i++) {
        if (plan->graph->ops.items[i].kind != kind)
            continue;
        plm_work one = plm__op_work(plan->graph, &plan->graph->ops.items[i]);
        sum.flops += one.flops;
        sum.bytes += one.bytes;
        sum.is_products = one.is_products;
    }
    return sum;
}

static void work_by_hand(void **state)
{
    (void)state;
    fake_device device = fake_device_make(0, 0);
    plm_plan *plan = plan_of(MODEL, B, B, PLM_ATTENTION_FUSED, &device);
    const double rows = B * T, product = 2 * rows * (LAYERS * 12 * C * C + C * V);
    assert_true(work_of(plan, PLM_OP_LINEAR).flops == product);
    assert_true(work_of(plan, PLM_OP_LINEAR_GRAD_INPUT).flops == product);
    assert_true(work_of(plan, PLM_OP_LINEAR_GRAD_WEIGHT).flops == product);
    assert_true(work_of(plan, PLM_OP_LINEAR).is_products);
    /* two products of T x T, half of them under the causal mask; five in the backward */
    assert_true(work_of(plan, PLM_OP_ATTENTION).flops == LAYERS * 4.0 * B * T * T * C / 2);
    assert_true(work_of(plan, PLM_OP_ATTENTION_GRAD).flops == LAYERS * 10.0 * B * T * T * C / 2);
    /* two read, one written, two additions a block */
    assert_true(work_of(plan, PLM_OP_GELU).bytes == LAYERS * 2.0 * rows * 4 * C * 4);
    assert_false(work_of(plan, PLM_OP_GELU).is_products);
    /* rows of the table, not the table; ids; the result */
    assert_true(work_of(plan, PLM_OP_EMBEDDING).bytes == rows * (C * 4 + 4 + C * 4));
    plm_plan_destroy(plan);
}

static void plain_attention_does_the_same_products_in_steps(void **state)
{
    (void)state;
    fake_device device = fake_device_make(0, 0);
    plm_plan *plan = plan_of(MODEL, B, B, PLM_ATTENTION_PLAIN, &device);
    double square = LAYERS * 1.0 * B * T * T * C; /* a product of T x T under the mask */
    assert_true(work_of(plan, PLM_OP_ATTENTION_SCORES).flops == square);
    assert_true(work_of(plan, PLM_OP_ATTENTION_APPLY).flops == square);
    assert_true(work_of(plan, PLM_OP_ATTENTION_GRAD_PROBS).flops == square);
    assert_true(work_of(plan, PLM_OP_ATTENTION_GRAD_QKV).flops == 3 * square);
    plm_plan_destroy(plan);
}

static plm_device_profile some_profile(void)
{
    plm_device_profile profile = {.name = "some",
                                  .source = "a test",
                                  .threads = 3,
                                  .memory_bytes = 1 << 30,
                                  .overhead_bytes = 4096,
                                  .bandwidth = 1e10,
                                  .launch_seconds = 1e-6};
    profile.product_flops[PLM_DTYPE_F32] = 1e11;
    profile.product_flops[PLM_DTYPE_BF16] = 4e11;
    profile.efficiency[PLM_OP_LINEAR] = 0.5;
    profile.efficiency[PLM_OP_ATTENTION_GRAD_QKV] = 0.25;
    profile.efficiency_of[PLM_DTYPE_BF16][PLM_OP_LINEAR] = 0.125;
    return profile;
}

static void the_cost_is_the_slower_of_computing_and_moving(void **state)
{
    (void)state;
    fake_device device = fake_device_make(0, 0);
    plm_plan *plan = plan_of(MODEL, B, B, PLM_ATTENTION_FUSED, &device);
    plm_device_profile profile = some_profile();
    const plm_op_range range = plan->graph->programs[PLM_PROGRAM_FIRST];
    for (int64_t i = range.begin; i < range.end; i++) {
        const plm_op *op = &plan->graph->ops.items[i];
        plm_work work = plm__op_work(plan->graph, op);
        double computing = work.flops / 1e11, moving = work.bytes / 1e10;
        double longer = computing > moving ? computing : moving;
        if (op->kind == PLM_OP_LINEAR)
            longer *= 2;
        assert_int_equal(plm__op_cost(&profile, plan->graph, op), (int64_t)((longer + 1e-6) * 1e9));
    }
    plm_plan_destroy(plan);
}

/* Sixteen operations for a byte, a launch as 16 KiB or so. */
static void without_a_profile_costs_are_in_proportion(void **state)
{
    (void)state;
    fake_device device = fake_device_make(0, 0);
    plm_plan *plan = plan_of(MODEL, B, B, PLM_ATTENTION_FUSED, &device);
    const plm_op_range range = plan->graph->programs[PLM_PROGRAM_FIRST];
    for (int64_t i = range.begin; i < range.end; i++) {
        const plm_op *op = &plan->graph->ops.items[i];
        plm_work work = plm__op_work(plan->graph, op);
        double longer = work.flops / 16 > work.bytes ? work.flops / 16 : work.bytes;
        int64_t cost = plm__op_cost(NULL, plan->graph, op);
        assert_in_range(cost, (int64_t)longer + 16000 - 1, (int64_t)longer + 16000 + 1);
    }
    plm_plan_destroy(plan);
}

static plm_plan *plan_in(plm_dtype precision, fake_device *device)
{
    plm_model model;
    plm_plan *plan = NULL;
    plm_strategy strategy = strategy_of(B, PLM_ATTENTION_FUSED);
    strategy.precision = precision;
    assert_ok(plm_model_parse(MODEL, &model));
    plm_job job = job_of(&model, B, model.context);
    assert_ok(plm_plan_create(&job, &strategy, &device->head, &plan));
    return plan;
}

static void an_efficiency_of_its_type_goes_before_that_of_all(void **state)
{
    (void)state;
    fake_device device = fake_device_make(0, 0);
    plm_plan *plan[2];
    int64_t cost[2] = {0, 0};
    double longest[2];
    plm_device_profile profile = some_profile();
    for (int half = 0; half < 2; half++) {
        plan[half] = plan_in(half ? PLM_DTYPE_BF16 : PLM_DTYPE_F32, &device);
        const plm_op_range range = plan[half]->graph->programs[PLM_PROGRAM_FIRST];
        for (int64_t i = range.begin; i < range.end && cost[half] == 0; i++) {
            const plm_op *op = &plan[half]->graph->ops.items[i];
            if (op->kind != PLM_OP_LINEAR)
                continue;
            cost[half] = plm__op_cost(&profile, plan[half]->graph, op);
            longest[half] = plm__op_ideal_seconds(&profile, plan[half]->graph, op);
        }
        plm_plan_destroy(plan[half]);
    }
    assert_int_equal(cost[0], (int64_t)((longest[0] / 0.5 + 1e-6) * 1e9));
    assert_int_equal(cost[1], (int64_t)((longest[1] / 0.125 + 1e-6) * 1e9));
}

/* K micro-batches are one first and K - 1 next. */
static void a_step_is_its_schedule(void **state)
{
    (void)state;
    plm_device_profile profile = some_profile();
    fake_device device = fake_device_make(0, 0);
    plm_device_use_profile(&device.head, &profile);
    plm_plan *plan = plan_of(MODEL, 8, 2, PLM_ATTENTION_FUSED, &device);
    static const int64_t runs[PLM_PROGRAM_COUNT] = {
        [PLM_PROGRAM_FIRST] = 1, [PLM_PROGRAM_NEXT] = 3, [PLM_PROGRAM_UPDATE] = 1};
    int64_t cost = 0;
    for (int p = 0; p < PLM_PROGRAM_COUNT; p++)
        for (int64_t i = plan->graph->programs[p].begin; i < plan->graph->programs[p].end; i++)
            cost += runs[p] * plm__op_cost(&profile, plan->graph, &plan->graph->ops.items[i]);
    plm_plan_summary summary = plm_plan_summarize(plan);
    plm_plan_destroy(plan);
    assert_int_equal(summary.step_cost, cost);
    assert_true(summary.step_seconds == (double)cost / PLM_COSTS_A_SECOND);
}

static void without_a_profile_there_are_no_seconds(void **state)
{
    (void)state;
    fake_device device = fake_device_make(0, 0);
    plm_plan *plan = plan_of(MODEL, B, B, PLM_ATTENTION_FUSED, &device);
    assert_true(plm_plan_summarize(plan).step_seconds == 0);
    assert_true(plm_plan_summarize(plan).step_cost > 0);
    plm_plan_destroy(plan);
}

/* ---- files --------------------------------------------------------------------------------- */

static void a_profile_comes_back_from_its_file(void **state)
{
    (void)state;
    char folder[SCRATCH_BYTES], path[SCRATCH_BYTES + 32];
    plm_device_profile profile = some_profile(), read = {0};
    assert_true(scratch_folder(folder));
    snprintf(path, sizeof path, "%s/device.json", folder);
    assert_ok(plm_device_profile_save(&profile, path));
    assert_ok(plm_device_profile_load(path, &read));
    assert_memory_equal(&read, &profile, sizeof read);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(plm_device_profile_load(path, &read), PLM_ERROR_IO);
}

#define GOOD                                                                                       \
    "\"name\":\"x\",\"product_flops\":{\"fp32\":1e9},\"bandwidth\":1e9,\"launch_seconds\":0"

static void bad_profiles_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
        plm_status status;
    } cases[] = {
        {"{", "not valid JSON", PLM_ERROR_FORMAT},
        {"[]", "one JSON object", PLM_ERROR_FORMAT},
        {"{}", "lacks name", PLM_ERROR_ARGUMENT},
        {"{\"name\":\"x\"}", "lacks product_flops", PLM_ERROR_ARGUMENT},
        {"{\"name\":\"x\",\"product_flops\":{\"bf16\":1},\"bandwidth\":1,\"launch_seconds\":0}",
         "lacks product_flops of fp32", PLM_ERROR_ARGUMENT},
        {"{\"name\":\"x\",\"product_flops\":{\"fp32\":1},\"launch_seconds\":0}", "lacks bandwidth",
         PLM_ERROR_ARGUMENT},
        {"{" GOOD ",\"speed\":1}", "unknown field 'speed'", PLM_ERROR_ARGUMENT},
        {"{" GOOD ",\"threads\":1.5}", "threads as a whole number", PLM_ERROR_ARGUMENT},
        {"{" GOOD ",\"memory_bytes\":-1}", "memory_bytes as a whole number", PLM_ERROR_ARGUMENT},
        {"{" GOOD ",\"efficiency\":{\"linear\":0}}", "linear as a number over 0",
         PLM_ERROR_ARGUMENT},
        {"{" GOOD ",\"efficiency\":{\"magic\":1}}", "unknown operation 'magic'",
         PLM_ERROR_ARGUMENT},
        {"{" GOOD ",\"efficiency\":{\"bf16\":{\"fp16\":{}}}}", "unknown operation 'fp16'",
         PLM_ERROR_ARGUMENT},
        {"{" GOOD ",\"efficiency\":{\"bf16\":0.5}}", "efficiency as an object", PLM_ERROR_ARGUMENT},
        {"{" GOOD ",\"efficiency\":[]}", "efficiency as an object", PLM_ERROR_ARGUMENT},
        {"{" GOOD ",\"sources\":{\"weather\":\"x\"}}", "unknown field 'weather'",
         PLM_ERROR_ARGUMENT},
        {"{" GOOD ",\"sources\":{\"bandwidth\":1}}", "source of bandwidth", PLM_ERROR_ARGUMENT},
        {"{" GOOD ",\"sources\":\"a friend\"}", "sources as an object", PLM_ERROR_ARGUMENT},
        {"{" GOOD ",\"kind\":\"tpu\"}", "kind \"cpu\" or \"cuda\", found 'tpu'",
         PLM_ERROR_ARGUMENT},
        {"{" GOOD ",\"kind\":1}", "found 'no text'", PLM_ERROR_ARGUMENT},
        {"{" GOOD ",\"memory_bytes\":20000000,\"overhead_bytes\":20000000}", "fills the memory",
         PLM_ERROR_ARGUMENT},
        {"{" GOOD ",\"overhead_bytes\":\"500 MB\"}", "overhead_bytes as a whole number",
         PLM_ERROR_ARGUMENT},
        {"{\"name\":\"x\",\"product_flops\":{\"fp32\":1},\"bandwidth\":1}", "lacks launch_seconds",
         PLM_ERROR_ARGUMENT},
        {"{\"name\":\"x\",\"product_flops\":{\"fp32\":1},\"bandwidth\":-1,\"launch_seconds\":0}",
         "bandwidth as a number over 0", PLM_ERROR_ARGUMENT},
        {"{\"name\":\"x\",\"product_flops\":{\"fp32\":1},\"bandwidth\":1,\"launch_seconds\":-1}",
         "launch_seconds as a number of 0 or more", PLM_ERROR_ARGUMENT},
        {"{\"name\":7,\"product_flops\":{\"fp32\":1},\"bandwidth\":1,\"launch_seconds\":0}",
         "name as a text", PLM_ERROR_ARGUMENT},
        {"{\"name\":\"x\",\"product_flops\":{\"fp9\":1},\"bandwidth\":1,\"launch_seconds\":0}",
         "unknown type 'fp9'", PLM_ERROR_ARGUMENT},
        {"{\"name\":\"x\",\"product_flops\":{\"fp32\":0},\"bandwidth\":1,\"launch_seconds\":0}",
         "fp32 as a number over 0", PLM_ERROR_ARGUMENT},
    };
    plm_device_profile profile = some_profile(), before = profile;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_error error;
        assert_int_equal(
            plm__device_profile_read("test", cases[i].text, strlen(cases[i].text), &profile),
            cases[i].status);
        plm_error_get(&error);
        if (!strstr(error.message, cases[i].wanted))
            fail_msg("wanted '%s' in '%s'", cases[i].wanted, error.message);
        assert_memory_equal(&profile, &before, sizeof profile);
    }
    assert_ok(plm__device_profile_read("test", "{" GOOD "}", strlen("{" GOOD "}"), &profile));
}

/* A figure at its bound and one beyond it, in a profile that is good but for that. */
static void figures_of_no_device_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after, *within, *beyond, *wanted;
    } cases[] = {
        {"\"product_flops\":{\"fp32\":", "},\"bandwidth\":1e9,\"launch_seconds\":0", "1e18",
         "1.1e18", "wanted product_flops of 1e+06 to 1e+18, found 1.1e+18"},
        {"\"product_flops\":{\"fp32\":", "},\"bandwidth\":1e9,\"launch_seconds\":0", "1e6", "9.9e5",
         "product_flops"},
        {"\"product_flops\":{\"fp32\":1e9,\"bf16\":", "},\"bandwidth\":1e9,\"launch_seconds\":0",
         "1e18", "1e300", "product_flops"},
        {"\"product_flops\":{\"fp32\":1e9},\"bandwidth\":", ",\"launch_seconds\":0", "1e18",
         "1.1e18", "bandwidth"},
        {"\"product_flops\":{\"fp32\":1e9},\"bandwidth\":", ",\"launch_seconds\":0", "1e6", "9.9e5",
         "bandwidth"},
        {"\"product_flops\":{\"fp32\":1e9},\"bandwidth\":1e9,\"launch_seconds\":", "", "1", "1.01",
         "launch_seconds"},
        {GOOD ",\"efficiency\":{\"linear\":", "}", "1e3", "1.1e3", "efficiency"},
        {GOOD ",\"efficiency\":{\"linear\":", "}", "1e-6", "9e-7", "efficiency"},
        {GOOD ",\"efficiency\":{\"bf16\":{\"linear\":", "}}", "1e3", "1e9", "efficiency"},
        {GOOD ",\"memory_bytes\":", "", "16777216", "16777215", "memory_bytes"},
        {GOOD ",\"memory_bytes\":", "", "1125899906842624", "1125899906842625", "memory_bytes"},
        {GOOD ",\"memory_bytes\":", "", "0", "9223372036854775807", "memory_bytes"},
        {GOOD ",\"kind\":\"cuda\",\"memory_bytes\":", "", "16777216", "0", "memory_bytes"},
        {GOOD ",\"overhead_bytes\":", "", "1125899906842624", "1125899906842625", "overhead_bytes"},
    };
    plm_device_profile profile;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int beyond = 0; beyond < 2; beyond++) {
            char text[320];
            plm_error error;
            snprintf(text, sizeof text, "{%s%s%s%s}",
                     strncmp(cases[i].before, GOOD, 8) == 0 ? "" : "\"name\":\"x\",",
                     cases[i].before, beyond ? cases[i].beyond : cases[i].within, cases[i].after);
            plm_status status = plm__device_profile_read("test", text, strlen(text), &profile);
            plm_error_get(&error);
            if (status != (beyond ? PLM_ERROR_ARGUMENT : PLM_OK) ||
                (beyond && !strstr(error.message, cases[i].wanted)))
                fail_msg("%s: %s, '%s'", text, plm_status_name(status), error.message);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_by_hand),
        cmocka_unit_test(plain_attention_does_the_same_products_in_steps),
        cmocka_unit_test(the_cost_is_the_slower_of_computing_and_moving),
        cmocka_unit_test(without_a_profile_costs_are_in_proportion),
        cmocka_unit_test(an_efficiency_of_its_type_goes_before_that_of_all),
        cmocka_unit_test(a_step_is_its_schedule),
        cmocka_unit_test(without_a_profile_there_are_no_seconds),
        cmocka_unit_test(a_profile_comes_back_from_its_file),
        cmocka_unit_test(bad_profiles_are_refused_by_name),
        cmocka_unit_test(figures_of_no_device_are_refused),
    };
    return run_test_group(tests);
}
