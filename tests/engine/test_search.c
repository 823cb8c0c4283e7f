/* SPDX-License-Identifier: MIT */
/*
 * The search: prices against plans made for themselves, the choice against every strategy that
 * could have been chosen, order over budgets, and random strategies run on the CPU.
 */
#include <math.h>

#include "base/philox.h"
#include "plan/plan.h"
#include "plan/search_internal.h"
#include "plimsoll/advice.h"
#include "plimsoll/device_profile.h"
#include "plan/search.h"
#include "engine/fake_plan.h"
#include "engine/small_run.h"
#include "graph/strategy.h"

#define SMALL "gpt:layers=5,width=32,heads=2,context=16,vocab=200,dropout=0.1"

enum { OVERHEAD_BYTES = 4096, RUNGS = 6 };

static const char *const rung_texts[RUNGS] = {"none", "act",           "norm",
                                              "mlp",  "mlp+attention", "block"};

typedef struct shop {
    plm_model model;
    plm_job job;
    fake_device device;
} shop;

static void shop_open(shop *s, const char *description, int64_t batch, size_t product_bytes)
{
    assert_ok(plm_model_parse(description, &s->model));
    s->job = job_of(&s->model, batch, s->model.context);
    s->job.generates = !plm_model_is_masked(&s->model);
    s->device = fake_device_make(product_bytes, OVERHEAD_BYTES);
}

static plm_strategy open_strategy(void)
{
    plm_strategy strategy = plm_strategy_default();
    strategy.head_chunks = strategy.mlp_chunks = 0;
    strategy.recompute = PLM_RECOMPUTE_AUTO;
    return strategy;
}

static plm_strategy uniform(int64_t micro_batch, int64_t chunks, int64_t mlp_chunks, int rung,
                            plm_attention_form form)
{
    plm_strategy strategy = strategy_of(micro_batch, form);
    strategy.head_chunks = chunks;
    strategy.mlp_chunks = mlp_chunks;
    assert_ok(plm__recompute_parse(rung_texts[rung], &strategy.recompute));
    return strategy;
}

/* A repeatable number in [0, below). */
static int pick(uint64_t *counter, int below)
{
    return (int)(plm__philox_at(11, 0, 0, (*counter)++).word[0] % (uint32_t)below);
}

enum { UNEVEN_BLOCKS = 7 };

/* Blocks of four kinds: each has an MLP of its own width, two have no attention. */
static plm_tensor uneven_product(plm_graph *g, const char *name, plm_tensor x, int64_t out,
                                 int64_t in)
{
    plm_tensor weight =
        plm_parameter(g, name, 2, (int64_t[]){out, in}, plm_init_normal(0.1f), true);
    return plm_linear(g, x, weight, PLM_TENSOR_NONE);
}

static void build_uneven(plm_graph *g, const void *config, plm_program program, int64_t batch,
                         int64_t sequence)
{
    enum { WIDTH = 32, VOCAB = 40 };
    (void)config, (void)program;
    plm_tensor tokens = plm_input(g, "tokens", 2, (int64_t[]){batch, sequence});
    plm_tensor targets = plm_input(g, "targets", 2, (int64_t[]){batch, sequence});
    plm_tensor table =
        plm_parameter(g, "table", 2, (int64_t[]){VOCAB, WIDTH}, plm_init_normal(0.1f), true);
    plm_tensor x = plm_embedding(g, tokens, table);
    for (int32_t i = 0; i < plm_blocks(g, UNEVEN_BLOCKS); i++) {
        int64_t wide = WIDTH << (i % 3 + 1);
        plm_block(g, i);
        if (i % 2) {
            plm_tensor seen = uneven_product(g, "qkv", x, 3 * WIDTH, WIDTH);
            x = plm_add(g, x, plm_attention(g, seen, 2, 2, true));
        }
        plm_tensor bent = plm_gelu(g, uneven_product(g, "up", x, wide, WIDTH));
        x = plm_add(g, x, uneven_product(g, "down", bent, WIDTH, wide));
    }
    plm_layer(g, "head");
    plm_cross_entropy(g, plm_linear(g, x, table, PLM_TENSOR_NONE), targets);
}

/* ---- prices -------------------------------------------------------------------------------- */

/* The same of the first blocks and a frame, made as a search makes it. */
static void check_few_blocks(shop *s, const plm_strategy whole[3], int32_t split, size_t bound,
                             int64_t cost)
{
    plm__price_frame frame;
    plm__price price[3] = {0};
    plm_job job = s->job;
    plm_strategy strategy = whole[0];
    job.batch = strategy.micro_batch = 1;
    strategy.head_chunks = strategy.mlp_chunks = 1;
    job.evaluates = job.generates = false;
    assert_ok(plm__price_frame_make(&job, &strategy, &s->device.head, &frame));
    assert_int_equal(frame.alike, s->model.layers > PLM__BLOCKS_PRICED);
    for (int i = 0; i < 3; i++)
        assert_ok(plm__price_make(&s->job, &whole[i], &s->device.head, &frame, &price[i]));
    size_t few_bound;
    int64_t few_cost;
    assert_int_equal(plm__price_blocks(&price[0]), s->model.layers);
    plm__price_mix(&price[0], &price[1], &price[2], split, &few_bound, &few_cost);
    assert_int_equal(few_bound, bound);
    assert_int_equal(few_cost, cost);
    for (int i = 0; i < 3; i++)
        plm__price_fini(&price[i]);
}

static void check_mixture(shop *s, uint64_t *counter)
{
    static const int64_t micro_batches[] = {1, 2, 4, 8}, mlp_counts[] = {1, 4, 16};
    int64_t micro = micro_batches[pick(counter, 4)], chunks = 1 << pick(counter, 4);
    int first = pick(counter, RUNGS), later = pick(counter, RUNGS);
    int32_t split = pick(counter, (int)s->model.layers + 1);
    plm_attention_form form = (plm_attention_form)pick(counter, 2);
    int64_t mlp = mlp_counts[pick(counter, 3)];
    plm_strategy whole[3] = {uniform(micro, chunks, 1, 0, form),
                             uniform(micro, 1, mlp, first, form),
                             uniform(micro, 1, mlp, later, form)};
    plm__price price[3] = {0};
    for (int i = 0; i < 3; i++)
        assert_ok(plm__price_make(&s->job, &whole[i], &s->device.head, NULL, &price[i]));
    size_t bound;
    int64_t cost;
    plm__price_mix(&price[0], &price[1], &price[2], split, &bound, &cost);
    check_few_blocks(s, whole, split, bound, cost);
    plm_strategy mixed = whole[0];
    mixed.mlp_chunks = mlp;
    mixed.recompute_count = (int32_t)s->model.layers;
    for (int32_t i = 0; i < mixed.recompute_count; i++)
        mixed.recompute_of[i] = i < split ? whole[1].recompute : whole[2].recompute;
    plm_plan *plan = NULL;
    assert_ok(plm_plan_create(&s->job, &mixed, &s->device.head, &plan));
    plm_plan_summary summary = plm_plan_summarize(plan);
    if (bound != summary.lower_bound_bytes + OVERHEAD_BYTES)
        print_error(
            "%s, micro-batch %d, %d and %d chunks, %s attention, %s in %d blocks, then %s\n",
            s->model.name, (int)micro, (int)chunks, (int)mlp, plm_attention_text(form),
            rung_texts[first], split, rung_texts[later]);
    assert_int_equal(bound, summary.lower_bound_bytes + OVERHEAD_BYTES);
    assert_int_equal(cost, summary.step_cost);
    plm_plan_destroy(plan);
    for (int i = 0; i < 3; i++)
        plm__price_fini(&price[i]);
}

static void a_price_is_the_plans_own_bound_and_cost(void **state)
{
    (void)state;
    static const char *const models[] = {
        SMALL, "gpt:layers=3,width=24,heads=3,context=33,vocab=40",
        "bert:layers=7,width=32,heads=4,context=16,vocab=100,dropout=0.1"};
    uint64_t counter = 0;
    plm_device_table with_slots = fake_device_table;
    with_slots.has_copy_queue = true;
    for (int i = 0; i < 150; i++) {
        shop s;
        shop_open(&s, models[i % 3], 8, i % 2 ? 100000 : 0);
        if (i % 4 > 1)
            s.device.head.table = &with_slots;
        check_mixture(&s, &counter);
    }
}

static void blocks_that_differ_are_all_looked_at(void **state)
{
    (void)state;
    shop s;
    plm__price_frame frame;
    plm__price price;
    plm_strategy strategy = uniform(1, 1, 1, 0, PLM_ATTENTION_FUSED);
    shop_open(&s, SMALL, 1, 0);
    s.job.network = (plm_network){build_uneven, NULL};
    s.job.evaluates = s.job.generates = false;
    assert_ok(plm__price_frame_make(&s.job, &strategy, &s.device.head, &frame));
    assert_false(frame.alike);
    assert_ok(plm__price_make(&s.job, &strategy, &s.device.head, &frame, &price));
    assert_int_equal(price.blocks, UNEVEN_BLOCKS);
    plm__price_fini(&price);
}

/* Calls of a network's function, and how many of them built all of its blocks. */
typedef struct builds {
    plm_network network;
    int calls, whole;
} builds;

static void build_counted(plm_graph *g, const void *config, plm_program program, int64_t batch,
                          int64_t sequence)
{
    builds *counted = (builds *)config;
    counted->network.build(g, counted->network.config, program, batch, sequence);
    counted->calls++;
    counted->whole += plm_blocks(g, 1000) == 1000;
}

/* A thousand blocks are tens of thousands of operations, and prices are made from a hundred plans.
 */
static void a_search_builds_all_of_a_thousand_blocks_once(void **state)
{
    (void)state;
    shop s;
    plm_search *search = NULL;
    plm_strategy strategy = open_strategy();
    shop_open(&s, "gpt:layers=1000,width=8,heads=1,context=8,vocab=16", 4, 0);
    builds counted = {.network = s.job.network};
    s.job.network = (plm_network){build_counted, &counted};
    assert_ok(plm__search_create(&s.job, &strategy, &s.device.head, &search));
    assert_true(counted.calls > 100);
    assert_int_equal(counted.whole, 1);
    plm__search_destroy(search);
}

/* ---- the choice ---------------------------------------------------------------------------- */

static void check_monotone(plm_attention_form attention)
{
    shop s;
    plm_search *search = NULL;
    plm_plan *plan = NULL;
    size_t smallest;
    plm_strategy strategy = open_strategy();
    strategy.attention = attention;
    shop_open(&s, SMALL, 12, 10000);
    assert_ok(plm__search_create(&s.job, &strategy, &s.device.head, &search));
    assert_ok(plm__search_smallest(search, &smallest));
    assert_ok(plm__search_plan(search, SIZE_MAX, &plan));
    plm_plan_summary before = {.step_cost = INT64_MAX}, most = plm_plan_summarize(plan);
    plm_plan_destroy(plan);
    int different = 0;
    for (int i = 0; i <= 100; i++) {
        size_t budget = smallest + (2 * most.peak_bytes - smallest) / 100 * (size_t)i;
        assert_ok(plm__search_plan(search, budget, &plan));
        plm_plan_summary now = plm_plan_summarize(plan);
        plm_plan_destroy(plan);
        assert_true(now.peak_bytes <= budget);
        assert_true(now.peak_bytes >= before.peak_bytes);
        assert_true(now.step_cost <= before.step_cost);
        different += now.peak_bytes != before.peak_bytes;
        before = now;
    }
    assert_int_equal(before.peak_bytes, most.peak_bytes);
    assert_true(different >= 10);
    plm__search_destroy(search);
}

static void a_smaller_budget_never_gives_a_larger_peak_or_a_faster_step(void **state)
{
    (void)state;
    check_monotone(PLM_ATTENTION_FUSED);
    check_monotone(PLM_ATTENTION_AUTO);
}

/* Every strategy that has one choice for all blocks, beside what is chosen of a network: that of
 * the shop, or blocks that differ. */
static void check_choice(plm_attention_form attention, bool uneven)
{
    shop s;
    plm_plan *chosen = NULL;
    plm_strategy strategy = open_strategy();
    strategy.attention = attention;
    int forms = attention == PLM_ATTENTION_AUTO ? 2 : 1;
    shop_open(&s, SMALL, 4, 10000);
    if (uneven) {
        s.job.network = (plm_network){build_uneven, NULL};
        s.job.generates = false;
    }
    size_t budgets[] = {SIZE_MAX, 0, 0};
    assert_ok(
        plm_plan_for_budget(&s.job, &strategy, &s.device.head, SIZE_MAX, &budgets[1], &chosen));
    budgets[2] = budgets[1] / 2 + plm_plan_summarize(chosen).peak_bytes / 2;
    plm_plan_destroy(chosen);
    for (int b = 0; b < 3; b++) {
        assert_ok(
            plm_plan_for_budget(&s.job, &strategy, &s.device.head, budgets[b], NULL, &chosen));
        plm_plan_summary best = plm_plan_summarize(chosen);
        plm_plan_destroy(chosen);
        for (int i = 0; i < 3 * 6 * RUNGS * 3 * forms; i++) {
            plm_plan *plan = NULL;
            plm_strategy other =
                uniform(1 << i % 3, 1 << i / 3 % 6, 1 << i / 18 % 3 * 2, i / 54 % RUNGS,
                        i < 54 * RUNGS ? PLM_ATTENTION_FUSED : PLM_ATTENTION_PLAIN);
            if (other.head_chunks > other.micro_batch * s.job.sequence)
                continue;
            assert_ok(plm_plan_create(&s.job, &other, &s.device.head, &plan));
            plm_plan_summary found = plm_plan_summarize(plan);
            plm_plan_destroy(plan);
            if (found.peak_bytes <= budgets[b])
                assert_true(found.step_cost >= best.step_cost);
            assert_true(found.peak_bytes >= budgets[1]);
        }
    }
}

static void nothing_that_fits_is_faster_than_the_choice(void **state)
{
    (void)state;
    check_choice(PLM_ATTENTION_FUSED, false);
    if (SANITIZED)
        return;
    check_choice(PLM_ATTENTION_AUTO, false);
    check_choice(PLM_ATTENTION_FUSED, true);
}

static void open_attention_is_the_faster_form_that_fits(void **state)
{
    (void)state;
    shop s;
    plm_device_profile profile = {.name = "some", .bandwidth = 1e12, .launch_seconds = 1e-9};
    profile.product_flops[PLM_DTYPE_F32] = 1e10;
    shop_open(&s, SMALL, 4, 0);
    plm_device_use_profile(&s.device.head, &profile);
    for (int slow = 0; slow < 2; slow++) {
        plm_plan *plan = NULL;
        plm_strategy strategy = open_strategy();
        size_t smallest;
        strategy.attention = PLM_ATTENTION_AUTO;
        profile.efficiency[PLM_OP_ATTENTION_GRAD] = slow ? 0.01 : 1;
        profile.efficiency[PLM_OP_SOFTMAX_GRAD] = slow ? 1 : 0.001;
        assert_ok(
            plm_plan_for_budget(&s.job, &strategy, &s.device.head, SIZE_MAX, &smallest, &plan));
        assert_int_equal(plm_plan_summarize(plan).strategy.attention,
                         slow ? PLM_ATTENTION_PLAIN : PLM_ATTENTION_FUSED);
        plm_plan_destroy(plan);
        assert_ok(plm_plan_for_budget(&s.job, &strategy, &s.device.head, smallest, NULL, &plan));
        assert_int_equal(plm_plan_summarize(plan).strategy.attention, PLM_ATTENTION_FUSED);
        plm_plan_destroy(plan);
    }
}

static void the_smallest_budget_suffices_and_a_byte_less_does_not(void **state)
{
    (void)state;
    shop s;
    plm_plan *plan = NULL;
    plm_error error;
    size_t smallest;
    plm_strategy strategy = open_strategy();
    shop_open(&s, SMALL, 8, 10000);
    assert_int_equal(plm_plan_for_budget(&s.job, &strategy, &s.device.head, 1000, &smallest, &plan),
                     PLM_ERROR_BUDGET);
    assert_null(plan);
    assert_ok(plm_plan_for_budget(&s.job, &strategy, &s.device.head, smallest, NULL, &plan));
    assert_int_equal(plm_plan_summarize(plan).peak_bytes, smallest);
    plm_plan_destroy(plan);
    plan = NULL;
    assert_int_equal(
        plm_plan_for_budget(&s.job, &strategy, &s.device.head, smallest - 1, NULL, &plan),
        PLM_ERROR_BUDGET);
    plm_error_get(&error);
    assert_int_equal(error.oom.asked_bytes, smallest);
}

static void what_is_fixed_stays_fixed(void **state)
{
    (void)state;
    shop s;
    size_t smallest;
    plm_plan *plan = NULL;
    shop_open(&s, SMALL, 8, 0);
    for (int fixed = 0; fixed < 8; fixed++) {
        plm_strategy strategy = open_strategy();
        strategy.micro_batch = fixed & 1 ? 4 : 0;
        strategy.head_chunks = fixed & 2 ? 4 : 0;
        strategy.mlp_chunks = fixed & 2 ? 3 : 0;
        strategy.recompute = fixed & 4 ? PLM_RECOMPUTE_ACT : PLM_RECOMPUTE_AUTO;
        assert_ok(
            plm_plan_for_budget(&s.job, &strategy, &s.device.head, SIZE_MAX, &smallest, &plan));
        plm_plan_destroy(plan);
        assert_ok(plm_plan_for_budget(&s.job, &strategy, &s.device.head, smallest, NULL, &plan));
        plm_strategy chosen = plm_plan_summarize(plan).strategy;
        plm_plan_destroy(plan);
        assert_int_equal(chosen.micro_batch, fixed & 1 ? 4 : 1);
        if (fixed & 2)
            assert_true(chosen.head_chunks == 4 && chosen.mlp_chunks == (fixed & 4 ? 1 : 3));
        for (int32_t i = 0; i < 5; i++)
            if (fixed & 4)
                assert_int_equal(plm__strategy_recompute(&chosen, i), PLM_RECOMPUTE_ACT);
    }
}

/* One sequence has 16 rows, and is not cut into 32; what has fewer rows than chunks is no choice.
 */
static void micro_batches_with_fewer_rows_than_chunks_are_left_out(void **state)
{
    (void)state;
    shop s;
    plm_plan *plan = NULL;
    size_t smallest;
    shop_open(&s, SMALL, 8, 0);
    for (int head = 0; head < 2; head++) {
        plm_strategy strategy = open_strategy();
        int64_t *chunks = head ? &strategy.head_chunks : &strategy.mlp_chunks;
        *chunks = 32;
        assert_ok(
            plm_plan_for_budget(&s.job, &strategy, &s.device.head, SIZE_MAX, &smallest, &plan));
        plm_plan_destroy(plan);
        assert_ok(plm_plan_for_budget(&s.job, &strategy, &s.device.head, smallest, NULL, &plan));
        assert_int_equal(plm_plan_summarize(plan).strategy.micro_batch, 2);
        plm_plan_destroy(plan);
        plan = NULL;
        *chunks = 8 * 16 + 1;
        assert_int_equal(
            plm_plan_for_budget(&s.job, &strategy, &s.device.head, SIZE_MAX, NULL, &plan),
            PLM_ERROR_ARGUMENT);
    }
}

static void extents_that_cannot_be_counted_are_refused(void **state)
{
    (void)state;
    shop s;
    plm_search *search = NULL;
    plm_strategy strategy = open_strategy();
    shop_open(&s, SMALL, 8, 0);
    s.job.sequence = INT64_MAX / 2;
    assert_int_equal(plm__search_create(&s.job, &strategy, &s.device.head, &search),
                     PLM_ERROR_ARGUMENT);
    s.job.sequence = 16;
    static const int64_t wrong[] = {-1, 3, INT64_MAX / 2};
    for (int i = 0; i < 3; i++) {
        strategy.micro_batch = wrong[i];
        assert_int_equal(plm__search_create(&s.job, &strategy, &s.device.head, &search),
                         PLM_ERROR_ARGUMENT);
    }
    assert_null(search);
}

/* What is advised where nothing fits, by a strategy whose precision is open or not. */
static plm_advice *advice_for(shop *s, plm_device *device, plm_dtype precision)
{
    plm_advice *advice = NULL;
    plm_strategy strategy = open_strategy();
    strategy.precision = precision;
    assert_ok(plm_advise(&s->job, &strategy, device, 1000, &advice));
    return advice;
}

static void an_open_precision_is_advised_as_the_devices_own(void **state)
{
    (void)state;
    shop s;
    plm_device *device = NULL;
    plm_device_profile profile;
    shop_open(&s, SMALL, 1, 0);
    assert_ok(plm_device_profile_find("h200", &profile));
    assert_ok(plm_device_create_target(&profile, &device));
    plm_advice *open = advice_for(&s, device, PLM_PRECISION_AUTO);
    plm_advice *fixed = advice_for(&s, device, PLM_DTYPE_BF16);
    assert_true(open->alternative_count > 2);
    assert_int_equal(open->alternative_count, fixed->alternative_count);
    for (int i = 0; i < open->alternative_count; i++)
        assert_string_equal(open->alternatives[i].what, fixed->alternatives[i].what);
    plm_advice_destroy(open);
    plm_advice_destroy(fixed);
    plm_device_destroy(device);
}

static void an_open_strategy_is_not_planned_as_it_stands(void **state)
{
    (void)state;
    shop s;
    plm_plan *plan = NULL;
    plm_strategy strategy = open_strategy();
    strategy.micro_batch = 1;
    shop_open(&s, SMALL, 8, 0);
    assert_int_equal(plm_plan_create(&s.job, &strategy, &s.device.head, &plan), PLM_ERROR_ARGUMENT);
    strategy.recompute = PLM_RECOMPUTE_NONE;
    assert_int_equal(plm_plan_create(&s.job, &strategy, &s.device.head, &plan), PLM_ERROR_ARGUMENT);
    strategy.head_chunks = 1;
    strategy.attention = PLM_ATTENTION_AUTO;
    assert_int_equal(plm_plan_create(&s.job, &strategy, &s.device.head, &plan), PLM_ERROR_ARGUMENT);
    strategy.attention = PLM_ATTENTION_FUSED;
    strategy.mlp_chunks = 1;
    strategy.precision = PLM_PRECISION_AUTO;
    plm_error error;
    assert_int_equal(plm_plan_create(&s.job, &strategy, &s.device.head, &plan), PLM_ERROR_ARGUMENT);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "choices are made"));
}

static void a_micro_batch_or_length_beyond_counting_is_refused_before_it_is_priced(void **state)
{
    (void)state;
    static const int64_t beyond[] = {3, 16, INT64_MAX, -1, INT64_MIN};
    shop s;
    plm_plan *plan = NULL;
    plm_strategy strategy = open_strategy();
    shop_open(&s, SMALL, 8, 0);
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        strategy.micro_batch = beyond[i];
        assert_int_equal(
            plm_plan_for_budget(&s.job, &strategy, &s.device.head, SIZE_MAX, NULL, &plan),
            PLM_ERROR_ARGUMENT);
    }
    strategy.micro_batch = 8;
    s.job.sequence = INT64_MAX;
    assert_int_equal(plm_plan_for_budget(&s.job, &strategy, &s.device.head, SIZE_MAX, NULL, &plan),
                     PLM_ERROR_ARGUMENT);
    assert_null(plan);
}

static void the_chosen_strategy_as_json_is_the_same_plan(void **state)
{
    (void)state;
    shop s;
    size_t smallest;
    plm_plan *plan = NULL, *again = NULL;
    plm_strategy strategy = open_strategy(), read;
    shop_open(&s, SMALL, 8, 0);
    assert_ok(plm_plan_for_budget(&s.job, &strategy, &s.device.head, SIZE_MAX, &smallest, &plan));
    size_t most = plm_plan_summarize(plan).peak_bytes;
    plm_plan_destroy(plan);
    for (int i = 0; i < 10; i++) {
        char *line = NULL;
        size_t budget = smallest + (most - smallest) / 10 * (size_t)i;
        assert_ok(plm_plan_for_budget(&s.job, &strategy, &s.device.head, budget, NULL, &plan));
        plm_plan_summary summary = plm_plan_summarize(plan);
        plm_plan_destroy(plan);
        assert_ok(plm_strategy_json(&summary.strategy, &line));
        assert_ok(plm_strategy_read("line", line, strlen(line), &read));
        plm_free(line);
        assert_ok(plm_plan_create(&s.job, &read, &s.device.head, &again));
        assert_int_equal(plm_plan_summarize(again).peak_bytes, summary.peak_bytes);
        assert_int_equal(plm_plan_summarize(again).step_cost, summary.step_cost);
        plm_plan_destroy(again);
    }
}

static plm_status search_small(void *context)
{
    shop *s = context;
    plm_plan *plan = NULL;
    plm_strategy strategy = open_strategy();
    size_t smallest;
    plm_status status =
        plm_plan_for_budget(&s->job, &strategy, &s->device.head, SIZE_MAX, &smallest, &plan);
    plm_plan_destroy(plan);
    return status;
}

static void every_allocation_of_a_search_may_fail(void **state)
{
    (void)state;
    shop s;
    shop_open(&s, "gpt:layers=1,width=8,heads=1,context=2,vocab=8", 1, 0);
    sweep_failures(search_small, &s);
}

/* ---- random strategies, run ---------------------------------------------------------------- */

enum { STEPS = 20 };

/* Gradients that add up want fp32; an early update sees no norm and no loss scale. */
static void draw_state(uint64_t *counter, small_shape *shape)
{
    static const plm_dtype precisions[] = {PLM_DTYPE_F32, PLM_DTYPE_BF16, PLM_DTYPE_F16};
    bool narrow = pick(counter, 2), early = pick(counter, 2);
    shape->precision = precisions[pick(counter, 3)];
    if (shape->micro_batch < shape->batch)
        return;
    if (narrow && shape->precision == PLM_DTYPE_BF16) {
        shape->gradient = PLM_DTYPE_BF16;
        shape->head_chunks = shape->mlp_chunks = 1;
    }
    if (early && shape->precision != PLM_DTYPE_F16)
        shape->update = PLM_UPDATE_EARLY;
}

static void draw_shape(uint64_t *counter, small_shape *shape)
{
    *shape = (small_shape){.layers = 3,
                           .width = 16,
                           .heads = 2,
                           .context = 12,
                           .vocab = 30,
                           .batch = 4,
                           .micro_batch = 1 << pick(counter, 3),
                           .sequence = 12,
                           .dropout = pick(counter, 2) ? 0.1f : 0,
                           .attention = (plm_attention_form)pick(counter, 2),
                           .head_chunks = 1 + pick(counter, 5),
                           .mlp_chunks = 1 + pick(counter, 5),
                           .seed = 1};
    draw_state(counter, shape);
}

/* Opens a run whose blocks each have a choice of their own. */
static void open_mixed(small_run *run, const small_shape *shape, const char *const recompute[3])
{
    small_run_describe(run, shape);
    run->strategy.recompute_count = (int32_t)shape->layers;
    for (int i = 0; i < 3; i++)
        assert_ok(plm_strategy_recompute_parse(&run->strategy, recompute[i],
                                               &run->strategy.recompute_of[i]));
    assert_ok(plm_device_open("cpu", 1, 0, &run->device));
    assert_ok(plm_plan_create(&run->job, &run->strategy, run->device, &run->plan));
    assert_ok(plm_session_create(run->plan, run->device, shape->seed, &run->session));
    run->summary = plm_plan_summarize(run->plan);
}

/* Losses of the first updates, unclipped where they are early. */
static void run_steps(const small_run *run, const small_shape *shape, bool clips,
                      double losses[STEPS])
{
    small_window window;
    plm_hyper hyper = plm_hyper_default();
    if (!clips)
        hyper.clip_norm = 0;
    for (int step = 0; step < STEPS; step++) {
        plm_step_result result;
        small_window_fill(&window, shape->batch * shape->sequence, shape->vocab, (uint32_t)step);
        assert_ok(plm_session_step(run->session, step, &hyper, shape->batch, window.tokens,
                                   window.targets, &result));
        losses[step] = result.loss;
    }
}

/* Those of the plain run: fp32, the batch at once, nothing in chunks, nothing made again. */
static void run_plainly(const small_shape *shape, bool clips, double losses[STEPS])
{
    small_shape plain = *shape;
    small_run run;
    plain.micro_batch = plain.batch;
    plain.head_chunks = plain.mlp_chunks = 1;
    plain.attention = PLM_ATTENTION_FUSED;
    plain.precision = plain.gradient = PLM_DTYPE_F32;
    plain.update = PLM_UPDATE_LATE;
    small_run_open(&run, &plain);
    run_steps(&run, &plain, clips, losses);
    small_run_close(&run);
}

/*
 * How far a loss may be from the plain run's, in nats. A logit has gone through about 8 roundings a
 * block and 4 more to its type, which as independent errors add up as a root: sqrt(8 x 3 + 4) = 5.3
 * roundoffs of a logit, and logits are under 1 here. A loss has the error of one logit and of a
 * mean of others: twice that. As much again is for the walking apart of twenty updates.
 */
static double tolerance(plm_dtype precision)
{
    const double roundoff = precision == PLM_DTYPE_BF16  ? 0x1p-9
                            : precision == PLM_DTYPE_F16 ? 0x1p-12
                                                         : 0x1p-24;
    return 2 * 2 * 5.3 * roundoff;
}

/* Operations by name, alone, in sums and beside rungs. */
static const char *const name_texts[] = {
    "ln1",
    "attention.qkv",
    "mlp.up+gelu",
    "act+attention.qkv",
    "attention+ln2+mlp.up",
    "norm+attention.out+add",
    "ln1+attention.qkv+attention.out+add+ln2+mlp.up+gelu+mlp.down",
};

enum { NAMES = sizeof name_texts / sizeof *name_texts };

static void draw_recompute(uint64_t *counter, const char *recompute[3])
{
    for (int k = 0; k < 3; k++)
        recompute[k] =
            pick(counter, 3) ? rung_texts[pick(counter, RUNGS)] : name_texts[pick(counter, NAMES)];
}

static double furthest(const double a[STEPS], const double b[STEPS])
{
    double most = 0;
    for (int i = 0; i < STEPS; i++)
        most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

static void random_strategies_use_what_they_say_and_recompute_changes_no_bit(void **state)
{
    (void)state;
    uint64_t counter = 1000;
    double worst = 0, off[PLM_DTYPE_COUNT] = {0};
    static double plainly[2][2][STEPS]; /* by dropout and clipping */
    for (int i = 0; i < 4; i++) {
        small_shape shape;
        draw_shape(&counter, &shape);
        shape.dropout = i & 1 ? 0.1f : 0;
        run_plainly(&shape, i >> 1, plainly[i & 1][i >> 1]);
    }
    for (int i = 0; i < (SANITIZED ? 20 : 200); i++) {
        small_shape shape;
        small_run mixed, twin;
        plm_session_measure measure;
        double losses[STEPS], wanted[STEPS];
        const char *recompute[3];
        draw_shape(&counter, &shape);
        draw_recompute(&counter, recompute);
        bool clips = shape.update == PLM_UPDATE_LATE;
        open_mixed(&mixed, &shape, recompute);
        run_steps(&mixed, &shape, clips, losses);
        assert_ok(plm_session_measure_memory(mixed.session, &measure));
        assert_int_equal(measure.peak_bytes, mixed.summary.peak_bytes);
        assert_true(measure.last_granule_written);
        worst = fmax(worst, (double)mixed.summary.transient_bytes /
                                    (double)mixed.summary.transient_bound_bytes -
                                1);
        small_run_close(&mixed);
        open_mixed(&twin, &shape, (const char *[]){"none", "none", "none"});
        run_steps(&twin, &shape, clips, wanted);
        small_run_close(&twin);
        /* only an MLP that is made again runs in chunks, whose gradients add up in another order */
        if (shape.mlp_chunks == 1)
            assert_memory_equal(losses, wanted, sizeof losses);
        double apart = furthest(losses, plainly[shape.dropout > 0][clips]);
        off[shape.precision] = fmax(off[shape.precision], apart);
        assert_true(apart <= tolerance(shape.precision));
    }
    print_message("transient region at most %.3f %% above its bound; losses from the plain run's: "
                  "fp32 %.1e, bf16 %.1e, fp16 %.1e\n",
                  100 * worst, off[PLM_DTYPE_F32], off[PLM_DTYPE_BF16], off[PLM_DTYPE_F16]);
    assert_true(worst <= 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_price_is_the_plans_own_bound_and_cost),
        cmocka_unit_test(blocks_that_differ_are_all_looked_at),
        cmocka_unit_test(a_search_builds_all_of_a_thousand_blocks_once),
        cmocka_unit_test(a_smaller_budget_never_gives_a_larger_peak_or_a_faster_step),
        cmocka_unit_test(nothing_that_fits_is_faster_than_the_choice),
        cmocka_unit_test(open_attention_is_the_faster_form_that_fits),
        cmocka_unit_test(the_smallest_budget_suffices_and_a_byte_less_does_not),
        cmocka_unit_test(what_is_fixed_stays_fixed),
        cmocka_unit_test(micro_batches_with_fewer_rows_than_chunks_are_left_out),
        cmocka_unit_test(extents_that_cannot_be_counted_are_refused),
        cmocka_unit_test(an_open_precision_is_advised_as_the_devices_own),
        cmocka_unit_test(an_open_strategy_is_not_planned_as_it_stands),
        cmocka_unit_test(a_micro_batch_or_length_beyond_counting_is_refused_before_it_is_priced),
        cmocka_unit_test(the_chosen_strategy_as_json_is_the_same_plan),
        cmocka_unit_test(every_allocation_of_a_search_may_fail),
        cmocka_unit_test(random_strategies_use_what_they_say_and_recompute_changes_no_bit),
    };
    return run_test_group(tests);
}
